//! Asking GitHub: headers, redirects, limits, entity tags. It can ask for an [`Endpoint`] and for nothing else.

use std::time::{Duration, SystemTime};

use egress::{Get, Response, UpstreamClient};
use mcp_core::error::AdapterError;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, timeout_at};

use crate::endpoint::Endpoint;
use crate::error::{Failure, Refusal, explain};
use crate::etag::EtagCache;
use crate::rate::{RateGate, RateHeaders, Verdict, read, whole_seconds};
use crate::token::GithubToken;
use upstream::reach::{get_following, header};
use upstream::redact::redact;

/// Pinned: GitHub answers 400 to a version that it does not know, and the default moves.
pub(crate) const API_VERSION: &str = "2022-11-28";

/// GitHub answers 403 to a request without one.
const USER_AGENT: &str = concat!("coreci/", env!("CARGO_PKG_VERSION"));

/// Requests of one call that may be refused for their rate. A wait that was honoured twice is no longer a short one.
const MAX_ATTEMPTS: usize = 3;
/// What an answer needs once a wait is over; a wait that leaves less is not begun.
const RESERVE: Duration = Duration::from_secs(1);

/// An answer that is a success, as far as a tool reads it.
pub(crate) struct Page<'a> {
    pub(crate) body: &'a [u8],
    /// Whether `Link` names a page after this one.
    pub(crate) has_next: bool,
}

/// Makes a tool's result of a page.
pub(crate) type Reader = fn(&Page<'_>) -> Result<Map<String, Value>, AdapterError>;

pub(crate) struct GithubClient {
    http: UpstreamClient,
    gate: RateGate,
    etags: EtagCache,
}

impl GithubClient {
    pub(crate) fn new(http: UpstreamClient) -> Self {
        Self { http, gate: RateGate::default(), etags: EtagCache::default() }
    }

    /// The client below, for looking at its certificate.
    pub(crate) fn http(&self) -> &UpstreamClient {
        &self.http
    }

    /// Asks and reads. An answer that GitHub confirms as unchanged is not read again.
    pub(crate) async fn read(
        &self,
        endpoint: &Endpoint,
        token: &GithubToken,
        deadline: Instant,
        reader: Reader,
    ) -> Result<Map<String, Value>, Failure> {
        let key = endpoint.key();
        let known = self.etags.get(&key);
        let tag = known.as_ref().map(|(tag, _)| tag.as_str());
        let response = self.ask(endpoint, token, tag, deadline).await?;
        if let (304, Some((_, answer))) = (response.status, known) {
            return Ok(answer);
        }
        let body = success(endpoint, &response)?;
        let has_next = header(&response, "link").is_some_and(names_next);
        let mut answer = reader(&Page { body, has_next })?;
        redact(&mut answer, token.secret());
        if let Some(tag) = header(&response, "etag") {
            self.etags.put(key, tag, &answer);
        }
        Ok(answer)
    }

    /// Asks, and takes whatever is neither a limit nor the mark of another kind of token.
    pub(crate) async fn ask(
        &self,
        endpoint: &Endpoint,
        token: &GithubToken,
        tag: Option<&str>,
        deadline: Instant,
    ) -> Result<Response, Failure> {
        for _ in 0..MAX_ATTEMPTS {
            self.pass_gate(deadline).await?;
            let asked = timeout_at(deadline, self.follow(endpoint, token, tag, deadline)).await;
            let response = asked.map_err(|_| AdapterError::Timeout)??;
            if header(&response, "x-oauth-scopes").is_some() {
                return Err(Failure::TokenKind);
            }
            match read(response.status, rate_headers(&response), &response.body, clock()) {
                Verdict::Free => return Ok(response),
                Verdict::Spent(wait) => {
                    self.gate.close(Instant::now(), wait);
                    return Ok(response);
                }
                Verdict::Refused(wait) => self.gate.close(Instant::now(), wait),
            }
        }
        let retry_after_sec = self.gate.wait(Instant::now()).map_or(1, whole_seconds);
        Err(AdapterError::UpstreamRateLimited { retry_after_sec }.into())
    }

    /// Waits until the gate opens, when that leaves time for an answer.
    async fn pass_gate(&self, deadline: Instant) -> Result<(), AdapterError> {
        let now = Instant::now();
        let Some(wait) = self.gate.wait(now) else { return Ok(()) };
        if now + wait + RESERVE > deadline {
            return Err(AdapterError::UpstreamRateLimited { retry_after_sec: whole_seconds(wait) });
        }
        sleep(wait).await;
        Ok(())
    }

    /// Asks and follows redirects within the origin, where the token is at home.
    async fn follow(
        &self,
        endpoint: &Endpoint,
        token: &GithubToken,
        tag: Option<&str>,
        deadline: Instant,
    ) -> Result<Response, AdapterError> {
        let mut get = Get::path(endpoint.path());
        for (key, value) in endpoint.query() {
            get = get.query(key, value);
        }
        get_following(&self.http, dressed(get, token, tag).deadline(deadline)).await
    }
}

fn dressed(get: Get, token: &GithubToken, tag: Option<&str>) -> Get {
    let authorization = token.authorization();
    #[expect(clippy::disallowed_methods, reason = "the token enters a request here")]
    let get = get
        .header("user-agent", USER_AGENT)
        .header("accept", "application/vnd.github+json")
        .header("x-github-api-version", API_VERSION)
        .secret_header("authorization", authorization.reveal());
    match tag {
        Some(tag) => get.header("if-none-match", tag),
        None => get,
    }
}

/// The body of a success.
pub(crate) fn success<'a>(endpoint: &Endpoint, response: &'a Response) -> Result<&'a [u8], AdapterError> {
    if response.status != 200 {
        let refusal = Refusal {
            status: response.status,
            accepted_permissions: header(response, "x-accepted-github-permissions"),
            sso: header(response, "x-github-sso").is_some(),
            body: &response.body,
        };
        return Err(explain(endpoint, refusal));
    }
    if !response.body_complete {
        return Err(AdapterError::Upstream("GitHub's answer ended before it was complete; try again".into()));
    }
    Ok(&response.body)
}

fn rate_headers(response: &Response) -> RateHeaders<'_> {
    RateHeaders {
        retry_after: header(response, "retry-after"),
        remaining: header(response, "x-ratelimit-remaining"),
        reset: header(response, "x-ratelimit-reset"),
        date: header(response, "date"),
    }
}

/// Whether a `Link` header names a next page. Its address is not used: the first page is what is shown.
fn names_next(link: &str) -> bool {
    link.split(',').any(|part| {
        part.split(';').skip(1).any(|parameter| {
            let parameter = parameter.trim();
            parameter == "rel=\"next\"" || parameter == "rel=next"
        })
    })
}

fn clock() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
