//! HTTP connections for a single attempt, with a limit on the received data.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, USER_AGENT, WWW_AUTHENTICATE};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use tidegate_web::{
    BlockedAddresses, Client, ConnectionError, LINK_LOCAL_REASON, LOOPBACK_REASON, create_client,
    is_same_or_safer, root_cause,
};
use tokio::runtime::{Builder, Runtime};

use super::{Problem, connector, trust};
use crate::Address;
use crate::credentials::AccessSettings;
use crate::remote::{Attempt, Network, RemoteLimits};

/// Body of a response.
pub(super) type Body = UnsyncBoxBody<Bytes, ConnectionError>;

/// HTTP client for one attempt.
pub(crate) struct Link {
    /// Runtime for the requests. `None` only during drop.
    runtime: Option<Runtime>,
    client: Client,
    attempt: Arc<Attempt>,
    limits: RemoteLimits,
    blocked: BlockedAddresses,
    /// The only server that may receive the credentials.
    credentials_server: Uri,
    authorization: Option<HeaderValue>,
    access: AccessSettings,
    state: Mutex<LinkState>,
}

struct LinkState {
    problem: Option<Problem>,
    /// Number of bytes that may still be received.
    bytes_left: u64,
    /// Repository URL after redirects.
    base: Option<String>,
}

