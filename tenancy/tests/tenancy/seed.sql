-- One row of one tenant in every table that has a tenant. $T stands for the tenant's id; run as a superuser.
insert into tenants (tenant_id, slug, name) values ('$T', 't-$T', 'seeded');
insert into users (tenant_id, user_id, name, kind) values ('$T', '$T', 'ada', 'person');
insert into tenant_memberships (tenant_id, user_id, role) values ('$T', '$T', 'admin');
insert into user_identities (tenant_id, issuer, subject, user_id) values ('$T', 'https://id.example', '$T', '$T');
insert into api_keys (tenant_id, key_id, user_id, name, key_hash, role)
    values ('$T', '$T', '$T', 'key', sha256('$T'), 'viewer');
insert into idempotency_keys (tenant_id, principal_id, route, key, request_hash, status, response)
    values ('$T', '$T', 'r', 'k', sha256('r'), 200, '{}');
insert into targets (tenant_id, target_id, kind, name) values ('$T', '$T', 'ssh', 'db-1');
insert into mcp_adapters (tenant_id, target_id, adapter_type, config, secret_ref, validated)
    values ('$T', '$T', 'gitea', '{}', 'local:x', 'ok');
insert into agents (tenant_id, agent_id, target_id, public_key) values ('$T', '$T', '$T', sha256('$T'));
insert into enrolments (tenant_id, enrolment_id, token_hash, name, expires_at)
    values ('$T', '$T', sha256('$T'), 'web-1', now() + interval '1 hour');
insert into tool_policies (tenant_id) values ('$T');
insert into audit_log (tenant_id, seq, at_us, event_type, event_id, body, prev_hash, hash)
    values ('$T', 1, 1, 'tenant.created', '$T', '{}', sha256(''), sha256('x'));
insert into audit_heads (tenant_id, seq, at_us, hash) values ('$T', 1, 1, sha256('x'));
insert into audit_open (tenant_id, correlation_id, event_id, instance, body) values ('$T', '$T', '$T', '$T', '{}');
insert into audit_outbox (tenant_id, event_id, event_type, body) values ('$T', '$T', 'tenant.created', '{}');
