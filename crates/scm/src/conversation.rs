//! Requests from one generator to one server.

mod error_response;
mod paging;

use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidegate_web::{Client, is_same_server, redirect_target};

use crate::api_address::Base;
use crate::problem::Problem;
use crate::request_credentials::RequestCredentials;
pub(crate) use paging::query_of;

use crate::http_client::{Authorities, Web, check_host, connection_error_text};

/// Maximum number of bytes to read from an error response.
const ERROR_BYTES_MAX: usize = 64 << 10;
/// Replacement for secrets in server messages.
const MASK: &str = "***";

/// Client for one generator's requests to one server, which share a budget.
pub(crate) struct Conversation<'w> {
    web: &'w Web,
    /// Name of the product in messages, such as `GitHub`.
    name: &'static str,
    base: Base,
    credentials: Option<RequestCredentials>,
    client: Client,
    /// Maximum time for a single response.
    response_timeout: Duration,
    /// Number of remaining requests. `bytes` is the number of remaining bytes.
    requests: Cell<usize>,
    bytes: Cell<usize>,
}

/// A parsed response, with its headers.
pub(crate) struct Page<T> {
    pub content: T,
    pub headers: HeaderMap,
}

impl<'w> Conversation<'w> {
    pub fn new(
        web: &'w Web,
        name: &'static str,
        base: Base,
        proof: Option<RequestCredentials>,
        trusted: &Authorities,
    ) -> Result<Self, Problem> {
        let client = web.client(trusted)?;
        let limits = &web.limits;
        let (requests, bytes) = (Cell::new(limits.requests), Cell::new(limits.bytes));
        Ok(Self {
            web,
            name,
            base,
            credentials: proof,
            client,
            response_timeout: limits.response,
            requests,
            bytes,
        })
    }

    /// Sets the maximum time for a single response.
    pub fn with_response_timeout(self, patience: Duration) -> Self {
        Self { response_timeout: patience, ..self }
    }

