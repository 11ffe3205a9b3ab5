"""The care of a data root: documents that have to go, many partitions at once, what a root holds and what it cost."""
