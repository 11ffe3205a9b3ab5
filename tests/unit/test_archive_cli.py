"""The commands of the archive: documents on stdout, exit codes, help that teaches."""

import json

import pytest

from hindcast_dagster.archive import ranking
from hindcast_dagster.cli.main import run
from tests.archive_world import ToyEmbedder, publish, seal, use
from tests.toy_archive import document

POSTS = [
    document("p1", "2026-01-10", title="Bridge", text="will it open", author="ann"),
    document("p2", "2026-01-20", title="It opened", text="bridge \x1b[31mred", author="ann", engagement_as_of=None),
]
COMMENTS = [document("c1", "2026-01-11", "yes", link_id="p1"), document("c2", "2026-01-21", "no", link_id="p1")]


@pytest.fixture
def call(store, settings, monkeypatch, capsys):
    use(monkeypatch, ToyEmbedder())
    monkeypatch.setenv("HINDCAST_DATA_ROOT", str(store.root))

    def ask(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stopped:
            run(list(arguments))
        return int(stopped.value.code or 0), capsys.readouterr().out

    return ask


@pytest.fixture
def sealed(store, settings, call):
    seal(store, settings, POSTS + COMMENTS)


def test_search(call, sealed):
    code, out = call("search", "bridge", "--cutoff", "2026-01-15", "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["cutoff"] == 1768435200
    assert [hit["id"] for hit in answer["hits"]] == ["p1"]
    assert {"id", "doc_type", "subreddit", "created_at", "title", "text", "distance"} <= set(answer["hits"][0])
    assert isinstance(answer["note"], str)
    code, out = call("search", "bridge", "--cutoff", "2026-02-01", "--start", "2026-01-15", "--subreddit", "TOYS")
    assert "t3_p2" in out
    assert "t3_p1" not in out
    assert "\x1b[31m" not in out


def test_look_ups(call, sealed):
    at = ("--cutoff", "2026-01-15", "--json")
    assert json.loads(call("post", "t3_p1", *at)[1])["document"]["id"] == "p1"
    assert json.loads(call("post", "p2", *at)[1])["document"] is None
    assert json.loads(call("comment", "c1", *at)[1])["document"]["id"] == "c1"
    assert [each["id"] for each in json.loads(call("thread", "p1", *at)[1])["documents"]] == ["c1"]
    assert [each["id"] for each in json.loads(call("author", "ann", *at)[1])["documents"]] == ["p1"]


def test_mode(call, sealed):
    asked = ("post", "p2", "--cutoff", "2026-02-01", "--json")
    assert json.loads(call(*asked)[1])["document"]["score"] is None
    assert json.loads(call(*asked, "--mode", "paper")[1])["document"]["score"] == 10


def test_build(call, store):
    publish(store, "submissions", "2026-01", POSTS)
    code, out = call("archive", "build", "--month", "2026-01", "--json")
    built = json.loads(out)
    assert code == 0
    assert built["built"]["submissions"]["rows"] == 2
    assert "comments 2026-01 is not sealed" in built["missing"][0]


def test_status_says_how_each_month_is_searched(call, sealed):
    code, out = call("archive", "status", "--json")
    assert code == 0
    found = {(each["table"], each["month"]): each for each in json.loads(out)["months"]}
    assert found["submission_index", "2026-01"]["searched"] == "exact"
    assert found["submission_index", "2026-01"]["model"] == "toy"
    assert found["comment_index", "2026-01"]["searched"] is None
    assert all(each["bytes"] > 0 for each in found.values())


def test_the_general_status_says_which_way_months_are_searched(call, sealed, monkeypatch):
    assert json.loads(call("status", "--json")[1])["search"] == {"exact": ["2026-01"], "index": []}
    monkeypatch.setattr(ranking, "BYTES_PER_VALUE", 2**30)  # as if the month did not fit into archive.memory_mb
    assert json.loads(call("status", "--json")[1])["search"] == {"exact": [], "index": ["2026-01"]}
    said = " ".join(call("status")[1].split())
    assert "0 months exactly, 1 (2026-01) through their index" in said
    assert "archive.memory_mb" in said


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("archive", "build", "--month", "2026-01"), 4),
        (("archive", "build", "--month", "2026-1"), 2),
        (("search", "x", "--cutoff", "2026-01-15"), 4),
        (("search", "x"), 2),
        (("search", "x", "--cutoff", "yesterday"), 2),
        (("search", "x", "--cutoff", "1769817600000"), 2),
        (("serve", "--cutoff", "2026-01-15", "--port", "0"), 2),
    ],
)
def test_exit_codes_without_an_archive(call, arguments, code):
    assert call(*arguments)[0] == code


