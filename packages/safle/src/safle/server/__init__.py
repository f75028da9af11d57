"""At the server: the store of contributions, what it admits, and sums of many."""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.server.admission import Admission, Limits
    from safle.server.card import write_card
    from safle.server.folder import DATABASE, Member
    from safle.server.store import Store
    from safle.server.summing import sum_evaluations, sum_files, sum_histograms
    from safle.wire.contribution import Contribution, Entry, check_client

__all__ = [
    "DATABASE",
    "Admission",
    "Contribution",
    "Entry",
    "Limits",
    "Member",
    "Store",
    "check_client",
    "sum_evaluations",
    "sum_files",
    "sum_histograms",
    "write_card",
]

__getattr__ = front_door(__name__)
