//! Connection to the API: URL, trusted certificates and token.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tidegate_model::argo::adopt_control_namespace;
use tidegate_state::error::ServiceError;

use super::api_request::ApiRequest;
use crate::headers::CONTROL_NAMESPACE;
use crate::loopback::is_loopback_host;

/// Timeout for a response, slightly longer than the server's own.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(75);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a response in bytes. A page of applications with their resources takes a few MiB.
const RESPONSE_BYTES_MAX: usize = 256 << 20;
/// Maximum length of a token in bytes.
const TOKEN_MAX: usize = 1024;

type HttpsClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Connection to the API.
pub(super) struct Connection {
    client: HttpsClient,
    /// URL without a trailing slash.
    url: String,
    token: Option<HeaderValue>,
}

/// Error response from the server.
#[derive(Deserialize)]
struct ErrorBody {
    message: String,
    #[serde(rename = "hint")]
    next: String,
}

impl Connection {
    pub fn new(url: &str, token: Option<&Path>, authorities: Option<&Path>) -> Result<Self, ServiceError> {
        let url = url.trim_end_matches('/');
        let wrong = |reason: &str| ServiceError::InvalidUrl { url: url.to_owned(), why: reason.to_owned() };
        let uri: Uri = url.parse().map_err(|_| wrong("invalid URL"))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("the URL must start with https:// or http://")),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("the URL has no host"))?;
        if uri.query().is_some() || uri.authority().is_some_and(|authority| authority.as_str().contains('@'))
        {
            return Err(wrong("only a host, a port and a path are allowed"));
        }
        let token = token.map(read_token).transpose()?;
        if token.is_some() && !is_tls && !is_loopback_host(host.trim_matches(['[', ']'])) {
            return Err(wrong("the token would be sent unencrypted; use https://"));
        }
        let roots = authorities.map(read_authorities).transpose()?;
        Ok(Self { client: build_client(roots)?, url: url.to_owned(), token })
    }

    /// Sends a request and returns the response.
    pub async fn send<A: DeserializeOwned>(&self, request: ApiRequest) -> Result<A, ServiceError> {
        let (status, body) = self.exchange(request).await?;
        self.parse_response(status, &body)
    }

    /// Sends a request. Returns `None` if the resource doesn't exist.
    pub async fn find<A: DeserializeOwned>(&self, request: ApiRequest) -> Result<Option<A>, ServiceError> {
        let (status, body) = self.exchange(request).await?;
        if status == StatusCode::NOT_FOUND && serde_json::from_slice::<ErrorBody>(&body).is_ok() {
            return Ok(None);
        }
        self.parse_response(status, &body).map(Some)
    }

    /// Returns the URL of the service.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Opens a response stream. The timeout only applies until the stream has started.
    pub async fn open_stream(&self, api_request: ApiRequest) -> Result<Incoming, ServiceError> {
        let request = self.build_request(api_request)?;
        let opening = async {
            let answer = self.client.request(request).await.map_err(|error| describe_causes(&error))?;
            let status = answer.status();
            if status.is_success() {
                return Ok(Ok(answer.into_body()));
            }
            let body = Limited::new(answer.into_body(), RESPONSE_BYTES_MAX).collect().await;
            Ok::<_, String>(Err((status, body.map_err(|error| error.to_string())?.to_bytes())))
        };
        match tokio::time::timeout(RESPONSE_TIMEOUT, opening).await {
            Ok(Ok(Ok(body))) => Ok(body),
            Ok(Ok(Err((status, refusal)))) => {
                let refused = self.parse_response::<serde_json::Value>(status, &refusal).err();
                Err(refused.unwrap_or_else(|| self.connection_error(format!("returned status {status}"))))
            }
            Ok(Err(reason)) => Err(self.connection_error(format!("is unreachable: {reason}"))),
            Err(_) => {
                Err(self.connection_error(format!("did not respond within {} s", RESPONSE_TIMEOUT.as_secs())))
            }
        }
    }

    fn connection_error(&self, problem: impl Into<String>) -> ServiceError {
        ServiceError::Remote { url: self.url.clone(), problem: problem.into() }
    }

    fn parse_response<A: DeserializeOwned>(
        &self,
        status: StatusCode,
        body: &[u8],
    ) -> Result<A, ServiceError> {
        if status.is_success() {
            let not_ours = |error| {
                self.connection_error(format!("returned an invalid response: {error}; check that client and server have the same version"))
            };
            return serde_json::from_slice(body).map_err(not_ours);
        }
        let Ok(ErrorBody { message, next }) = serde_json::from_slice(body) else {
            return Err(self.connection_error(format!(
                "returned status {status}; check that the URL points to `tidegate serve`"
            )));
        };
        Err(match status {
            // The message already includes the hint. The separate `hint` field is for other programs.
            StatusCode::CONFLICT | StatusCode::NOT_FOUND => ServiceError::refused(message),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                ServiceError::refused(format!("{} denied the request: {message}; {next}", self.url))
            }
            _ => self.connection_error(format!("returned an error: {message}; {next}")),
        })
    }

    async fn exchange(&self, api_request: ApiRequest) -> Result<(StatusCode, Bytes), ServiceError> {
        let is_question = api_request.is_idempotent();
        let request = self.build_request(api_request)?;
        let exchange = async {
            let answer = self.client.request(request).await.map_err(|error| describe_causes(&error))?;
            let status = answer.status();
            // Names in the response are relative to the control namespace.
            if let Some(Ok(namespace)) = answer.headers().get(CONTROL_NAMESPACE).map(HeaderValue::to_str) {
                adopt_control_namespace(namespace);
            }
            let body = Limited::new(answer.into_body(), RESPONSE_BYTES_MAX).collect().await;
            Ok::<_, String>((status, body.map_err(|error| error.to_string())?.to_bytes()))
        };
        match tokio::time::timeout(RESPONSE_TIMEOUT, exchange).await {
            Ok(Ok(answered)) => Ok(answered),
            Ok(Err(reason)) => Err(self.connection_error(format!("is unreachable: {reason}"))),
            Err(_) if is_question => {
                Err(self.connection_error(format!("did not respond within {} s", RESPONSE_TIMEOUT.as_secs())))
            }
            Err(_) => {
                let problem = format!(
                    "did not respond within {} s; the request may still be carried out",
                    RESPONSE_TIMEOUT.as_secs()
                );
                Err(self.connection_error(problem))
            }
        }
    }

    fn build_request(&self, api_request: ApiRequest) -> Result<Request<Full<Bytes>>, ServiceError> {
        let target = format!("{}{}", self.url, api_request.target());
        let body = api_request.body.as_ref().map(serde_json::to_vec).transpose();
        let body = body.map_err(|error| self.connection_error(error.to_string()))?;
        let mut request = Request::new(Full::new(Bytes::from(body.unwrap_or_default())));
        *request.method_mut() = api_request.method;
        *request.uri_mut() =
            target.parse().map_err(|_| self.connection_error("cannot be used: invalid path"))?;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("tidegate/", env!("CARGO_PKG_VERSION"))));
        headers.extend(self.token.clone().map(|token| (AUTHORIZATION, token)));
        Ok(request)
    }
}

