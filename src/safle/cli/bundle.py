"""``safle bundle``: safle for a machine without internet, in a folder."""

from pathlib import Path

import rich_click as click

from safle.cli import options as opt
from safle.cli.session import Session

EXAMPLE = "safle bundle usb-stick --wheel dist/safle-0.1.0-py3-none-any.whl --extra private"
BACKBONE = "A backbone to take along, exported; may be given several times."


@opt.command("Over a network", EXAMPLE)
@click.argument("folder", type=opt.FOLDER, help="A new folder.")
@opt.option("--wheel", "safle's own, from 'make package'.", "FILE", type=opt.FILE, required=True)
@opt.option("--extra", "As in safle[EXTRA]; may be given several times.", "EXTRA", multiple=True)
@opt.option("--backbone", BACKBONE, "NAME", multiple=True)
def bundle(
    session: Session,
    /,
    folder: Path,
    wheel: Path,
    extra: tuple[str, ...],
    backbone: tuple[str, ...],
) -> None:
    """Write a folder of wheels, weights and an install script for machines without internet.

    Make it on a machine with internet, and with the same system and version of Python. There,
    carry it over and run: sh install.sh ENVIRONMENT
    """
    from safle._internal.memory import readable
    from safle.data.bundle import write_bundle

    session.note(f"getting what safle needs, for {wheel.name} ...")
    files = write_bundle(folder, wheel, extras=extra, backbones=backbone)
    facts = {
        "files": f"{len(files):,}",
        "size": readable(sum(path.stat().st_size for path in files)),
        "there": "sh install.sh ENVIRONMENT",
    }
    session.facts(f"{folder}: bundle", facts)
