//! Connections.

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

use crate::barred::{Barred, Resolver, resolver};
use crate::trust::Tls;

/// Whatever a connection fails with.
pub type Fault = Box<dyn Error + Send + Sync>;
/// Connects to the server of an address, itself or through a proxy.
pub type Way = BoxCloneSyncService<Uri, TokioIo<TcpStream>, Fault>;
/// Asks servers over `https` and `http`.
pub type Client = legacy::Client<HttpsConnector<Way>, Full<Bytes>>;

/// Connects to servers within a time. A name that leads to a barred address is refused with the reason, such as
/// [`crate::LINK_LOCAL`].
pub fn connector(within: Duration, barred: Barred) -> HttpConnector<Resolver> {
    let mut tcp = HttpConnector::new_with_resolver(resolver(barred));
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(within));
    tcp
}

/// The way to servers without a proxy.
pub fn direct(tcp: HttpConnector<Resolver>) -> Way {
    Way::new(tcp.map_err(Fault::from))
}

/// A client over such connections. It makes no request twice.
pub fn client(tls: &Tls, way: Way) -> Client {
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls.as_ref().clone());
    let connector = connector.https_or_http().enable_http1().wrap_connector(way);
    legacy::Client::builder(TokioExecutor::new()).retry_canceled_requests(false).build(connector)
}

/// What an error came from in the end; the layers above say only that there was one.
pub fn cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
