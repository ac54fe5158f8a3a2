//! The way to the API: its URL, what it is trusted by, and the token it is asked with.

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
use tidegate_service::error::ServiceError;

use super::ask::Asking;
use crate::front::is_here;

/// How long an answer may take: a little longer than the other side takes for it.
const WITHIN: Duration = Duration::from_secs(75);
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// The largest answer. The resources of a page of applications are a few MiB.
const ANSWER_MAX: usize = 256 << 20;
/// The longest token.
const TOKEN_MAX: usize = 1024;

type Https = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The way to the API.
pub(super) struct Connection {
    client: Https,
    /// Without a slash at its end.
    url: String,
    token: Option<HeaderValue>,
}

/// What is answered when something cannot be done.
#[derive(Deserialize)]
struct Said {
    message: String,
    next: String,
}

impl Connection {
    pub fn new(url: &str, token: Option<&Path>, authorities: Option<&Path>) -> Result<Self, ServiceError> {
        let url = url.trim_end_matches('/');
        let wrong = |why: &str| ServiceError::Address { url: url.to_owned(), why: why.to_owned() };
        let uri: Uri = url.parse().map_err(|_| wrong("it is no URL"))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(wrong("it begins neither with https:// nor with http://")),
        };
        let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("it has no host"))?;
        if uri.query().is_some() || uri.authority().is_some_and(|authority| authority.as_str().contains('@'))
        {
            return Err(wrong("it has more than a host, a port and a path"));
        }
        let token = token.map(read_token).transpose()?;
        if token.is_some() && !is_tls && !is_here(host.trim_matches(['[', ']'])) {
            return Err(wrong("the token could be read on the way; use https://"));
        }
        let roots = authorities.map(read_authorities).transpose()?;
        Ok(Self { client: client(roots)?, url: url.to_owned(), token })
    }

    /// The answer.
    pub async fn ask<A: DeserializeOwned>(&self, asking: Asking) -> Result<A, ServiceError> {
        let (status, body) = self.exchange(asking).await?;
        self.understood(status, &body)
    }

    /// The answer; nothing where there is no such thing.
    pub async fn find<A: DeserializeOwned>(&self, asking: Asking) -> Result<Option<A>, ServiceError> {
        let (status, body) = self.exchange(asking).await?;
        if status == StatusCode::NOT_FOUND && serde_json::from_slice::<Said>(&body).is_ok() {
            return Ok(None);
        }
        self.understood(status, &body).map(Some)
    }

    /// The address of the service.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// An answer that goes on for as long as there is something to tell; only its beginning is bounded in time.
    pub async fn open(&self, asking: Asking) -> Result<Incoming, ServiceError> {
        let request = self.request(asking)?;
        let opening = async {
            let answer = self.client.request(request).await.map_err(|error| reason(&error))?;
            let status = answer.status();
            if status.is_success() {
                return Ok(Ok(answer.into_body()));
            }
            let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
            Ok::<_, String>(Err((status, body.map_err(|error| error.to_string())?.to_bytes())))
        };
        match tokio::time::timeout(WITHIN, opening).await {
            Ok(Ok(Ok(body))) => Ok(body),
            Ok(Ok(Err((status, refusal)))) => {
                let refused = self.understood::<serde_json::Value>(status, &refusal).err();
                Err(refused.unwrap_or_else(|| self.failed(format!("answered with {status}"))))
            }
            Ok(Err(why)) => Err(self.failed(format!("cannot be asked: {why}"))),
            Err(_) => Err(self.failed(format!("did not answer within {} s", WITHIN.as_secs()))),
        }
    }

    fn failed(&self, problem: impl Into<String>) -> ServiceError {
        ServiceError::Remote { url: self.url.clone(), problem: problem.into() }
    }

    fn understood<A: DeserializeOwned>(&self, status: StatusCode, body: &[u8]) -> Result<A, ServiceError> {
        if status.is_success() {
            let not_ours =
                |error| self.failed(format!("gave no usable answer: {error}; are both of the same version?"));
            return serde_json::from_slice(body).map_err(not_ours);
        }
        let Ok(Said { message, next }) = serde_json::from_slice(body) else {
            return Err(self.failed(format!("answered with {status}; is it a `tidegate serve`?")));
        };
        Err(match status {
            // What is in the way says what to do; what else is advised is for programs.
            StatusCode::CONFLICT | StatusCode::NOT_FOUND => ServiceError::refused(message),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                ServiceError::refused(format!("{} does not allow it: {message}; {next}", self.url))
            }
            _ => self.failed(format!("says: {message}; {next}")),
        })
    }

    async fn exchange(&self, asking: Asking) -> Result<(StatusCode, Bytes), ServiceError> {
        let is_question = asking.is_question();
        let request = self.request(asking)?;
        let exchange = async {
            let answer = self.client.request(request).await.map_err(|error| reason(&error))?;
            let status = answer.status();
            let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
            Ok::<_, String>((status, body.map_err(|error| error.to_string())?.to_bytes()))
        };
        match tokio::time::timeout(WITHIN, exchange).await {
            Ok(Ok(answered)) => Ok(answered),
            Ok(Err(why)) => Err(self.failed(format!("cannot be asked: {why}"))),
            Err(_) if is_question => {
                Err(self.failed(format!("did not answer within {} s", WITHIN.as_secs())))
            }
            Err(_) => {
                let problem =
                    format!("did not answer within {} s; it may be done all the same", WITHIN.as_secs());
                Err(self.failed(problem))
            }
        }
    }

    fn request(&self, asking: Asking) -> Result<Request<Full<Bytes>>, ServiceError> {
        let target = format!("{}{}", self.url, asking.target());
        let body = asking.body.as_ref().map(serde_json::to_vec).transpose();
        let body = body.map_err(|error| self.failed(error.to_string()))?;
        let mut request = Request::new(Full::new(Bytes::from(body.unwrap_or_default())));
        *request.method_mut() = asking.method;
        *request.uri_mut() = target.parse().map_err(|_| self.failed("has no such path"))?;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("tidegate/", env!("CARGO_PKG_VERSION"))));
        headers.extend(self.token.clone().map(|token| (AUTHORIZATION, token)));
        Ok(request)
    }
}

