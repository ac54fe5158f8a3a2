//! Connections: one for all calls, using HTTP/2 if the server supports it, with renewable credentials.

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

use crate::cluster_connection::{self, ClusterConnection, ResolvedConfig};
use crate::connect_options::{ConnectError, ConnectOptions, load_config};
use crate::error_message::format_error_chain;
use crate::exec_plugin::ProgramCredentials;
use crate::identity_gate::{ExpectedCluster, GatedConnector, IdentityGate};
use crate::proxy;

/// Timeout for opening a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between pings on an idle connection. Without pings, a watch on a dead connection would hang.
const PING_INTERVAL: Duration = Duration::from_secs(20);
/// Time to wait for the response to a ping before closing the connection.
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of unread bytes that the server may send per stream.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// Maximum number of unread bytes that the server may send per connection. More than its streams can use, so
/// a stream without a reader can't block the others.
const CONNECTION_WINDOW_BYTES: u32 = 256 << 20;
/// Maximum number of watches on one connection before opening another. Most servers allow 250 streams, but
/// some allow only 100.
const WATCHES_PER_CONNECTION: usize = 90;
/// Maximum number of connections for watches. If all are full, additional watches use the connection with the
/// fewest watches.
const WATCH_CONNECTIONS_MAX: usize = 8;
/// Minimum interval between renewals of credentials.
const RENEW_INTERVAL_MIN: Duration = Duration::from_secs(5);

/// Connections to a server, replaced when the credentials change.
pub(crate) struct Transport {
    source: RwLock<CredentialSource>,
    /// Reason why the last renewal did not provide different credentials.
    renewal_error: RwLock<Option<String>>,
    url: String,
    expected_cluster: Arc<ExpectedCluster>,
    connections: RwLock<Arc<Connections>>,
    last_renewal: tokio::sync::Mutex<Option<Instant>>,
}

/// Source of the credentials.
#[derive(Clone)]
enum CredentialSource {
    /// Fixed credentials.
    #[cfg(test)]
    Fixed,
    Options(Box<ConnectOptions>),
    Connection(Box<ClusterConnection>),
}

/// Connections with the same credentials: one for calls, others for watches. Servers limit the streams per
/// connection, so long-lived watches must not use up those that calls need.
pub(crate) struct Connections {
    calls: GatedClient,
    watches: Vec<WatchConnection>,
    generation: u64,
    /// True if the credentials impersonate another user.
    is_impersonated: bool,
    /// Credentials, if they come from a program.
    credentials: Option<Arc<ProgramCredentials>>,
}

/// Client and its identity gate.
pub(crate) struct GatedClient {
    pub(crate) client: Client,
    pub(crate) gate: Arc<IdentityGate>,
}

/// Connection for watches.
struct WatchConnection {
    client: GatedClient,
    open_watches: Arc<AtomicUsize>,
}

/// Open watch, counted until dropped.
pub(crate) struct WatchPermit(Arc<AtomicUsize>);

impl Drop for WatchPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connections {
    fn new(calls: GatedClient, watches: Vec<GatedClient>, generation: u64, is_impersonated: bool) -> Self {
        let connection = |client| WatchConnection { client, open_watches: Arc::default() };
        let watches = watches.into_iter().map(connection).collect();
        Self { calls, watches, generation, is_impersonated, credentials: None }
    }

    /// Returns true if the credentials impersonate another user.
    pub(crate) fn is_impersonated(&self) -> bool {
        self.is_impersonated
    }

    /// Returns the client for calls.
    pub(crate) fn call_client(&self) -> &GatedClient {
        &self.calls
    }

    /// Returns a client for a watch. Keep the permit while the watch is open.
    pub(crate) fn acquire_watch_client(&self) -> (&GatedClient, Option<WatchPermit>) {
        let open = |connection: &&WatchConnection| connection.open_watches.load(Ordering::Relaxed);
        let connection = self.watches.iter().find(|connection| open(connection) < WATCHES_PER_CONNECTION);
        let Some(connection) = connection.or_else(|| self.watches.iter().min_by_key(open)) else {
            return (&self.calls, None);
        };
        connection.open_watches.fetch_add(1, Ordering::Relaxed);
        (&connection.client, Some(WatchPermit(Arc::clone(&connection.open_watches))))
    }
}

