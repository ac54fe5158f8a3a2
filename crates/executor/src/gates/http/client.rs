//! One question to an endpoint, and what its answer means.

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

use super::config::Question;

/// Longest answer that is read: it says yes or no, and perhaps why.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Longest reason of an endpoint that is passed on, in characters.
const MESSAGE_MAX: usize = 300;
/// So long a connection may take at most, whatever the answer may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// What stands for a secret in words of an endpoint.
const HIDDEN: &str = "***";

/// What an endpoint has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// The wave may begin.
    Yes,
    /// It may not, for this reason.
    No(String),
    /// Nothing that could be understood.
    Nothing(String),
}

type TlsClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The way to endpoints. Connections are made for each question.
#[derive(Default)]
pub(crate) struct Web {
    plain: OnceLock<Client<HttpConnector, Full<Bytes>>>,
    /// Made when it is needed: it reads which certificates this system trusts.
    tls: OnceLock<Result<TlsClient, String>>,
}

/// The answer of an endpoint that speaks clearly. Other fields are its own business.
#[derive(Deserialize)]
struct Answer {
    allowed: bool,
    #[serde(default)]
    message: Option<String>,
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT_WITHIN));
    tcp
}

fn client<C: Connect + Clone + Send + Sync + 'static>(connector: C) -> Client<C, Full<Bytes>> {
    let mut builder = Client::builder(TokioExecutor::new());
    // A connection that nobody used for half a minute may be gone; and each question is one attempt.
    builder.pool_max_idle_per_host(0).retry_canceled_requests(false).build(connector)
}

impl Web {
    /// Asks once, and does not try again.
    pub(super) async fn ask(&self, question: &Question) -> Said {
        if question.url.scheme_str() == Some("http") {
            return ask(self.plain.get_or_init(|| client(tcp())), question).await;
        }
        match self.tls.get_or_init(with_tls) {
            Ok(client) => ask(client, question).await,
            Err(problem) => Said::Nothing(problem.clone()),
        }
    }
}

fn with_tls() -> Result<TlsClient, String> {
    let tls = HttpsConnectorBuilder::new().with_native_roots().map_err(|error| {
        format!("the certificates that this system trusts cannot be read: {error}; SSL_CERT_FILE names a file of them")
    })?;
    Ok(client(tls.https_only().enable_http1().wrap_connector(tcp())))
}

/// Asks once, with any kind of connection.
pub(super) async fn ask<C>(client: &Client<C, Full<Bytes>>, question: &Question) -> Said
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let endpoint = &question.endpoint;
    let (request, secrets) = match request(question) {
        Ok(made) => made,
        Err(problem) => return Said::Nothing(problem),
    };
    let said = tokio::time::timeout(question.timeout, fetch(client, request)).await;
    let said = match said {
        Ok(Ok((status, body))) => judged(endpoint, status, &body),
        Ok(Err(problem)) => Said::Nothing(format!("{endpoint} {problem}")),
        Err(_) => {
            Said::Nothing(format!("{endpoint} did not answer within {} s", question.timeout.as_secs_f64()))
        }
    };
    match said {
        Said::Yes => Said::Yes,
        Said::No(reason) => Said::No(hidden(reason, &secrets)),
        Said::Nothing(reason) => Said::Nothing(hidden(reason, &secrets)),
    }
}

/// The request, and what of it must not show.
fn request(question: &Question) -> Result<(Request<Full<Bytes>>, Vec<String>), String> {
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

/// Status and body of the answer. The error goes on after the name of the endpoint.
async fn fetch<C>(
    client: &Client<C, Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), String>
where
    C: Connect + Clone + Send + Sync + 'static,
{
    let response = client.request(request).await.map_err(|error| match error.is_connect() {
        true => format!("cannot be reached: {}", root(&error)),
        false => format!("broke the connection: {}", root(&error)),
    })?;
    let status = response.status();
    if status != StatusCode::OK {
        return Ok((status, Bytes::new()));
    }
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    match body {
        Ok(body) => Ok((status, body.to_bytes())),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(format!("answered with more than {} KiB", ANSWER_BYTES_MAX >> 10))
        }
        Err(_) => Err("broke the connection in the middle of its answer".to_owned()),
    }
}

/// The innermost cause, which says what happened.
fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

fn judged(endpoint: &str, status: StatusCode, body: &[u8]) -> Said {
    if status.is_redirection() {
        return Said::Nothing(format!("{endpoint} answered {status}; redirects are not followed"));
    }
    if status != StatusCode::OK {
        return Said::Nothing(format!("{endpoint} answered {status}"));
    }
    // A list would be read as the fields in order.
    let answer = body.trim_ascii_start().starts_with(b"{").then(|| serde_json::from_slice::<Answer>(body));
    match answer {
        Some(Ok(Answer { allowed: true, .. })) => Said::Yes,
        Some(Ok(Answer { allowed: false, message })) => {
            Said::No(match message.map(|message| plain(&message)) {
                Some(message) if !message.is_empty() => message,
                _ => format!("{endpoint} does not allow it"),
            })
        }
        _ => Said::Nothing(format!(
            "{endpoint} answered 200 OK, but not with a JSON object in which allowed is true or false"
        )),
    }
}

/// One line of reasonable length.
fn plain(message: &str) -> String {
    let line: String = message.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.trim();
    if line.chars().count() <= MESSAGE_MAX {
        return line.to_owned();
    }
    line.chars().take(MESSAGE_MAX).chain(['…']).collect()
}

/// An endpoint may quote what it was sent.
fn hidden(reason: String, secrets: &[String]) -> String {
    let secrets = secrets.iter().filter(|secret| !secret.is_empty());
    secrets.fold(reason, |reason, secret| reason.replace(secret.as_str(), HIDDEN))
}