/// Returns the messages of an error and all of its causes.
fn describe_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

fn read_file(path: &Path) -> Result<Vec<u8>, ServiceError> {
    let wrong = |source| ServiceError::Io { action: "read", path: path.to_owned(), source };
    fs::read(path).map_err(wrong)
}

fn read_token(path: &Path) -> Result<HeaderValue, ServiceError> {
    let content = read_file(path)?;
    let text = content.trim_ascii();
    let is_token = !text.is_empty() && text.len() <= TOKEN_MAX && text.iter().all(u8::is_ascii_graphic);
    let value = [b"Bearer ", text].concat();
    let mut value = HeaderValue::from_bytes(&value).ok().filter(|_| is_token).ok_or_else(|| {
        ServiceError::refused(format!("{} must contain exactly one token and nothing else", path.display()))
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn read_authorities(path: &Path) -> Result<RootCertStore, ServiceError> {
    let wrong = || ServiceError::refused(format!("{} contains no valid PEM certificates", path.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&read_file(path)?) {
        roots.add(certificate.map_err(|_| wrong())?).map_err(|_| wrong())?;
    }
    if roots.is_empty() { Err(wrong()) } else { Ok(roots) }
}

fn build_client(roots: Option<RootCertStore>) -> Result<HttpsClient, ServiceError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_nodelay(true);
    let builder = HttpsConnectorBuilder::new();
    let builder = match roots {
        Some(roots) => {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| ServiceError::refused(format!("cannot set up TLS: {error}")))?;
            builder.with_tls_config(config.with_root_certificates(roots).with_no_client_auth())
        }
        None => builder.with_native_roots().map_err(|error| {
            let reason = format!("cannot read the system's trusted certificates ({error}); use --ca FILE");
            ServiceError::refused(reason)
        })?,
    };
    let connector = builder.https_or_http().enable_http1().wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector))
}
