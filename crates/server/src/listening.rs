//! Connections: accepted, secured, bounded in number and time, and ended in order.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use crate::entrance::Entrance;
use crate::error::ServerError;
use crate::front::{Front, router};
use crate::limits::Limits;
use crate::oidc::Oidc;
use crate::patience::Patient;
use crate::routes::routes;
use crate::sessions::secret;
use crate::settings::Settings;
use crate::site::Site;
use crate::tls::Tls;
use crate::tokens::Tokens;
use crate::webhooks::Webhooks;

/// How long until somebody is accepted again, when the system had no handle for a connection.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Listens until it is closed.
pub struct Server {
    address: SocketAddr,
    token: Option<String>,
    provider: Option<String>,
    site: Arc<Site>,
    accepting: JoinHandle<()>,
}

/// What every connection needs.
struct Door {
    crowd: Arc<Crowd>,
    router: Router,
    tls: Option<Tls>,
    limits: Limits,
    ending: watch::Receiver<bool>,
}

impl Server {
    /// Begins to listen.
    pub async fn listen(settings: &Settings, site: &Arc<Site>) -> Result<Self, ServerError> {
        settings.check()?;
        let (tokens, token) = let_in(settings)?;
        let tls = settings.tls.as_ref().map(Tls::open).transpose()?;
        let listen = settings.listen;
        let wrong = |source| ServerError::Listen { listen, source };
        let listener = TcpListener::bind(listen).await.map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let limits = settings.limits.clone();
        let webhooks = Webhooks::open(settings.webhooks.as_deref(), &limits)?;
        let oidc = oidc(settings)?;
        let entrance = Entrance::new(tokens, oidc.clone(), address.port(), tls.is_some());
        let front = Arc::new(Front::new(Arc::clone(site), (entrance, webhooks), limits.clone()));
        let router = router(&front, routes());
        let crowd = Arc::new(Crowd::default());
        let door = Arc::new(Door { crowd, router, tls, limits, ending: site.ending() });
        let accepting = tokio::spawn(accept(listener, door));
        let provider = oidc.as_ref().map(|oidc| oidc.name().to_owned());
        // Whether the provider answers keeps nobody from being served, and is told at once.
        if let Some(oidc) = oidc {
            tokio::spawn(async move { oidc.look().await });
        }
        Ok(Self { address, token, provider, site: Arc::clone(site), accepting })
    }

    /// The token that was made for who started the process, where one was.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// With whom people sign in, where they do.
    pub fn provider(&self) -> Option<&str> {
        self.provider.as_deref()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops listening, after the answers on their way.
    pub async fn close(mut self) {
        self.site.end();
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.site.end();
        self.accepting.abort();
    }
}

/// Who is let in; and the token that was made for who started the process.
fn let_in(settings: &Settings) -> Result<(Option<Tokens>, Option<String>), ServerError> {
    match (&settings.tokens, &settings.owner) {
        (Some(path), _) => Ok((Some(Tokens::open(path)?), None)),
        (None, Some(owner)) => {
            let token = secret().ok_or(ServerError::NoSecret)?;
            Ok((Some(Tokens::of_owner(owner, &token)), Some(token)))
        }
        (None, None) => Ok((None, None)),
    }
}

/// With whom people sign in.
fn oidc(settings: &Settings) -> Result<Option<Arc<Oidc>>, ServerError> {
    let open = |path: &PathBuf| Oidc::open(path, settings.is_here(), &settings.limits);
    Ok(settings.oidc.as_ref().map(open).transpose()?.map(Arc::new))
}

/// A place among all connections, and one among those of an address.
type Place = (OwnedSemaphorePermit, OneOf);

/// How many connections there are of each address.
#[derive(Default)]
struct Crowd(Mutex<HashMap<IpAddr, usize>>);

/// One connection of an address.
struct OneOf(Arc<Crowd>, IpAddr);

impl Crowd {
    fn there(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more, unless there are so many.
    fn enter(self: &Arc<Self>, address: IpAddr, most: usize) -> Option<OneOf> {
        let mut there = self.there();
        let count = there.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count = count.saturating_add(1);
        Some(OneOf(Arc::clone(self), address))
    }
}

impl Drop for OneOf {
    fn drop(&mut self) {
        let Self(crowd, address) = self;
        let mut there = crowd.there();
        if let Some(count) = there.get_mut(address) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                there.remove(address);
            }
        }
    }
}

async fn accept(listener: TcpListener, door: Arc<Door>) {
    let places = Arc::new(Semaphore::new(door.limits.connections));
    let mut connections = JoinSet::new();
    let mut ending = door.ending.clone();
    loop {
        while connections.try_join_next().is_some() {}
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (listener.accept().await, place)
        };
        tokio::select! {
            biased;
            () = ended(&mut ending) => break,
            (accepted, place) = next => match (accepted, place) {
                (Ok((stream, peer)), Ok(place)) => {
                    if let Some(one) = door.crowd.enter(peer.ip(), door.limits.connections_each) {
                        connections.spawn(attend(stream, Arc::clone(&door), (place, one)));
                    }
                }
                (Err(error), _) => {
                    tracing::warn!(%error, "no connection can be accepted");
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
                // Nobody closes it.
                (_, Err(_)) => break,
            },
        }
    }
    drop(listener);
    let answered = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(door.limits.end_within, answered).await;
    // Dropped, the others are cut.
}

/// Returns when the process ends.
async fn ended(ending: &mut watch::Receiver<bool>) {
    let _ = ending.wait_for(|ending| *ending).await;
}

async fn attend(stream: TcpStream, door: Arc<Door>, place: Place) {
    let _ = stream.set_nodelay(true);
    let Some(tls) = &door.tls else { return serve(stream, &door, place).await };
    let acceptor = TlsAcceptor::from(tls.config(Instant::now()));
    match tokio::time::timeout(door.limits.handshake_within, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => serve(stream, &door, place).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

async fn serve<S>(stream: S, door: &Door, _place: Place)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Door { router, limits, .. } = door;
    let service = service_fn(|request: Request<Incoming>| {
        let router = router.clone();
        async move { Ok::<_, Infallible>(pass_on(router, request.map(Body::new)).await) }
    });
    let stream = TokioIo::new(Patient::new(stream, limits.stalled_for));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_within)
        .max_buf_size(limits.head_bytes.max(8 << 10))
        .serve_connection(stream, service);
    let mut connection = std::pin::pin!(connection);
    let mut ending = door.ending.clone();
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = ended(&mut ending) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended");
    }
}

async fn pass_on(mut router: Router, request: Request) -> axum::response::Response {
    use tower::Service as _;
    match router.call(request).await {
        Ok(answer) => answer,
        Err(never) => match never {},
    }
}
