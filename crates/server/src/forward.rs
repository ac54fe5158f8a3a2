//! Forwards requests to another service with the same operation log: from a standby to the leader, or to the owner of the
//! shard that a request is about.
//!
//! The owner authenticates and handles a forwarded request as if the client had sent it directly. It may have lost the
//! ownership in the meantime, so a request is never forwarded twice. While the owner changes, requests wait, unless the
//! former owner may already have executed them.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, Uri};
use http_body_util::{BodyDataStream, Full};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout};

use crate::auth::FETCH_SITE_HEADER;
use crate::limits::Limits;
use crate::owner::{Owner, OwnerWatch};
use crate::problem::{Code, Problem};
use crate::server_state::ServerState;

/// Header of a forwarded request.
pub(crate) const FORWARDED: HeaderName = HeaderName::from_static("x-tidegate-forwarded");
/// Header of the response from a service that received a forwarded request, but is not the owner.
const NOT_OWNER: HeaderName = HeaderName::from_static("x-tidegate-not-leader");
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
/// Delay before another attempt to forward or handle a request.
pub(crate) const RETRY_DELAY: Duration = Duration::from_millis(250);
/// Interval between checks that the leader can be reached.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Time for which a standby stays ready after the last successful check. Longer than a takeover.
const FAILURE_TOLERANCE: Duration = Duration::from_secs(20);
/// Idle time after which the system checks whether the other service's machine still responds.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Idle timeout of a connection. Shorter than that of the other service, which therefore never closes a connection that is
/// about to be used.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of open requests. Together with the event streams, lower than the other service's limit for the
/// connections from one address.
const REQUESTS_MAX: usize = 64;
/// Maximum number of open event streams of other services.
const STREAMS_MAX: usize = 56;
/// Maximum time until another service answers a request that isn't repeated.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Host name or IP address in the certificates of other services.
pub type PeerName = ServerName<'static>;

/// Parses a host name or an IP address.
pub fn parse_peer_name(text: &str) -> Result<PeerName, String> {
    text.to_owned().try_into().map_err(|_| "use a host name or an IP address".to_owned())
}

/// TLS settings for connections to other services.
#[derive(Clone, Debug)]
pub struct PeerTls {
    /// TLS configuration with the trusted certificates.
    pub config: Arc<ClientConfig>,
    /// Host name in the certificates, if it isn't the one in the URLs.
    pub server_name: Option<PeerName>,
}

/// Client for requests to other services.
#[derive(Clone)]
pub(crate) struct Forwarder {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    permits: Arc<Semaphore>,
    stream_permits: Arc<Semaphore>,
}

/// Request that a service has received, or the response if another service has handled it.
pub(crate) enum RoutedRequest {
    /// This service must handle the request, because it is the owner.
    Local(Request<Body>),
    /// Response of the owner.
    Remote(Response<Body>),
}

/// Result of one attempt to forward a request.
enum Attempt {
    Response(Response<Incoming>),
    /// The other service has not executed the request.
    NotExecuted(String),
    /// The other service may have executed the request.
    Unknown(String),
}

