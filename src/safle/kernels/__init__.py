"""The tight loops (Numba): encode, count, pack, multiply, look up.

Nothing here knows what an encoder or a statistics value is: plain arrays in,
plain arrays out. Compiled code is cached on disk next to this package, or in
Numba's user cache directory where the package cannot be written to.
"""

from __future__ import annotations

from pathlib import Path


def compiled_before() -> bool:
    """Whether an earlier run left compiled kernels in Numba's cache."""
    from safle.kernels.count import count_block_pairs

    # Numba has no public way to ask; without the attribute we only lose a notice.
    cache = getattr(count_block_pairs, "_cache", None)
    folder = getattr(cache, "cache_path", None)
    return folder is None or any(Path(folder).glob("*.nbi"))
