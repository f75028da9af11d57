"""The reference, written from the registry, the commands and the docstrings: docs/reference/*.md.

`make docs` runs it before the site is built. Its pages are not kept in git: they would be a copy of
the docstrings, and every change of one a change of two.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import msgspec

import safle
from safle import HEADS, errors, kinds
from safle.basics import describe, journal, to_mapping
from safle.evaluation import counts
from safle.server import folder, store
from safle.solver import choice, heads, ridge, temperature
from safle.wire import container
from safle_flower.settings import Run
from safle_lab import baselines
from safle_private import keys, messages, vector
from safle_private import round as rounds

DOOR = Path(safle.__file__).with_suffix(".pyi")
PLACE = Path(__file__).parents[1] / "reference"
PACKAGES = Path(__file__).parents[2] / "packages"
MADE = "<!-- Written by docs/hooks/reference.py: change the docstrings, then run `make docs`. -->\n"
PAGES = {
    "encoders": (
        "Encoders: features to codes",
        "All clients share one encoder: a file whose SHA-256 fingerprint travels with every count.",
        ("make_encoder", "load_encoder", "Encoder"),
        ("LinearEncoder", "EmbeddingEncoder", "RandomFeatureEncoder", "TableEncoder"),
        ("Schema", "Column", "merge_schemas"),
        ("declared_range", "declared_moments", "public_sample", "of_schema", "Calibration"),
        ("Histogram",),
    ),
    "statistics": (
        "Statistics: codes to sums",
        "What a client sends and a server adds: exact integers, the same for any partition.",
        ("count", "Statistics", "Accumulator", "sum_statistics", "Store"),
    ),
    "model": (
        "Solver and model: sums to predictions",
        "One linear system, no rounds, no held-out data.",
        ("solve", "Solution", "Model", "load_model", "SafleClassifier"),
        ("evaluate", "Evaluation", "fit_temperature", "Figures"),
    ),
}
WIRE = ("write", "read")
ENDINGS = (
    ".stats",
    ".hist",
    ".private",
    ".masked",
    ".masked",
    ".ask",
    ".answer",
    ".stats",
    ".eval",
)
"""How the files of `container.FILE_TYPES` are usually called."""
OTHERS = {
    ".safetensors": "encoders, models, features: data alone, read without executing anything",
    ".toml": "schemas, policies, settings of experiments",
    ".key, .pub": "the private and the public key of one party of a private round",
    ".jsonl, .releases": "journals: logs, ledgers, what a keyholder has opened",
    ".release.txt, .release.json": "the sheet beside a file that leaves",
}
EQUATIONS = {
    "Equations of the heads": heads,
    **{f"Head {name}": sys.modules[head.fit.__module__] for name, head in HEADS.items()},
    "Temperature": temperature,
    "Ridge": ridge,
    "Which criterion": choice,
}
"""Modules of the solver whose docstrings have the equations."""
FORMATS = {
    "Evaluation counts, type 9": (counts,),
    "Private rounds, types 3 to 7": (keys, rounds, messages, vector),
    "A store": (store, folder),
    "Journals": (journal,),
}
"""Modules whose docstrings have the format of the files that they write."""
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)


def main() -> None:
    """Write every page."""
    PLACE.mkdir(exist_ok=True)
    for name, text in pages().items():
        (PLACE / f"{name}.md").write_text(text)


def pages() -> dict[str, str]:
    """The text of every page, by name."""
    sys.path.insert(0, str(Path(__file__).parent))
    from commands import describe_all

    made: dict[str, Iterator[str]] = {"settings": _settings(), "files": _files()}
    made |= {name: _public(*page) for name, page in PAGES.items()}
    made |= {
        "names": _names(),
        "errors": _errors(),
        "commands": describe_all(),
        "methods": _methods(),
        "modules": _modules(),
    }
    return {name: "\n".join([MADE, *lines]).rstrip() + "\n" for name, lines in made.items()}


def _settings() -> Iterator[str]:
    yield "# Kinds and heads: settings and equations\n"
    yield (
        "`safle encoder make` takes a setting as an option (`--group-size 4`), `make_encoder` and "
        "`SafleClassifier` as an argument.\n"
    )
    for name, kind in kinds().items():
        yield f"## `{name}`\n\n{kind.summary[0].upper()}{kind.summary[1:]}.\n"
        yield "| setting | meaning | default; range |\n|---|---|---|"
        for setting in describe(kind.settings_type).values():
            default = setting.chosen if setting.default is None else f"`{setting.default}`"
            yield f"| `{setting.name}` | {setting.help} | {default}; {_range(setting)} |"
        yield f"\n{_markdown(sys.modules[kind.__module__].__doc__ or '')}\n"
    named = ", ".join(f"`{head}`" for head in HEADS)
    yield f"## Heads\n\n`safle solve --head NAME`, `solve(total, head=NAME)`: {named}, or `auto`."
    for title, module in EQUATIONS.items():
        yield f"\n## {title}\n\n{_markdown(module.__doc__ or '')}\n"
    yield from _run()


def _run() -> Iterator[str]:
    yield "## A round over Flower\n\nKeys of `server/app/pyproject.toml`, and of `./run.sh -c`,"
    yield "with their defaults. `deploy init` fills in the paths, who is expected, and `least`.\n"
    yield "```toml"
    for key, value in to_mapping(Run()).items():
        yield f"{key} = {json.dumps(value)}"
    yield "```\n"
    yield _markdown((Run.__doc__ or "").partition("    Examples\n")[0])


def _range(setting: Any) -> str:
    if setting.choices:
        return ", ".join(f"`{choice}`" for choice in setting.choices)
    if setting.type is bool:
        return "`True`, `False`"
    if setting.minimum is None:
        return ""
    most = (
        ""
        if setting.maximum is None
        else f"2^{setting.maximum.bit_length()} − 1"
        if setting.maximum >> 62
        else f"{setting.maximum:,}"
    )
    return f"{setting.minimum} to {most}" if most else f"from {setting.minimum}"


def _files() -> Iterator[str]:
    yield "# Files\n\n`safle inspect FILE` recognises all of these."
    yield "[The wire format](../wire-format.md) has containers, statistics, histograms,"
    yield "encoders and models byte by byte; the others are below.\n"
    yield "| type | file | usual ending |\n|---|---|---|"
    for (number, name), ending in zip(container.FILE_TYPES.items(), ENDINGS, strict=True):
        yield f"| {number} | {name} | `{ending}` |"
    for ending, what in OTHERS.items():
        yield f"| | {what} | {', '.join(f'`{one}`' for one in ending.split(', '))} |"
    yield ""
    for name in WIRE:
        yield from _name(name)
    for title, modules in FORMATS.items():
        yield f"## {title}\n"
        for module in modules:
            yield f"{_markdown(module.__doc__ or '')}\n"


def _errors() -> Iterator[str]:
    yield "# Errors\n\nAll are raised on purpose, and say what was found, what was expected,"
    yield "and what to do. They are in `safle.errors`; `safle.SafleError` is the base of all.\n"
    yield "| error | also a | when |\n|---|---|---|"
    for name, error in vars(errors).items():
        if isinstance(error, type) and issubclass(error, Exception | Warning):
            bases = ", ".join(f"`{base.__name__}`" for base in error.__bases__)
            when = " ".join((error.__doc__ or "").split("\n\n")[0].split())
            yield f"| `{name}` | {bases} | {_code(when)} |"
    yield f"\n{_markdown(errors.SafleError.__doc__ or '')}\n"


def _methods() -> Iterator[str]:
    yield "# Methods of experiments\n\nEvery method with its settings, `[methods.NAME]` in a file"
    yield "for `--settings`, and the values that held-out training samples choose from. Experiments"
    yield "set some of them (200 rounds, a tenth of the clients): `NAME.toml` has what ran.\n"
    for name, method in baselines.METHODS.items():
        given = msgspec.to_builtins(method.defaults)
        settings = ", ".join(f"`{setting} = {value!r}`" for setting, value in given.items())
        grid = "; ".join(f"`{setting}` from {[*values]}" for setting, values in method.grid.items())
        yield f"- **`{name}`**, {method.kind}: {settings}. {grid and f'Chosen: {grid}.'}".rstrip()
    yield "\nA method of your own has the interface below.\n"
    for own in ("Task", "Result", "Point", "Method", "message"):
        yield from _name(own, baselines)


def _modules() -> Iterator[str]:
    yield "# Modules\n\nWhat every module does, in its own words.\n"
    for source in sorted(PACKAGES.glob("*/src/*")):
        yield f"## `{source.name}`\n"
        for path in sorted(source.rglob("*.py")):
            text = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0]
            yield f"- `{path.relative_to(source)}`: {_code(' '.join(text.split()))}"
        yield ""


def _public(title: str, opening: str, *groups: tuple[str, ...]) -> Iterator[str]:
    yield f"# {title}\n\n{opening}\n"
    for group in groups:
        for name in group:
            yield from _name(name)


def _names() -> Iterator[str]:
    yield "# Other public names\n\nFor commands and houses. All are imported from `safle`.\n"
    yield "| name | module | |\n|---|---|---|"
    shown = {*WIRE, "SafleError"}.union(*(group for page in PAGES.values() for group in page[2:]))
    for module, name in re.findall(r"^from \.([\w.]+) import (\w+) as", DOOR.read_text(), re.M):
        if name not in shown:
            value = getattr(safle, name)
            explained = isinstance(value, type | FunctionType | ModuleType)
            text = (inspect.getdoc(value) or "").partition("\n\n")[0] if explained else ""
            yield f"| `{name}` | `{module}` | {_code(' '.join(text.split()))} |"


def _name(name: str, place: ModuleType = safle) -> Iterator[str]:
    value = getattr(place, name)
    yield f"## `{place.__name__}.{name}`\n"
    yield f"```python\n{_signature(name, value)}\n```\n"
    yield f"{_markdown(value.__doc__ or '')}\n"
    if not isinstance(value, type):
        return
    for own, member in vars(value).items():
        called = getattr(member, "__func__", member)
        text = inspect.getdoc(member.fget if isinstance(member, property) else called)
        if (
            own.startswith("_")
            or not text
            or not (callable(called) or isinstance(member, property))
        ):
            continue
        shown = own if isinstance(member, property) else _signature(own, called)
        yield f"### `{name}.{own}`\n\n```python\n{shown}\n```\n\n{_markdown(text)}\n"


def _signature(name: str, value: Any) -> str:
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    kept = [given for given in found.parameters.values() if given.name not in ("self", "cls")]
    texts: list[str] = []
    for given in kept:
        if given.kind is given.KEYWORD_ONLY and not any(text.startswith("*") for text in texts):
            texts.append("*")
        texts.append(_parameter(given))
    one_line = f"{name}({', '.join(texts)})"
    return one_line if len(one_line) < 90 else f"{name}(\n    " + ",\n    ".join(texts) + ",\n)"


def _parameter(given: inspect.Parameter) -> str:
    stars = {given.VAR_POSITIONAL: "*", given.VAR_KEYWORD: "**"}.get(given.kind, "")
    text = stars + given.name
    if given.annotation is not given.empty:
        text += f": {given.annotation}"
    if given.default is given.empty:
        return text
    plain = isinstance(given.default, bool | int | float | str | tuple | None)
    return f"{text} = {given.default!r}" if plain else f"{text} = ..."


def _markdown(docstring: str) -> str:
    """A docstring in numpydoc's form as Markdown."""
    text = inspect.cleandoc(docstring)
    opening, *rest = SECTION.split(text)
    parts = [_prose(opening)]
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        entries = title in ("Parameters", "Attributes", "Raises", "Returns")
        parts += [f"**{title}**", _entries(body) if entries else _prose(body)]
    return "\n\n".join(part for part in parts if part)


def _entries(body: str) -> str:
    lines = []
    for entry in re.split(r"\n(?=\S)", body.strip()):
        name, _, rest = " ".join(entry.split()).partition(" : ")
        if not rest:
            name, _, rest = name.partition(" ")
        lines.append(f"- `{name}`: {_code(rest)}")
    return "\n".join(lines)


def _prose(text: str) -> str:
    parts = []
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        if paragraph.lstrip().startswith(">>>"):
            parts.append(f"```pycon\n{inspect.cleandoc(paragraph)}\n```")
        elif paragraph.startswith("    "):
            parts.append(paragraph.replace("``", ""))
        elif paragraph:
            parts.append(_code(paragraph))
    return "\n\n".join(parts)


def _code(text: str) -> str:
    return text.replace("``", "`")


if __name__ == "__main__":
    main()
