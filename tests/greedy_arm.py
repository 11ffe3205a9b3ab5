"""An arm that wants everything: it searches wide, opens every thread, author and id that it can name, and tells it all."""

from typing import ClassVar

from hindcast_dagster.archive.protocol import Filters
from hindcast_dagster.clock import DAY
from hindcast_dagster.forecast.forecaster import Forecast
from hindcast_dagster.llm.protocol import Decoding, Message


class Greedy:
    """Asks a model with all that it found in the prompt, and writes it all into its rationale."""

    arm, version = "greedy", "1"
    names: ClassVar[list[str]] = []
    """Prefixed ids that it tries to open although no search returned them."""

    def __init__(self, model):
        self.model = model

    async def forecast(self, question, archive, *, run):
        later = Filters(cutoff=question.t0.epoch + 365 * DAY)
        found = [hit.document for hit in archive.search_database(question.text, k=200, filters=later).hits]
        for name in self.names:
            look = archive.getpostcoreinfo if name.startswith("t3_") else archive.getcommentcoreinfo
            found += look(name).documents
        for post in list({one.id: one for one in found if one.doc_type == "submission"}.values())[:10]:
            found += archive.getpostcommentslist(post.id, limit=500).documents
        for author in sorted({one.author for one in found}):
            found += archive.getauthorhistorylist(author, posts=100, comments=100).documents
        told = "\n".join(f"{one.key} {one.score} {one.num_comments} {one.title} {one.text}" for one in found)
        await self.model.complete([Message("user", told)], decoding=Decoding(0.0, 100))
        return Forecast(0.7, rationale=told)
