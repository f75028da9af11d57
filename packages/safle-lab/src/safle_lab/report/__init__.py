"""The report: all results of a folder as one page that needs nothing else."""

from safle_lab.report.page import write_report

__all__ = ["write_report"]
