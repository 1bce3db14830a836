// MCP's official conformance suite against one server, at the three revisions that are negotiated. Reads
//
//   {"url": "http://…/mcp", "key": "…", "known": "product"}
//
// from standard input. Known failures are those of known-failures/KNOWN/REVISION.yml, and the list is held to strictly:
// a failure that is not in it counts, and so does an entry that does not fail any more, also where the suite itself does
// not score a scenario. A warning of the suite's is a failure. What it found stands on standard output as one line of JSON.
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { peer, task } from './task.mjs';

const suite = peer('mcp-conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js');
// The suite knows what the two newer revisions require; of the oldest it runs all that it has.
const questions = {
  '2025-06-18': ['--spec-version', '2025-06-18', '--suite', 'all'],
  '2025-11-25': ['--requirements', '2025-11-25'],
  '2026-07-28': ['--requirements', '2026-07-28'],
};

// The suite cannot send a token. Host and Origin arrive as it sent them: it tries what should be refused.
function withKey() {
  const target = new URL(task.url);
  const proxy = http.createServer((request, response) => {
    const { method, url, headers } = request;
    const authorized = { ...headers, authorization: `Bearer ${task.key}` };
    const to = { host: target.hostname, port: target.port, path: url, method, headers: authorized, setHost: false };
    const onward = http.request(to, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  });
  return new Promise((resolve) => proxy.listen(0, '127.0.0.1', () => resolve(proxy)));
}

// Status and words of the suite.
function ask(question) {
  return new Promise((resolve) => {
    execFile(process.execPath, [suite, 'server', ...question], { timeout: 90_000, maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      resolve({ status: error ? (error.code ?? 'killed') : 0, said: stdout + stderr });
    });
  });
}

// Each check by scenario, from the files that the suite leaves.
async function checksOf(folder) {
  const found = [];
  for (const name of await readdir(folder)) {
    const scenario = name.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT[-\d]+Z$/, '');
    const checks = JSON.parse(await readFile(path.join(folder, name, 'checks.json'), 'utf8'));
    found.push(...checks.map(({ id, status }) => ({ scenario, id: `${scenario}:${id}`, status })));
  }
  return found;
}

async function run(revision, url, folder) {
  const file = path.join(import.meta.dirname, 'known-failures', task.known, `${revision}.yml`);
  const { status, said } = await ask([...questions[revision], '--url', url, '--expected-failures', file, '-o', folder]);
  const known = [...(await readFile(file, 'utf8')).matchAll(/^ +- ([^\s#]+)/gm)].map((entry) => entry[1]);
  const checks = await checksOf(folder);
  const failed = checks.filter((check) => check.status === 'FAILURE' || check.status === 'WARNING');
  const scenarios = new Set(checks.map((check) => check.scenario));
  const failing = new Set(failed.map((check) => check.scenario));
  const unexpected = failed.filter((check) => !known.includes(check.scenario) && !known.includes(check.id));
  const stale = known.filter((entry) => !failed.some((check) => check.scenario === entry || check.id === entry));
  return {
    status,
    scenarios: scenarios.size,
    passed: scenarios.size - failing.size,
    known: known.length,
    unexpected: unexpected.map((check) => check.id),
    stale,
    said: status === 0 ? '' : said.slice(-4000),
  };
}

const proxy = await withKey();
const folder = await mkdtemp(path.join(os.tmpdir(), 'coreci-conformance-'));
const report = {};
try {
  const url = `http://127.0.0.1:${proxy.address().port}${new URL(task.url).pathname}`;
  for (const revision of Object.keys(questions)) report[revision] = await run(revision, url, path.join(folder, revision));
} finally {
  proxy.close();
  proxy.closeAllConnections();
  await rm(folder, { recursive: true });
}
console.log(JSON.stringify(report));
