"""The generated sample world of the demo and the tests: invented dumps and markets with planted truth."""
