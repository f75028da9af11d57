"""Values <-> bytes: versioned, checked, without pickle; written down in docs/wire-format.md.

A change of the wire begins on that page; the stranger's reader of test_wire_format.py is then
changed by the page, and not by our code. `VERSION` of `container` goes up by one, as it does on the
page, in its example and in CHANGELOG.md. Every content has one encoding: files that lie about what
is new go into ``LIES`` of test_wire_lies.py.

Examples
--------
A format of another house says which fields and arrays a file has, and how they are checked:

>>> import msgspec
>>> from safle import FileFormat, check_space, container, read_header
>>> from safle import count, declared_range, make_encoder
>>> class Header(msgspec.Struct, forbid_unknown_fields=True):
...     fingerprint: str
...     layout: list
...     classes: list
...     planes: dict
>>> def describe(sums):
...     return sums.declaration(), {"counts": sums.class_counts}
>>> def restore(opened):
...     header = read_header(Header, opened)
...     check_space(header.fingerprint, header.layout, header.classes, None, opened.limit)
...     counts = opened.array("counts", (len(header.classes),))
...     opened.finish()
...     return counts.tolist()
>>> counts_alone = FileFormat(container.NOISY, describe, restore)
>>> encoder = make_encoder(declared_range(0, 1, feature_dim=1), "linear")
>>> data = counts_alone.encode(count(encoder, [[0.2], [0.7]], ["ill", "well"]))
>>> counts_alone.open(data)[0]
[1, 1]
"""
