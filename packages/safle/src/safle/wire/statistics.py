"""Statistics <-> bytes. Writing leaves out what the algebra determines; reading verifies all sums.

The statistics alone determine the form of their grams (`safle.wire.grams`) and every byte of it:
equal statistics have one digest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from safle.basics.paths import StrPath, naming
from safle.basics.settings import as_settings
from safle.basics.texts import require_type
from safle.encoders.codes import MAX_EXPERTS, CodeSpace, Layout
from safle.errors import WireError
from safle.statistics import triangle
from safle.statistics.free_sums import sum_grams
from safle.statistics.gram import Gram
from safle.statistics.invariants import verify, verify_margins
from safle.statistics.statistics import Margins, Statistics
from safle.statistics.triangle import Integers
from safle.tables.checks import ClassName, as_class_names, is_digest
from safle.wire import container, grams
from safle.wire.formats import Admit, FileFormat, Sections, read_header

WHOLE = "whole"
COLUMNS = "columns"
CLASSES = "classes"
"""Forms of a gram: all its free products; the columns that determine it (few samples); or nothing,
where all columns are counted by class, and the gram is the sum of theirs."""
LAYOUT_BYTES = 24
"""Bytes that checking a layout takes for each expert or dense column."""


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``planes``: bytes per value of each array; ``seen`` counts the codes that samples have."""

    fingerprint: str
    layout: list[dict[str, Any]]
    classes: list[ClassName]
    planes: dict[str, int]
    samples: Annotated[int, msgspec.Meta(ge=0)]
    seen: Annotated[int, msgspec.Meta(ge=0)]
    form: Literal["whole", "columns", "classes"]


def _describe(statistics: Statistics) -> tuple[dict[str, Any], Sections]:
    bitmap = np.zeros(statistics.layout.code_count, np.bool_)
    bitmap[statistics.codes] = True
    sections: dict[str, bytes | Integers] = {
        "codes": grams.pack_bits(bitmap),
        "counts": statistics.class_counts,
        "cross": statistics.cross,
    }
    if statistics.by_class:
        sections |= grams.class_sections(statistics.by_class)
    form, gram = _gram_sections(statistics)
    fields = {
        **statistics.declaration(),
        "samples": statistics.sample_count,
        "seen": len(statistics.codes),
        "form": form,
    }
    return fields, sections | gram


def _gram_sections(statistics: Statistics) -> tuple[str, dict[str, bytes | Integers]]:
    """The form and the sections of the gram."""
    if statistics.layout.only_classes:
        return CLASSES, {}
    basis, values = grams.encode_gram(statistics)
    if basis is not None:
        return COLUMNS, {"basis": basis, "sums": values}
    return WHOLE, {"products": values} if statistics.sample_count else {}


def _restore(
    opened: container.Container,
    space: CodeSpace | None = None,
    admit: Admit = lambda _classes: None,
    like: Statistics | None = None,
) -> Statistics:
    if like is not None:
        space = like.space
    header, found = _check_header(opened, space)
    admit(tuple(header.classes))
    statistics = _read_sums(opened, header, found)
    if like is None:
        # Statistics that are added are checked when they are added.
        statistics.gram.require_integers()
    return statistics


FORMAT = FileFormat(container.STATISTICS, _describe, _restore, Statistics)


def read_head(path: StrPath) -> tuple[str, _Header]:
    """The digest and the header that a statistics file declares; no sums are read."""
    content, digest = container.read_head(path, file_type=container.STATISTICS)
    with naming(path):
        header = as_settings(_Header, content, where="the header: ", error=WireError)
        if as_class_names(header.classes) != tuple(header.classes):
            raise WireError("the class names are not in ascending order")
    return digest, header


def _read_sums(opened: container.Container, header: _Header, space: CodeSpace) -> Statistics:
    """Verified statistics; a gram that was sent as columns is not multiplied out yet."""
    layout = space.layout
    gram_name = f"a gram of {header.seen + layout.dense_dim} rows"
    sizes = header.seen, len(header.classes), opened.raw_bytes
    opened.reserve(bytes_of_margins(layout, *sizes), gram_name)
    margins_bytes = opened.reserved
    opened.reserve(bytes_of_gram(layout, *sizes[:2], form=header.form), gram_name)
    margins = _read_margins(opened, header, space)
    if grams.has_few_samples(margins):
        # For both forms we search for the columns that the format prescribes.
        opened.reserve(grams.working_bytes(margins), gram_name)
    if (header.form == CLASSES) != layout.only_classes:
        raise WireError(f"form {header.form!r} of a gram does not belong to this layout")
    if margins.sample_count == 0 and header.form != COLUMNS:
        opened.finish()
        return Statistics.empty(space)
    parts: Sequence[Statistics] = []
    if layout.class_layout:
        parts = grams.read_classes(margins, opened, opened.reserved - margins_bytes)
    # A function of its own, so that the values sent are freed before their gram is verified.
    gram = _read_gram(margins, opened, header.form, parts)
    statistics = margins.with_gram(gram, parts)
    if header.form == WHOLE:
        grams.require_whole(statistics)
    verify(statistics)
    return statistics


