"""At a client's house: count and judge, rehearse, policy, release sheet, log."""

from typing import TYPE_CHECKING

from safle.basics.doors import front_door

if TYPE_CHECKING:
    from safle.site.counting import count_table as count_table
    from safle.site.counting import evaluate_table as evaluate_table
    from safle.site.log import LOG as LOG
    from safle.site.log import write_log as write_log
    from safle.site.policy import Policy as Policy

front_door(__name__)
