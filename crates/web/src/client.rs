//! Connections to servers.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http_body_util::Full;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tower::ServiceExt as _;
use tower::util::BoxCloneSyncService;

use crate::blocked_addresses::{BlockedAddresses, Resolver, blocking_resolver};
use crate::trust::Tls;

/// Error that a connection returns.
pub type ConnectionError = Box<dyn Error + Send + Sync>;
/// Service that connects to a server, directly or through a proxy.
pub type Transport = BoxCloneSyncService<Uri, TokioIo<TcpStream>, ConnectionError>;
/// HTTP client for `https` and `http`.
pub type Client = legacy::Client<HttpsConnector<Transport>, Full<Bytes>>;

/// Creates a connector with a time limit. Names that resolve to a blocked address are rejected with a reason
/// such as [`crate::LINK_LOCAL_REASON`].
pub fn create_connector(within: Duration, barred: BlockedAddresses) -> HttpConnector<Resolver> {
    let mut tcp = HttpConnector::new_with_resolver(blocking_resolver(barred));
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(within));
    tcp
}

/// Returns the transport for connections without a proxy.
pub fn direct_transport(tcp: HttpConnector<Resolver>) -> Transport {
    Transport::new(tcp.map_err(ConnectionError::from))
}

/// Creates a client that doesn't retry requests.
pub fn create_client(tls: &Tls, way: Transport) -> Client {
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls.as_ref().clone());
    let connector = connector.https_or_http().enable_http1().wrap_connector(way);
    legacy::Client::builder(TokioExecutor::new()).retry_canceled_requests(false).build(connector)
}

/// Returns the root cause of an error. The outer layers say only that something failed.
pub fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
