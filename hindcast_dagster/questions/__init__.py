"""The Question that every forecaster gets, its topic and duration, and where questions come from."""
