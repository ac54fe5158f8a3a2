//! A request to an endpoint, and the interpretation of the response.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;

use super::config::EndpointRequest;

/// Maximum size of a response in bytes. A response is just a yes or no, with an optional reason.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Maximum length of an endpoint's reason, in characters.
const REASON_CHARS_MAX: usize = 300;
/// Maximum time to establish a connection, independent of the response timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Replacement for secrets in messages from an endpoint.
const SECRET_MASK: &str = "***";

/// Result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EndpointAnswer {
    /// The wave may start.
    Allowed,
    /// The wave must not start, for this reason.
    Denied(String),
    /// The response isn't usable, for this reason.
    Unusable(String),
}

type TlsClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// HTTP client for endpoints. Each request opens a new connection.
#[derive(Default)]
pub(crate) struct HttpClient {
    plain: OnceLock<Client<HttpConnector, Full<Bytes>>>,
    /// TLS client, created on first use because it loads the system's trusted certificates.
    tls: OnceLock<Result<TlsClient, String>>,
}

/// Structured response from an endpoint. Other fields are ignored.
#[derive(Deserialize)]
struct AnswerBody {
    allowed: bool,
    #[serde(default)]
    message: Option<String>,
}

fn tcp_connector() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp
}

fn build_client<C: Connect + Clone + Send + Sync + 'static>(connector: C) -> Client<C, Full<Bytes>> {
    let mut builder = Client::builder(TokioExecutor::new());
    // Don't reuse connections: requests aren't retried, and the server may have closed an idle connection.
    builder.pool_max_idle_per_host(0).retry_canceled_requests(false).build(connector)
}

impl HttpClient {
    /// Sends one request without retries.
    pub(super) async fn send(&self, question: &EndpointRequest) -> EndpointAnswer {
        if question.url.scheme_str() == Some("http") {
            return send_request(self.plain.get_or_init(|| build_client(tcp_connector())), question).await;
        }
        match self.tls.get_or_init(build_tls_client) {
            Ok(client) => send_request(client, question).await,
            Err(problem) => EndpointAnswer::Unusable(problem.clone()),
        }
    }
}

fn build_tls_client() -> Result<TlsClient, String> {
    let tls = HttpsConnectorBuilder::new().with_native_roots().map_err(|error| {
        format!("the trusted certificates of this system cannot be read: {error}; set SSL_CERT_FILE to a certificate file")
    })?;
    Ok(build_client(tls.https_only().enable_http1().wrap_connector(tcp_connector())))
}

/// Sends one request over any type of connection.
pub(super) async fn send_request<C>(
    client: &Client<C, Full<Bytes>>,
    question: &EndpointRequest,
) -> EndpointAnswer
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let endpoint = &question.endpoint;
    let (request, secrets) = match build_request(question) {
        Ok(made) => made,
        Err(problem) => return EndpointAnswer::Unusable(problem),
    };
    let said = tokio::time::timeout(question.timeout, fetch(client, request)).await;
    let said = match said {
        Ok(Ok((status, body))) => parse_answer(endpoint, status, &body),
        Ok(Err(problem)) => EndpointAnswer::Unusable(format!("{endpoint} {problem}")),
        Err(_) => EndpointAnswer::Unusable(format!(
            "{endpoint} did not respond within {} s",
            question.timeout.as_secs_f64()
        )),
    };
    match said {
        EndpointAnswer::Allowed => EndpointAnswer::Allowed,
        EndpointAnswer::Denied(reason) => EndpointAnswer::Denied(mask_secrets(reason, &secrets)),
        EndpointAnswer::Unusable(reason) => EndpointAnswer::Unusable(mask_secrets(reason, &secrets)),
    }
}

/// Returns the request, and the secrets in it.
fn build_request(question: &EndpointRequest) -> Result<(Request<Full<Bytes>>, Vec<String>), String> {
    let mut request = Request::new(Full::new(question.body.clone()));
    *request.method_mut() = question.method.clone();
    *request.uri_mut() = question.url.clone();
    let headers = request.headers_mut();
    headers.insert(ACCEPT, http::HeaderValue::from_static("application/json"));
    headers
        .insert(USER_AGENT, http::HeaderValue::from_static(concat!("tidegate/", env!("CARGO_PKG_VERSION"))));
    if !question.body.is_empty() {
        headers.insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    }
    let mut secrets = Vec::new();
    for (name, source) in &question.headers {
        let (value, secret) = source.read().map_err(|problem| format!("header {name}: {problem}"))?;
        headers.insert(name, value);
        secrets.push(secret);
    }
    Ok((request, secrets))
}

/// Returns the status and body of the response. The error message completes a sentence that starts with the
/// endpoint's name.
async fn fetch<C>(
    client: &Client<C, Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), String>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let response = client.request(request).await.map_err(|error| match error.is_connect() {
        true => format!("cannot be reached: {}", root_cause(&error)),
        false => format!("closed the connection: {}", root_cause(&error)),
    })?;
    let status = response.status();
    if status != StatusCode::OK {
        return Ok((status, Bytes::new()));
    }
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    match body {
        Ok(body) => Ok((status, body.to_bytes())),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(format!("returned more than {} KiB", ANSWER_BYTES_MAX >> 10))
        }
        Err(_) => Err("closed the connection before the response was complete".to_owned()),
    }
}

/// Returns the innermost cause of an error, which is the most informative.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

fn parse_answer(endpoint: &str, status: StatusCode, body: &[u8]) -> EndpointAnswer {
    if status.is_redirection() {
        return EndpointAnswer::Unusable(format!("{endpoint} returned {status}; redirects are not followed"));
    }
    if status != StatusCode::OK {
        return EndpointAnswer::Unusable(format!("{endpoint} returned {status}"));
    }
    // Require an object: serde would also accept a list and assign its items to the fields in order.
    let answer =
        body.trim_ascii_start().starts_with(b"{").then(|| serde_json::from_slice::<AnswerBody>(body));
    match answer {
        Some(Ok(AnswerBody { allowed: true, .. })) => EndpointAnswer::Allowed,
        Some(Ok(AnswerBody { allowed: false, message })) => {
            EndpointAnswer::Denied(match message.map(|message| shorten_message(&message)) {
                Some(message) if !message.is_empty() => message,
                _ => format!("{endpoint} returned `allowed: false`"),
            })
        }
        _ => EndpointAnswer::Unusable(format!(
            "{endpoint} returned 200 OK, but the body is not a JSON object with a boolean field named \
             allowed"
        )),
    }
}

/// Shortens a message to one line.
fn shorten_message(message: &str) -> String {
    let line: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.trim();
    if line.chars().count() <= REASON_CHARS_MAX {
        return line.to_owned();
    }
    line.chars().take(REASON_CHARS_MAX).chain(['…']).collect()
}

/// Masks secrets, because an endpoint may quote the request in its response.
fn mask_secrets(reason: String, secrets: &[String]) -> String {
    let secrets = secrets.iter().filter(|secret| !secret.is_empty());
    secrets.fold(reason, |reason, secret| reason.replace(secret.as_str(), SECRET_MASK))
}
