//! Outgoing HTTP requests. Each is sent once and has a timeout.

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

/// Time limit of one attempt.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

type HttpsClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// HTTP client, created on first use because that loads the system's trusted certificates.
#[derive(Default)]
pub(crate) struct HttpClient(OnceLock<Result<HttpsClient, String>>);

impl HttpClient {
    /// Sends a request once, without following redirects. Errors don't include the URL.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, String> {
        let client = self.0.get_or_init(build_client).as_ref().map_err(String::clone)?;
        match tokio::time::timeout(REQUEST_TIMEOUT, client.request(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            // The client's message may include the host.
            Ok(Err(error)) if error.is_connect() => Err("cannot connect".to_owned()),
            Ok(Err(_)) => Err("connection lost".to_owned()),
            Err(_) => Err(format!("no response within {} s", REQUEST_TIMEOUT.as_secs())),
        }
    }
}

fn build_client() -> Result<HttpsClient, String> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    let tls = HttpsConnectorBuilder::new()
        .with_native_roots()
        .map_err(|error| format!("cannot read the system's trusted certificates: {error}"))?;
    let connector = tls.https_or_http().enable_http1().wrap_connector(tcp);
    let mut builder = Client::builder(TokioExecutor::new());
    Ok(builder.pool_max_idle_per_host(0).retry_canceled_requests(false).build(connector))
}

/// Returns a POST request with a JSON body.
pub(crate) fn json_request(to: &Uri, body: Bytes) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = to.clone();
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("tidegate/", env!("CARGO_PKG_VERSION"))));
    request
}
