"""A client by the first generation of MCP's Python SDK. README.md has what all of these programs do."""

import asyncio
import contextlib
import json
import sys

import httpx
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


@contextlib.asynccontextmanager
async def connected(task):
    if "command" in task:
        program, *arguments = task["command"]
        async with stdio_client(StdioServerParameters(command=program, args=arguments)) as (reader, writer):
            yield reader, writer
        return
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {task['key']}"}) as http:
        async with streamable_http_client(task["url"], http_client=http) as (reader, writer, session_id):
            yield reader, writer
            assert session_id() is None, "the server is said to have no sessions"


async def main(task):
    async with connected(task) as (reader, writer), ClientSession(reader, writer) as session:
        hello = await session.initialize()
        await session.send_ping()
        listed = await session.list_tools()
        result = await session.call_tool(task["tool"], task["arguments"])
        try:
            await session.call_tool("no_such_tool", {})
            unknown = None
        except McpError as error:
            unknown = error.error.code
        return {
            "revision": hello.protocolVersion,
            "tools": [tool.name for tool in listed.tools],
            "result": result.model_dump(mode="json", by_alias=True, exclude_none=True),
            "unknown": unknown,
        }


print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))
