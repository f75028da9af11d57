"""``safle store``: contributions kept on disk, for federations by files and over a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich_click as click

from safle.cli.limit_options import chosen_limits, empty_option, limit_options
from safle.cli.options import (
    FILE,
    FIRST,
    command,
    examples,
    option,
    output,
    store_argument,
    written,
)
from safle.cli.session import Session
from safle.cli.solve import check_usage, solve_and_save, solve_options

if TYPE_CHECKING:
    from safle.server.store import Store

EXAMPLES = (
    "safle store add store --encoder encoder.safetensors clients/*.stats",
    "safle store add store late.stats --client hospital-c",
    "safle store list store",
    "safle store verify store",
    "safle store remove store hospital-b",
    "safle store solve store -o model.safetensors",
)
CLIENT = "Whose contribution it is, if there is one file."
ROSTER = "Public keys (ssh-ed25519, one per line), one of which must have signed: safle approve."
ENCODER = "The encoder that all clients share; makes the store if there is none."


@click.group(panel=FIRST, epilog=examples(*EXAMPLES))
def store() -> None:
    """Keep contributions, add late ones, take clients back, and solve again from what is kept.

    A store is a folder. It survives a kill at any moment, and the model solved from it is
    byte for byte the one of a federation of exactly the clients that are in. [b]safle sum[/b],
    [b]remove[/b] and [b]solve[/b] do the same with files of your own; [b]--sum[/b] of
    [b]store solve[/b] writes the sum that they would.
    """


@command(None, *EXAMPLES, of=store)
@store_argument
@click.argument("files", type=FILE, nargs=-1, required=True, help="Statistics files.")
@option("--client", CLIENT, "NAME", show_default="the file's name without its suffix")
@option("--encoder encoder_path", ENCODER, "FILE", type=FILE, show_default="the store's")
@option("--roster", ROSTER, "FILE", type=FILE, show_default="the store's, or none")
@option("--allow-duplicates", "Take the same counts of two clients.", is_flag=True)
@empty_option
@limit_options
def add(
    session: Session,
    /,
    folder: Path,
    files: tuple[Path, ...],
    client: str | None,
    encoder_path: Path | None,
    roster: Path | None,
    allow_duplicates: bool,
    **limits: Any,
) -> None:
    """Verify contributions and keep them, one per client.

    A file that is refused stops the command; the files before it are in. Limits and the
    roster are kept with the store, for all that come later.
    """
    if client is not None and len(files) > 1:
        raise click.UsageError(f"--client names one client; found {len(files)} files")
    session.announce_compilation()
    with (
        _open(folder, encoder_path) as opened,
        session.progress(f"adding {len(files)} files") as advance,
    ):
        chosen = chosen_limits(limits, opened.limits)
        if chosen != opened.limits:
            opened.declare(chosen)
        if roster is not None:
            opened.require_approval(_read_roster(roster))
        for done, file in enumerate(files, start=1):
            _add_file(opened, client or file.stem, file, allow_duplicates=allow_duplicates)
            advance(done / len(files))
        _show(session, folder, opened)


def _open(folder: Path, encoder_path: Path | None) -> Store:
    from safle.encoders import load_encoder
    from safle.server.store import Store

    if encoder_path is None:
        return Store.open(folder, writing=True)
    return Store.create(folder, load_encoder(encoder_path))


def _read_roster(path: Path) -> dict[str, str]:
    from safle.basics.places import naming
    from safle.site.approval import LARGEST_TEXT, parse_roster
    from safle.wire import container

    with naming(path):
        data = container.read_limited(path, limit=LARGEST_TEXT)
        return parse_roster(data.decode(errors="replace"))


def _add_file(store: Store, client: str, file: Path, *, allow_duplicates: bool) -> None:
    from safle.basics.places import naming
    from safle.errors import InvalidInput
    from safle.server.contribution import Contribution
    from safle.server.manifest import manifest_path

    if manifest_path(file).exists():
        raise InvalidInput(
            f"{file} is a sum of contributions ({manifest_path(file).name} is beside it); add "
            "those one by one, so that each can be removed"
        )
    with naming(file):
        store.add(Contribution.read(file, client, approved=True), allow_duplicates=allow_duplicates)


def _show(session: Session, folder: Path, store: Store, **more: object) -> None:
    from safle.cli.describe import listing, warn_of_classes

    classes = sorted({name for member in store.members.values() for name in member.classes})
    facts = {"clients": len(store.members), "samples": f"{store.sample_count:,}"}
    session.facts(f"{folder}: store", facts | {"classes": listing(classes), **more})
    warn_of_classes(session, classes)


@command(None, *EXAMPLES, of=store)
@store_argument
@click.argument("clients", nargs=-1, required=True, help="Names, as 'safle store list' shows them.")
def remove(session: Session, /, folder: Path, clients: tuple[str, ...]) -> None:
    """Take clients back: their contributions are deleted, and the next model never saw them."""
    from safle.server.store import Store

    with Store.open(folder, writing=True) as opened:
        for client in clients:
            opened.remove(client)
        _show(session, folder, opened)


@command(None, *EXAMPLES, of=store, name="list")
@store_argument
def list_members(session: Session, /, folder: Path) -> None:
    """List the clients that are in, with samples, classes, bytes, time and digest.

    Reads the database alone, and may be used while a round is under way.
    """
    from safle.basics.memory import readable
    from safle.server.store import Store

    opened = Store.open(folder)
    rows = [
        (client, m.received, f"{m.samples:,}", len(m.classes), readable(m.bytes), m.digest[:16])
        for client, m in opened.members.items()
    ]
    session.table(["client", "received", "samples", "classes", "size", "digest"], rows, names=2)
    _show(session, folder, opened, encoder=opened.encoder.fingerprint)


@command(None, *EXAMPLES, of=store)
@store_argument
def verify(session: Session, /, folder: Path) -> None:
    """Read every contribution and check seal, digest, counts and encoder.

    Exits with 1 and names what is wrong, if anything is. Files that are not the store's own are
    named too, and are no error.
    """
    from safle.errors import StoreError
    from safle.server.store import Store

    session.announce_compilation()
    opened = Store.open(folder)
    with session.progress(f"verifying {len(opened.members)} contributions") as advance:
        problems = opened.problems(advance)
    strangers = opened.files.strangers()
    session.text([*problems, *(f"{path}: not ours; it is left alone" for path in strangers)])
    if problems:
        raise StoreError(f"{folder}: {len(problems)} problems, named above")
    facts = {"contributions": len(opened.members), "problems": "none"}
    session.facts(f"{folder}: store", facts | ({"not ours": len(strangers)} if strangers else {}))


@command(None, *EXAMPLES, of=store)
@store_argument
@written("--sum total", "Also write the sum, with its manifest beside it.", "statistics")
@solve_options
@output("The model file to write.", "model")
def solve(
    session: Session,
    /,
    folder: Path,
    total: Path | None,
    output: Path,
    curve: Path | None,
    **how: Any,
) -> None:
    """Add up everything in the store, verified again, and solve.

    The model's bytes are those of a federation of exactly these clients, whatever
    was added and removed before.
    """
    from safle.server.files import write_sum
    from safle.server.store import Store

    check_usage(curve, how)
    session.announce_compilation()
    opened = Store.open(folder)
    with session.progress(f"summing {len(opened.members)} contributions") as advance:
        statistics = opened.total(advance).snapshot()
    if total is not None:
        write_sum(total, statistics, opened.members.values())
    solve_and_save(session, opened.encoder, statistics, output, opened.explain, curve=curve, **how)
