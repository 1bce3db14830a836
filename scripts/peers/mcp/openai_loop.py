"""An agent by the SDK of OpenAI: a model that may call our tools, over MCP by the Python SDK.

Reads its task from standard input as JSON and writes what came of it as one line of JSON:

    {"url": "http://…/mcp", "key": "…", "tools_url": "http://…/api/mcp/tools?format=openai",
     "model_url": "http://…/v1", "model_key": "…", "prompt": "…", "stream": false}

    {"offered": ["…"], "called": [{"name": "…", "arguments": {}, "isError": false}], "final": "…"}
"""

import asyncio
import json
import sys

import httpx
import openai
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

# A model that never comes to an answer is a failure, not a long wait.
MOST_TURNS = 5


async def next_message(model, task, messages, tools):
    question = {"model": "llm-mock", "messages": messages, "tools": tools}
    if not task["stream"]:
        answer = await model.chat.completions.create(**question)
        return answer.choices[0].message
    async with model.chat.completions.stream(**question) as events:
        async for _ in events:
            pass
        return (await events.get_final_completion()).choices[0].message


def turn(message):
    """The model's message as the conversation repeats it."""
    calls = [
        {"id": call.id, "type": "function",
         "function": {"name": call.function.name, "arguments": call.function.arguments}}
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": message.content, "tool_calls": calls}


async def converse(task, session, model, tools):
    messages, called = [{"role": "user", "content": task["prompt"]}], []
    for _ in range(MOST_TURNS):
        message = await next_message(model, task, messages, tools)
        if not message.tool_calls:
            return called, message.content
        messages.append(turn(message))
        for call in message.tool_calls:
            arguments = json.loads(call.function.arguments)
            # The name that the model was offered is a name that the server takes.
            result = await session.call_tool(call.function.name, arguments)
            called.append({"name": call.function.name, "arguments": arguments, "isError": result.isError})
            text = "\n".join(block.text for block in result.content if block.type == "text")
            content = f"ERROR: {text}" if result.isError else text
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    raise RuntimeError(f"there is no answer after {MOST_TURNS} turns")


async def main(task):
    model = openai.AsyncOpenAI(base_url=task["model_url"], api_key=task["model_key"], max_retries=0)
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {task['key']}"}) as http:
        tools = (await http.get(task["tools_url"])).raise_for_status().json()["tools"]
        async with streamable_http_client(task["url"], http_client=http) as (reader, writer, _):
            async with ClientSession(reader, writer) as session:
                await session.initialize()
                called, final = await converse(task, session, model, tools)
    offered = [tool["function"]["name"] for tool in tools]
    return {"offered": offered, "called": called, "final": final}


print(json.dumps(asyncio.run(main(json.load(sys.stdin)))))
