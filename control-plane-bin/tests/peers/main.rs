//! The control plane against programs that others wrote: `scripts/test --peers` runs this, and nothing else does.
//!
//! fakepve plays Proxmox VE and has a mind of its own. Prism plays GitHub and Gitea from their own descriptions: it refuses
//! requests that do not fit these, and answers with examples, so that shapes can be held against it but no values.
//! MCP's own SDKs, Inspector and conformance suite play the client, and so does the SDK of OpenAI.

#[expect(dead_code, reason = "written for the other tests of the binary, which use more of it")]
#[path = "../control_plane/agent.rs"]
mod agent;
mod gitea;
mod github;
mod installation;
mod mcp_clients;
mod mcp_conformance;
mod openai;
mod program;
mod proxmox;
mod schema;
#[expect(dead_code, reason = "written for the other tests of the binary, which use more of it")]
#[path = "../control_plane/server.rs"]
mod server;
mod suite;
