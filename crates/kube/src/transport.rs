//! The connections: one for all calls, HTTP/2 where the server speaks it, with credentials that can be renewed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use tokio::time::Instant;
use tower::util::MapErrLayer;
use tower::{BoxError, Layer as _};

use crate::declared::{self, Declared, Ready};
use crate::gate::{Gate, Gated, Meant};
use crate::place::{ConnectError, ConnectOptions, find};
use crate::plugin::Given;
use crate::proxy;
use crate::reasons::reasons;

/// How long a TCP connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// An idle connection is asked this often whether it still lives; otherwise a watch on a dead one would hang.
const PING_EVERY: Duration = Duration::from_secs(20);
/// And it is given up when it does not answer for this long.
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// What the server may send on one stream before we have read it.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// The same for all streams together: more than the streams can fill, so that one which nobody reads for a while
/// cannot stop the others.
const CONNECTION_WINDOW_BYTES: u32 = 256 << 20;
/// Watches on one connection, before the next one is used. Servers allow 250 streams, some only 100.
const WATCHES_ON_ONE: usize = 90;
/// Connections for watches. When all have so many, further ones go to the emptiest.
const WATCH_CONNECTIONS_MAX: usize = 8;
/// Credentials are not asked for again sooner than this.
const RENEW_EVERY: Duration = Duration::from_secs(5);

/// The connections to a server, made anew when its credentials change.
pub(crate) struct Transport {
    source: RwLock<Source>,
    /// Why there were no other credentials when they were wanted last.
    trouble: RwLock<Option<String>>,
    url: String,
    meant: Arc<Meant>,
    link: RwLock<Arc<Link>>,
    renewed: tokio::sync::Mutex<Option<Instant>>,
}

/// Where credentials come from.
#[derive(Clone)]
enum Source {
    /// They cannot change.
    #[cfg(test)]
    Nobody,
    Options(Box<ConnectOptions>),
    Declared(Box<Declared>),
}

/// Connections with the credentials of one time: one for calls, and others for watches. Servers allow only so many
/// streams on a connection, and watches, which never end, must not use up those of the calls.
pub(crate) struct Link {
    calls: Way,
    watches: Vec<Lane>,
    generation: u64,
    /// These credentials act as another user.
    is_somebody_else: bool,
    /// What a program has given, if they are from one.
    given: Option<Arc<Given>>,
}

/// What sends requests over a connection, and what stands before it.
pub(crate) struct Way {
    pub(crate) client: Client,
    pub(crate) gate: Arc<Gate>,
}

/// A connection for watches.
struct Lane {
    way: Way,
    open: Arc<AtomicUsize>,
}

/// Counts one open watch, until it is dropped.
pub(crate) struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Link {
    fn new(calls: Way, watches: Vec<Way>, (generation, is_somebody_else): (u64, bool)) -> Self {
        let lane = |way| Lane { way, open: Arc::default() };
        let watches = watches.into_iter().map(lane).collect();
        Self { calls, watches, generation, is_somebody_else, given: None }
    }

    /// Whether its credentials act as another user.
    pub(crate) fn is_somebody_else(&self) -> bool {
        self.is_somebody_else
    }

    /// What sends calls.
    pub(crate) fn calls(&self) -> &Way {
        &self.calls
    }

    /// What opens a watch; the seat is to be kept for as long as it is open.
    pub(crate) fn watches(&self) -> (&Way, Option<Seat>) {
        let open = |lane: &&Lane| lane.open.load(Ordering::Relaxed);
        let lane = self.watches.iter().find(|lane| open(lane) < WATCHES_ON_ONE);
        let Some(lane) = lane.or_else(|| self.watches.iter().min_by_key(open)) else {
            return (&self.calls, None);
        };
        lane.open.fetch_add(1, Ordering::Relaxed);
        (&lane.way, Some(Seat(Arc::clone(&lane.open))))
    }
}

impl Transport {
    pub(crate) async fn connect(options: ConnectOptions, config: Config) -> Result<Self, ConnectError> {
        let (url, meant) = (config.cluster_url.to_string(), Arc::default());
        let link = link(Ready { config, given: None }, 0, &meant).await?;
        Ok(Self::over(link, url, meant, Source::Options(Box::new(options))))
    }

    /// With credentials that change only when somebody says so, or when a program gives others.
    pub(crate) async fn declared(declared: Declared, ready: Ready) -> Result<Self, ConnectError> {
        let (url, meant) = (ready.config.cluster_url.to_string(), Arc::default());
        let link = link(ready, 0, &meant).await?;
        Ok(Self::over(link, url, meant, Source::Declared(Box::new(declared))))
    }

    /// From now on with other credentials.
    pub(crate) async fn change(&self, declared: Declared, ready: Ready) -> Result<(), ConnectError> {
        // One change after the other, and after a renewal that is under way.
        let _changing = self.renewed.lock().await;
        let link = link(ready, self.link().generation.wrapping_add(1), &self.meant).await?;
        write(&self.source, Source::Declared(Box::new(declared)));
        write(&self.trouble, None);
        write(&self.link, link);
        Ok(())
    }

    /// A connection made by somebody else.
    #[cfg(test)]
    pub(crate) fn of(client: Client, url: String) -> Self {
        let meant = Arc::<Meant>::default();
        let way = || Way { client: client.clone(), gate: Gate::new(Arc::clone(&meant)) };
        let link = Arc::new(Link::new(way(), vec![way()], (0, false)));
        Self::over(link, url, Arc::clone(&meant), Source::Nobody)
    }

