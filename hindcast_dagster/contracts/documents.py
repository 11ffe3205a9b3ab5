"""Submissions and comments: one schema for both kinds of document (paper, section 3.1)."""

from typing import Final

import pyarrow as pa

from hindcast_dagster.clock import EARLIEST, LATEST
from hindcast_dagster.contracts.table import INSTANT, TEXT, Contract, column, not_null, one_of, unique, within

DOC_TYPES: Final = ("submission", "comment")

SCHEMA: Final = pa.schema(
    [
        column("id", TEXT),  # bare base 36, without t1_ / t3_
        column("doc_type", TEXT),  # submission | comment
        column("subreddit", TEXT),  # as the dump writes it (CryptoCurrency)
        column("author", TEXT),
        column("title", TEXT, null=True),  # null for comments
        column("text", TEXT),  # selftext or body, entities unescaped once; "" for a link post
        column("created_at", INSTANT),
        column("text_as_of", INSTANT),  # when the stored text was true
        column("engagement_as_of", INSTANT, null=True),  # when score and num_comments were read; null: unknown
        column("score", pa.int64()),
        column("num_comments", pa.int64(), null=True),  # null for comments
        column("link_id", TEXT, null=True),  # comments: bare id of the submission
        column("parent_id", TEXT, null=True),  # comments: t1_ or t3_ and the id
        column("permalink", TEXT, null=True),
        column("month", TEXT),  # YYYY-MM of created_at
        column("url", TEXT, null=True),
        column("over_18", pa.bool_(), null=True),
        column("deleted_later", pa.bool_()),  # its author deleted it later; the text is kept
        column("dump_sha256", TEXT),
    ]
)

_EXPECTATIONS: Final = (
    *not_null("id", "author", "text", "created_at", "text_as_of"),
    unique("id"),
    one_of("doc_type", DOC_TYPES),
    within("created_at", EARLIEST, LATEST - 1),
)

SUBMISSIONS: Final = Contract("submissions", 1, SCHEMA, ("id",), ("created_at", "id"), _EXPECTATIONS)
COMMENTS: Final = Contract("comments", 1, SCHEMA, ("id",), ("created_at", "id"), _EXPECTATIONS)
BY_KIND: Final = {"submissions": SUBMISSIONS, "comments": COMMENTS}
