"""At a client's house: count and judge, rehearse, policy, release sheet, log."""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.site.counting import count_table as count_table
    from safle.site.counting import evaluate_table as evaluate_table
    from safle.site.log import LOG as LOG
    from safle.site.log import write_log as write_log
    from safle.site.policy import Policy as Policy

define_public_names(__name__)