impl Forwarder {
    /// Creates a client.
    pub fn new(tls: PeerTls) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_keepalive(Some(KEEPALIVE_IDLE));
        tcp.set_keepalive_interval(Some(CONNECT_TIMEOUT));
        tcp.set_keepalive_retries(Some(3));
        let builder = HttpsConnectorBuilder::new().with_tls_config((*tls.config).clone()).https_or_http();
        let builder = match tls.server_name {
            Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name)),
            None => builder,
        };
        let connector = builder.enable_http1().wrap_connector(tcp);
        let mut client = Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE_TIMEOUT);
        Self {
            client: client.build(connector),
            permits: Arc::new(Semaphore::new(REQUESTS_MAX)),
            stream_permits: Arc::new(Semaphore::new(STREAMS_MAX)),
        }
    }

    /// Forwards a request to its owner, or returns it once this service is the owner. Waits while the owner changes.
    pub async fn forward(
        &self,
        state: &ServerState,
        mut owner: OwnerWatch,
        parts: Parts,
        body: Bytes,
        limits: &Limits,
    ) -> Result<RoutedRequest, Problem> {
        let (role, mut shutdown) = (owner.role(), state.shutdown_signal());
        // The owner's own limit applies first.
        let response_timeout = limits.response_timeout.saturating_add(limits.body_timeout);
        let deadline = Instant::now() + limits.leader_timeout;
        loop {
            let current = owner.current();
            let reason = match &current {
                Owner::This => {
                    return Ok(RoutedRequest::Local(Request::from_parts(parts, Body::from(body))));
                }
                Owner::Changing => state.wait_reason().unwrap_or_else(|| match &owner {
                    OwnerWatch::Leader(_) => "this service is taking over as the leader".to_owned(),
                    OwnerWatch::Shard { shard, .. } => {
                        format!("shard {shard} of the operation log has no owner yet")
                    }
                }),
                Owner::Other { name, address: None } => return Err(no_address_problem(&owner, name)),
                Owner::Other { name, address: Some(address) } => {
                    let permit = Arc::clone(&self.permits).acquire_owned();
                    let Ok(Ok(permit)) = tokio::time::timeout_at(deadline, permit).await else {
                        let problem =
                            Problem::new(Code::TooOften, format!("too many requests to the {role} are open"));
                        return Err(problem.with_retry_after(RETRY_DELAY));
                    };
                    let sending = timeout(response_timeout, self.send(address, &parts, body.clone()));
                    let attempt = tokio::select! {
                        attempt = sending => {
                            attempt.unwrap_or_else(|_| Attempt::Unknown("did not respond in time".to_owned()))
                        }
                        () = owner.wait_for_other(&current) => {
                            Attempt::Unknown("stopped or handed over before it responded".to_owned())
                        }
                    };
                    match attempt {
                        Attempt::Response(response) => {
                            let open = OpenResponse { owner, current, shutdown, _permit: permit };
                            return Ok(RoutedRequest::Remote(open.relay(response)));
                        }
                        Attempt::Unknown(reason) if !parts.method.is_safe() => {
                            let message =
                                format!("the {role} ({name}) {reason}; it may have executed the request");
                            return Err(Problem::new(Code::NoAnswer, message));
                        }
                        Attempt::NotExecuted(reason) | Attempt::Unknown(reason) => {
                            format!("the {role} ({name}) {reason}")
                        }
                    }
                }
            };
            if Instant::now() >= deadline {
                return Err(Problem::new(Code::NotReady, reason).with_retry_after(RETRY_DELAY));
            }
            tokio::select! {
                _ = timeout(RETRY_DELAY, owner.changed()) => {}
                _ = shutdown.wait_for(|is_ending| *is_ending) => {
                    let problem = Problem::new(Code::NotReady, "this service is shutting down");
                    return Err(problem.with_retry_after(RETRY_DELAY));
                }
            }
        }
    }

    /// Sends a webhook event or a request for events to another service once. Returns its response, or the reason if it
    /// isn't successful.
    pub async fn send_once(&self, address: &Uri, parts: &Parts, body: Bytes) -> Result<Body, String> {
        let permit = Arc::clone(&self.stream_permits).try_acquire_owned();
        let permit = permit.map_err(|_| "has too many open requests of this service".to_owned())?;
        match timeout(ANSWER_TIMEOUT, self.send(address, parts, body)).await {
            Ok(Attempt::Response(response)) if response.status().is_success() => {
                let data = BodyDataStream::new(response.into_body());
                Ok(Body::from_stream(data.map(move |chunk| {
                    let _open = &permit;
                    chunk
                })))
            }
            Ok(Attempt::Response(response)) => Err(format!("responded with {}", response.status())),
            Ok(Attempt::NotExecuted(reason) | Attempt::Unknown(reason)) => Err(reason),
            Err(_) => Err("did not respond in time".to_owned()),
        }
    }

    /// Regularly checks whether the leader can be reached, and records the result in the state. Runs until it is
    /// dropped.
    pub async fn check_leader(&self, state: &ServerState) {
        let mut leader = state.leader();
        loop {
            let current = leader.current();
            state
                .set_leader_failure(Some("the connection to the leader has not been checked yet".to_owned()));
            tokio::select! {
                () = leader.wait_for_other(&current) => {}
                () = self.check_address(state, &current) => {}
            }
        }
    }

    /// Checks one leader until it is dropped.
    async fn check_address(&self, state: &ServerState, leader: &Owner) {
        let Owner::Other { name, address: Some(address) } = leader else {
            return std::future::pending().await;
        };
        let (mut parts, ()) = Request::new(()).into_parts();
        (parts.method, parts.uri) = (Method::GET, Uri::from_static("/readyz"));
        let (mut last_success, mut last_failure) = (None, None);
        loop {
            let failure = match timeout(CHECK_INTERVAL, self.send(address, &parts, Bytes::new())).await {
                Ok(Attempt::Response(_)) => None,
                Ok(Attempt::NotExecuted(reason) | Attempt::Unknown(reason)) => Some(reason),
                Err(_) => Some(format!("did not respond within {} s", CHECK_INTERVAL.as_secs())),
            };
            if let Some(reason) = failure.as_ref().filter(|_| failure != last_failure) {
                tracing::warn!(%address, "cannot forward requests: the leader ({name}) {reason}");
            }
            match &failure {
                None => {
                    last_success = Some(Instant::now());
                    state.set_leader_failure(None);
                }
                // During a takeover, requests wait here. Other services are not ready either.
                Some(_) if last_success.is_some_and(|at: Instant| at.elapsed() < FAILURE_TOLERANCE) => {}
                Some(reason) => state.set_leader_failure(Some(format!("the leader ({name}) {reason}"))),
            }
            last_failure = failure;
            tokio::time::sleep(CHECK_INTERVAL).await;
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
        match self.client.request(request).await {
            Ok(response) if response.headers().contains_key(NOT_OWNER) => {
                Attempt::NotExecuted("has handed over".to_owned())
            }
            Ok(response) => Attempt::Response(response),
            Err(error) if error.is_connect() => {
                Attempt::NotExecuted(format!("cannot be reached: {}", root_cause(&error)))
            }
            Err(error) => Attempt::Unknown(format!("closed the connection: {}", root_cause(&error))),
        }
    }
}

