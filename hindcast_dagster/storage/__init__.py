"""Everything that is kept, under one root: atomic publish, sealed partitions, manifests, journals.

Nothing outside this package builds a path from a partition key or writes a manifest.
"""
