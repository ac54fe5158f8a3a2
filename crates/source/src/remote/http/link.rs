//! The connection of one attempt, and what it may take.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, HeaderName, USER_AGENT, WWW_AUTHENTICATE};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use tidegate_web::{Barred, Client, Fault, LINK_LOCAL, LOOPBACK, cause, client, follow, is_same_or_safer};
use tokio::runtime::{Builder, Runtime};

use super::{Problem, trust, way};
use crate::Address;
use crate::credentials::Access;
use crate::remote::{Attempt, Network, RemoteLimits};

/// The body of an answer.
pub(super) type Body = UnsyncBoxBody<Bytes, Fault>;

/// One attempt's way to a server.
pub(crate) struct Link {
    /// Gone only while it is dropped.
    runtime: Option<Runtime>,
    client: Client,
    attempt: Arc<Attempt>,
    limits: RemoteLimits,
    barred: Barred,
    /// Whom the credentials are meant for.
    meant: Uri,
    authorization: Option<HeaderValue>,
    access: Access,
    state: Mutex<State>,
}

struct State {
    problem: Option<Problem>,
    /// Bytes that may still come.
    left: u64,
    /// Where a server has sent us on to.
    base: Option<String>,
}

impl Drop for Link {
    fn drop(&mut self) {
        // A name that is being looked up would hold us for as long as that takes.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Link {
    pub fn new(
        address: &Address,
        access: &Access,
        network: &Network,
        attempt: Arc<Attempt>,
        bytes: u64,
    ) -> Result<Arc<Self>, Problem> {
        Self::to(&address.to_string(), access, network, attempt, bytes)
    }

    /// A way to the server of an address, which alone is shown what proves who asks.
    pub fn to(
        address: &str,
        access: &Access,
        network: &Network,
        attempt: Arc<Attempt>,
        bytes: u64,
    ) -> Result<Arc<Self>, Problem> {
        let limits = network.limits;
        let meant: Uri = address.parse().map_err(|_| Problem::new("its address cannot be read"))?;
        let barred = network.barred(access);
        way::check(meant.host().unwrap_or_default(), barred)?;
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
        let runtime =
            runtime.map_err(|error| Problem::new(format!("this machine lacks what it takes: {error}")))?;
        let way = way::way(access, &meant, barred, limits.connect)?;
        let client = client(&trust::config(&network.trust, access)?, way);
        let authorization = access.authorization().map(|value| {
            let mut value = HeaderValue::from_str(&value).map_err(|_| {
                let secret = access.secret.as_deref().unwrap_or_default();
                Problem::new(format!(
                    "username, password or bearerToken of Secret {secret} has a character that cannot be sent"
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
            barred,
            meant,
            authorization: authorization.transpose()?,
            access: access.clone(),
            state: Mutex::new(State { problem: None, left: bytes, base: None }),
        }))
    }

    /// What went wrong, if that was seen here.
    pub fn problem(&self) -> Option<Problem> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).problem.clone()
    }

    /// Keeps what went wrong, for those who ask later: on its way through Git's protocol it would lose its words.
    pub(super) fn keep(&self, problem: Problem) -> Problem {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.problem.get_or_insert(problem).clone()
    }

    pub(super) fn base(&self) -> Option<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).base.clone()
    }

    fn wait<T>(&self, within: Duration, late: &str, work: impl Future<Output = T>) -> Result<T, Problem> {
        let Some(runtime) = &self.runtime else { return Err(Problem::new("it was interrupted")) };
        runtime.block_on(async {
            tokio::select! {
                biased;
                over = self.attempt.ended() => Err(over.problem()),
                done = tokio::time::timeout(within, work) => {
                    done.map_err(|_| Problem::new(format!("the server {late} within {} s", within.as_secs_f64())))
                }
            }
        })
    }

