"""`hindcast serve` through the MCP SDK's own client: in process, over stdio and over HTTP."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from hindcast_dagster.cli.serve import build_server
from hindcast_dagster.settings import load
from hindcast_dagster.storage.store import open_store
from tests.archive_world import ToyEmbedder, seal, use
from tests.toy_archive import ToyArchive, document

T0 = 1769817600
DOCUMENTS = [
    document("a1", "2026-01-10", title="Bridge", text="will it open", author="ann"),
    document("a2", T0, title="It opened", text="bridge", author="ann"),
    document("c1", "2026-01-11", "yes", link_id="a1", author="ann"),
    document("c2", T0 + 600, "it did", link_id="a1", author="ann"),
]
COMMAND = "from hindcast_dagster.cli.main import run; run()"


async def check(client: Client) -> None:
    """What every transport must do: five tools, only the past, and a cutoff that stays."""
    assert len((await client.list_tools()).tools) == 5

    async def ask(name: str, **arguments: object) -> dict:
        return json.loads((await client.call_tool(name, arguments)).content[0].text)

    for cutoff in (None, "2099-01-01"):
        assert (await ask("getpostcoreinfo", post_id="a1", cutoff=cutoff))["document"]["id"] == "a1"
        assert (await ask("getpostcoreinfo", post_id="a2", cutoff=cutoff))["document"] is None
        assert [
            each["id"] for each in (await ask("getpostcommentslist", post_id="a1", cutoff=cutoff))["documents"]
        ] == ["c1"]
        history = await ask("getauthorhistorylist", author="ann", cutoff=cutoff)
        assert [each["key"] for each in history["documents"]] == ["t3_a1", "t1_c1"]
        assert history["cutoff"] == T0
    assert (await ask("getpostcoreinfo", post_id="a1", cutoff="2026-01-01"))["document"] is None
    refused = await client.call_tool("getpostcoreinfo", {"post_id": "a1", "where": "true"})
    assert refused.is_error
    assert "where" in refused.content[0].text


async def test_in_process():
    view = ToyArchive(DOCUMENTS).at(T0)
    async with Client(build_server(view)) as client:
        await check(client)
        found = await client.call_tool("search_database", {"query": "bridge", "cutoff": "2099-01-01"})
        assert [hit["id"] for hit in found.structured_content["hits"]] == ["a1"]
        tool = (await client.list_tools()).tools[0]
        assert tool.annotations.read_only_hint
        assert tool.input_schema["required"] == ["query"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        use(patch, ToyEmbedder())
        path = tmp_path_factory.mktemp("served")
        seal(open_store(path), load(data_root=str(path)), DOCUMENTS)
        yield path


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TZ": "America/New_York"}


@pytest.mark.slow
async def test_over_stdio(root):
    arguments = ["-c", COMMAND, "serve", "--cutoff", str(T0), "--data-root", str(root)]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment())
    async with Client(server) as client:
        await check(client)


@pytest.fixture
def port(root):
    """The port of a served archive."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    arguments = [
        "serve",
        "--cutoff",
        "2026-01-31",
        "--transport",
        "http",
        "--port",
        str(free),
        "--data-root",
        str(root),
    ]
    with subprocess.Popen([sys.executable, "-c", COMMAND, *arguments], env=environment()) as server:
        try:
            wait_for(free)
            yield free
        finally:
            server.terminate()


@pytest.mark.slow
async def test_over_http_on_the_loopback_address_only(port):
    async with Client(f"http://127.0.0.1:{port}/mcp") as client:
        await check(client)
    await rebinding_is_refused(port)


def wait_for(port: int) -> None:
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail("the server did not start")


async def rebinding_is_refused(port: int) -> None:
    import httpx

    async with httpx.AsyncClient() as http:
        answer = await http.post(
            f"http://127.0.0.1:{port}/mcp", json={}, headers={"host": "evil.example", "origin": "http://evil.example"}
        )
    assert answer.status_code == 421