impl Transport {
    pub(crate) async fn connect(options: ConnectOptions, config: Config) -> Result<Self, ConnectError> {
        let (url, expected) = (config.cluster_url.to_string(), Arc::default());
        let link = open_connections(ResolvedConfig { config, credentials: None }, 0, &expected).await?;
        Ok(Self::from_connections(link, url, expected, CredentialSource::Options(Box::new(options))))
    }

    /// Creates a transport. Its credentials change only on request, or when a program provides different
    /// ones.
    pub(crate) async fn with_connection(
        declared: ClusterConnection,
        ready: ResolvedConfig,
    ) -> Result<Self, ConnectError> {
        let (url, expected) = (ready.config.cluster_url.to_string(), Arc::default());
        let link = open_connections(ready, 0, &expected).await?;
        Ok(Self::from_connections(link, url, expected, CredentialSource::Connection(Box::new(declared))))
    }

    /// Changes the credentials.
    pub(crate) async fn change_credentials(
        &self,
        declared: ClusterConnection,
        ready: ResolvedConfig,
    ) -> Result<(), ConnectError> {
        // Take the lock, so that changes and renewals run one at a time.
        let _changing = self.last_renewal.lock().await;
        let link =
            open_connections(ready, self.connections().generation.wrapping_add(1), &self.expected_cluster)
                .await?;
        write_lock(&self.source, CredentialSource::Connection(Box::new(declared)));
        write_lock(&self.renewal_error, None);
        write_lock(&self.connections, link);
        Ok(())
    }

    /// Creates a transport that uses an existing client.
    #[cfg(test)]
    pub(crate) fn from_client(client: Client, url: String) -> Self {
        let expected = Arc::<ExpectedCluster>::default();
        let new_client =
            || GatedClient { client: client.clone(), gate: IdentityGate::new(Arc::clone(&expected)) };
        let link = Arc::new(Connections::new(new_client(), vec![new_client()], 0, false));
        Self::from_connections(link, url, Arc::clone(&expected), CredentialSource::Fixed)
    }

    fn from_connections(
        link: Arc<Connections>,
        url: String,
        expected_cluster: Arc<ExpectedCluster>,
        source: CredentialSource,
    ) -> Self {
        let (url, last_renewal) = (url.trim_end_matches('/').to_owned(), tokio::sync::Mutex::new(None));
        let (source, renewal_error, connections) =
            (RwLock::new(source), RwLock::default(), RwLock::new(link));
        Self { source, renewal_error, url, expected_cluster, connections, last_renewal }
    }

    /// Returns the URL of the API server.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the expected cluster.
    pub(crate) fn expected_cluster(&self) -> &ExpectedCluster {
        &self.expected_cluster
    }

