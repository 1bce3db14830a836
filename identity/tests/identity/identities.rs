//! Subjects of an issuer, linked to people of a tenant.

use identity::Role;
use identity::oauth::Subject;
use identity::pg::{NewIdentity, identity_link, identity_list, identity_unlink, subject_authenticate};
use mcp_core::id::TenantId;
use mcp_core::principal::Action;
use tenancy::TenancyError;
use tenancy::stores::tenant::{TenantStatus, tenant_set_status};

use crate::World;

fn subject(subject: &str) -> Subject {
    Subject { issuer: "https://id.example".to_owned(), subject: subject.to_owned() }
}

async fn link(
    world: &World,
    tenant: TenantId,
    name: &str,
    role: Role,
    who: &str,
) -> Result<(), TenancyError> {
    let tx = world.tenancy.tx(tenant).await?;
    let subject = subject(who);
    identity_link(&tx, &NewIdentity { name, role, subject: &subject }, None).await?;
    tx.commit().await
}

// proves: X2-03
#[tokio::test]
async fn a_linked_subject_is_a_user_with_a_role_and_any_other_is_nobody() {
    let world = World::new().await;
    link(&world, world.tenant, "ada", Role::Operator, "42").await.expect("linked");
    let who = |who: &'static str| subject_authenticate(&world.tenancy, Box::leak(Box::new(subject(who))));
    let principal = who("42").await.expect("asked").expect("a principal");
    assert_eq!((principal.tenant, principal.role, principal.key), (world.tenant, "operator", None));
    assert!(principal.grants.cover_action(Action::ToolsInvoke));
    assert!(!principal.grants.cover_action(Action::AuditRead));
    assert!(who("43").await.expect("asked").is_none());
    let elsewhere = Subject { issuer: "https://other.example".to_owned(), subject: "42".to_owned() };
    assert!(subject_authenticate(&world.tenancy, &elsewhere).await.expect("asked").is_none());

    let tx = world.tenancy.tx(world.tenant).await.expect("a transaction");
    let listed = identity_list(&tx, 10).await.expect("listed");
    assert_eq!((listed.len(), listed[0].name.as_str()), (1, "ada"));
    identity_unlink(&tx, &subject("42"), None).await.expect("unlinked");
    assert!(matches!(identity_unlink(&tx, &subject("42"), None).await, Err(TenancyError::NotFound)));
    tx.commit().await.expect("committed");
    assert!(who("42").await.expect("asked").is_none());
}

// proves: C-P04
#[tokio::test]
async fn a_subject_that_two_tenants_claim_is_nobody_and_a_suspended_tenant_has_no_users() {
    let world = World::new().await;
    let other = world.database.create_tenant("globex").await;
    let authenticate = |who: &str| {
        let subject = subject(who);
        let tenancy = world.tenancy.clone();
        async move { subject_authenticate(&tenancy, &subject).await.expect("asked") }
    };
    link(&world, world.tenant, "ada", Role::Admin, "1").await.expect("linked");
    link(&world, other, "eve", Role::Admin, "2").await.expect("linked");
    assert_eq!(authenticate("2").await.map(|principal| principal.tenant), Some(other));
    link(&world, other, "ada", Role::Admin, "1").await.expect("linked");
    assert!(authenticate("1").await.is_none());

    let tx = world.tenancy.tx(other).await.expect("a transaction");
    tenant_set_status(&tx, TenantStatus::Suspended, "operator").await.expect("suspended");
    tx.commit().await.expect("committed");
    assert!(authenticate("2").await.is_none());
}

#[tokio::test]
async fn a_second_link_of_a_subject_and_the_name_of_a_service_are_conflicts() {
    let world = World::new().await;
    world.key("ci", Role::Viewer).await;
    link(&world, world.tenant, "ada", Role::Viewer, "1").await.expect("linked");
    for (name, who) in [("bob", "1"), ("ci", "2")] {
        let outcome = link(&world, world.tenant, name, Role::Viewer, who).await;
        assert!(matches!(outcome, Err(TenancyError::Conflict { .. })), "{name}: {outcome:?}");
    }
    for (name, who) in [("", "3"), ("eve", "")] {
        let outcome = link(&world, world.tenant, name, Role::Viewer, who).await;
        assert!(matches!(outcome, Err(TenancyError::Invalid(_))), "{name}: {outcome:?}");
    }
}
