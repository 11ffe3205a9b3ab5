"""The tables of a report as plain values, one function per table."""