    pub fn web(&self) -> &'w Web {
        self.web
    }

    /// Creates a problem that names the server. Masks secrets, because servers may echo parts of a request.
    pub(crate) fn problem(&self, text: impl AsRef<str>) -> Problem {
        let text = format!("{} at {} {}", self.name, self.base.text(), text.as_ref());
        Problem::new(self.mask_secrets(text))
    }

    fn mask_secrets(&self, text: String) -> String {
        let hidden =
            self.credentials.iter().flat_map(|proof| &proof.secrets).filter(|secret| !secret.is_empty());
        hidden.fold(text, |text, secret| text.replace(secret.as_str(), MASK))
    }

    /// Sends a GET request and parses the response as JSON.
    pub async fn get<T: DeserializeOwned>(&self, path: &str, query: &str) -> Result<T, Problem> {
        self.get_page(path, query).await.map(|page| page.content)
    }

    /// Sends a GET request and returns the parsed response with its headers.
    pub async fn get_page<T: DeserializeOwned>(&self, path: &str, query: &str) -> Result<Page<T>, Problem> {
        let answer = self.get_following_redirects(path, query).await?;
        let answer = self.check_response(answer, &format!("GET {path}")).await?;
        self.parse_response(answer, path).await
    }

    /// Sends a GET request. Returns `None` if the resource doesn't exist.
    pub async fn find<T: DeserializeOwned>(&self, path: &str, query: &str) -> Result<Option<T>, Problem> {
        let answer = self.get_following_redirects(path, query).await?;
        if matches!(answer.status(), StatusCode::NOT_FOUND | StatusCode::NO_CONTENT) {
            return Ok(None);
        }
        let answer = self.check_response(answer, &format!("GET {path}")).await?;
        self.parse_response(answer, path).await.map(|page| Some(page.content))
    }

    /// Returns true if a resource exists, without reading the body of the response.
    pub async fn exists(&self, path: &str, query: &str) -> Result<bool, Problem> {
        let answer = self.get_following_redirects(path, query).await?;
        if answer.status() == StatusCode::NOT_FOUND {
            return Ok(false);
        }
        self.check_response(answer, &format!("GET {path}")).await.map(|_| true)
    }

    /// Sends a POST request and parses the response as JSON. Doesn't follow redirects.
    pub async fn post<T: DeserializeOwned>(&self, path: &str, body: &Value) -> Result<T, Problem> {
        let at = self.base.join(path, "")?;
        let answer = self.send(Method::POST, &at, Some(Bytes::from(body.to_string()))).await?;
        let answer = self.check_response(answer, &format!("POST {path}")).await?;
        self.parse_response(answer, path).await.map(|page| page.content)
    }

    /// Sends a GET request, following redirects. Returns the final response, whatever its status.
    async fn get_following_redirects(&self, path: &str, query: &str) -> Result<Response<Incoming>, Problem> {
        let mut at = self.base.join(path, query)?;
        for _ in 0..=self.web.limits.redirects {
            let answer = self.send(Method::GET, &at, None).await?;
            if !answer.status().is_redirection() || answer.status() == StatusCode::NOT_MODIFIED {
                return Ok(answer);
            }
            let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let location = location.ok_or_else(|| self.problem("returned a redirect without a location"))?;
            at = redirect_target(&at, location).map_err(|misled| self.problem(misled.to_string()))?;
        }
        Err(self.problem(format!("redirected more than {} times", self.web.limits.redirects)))
    }

    async fn send(
        &self,
        method: Method,
        at: &Uri,
        body: Option<Bytes>,
    ) -> Result<Response<Incoming>, Problem> {
        if let Some(wait) = self.web.remaining_wait(&self.rate_limit_identity()) {
            return Err(self.wait_problem("is rate limiting requests", Some(wait)));
        }
        let left = self.requests.get().checked_sub(1);
        self.requests.set(left.ok_or_else(|| {
            let most = self.web.limits.requests;
            self.problem(format!(
                "received the maximum of {most} requests for one generator; narrow the generator's filters"
            ))
        })?);
        check_host(at, self.base.uri()).map_err(|problem| {
            self.problem(format!("redirected to a blocked address: {}", problem.message))
        })?;
        let answer = tokio::time::timeout(
            self.response_timeout,
            self.client.request(self.build_request(method, at, body)),
        );
        match answer.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(self.problem(connection_error_text(&error))),
            Err(_) => Err(self.timeout_problem()),
        }
    }

    fn build_request(&self, method: Method, at: &Uri, body: Option<Bytes>) -> Request<Full<Bytes>> {
        let has_body = body.is_some();
        let mut request = Request::new(Full::new(body.unwrap_or_default()));
        *request.method_mut() = method;
        *request.uri_mut() = at.clone();
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("tidegate/", env!("CARGO_PKG_VERSION"))));
        if has_body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(proof) = self.credentials.as_ref().filter(|_| is_same_server(self.base.uri(), at)) {
            headers.insert(proof.name.clone(), proof.value.clone());
        }
        request
    }

    async fn parse_response<T: DeserializeOwned>(
        &self,
        answer: Response<Incoming>,
        path: &str,
    ) -> Result<Page<T>, Problem> {
        let (parts, body) = answer.into_parts();
        let most = self.web.limits.page_bytes.min(self.bytes.get());
        let body = tokio::time::timeout(self.response_timeout, Limited::new(body, most).collect()).await;
        let body =
            body.map_err(|_| self.timeout_problem())?.map_err(|error| match error
                .is::<http_body_util::LengthLimitError>(
            ) {
                true => self.problem(format!("returned more than {most} bytes for {path}")),
                false => self.problem("closed the connection before the end of its response"),
            })?;
        let body = body.to_bytes();
        self.bytes.set(self.bytes.get().saturating_sub(body.len()));
        let content = serde_json::from_slice(&body).map_err(|error| {
            self.problem(format!("returned an unexpected response for {path} ({error}); check the address"))
        })?;
        Ok(Page { content, headers: parts.headers })
    }

    fn timeout_problem(&self) -> Problem {
        self.problem(format!("did not respond within {} s", self.response_timeout.as_secs_f64()))
    }

    /// Drops the current token if it came from the cache. If so, returns true, because the server might
    /// accept a new one.
    fn discard_cached_token(&self) -> bool {
        let held = self.credentials.as_ref().and_then(|proof| proof.cached_token.as_ref());
        // Keep a new token; the server may accept it for other repositories.
        let Some(held) = held.filter(|held| held.is_from_cache) else { return false };
        self.web.tokens.discard(&held.installation, &held.token);
        true
    }

    /// Returns the identity that the server's rate limit applies to.
    fn rate_limit_identity(&self) -> Vec<u8> {
        let proof =
            self.credentials.as_ref().map(RequestCredentials::rate_limit_identity).unwrap_or_default();
        [self.base.text().as_bytes(), b" ", proof].concat()
    }

    /// Returns the message in the body of an error response. The caller masks secrets.
    async fn error_message(&self, answer: Response<Incoming>) -> Option<String> {
        let body = Limited::new(answer.into_body(), ERROR_BYTES_MAX).collect();
        let body = tokio::time::timeout(self.response_timeout, body).await.ok()?.ok()?;
        error_response::extract_message(&body.to_bytes())
    }
}
