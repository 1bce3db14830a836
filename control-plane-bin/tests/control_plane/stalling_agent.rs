//! An agent that enrols and registers like a real one, takes commands, and never answers.

use futures_util::{SinkExt, StreamExt};
use mcp_core::id::AgentId;
use mcp_core::relay::{AgentAction, AgentLink, HostFacts};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use crate::server::Client;

pub(crate) struct StallingAgent {
    key: Ed25519KeyPair,
    agent: AgentId,
}

impl StallingAgent {
    pub(crate) async fn enrol(admin: &Client, name: &str) -> Self {
        let made: Value =
            admin.post("/api/targets/enrollments", json!({"name": name})).await.json().await.expect("JSON");
        let key = Ed25519KeyPair::from_seed_unchecked(&[5; 32]).expect("a key");
        let public: String = key.public_key().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        let body = json!({
            "token": made["token"], "publicKey": public, "hostname": name, "os": "test", "version": "0",
        });
        let enrolled: Value = admin.post("/api/relay/enroll", body).await.json().await.expect("JSON");
        let agent = serde_json::from_value(enrolled["agentId"].clone()).expect("an id");
        Self { key, agent }
    }

    /// Connects, registers, and reports every command that arrives. Returns once it is registered.
    pub(crate) async fn connect(&self, url: &str) -> mpsc::UnboundedReceiver<String> {
        let authority = url.trim_start_matches("http://").to_owned();
        let socket = format!("ws://{authority}/api/relay/ws");
        let (mut socket, _) = tokio_tungstenite::connect_async(socket).await.expect("a socket");
        let mut link = AgentLink::new(self.agent, authority, HostFacts::default());
        while !link.is_live() {
            let message = socket.next().await.expect("a message").expect("a good one");
            let Message::Text(text) = message else { panic!("{message:?}") };
            for action in link.on_frame(&text) {
                if let AgentAction::Sign(bytes) = action {
                    for action in link.on_signed(self.key.sign(&bytes).as_ref()) {
                        let AgentAction::Send(frame) = action else { continue };
                        socket.send(Message::text(frame.to_text())).await.expect("sent");
                    }
                }
            }
        }
        let (send, commands) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = socket.next().await {
                let Message::Text(text) = message else { continue };
                for action in link.on_frame(&text) {
                    if let AgentAction::Run { command, .. } = action
                        && send.send(command).is_err()
                    {
                        return;
                    }
                }
            }
        });
        commands
    }
}
