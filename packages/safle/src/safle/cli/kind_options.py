"""Options of ``safle encoder make`` from the registry of kinds."""

from collections.abc import Sequence
from typing import Any

import rich_click as click

from safle.cli.options import FINER, MOST
from safle.encoders.registry import DEFAULT_KIND, kind_named, kinds
from safle.encoders.settings import Setting


def kind_options() -> list[click.Parameter]:
    """--kind, and an option for every setting that a kind declares."""
    summaries = "; ".join(f"{name}: {kind.summary}" for name, kind in kinds().items())
    kind = click.RichOption(
        ["--kind"],
        type=click.Choice([*kinds()]),
        default=DEFAULT_KIND,
        metavar="NAME",
        help=f"{summaries}.",
        panel=MOST,
    )
    return [kind, *[_option(name, by_kind) for name, by_kind in _settings().items()]]


def given_settings(kind: str, options: dict[str, Any]) -> dict[str, Any]:
    """The settings that were given on the command line; those of another kind are refused."""
    given = {name: options[name] for name in _settings() if options[name] is not None}
    for name in given:
        if name not in kind_named(kind).declared(given):
            flag = name.replace("_", "-")
            raise click.UsageError(f"--{flag} does not apply to a {kind} encoder; leave it out")
    return given


def _settings() -> dict[str, dict[str, Setting]]:
    """Setting -> kind -> what it is there."""
    found: dict[str, dict[str, Setting]] = {}
    for kind, encoder in kinds().items():
        for name, declared in encoder.settings_type.declared().items():
            found.setdefault(name, {})[kind] = declared
    return found


def _heading(kind: str) -> str:
    return f"Only for --kind {kind}: {kind_named(kind).summary.partition(':')[0]}"


def _option(name: str, by_kind: dict[str, Setting]) -> click.Option:
    defaults = {k: s.chosen if s.default is None else s.default for k, s in by_kind.items()}
    shown = f"{', '.join(by_kind)}: " if len(by_kind) < len(kinds()) else ""
    each = "; ".join(f"{default} ({kind})" for kind, default in defaults.items())
    alike = len({*defaults.values()}) == 1
    kind = _type([*by_kind.values()])
    flag: dict[str, Any] = {"is_flag": True, "default": None} if kind is click.BOOL else {}
    option = name.replace("_", "-")
    named = "|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else "NAME"
    return click.RichOption(
        [f"--{option}/--no-{option}" if flag else f"--{option}"],
        type=kind,
        metavar="N" if isinstance(kind, click.IntRange) else None if flag else named,
        help=shown + " ".join(dict.fromkeys(s.help for s in by_kind.values())),
        show_default=str(next(iter(defaults.values()))) if alike else each,
        panel=FINER if DEFAULT_KIND in by_kind else _heading(next(iter(by_kind))),
        **flag,
    )


def _type(settings: Sequence[Setting]) -> click.ParamType[Any]:
    """What fits any of the settings of one name; each kind checks its own limits."""
    if all(s.choices for s in settings):
        return click.Choice([*dict.fromkeys(c for s in settings for c in s.choices)])
    if settings[0].type is not int:
        return click.BOOL if settings[0].type is bool else click.STRING
    least, most = [s.least for s in settings], [s.most for s in settings]
    return click.IntRange(
        None if None in least else min(x for x in least if x is not None),
        None if None in most else max(x for x in most if x is not None),
    )
