"""What of a question may reach a prompt: the one place that reads a Question for a model."""

import hashlib
import json
from typing import Final

from hindcast_dagster.questions.question import PROMPT_FIELDS, Question

NO_CRITERIA: Final = "(none given)"


def fields(question: Question) -> dict[str, str]:
    """Return the values for the places question, criteria and cutoff_date. Untrusted: `Prompt.fill` neutralises them.

    The planned close is allowed in a prompt but the paper's templates do not show it, and venues edit it later.
    """
    return {
        "question": question.text,
        "criteria": question.criteria or NO_CRITERIA,
        "cutoff_date": question.t0.iso,
    }


def options(question: Question) -> str:
    """Return the options as one line."""
    return " | ".join(question.options)


def fingerprint(question: Question) -> str:
    """Return the sha256 over everything that a prompt may contain of the question."""
    values = {name: getattr(question, name) for name in sorted(PROMPT_FIELDS - {"t0"})}
    text = json.dumps(values | {"t0": question.t0.epoch}, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
