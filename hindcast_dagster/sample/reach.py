"""Makes the three Polymarket APIs answer: the real ones as they are, or the sample world's server on loopback."""

from collections.abc import Iterator
from contextlib import contextmanager

from hindcast_dagster.settings import Settings


@contextmanager
def reachable(settings: Settings) -> Iterator[Settings]:
    """Yield settings whose base URLs answer while the body runs.

    With `polymarket.source = "sample"` the world that `settings.sample` describes is generated and served on a free
    loopback port; otherwise the settings come back unchanged.
    """
    if settings.polymarket.source != "sample":
        yield settings
        return
    from hindcast_dagster.sample.server import serve
    from hindcast_dagster.sample.world import generate

    sample = settings.sample
    world = generate(months=sample.months, seed=sample.seed, first_month=sample.first_month)
    with serve(world) as url:
        urls = {"gamma_url": url, "clob_url": url, "data_url": url}
        yield settings.model_copy(update={"polymarket": settings.polymarket.model_copy(update=urls)})
