"""Scores: metrics, cells over runs, strata, paired comparisons, calibration and value beyond the market."""
