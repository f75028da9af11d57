"""At a client's house: count and judge, rehearse, policy, release sheet, log, airlock."""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.site import airlock
    from safle.site.counting import count_table, evaluate_table
    from safle.site.log import LOG, write_log
    from safle.site.policy import Policy

__all__ = ["LOG", "Policy", "airlock", "count_table", "evaluate_table", "write_log"]

__getattr__ = front_door(__name__)
