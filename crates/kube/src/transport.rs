//! The connection: one per cluster, HTTP/2 where the server speaks it, with credentials that can be renewed.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::{Request, Response};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt as _};
use kube::{Client, Config};
use tokio::time::Instant;
use tower::{BoxError, ServiceBuilder};

use crate::connect::{ConnectError, ConnectOptions, find, reasons};

/// How long a TCP connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// An idle connection is asked this often whether it still lives; otherwise a watch on a dead one would hang.
const PING_EVERY: Duration = Duration::from_secs(20);
/// And it is given up when it does not answer for this long.
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// What the server may send on one stream before we have read it.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// The same for all streams together. Far more than the watches of a cluster can fill, so that watches which nobody
/// reads for a while cannot stop the answers to calls.
const CONNECTION_WINDOW_BYTES: u32 = 256 << 20;
/// Credentials are not asked for again sooner than this.
const RENEW_EVERY: Duration = Duration::from_secs(5);

/// Sends requests.
pub(crate) struct Transport {
    /// Where credentials come from; `None` when they cannot change.
    source: Option<ConnectOptions>,
    url: String,
    link: RwLock<Arc<Link>>,
    renewed: tokio::sync::Mutex<Option<Instant>>,
}

/// A connection with the credentials of one time.
pub(crate) struct Link {
    client: Client,
    generation: u64,
}

impl Link {
    pub(crate) async fn send(&self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        self.client.send(request).await
    }
}

impl Transport {
    pub(crate) async fn connect(options: ConnectOptions, config: Config) -> Result<Self, ConnectError> {
        let url = config.cluster_url.to_string();
        let client = client(config).await?;
        Ok(Self { source: Some(options), ..Self::of(client, url) })
    }

    /// A connection made by somebody else.
    pub(crate) fn of(client: Client, url: String) -> Self {
        let link = Arc::new(Link { client, generation: 0 });
        let url = url.trim_end_matches('/').to_owned();
        Self { source: None, url, link: RwLock::new(link), renewed: tokio::sync::Mutex::new(None) }
    }

    /// Where the API server is.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn link(&self) -> Arc<Link> {
        Arc::clone(&self.link.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the credentials again after the server refused those of `refused`. Says whether there are other ones to
    /// try.
    pub(crate) async fn renew(&self, refused: &Link) -> bool {
        let Some(options) = &self.source else { return false };
        let mut renewed = self.renewed.lock().await;
        let generation = self.link().generation;
        if generation != refused.generation {
            return true;
        }
        if renewed.is_some_and(|at| at.elapsed() < RENEW_EVERY) {
            return false;
        }
        *renewed = Some(Instant::now());
        let again = async { client(find(options).await?.config).await };
        match again.await {
            Ok(client) => {
                let link = Arc::new(Link { client, generation: generation.wrapping_add(1) });
                *self.link.write().unwrap_or_else(PoisonError::into_inner) = link;
                true
            }
            Err(error) => {
                tracing::warn!(server = self.url, %error, "could not renew the credentials");
                false
            }
        }
    }
}

/// Our own stack rather than the one the kube crate would make: that one speaks HTTP/1 only.
async fn client(config: Config) -> Result<Client, ConnectError> {
    let server = config.cluster_url.to_string();
    // Asking a credential program blocks, and files are read.
    let made = tokio::task::spawn_blocking(move || build(&config)).await;
    let reason = match made {
        Ok(Ok(client)) => return Ok(client),
        Ok(Err(error)) => reasons(&error),
        Err(error) => reasons(&error),
    };
    Err(ConnectError::Credentials { server, reason })
}

fn build(config: &Config) -> Result<Client, kube::Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let mut tls =
        HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = hyper_rustls::FixedServerNameResolver::new(
            name.clone().try_into().map_err(|error| kube::Error::Service(Box::new(error)))?,
        );
        tls = tls.with_server_name_resolver(name);
    }
    let connector = tls.enable_all_versions().wrap_connector(tcp);
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keep_alive_interval(PING_EVERY)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service, config.default_namespace.as_str()))
}
