"""The dump reader, the record normaliser, the filters with their reasons, and month health."""