/// Response of the owner while this service relays it.
struct OpenResponse {
    owner: OwnerWatch,
    /// Service that sends the response.
    current: Owner,
    shutdown: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
}

impl OpenResponse {
    /// Returns the response for the client. A response of unknown length, such as a stream of events, is aborted when
    /// the owner changes, and ends when this service shuts down, so that the client continues at another service.
    fn relay(self, response: Response<Incoming>) -> Response<Body> {
        let (mut parts, body) = response.into_parts();
        parts.headers = end_to_end_headers(&parts.headers);
        let is_stream = !parts.headers.contains_key(header::CONTENT_LENGTH);
        let open = (BodyDataStream::new(body), self);
        let data = futures_util::stream::unfold(open, move |(mut data, mut open)| async move {
            let Self { owner, current, shutdown, .. } = &mut open;
            let next = tokio::select! {
                next = data.next() => next?.map_err(io::Error::other),
                () = owner.wait_for_other(current), if is_stream => Err(io::Error::other("the owner has changed")),
                _ = shutdown.wait_for(|is_ending| *is_ending), if is_stream => return None,
            };
            Some((next, (data, open)))
        });
        Response::from_parts(parts, Body::from_stream(data))
    }
}

/// Returns the response of a service that is not the owner to a request that another service has forwarded.
pub(crate) fn not_owner_response() -> Response<Body> {
    let problem = Problem::new(
        Code::NotReady,
        "another service must handle the request, and the request was already forwarded",
    );
    let mut response = problem.to_response();
    response.headers_mut().insert(NOT_OWNER, HeaderValue::from_static("1"));
    response
}

fn no_address_problem(owner: &OwnerWatch, name: &str) -> Problem {
    let role = owner.role();
    let reason = match owner {
        OwnerWatch::Leader(_) => {
            format!("this service is a standby, and the leader ({name}) has no usable address")
        }
        OwnerWatch::Shard { .. } => {
            format!("another service ({name}) must handle the request, and has no usable address")
        }
    };
    Problem {
        next: format!(
            "send the request to the {role}, or start all services with `tidegate serve --advertise URL`"
        ),
        ..Problem::new(Code::NotReady, reason)
    }
}

/// Returns the headers without those that apply to a single connection. A client can't remove the headers that the
/// owner uses to authenticate it.
fn end_to_end_headers(headers: &HeaderMap) -> HeaderMap {
    const KEPT: [HeaderName; 5] =
        [header::HOST, header::AUTHORIZATION, header::COOKIE, header::ORIGIN, FETCH_SITE_HEADER];
    let named = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named: Vec<HeaderName> =
        named.flat_map(|list| list.split(',')).filter_map(|name| name.trim().parse().ok()).collect();
    let is_dropped =
        |name: &HeaderName| CONNECTION_HEADERS.contains(name) || named.contains(name) && !KEPT.contains(name);
    headers
        .iter()
        .filter(|(name, _)| !is_dropped(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