impl Drop for Link {
    fn drop(&mut self) {
        // A regular shutdown would block on pending name lookups.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Link {
    pub fn new(
        address: &Address,
        access: &AccessSettings,
        network: &Network,
        attempt: Arc<Attempt>,
        bytes: u64,
    ) -> Result<Arc<Self>, Problem> {
        Self::for_address(&address.to_string(), access, network, attempt, bytes)
    }

    /// Creates a link to the server of a URL, the only one to receive credentials.
    pub fn for_address(
        address: &str,
        access: &AccessSettings,
        network: &Network,
        attempt: Arc<Attempt>,
        bytes: u64,
    ) -> Result<Arc<Self>, Problem> {
        let limits = network.limits;
        let url: Uri = address.parse().map_err(|_| Problem::new("the URL cannot be parsed"))?;
        let barred = network.blocked_addresses(access);
        connector::check_host(url.host().unwrap_or_default(), barred)?;
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        let runtime =
            runtime.map_err(|error| Problem::new(format!("cannot start the network runtime: {error}")))?;
        let way = connector::connector_for(access, &url, barred, limits.connect)?;
        let client = create_client(&trust::tls_config(&network.trust, access)?, way);
        let authorization = access.authorization().map(|value| {
            let mut value = HeaderValue::from_str(&value).map_err(|_| {
                let secret = access.secret.as_deref().unwrap_or_default();
                Problem::new(format!(
                    "username, password or bearerToken in Secret {secret} contains a character that is not \
                     allowed in an HTTP header"
                ))
            })?;
            value.set_sensitive(true);
            Ok(value)
        });
        Ok(Arc::new(Self {
            runtime: Some(runtime),
            client,
            attempt,
            limits,
            blocked: barred,
            credentials_server: url,
            authorization: authorization.transpose()?,
            access: access.clone(),
            state: Mutex::new(LinkState { problem: None, bytes_left: bytes, base: None }),
        }))
    }

    /// Returns the first problem on this link.
    pub fn problem(&self) -> Option<Problem> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).problem.clone()
    }

    /// Stores a problem, because the Git library would lose its message.
    pub(super) fn store_problem(&self, problem: Problem) -> Problem {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.problem.get_or_insert(problem).clone()
    }

    pub(super) fn base(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).base.clone()
    }

    fn wait_within<T>(
        &self,
        within: Duration,
        late: &str,
        work: impl Future<Output = T>,
    ) -> Result<T, Problem> {
        let Some(runtime) = &self.runtime else { return Err(Problem::new("the request was interrupted")) };
        runtime.block_on(async {
            tokio::select! {
                biased;
                over = self.attempt.wait_for_end() => Err(over.to_problem()),
                done = tokio::time::timeout(within, work) => {
                    done.map_err(|_| Problem::new(format!("the server {late} within {} s", within.as_secs_f64())))
                }
            }
        })
    }

    /// Sends a single request and returns the response, whatever its status.
    pub(super) fn send(
        &self,
        method: Method,
        to: &Uri,
        headers: &HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response<Body>, Problem> {
        connector::check_host(to.host().unwrap_or_default(), self.blocked)?;
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = to.clone();
        *request.headers_mut() = headers.clone();
        request.headers_mut().insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("git/tidegate-", env!("CARGO_PKG_VERSION"))),
        );
        if let Some(value) = self.authorization.as_ref().filter(|_| self.gets_credentials(to)) {
            request.headers_mut().insert(AUTHORIZATION, value.clone());
        }
        let answer =
            self.wait_within(self.limits.response, "did not respond", self.client.request(request))?;
        let answer = answer.map_err(|error| self.unreachable(&error, error.is_connect()))?;
        Ok(answer.map(|body| body.map_err(ConnectionError::from).boxed_unsync()))
    }

    fn unreachable(&self, error: &(dyn std::error::Error + 'static), is_connect: bool) -> Problem {
        let cause = self.access.mask_secrets(root_cause(error));
        if cause.contains("certificate") {
            return Problem::new(format!("the server's certificate is not trusted: {cause}")).with_hint(
                "add its CA certificate to the argocd-tls-certs-cm ConfigMap, under the server's host name",
            );
        }
        if [LINK_LOCAL_REASON, LOOPBACK_REASON].contains(&cause.as_str()) {
            return Problem::new(cause);
        }
        match is_connect {
            true => Problem::new(format!("the server cannot be reached: {cause}"))
                .with_hint("the next comparison will try again"),
            false => Problem::new(format!("the server closed the connection: {cause}")),
        }
    }

    /// Sends a GET request, following redirects. `tail` is the part of the URL after the repository.
    pub(super) fn get(&self, url: &str, tail: &str, headers: &HeaderMap) -> Result<Response<Body>, Problem> {
        let (answer, at) = self.get_with_address(url, headers)?;
        let answer = self.check_response(answer, &at)?;
        let at = at.to_string();
        if at != url {
            let base = at.strip_suffix(tail).map(|base| base.trim_end_matches('/').to_owned());
            let base =
                base.ok_or_else(|| Problem::new("the server redirected to a URL that is not a repository"))?;
            self.state.lock().unwrap_or_else(PoisonError::into_inner).base = Some(base);
        }
        Ok(answer)
    }

    /// Sends a GET request, following redirects. Returns the response and its final URL.
    pub(super) fn get_with_address(
        &self,
        url: &str,
        headers: &HeaderMap,
    ) -> Result<(Response<Body>, Uri), Problem> {
        let mut at: Uri = url.parse().map_err(|_| Problem::new("the URL cannot be parsed"))?;
        for _ in 0..=self.limits.redirects {
            let answer = self.send(Method::GET, &at, headers, Vec::new())?;
            if !answer.status().is_redirection() || answer.status() == StatusCode::NOT_MODIFIED {
                return Ok((answer, at));
            }
            at = redirect_target(&answer, &at)?;
        }
        Err(self.too_many_redirects())
    }

    /// Returns the maximum number of redirects.
    pub(super) fn redirects(&self) -> u32 {
        self.limits.redirects
    }

    pub(super) fn too_many_redirects(&self) -> Problem {
        Problem::new(format!("the server redirected more than {} times", self.limits.redirects))
    }

    /// Sends a POST request. Doesn't follow redirects.
    pub(super) fn post(
        &self,
        url: &str,
        headers: &HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response<Body>, Problem> {
        let to: Uri = url.parse().map_err(|_| Problem::new("the URL cannot be parsed"))?;
        self.check_response(self.send(Method::POST, &to, headers, body)?, &to)
    }

    /// Returns true if credentials may be sent to a URL.
    fn gets_credentials(&self, at: &Uri) -> bool {
        is_same_or_safer(&self.credentials_server, at)
    }

    /// Returns the response if it is successful, or else a problem.
    pub(super) fn check_response(&self, answer: Response<Body>, at: &Uri) -> Result<Response<Body>, Problem> {
        let status = answer.status();
        if status == StatusCode::OK {
            return Ok(answer);
        }
        let given = match &self.access.secret {
            Some(secret) if self.authorization.is_some() => Some(secret),
            _ => None,
        };
        let said = format!("the server returned {status}");
        let may_lack =
            [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::NOT_FOUND].contains(&status);
        if let Some(secret) = given.filter(|_| may_lack && !self.gets_credentials(at)) {
            return Err(self.other_server_problem(&said, at, secret));
        }
        let asks = answer.headers().contains_key(WWW_AUTHENTICATE);
        Err(match (status, given) {
            (StatusCode::UNAUTHORIZED, Some(secret)) => {
                let refused =
                    Problem::new(format!("{said} and does not accept the credentials in Secret {secret}"));
                Problem {
                    is_refused: true,
                    ..refused.with_hint("check username, password or bearerToken in the Secret")
                }
            }
            (StatusCode::UNAUTHORIZED, None) => Problem::new(format!("{said} and requires credentials"))
                .with_hint(
                    "add credentials in a Secret labeled argocd.argoproj.io/secret-type: repository or repo-creds",
                ),
            (StatusCode::FORBIDDEN, Some(secret)) => {
                Problem::new(format!("{said}: the credentials in Secret {secret} have no permission"))
            }
            (StatusCode::NOT_FOUND, None) => Problem::new(said).with_hint(
                "check the URL; many servers return this status for private repositories without credentials",
            ),
            (StatusCode::NOT_FOUND, Some(secret)) => {
                Problem::new(format!("{said} with the credentials in Secret {secret}"))
                    .with_hint("check the URL and the permissions of the credentials")
            }
            (StatusCode::PROXY_AUTHENTICATION_REQUIRED, _) => {
                Problem::new(said).with_hint("check the proxy's user and password")
            }
            _ if status.is_redirection() => {
                Problem::new(format!("{said}, and Tidegate does not follow redirects for this request"))
            }
            _ if asks => Problem::new(format!("{said} and requires credentials")),
            _ => Problem::new(said).with_hint("the next comparison will try again"),
        })
    }

    /// Returns the problem for an error from a server that must not get the credentials.
    fn other_server_problem(&self, said: &str, at: &Uri, secret: &str) -> Problem {
        let [there, url] =
            [at, &self.credentials_server].map(|one| one.authority().map_or("", Authority::as_str));
        Problem::new(format!(
            "{said}: {url} redirected the request to {there}, and Tidegate does not send the credentials in \
             Secret {secret} to a different server"
        ))
        .with_hint("use the URL of the other server, and add a Secret for it")
    }

    /// Returns the next bytes of a response, or `None` at its end.
    pub(super) fn next_bytes(&self, body: &mut Body) -> Result<Option<Bytes>, Problem> {
        loop {
            let frame = self.wait_within(self.limits.idle, "sent nothing", body.frame())?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|_| {
                Problem::new("the server closed the connection before the end of its response")
            })?;
            let Ok(data) = frame.into_data() else { continue };
            let size = u64::try_from(data.len()).unwrap_or(u64::MAX);
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.bytes_left = state.bytes_left.checked_sub(size).ok_or_else(|| {
                Problem::new("the server's response is too large")
                    .with_hint("keep manifests in a repository without large files")
            })?;
            if !data.is_empty() {
                return Ok(Some(data));
            }
        }
    }
}

/// Returns the target of a redirect.
pub(super) fn redirect_target(answer: &Response<Body>, from: &Uri) -> Result<Uri, Problem> {
    let location = answer.headers().get(http::header::LOCATION).and_then(|value| value.to_str().ok());
    let location =
        location.ok_or_else(|| Problem::new("the server returned a redirect without a location"))?;
    tidegate_web::redirect_target(from, location)
        .map_err(|misled| Problem::new(format!("the server {misled}")))
}

/// Parses header lines such as `Name: value`. Ignores invalid lines.
pub(super) fn parse_headers(lines: impl IntoIterator<Item = impl AsRef<str>>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        let Some((name, value)) = line.as_ref().split_once(':') else { continue };
        let name = HeaderName::from_bytes(name.trim().as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value.trim())) {
            headers.append(name, value);
        }
    }
    headers
}
