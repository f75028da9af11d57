"""``safle store add``: statistics files -> members of a store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from safle.cli.options import FILE, Command, store_argument
from safle.cli.session import Session

if TYPE_CHECKING:
    from safle.federation.store import Store

EXAMPLE = """\
Examples:

  safle store add store/ --encoder encoder.safetensors clients/*.stats

  safle store add store/ late.stats --client hospital-c
"""


@click.command(cls=Command, epilog=EXAMPLE)
@store_argument
@click.argument("files", type=FILE, nargs=-1, required=True, help="Statistics files.")
@click.option(
    "--client",
    metavar="NAME",
    help="Whose contribution it is, if there is one file.",
    show_default="the file's name without its suffix",
)
@click.option(
    "--encoder",
    "encoder_path",
    type=FILE,
    metavar="FILE",
    help="The encoder that all clients share; makes the store if there is none.",
    show_default="the store's",
)
@click.option("--allow-duplicates", is_flag=True, help="Take the same counts of two clients.")
@click.pass_obj
def add(
    session: Session,
    /,
    folder: Path,
    files: tuple[Path, ...],
    client: str | None,
    encoder_path: Path | None,
    allow_duplicates: bool,
) -> None:
    """Verify contributions and keep them, one a client.

    A file that is refused stops the command; the files before it are in.
    """
    if client is not None and len(files) > 1:
        raise click.UsageError(f"--client names one client; found {len(files)} files")
    session.announce_compilation()
    with (
        _open(folder, encoder_path) as store,
        session.progress(f"adding {len(files)} files") as advance,
    ):
        for done, file in enumerate(files, start=1):
            _add_file(store, client or file.stem, file, allow_duplicates=allow_duplicates)
            advance(done / len(files))
        facts = {"clients": len(store.members), "samples": f"{store.sample_count:,}"}
    session.facts(f"{folder}: store", facts)


def _open(folder: Path, encoder_path: Path | None) -> Store:
    from safle.encoders import load_encoder
    from safle.federation.store import Store

    if encoder_path is None:
        return Store.open(folder, writing=True)
    return Store.create(folder, load_encoder(encoder_path))


def _add_file(store: Store, client: str, file: Path, *, allow_duplicates: bool) -> None:
    from safle.errors import InvalidInput
    from safle.federation.files import naming
    from safle.federation.manifest import manifest_path
    from safle.wire.container import read_limited

    if manifest_path(file).exists():
        raise InvalidInput(
            f"{file} is a sum of contributions ({manifest_path(file).name} is beside it); add "
            "those one by one, so that each can be removed"
        )
    with naming(file):
        store.add(client, read_limited(file), allow_duplicates=allow_duplicates)
