"""A client by the second generation of MCP's Python SDK. README.md has what all of these programs do."""

import asyncio
import contextlib
import json
import sys

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


async def main(task):
    async with contextlib.AsyncExitStack() as stack:
        if "command" in task:
            program, *arguments = task["command"]
            server = StdioServerParameters(command=program, args=arguments)
        else:
            headers = {"Authorization": f"Bearer {task['key']}"}
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers))
            server = streamable_http_client(task["url"], http_client=http)
        client = await stack.enter_async_context(Client(server, mode=task["mode"]))
        listed = await client.list_tools()
        result = await client.call_tool(task["tool"], task["arguments"])
        try:
            await client.call_tool("no_such_tool", {})
            unknown = None
        except MCPError as error:
            unknown = error.code
        return {
            "revision": client.protocol_version,
            "tools": [tool.name for tool in listed.tools],
            "result": result.model_dump(mode="json", by_alias=True, exclude_none=True),
            "unknown": unknown,
        }


print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))
