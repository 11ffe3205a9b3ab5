"""The model of a dry run lives with the other models (`llm.unasked`)."""

from hindcast_dagster.llm.unasked import Unasked, unasked

__all__ = ["Unasked", "unasked"]
