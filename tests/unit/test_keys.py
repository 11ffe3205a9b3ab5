"""Keys and slugs: nothing odd becomes a path, and no two names share one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindcast_dagster import keys
from hindcast_dagster.errors import UsageError


@pytest.mark.parametrize(
    "text", ["2026-13", "2026-1", "2026-00", "2026-01/../..", "٢٠٢٦-٠١", "2026-01\n", " 2026-01", "", None, 202601]
)
def test_only_real_months(text: object) -> None:
    with pytest.raises(UsageError):
        keys.month(text)
    assert keys.month("2026-01") == "2026-01"


@pytest.mark.parametrize(
    "text", ["../../x", "a\x00b", "a/b", "", "A", "-a", "a-", ".", "..", "a.b", "a b", "a\n", "a" * 97, "é"]
)
def test_only_plain_slugs(text: str) -> None:
    with pytest.raises(UsageError):
        keys.slug(text)


names = st.text(min_size=1, max_size=12)


@given(names)
def test_slug_round_trip(raw: str) -> None:
    assert keys.from_slug(keys.to_slug(raw)) == raw


@given(names, names)
def test_slugs_are_injective_even_on_a_case_insensitive_disk(one: str, two: str) -> None:
    assert (keys.to_slug(one).lower() == keys.to_slug(two).lower()) == (one == two)


@pytest.mark.parametrize("raw", ["Qwen/Qwen3-8B", "Llama-3.1-8B", "Llama-3.2-3B", "0.25", "0.5", "a,b", "../evil"])
def test_names_that_have_caused_trouble(raw: str) -> None:
    encoded = keys.to_slug(raw)
    assert keys.slug(encoded) == encoded
    assert keys.from_slug(encoded) == raw


@pytest.mark.parametrize("text", ["abc", "x_zz_x", "x_110000_x", "x_61_x", "xx", "x_0041_x"])
def test_a_foreign_slug_is_not_decoded(text: str) -> None:
    with pytest.raises(UsageError):
        keys.from_slug(text)


def test_reddit_names() -> None:
    assert keys.reddit_id("t3_1afjd7n") == "1afjd7n"
    assert keys.subreddit("r/CryptoCurrency") == "CryptoCurrency"
    assert keys.condition_id("0x" + "AB" * 32) == "0x" + "ab" * 32


@pytest.mark.parametrize("text", ["", "t3_", "ABC", "a'b", "1' OR '1'='1", "x" * 14, None])
def test_odd_reddit_ids_are_refused(text: object) -> None:
    with pytest.raises(UsageError):
        keys.reddit_id(text)
