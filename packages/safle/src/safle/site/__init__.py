"""At a client: count and judge, rehearse, policy, release sheet, log.

Examples
--------
>>> from safle import log_refusal, site_log
>>> with log_refusal(note="nothing is refused here"):
...     site_log().suffix
'.jsonl'
"""
