"""`hindcast serve`: the five tools as an MCP server, pinned at a cutoff that a client cannot move.

The server holds one view. A call may narrow it; the cutoff of a call is clamped to the server's (see `archive.tools`).
"""

import json
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from hindcast_dagster.archive.protocol import ArchiveView
from hindcast_dagster.archive.tools import TOOLS, call, schema
from hindcast_dagster.cli.archive import CutoffOption, ModeOption, open_view
from hindcast_dagster.cli.context import Context
from hindcast_dagster.errors import UsageError

if TYPE_CHECKING:
    from mcp.server import Server

HOST: Final = "127.0.0.1"  # there is no authentication, so no other machine can reach it
NAME: Final = "hindcast"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(serve)


def serve(
    context: typer.Context,
    *,
    cutoff: CutoffOption,
    transport: Annotated[Literal["stdio", "http"], typer.Option(help="stdio, or streamable HTTP on 127.0.0.1.")] = (
        "stdio"
    ),
    port: Annotated[int, typer.Option(help="The port of --transport http; clients use /mcp.")] = 8765,
    mode: ModeOption = None,
) -> None:
    """Serve the archive as it stood at the cutoff to any MCP client, read-only.

    Example: hindcast serve --cutoff 2025-06-01 --transport http --port 8765
    """
    import anyio

    given: Context = context.obj
    if not 0 < port < 65_536:  # noqa: PLR2004 - the ports there are
        raise UsageError(f"--port {port} is not a port.")
    view = open_view(given, cutoff, mode)
    given.err.print(f"Serving {len(TOOLS)} tools at cutoff {view.cutoff.iso} ({transport}).")
    server = build_server(view)
    if transport == "stdio":
        anyio.run(_stdio, server)
    else:
        anyio.run(_http, server, port)


def build_server(view: ArchiveView) -> "Server[Any]":
    """Return an MCP server whose tools answer from one view."""
    from mcp import types
    from mcp.server import Server

    async def list_tools(_context: Any, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(name) for name in TOOLS])

    async def call_tool(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        import anyio

        answer = await anyio.to_thread.run_sync(call, view, params.name, params.arguments or {})
        text = json.dumps(answer, ensure_ascii=False, allow_nan=False)
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=text)],
            structured_content=answer,
            is_error="error" in answer,
        )

    return Server(
        NAME,
        version=version("hindcast-dagster"),
        instructions=_instructions(view),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _tool(name: str) -> Any:
    from mcp import types

    hints = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return types.Tool(name=name, description=TOOLS[name].purpose, input_schema=schema(name), annotations=hints)


def _instructions(view: ArchiveView) -> str:
    held = ", ".join(view.subreddits) or "none"
    return (
        f"An archive of Reddit as it stood at {view.cutoff.iso}. Nothing that was created at or after that instant "
        f"is returned, and the cutoff cannot be moved later. Available subreddits are exactly: {held}."
    )


async def _stdio(server: "Server[Any]") -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def _http(server: "Server[Any]", port: int) -> None:
    import uvicorn

    app = server.streamable_http_app(host=HOST, stateless_http=True, json_response=True)
    config = uvicorn.Config(app, host=HOST, port=port, log_level="warning", access_log=False)
    await uvicorn.Server(config).serve()
