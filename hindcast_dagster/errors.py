"""Errors, named by the reaction that they ask for.

What belongs here: the one root error and its direct kinds, each with the exit code of the command line. What does not:
an error with a story of one package; that lives in its package and inherits from one of these.
"""

from typing import ClassVar


class HindcastError(Exception):
    """Root of every error that Hindcast raises on purpose. Its text is one sentence for a person.

    `exit_code` is what the command line returns: 2 wrong usage or configuration, 3 input refused, 4 something needed
    is not ready, 1 a bug.
    """

    exit_code: ClassVar[int] = 1


class UsageError(HindcastError):
    """The caller asked for something that has no meaning: correct the call or the configuration."""

    exit_code: ClassVar[int] = 2


class InputRefused(HindcastError):
    """Bytes from outside are corrupt, incomplete or break their contract: look at the input."""

    exit_code: ClassVar[int] = 3


class NotReady(HindcastError):
    """Something needed is not there yet, and the text names it and the command that makes it."""

    exit_code: ClassVar[int] = 4


class Unreachable(NotReady):
    """A service did not answer within its wait budget: nothing stored is lost, run the command again."""


class CutoffViolation(HindcastError):
    """A row at or after t0 was about to be returned. This is a bug of the archive; no result is handed out."""
