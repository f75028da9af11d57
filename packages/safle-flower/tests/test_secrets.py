"""Nothing of a client's data in a message: the server learns an error's class and its line."""

from __future__ import annotations

import pytest

from flower_support.clients import node_with_airlock, site_app
from safle_flower import apps
from safle_flower.adapter import InProcessGrid
from safle_flower.server import serve
from safle_flower.settings import Run

SECRET = "Erika Mustermann"
GOOD = "age,dose,label\n1,2,ill\n3,4,well\n"
TABLES = {
    "cell": (GOOD + f"5,{SECRET},ill\n", "TableError in line 4 of its table"),
    "header": (f"age,{SECRET},{SECRET}\n1,2,ill\n", "TableError"),
    "label": (GOOD + f"5,6,\n{SECRET},6,ill\n", "TableError in line 4 of its table"),
    "width": (GOOD + f"5,6,ill,{SECRET}\n", "TableError in line 4 of its table"),
    "column": (f"age,{SECRET}\n1,2\n", "TableError"),
    "weight": (f"age,n,label\n1,2,ill\n3,{SECRET},well\n", "TableError in line 3 of its table"),
}


class Listening(InProcessGrid):
    """Keeps every message that reaches the server."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.heard: list[str] = []

    def pull_messages(self, message_ids):
        replies = [*super().pull_messages(message_ids)]
        self.heard += [repr((reply.metadata, reply.content)) for reply in replies]
        return replies


def run(federation, folder, place, *site):
    """The report of a round with one good client and a site, and all that the server holds."""
    nodes = [
        node_with_airlock(place, "a", federation.table("a")),
        node_with_airlock(place, "b", *site),
    ]
    config = {
        "store": str(folder / "store"),
        "output": str(folder / "results"),
        "encoder": str(federation.encoder_path),
        "clients": 2,
        "deadline": 600.0,
        "least": 1,
    }
    grid = Listening(site_app, nodes, Run().to_flat())
    report = serve(grid, Run.from_flat(config))
    files = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert grid.heard
    held = "\n".join(grid.heard).encode() + b"".join(files) + repr(report).encode()
    return {row.client: row for row in report.clients}["b"], held


@pytest.mark.parametrize("place", TABLES)
def test_a_refused_table_says_its_line_and_nothing_that_stands_there(federation, tmp_path, place):
    text, expected = TABLES[place]
    folder = tmp_path / SECRET
    folder.mkdir()
    (folder / "visits.csv").write_text(text)
    site = [folder / "visits.csv", *(["--weight-column", "n"] if place == "weight" else [])]
    row, held = run(federation, tmp_path / "server", tmp_path / "sites", *site)
    assert (row.status, row.reason) == ("failed", f"{expected}; its own log says more")
    for part in SECRET.split():
        assert part.encode() not in held


def test_an_error_that_nobody_foresaw_says_its_class(federation, tmp_path, caplog):
    def fail(context, asked, settings):
        raise ZeroDivisionError(SECRET)

    grid = Listening(apps.make_client_app(fail), [{"client": "b"}], Run().to_flat())
    config = {
        "store": str(tmp_path / "store"),
        "output": str(tmp_path / "results"),
        "encoder": str(federation.encoder_path),
        "clients": 1,
        "deadline": 600.0,
        "least": 1,
    }
    with pytest.raises(apps.FederationError):
        serve(grid, Run.from_flat(config))
    assert "ZeroDivisionError; its own log says more" in "".join(grid.heard)
    assert SECRET not in "".join(grid.heard)
    assert SECRET not in (tmp_path / "results" / "report.json").read_text()
    # Who may see it does.
    assert SECRET in caplog.text
