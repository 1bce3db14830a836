//! What the hub does with good, bad, old, silent and vanishing agents.

use adapter_ssh::{HubError, Inbound};
use futures_util::{FutureExt, SinkExt};
use mcp_core::audit::EventType;
use mcp_core::id::TenantId;
use mcp_core::relay::{AgentAction, CommandOutcome, REGISTER_DEADLINE, SILENCE_LIMIT, close};
use uuid::Uuid;

use crate::world::{HOST, TARGET, TENANT, World, call, key};

// proves: REQ-021, T-04, H-10, H-14
#[tokio::test(start_paused = true)]
async fn a_command_goes_to_the_targets_agent_and_its_output_comes_back() {
    let world = World::new();
    let mut agent = world.connected().await;

    let (outcome, ()) =
        tokio::join!(world.hub.run(TENANT, TARGET, call(1), "uptime".to_owned()), agent.answer("up 3 days"));
    let Ok(CommandOutcome::Ran(ran)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(ran.stdout, "up 3 days");
}

// proves: H-12, C-M18, H-13
#[tokio::test(start_paused = true)]
async fn an_absent_agent_and_another_tenants_target_are_offline_and_nothing_waits() {
    let world = World::new();
    let run = |tenant| world.hub.run(tenant, TARGET, call(1), "uptime".to_owned());
    assert_eq!(run(TENANT).now_or_never(), Some(Err(HubError::Offline)));

    let _agent = world.connected().await;
    let stranger = TenantId::from_uuid(Uuid::from_u128(99));
    assert_eq!(run(stranger).now_or_never(), Some(Err(HubError::Offline)));
}

// proves: C-M03, RT-08
#[tokio::test(start_paused = true)]
async fn another_key_and_a_signature_for_another_host_are_closed_4401_and_written_once_a_minute() {
    let world = World::new();
    for _ in 0..3 {
        assert_eq!(world.dial(HOST).handshake(&key(8)).await, Some(close::UNAUTHORIZED));
    }
    assert_eq!(world.dial("evil.example").handshake(&world.key).await, Some(close::UNAUTHORIZED));
    assert_eq!(world.events(), [EventType::RelayAuthFailed]);
    assert_eq!(world.hub.connected(), 0);
}

// proves: C-M05
#[tokio::test(start_paused = true)]
async fn the_newest_link_wins_and_the_older_one_is_closed_4409() {
    let world = World::new();
    let mut old = world.connected().await;
    let pending = tokio::spawn({
        let hub = world.hub.clone();
        async move { hub.run(TENANT, TARGET, call(1), "uptime".to_owned()).await }
    });
    assert!(matches!(old.next().await.as_deref(), Ok([AgentAction::Run { .. }])));
    let mut new = world.connected().await;

    assert_eq!(old.next().await, Err(Some(close::SUPERSEDED)));
    old.served.await.expect("served");
    assert_eq!(pending.await.expect("joined"), Err(HubError::Disconnected));
    assert_eq!(world.events(), [EventType::RelaySuperseded]);
    let (outcome, ()) =
        tokio::join!(world.hub.run(TENANT, TARGET, call(2), "uptime".to_owned()), new.answer("new"));
    assert!(outcome.is_ok(), "the end of the old link leaves the new one in place");
}

// proves: ED-02, C-M16
#[tokio::test(start_paused = true)]
async fn a_link_lost_during_a_call_answers_at_once() {
    let world = World::new();
    let mut agent = world.connected().await;
    let pending = tokio::spawn({
        let hub = world.hub.clone();
        async move { hub.run(TENANT, TARGET, call(1), "uptime".to_owned()).await }
    });
    assert!(agent.next().await.is_ok());
    let before = tokio::time::Instant::now();
    drop(agent);
    assert_eq!(pending.await.expect("joined"), Err(HubError::Disconnected));
    assert!(before.elapsed().as_millis() < 1000);
    assert!(!world.hub.is_connected(TENANT, TARGET));
}

// proves: C-M07, C-M22
#[tokio::test(start_paused = true)]
async fn a_revoked_agent_is_cut_and_cannot_come_back() {
    let world = World::new();
    let mut agent = world.connected().await;
    world.registry.agents.lock().expect("lock").values_mut().for_each(|record| record.revoked = true);
    world.hub.revoke(TENANT, TARGET);

    assert_eq!(agent.next().await, Err(Some(close::UNAUTHORIZED)));
    assert!(!world.hub.is_connected(TENANT, TARGET));
    assert_eq!(world.dial(HOST).handshake(&world.key).await, Some(close::UNAUTHORIZED));
}

// proves: E-10
#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_has_the_command_killed() {
    let world = World::new();
    let mut agent = world.connected().await;
    let abandoned = tokio::spawn({
        let hub = world.hub.clone();
        async move { hub.run(TENANT, TARGET, call(1), "uptime".to_owned()).await }
    });
    assert!(matches!(agent.next().await.as_deref(), Ok([AgentAction::Run { .. }])));
    abandoned.abort();
    assert_eq!(agent.next().await, Ok(vec![AgentAction::Abort { call: call(1) }]));
}

// proves: C-M11
#[tokio::test(start_paused = true)]
async fn silence_is_not_waited_for() {
    let world = World::new();
    let before = tokio::time::Instant::now();
    let mut mute = world.dial(HOST);
    assert!(mute.next().await.is_ok(), "the challenge");
    assert_eq!(mute.next().await, Err(Some(close::TIMEOUT)));
    assert_eq!(before.elapsed(), REGISTER_DEADLINE);

    let before = tokio::time::Instant::now();
    let mut agent = world.connected().await;
    assert_eq!(agent.next().await, Err(Some(close::TIMEOUT)));
    assert_eq!(before.elapsed(), SILENCE_LIMIT);
}

// proves: H-18, H-16
#[tokio::test(start_paused = true)]
async fn heartbeats_keep_the_link_and_are_recorded() {
    let world = World::new();
    let mut agent = world.connected().await;
    for beat in 1..=4 {
        tokio::time::sleep(SILENCE_LIMIT / 2).await;
        agent.to_hub.send(Inbound::Text(r#"{"type":"ping"}"#.to_owned())).await.expect("sent");
        assert_eq!(agent.next().await, Ok(Vec::new()), "a pong");
        assert_eq!(*world.registry.seen.lock().expect("lock"), beat);
    }
    // Revoked by somebody that this hub did not hear from: the next heartbeat is the last.
    let mut revoked = world.connected().await;
    world.registry.agents.lock().expect("lock").values_mut().for_each(|record| record.revoked = true);
    revoked.to_hub.send(Inbound::Text(r#"{"type":"ping"}"#.to_owned())).await.expect("sent");
    assert_eq!(revoked.next().await, Err(Some(close::UNAUTHORIZED)));
}

// proves: C-M10
#[tokio::test(start_paused = true)]
async fn a_binary_message_ends_the_link() {
    let world = World::new();
    let mut agent = world.connected().await;
    agent.to_hub.send(Inbound::Other).await.expect("sent");
    assert_eq!(agent.next().await, Err(Some(close::PROTOCOL)));
}

// proves: C-O02
#[tokio::test(start_paused = true)]
async fn agents_are_told_to_come_back_when_the_server_goes_down() {
    let world = World::new();
    let mut agent = world.connected().await;
    world.hub.say_goodbye(std::time::Duration::from_secs(2));
    assert_eq!(agent.next().await, Ok(vec![AgentAction::Leave { reconnect_after_ms: 2000 }]));
    assert_eq!(agent.next().await, Err(Some(close::GOING_AWAY)));
}
