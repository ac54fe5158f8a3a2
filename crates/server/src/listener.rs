//! Accepts and secures connections, limits their number and duration, and closes them gracefully.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use http::Version;
use http::header::{CONNECTION, HOST, HeaderValue};
use http::uri::Authority;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::auth::Authenticator;
use crate::error::ServerError;
use crate::framing::{Framing, FramingQueue, HeadParser};
use crate::limits::Limits;
use crate::middleware::{Middleware, finish_response, too_large_problem};
use crate::oidc::Oidc;
use crate::problem::Problem;
use crate::router::build_router;
use crate::routes::routes;
use crate::server_state::ServerState;
use crate::sessions::generate_secret;
use crate::settings::Settings;
use crate::stall_timeout::StallTimeout;
use crate::tls::Tls;
use crate::tokens::Tokens;
use crate::webhooks::{WEBHOOK_PATH, Webhooks};

/// Delay before accepting connections again after running out of file handles.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The API server. Listens until [`Server::close`] is called.
pub struct Server {
    address: SocketAddr,
    token: Option<String>,
    provider: Option<String>,
    state: Arc<ServerState>,
    accept_task: JoinHandle<()>,
    leader_check: JoinHandle<()>,
}

/// State shared by all connections.
struct ConnectionContext {
    connection_counts: Arc<ConnectionCounts>,
    router: Router,
    tls: Option<Tls>,
    limits: Limits,
    shutdown: watch::Receiver<bool>,
}

impl Server {
    /// Starts listening.
    pub async fn listen(settings: &Settings, server_state: &Arc<ServerState>) -> Result<Self, ServerError> {
        settings.check()?;
        let (tokens, token) = load_tokens(settings)?;
        let tls = settings.tls.as_ref().map(Tls::open).transpose()?;
        let listen = settings.listen;
        let wrong = |source| ServerError::Bind { listen, source };
        let listener = TcpListener::bind(listen).await.map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let limits = settings.limits.clone();
        let webhooks = Webhooks::open(settings.webhooks.as_deref(), &limits)?;
        let oidc = load_oidc(settings)?;
        let authenticator = Authenticator::new(tokens, oidc.clone(), address.port(), tls.is_some())
            .with_sessions(Arc::clone(server_state.sessions()));
        let middleware = Arc::new(Middleware::new(
            Arc::clone(server_state),
            authenticator,
            webhooks,
            settings.peer_tls.clone(),
            limits.clone(),
        ));
        let router = build_router(&middleware, routes());
        let connection_counts = Arc::new(ConnectionCounts::default());
        let door = Arc::new(ConnectionContext {
            connection_counts,
            router,
            tls,
            limits,
            shutdown: server_state.shutdown_signal(),
        });
        let accept_task = tokio::spawn(accept_connections(listener, door));
        let leader_check = tokio::spawn(async move { middleware.check_leader().await });
        let provider = oidc.as_ref().map(|oidc| oidc.name().to_owned());
        // An unreachable provider is reported but doesn't prevent startup.
        if let Some(oidc) = oidc {
            tokio::spawn(async move { oidc.check_provider().await });
        }
        Ok(Self { address, token, provider, state: Arc::clone(server_state), accept_task, leader_check })
    }

    /// Returns the token generated for the user who started the process, if any.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// Returns the name of the OpenID provider, if one is configured.
    pub fn provider(&self) -> Option<&str> {
        self.provider.as_deref()
    }

    /// Returns the address of the listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening, and waits for open responses.
    pub async fn close(mut self) {
        self.state.shut_down();
        let _ = (&mut self.accept_task).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.shut_down();
        self.accept_task.abort();
        self.leader_check.abort();
    }
}

/// Returns the accepted tokens, and the token generated for the user who started the process.
fn load_tokens(settings: &Settings) -> Result<(Option<Tokens>, Option<String>), ServerError> {
    match (&settings.tokens, &settings.owner) {
        (Some(path), _) => Ok((Some(Tokens::open(path)?), None)),
        (None, Some(owner)) => {
            let token = generate_secret().ok_or(ServerError::TokenGeneration)?;
            Ok((Some(Tokens::for_owner(owner, &token)), Some(token)))
        }
        (None, None) => Ok((None, None)),
    }
}

/// Returns the OpenID provider, if one is configured.
fn load_oidc(settings: &Settings) -> Result<Option<Arc<Oidc>>, ServerError> {
    let open = |path: &PathBuf| Oidc::load(path, settings.is_local_only(), &settings.limits);
    Ok(settings.oidc.as_ref().map(open).transpose()?.map(Arc::new))
}

/// A connection's permits: for the total limit, and for the limit per address.
type ConnectionPermits = (OwnedSemaphorePermit, AddressPermit);

/// Number of connections from each address.
#[derive(Default)]
struct ConnectionCounts(Mutex<HashMap<IpAddr, usize>>);

/// Permit for one connection from an address.
struct AddressPermit(Arc<ConnectionCounts>, IpAddr);

impl ConnectionCounts {
    fn lock_counts(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a new connection from an address. Returns `None` if the address already has `most` connections.
    fn acquire(self: &Arc<Self>, address: IpAddr, most: usize) -> Option<AddressPermit> {
        let mut there = self.lock_counts();
        let count = there.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count = count.saturating_add(1);
        Some(AddressPermit(Arc::clone(self), address))
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let Self(crowd, address) = self;
        let mut there = crowd.lock_counts();
        if let Some(count) = there.get_mut(address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                there.remove(address);
            }
        }
    }
}

