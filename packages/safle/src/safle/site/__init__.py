"""At a client's house: count and judge, rehearse, policy, release sheet, log."""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.site import airlock
    from safle.site.counting import Counts, count_table, evaluate_table
    from safle.site.log import LOG, log_refusal, read_log, write_log
    from safle.site.policy import Policy, let_out, warning_of
    from safle.site.release import FEW, Release, disclosures, kind_for
    from safle.site.sheet import Sheet, write_release

__all__ = [
    "FEW",
    "LOG",
    "Counts",
    "Policy",
    "Release",
    "Sheet",
    "airlock",
    "count_table",
    "disclosures",
    "evaluate_table",
    "kind_for",
    "let_out",
    "log_refusal",
    "read_log",
    "warning_of",
    "write_log",
    "write_release",
]

__getattr__ = front_door(__name__)
