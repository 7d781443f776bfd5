"""The report: one page with curves, picks and verdicts."""
