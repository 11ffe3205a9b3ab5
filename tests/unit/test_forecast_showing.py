"""What `hindcast forecast show` makes of the values in a trace."""

from typing import Any

import pytest

from hindcast_dagster.forecast import showing


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            {"no": {"strong": 0, "weak": 0, "irrel": 0, "contra": 0}, "quality": "weak",
             "yes": {"strong": 2, "weak": 1, "irrel": 0, "contra": 0, "unlabelled": 3}},
            "quality weak; yes: 2 strong, 1 weak, 3 unlabelled; no: nothing",
        ),
        ({"conflict": None, "blocks": {"t3_a": ["weak", None], "t3_b": ["irrel", "strong"]}},
         "blocks: (t3_a weak / -, t3_b irrel / strong)"),
        ({"shown": ["t3_a", "t3_b"], "trimmed": 2}, "shown t3_a, t3_b; trimmed 2"),
        ([{"hits": 10, "new": 6}], "(hits 10, new 6)"),
        ([], "none"), ({}, "-"), (True, "yes"), (0.25, "0.25"), ("brief", "brief"),
    ],
)  # fmt: skip
def test_what_a_trace_holds_is_shown_in_words(value: Any, said: str) -> None:
    assert showing.words(value) == said
