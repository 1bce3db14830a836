//! Configuring adapters: check against the real upstream first, store afterwards (SPEC §8).
//!
//! Nothing is stored unless the check passes, or an admin says so in as many words. The credential goes to the secret
//! provider before the row that refers to it, and is taken back when the row cannot be written; so there may for a moment
//! be a secret without a row, but never a row without its secret.

use std::sync::Arc;

use mcp_core::adapter_config::{AdapterConfig, AdapterFactory, ConfigRefused};
use mcp_core::audit::{AuditEvent, AuditSink, Body, EventType, Link};
use mcp_core::check::{CheckReport, StepStatus, UpstreamAdapter};
use mcp_core::error::{CallError, ErrorCode};
use mcp_core::id::{EventId, TargetId};
use mcp_core::principal::Principal;
use mcp_core::secret::{SecretError, SecretProvider, SecretRef, SecretValue};
use serde_json::{Value, json};
use tenancy::stores::adapter::{
    Adapter, Checked, NewAdapter, Validation, adapter_checked, adapter_create, adapter_get, adapter_remove,
    adapter_update,
};
use tenancy::stores::target::{TargetRef, target_get};
use tenancy::{Tenancy, TenancyError};
use ulid::Ulid;
use uuid::Uuid;

use crate::error::{ApiError, chain};

/// Configures the adapters of tenants.
pub struct Adapters {
    tenancy: Tenancy,
    secrets: Arc<dyn SecretProvider>,
    factory: Arc<dyn AdapterFactory>,
    audit: Arc<dyn AuditSink>,
}

/// What an admin asks for.
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) config: AdapterConfig,
    pub(crate) credential: SecretValue,
    pub(crate) save_unverified: bool,
}

/// What an admin changes. What is absent stays.
pub(crate) struct Change {
    pub(crate) config: AdapterConfig,
    pub(crate) credential: Option<SecretValue>,
    pub(crate) save_unverified: bool,
}

/// A stored adapter and the check that let it in.
pub(crate) struct Configured {
    pub(crate) adapter: Adapter,
    pub(crate) report: CheckReport,
}

impl Adapters {
    /// A service over these ports.
    #[must_use]
    pub fn new(
        tenancy: Tenancy,
        secrets: Arc<dyn SecretProvider>,
        factory: Arc<dyn AdapterFactory>,
        audit: Arc<dyn AuditSink>,
    ) -> Self {
        Self { tenancy, secrets, factory, audit }
    }

    pub(crate) async fn create(&self, principal: &Principal, wanted: Wanted) -> Result<Configured, ApiError> {
        let Wanted { name, config, credential, save_unverified } = wanted;
        self.refuse_taken_name(principal, &name).await?;
        let target = TargetId::from_uuid(Uuid::new_v4());
        let (report, checked) = self.vet(principal, target, &config, &credential, save_unverified).await?;
        let secret_name = format!("{}:{target}", config.kind);
        let secret_ref =
            self.secrets.put(principal.tenant, &secret_name, credential).await.map_err(secret_error)?;
        let stored = async {
            let tx = self.tenancy.tx(principal.tenant).await?;
            let config_json = serde_json::to_value(&config).unwrap_or_default();
            let new = NewAdapter {
                target_id: target,
                name: &name,
                kind: config.kind,
                config: &config_json,
                secret_ref: &secret_ref,
                checked: &checked,
            };
            let adapter = adapter_create(&tx, &new, &principal.id.to_string()).await?;
            tx.commit().await?;
            Ok(adapter)
        };
        match stored.await {
            Ok(adapter) => {
                self.audit.outbox_changed();
                Ok(Configured { adapter, report })
            }
            Err(error) => {
                self.take_back(principal, &secret_ref).await;
                Err(name_error(error))
            }
        }
    }

