"""Encoders: the declared, fingerprinted functions features -> codes that clients share.

Examples
--------
>>> from safle import CodeSpace, Layout, LinearEncoder, declared_range
>>> space = LinearEncoder.calibrated(declared_range(0, 1, feature_dim=1)).space
>>> CodeSpace(space.fingerprint, Layout.from_json(space.layout.to_json())) == space
True
"""
