"""At a client's house: count and judge, rehearse, policy, release sheet, log.

Examples
--------
>>> from safle.site import log_refusal, site_log
>>> with log_refusal(note="nothing is refused here"):
...     site_log().suffix
'.jsonl'
"""

from typing import TYPE_CHECKING

from safle.basics.imports import define_public_names

if TYPE_CHECKING:
    from safle.site.counting import count_table as count_table
    from safle.site.counting import evaluate_table as evaluate_table
    from safle.site.log import LOG as LOG
    from safle.site.log import log_refusal as log_refusal
    from safle.site.log import site_log as site_log
    from safle.site.log import write_log as write_log
    from safle.site.policy import Policy as Policy
    from safle.site.release import Release as Release

define_public_names(__name__)
