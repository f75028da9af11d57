"""``safle store``: contributions kept on disk, for federations by files and over a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from safle.basics.memory import readable
from safle.basics.paths import BESIDE, find_files, naming
from safle.basics.texts import list_names
from safle.cli import options as opt
from safle.cli.facts import warn_of_classes
from safle.cli.session import Session, command, examples, explain
from safle.encoders.base import load_encoder
from safle.errors import InvalidInput, SafleError, StoreError
from safle.server.store import Store
from safle.wire.container import read_limited

EXAMPLES = (
    "safle store add store --encoder encoder.safetensors clients/",
    "safle store add store late.stats --client hospital-c",
    "safle store list store",
    "safle store verify store",
    "safle store remove store hospital-b",
)
CLIENT = "The client whose contribution it is; only with one file."
ENCODER = "The encoder that all clients share; makes the store if there is none."


@click.group(cls=click.RichGroup, epilog=examples(*EXAMPLES))
def store() -> None:
    """Keep contributions, add late ones and remove clients.

    A store is a folder. It survives a kill at any moment, and the model that [b]safle solve[/b]
    makes of it is byte for byte that of a federation of exactly the clients in it.
    """


@command(*EXAMPLES, of=store)
@opt.store_argument
@click.argument("files", type=opt.PLACE, nargs=-1, required=True, help="Files, or folders of them.")
@opt.option("--client", CLIENT, "NAME", show_default="the file's name without its suffix")
@opt.file_option("--encoder encoder_path", ENCODER, show_default="the store's")
@opt.flag("--allow-duplicates", "Accept equal counts from two clients.")
@opt.limit_options
def add(
    session: Session, /, folder: Path, files: tuple[Path, ...], client: str | None, **options: Any
) -> None:
    """Verify contributions and keep them, one per client.

    Each file is accepted or refused by itself: one that is accepted is on the disk, also if others
    fail, and those that are refused are named at the end (exit code 1). Call it again after
    an interruption: files already accepted stay as they are. The store keeps the limits for later
    contributions.
    """
    files = tuple(map(Path, find_files(files, except_for=BESIDE)))
    if not files:
        raise InvalidInput("the folder holds no file; expected at least one contribution")
    if client is not None and len(files) > 1:
        raise click.UsageError(f"--client names one client; found {len(files)} files")
    refused = 0
    with (
        _open(folder, options.pop("encoder_path")) as opened,
        session.progress(f"adding {len(files)} files") as advance,
    ):
        chosen = opt.take_limits(options, opened.limits)
        if chosen != opened.limits:
            opened.declare(chosen)
        before = len(opened.members)
        for done, file in enumerate(files, start=1):
            try:
                with naming(file):
                    opened.add(client or file.stem, read_limited(file), **options)
            except (SafleError, OSError) as error:
                if len(files) == 1:
                    raise
                session.warn(f"refused: {explain(error)}")
                refused += 1
            advance(done / len(files))
        added = len(opened.members) - before
        already = len(files) - added - refused
        more = {"added": added} | ({"already there": already} if already else {})
        _show(session, folder, opened, **more)
    if refused:
        raise SafleError(f"{refused} of {len(files)} files were refused, named above; see --help")


def _open(folder: Path, encoder_path: Path | None) -> Store:
    if encoder_path is None:
        return Store.open(folder, writing=True)
    return Store.create(folder, load_encoder(encoder_path))


def _show(session: Session, folder: Path, store: Store, **more: object) -> None:
    classes = sorted({name for member in store.members.values() for name in member.classes})
    facts = {"clients": len(store.members), "samples": f"{store.sample_count:,}"}
    session.facts(f"{folder}: store", facts | {"classes": list_names(classes), **more})
    warn_of_classes(session, classes)


@command(*EXAMPLES, of=store)
@opt.store_argument
@click.argument("clients", nargs=-1, required=True, help="Names, as 'safle store list' shows them.")
def remove(session: Session, /, folder: Path, clients: tuple[str, ...]) -> None:
    """Remove clients: their contributions are deleted; the next model is solved without them."""
    with Store.open(folder, writing=True) as opened:
        for client in clients:
            opened.remove(client)
        _show(session, folder, opened)


@command(*EXAMPLES, of=store, name="list")
@opt.store_argument
def list_members(session: Session, /, folder: Path) -> None:
    """List the clients that are in, with samples, classes, bytes, time and digest.

    Reads the heads of the files alone, and may be used while a round is under way.
    """
    opened = Store.open(folder)
    rows = [
        (client, m.received, f"{m.samples:,}", len(m.classes), readable(m.bytes), m.digest[:16])
        for client, m in opened.members.items()
    ]
    session.table(["client", "received", "samples", "classes", "size", "digest"], rows, names=2)
    _show(session, folder, opened, encoder=opened.encoder.fingerprint)


@command(*EXAMPLES, of=store)
@opt.store_argument
def verify(session: Session, /, folder: Path) -> None:
    """Read every contribution and check seal, digest, counts and encoder.

    Exits with 1 and names what is wrong, if anything is. Contributions that the log does not know,
    and files that are not the store's own, are named too; they are not errors.
    """
    opened = Store.open(folder)
    with session.progress(f"verifying {len(opened.members)} contributions") as advance:
        problems = opened.problems(advance)
    remarks = opened.remarks()
    session.text([*problems, *remarks])
    if problems:
        raise StoreError(f"{folder}: {len(problems)} problems, named above")
    facts = {"contributions": len(opened.members), "problems": "none", "remarks": len(remarks)}
    session.facts(f"{folder}: store", facts)
