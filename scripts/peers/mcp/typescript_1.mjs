// A client by the first generation of MCP's TypeScript SDK. README.md has what all of these programs do.
import { load, report, transport } from './task.mjs';

const sdk = (module) => load('mcp-ts1', `@modelcontextprotocol/sdk/client/${module}.js`);
const { Client } = await sdk('index');
const { StreamableHTTPClientTransport } = await sdk('streamableHttp');
const { StdioClientTransport } = await sdk('stdio');

const wire = transport(StreamableHTTPClientTransport, StdioClientTransport);
let negotiated;
const tell = wire.setProtocolVersion?.bind(wire);
wire.setProtocolVersion = (revision) => {
  negotiated = revision;
  tell?.(revision);
};
const client = new Client({ name: 'coreci-peer', version: '1' });
await client.connect(wire);
await client.ping();
await report(client, negotiated);
