"""Canaries: what each kind is, that the watch hears them wherever they are, and that they are never planted by mistake."""

import json
import zipfile

import polars as pl
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from hindcast_dagster.clock import DAY, EARLIEST, Cutoff, month_of
from hindcast_dagster.errors import UsageError
from hindcast_dagster.leakage.canaries import KINDS, canaries, dump_lines, plant
from hindcast_dagster.leakage.watch import Watched, left_behind, marks
from hindcast_dagster.llm.protocol import ChatModel, Decoding, Message
from tests.forecast_world import Script

T0 = Cutoff.of("2025-03-19")
PLANTED = canaries(t0=T0, question="Will it happen?", outcome="Yes", subreddit="soccer")


def test_tokens_and_ids_are_unique_and_differ_by_question():
    others = canaries(t0=T0, question="Will it rain?", outcome="No", subreddit="soccer")
    every = [*PLANTED, *others]
    assert len({canary.token for canary in every}) == len({canary.key for canary in every}) == 4 * len(KINDS)
    assert canaries(t0=T0, question="Will it happen?", outcome="Yes", subreddit="soccer") == PLANTED


def test_the_token_lies_in_the_record_of_its_canary_alone():
    for canary in PLANTED:
        holders = [other for other in PLANTED if canary.token in json.dumps(other.record)]
        assert holders == [canary]


@given(st.integers(EARLIEST + 400 * DAY, EARLIEST + 7_000 * DAY))
def test_each_kind_stands_where_it_says(epoch):
    planted = {canary.kind: canary for canary in canaries(t0=Cutoff(epoch), question="Q?", outcome="No", subreddit="s")}
    before = {"control", "edited_after", "restored_after", "updated_after", "late_votes"}
    for kind, canary in planted.items():
        assert (canary.created_at < epoch) == (kind in before)
        assert canary.record["created_utc"] == canary.created_at
    assert planted["same_second"].created_at == epoch
    assert month_of(planted["next_month"].created_at) > month_of(epoch)
    assert planted["edited_after"].record["edited"] >= epoch
    assert planted["updated_after"].record["updated_on"] >= epoch
    assert planted["control"].record["_meta"]["retrieved_2nd_on"] < epoch
    for kind in ("late_votes", "restored_after"):
        assert planted[kind].record["_meta"]["retrieved_2nd_on"] >= epoch


def test_controls_may_be_seen_and_late_votes_hide_their_number_only():
    hides = {(canary.kind, canary.doc_type): canary.marks for canary in PLANTED}
    assert hides["control", "comment"] == ()
    assert len(hides["late_votes", "submission"]) == 1
    assert all(len(found) == 2 for (kind, _), found in hides.items() if kind not in {"control", "late_votes"})


def test_planting_appends_to_dumps_and_refuses_sealed_months(store):
    path = store.area("dumps", "RS_2025-03.zst")
    path.parent.mkdir(parents=True)
    path.write_bytes(zstandard.compress(b'{"id": "own"}\n'))
    assert plant(store, PLANTED) == ["RC_2025-03.zst", "RC_2025-04.zst", "RS_2025-03.zst", "RS_2025-04.zst"]
    reader = zstandard.ZstdDecompressor().stream_reader(path.read_bytes(), read_across_frames=True)
    ids = [json.loads(line)["id"] for line in reader.read().splitlines()]
    assert ids[0] == "own"
    assert len(ids) == 1 + len(dump_lines(PLANTED)["RS_2025-03.zst"])
    with store.partition("comments", "2025-04").draft() as draft:
        draft.seal(rows=0, schema_version="x/1", code_version="1")
    with pytest.raises(UsageError, match="comments 2025-04 is sealed"):
        plant(store, PLANTED)


async def test_the_watch_hears_prompts_and_replies():
    secret, open_word = PLANTED[2].token, PLANTED[0].token
    model = Watched(Script(answers={"call": f"I know {secret}"}), frozenset({secret}), also=frozenset({open_word}))
    assert isinstance(model, ChatModel)
    await model.complete([Message("user", "nothing")], decoding=Decoding(0.0, 10))
    await model.complete([Message("system", secret), Message("user", open_word)], decoding=Decoding(0.0, 10))
    assert [one.where for one in model.sightings] == ["reply of call 1", "prompt of call 2", "reply of call 2"]
    assert model.heard == {open_word}


def test_the_watch_hears_whatever_was_left_behind(store):
    mark = PLANTED[2].token
    planted = marks(PLANTED)
    assert left_behind(store, planted) == []
    journal = store.area("journal", "retrieval_forecasts", "m", "q", "a.json")
    journal.parent.mkdir(parents=True)
    journal.write_text(json.dumps({"reply": f"x {mark}"}))
    table = store.root / "tables" / "scored_forecasts" / "q" / "v-1" / "data.parquet"
    table.parent.mkdir(parents=True)
    pl.DataFrame({"text": [f"hidden {mark}"]}).write_parquet(table, compression="zstd")
    bundle = store.area("exports", "q.zip")
    bundle.parent.mkdir(parents=True)
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("data.csv", f"a,b\n1,{mark}\n" * 50)
    own = store.root / "tables" / "submissions" / "2025-03" / "v-1" / "note.txt"
    own.parent.mkdir(parents=True)
    own.write_text(mark)
    assert {one.where for one in left_behind(store, planted)} == {
        "exports/q.zip", "journal/retrieval_forecasts/m/q/a.json", "tables/scored_forecasts/q/v-1/data.parquet",
    }  # fmt: skip
