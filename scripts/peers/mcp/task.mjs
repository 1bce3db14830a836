// What the programs in JavaScript share: where the libraries are, and the task.
import { createRequire } from 'node:module';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';

const home = process.env.CORECI_PEERS_HOME;

export const peer = (...parts) => path.join(home, ...parts);

// Loads a module from the packages of one part of scripts/peers/setup.
export async function load(part, module) {
  const found = createRequire(peer(part, 'package.json')).resolve(module);
  return import(pathToFileURL(found).href);
}

export const task = JSON.parse(await text(process.stdin));

// The two SDKs take the same options for their transports.
export function transport(StreamableHTTPClientTransport, StdioClientTransport) {
  if (task.command) {
    const [command, ...args] = task.command;
    return new StdioClientTransport({ command, args });
  }
  const headers = { Authorization: `Bearer ${task.key}` };
  return new StreamableHTTPClientTransport(new URL(task.url), { requestInit: { headers } });
}

// Lists and calls, which both SDKs spell alike.
export async function report(client, revision) {
  const { tools } = await client.listTools();
  const result = await client.callTool({ name: task.tool, arguments: task.arguments });
  const unknown = await client.callTool({ name: 'no_such_tool', arguments: {} }).then(() => null, (error) => error.code);
  await client.close();
  console.log(JSON.stringify({ revision, tools: tools.map((tool) => tool.name), result, unknown }));
}