    /// Changes an adapter that was read as `before`; refused when somebody else has changed it since.
    pub(crate) async fn change(
        &self,
        principal: &Principal,
        before: Adapter,
        change: Change,
    ) -> Result<Configured, ApiError> {
        let Change { config, credential, save_unverified } = change;
        let target = before.target_id;
        let old: AdapterConfig =
            serde_json::from_value(before.config.clone()).map_err(|error| ApiError::internal(&error))?;
        let moved = self.factory.destination(&old) != self.factory.destination(&config);
        // A secret is never sent to a host that it was not entered for (C-H26).
        if moved && credential.is_none() {
            let message = "the host changes, so the credential must be entered again";
            return Err(
                ApiError::unprocessable(ErrorCode::ConfigRefused, message).with("field", json!("credential"))
            );
        }
        let lent = match &credential {
            Some(fresh) => fresh.clone(),
            None => self.secrets.get(principal.tenant, &before.secret_ref).await.map_err(secret_error)?,
        };
        let (report, checked) = self.vet(principal, target, &config, &lent, save_unverified).await?;
        // A new credential gets a name of its own, so that the old one stays good until the row points at the new one.
        let secret_ref = match credential {
            Some(fresh) => {
                let name = format!("{}:{target}:{}", config.kind, Ulid::generate());
                self.secrets.put(principal.tenant, &name, fresh).await.map_err(secret_error)?
            }
            None => before.secret_ref.clone(),
        };
        let stored = async {
            let tx = self.tenancy.tx(principal.tenant).await?;
            let config_json = serde_json::to_value(&config).unwrap_or_default();
            let actor = principal.id.to_string();
            let version = before.config_version;
            let adapter =
                adapter_update(&tx, target, version, &config_json, &secret_ref, &checked, &actor).await?;
            tx.commit().await?;
            Ok(adapter)
        };
        match stored.await {
            Ok(adapter) => {
                self.audit.outbox_changed();
                if before.secret_ref != adapter.secret_ref {
                    self.take_back(principal, &before.secret_ref).await;
                }
                Ok(Configured { adapter, report })
            }
            Err(error) => {
                if secret_ref != before.secret_ref {
                    self.take_back(principal, &secret_ref).await;
                }
                Err(name_error(error))
            }
        }
    }

    /// Checks a stored adapter again and records what was found.
    pub(crate) async fn test(
        &self,
        principal: &Principal,
        target: TargetId,
    ) -> Result<CheckReport, ApiError> {
        let adapter = self.get(principal, target).await?;
        let config: AdapterConfig =
            serde_json::from_value(adapter.config).map_err(|error| ApiError::internal(&error))?;
        let credential =
            self.secrets.get(principal.tenant, &adapter.secret_ref).await.map_err(secret_error)?;
        let report = self.check(principal, target, &config, &credential).await?;
        let tx = self.tenancy.tx(principal.tenant).await?;
        adapter_checked(&tx, target, &verdict(&report)).await.map_err(missing)?;
        tx.commit().await?;
        Ok(report)
    }

    pub(crate) async fn remove(&self, principal: &Principal, target: TargetId) -> Result<(), ApiError> {
        let tx = self.tenancy.tx(principal.tenant).await?;
        let secret_ref = adapter_remove(&tx, target, &principal.id.to_string()).await.map_err(missing)?;
        tx.commit().await?;
        self.audit.outbox_changed();
        self.take_back(principal, &secret_ref).await;
        Ok(())
    }

    pub(crate) async fn get(&self, principal: &Principal, target: TargetId) -> Result<Adapter, ApiError> {
        if !principal.grants.cover_target(target) {
            return Err(ApiError::not_found("adapter"));
        }
        let tx = self.tenancy.tx(principal.tenant).await?;
        let adapter = adapter_get(&tx, target).await.map_err(missing)?;
        tx.commit().await?;
        Ok(adapter)
    }

    /// Checks before anything is stored; a failed check is a refusal, unless the admin takes it on.
    async fn vet(
        &self,
        principal: &Principal,
        target: TargetId,
        config: &AdapterConfig,
        credential: &SecretValue,
        save_unverified: bool,
    ) -> Result<(CheckReport, Checked), ApiError> {
        // What cannot make an adapter at all is not stored on anybody's word.
        self.factory.build(config).map_err(refused)?;
        self.factory.check_credential(config.kind, credential).map_err(refused)?;
        if save_unverified {
            let checked = Checked { validated: Validation::NeverVerified, facts: json!({}) };
            return Ok((CheckReport::default(), checked));
        }
        let report = self.check(principal, target, config, credential).await?;
        if report.passed() {
            let checked = verdict(&report);
            return Ok((report, checked));
        }
        Err(failed(&report))
    }

