"""Instants, cutoffs and t0 policies: what is accepted, what is refused, and that the host's zone plays no part."""

import json
import math
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindcast_dagster import clock
from hindcast_dagster.clock import Cutoff, InvalidInstant, T0Policy
from hindcast_dagster.errors import UsageError

JAN_31 = 1_769_817_600
instants = st.integers(clock.EARLIEST, clock.LATEST - 1)


@pytest.mark.parametrize(
    "value",
    [
        JAN_31, float(JAN_31), JAN_31 + 0.999, str(JAN_31), "2026-01-31", "2026-01-31T00:00:00Z", "2026-01-31 00:00:00+00",
        "2026-01-30T19:00:00-05:00", "2026-01-31T09:00:00+0900", "2026-01-31T00:00:00.999999Z", " 2026-01-31 ",
        datetime(2026, 1, 31, tzinfo=UTC), datetime(2026, 1, 31, 9, tzinfo=timezone(timedelta(hours=9))),
        datetime(2026, 1, 31, tzinfo=UTC).date(), Cutoff(JAN_31),
    ],
)  # fmt: skip
def test_one_instant_however_it_is_written(value: object) -> None:
    assert clock.instant(value) == JAN_31


@pytest.mark.parametrize(
    "value",
    [
        None, math.nan, math.inf, True, "", "yesterday", "2026-02-30", "2026-01-31T00:00:00",
        datetime(2026, 1, 31),  # noqa: DTZ001
        JAN_31 * 1000, str(JAN_31 * 1000), 0, -1, 9e18, "٢٠٢٦-٠١-٣١", "٢٠٢٦", [], b"2026-01-31", "2026-1-31", "1e9", "nan",
    ],
)  # fmt: skip
def test_what_is_not_one_instant_is_refused(value: object) -> None:
    with pytest.raises(InvalidInstant):
        clock.instant(value)


def test_milliseconds_are_named() -> None:
    with pytest.raises(InvalidInstant, match="milliseconds"):
        clock.instant(JAN_31 * 1000)


@given(instants)
def test_iso_round_trip(epoch: int) -> None:
    assert clock.instant(clock.iso(epoch)) == epoch


@given(instants, st.floats(0, 0.999))
def test_a_fraction_is_floored_never_rounded_up(epoch: int, fraction: float) -> None:
    assert clock.instant(epoch + fraction) <= epoch


def test_the_cutoff_is_strict() -> None:
    t0 = Cutoff.of("2026-01-31")
    assert t0.admits(JAN_31 - 1)
    assert not t0.admits(JAN_31)
    assert not Cutoff.of(JAN_31 + 0.4).admits(JAN_31)


@pytest.mark.parametrize("created", [None, math.nan, 0, -1, "1", 1.0, True, JAN_31 * 1000])
def test_a_row_without_a_usable_time_is_never_admitted(created: object) -> None:
    assert not Cutoff.of("2026-01-31").admits(created)


@given(instants, instants)
def test_a_clamp_never_widens(t0: int, asked: int) -> None:
    assert Cutoff(t0).clamp(asked) == Cutoff(min(t0, asked))
    assert Cutoff(t0).clamp(None) == Cutoff(t0)


def test_a_cutoff_on_the_first_of_a_month_admits_only_earlier_months() -> None:
    assert Cutoff.of("2026-01-01").month == "2025-12"
    assert Cutoff.of("2026-01-01T00:00:01Z").month == "2026-01"


def test_a_cutoff_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Cutoff.of("2026-01-01").epoch = 5  # type: ignore[misc]


@given(st.integers(2005 * 12, 2099 * 12), st.integers(-30, 30))
def test_month_arithmetic_is_consistent(index: int, by: int) -> None:
    month = f"{index // 12:04d}-{index % 12 + 1:02d}"
    assert clock.shift_month(clock.shift_month(month, by), -by) == month
    assert clock.month_of(clock.month_start(month)) == month
    assert clock.month_of(clock.month_end(month) - 1) == month


def test_months_between() -> None:
    assert clock.months("2025-11", "2026-02") == ["2025-11", "2025-12", "2026-01", "2026-02"]
    assert clock.months("2026-02", "2026-01") == []