    fn over(link: Arc<Link>, url: String, meant: Arc<Meant>, source: Source) -> Self {
        let (url, renewed) = (url.trim_end_matches('/').to_owned(), tokio::sync::Mutex::new(None));
        let (source, trouble, link) = (RwLock::new(source), RwLock::default(), RwLock::new(link));
        Self { source, trouble, url, meant, link, renewed }
    }

    /// Where the API server is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Which cluster is meant.
    pub(crate) fn meant(&self) -> &Meant {
        &self.meant
    }

    pub(crate) fn link(&self) -> Arc<Link> {
        Arc::clone(&self.link.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same, with other credentials where those that a program has given have ended.
    pub(crate) async fn link_of_now(&self) -> Arc<Link> {
        let link = self.link();
        if link.given.as_ref().is_some_and(|given| given.is_over()) {
            self.renew(&link).await;
        }
        self.link()
    }

    /// Why there are no other credentials than those that were refused.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the credentials again after the server refused those of `refused`. Says whether there are other ones to
    /// try.
    pub(crate) async fn renew(&self, refused: &Link) -> bool {
        let source = self.source.read().unwrap_or_else(PoisonError::into_inner).clone();
        match &source {
            #[cfg(test)]
            Source::Nobody => return false,
            Source::Declared(declared) if declared.exec.is_none() => return false,
            Source::Options(_) | Source::Declared(_) => {}
        }
        let mut renewed = self.renewed.lock().await;
        let generation = self.link().generation;
        if generation != refused.generation {
            return true;
        }
        if renewed.is_some_and(|at| at.elapsed() < RENEW_EVERY) {
            return false;
        }
        *renewed = Some(Instant::now());
        let again = async {
            let ready = match &source {
                #[cfg(test)]
                Source::Nobody => return Ok(Arc::clone(&self.link())),
                Source::Options(options) => Ready { config: find(options).await?.config, given: None },
                Source::Declared(declared) => declared::ready(declared, refused.given.as_ref()).await?,
            };
            link(ready, generation.wrapping_add(1), &self.meant).await
        };
        let made: Result<Arc<Link>, ConnectError> = again.await;
        // It may have taken long, and others wait for it: they are told the same.
        *renewed = Some(Instant::now());
        match made {
            Ok(link) => {
                write(&self.trouble, None);
                write(&self.link, link);
                true
            }
            Err(error) => {
                tracing::warn!(server = self.url, %error, "could not renew the credentials");
                write(&self.trouble, Some(error.to_string()));
                false
            }
        }
    }
}

fn write<T>(place: &RwLock<T>, value: T) {
    *place.write().unwrap_or_else(PoisonError::into_inner) = value;
}

/// Our own stack rather than the one the kube crate would make: that one speaks HTTP/1 only.
async fn link(ready: Ready, generation: u64, meant: &Arc<Meant>) -> Result<Arc<Link>, ConnectError> {
    let Ready { config, given } = ready;
    let (server, meant) = (config.cluster_url.to_string(), Arc::clone(meant));
    // Asking a credential program blocks, and files are read.
    let made = tokio::task::spawn_blocking(move || build(&config, generation, &meant)).await;
    let reason = match made {
        Ok(Ok(link)) => return Ok(Arc::new(Link { given, ..link })),
        Ok(Err(error)) => reasons(&error),
        Err(error) => reasons(&error),
    };
    Err(ConnectError::Credentials { server, reason })
}

fn build(config: &Config, generation: u64, meant: &Arc<Meant>) -> Result<Link, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    match &config.proxy_url {
        Some(url) if proxy::is_socks(url) => stack(config, proxy::socks(url, tcp), (generation, meant)),
        Some(url) => stack(config, proxy::tunnel(url, tcp), (generation, meant)),
        None => stack(config, tcp, (generation, meant)),
    }
}

/// Connections come about when they are used.
fn stack<C>(config: &Config, tcp: C, (generation, meant): (u64, &Arc<Meant>)) -> Result<Link, kube::Error>
where
    C: Clone,
    HttpsConnector<Gated<C>>: Connect + Clone + Send + Sync + 'static,
{
    // Each of these two may ask a credential program: once is enough.
    let (tls, auth) = (config.rustls_client_config()?, config.auth_layer()?);
    let (base, headers) = (config.base_uri_layer(), config.extra_headers_layer()?);
    let way = || -> Result<Way, kube::Error> {
        let gate = Gate::new(Arc::clone(meant));
        let gated = Gated { inner: tcp.clone(), gate: Arc::clone(&gate) };
        let mut tls = HttpsConnectorBuilder::new().with_tls_config(tls.clone()).https_or_http();
        if let Some(name) = &config.tls_server_name {
            let name = name.clone().try_into().map_err(|error| kube::Error::Service(Box::new(error)))?;
            tls = tls.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
            .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .http2_keep_alive_interval(PING_EVERY)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            .http2_keep_alive_while_idle(true)
            .build(tls.enable_all_versions().wrap_connector(gated));
        let http = headers.layer(MapErrLayer::new(BoxError::from).layer(http));
        let client = match &auth {
            Some(auth) => Client::new(base.layer(auth.layer(http)), config.default_namespace.as_str()),
            None => Client::new(base.layer(http), config.default_namespace.as_str()),
        };
        Ok(Way { client, gate })
    };
    let watches = (0..WATCH_CONNECTIONS_MAX).map(|_| way()).collect::<Result<_, _>>()?;
    let is_somebody_else = config.auth_info.impersonate.is_some();
    Ok(Link::new(way()?, watches, (generation, is_somebody_else)))
}