def _read_gram(
    margins: Margins, opened: container.Container, form: str, parts: Sequence[Statistics]
) -> Gram:
    if form == CLASSES:
        opened.finish()
        return sum_grams([part.gram for part in parts], margins.dim)
    if form == WHOLE:
        products = opened.array("products", (grams.product_count(margins),))
        opened.finish()
        return grams.read_products(margins, products)
    basis = opened.section("basis", grams.basis_bytes(margins))
    columns = grams.read_basis(margins, basis)
    sums = opened.array("sums", (columns.value_count,))
    opened.finish()
    return columns.restore(sums)


def _check_header(
    opened: container.Container, space: CodeSpace | None
) -> tuple[_Header, CodeSpace]:
    """The header and its code space, both checked."""
    header = read_header(_Header, opened)
    found = check_space(header.fingerprint, header.layout, header.classes, space, opened.limit)
    if header.seen > found.layout.code_count:
        raise WireError(f"{header.seen} seen codes; the layout has {found.layout.code_count}")
    return header, found


def check_space(
    fingerprint: str,
    layout: list[dict[str, Any]],
    classes: Sequence[ClassName],
    space: CodeSpace | None,
    limit: int,
) -> CodeSpace:
    """The code space that a header names, checked, as its class names are.

    Parameters
    ----------
    fingerprint, layout, classes : fields of the header, as `Statistics.declaration` has them
    space : the code space that is expected; None for any
    limit : most bytes that reading may take
    """
    if not is_digest(fingerprint):
        raise WireError("the fingerprint is not 64 hexadecimal digits")
    text = container.canonical(layout)
    if space is None:
        most = min(limit // LAYOUT_BYTES, MAX_EXPERTS)
        space = CodeSpace(fingerprint, Layout.from_json(layout, most=most))
        if _text_of(space.layout) != text:
            raise WireError("the layout is not written in its shortest form")
    else:
        require_type("space", space, CodeSpace, advice="such as encoder.space")
        # We build no layout, because the file decides how large that is. We compare texts, because
        # true equals 1 in Python: a contribution would have two digests.
        space.check_same_encoder(fingerprint, same_layout=_text_of(space.layout) == text)
    if as_class_names(classes) != tuple(classes):
        raise WireError("the class names are not in ascending order")
    return space


def _text_of(layout: Layout) -> bytes:
    return container.canonical(layout.to_json())


def bytes_of_margins(layout: Layout, seen: int, classes: int, raw_bytes: int) -> int:
    """Memory of a file's sections, and of statistics without their grams."""
    return raw_bytes + 32 * (seen + layout.dense_dim) * (classes + 1)


def bytes_of_gram(layout: Layout, seen: int, classes: int, *, form: str) -> int:
    """Peak memory of reading and checking the gram, without `grams.working_bytes`."""
    dim = seen + layout.dense_dim
    gram = (8 if layout.dense_dim else 4) * triangle.packed_size(dim)
    # Without classes it has no samples, and nothing to check.
    if form == COLUMNS or not classes:
        return gram
    return gram + 16 * triangle.packed_size(dim) + 8 * dim * (classes + 256)


def _read_margins(opened: container.Container, header: _Header, space: CodeSpace) -> Margins:
    layout = space.layout
    bitmap = opened.section("codes", -(-layout.code_count // 8))
    # Count the bits before listing them: memory is reserved for the header's number alone.
    if int(np.bitwise_count(np.frombuffer(bitmap, np.uint8)).sum(dtype=np.int64)) != header.seen:
        raise WireError("the bitmap of seen codes does not match its count")
    codes = np.flatnonzero(grams.unpack_bits(bitmap, layout.code_count))
    classes = header.classes
    counts = opened.array("counts", (len(classes),))
    cross = opened.array("cross", (len(codes) + layout.dense_dim, len(classes)))
    margins = Margins(space, codes, cross, tuple(classes), counts)
    verify_margins(margins)
    if margins.sample_count != header.samples:
        raise WireError(
            f"the header says {header.samples} samples; the classes count {margins.sample_count}"
        )
    return margins
