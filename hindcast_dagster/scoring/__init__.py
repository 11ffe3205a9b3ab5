"""Metrics, strata, paired comparison and the score tables."""
