"""What a report says where it has nothing to show."""

from typing import NamedTuple


class NotMeasured(NamedTuple):
    """A part of the report that has no input, and the command that makes it."""

    what: str
    command: str
