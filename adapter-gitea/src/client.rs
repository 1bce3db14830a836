//! Asking Gitea or Forgejo. It can ask for an [`Endpoint`] and for nothing else.

use egress::{Get, Response, UpstreamClient};
use mcp_core::error::AdapterError;
use tokio::time::{Instant, timeout_at};

use crate::endpoint::Endpoint;
use crate::error::{explain, missing_scopes};
use crate::paging::PageHeaders;
use crate::token::GiteaToken;
use upstream::reach::{get_following, header};

/// What a server made of a question. What a 403 or a 404 means depends on the question, so both are answers here.
pub(crate) enum Answer {
    /// A success.
    Page(Page),
    /// 403, with the scopes that it names.
    Forbidden(Option<String>),
    /// 404, and 405 of routers that know the path for another method only.
    NotThere,
}

/// A success.
pub(crate) struct Page(Response);

impl Page {
    pub(crate) fn body(&self) -> &[u8] {
        &self.0.body
    }

    /// What it says about the pages after it.
    pub(crate) fn headers(&self) -> PageHeaders<'_> {
        let total = header(&self.0, "x-total-count").and_then(|text| text.trim().parse().ok());
        PageHeaders { link: header(&self.0, "link"), total }
    }
}

pub(crate) struct GiteaClient {
    http: UpstreamClient,
}

impl GiteaClient {
    pub(crate) fn new(http: UpstreamClient) -> Self {
        Self { http }
    }

    /// The client below, for looking at its certificate.
    pub(crate) fn http(&self) -> &UpstreamClient {
        &self.http
    }

    /// Asks with the token, or as nobody.
    pub(crate) async fn ask(
        &self,
        endpoint: &Endpoint,
        token: Option<&GiteaToken>,
        deadline: Instant,
    ) -> Result<Answer, AdapterError> {
        let asked = timeout_at(deadline, self.follow(endpoint, token, deadline)).await;
        let response = asked.map_err(|_| AdapterError::Timeout)??;
        match response.status {
            200 if response.body_complete => Ok(Answer::Page(Page(response))),
            200 => {
                Err(AdapterError::Upstream("the answer ended before it was complete; try again".to_owned()))
            }
            403 => Ok(Answer::Forbidden(missing_scopes(&response.body))),
            404 | 405 => Ok(Answer::NotThere),
            status => Err(explain(status, header(&response, "retry-after"))),
        }
    }

    /// Asks and follows redirects within the origin, where the token is at home.
    async fn follow(
        &self,
        endpoint: &Endpoint,
        token: Option<&GiteaToken>,
        deadline: Instant,
    ) -> Result<Response, AdapterError> {
        let mut get = Get::path(endpoint.path());
        for (key, value) in endpoint.query() {
            get = get.query(key, value);
        }
        get_following(&self.http, dressed(get, token).deadline(deadline)).await
    }
}

fn dressed(get: Get, token: Option<&GiteaToken>) -> Get {
    let get = get.header("accept", "application/json");
    match token {
        #[expect(clippy::disallowed_methods, reason = "the token enters a request here")]
        Some(token) => get.secret_header("authorization", token.authorization().reveal()),
        None => get,
    }
}
