"""Arguments as models and people write them (cases H12, H13, H14, H22): read where they are clear, refused in words."""

import pytest

from hindcast_dagster import keys
from hindcast_dagster.archive import limits, tools
from hindcast_dagster.errors import UsageError


def test_a_month_of_the_year_0_is_refused_in_words():
    with pytest.raises(UsageError, match="0000-01"):
        keys.month("0000-01")


@pytest.mark.parametrize(
    "address",
    [
        "https://redd.it/abc123?utm_source=x",
        "redd.it/abc123#top",
        "https://www.reddit.com/gallery/abc123",
        "https://www.reddit.com/gallery/abc123/?utm_source=share",
    ],
)
def test_short_and_gallery_addresses_name_their_post(address):
    assert limits.document_id(address, kind="submission") == "abc123"


def test_a_list_that_comes_as_json_text_is_read_as_the_list():
    asked = tools.SearchDatabase.model_validate({"query": "x", "subreddits": '["Economics", "news"]'})
    assert asked.subreddits == ["Economics", "news"]
    assert tools.SearchDatabase.model_validate({"query": "x", "subreddits": "news"}).subreddits == ["news"]


@pytest.mark.parametrize("wrong", ["[", "[1]", '[["a"]]', '["a"'])
def test_text_that_is_no_list_of_names_is_refused(wrong):
    with pytest.raises(ValueError, match="subreddits"):
        tools.SearchDatabase.model_validate({"query": "x", "subreddits": wrong})