    /// Dials out, with a row in the audit log before and after.
    async fn check(
        &self,
        principal: &Principal,
        target: TargetId,
        config: &AdapterConfig,
        credential: &SecretValue,
    ) -> Result<CheckReport, ApiError> {
        let adapter: Arc<dyn UpstreamAdapter> = self.factory.build(config).map_err(refused)?;
        let destination = self.factory.destination(config);
        let body = || {
            let body = Body::new().public("userId", principal.id).public("targetId", target);
            body.public("type", config.kind).sensitive("destination", &destination)
        };
        self.append(principal, EventType::AdapterTestStarted, body()).await?;
        let report = adapter.check(credential).await;
        let steps: Vec<_> =
            report.steps.iter().map(|step| json!({"step": step.step, "status": step.status})).collect();
        let event =
            if report.passed() { EventType::AdapterTestSucceeded } else { EventType::AdapterTestFailed };
        self.append(principal, event, body().public("steps", steps)).await?;
        Ok(report)
    }

    async fn append(&self, principal: &Principal, event_type: EventType, body: Body) -> Result<(), ApiError> {
        let id = EventId::from_ulid(Ulid::generate());
        let event = AuditEvent { id, tenant: principal.tenant, event_type, body, link: Link::Fact };
        self.audit.append(event).await?;
        Ok(())
    }

    async fn refuse_taken_name(&self, principal: &Principal, name: &str) -> Result<(), ApiError> {
        let tx = self.tenancy.tx(principal.tenant).await?;
        let found = target_get(&tx, TargetRef::Name(name)).await;
        match found {
            Err(TenancyError::NotFound) => Ok(tx.commit().await?),
            Ok(_) => Err(name_error(TenancyError::Conflict { constraint: None })),
            Err(error) => Err(error.into()),
        }
    }

    /// Destroys a secret that no row refers to. One that cannot be destroyed now is of no use to anybody, and is logged.
    async fn take_back(&self, principal: &Principal, secret: &SecretRef) {
        if let Err(error) = self.secrets.delete(principal.tenant, secret).await {
            tracing::error!(tenant.id = %principal.tenant, error = %chain(&error), "an unused secret was not destroyed");
        }
    }
}

fn verdict(report: &CheckReport) -> Checked {
    let validated = match report.status() {
        StepStatus::Ok => Validation::Ok,
        StepStatus::Warn => Validation::Partial,
        StepStatus::Fail => Validation::Failed,
    };
    Checked { validated, facts: Value::Object(report.facts.clone()) }
}

fn refused(refusal: ConfigRefused) -> ApiError {
    let message = refusal.step.message.clone();
    ApiError::unprocessable(refusal.code, message).with("steps", json!([refusal.step]))
}

/// A failed check as an answer: the sentence of the step that failed, all steps, and the fingerprint to confirm.
fn failed(report: &CheckReport) -> ApiError {
    let step = report.steps.iter().find(|step| step.status == StepStatus::Fail);
    let message = step.map_or("the check came to nothing", |step| step.message.as_str());
    let code = report.code.unwrap_or(ErrorCode::ConfigRefused);
    let error = ApiError::unprocessable(code, message).with("steps", json!(report.steps));
    match &report.fingerprint {
        Some(fingerprint) => error.with("fingerprint", json!(fingerprint)),
        None => error,
    }
}

fn secret_error(error: SecretError) -> ApiError {
    tracing::error!(error = %chain(&error), "a secret cannot be stored or read");
    CallError::SecretUnavailable.into()
}

fn missing(error: TenancyError) -> ApiError {
    match error {
        TenancyError::NotFound => ApiError::not_found("adapter"),
        other => other.into(),
    }
}

fn name_error(error: TenancyError) -> ApiError {
    match error {
        TenancyError::Invalid(_) => {
            ApiError::invalid("name", "a name has 1 to 63 of a-z, 0-9, dot, hyphen and underscore")
        }
        TenancyError::Conflict { constraint } if constraint.as_deref() == Some("config_version") => {
            ApiError::new(
                ErrorCode::Conflict,
                "somebody else changed this adapter meanwhile; look again and retry",
            )
        }
        TenancyError::Conflict { .. } => {
            ApiError::new(ErrorCode::Conflict, "a target of that name exists; choose another name")
        }
        other => missing(other),
    }
}
