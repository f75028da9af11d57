"""Statistics and histograms <-> bytes: versioned, checked, without pickle.

The format is written down in docs/wire-format.md.

Examples
--------
A format of another house says which fields and arrays a file has, and how they are checked:

>>> from safle import FileFormat, SpaceHeader, check_space, container, read_header
>>> from safle import LinearEncoder, count, declared_range
>>> def describe(sums):
...     return sums.declaration(), {"counts": sums.class_counts}
>>> def restore(opened):
...     header = read_header(SpaceHeader, opened)
...     check_space(header, None, opened.limit)
...     counts = opened.array("counts", (len(header.classes),))
...     opened.finish()
...     return counts.tolist()
>>> counts_alone = FileFormat(container.NOISY, describe, restore)
>>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
>>> data = counts_alone.encode(count(encoder, [[0.2], [0.7]], ["ill", "well"]))
>>> counts_alone.open(data)[0]
[1, 1]
"""
