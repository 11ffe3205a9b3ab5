"""Duration classes: how long a market was open (paper, section 4.1: 36 short, 129 medium and 51 long markets)."""

from hindcast_dagster import clock
from hindcast_dagster.questions.question import Duration
from hindcast_dagster.settings import Questions


def duration(*, open_at: int, close_at: int, settings: Questions) -> Duration:
    """Return the class of a market's life from opening to its actual close. Never shown to a forecaster."""
    days = (close_at - open_at) / clock.DAY
    if days <= settings.short_days:
        return "short"
    return "medium" if days <= settings.medium_days else "long"
