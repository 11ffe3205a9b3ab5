"""Replies into values: group C of the known failures, and properties that no reply may break."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindcast_dagster.llm import parse
from hindcast_dagster.llm.parse import ParsedForecast, Refusal, forecast_object, probability, split_thought


def yes(reply: str) -> float | str:
    """The probability of a reply, or the reason of its refusal."""
    found = forecast_object(reply)
    return found.prob_yes if isinstance(found, ParsedForecast) else found.reason


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.65, 0.65),
        (0, 0.0),
        (1, 1.0),
        (1.0, 1.0),
        ("65%", 0.65),
        ("65 %", 0.65),
        ("100%", 1.0),
        ("0.5%", 0.005),
        (".65", 0.65),
        ("6.5e-1", 0.65),
        (" 0.65 ", 0.65),
        ("1.0", 1.0),
        (65, None),
        ("65", None),
        (150, None),
        (-0.2, None),
        ("-0.2", None),
        (6.5, None),
        ("150%", None),
        ("-5%", None),
        ("1,000%", None),
        ("0.65-0.75", None),
        ("about .6", None),
        ("~0.6", None),
        (">0.9", None),
        ("0,65", None),
        ("70% (±3%)", None),
        ("\u0660.\u0666", None),
        ("\uff10.\uff16", None),
        ("0.6\n0.7", None),
        ("NaN", None),
        ("inf", None),
        ("1e999", None),
        ("", None),
        (".", None),
        (True, None),
        (False, None),
        (None, None),
        ([0.5], None),
        ({"p": 0.5}, None),
        (math.nan, None),
        (math.inf, None),
        (10**400, None),
    ],
)
def test_the_probability_rule(value: object, expected: float | None) -> None:
    assert probability(value) == expected


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.floats())))
def test_a_probability_is_in_the_unit_interval_or_none(value: object) -> None:
    found = probability(value)
    assert found is None or 0 <= found <= 1


@given(st.floats(0, 1))
def test_a_probability_survives_a_round_trip_as_number_and_as_text(value: float) -> None:
    assert probability(value) == value
    assert probability(f"{value:.40f}") == pytest.approx(value, abs=1e-30)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('draft {"prob_yes":0.1}</think>{"prob_yes":0.9}', 0.9),
        ('<think>so {"prob_yes":0.1}', "unfinished_thought"),
        ('<think>a {"prob_yes":0.1}</think><think>b {"prob_yes":0.2}</think>{"prob_yes":0.9}', 0.9),
        ('<think>a<think>b</think>{"prob_yes":0.2}</think>{"prob_yes":0.9}', 0.9),
        ('{"prob_yes":0.9,"reasoning":"the <think> tag, </think> and [THINK]"}', 0.9),
        ('<Think>no {"prob_yes":0.1}</Think>{"prob_yes":0.9}', 0.9),
        ('<thinking>{"prob_yes":0.1}</thinking>{"prob_yes":0.9}', 0.9),
        ('[THINK]{"prob_yes":0.1}[/THINK]{"prob_yes":0.9}', 0.9),
        ('<think>\n\n</think>\n\n{"prob_yes":0.9}', 0.9),
        ('{"prob_yes":0.9}<think>or', "unfinished_thought"),
    ],
)
def test_thought_is_not_an_answer(reply: str, expected: float | str) -> None:
    assert yes(reply) == expected


def test_thought_that_the_prompt_opened() -> None:
    assert split_thought('draft {"prob_yes":0.1}', opened=True).unfinished
    assert split_thought('hm</think>{"prob_yes":0.9}', opened=True) == ('{"prob_yes":0.9}', "hm", False)
    both = split_thought("<think>a</think>answer<think>b</think>", opened=False)
    assert both == ("answer", "ab", False)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ('```json\n{"prob_yes": 0.7}\n```', 0.7),
        ('Here it is: {"prob_yes": 0.7}. Good luck!', 0.7),
        ('[{"prob_yes": 0.7}]', 0.7),
        ('{"forecast": {"prob_yes": 0.7}}', 0.7),
        ("{'prob_yes': 0.7, 'choice': 'Yes',}", 0.7),
        ("{prob_yes: 0.7, resolved: True, n: None}", 0.7),
        ('{"prob_yes": 65%, "confidence": .5}', 0.65),
        ('{"prob_yes": .65}', 0.65),
        ('{"prob_yes": 0.7, // from the base rate\n "prob_no": 0.3}', 0.7),
        ('{"prob_yes": 0.7, "reasoning": "two\nlines"}', 0.7),
        ('{"prob_yes": 0.7, "reasoning": "she said \\"no\\" {twice}"}', 0.7),
        ("{\u201cprob_yes\u201d: 0.7}", 0.7),
        ('{"prob_yes": 0.7} {"prob_yes": 0.7}', 0.7),
        ('{"evidence": []} {"prob_yes": 0.7}', 0.7),
        ('{"prob_yes_percent": 65}', 0.65),
        ('{"prob_yes_percent": 6.5}', "bad_probability"),
        ('{"prob_yes_percent": 150}', "bad_probability"),
        ("", "empty"),
        ("   \n\n ", "empty"),
        ("I cannot answer that.", "no_object"),
        ("Probability: 70% (±3%)", "no_object"),
        ("{", "truncated"),
        ('[{"prob', "truncated"),
        ('{"prob_yes": 0.', "truncated"),
        ('{"prob_yes": 0.7', "truncated"),
        ('{"prob_yes": 0.7, "sub": {"prob_yes": 0.2}', "truncated"),
        ('{"prob_yes": 0.7 | 0.8, "sub": {"prob_yes": 0.2}}', "bad_probability"),
        ('{"choice": "a" | "b", "sub": {"prob_yes": 0.2}}', "no_object"),
        ('{"choice": "Yes" | "No", "prob_yes": 0.0-1.0, "prob_no": 0.0-1.0}', "no_object"),
        ('{"prob_yes": 0.0-1.0}', "bad_probability"),
        ('{"prob_yes": 0.1} or {"prob_yes": 0.9}', "several_objects"),
        ('{"prob_yes": 0.1, "prob_yes": 0.9, "prob_no": 0.5}', "bad_probability"),
        ('{"prob_yes": NaN}', "bad_probability"),
        ('{"prob_yes": true}', "bad_probability"),
        ('{"prob_yes": "high"}', "bad_probability"),
        ('{"prob_yes": 1, "prob_no": 99}', "bad_probability"),
        ('{"prob_yes": 0.7, "prob_no": "30"}', "bad_probability"),
        ('{"choice": "Yes", "prob_yes": null}', "no_probability"),
        ('{"choice": "Yes", "confidence": 0.9}', "no_object"),
    ],
)
def test_what_counts_as_a_forecast(reply: str, expected: float | str) -> None:
    assert yes(reply) == expected


@pytest.mark.parametrize(
    ("fields", "prob", "choice", "conflict"),
    [
        ({"prob_yes": 0.7, "prob_no": 0.3, "choice": "Yes"}, 0.7, "Yes", None),
        ({"prob_yes": 0.7, "prob_no": 0.7}, 0.7, "Yes", "sum"),
        ({"prob_yes": 0.7, "prob_no": 0.2}, 0.7, "Yes", "sum"),
        ({"prob_yes": 0.51, "prob_no": 0.51}, 0.51, "Yes", None),
        ({"prob_yes": 0.8, "choice": "No"}, 0.8, "Yes", "choice"),
        ({"prob_yes": 0.8, "choice": "Maybe"}, 0.8, "Yes", "choice"),
        ({"prob_yes": 0.8, "prob_no": 0.8, "choice": "no"}, 0.8, "Yes", "sum+choice"),
        ({"prob_no": 0.3}, 0.7, "Yes", None),
        ({"prob_yes": None, "prob_no": 0.3}, 0.7, "Yes", None),
        ({"prob_yes": 0.8, "choice": "yes "}, 0.8, "Yes", None),
        ({"prob_yes": 0.8, "choice": "YES"}, 0.8, "Yes", None),
        ({"prob_yes": 0.8, "choice": "Y"}, 0.8, "Yes", None),
        ({"prob_yes": 0.5}, 0.5, "No", None),
        ({"prob_yes": 0}, 0.0, "No", None),
    ],
)
def test_conflicts_are_recorded_and_nothing_is_renormalised(fields, prob, choice, conflict) -> None:
    found = forecast_object(json.dumps(fields))
    assert isinstance(found, ParsedForecast)
    assert (found.prob_yes, found.choice, found.conflict) == (pytest.approx(prob), choice, conflict)
    assert found.prob_no == fields.get("prob_no")


def test_the_rest_of_the_object_is_kept_and_a_bad_confidence_is_none() -> None:
    found = forecast_object('{"prob_yes": 0.7, "confidence": "high", "reasoning": 5, "prior_category": 3}')
    assert isinstance(found, ParsedForecast)
    assert (found.confidence, found.reasoning, found.repaired) == (None, "", False)
    assert found.fields["prior_category"] == 3


@given(st.text(alphabet='{}[]":,.%0159eE-<>/think \n\\prob_yes', max_size=200))
def test_no_reply_raises_and_no_refusal_has_a_probability(reply: str) -> None:
    found = forecast_object(reply)
    assert isinstance(found, Refusal) or 0 <= found.prob_yes <= 1
    split_thought(reply, opened=True)
    parse.tool_calls(reply)


@given(
    st.dictionaries(st.text(max_size=5), st.one_of(st.floats(0, 1), st.text(max_size=9), st.none()), max_size=4),
    st.floats(0, 1),
)
def test_a_valid_object_is_read_as_json_reads_it(fields: dict, prob: float) -> None:
    whole = fields | {"prob_yes": prob, "reasoning": "because"}
    whole.pop("prob_no", None)
    found = forecast_object("Sure!\n```json\n" + json.dumps(whole, ensure_ascii=False) + "\n```")
    assert isinstance(found, ParsedForecast)
    assert found.fields == whole


@given(st.floats(0.01, 0.99), st.integers(1, 40))
def test_a_cut_reply_is_never_a_forecast(prob: float, cut: int) -> None:
    whole = json.dumps({"reasoning": "a {brace} and a quote", "prob_yes": round(prob, 6)})
    assert isinstance(forecast_object(whole[: len(whole) - min(cut, len(whole))]), Refusal)


@pytest.mark.parametrize("hostile", ["{" * 300_000, '{"a":' * 80_000, '{"a":"' * 60_000, "[" * 300_000, "{'" * 99_999])
def test_hostile_replies_take_no_time_and_no_stack(hostile: str) -> None:
    assert isinstance(forecast_object(hostile), Refusal)


def test_tool_calls() -> None:
    reply = (
        '<think>{"tool": "getpost", "arguments": {"id": "x"}}</think>'
        '{"tool": "search_database", "arguments": {"query": "a", "where": "1=1"}}'
        '{"name": "getpost", "arguments": "{\\"id\\": \\"abc\\"}"}'
        '{"tool": "getpost", "arguments": ["abc"]} {"tool": "getpost", "arguments": "abc"} {"tool": 5} trailing data'
    )
    found = parse.tool_calls(reply)
    assert [call.name for call in found] == ["search_database", "getpost", "getpost", "getpost"]
    assert found[0].arguments == {"query": "a", "where": "1=1"}
    assert found[1].arguments == {"id": "abc"}
    assert [call.problem is None for call in found] == [True, True, False, False]
    assert parse.tool_calls('<think>{"tool": "getpost", "arguments": {"id": "x"}}') == []


def test_small_readers() -> None:
    assert [parse.integer(v, 0, 9) for v in (3, 3.0, "3", 3.5, True, 10, "x", None)] == [3, 3, 3] + [None] * 5
    assert [parse.one_of(v, ("strong", "weak")) for v in (" Strong", "weaker", 3)] == ["strong", None, None]
    assert parse.texts(["a  b", "a b", "", 3, "c", "d"], limit=2) == ["a b", "c"]
    assert parse.texts("one", limit=2) == ["one"]
    assert parse.texts({"a": 1}, limit=2) == []


def test_a_single_object_by_its_keys() -> None:
    assert parse.single_object('{"queries": ["a"]} {"note": 1}', having=("queries",)) == {"queries": ["a"]}
    assert isinstance(parse.single_object('{"queries": ["a"]} {"queries": ["b"]}', having=("queries",)), Refusal)
    assert parse.single_object('{"any": 1}') == {"any": 1}


@pytest.mark.parametrize(
    "reply",
    [r'{"a": "\ud800"}', r'{"a": "\udfff\ud800"}', r"{'a': '\ud800'}", r'{"\ud800": 1}', r'{"a": [{"b": "\udc00"}]}',
     r'{"tool": "t", "arguments": "{\"q\": \"\\ud800\"}"}'],
)  # fmt: skip
def test_half_a_character_that_json_escapes_is_replaced_wherever_it_stands(reply: str) -> None:
    found = parse.scan(reply).objects
    assert len(found) == 1
    repr(found).encode()
    json.dumps(found, ensure_ascii=False).encode()
    json.dumps([call.arguments for call in parse.tool_calls(reply)], ensure_ascii=False).encode()


@pytest.mark.parametrize("reply", [r'{"a": "\ud83d\ude80"}', r"{'a': '\ud83d\ude80'}"])
def test_two_halves_are_one_character(reply: str) -> None:
    assert parse.scan(reply).objects == [{"a": "\U0001f680"}]
