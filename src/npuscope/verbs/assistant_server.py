"""The protocol's side of `npuscope mcp`, by its official SDK."""

from __future__ import annotations

from typing import Any

import anyio
from mcp import types
from mcp.server import Server
from mcp.server.stdio import stdio_server

from npuscope.errors import NpuscopeError
from npuscope.verbs.assistant_tools import READS, Tools
from npuscope.verbs.table import record
from npuscope.version import __version__

_ABOUT = """\
npuscope predicts how quantized neural networks (.tflite, QDQ .onnx) run on NPUs: STM32N6, Arm
Ethos-U and Cloud AI 100. `estimate` says whether a model fits and how fast it is, `explain` which
layers leave the NPU and what to change, `compare` shows two models, builds or machines side by
side. Answers begin with the verdict. Times are predictions with their known error unless they say
that they were measured. Name files relative to the opened folder. `json` gives every figure."""


async def serve_tools(tools: Tools) -> None:
    """Until the other side closes stdin."""
    server = server_of(tools)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def server_of(tools: Tools) -> Server[Any]:
    async def list_tools(context: Any, request: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_tool(tools, name) for name in tools.names])

    async def call_tool(context: Any, request: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            # A thread: other calls and pings are answered meanwhile.
            well, text = await anyio.to_thread.run_sync(
                tools.call, request.name, request.arguments or {}
            )
        except NpuscopeError as error:
            well, text = False, str(error)
        content: list[Any] = [types.TextContent(type="text", text=text)]
        return types.CallToolResult(content=content, is_error=not well)

    return Server(
        "npuscope",
        version=__version__,
        instructions=_ABOUT,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _tool(tools: Tools, name: str) -> types.Tool:
    reads = name in READS
    return types.Tool(
        name=name,
        description=record(name).line,
        input_schema=tools.schema(name),
        annotations=types.ToolAnnotations(read_only_hint=reads, open_world_hint=False),
    )