@pytest.mark.parametrize("kind", ["submissions", "comments"])
def test_a_kind_that_was_never_built_is_not_ready_and_not_an_empty_answer(call, store, settings, kind):
    seal(store, settings, POSTS if kind == "comments" else COMMENTS)
    at = ("--cutoff", "2026-01-15")
    needs = {
        "comments": [("comment", "c1"), ("thread", "p1"), ("author", "ann"), ("author", "ann", "--posts", "0")],
        "submissions": [("search", "bridge"), ("post", "p1"), ("author", "ann"), ("author", "ann", "--comments", "0")],
    }
    for arguments in needs[kind]:
        assert call(*arguments, *at)[0] == 4, arguments
    other = {"comments": ("author", "ann", "--comments", "0"), "submissions": ("thread", "p1")}[kind]
    assert call(*other, *at)[0] == 0


@pytest.mark.parametrize(
    "address",
    [
        "https://www.reddit.com/r/toys/comments/p1/title_of_p1/",
        "https://old.reddit.com/r/toys/comments/p1",
        "reddit.com/r/toys/comments/p1/a_title/?utm_source=share",
        "/r/toys/comments/p1/a_title/c1/",
        "https://www.reddit.com/u/ann/comments/p1/x/",
        "https://redd.it/p1",
    ],
)
def test_a_pasted_address_names_its_post(call, sealed, address):
    at = ("--cutoff", "2026-01-15", "--json")
    assert json.loads(call("post", address, *at)[1])["document"]["id"] == "p1"
    assert [each["id"] for each in json.loads(call("thread", address, *at)[1])["documents"]] == ["c1"]


def test_a_pasted_address_names_its_comment_or_is_refused(call, sealed):
    at = ("--cutoff", "2026-01-15", "--json")
    for address in ("https://www.reddit.com/r/toys/comments/p1/comment/c1/?context=3", "/r/toys/comments/p1/_/c1"):
        assert json.loads(call("comment", address, *at)[1])["document"]["id"] == "c1"
    assert call("comment", "https://www.reddit.com/r/toys/comments/p1/title/", *at)[0] == 2
    assert call("post", "https://www.reddit.com/r/toys/", *at)[0] == 2
    assert call("post", "https://example.com/r/toys/comments/p1/", *at)[0] == 2


def test_wrong_arguments(call, sealed):
    at = ("--cutoff", "2026-01-15")
    assert call("post", "no id", *at)[0] == 2
    assert call("post", "t1_c1", *at)[0] == 2
    assert call("search", "x", *at, "--month", "2026-13")[0] == 2
    assert call("thread", "p1", *at, "--traversal", "ancestors")[0] == 2


def test_a_hollow_month_is_input_refused(call, store):
    publish(store, "comments", "2026-01", [], health={"verdict": "hollow"})
    assert call("archive", "build", "--month", "2026-01")[0] == 3
    assert call("archive", "build", "--month", "2026-01", "--accept-hollow")[0] == 0


@pytest.mark.parametrize(
    "command", ["search", "post", "comment", "thread", "author", "serve", "archive build", "archive status"]
)
def test_every_help_teaches_with_an_example(call, command):
    code, out = call(*command.split(), "--help")
    assert code == 0
    assert f"Example: hindcast {command}" in " ".join(out.split())