class TestPolicies:
    CLOSE = clock.instant("2026-01-15T00:30:00Z")

    def test_day_before_close_is_a_calendar_day(self) -> None:
        t0 = T0Policy.parse("day_before_close").resolve(open_at=None, close_at=self.CLOSE)
        assert t0 is not None
        assert t0.cutoff.iso == "2026-01-14T00:00:00Z"

    def test_the_archive_end_caps_after_the_policy(self) -> None:
        end = Cutoff.of("2026-01-31")
        late = T0Policy.parse("day_before_close").resolve(
            open_at=None, close_at=clock.instant("2026-03-05"), archive_end=end
        )
        early = T0Policy.parse("day_before_close").resolve(open_at=None, close_at=self.CLOSE, archive_end=end)
        assert late == (end, True, False)
        assert early is not None
        assert not early.capped

    def test_lookback(self) -> None:
        opened = self.CLOSE - 1000
        quarter = T0Policy.parse("lookback:0.25").resolve(open_at=opened, close_at=self.CLOSE)
        whole = T0Policy.parse("lookback:1").resolve(open_at=opened, close_at=self.CLOSE)
        assert quarter is not None
        assert quarter.cutoff.epoch == opened + 250
        assert whole == (Cutoff(self.CLOSE - 1), False, True)
        assert T0Policy.parse("lookback:0.5").resolve(open_at=None, close_at=self.CLOSE) is None

    def test_days_before_and_fixed(self) -> None:
        seven = T0Policy.parse("days_before:7").resolve(open_at=None, close_at=self.CLOSE)
        fixed = T0Policy.parse("fixed:2026-01-01").resolve(open_at=None, close_at=self.CLOSE)
        assert seven is not None
        assert seven.cutoff.epoch == self.CLOSE - 7 * clock.DAY
        assert fixed is not None
        assert fixed.cutoff.iso == "2026-01-01T00:00:00Z"

    def test_t0_at_or_after_the_close_does_not_exist(self) -> None:
        assert T0Policy.parse("fixed:2026-01-15T00:30:00Z").resolve(open_at=None, close_at=self.CLOSE) is None

    @pytest.mark.parametrize(
        "text",
        ["", "lookback", "lookback:0", "lookback:1.1", "lookback:nan", "days_before:0", "days_before:-1", "fixed:",
         "fixed:soon", "day_before_close:1", "close", "lookback:٠.٥"],
    )  # fmt: skip
    def test_unknown_policies_are_refused(self, text: str) -> None:
        with pytest.raises(UsageError):
            T0Policy.parse(text)

    @pytest.mark.parametrize(
        "text", ["day_before_close", "lookback:0.25", "days_before:7", "fixed:2026-01-01T00:00:00Z"]
    )
    def test_text_round_trip(self, text: str) -> None:
        assert str(T0Policy.parse(text)) == text

    @given(
        st.sampled_from(["day_before_close", "lookback:0.1", "lookback:0.75", "lookback:1", "days_before:3"]),
        instants,
        st.integers(1, 400 * clock.DAY),
        st.one_of(st.none(), instants),
    )
    def test_t0_is_always_before_close_and_never_after_the_cap(
        self, policy: str, opened: int, span: int, end: int | None
    ) -> None:
        cap = None if end is None else Cutoff(end)
        t0 = T0Policy.parse(policy).resolve(open_at=opened, close_at=opened + span, archive_end=cap)
        if t0 is not None:
            assert t0.cutoff.epoch < opened + span
            assert cap is None or t0.cutoff <= cap
            assert t0.capped == (t0.cutoff == cap) or not t0.capped


_PROBE = """
import json, sys
from datetime import datetime, timezone
from hindcast_dagster import clock
t0 = clock.T0Policy.parse("day_before_close").resolve(open_at=None, close_at=clock.instant("2026-02-01T03:00:00Z"))
print(json.dumps([clock.instant("2026-01-31"), t0.cutoff.epoch, t0.cutoff.month, clock.month_start("2026-01"),
                  clock.instant(datetime(2026, 1, 31, tzinfo=timezone.utc))]))
"""


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
def test_the_zone_of_the_host_plays_no_part(zone: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", _PROBE], env=os.environ | {"TZ": zone}, capture_output=True, text=True, check=True
    )
    assert json.loads(result.stdout) == [JAN_31, JAN_31, "2026-01", clock.month_start("2026-01"), JAN_31]