async fn accept_connections(listener: TcpListener, door: Arc<ConnectionContext>) {
    let places = Arc::new(Semaphore::new(door.limits.connections));
    let mut connections = JoinSet::new();
    let mut ending = door.shutdown.clone();
    loop {
        while connections.try_join_next().is_some() {}
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        tokio::select! {
            biased;
            () = wait_for_shutdown(&mut ending) => break,
            (accepted, place) = next => match (accepted, place) {
                (Ok((stream, peer)), Ok(place)) => {
                    if let Some(one) = door.connection_counts.acquire(peer.ip(), door.limits.connections_per_address) {
                        connections.spawn(handle_connection(stream, Arc::clone(&door), (place, one)));
                    }
                }
                (Err(error), _) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
                // Unreachable, because the semaphore is never closed.
                (_, Err(_)) => break,
            },
        }
    }
    drop(listener);
    let answered = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(door.limits.shutdown_timeout, answered).await;
    // Dropping the set closes the remaining connections.
}

async fn wait_for_shutdown(ending: &mut watch::Receiver<bool>) {
    let _ = ending.wait_for(|ending| *ending).await;
}

async fn handle_connection(stream: TcpStream, door: Arc<ConnectionContext>, place: ConnectionPermits) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = &door.tls else { return serve_connection(stream, &door, place).await };
    let acceptor = TlsAcceptor::from(tls.config(Instant::now()));
    match tokio::time::timeout(door.limits.handshake_timeout, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => serve_connection(stream, &door, place).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake timed out"),
    }
}

async fn serve_connection<S>(stream: S, door: &ConnectionContext, _place: ConnectionPermits)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let ConnectionContext { router, limits, .. } = door;
    let framings = FramingQueue::default();
    let service = service_fn(|request: Request<Incoming>| {
        let (router, framing) = (router.clone(), framings.next());
        let checked = check_request(&request, framing, limits);
        // Close the connection after a rejection, because the rejected request's body may still arrive.
        let is_last = framing != Framing::Length || checked.is_err();
        async move {
            let mut answer = match checked {
                Ok(()) => route_request(router, request.map(Body::new)).await,
                Err(problem) => finish_response(Err(problem)),
            };
            if is_last {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let heads = HeadParser::new(framings.clone());
    let stream = TokioIo::new(StallTimeout::new(stream, limits.stall_timeout).with_head_parser(heads));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_timeout)
        .max_buf_size(limits.head_bytes.max(8 << 10))
        .serve_connection(stream, service);
    let mut connection = std::pin::pin!(connection);
    let mut ending = door.shutdown.clone();
    let result = tokio::select! {
        result = connection.as_mut() => result,
        () = wait_for_shutdown(&mut ending) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection closed");
    }
}

/// Rejects oversized bodies, and requests that servers and proxies may interpret differently.
fn check_request(request: &Request<Incoming>, framing: Framing, limits: &Limits) -> Result<(), Problem> {
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if request.version() >= Version::HTTP_11 => {
            return Err(Problem::bad_request(
                "the request has no Host header; add a Host header, as HTTP/1.1 requires",
            ));
        }
        (_, Some(_)) => {
            return Err(Problem::bad_request(
                "the request has more than one Host header; send a single Host header",
            ));
        }
        (Some(host), None) if !is_valid_host(host) => {
            return Err(Problem::bad_request(format!(
                "the Host header {host:?} is invalid; send a host name or an address, with or without a port"
            )));
        }
        _ => {}
    }
    // A valid Host header has no user name, so a target with a user name never matches it.
    let host = request.headers().get(HOST).map(HeaderValue::as_bytes).unwrap_or_default();
    let is_other = |authority: &Authority| !authority.as_str().as_bytes().eq_ignore_ascii_case(host);
    if request.uri().authority().is_some_and(is_other) {
        return Err(Problem::bad_request(
            "the request target and the Host header name different hosts; send a path as the target",
        ));
    }
    if framing == Framing::Ambiguous {
        return Err(Problem::bad_request(
            "the request has both Content-Length and Transfer-Encoding; send only one of these headers",
        ));
    }
    // Check this even on routes that don't read the body, which may be a smuggled request.
    let limit = match request.uri().path() {
        WEBHOOK_PATH => limits.webhook_bytes,
        _ => limits.body_bytes,
    };
    match usize::try_from(request.body().size_hint().lower()) {
        Ok(length) if length <= limit => Ok(()),
        _ => Err(too_large_problem(limit)),
    }
}

/// Returns true if the header has the form `host` or `host:port`.
fn is_valid_host(header: &HeaderValue) -> bool {
    let Ok(text) = header.to_str() else { return false };
    let authority: Option<Authority> = text.parse().ok().filter(|_| !text.contains('@'));
    let Some(authority) = authority else { return false };
    let host = authority.host();
    let is_named = match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains(['[', ']']),
    };
    // The port in an authority can be any text, including none after the colon (RFC 3986).
    let is_number = |port: &str| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && (port.is_empty() || port.parse::<u16>().is_ok())
    };
    let after = text.strip_prefix(host).unwrap_or_default();
    is_named && (after.is_empty() || after.strip_prefix(':').is_some_and(is_number))
}

async fn route_request(mut router: Router, request: Request) -> axum::response::Response {
    use tower::Service as _;
    match router.call(request).await {
        Ok(answer) => answer,
        Err(never) => match never {},
    }
}
