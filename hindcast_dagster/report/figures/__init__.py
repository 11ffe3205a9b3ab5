"""The figures of a report: each is a function from what was gathered to a chart (Altair), or None without data."""
