//! Forwards requests from a standby to the leader, with which it shares the operation log.
//!
//! The leader authenticates and handles a forwarded request as if the client had sent it directly. A leader that is
//! only known from the past may have become a standby, so a standby never forwards a request twice. While the leader
//! changes, requests wait, unless the former leader may already have executed them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response, Uri};
use http_body_util::{BodyDataStream, Full};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::leader::Leader;
use crate::limits::Limits;
use crate::problem::{Code, Problem};

/// Header of a forwarded request.
pub(crate) const FORWARDED: HeaderName = HeaderName::from_static("x-tidegate-forwarded");
/// Header of the response from a service that a request was forwarded to, but that is not the leader.
const NOT_LEADER: HeaderName = HeaderName::from_static("x-tidegate-not-leader");
/// Headers that apply to a single connection.
const CONNECTION_HEADERS: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];
const RETRY_DELAY: Duration = Duration::from_millis(250);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time after which an unused connection is closed. Shorter than the same time of the leader, which must not close a
/// connection that is about to be used.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// TLS settings for connections to other services.
#[derive(Clone, Debug)]
pub struct PeerTls {
    /// TLS configuration with the trusted certificates.
    pub config: Arc<ClientConfig>,
    /// Host name in the certificates, if it isn't the one in the URLs.
    pub server_name: Option<ServerName<'static>>,
}

/// Client for requests to the leader.
pub(crate) struct Forwarder(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

/// Request that a standby received.
pub(crate) enum ReceivedRequest {
    /// This service must handle the request, because it is or has become the leader.
    Own(Request<Body>),
    /// The leader has handled the request.
    Forwarded(Response<Body>),
}

/// Result of one attempt to forward a request.
enum Attempt {
    Response(Response<Incoming>),
    /// The leader has not executed the request.
    NotExecuted(String),
    /// The leader may have executed the request.
    Unknown(String),
}

impl Forwarder {
    /// Creates a client.
    pub fn new(tls: PeerTls) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let builder = HttpsConnectorBuilder::new().with_tls_config((*tls.config).clone()).https_or_http();
        let builder = match tls.server_name {
            Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name)),
            None => builder,
        };
        let connector = builder.enable_http1().wrap_connector(tcp);
        let mut client = Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_TIMEOUT);
        Self(client.build(connector))
    }

    /// Forwards a request to the leader, or returns it once this service is the leader. Waits while the leader changes.
    pub async fn forward(
        &self,
        mut leader: watch::Receiver<Leader>,
        parts: Parts,
        body: Bytes,
        limits: &Limits,
    ) -> Result<ReceivedRequest, Problem> {
        // The leader's own limit applies first.
        let response_timeout = limits.response_timeout.saturating_add(limits.body_timeout);
        let deadline = Instant::now() + limits.leader_timeout;
        loop {
            let current = leader.borrow_and_update().clone();
            let reason = match &current {
                Leader::This => {
                    return Ok(ReceivedRequest::Own(Request::from_parts(parts, Body::from(body))));
                }
                Leader::Changing => "this service is taking over as the leader".to_owned(),
                Leader::Other { name, address: None } => return Err(no_address_problem(name)),
                Leader::Other { name, address: Some(address) } => {
                    let sending = self.send(address, &parts, body.clone());
                    let attempt = tokio::select! {
                        attempt = tokio::time::timeout(response_timeout, sending) => {
                            attempt.unwrap_or_else(|_| Attempt::Unknown("does not respond".to_owned()))
                        }
                        () = wait_for_other(&mut leader, &current) => Attempt::Unknown("is no longer the leader".to_owned()),
                    };
                    match attempt {
                        Attempt::Response(response) => {
                            return Ok(ReceivedRequest::Forwarded(pass_on(response, leader, current)));
                        }
                        Attempt::NotExecuted(reason) => format!("{name}, the leader, {reason}"),
                        Attempt::Unknown(reason) if parts.method.is_safe() => {
                            format!("{name}, the leader, {reason}")
                        }
                        Attempt::Unknown(reason) => {
                            return Err(Problem::new(
                                Code::NoAnswer,
                                format!("{name}, which executes requests, {reason}"),
                            ));
                        }
                    }
                }
            };
            if Instant::now() >= deadline {
                return Err(Problem::new(Code::NotReady, reason).with_retry_after(RETRY_DELAY));
            }
            let _ = tokio::time::timeout(RETRY_DELAY, leader.changed()).await;
        }
    }

    async fn send(&self, address: &Uri, parts: &Parts, body: Bytes) -> Attempt {
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let uri = Uri::builder()
            .scheme(address.scheme_str().unwrap_or("http"))
            .authority(address.authority().map_or("", |authority| authority.as_str()))
            .path_and_query(target)
            .build();
        let mut request = Request::new(Full::new(body));
        match uri {
            Ok(uri) => *request.uri_mut() = uri,
            Err(error) => return Attempt::NotExecuted(format!("has an unusable address: {error}")),
        }
        *request.method_mut() = parts.method.clone();
        *request.headers_mut() = end_to_end_headers(&parts.headers);
        // The client computes the length of the body that it sends.
        request.headers_mut().remove(header::CONTENT_LENGTH);
        request.headers_mut().insert(FORWARDED, HeaderValue::from_static("1"));
        match self.0.request(request).await {
            Ok(response) if response.headers().contains_key(NOT_LEADER) => {
                Attempt::NotExecuted("has become a standby".to_owned())
            }
            Ok(response) => Attempt::Response(response),
            Err(error) if error.is_connect() => {
                tracing::debug!(%error, "failed to connect to the leader");
                Attempt::NotExecuted("cannot be reached".to_owned())
            }
            Err(error) => {
                tracing::debug!(%error, "failed to forward a request");
                Attempt::Unknown("closed the connection".to_owned())
            }
        }
    }
}