    pub(crate) fn connections(&self) -> Arc<Connections> {
        Arc::clone(&self.connections.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the current connections, after renewing expired credentials from a program.
    pub(crate) async fn current_connections(&self) -> Arc<Connections> {
        let link = self.connections();
        if link.credentials.as_ref().is_some_and(|given| given.is_expired()) {
            self.renew(&link).await;
        }
        self.connections()
    }

    /// Returns the reason why the last renewal did not provide different credentials.
    pub(crate) fn renewal_error(&self) -> Option<String> {
        self.renewal_error.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the credentials again after the server refused those of `refused`. Returns true if there are new
    /// ones to try.
    pub(crate) async fn renew(&self, refused: &Connections) -> bool {
        let source = self.source.read().unwrap_or_else(PoisonError::into_inner).clone();
        match &source {
            #[cfg(test)]
            CredentialSource::Fixed => return false,
            CredentialSource::Connection(declared) if declared.exec.is_none() => return false,
            CredentialSource::Options(_) | CredentialSource::Connection(_) => {}
        }
        let mut renewed = self.last_renewal.lock().await;
        let generation = self.connections().generation;
        if generation != refused.generation {
            return true;
        }
        if renewed.is_some_and(|at| at.elapsed() < RENEW_INTERVAL_MIN) {
            return false;
        }
        *renewed = Some(Instant::now());
        let again = async {
            let ready = match &source {
                #[cfg(test)]
                CredentialSource::Fixed => return Ok(Arc::clone(&self.connections())),
                CredentialSource::Options(options) => {
                    ResolvedConfig { config: load_config(options).await?.config, credentials: None }
                }
                CredentialSource::Connection(declared) => {
                    cluster_connection::resolve_config(declared, refused.credentials.as_ref()).await?
                }
            };
            open_connections(ready, generation.wrapping_add(1), &self.expected_cluster).await
        };
        let result: Result<Arc<Connections>, ConnectError> = again.await;
        // The renewal may have been slow, so measure from its end. Callers that waited for it don't start
        // another.
        *renewed = Some(Instant::now());
        match result {
            Ok(link) => {
                write_lock(&self.renewal_error, None);
                write_lock(&self.connections, link);
                true
            }
            Err(error) => {
                tracing::warn!(server = self.url, %error, "failed to renew the credentials");
                write_lock(&self.renewal_error, Some(error.to_string()));
                false
            }
        }
    }
}

fn write_lock<T>(place: &RwLock<T>, value: T) {
    *place.write().unwrap_or_else(PoisonError::into_inner) = value;
}

/// Opens connections. Builds its own HTTP stack, because the kube crate's stack supports only HTTP/1.
async fn open_connections(
    ready: ResolvedConfig,
    generation: u64,
    expected: &Arc<ExpectedCluster>,
) -> Result<Arc<Connections>, ConnectError> {
    let ResolvedConfig { config, credentials } = ready;
    let (server, expected) = (config.cluster_url.to_string(), Arc::clone(expected));
    // Use a blocking thread, because credential programs and file reads block.
    let result = tokio::task::spawn_blocking(move || build_connections(&config, generation, &expected)).await;
    let reason = match result {
        Ok(Ok(link)) => return Ok(Arc::new(Connections { credentials, ..link })),
        Ok(Err(error)) => format_error_chain(&error),
        Err(error) => format_error_chain(&error),
    };
    Err(ConnectError::Credentials { server, reason })
}

fn build_connections(
    config: &Config,
    generation: u64,
    expected: &Arc<ExpectedCluster>,
) -> Result<Connections, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    match &config.proxy_url {
        Some(url) if proxy::is_socks(url) => {
            build_with_connector(config, proxy::build_socks(url, tcp), generation, expected)
        }
        Some(url) => build_with_connector(config, proxy::build_tunnel(url, tcp), generation, expected),
        None => build_with_connector(config, tcp, generation, expected),
    }
}

/// Builds a client. Connections open on first use.
fn build_with_connector<C>(
    config: &Config,
    tcp: C,
    generation: u64,
    expected: &Arc<ExpectedCluster>,
) -> Result<Connections, kube::Error>
where
    C: Clone,
    HttpsConnector<GatedConnector<C>>: Connect + Clone + Send + Sync + 'static,
{
    // Each of these calls may run a credential program, so make them only once for all clients.
    let (tls, auth) = (config.rustls_client_config()?, config.auth_layer()?);
    let (base, headers) = (config.base_uri_layer(), config.extra_headers_layer()?);
    let build_client = || -> Result<GatedClient, kube::Error> {
        let gate = IdentityGate::new(Arc::clone(expected));
        let gated = GatedConnector { inner: tcp.clone(), gate: Arc::clone(&gate) };
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
            .http2_keep_alive_interval(PING_INTERVAL)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            .http2_keep_alive_while_idle(true)
            .build(tls.enable_all_versions().wrap_connector(gated));
        let http = headers.layer(MapErrLayer::new(BoxError::from).layer(http));
        let client = match &auth {
            Some(auth) => Client::new(base.layer(auth.layer(http)), config.default_namespace.as_str()),
            None => Client::new(base.layer(http), config.default_namespace.as_str()),
        };
        Ok(GatedClient { client, gate })
    };
    let watches = (0..WATCH_CONNECTIONS_MAX).map(|_| build_client()).collect::<Result<_, _>>()?;
    let is_impersonated = config.auth_info.impersonate.is_some();
    Ok(Connections::new(build_client()?, watches, generation, is_impersonated))
}
