//! What is posted to servers of others: one request at a time, each within a time.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// How long one attempt may take.
const WITHIN: Duration = Duration::from_secs(15);
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

type Https = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The way to them all. It is made when it is needed: it reads which certificates this system trusts.
#[derive(Default)]
pub(crate) struct Web(OnceLock<Result<Https, String>>);

impl Web {
    /// Sends a request, once; redirects are not followed. What went wrong is told without the address.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String> {
        let client = self.0.get_or_init(client).as_ref().map_err(String::clone)?;
        match tokio::time::timeout(WITHIN, client.request(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            // What a client says of an error may name the host.
            Ok(Err(error)) if error.is_connect() => Err("there is no connection".to_owned()),
            Ok(Err(_)) => Err("the connection broke".to_owned()),
            Err(_) => Err(format!("there was no answer within {} s", WITHIN.as_secs())),
        }
    }
}

fn client() -> Result<Https, String> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT_WITHIN));
    let tls = HttpsConnectorBuilder::new()
        .with_native_roots()
        .map_err(|error| format!("the certificates that this system trusts cannot be read: {error}"))?;
    let connector = tls.https_or_http().enable_http1().wrap_connector(tcp);
    let mut builder = Client::builder(TokioExecutor::new());
    Ok(builder.pool_max_idle_per_host(0).retry_canceled_requests(false).build(connector))
}

/// A request that posts JSON.
pub(crate) fn json(to: &Uri, body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = to.clone();
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("tidegate/", env!("CARGO_PKG_VERSION"))));
    request
}
