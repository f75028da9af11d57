"""Nothing of a client's data in a message: the server learns an error's class and its line."""

from __future__ import annotations

from functools import partial

import pytest

from flower_support.clients import node_with_airlock, serve_sites
from safle_flower import apps
from safle_flower.adapter import InProcessGrid

SECRET = "Erika Mustermann"
GOOD = "age,dose,label\n1,2,ill\n3,4,well\n"
TABLES = {
    "cell": (GOOD + f"5,{SECRET},ill\n", "TableError in line 4 of its table"),
    "header": (f"age,{SECRET},{SECRET}\n1,2,ill\n", "TableError"),
    "label": (GOOD + f"5,6,\n7,6,{SECRET}\n", "TableError in line 4 of its table"),
    "width": (GOOD + f"5,6,ill,{SECRET}\n", "TableError in line 4 of its table"),
    "column": (f"age,{SECRET}\n1,2\n", "TableError"),
}


class Listening(InProcessGrid):
    """Keeps every message that reaches the server."""

    def __init__(self, *given, heard=None) -> None:
        super().__init__(*given)
        self.heard = [] if heard is None else heard

    def pull_messages(self, message_ids):
        replies = [*super().pull_messages(message_ids)]
        self.heard += [repr((reply.metadata, reply.content)) for reply in replies]
        return replies


@pytest.mark.parametrize("place", TABLES)
def test_refused_table_names_its_line_and_no_content(federation, tmp_path, place):
    text, expected = TABLES[place]
    folder = tmp_path / SECRET
    folder.mkdir()
    (folder / "visits.csv").write_text(text)
    nodes = [
        node_with_airlock(tmp_path / "sites", "a", federation.table("a")),
        node_with_airlock(tmp_path / "sites", "b", folder / "visits.csv"),
    ]
    server = tmp_path / "server"
    report, grid = serve_sites(server, federation.encoder_path, nodes, kind=Listening)
    (row,) = [row for row in report.clients if row.client == "b"]
    assert (row.status, row.reason) == ("failed", f"{expected}; its own log says more")
    assert grid.heard
    held = [path.read_bytes() for path in server.rglob("*") if path.is_file()]
    held += ["\n".join(grid.heard).encode(), repr(report).encode()]
    for part in SECRET.split():
        assert part.encode() not in b"".join(held)


def test_an_error_that_nobody_foresaw_says_its_class(federation, tmp_path, caplog):
    def fail(context, asked, settings):
        raise ZeroDivisionError(SECRET)

    heard = []
    app, encoder = apps.make_client_app(fail), federation.encoder_path
    kind = partial(Listening, heard=heard)
    with pytest.raises(apps.FederationError):
        serve_sites(tmp_path, encoder, [{"client": "b"}], kind=kind, app=app)
    assert "ZeroDivisionError; its own log says more" in "".join(heard)
    assert SECRET not in "".join(heard)
    assert SECRET not in (tmp_path / "results" / "report.json").read_text()
    # Who may see it does.
    assert SECRET in caplog.text
