"""Opens a judge by name: `evidence_count`, or any slug of the model roster."""

from hindcast_dagster.coverage import cue_judge
from hindcast_dagster.coverage.judge import Judge
from hindcast_dagster.settings import Settings


def open_judge(settings: Settings, name: str) -> Judge:
    """Return the judge of this name. Raises `UsageError` for a model that the roster does not know."""
    if name == cue_judge.NAME:
        return cue_judge.CueJudge(settings.coverage)
    from hindcast_dagster.coverage.llm_judge import LlmJudge
    from hindcast_dagster.llm.open import open_model

    return LlmJudge(open_model(settings, name), settings.coverage, structured=settings.llm.structured)


def named_judge(settings: Settings, name: str) -> Judge:
    """Return a judge that can be named and never asked: no engine has to be there for a dry run."""
    if name == cue_judge.NAME:
        return cue_judge.CueJudge(settings.coverage)
    from hindcast_dagster.coverage.llm_judge import LlmJudge
    from hindcast_dagster.llm.unasked import unasked

    return LlmJudge(unasked(settings, name), settings.coverage, structured=settings.llm.structured)