/// All that is said of an error, down to its cause.
fn reason(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    said
}

fn content(path: &Path) -> Result<Vec<u8>, ServiceError> {
    let wrong = |source| ServiceError::Io { action: "read", path: path.to_owned(), source };
    fs::read(path).map_err(wrong)
}

fn read_token(path: &Path) -> Result<HeaderValue, ServiceError> {
    let content = content(path)?;
    let text = content.trim_ascii();
    let is_token = !text.is_empty() && text.len() <= TOKEN_MAX && text.iter().all(u8::is_ascii_graphic);
    let value = [b"Bearer ", text].concat();
    let mut value = HeaderValue::from_bytes(&value).ok().filter(|_| is_token).ok_or_else(|| {
        ServiceError::refused(format!(
            "{} holds no token: it is to hold one and nothing else",
            path.display()
        ))
    })?;
    value.set_sensitive(true);
    Ok(value)
}

fn read_authorities(path: &Path) -> Result<RootCertStore, ServiceError> {
    let wrong = || ServiceError::refused(format!("{} holds no certificates in PEM", path.display()));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&content(path)?) {
        roots.add(certificate.map_err(|_| wrong())?).map_err(|_| wrong())?;
    }
    if roots.is_empty() { Err(wrong()) } else { Ok(roots) }
}

fn client(roots: Option<RootCertStore>) -> Result<Https, ServiceError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT_WITHIN));
    tcp.set_nodelay(true);
    let builder = HttpsConnectorBuilder::new();
    let builder = match roots {
        Some(roots) => {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| ServiceError::refused(format!("TLS cannot be used here: {error}")))?;
            builder.with_tls_config(config.with_root_certificates(roots).with_no_client_auth())
        }
        None => builder.with_native_roots().map_err(|error| {
            let why = format!(
                "the certificates that this system trusts cannot be read ({error}); name others with --ca"
            );
            ServiceError::refused(why)
        })?,
    };
    let connector = builder.https_or_http().enable_http1().wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector))
}