/// Returns the response of a standby to a request that another standby has forwarded.
pub(crate) fn not_leader_response() -> Response<Body> {
    let problem =
        Problem::new(Code::NotReady, "this service is a standby, and the request was already forwarded");
    let mut response = problem.to_response();
    response.headers_mut().insert(NOT_LEADER, HeaderValue::from_static("1"));
    response
}

fn no_address_problem(name: &str) -> Problem {
    Problem {
        next: "send the request to the leader, or start all services with `tidegate serve --advertise URL`"
            .to_owned(),
        ..Problem::new(
            Code::NotReady,
            format!("this service is a standby, and the leader, {name}, does not advertise an address"),
        )
    }
}

/// Waits until the leader is no longer the one that a request was sent to.
async fn wait_for_other(leader: &mut watch::Receiver<Leader>, current: &Leader) {
    if leader.wait_for(|leader| leader != current).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Returns the leader's response to the client. Aborts a response that is still open when the leader changes, so that
/// clients that follow events connect to the new leader.
fn pass_on(response: Response<Incoming>, leader: watch::Receiver<Leader>, current: Leader) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    parts.headers = end_to_end_headers(&parts.headers);
    let open = (BodyDataStream::new(body), leader, current);
    let data = futures_util::stream::unfold(open, |(mut data, mut leader, current)| async {
        let next = tokio::select! {
            next = data.next() => next?.map_err(io::Error::other),
            () = wait_for_other(&mut leader, &current) => Err(io::Error::other("the leader has changed")),
        };
        Some((next, (data, leader, current)))
    });
    Response::from_parts(parts, Body::from_stream(data))
}

/// Returns the headers without those that apply to a single connection.
fn end_to_end_headers(headers: &HeaderMap) -> HeaderMap {
    let named = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> =
        named.flat_map(|list| list.split(',')).filter_map(|name| name.trim().parse().ok()).collect();
    let is_end_to_end = |name: &HeaderName| !CONNECTION_HEADERS.contains(name) && !named.contains(name);
    headers
        .iter()
        .filter(|(name, _)| is_end_to_end(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}
