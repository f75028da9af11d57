"""Private sums: clients send sums under masks, keyholders open nothing but their total.

``y = x + mask_1 + ... + mask_m`` modulo ``2^32`` or ``2^64``, with a mask for every keyholder from
a fresh seed that is sealed to it. The server adds up every y, each keyholder adds up its masks of
the same clients, and the difference is the exact sum: the very bytes that plain contributions add
up to.
"""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door, require

if TYPE_CHECKING:
    from safle.private.gathering import Gathering, KeyholderAnswer, MaskedSum, Request
    from safle.private.history import History
    from safle.private.keyholder import answer_on_record, answer_request, explain
    from safle.private.keys import PrivateKey, PublicKey
    from safle.private.masked import Masked, mask
    from safle.private.rehearsal import Parties, add_privately
    from safle.private.round import PrivateRound, declare_round, statistics_space
    from safle.private.spaces import EvaluationSpace, HistogramSpace, NoisySpace, StatisticsSpace

__all__ = [
    "EvaluationSpace",
    "Gathering",
    "HistogramSpace",
    "History",
    "KeyholderAnswer",
    "Masked",
    "MaskedSum",
    "NoisySpace",
    "Parties",
    "PrivateKey",
    "PrivateRound",
    "PublicKey",
    "Request",
    "StatisticsSpace",
    "add_privately",
    "answer_on_record",
    "answer_request",
    "declare_round",
    "explain",
    "mask",
    "statistics_space",
]

require("cryptography.hazmat.primitives.hpke", "safle[private]", "a private sum")
__getattr__ = front_door(__name__)
