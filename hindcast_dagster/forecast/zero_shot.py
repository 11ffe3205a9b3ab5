"""The zero-shot arm: one call, no retrieval (paper, sections 5.1 and B.1). The floor of parametric memory."""

from typing import Any, Final

from hindcast_dagster.archive.protocol import ArchiveView
from hindcast_dagster.forecast import reading
from hindcast_dagster.forecast.calls import Caller, version_of
from hindcast_dagster.forecast.fields import fields
from hindcast_dagster.forecast.forecaster import Forecast
from hindcast_dagster.llm.protocol import ChatModel
from hindcast_dagster.prompts.loader import load
from hindcast_dagster.questions.question import Question
from hindcast_dagster.settings import Settings

CODE: Final = 1
"""Raised with every change of behaviour that no prompt and no setting shows: part of the arm's version."""

PROMPTS: Final = ("zero_shot_system", "zero_shot_user", *reading.PROMPTS)
CALLS: Final = ("zero_shot", "repair", "compact", "json_only")


class ZeroShot:
    """Forecasts from the question alone."""

    arm = "zero_shot"
    uses_archive = False

    def __init__(self, model: ChatModel, settings: Settings) -> None:
        self._caller = Caller(model, settings.decoding, structured=settings.llm.structured)
        self.settings: dict[str, Any] = {
            "code": CODE,
            "decoding": settings.decoding.model_dump(include={*CALLS, "top_p"}),
            "structured": settings.llm.structured,
        }
        self.version = version_of(self.arm, prompts=PROMPTS, settings=self.settings)

    async def forecast(self, question: Question, archive: ArchiveView, *, run: int) -> Forecast:
        """Forecast one question; the archive is not asked."""
        del archive
        schema = load("forecast_schema").text
        found = await reading.read_forecast(
            self._caller,
            "zero_shot",
            question=question,
            system=load("zero_shot_system").text,
            user=load("zero_shot_user").fill(trusted={"schema": schema}, **fields(question)),
            run=run,
        )
        return reading.forecast_of(found)
