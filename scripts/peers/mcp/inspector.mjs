// The MCP Inspector by its command line, once per question. README.md has what all of these programs do.
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { peer, task } from './task.mjs';

const launcher = peer('mcp-inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js');
const server = task.command
  ? [...task.command]
  : [task.url, '--transport', 'http', '--header', `Authorization: Bearer ${task.key}`];
// A home of its own: the Inspector keeps its list of servers in the user's.
const home = await mkdtemp(path.join(os.tmpdir(), 'coreci-inspector-'));

async function inspect(...question) {
  const given = [launcher, '--cli', ...server, '--protocol-era', task.mode, '--format', 'json', ...question];
  const env = { ...process.env, HOME: home };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, given, { env, timeout: 60_000 });
  if (stderr.trim()) throw new Error(`the Inspector remarks:\n${stderr}`);
  return JSON.parse(stdout).result;
}

try {
  const { protocolVersion: revision } = await inspect('--method', 'initialize');
  const { tools } = await inspect('--method', 'tools/list', '--strict');
  const call = ['--tool-name', task.tool, '--tool-args-json', JSON.stringify(task.arguments)];
  const result = await inspect('--method', 'tools/call', ...call);
  // It looks a tool up in the list before it calls, so the server never hears of one that does not exist.
  console.log(JSON.stringify({ revision, tools: tools.map((tool) => tool.name), result, unknown: null }));
} finally {
  await rm(home, { recursive: true });
}
