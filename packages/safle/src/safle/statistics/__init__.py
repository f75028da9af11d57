"""Statistics: codes and labels -> (Phi'Phi, Phi'Y, class counts), exact integers.

Examples
--------
>>> from safle import FreeSums, LinearEncoder, Statistics, Summable, count, declared_range
>>> encoder = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1))
>>> total: Summable = count(encoder, [[0.2], [0.7]], ["ill", "well"])
>>> zero = Statistics.empty(encoder.space, ["ill", "well"])
>>> vector = total.to_vector(zero)
>>> len(vector) == FreeSums(encoder.layout, class_count=2).size == len(zero.vector_bounds())
True
>>> zero.from_vector(vector) == total
True
"""
