// A client by the second generation of MCP's TypeScript SDK. README.md has what all of these programs do.
import { load, report, task, transport } from './task.mjs';

const sdk = (module) => load('mcp-ts2', `@modelcontextprotocol/client${module}`);
const { Client, StreamableHTTPClientTransport } = await sdk('');
const { StdioClientTransport } = await sdk('/stdio');

const client = new Client({ name: 'coreci-peer', version: '1' }, { versionNegotiation: { mode: task.mode } });
await client.connect(transport(StreamableHTTPClientTransport, StdioClientTransport));
await report(client, client.getNegotiatedProtocolVersion());
