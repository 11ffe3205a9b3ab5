"""The five tools as JSON: schemas, what a model may send, and what it learns from a mistake."""

import json

import pytest

from hindcast_dagster.archive.tools import TOOLS, call, schema
from tests.toy_archive import ToyArchive, document

T0 = 1769817600
DOCUMENTS = [
    document("a1", "2026-01-10", title="Bridge", text="will it open", author="ann", subreddit="CryptoCurrency"),
    document("a2", T0, title="It opened", text="bridge"),
    document("c1", "2026-01-11", "yes", link_id="a1", author="ann"),
    document("c2", T0 + 600, "it did", link_id="a1", author="ann"),
]
VIEW = ToyArchive(DOCUMENTS).at(T0)


def test_each_tool_has_a_schema_with_the_same_filter_block():
    assert list(TOOLS) == [
        "search_database",
        "getpostcoreinfo",
        "getcommentcoreinfo",
        "getpostcommentslist",
        "getauthorhistorylist",
    ]
    for name in TOOLS:
        found = schema(name)
        assert {"cutoff", "doc_type", "subreddits", "author", "months", "start"} - {"author"} <= set(
            found["properties"]
        )
        assert found["additionalProperties"] is False
        assert all("description" in each for each in found["properties"].values())
        assert json.dumps(found)


def test_calls_answer_json():
    hits = call(VIEW, "search_database", {"query": "bridge"})["hits"]
    assert [hit["id"] for hit in hits] == ["a1"]
    assert {"id", "doc_type", "subreddit", "created_at", "title", "text", "distance"} <= set(hits[0])
    assert call(VIEW, "getpostcoreinfo", {"post_id": "t3_a1"})["document"]["key"] == "t3_a1"
    assert call(VIEW, "getcommentcoreinfo", '{"comment_id": "c1"}')["document"]["id"] == "c1"
    assert [each["id"] for each in call(VIEW, "getpostcommentslist", {"post_id": "a1"})["documents"]] == ["c1"]
    history = call(VIEW, "getauthorhistorylist", {"author": "ann", "subreddits": "toys"})
    assert [each["key"] for each in history["documents"]] == ["t1_c1"]


@pytest.mark.parametrize("cutoff", ["2099-01-01", T0 + 10**6, 4102444799])
def test_a_cutoff_that_a_model_sends_is_clamped(cutoff):
    for name, arguments in (
        ("search_database", {"query": "bridge"}),
        ("getauthorhistorylist", {"author": "ann"}),
        ("getpostcommentslist", {"post_id": "a1"}),
    ):
        widened = call(VIEW, name, arguments | {"cutoff": cutoff})
        assert widened["cutoff"] == T0
        found = widened.get("hits", widened.get("documents"))
        assert all(each["created_at"] < T0 for each in found)


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("search_database", {"query": "x", "where": "1=1"}, "where"),
        ("search_database", {"query": "x", "Cutoff": "2099-01-01"}, "Cutoff"),
        ("search_database", {"query": "x", "prefilter": False}, "prefilter"),
        ("search_database", {"query": "x", "months": ["2026-13"]}, "not a month"),
        ("search_database", {"query": "x", "months": ["٢٠٢٦-٠١"]}, "not a month"),
        ("search_database", {"query": "x", "subreddits": ["a' OR '1'='1"]}, "not a subreddit"),
        ("search_database", {"query": "x", "cutoff": "1769817600000"}, "milliseconds"),
        ("search_database", {"query": "x", "start": "yesterday"}, "not an instant"),
        ("search_database", {}, "query"),
        ("search_database", {"query": 5}, "query"),
        ("getpostcoreinfo", {"post_id": "' OR 1=1 --"}, "not a Reddit"),
        ("getpostcoreinfo", {"post_id": "x" * 1_000_000}, "not a Reddit"),
        ("getpostcommentslist", {"post_id": "a1", "traversal": "sideways"}, "traversal"),
        ("drop_table", {}, "no tool"),
        (None, {}, "no tool"),
        ("search_database", "not json", "not JSON"),
        ("search_database", "[" * 200_000, "not JSON"),
        ("search_database", ["query"], "must be an object"),
        ("search_database", None, "must be an object"),
    ],
)
def test_a_mistake_becomes_a_sentence(name, arguments, said):
    answer = call(VIEW, name, arguments)
    assert set(answer) == {"error"}
    assert said in answer["error"]
    assert len(answer["error"]) <= 400