    /// Sends one request. The answer is what the server says, whatever that is.
    pub(super) fn send(
        &self,
        method: Method,
        to: &Uri,
        headers: &HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response<Body>, Problem> {
        way::check(to.host().unwrap_or_default(), self.barred)?;
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = to.clone();
        *request.headers_mut() = headers.clone();
        request.headers_mut().insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("git/tidegate-", env!("CARGO_PKG_VERSION"))),
        );
        if let Some(value) = self.authorization.as_ref().filter(|_| self.is_shown_credentials(to)) {
            request.headers_mut().insert(AUTHORIZATION, value.clone());
        }
        let answer = self.wait(self.limits.answer, "did not answer", self.client.request(request))?;
        let answer = answer.map_err(|error| self.unreachable(&error, error.is_connect()))?;
        Ok(answer.map(|body| body.map_err(Fault::from).boxed_unsync()))
    }

    fn unreachable(&self, error: &(dyn std::error::Error + 'static), is_connect: bool) -> Problem {
        let cause = self.access.hide(cause(error));
        if cause.contains("certificate") {
            return Problem::new(format!("the server's certificate is not trusted: {cause}")).hint(
                "name the certificate of its authority in the ConfigMap argocd-tls-certs-cm, under the server's host",
            );
        }
        if [LINK_LOCAL, LOOPBACK].contains(&cause.as_str()) {
            return Problem::new(cause);
        }
        match is_connect {
            true => Problem::new(format!("the server cannot be reached: {cause}"))
                .hint("it is tried again at the next look"),
            false => Problem::new(format!("the server broke the connection: {cause}")),
        }
    }

    /// Asks for something, and goes where the server sends us. `tail` is what of the address is not the repository's.
    pub(super) fn get(&self, url: &str, tail: &str, headers: &HeaderMap) -> Result<Response<Body>, Problem> {
        let (answer, at) = self.ask(url, headers)?;
        let answer = self.judge(answer, &at)?;
        let at = at.to_string();
        if at != url {
            let base = at.strip_suffix(tail).map(|base| base.trim_end_matches('/').to_owned());
            let base = base.ok_or_else(|| Problem::new("the server sends us on to what is no repository"))?;
            self.state.lock().unwrap_or_else(PoisonError::into_inner).base = Some(base);
        }
        Ok(answer)
    }

    /// Asks for something where the server sends us in the end, and says where that was.
    pub(super) fn ask(&self, url: &str, headers: &HeaderMap) -> Result<(Response<Body>, Uri), Problem> {
        let mut at: Uri = url.parse().map_err(|_| Problem::new("its address cannot be read"))?;
        for _ in 0..=self.limits.redirects {
            let answer = self.send(Method::GET, &at, headers, Vec::new())?;
            if !answer.status().is_redirection() || answer.status() == StatusCode::NOT_MODIFIED {
                return Ok((answer, at));
            }
            at = sent_on(&answer, &at)?;
        }
        Err(self.sent_too_often())
    }

    /// As often as a server may send us on.
    pub(super) fn redirects(&self) -> u32 {
        self.limits.redirects
    }

    pub(super) fn sent_too_often(&self) -> Problem {
        Problem::new(format!("the server has sent us on more than {} times", self.limits.redirects))
    }

    /// Gives something and asks for the answer; the server may not send us on.
    pub(super) fn post(
        &self,
        url: &str,
        headers: &HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response<Body>, Problem> {
        let to: Uri = url.parse().map_err(|_| Problem::new("its address cannot be read"))?;
        self.judge(self.send(Method::POST, &to, headers, body)?, &to)
    }

    /// Whether a server that answers there is shown what proves who asks.
    fn is_shown_credentials(&self, at: &Uri) -> bool {
        is_same_or_safer(&self.meant, at)
    }

    /// What the answer from an address says, if that is not what was asked for.
    pub(super) fn judge(&self, answer: Response<Body>, at: &Uri) -> Result<Response<Body>, Problem> {
        let status = answer.status();
        if status == StatusCode::OK {
            return Ok(answer);
        }
        let given = match &self.access.secret {
            Some(secret) if self.authorization.is_some() => Some(secret),
            _ => None,
        };
        let said = format!("the server answered {status}");
        let may_lack =
            [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::NOT_FOUND].contains(&status);
        if let Some(secret) = given.filter(|_| may_lack && !self.is_shown_credentials(at)) {
            return Err(self.judge_elsewhere(&said, at, secret));
        }
        let asks = answer.headers().contains_key(WWW_AUTHENTICATE);
        Err(match (status, given) {
            (StatusCode::UNAUTHORIZED, Some(secret)) => {
                let refused = Problem::new(format!("{said}: it does not accept the credentials of Secret {secret}"));
                Problem { is_refused: true, ..refused.hint("check its username, password or bearerToken") }
            }
            (StatusCode::UNAUTHORIZED, None) => Problem::new(format!("{said}: it asks for credentials"))
                .hint("give a Secret labelled argocd.argoproj.io/secret-type: repository or repo-creds with them"),
            (StatusCode::FORBIDDEN, Some(secret)) => {
                Problem::new(format!("{said}: the credentials of Secret {secret} do not allow it"))
            }
            (StatusCode::NOT_FOUND, None) => Problem::new(said)
                .hint("check the address; of a private repository many servers say so when there are no credentials"),
            (StatusCode::NOT_FOUND, Some(secret)) => {
                Problem::new(format!("{said} to the credentials of Secret {secret}"))
                    .hint("check the address, and whether they may read it")
            }
            (StatusCode::PROXY_AUTHENTICATION_REQUIRED, _) => Problem::new(said).hint("check the proxy's user and password"),
            _ if status.is_redirection() => Problem::new(format!("{said}, where nobody is sent on")),
            _ if asks => Problem::new(format!("{said}, and asks for credentials")),
            _ => Problem::new(said).hint("it is tried again at the next look"),
        })
    }

    /// Another server than the one that is meant has refused.
    fn judge_elsewhere(&self, said: &str, at: &Uri, secret: &str) -> Problem {
        let [there, meant] = [at, &self.meant].map(|one| one.authority().map_or("", Authority::as_str));
        Problem::new(format!(
            "{said}: {meant} has sent us on to {there}, which is not shown the credentials of Secret {secret}"
        ))
        .hint("use the address of the other server, with a Secret of its own")
    }

    /// The next bytes of an answer; nothing at its end.
    pub(super) fn more(&self, body: &mut Body) -> Result<Option<Bytes>, Problem> {
        loop {
            let frame = self.wait(self.limits.silence, "sent nothing", body.frame())?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame
                .map_err(|_| Problem::new("the server broke the connection in the middle of its answer"))?;
            let Ok(data) = frame.into_data() else { continue };
            let size = u64::try_from(data.len()).unwrap_or(u64::MAX);
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.left = state.left.checked_sub(size).ok_or_else(|| {
                Problem::new("the server's answer is longer than anybody reads")
                    .hint("manifests belong into a repository without large files")
            })?;
            if !data.is_empty() {
                return Ok(Some(data));
            }
        }
    }
}

/// Where an answer sends us on to.
pub(super) fn sent_on(answer: &Response<Body>, from: &Uri) -> Result<Uri, Problem> {
    let location = answer.headers().get(http::header::LOCATION).and_then(|value| value.to_str().ok());
    let location = location.ok_or_else(|| Problem::new("the server sends us on without saying where to"))?;
    follow(from, location).map_err(|misled| Problem::new(format!("the server {misled}")))
}

/// Headers from lines such as `Name: value`; those that cannot be sent are left out.
pub(super) fn headers(lines: impl IntoIterator<Item = impl AsRef<str>>) -> HeaderMap {
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
