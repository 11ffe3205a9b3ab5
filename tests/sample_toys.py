"""The sample world without files: its kept posts in a toy archive, its markets as questions at their t0."""

from functools import cache

from hindcast_dagster.clock import Cutoff, month_of
from hindcast_dagster.questions.question import Question
from hindcast_dagster.sample.model import Post, SampleMarket
from hindcast_dagster.sample.world import World, generate
from tests.toy_archive import ToyArchive, document


@cache
def world(months: int = 2) -> World:
    return generate(months=months)


def archive(found: World) -> ToyArchive:
    posts = [post for rows in found.posts.values() for post in rows if post.fate == "kept"]
    return ToyArchive([as_document(post) for post in posts])


def as_document(post: Post):
    values = {} if post.kind == "submission" else {"link_id": post.link.id if post.link else None}
    return document(
        post.id,
        post.created_at,
        post.text,
        title=post.title or None,
        subreddit=post.subreddit,
        author=post.author,
        score=post.score,
        num_comments=post.num_comments if post.kind == "submission" else None,
        text_as_of=post.text_as_of,
        engagement_as_of=post.fetched_at,
        parent_id=post.parent.key if post.parent else None,
        month=month_of(post.created_at),
        **values,
    )


def as_question(market: SampleMarket, *, base_rate: float = 0.33) -> Question:
    return Question(
        id=market.market_id,
        source="polymarket",
        event_id=market.event_id,
        text=market.question,
        criteria=market.rules,
        options=("Yes", "No"),
        t0=Cutoff(market.t0),
        planned_close=market.planned_close,
        topic=market.story.topic,
        duration="medium",
        tags=(),
        price_at_t0=None,
        base_rate=base_rate,
        reference_rate=base_rate,
    )
