//! One HTTP call: bounded in time and in number, with the credentials of the moment, and never repeated except after
//! the server refused these credentials.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH, RETRY_AFTER, USER_AGENT,
};
use http::response::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use tidegate_cluster::{ClusterError, ErrorKind, Strain};
use tidegate_model::OperationId;
use tokio::time::Instant;

use crate::answer::{About, Answer, warnings};
use crate::gate::was_withheld;
use crate::identity;
use crate::limit::Limiter;
use crate::place::WATCH_DURATION;
use crate::reasons::reasons;
use crate::strain::{Monitor, SILENT_AFTER};
use crate::transport::{Link, Seat, Transport, Way};

pub(crate) const JSON: &str = "application/json";
pub(crate) const APPLY_PATCH: &str = "application/apply-patch+yaml";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
const IMPERSONATE_USER: &str = "impersonate-user";
/// Every server answers this, to anybody, and it costs nothing.
pub(crate) const VERSION: &str = "/version";
const AGENT: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));
/// No answer to one call is larger: a page of 500 objects of the largest size.
const ANSWER_BYTES_MAX: usize = 1 << 30;
/// How often a read of many is tried on an overloaded server.
const PATIENCE_CALLS: usize = 5;
/// The first wait between two of these where the server does not say how long; doubled each time.
const PATIENCE_MIN: Duration = Duration::from_millis(100);

/// For one call so many new connections are asked who is at their other end: other calls may take them.
const ADMISSIONS_MAX: usize = 16;

/// A request, not yet bound to a connection.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// What comes after the server's address: a path, and a query where there is one.
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
    /// An answer that bears this tag is known, and need not come again.
    pub(crate) known: Option<HeaderValue>,
    /// On whose behalf, for the server's audit.
    pub(crate) operation: Option<OperationId>,
    /// As whom; nothing for ourselves.
    pub(crate) user: Option<Arc<str>>,
}

impl Call {
    pub(crate) fn get(path: String) -> Self {
        Self {
            method: Method::GET,
            path,
            accept: JSON,
            content_type: JSON,
            body: Bytes::new(),
            known: None,
            operation: None,
            user: None,
        }
    }

    pub(crate) fn accept(self, accept: &'static str) -> Self {
        Self { accept, ..self }
    }

    pub(crate) fn write(
        method: Method,
        path: String,
        content_type: &'static str,
        body: Vec<u8>,
        operation: Option<OperationId>,
    ) -> Self {
        Self { method, content_type, body: body.into(), operation, ..Self::get(path) }
    }

    /// What is asked, however it is put.
    fn what(&self) -> String {
        let place = self.path.split('?').next().unwrap_or_default();
        format!("{} {place}", self.method)
    }

    fn request(&self) -> Result<Request<Body>, http::Error> {
        let agent = match self.operation {
            Some(operation) => HeaderValue::try_from(format!("{AGENT} (operation/{operation})"))?,
            None => HeaderValue::from_static(AGENT),
        };
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(self.path.as_str())
            .header(ACCEPT, self.accept)
            .header(USER_AGENT, agent);
        if let Some(known) = &self.known {
            request = request.header(IF_NONE_MATCH, known);
        }
        if let Some(user) = &self.user {
            request = request.header(IMPERSONATE_USER, HeaderValue::try_from(user.as_ref())?);
        }
        if !self.body.is_empty() {
            request = request.header(CONTENT_TYPE, self.content_type);
        }
        request.body(Body::from(self.body.clone()))
    }
}

/// An API server, with what keeps calls to it apart and within limits.
pub(crate) struct Server {
    transport: Transport,
    limiter: Limiter,
    monitor: Monitor,
    /// Held while a silent server is asked whether it is still there.
    asking: tokio::sync::Mutex<()>,
    call_timeout: Duration,
    watch_duration: Duration,
}

impl Server {
    pub(crate) fn new(transport: Transport, call_timeout: Duration, in_flight: usize) -> Self {
        let (limiter, monitor, asking) =
            (Limiter::new(in_flight), Monitor::new(), tokio::sync::Mutex::new(()));
        Self { transport, limiter, monitor, asking, call_timeout, watch_duration: WATCH_DURATION }
    }

    /// Asked to end each watch after this.
    pub(crate) fn with_watches_of(self, watch_duration: Duration) -> Self {
        Self { watch_duration, ..self }
    }

    pub(crate) fn watch_duration(&self) -> Duration {
        self.watch_duration
    }

    pub(crate) fn url(&self) -> &str {
        self.transport.url()
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    pub(crate) fn call_timeout(&self) -> Duration {
        self.call_timeout
    }

    /// One call, and whatever the server answers.
    pub(crate) async fn call(&self, call: &Call) -> Result<Answer, ClusterError> {
        let link = self.transport.link_of_now().await;
        let answer = self.bounded(&link, call).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        if self.transport.renew(&link).await {
            return self.bounded(&self.transport.link(), call).await;
        }
        match self.transport.trouble() {
            Some(reason) => Err(ClusterError::new(ErrorKind::Unauthorized, reason)),
            None => Ok(answer),
        }
    }

    /// The same for a read that is one of many for one purpose: while the server is overloaded it is asked again, a few
    /// times, each time after the wait it asks for.
    pub(crate) async fn call_patiently(&self, call: &Call) -> Result<Answer, ClusterError> {
        let mut wait = PATIENCE_MIN;
        for _ in 1..PATIENCE_CALLS {
            let answer = self.call(call).await?;
            if answer.status != StatusCode::TOO_MANY_REQUESTS {
                return Ok(answer);
            }
            tokio::time::sleep(answer.asked_to_wait().unwrap_or(wait)).await;
            wait = wait.saturating_mul(2);
        }
        self.call(call).await
    }

    /// What keeps calls waiting now.
    pub(crate) fn strain(&self) -> Option<Strain> {
        self.monitor.strain()
    }

    /// Asks a server that has been silent for a while whether it is still there: an open watch cannot tell silence from
    /// a server that hangs. For as long as this is awaited; any answer will do.
    pub(crate) async fn keep_asking(&self) -> Infallible {
        loop {
            let due = self.monitor.heard_at() + SILENT_AFTER;
            tokio::time::sleep_until(due).await;
            let _turn = self.asking.lock().await;
            // Many watches are silent together; one of them asks.
            if self.monitor.heard_at() + SILENT_AFTER <= Instant::now()
                && self.call(&Call::get(VERSION.to_owned())).await.is_err()
            {
                tokio::time::sleep(SILENT_AFTER).await;
            }
        }
    }

    async fn bounded(&self, link: &Link, call: &Call) -> Result<Answer, ClusterError> {
        let permit = self.limiter.acquire(&call.what()).await;
        let answer = self.timed(call, self.attempt(link, call)).await?;
        let too_many = answer.status == StatusCode::TOO_MANY_REQUESTS;
        // What the server says about one request, or what is behind it about one kind, is nothing about the others.
        match answer.retry_after.filter(|_| too_many || answer.status.is_server_error()) {
            Some(wait) if !answer.is_about_the_request() => permit.refused(Some(wait)),
            _ if too_many => permit.refused(None),
            _ => permit.served(),
        }
        self.keep_asked_wait(call, &answer);
        Ok(answer)
    }

    /// A server that has too much to do is asked the same again when it wants to be, whoever asks.
    fn keep_asked_wait(&self, call: &Call, answer: &Answer) {
        let too_many = answer.status == StatusCode::TOO_MANY_REQUESTS;
        let Some(wait) = answer.asked_to_wait().filter(|_| too_many) else { return };
        if answer.is_about_the_request() {
            self.limiter.hold(call.what(), wait);
        } else {
            self.limiter.asked(wait);
        }
        // Not in its words: it may quote what it was sent, and this reaches nobody's mask.
        self.monitor.asked(wait, || format!("{} to {} {}", answer.status, call.method, call.path));
    }

    async fn attempt(&self, link: &Link, call: &Call) -> Result<Answer, ClusterError> {
        let begun = Instant::now();
        self.collected(call, begun, self.send(link.calls(), call).await?).await
    }

    async fn collected(
        &self,
        call: &Call,
        begun: Instant,
        response: Response<Body>,
    ) -> Result<Answer, ClusterError> {
        self.monitor.heard();
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).map_frame(|frame| {
            self.monitor.heard();
            frame
        });
        let body = body.collect().await.map_err(|error| self.broken(call, &*error))?.to_bytes();
        Ok(answer(&head, begun.elapsed(), body))
    }

    /// Opens a stream that ends soon.
    pub(crate) async fn open(&self, call: &Call, about: About<'_>) -> Result<Body, ClusterError> {
        let permit = self.limiter.acquire(&call.what()).await;
        let response = self.send(self.transport.link().calls(), call).await?;
        permit.served();
        self.opened(call, about, response).await
    }

    /// Opens a watch. Only the beginning of the answer is bounded in time, and nobody else has to wait for its end.
    pub(crate) async fn watch(
        &self,
        call: &Call,
        about: About<'_>,
    ) -> Result<(Body, Option<Seat>), ClusterError> {
        self.limiter.pause(&call.what()).await;
        let link = self.transport.link_of_now().await;
        let (mut response, mut seat) = self.timed(call, self.send_watch(&link, call)).await?;
        if response.status() == StatusCode::UNAUTHORIZED && self.transport.renew(&link).await {
            let link = self.transport.link();
            (response, seat) = self.timed(call, self.send_watch(&link, call)).await?;
        }
        self.monitor.heard();
        Ok((self.timed(call, self.opened(call, about, response)).await?, seat))
    }

    /// Opens a stream of which not even the beginning is bounded in time: nothing comes before there is something to tell.
    /// Nobody else has to wait for it, and it is no sign of silence.
    pub(crate) async fn follow(
        &self,
        call: &Call,
        about: About<'_>,
    ) -> Result<(Body, Option<Seat>), ClusterError> {
        self.limiter.pause(&call.what()).await;
        let link = self.transport.link_of_now().await;
        let (mut response, mut seat) = self.send_watch(&link, call).await?;
        if response.status() == StatusCode::UNAUTHORIZED && self.transport.renew(&link).await {
            (response, seat) = self.send_watch(&self.transport.link(), call).await?;
        }
        self.monitor.heard();
        // A refusal is there as a whole.
        Ok((self.timed(call, self.opened(call, about, response)).await?, seat))
    }

    /// An open watch has news.
    pub(crate) fn heard(&self) {
        self.monitor.heard();
    }

    async fn opened(
        &self,
        call: &Call,
        about: About<'_>,
        response: Response<Body>,
    ) -> Result<Body, ClusterError> {
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| self.broken(call, &*error))?.to_bytes();
        let answer = answer(&head, Duration::ZERO, body);
        self.keep_asked_wait(call, &answer);
        Err(answer.refusal(about))
    }

    /// Sends a request, to nobody else than the cluster that is meant.
    async fn send(&self, way: &Way, call: &Call) -> Result<Response<Body>, ClusterError> {
        for _ in 0..ADMISSIONS_MAX {
            if let Some(reason) = self.transport.meant().closed() {
                return Err(ClusterError::new(ErrorKind::Unavailable, reason));
            }
            if !way.gate.is_sure().await {
                self.admit(way).await?;
            }
            match way.client.send(self.request(call)?).await {
                // Nothing was sent.
                Err(error) if was_withheld(&error) => self.admit(way).await?,
                sent => return sent.map_err(|error| self.not_sent(call, error)),
            }
        }
        let words = format!("connections to {} end as soon as they have begun", self.url());
        Err(ClusterError::new(ErrorKind::Unavailable, words))
    }

    /// Lets a connection come about, and asks which cluster is at its other end.
    async fn admit(&self, way: &Way) -> Result<(), ClusterError> {
        let Some(meant) = self.transport.meant().identity() else { return Ok(()) };
        let asking = way.gate.ask().await;
        let (call, begun) = (identity::question()?, Instant::now());
        let sent = way.client.send(self.request(&call)?).await;
        let response = sent.map_err(|error| self.not_sent(&call, error))?;
        let answer = self.collected(&call, begun, response).await?;
        match identity::answered(&answer)? {
            Some(found) if found == meant => {
                asking.admit();
                Ok(())
            }
            Some(_) => {
                let words = format!("another cluster answers at {}", self.url());
                self.transport.meant().close(Some(words.clone()));
                Err(ClusterError::new(ErrorKind::Unavailable, words))
            }
            None => {
                let words = format!("what answers at {} does not say which cluster it is", self.url());
                Err(ClusterError::new(ErrorKind::Unavailable, words))
            }
        }
    }

    async fn send_watch(
        &self,
        link: &Link,
        call: &Call,
    ) -> Result<(Response<Body>, Option<Seat>), ClusterError> {
        let (way, seat) = link.watches();
        Ok((self.send(way, call).await?, seat))
    }

    fn request(&self, call: &Call) -> Result<Request<Body>, ClusterError> {
        call.request().map_err(|error| {
            ClusterError::new(ErrorKind::Invalid, format!("cannot ask for {}: {error}", call.path))
        })
    }

    fn not_sent(&self, call: &Call, error: kube::Error) -> ClusterError {
        match error {
            kube::Error::Auth(error) => {
                let words = format!("no credentials for {}: {}", self.url(), reasons(&error));
                ClusterError::new(ErrorKind::Unauthorized, words)
            }
            other => self.broken(call, &other),
        }
    }

    pub(crate) async fn timed<T>(
        &self,
        call: &Call,
        work: impl Future<Output = Result<T, ClusterError>>,
    ) -> Result<T, ClusterError> {
        let _sent = self.monitor.sent(format!("{} {}", call.method, call.path));
        tokio::time::timeout(self.call_timeout, work).await.unwrap_or_else(|_| {
            let maybe = if call.method == Method::GET { "" } else { "; it may have been done all the same" };
            let words = format!(
                "{} did not answer {} {} within {:?}{maybe}",
                self.url(),
                call.method,
                call.path,
                self.call_timeout
            );
            Err(ClusterError::new(ErrorKind::Timeout, words))
        })
    }

    /// The connection did not come about, or ended too early.
    pub(crate) fn broken(&self, call: &Call, error: &(dyn StdError + 'static)) -> ClusterError {
        let client = http_client_error(error);
        // What the layers above say is where they stand, not what happened.
        let reason = reasons(client.and_then(StdError::source).unwrap_or(error));
        if was_aborted(error) {
            return ClusterError::new(ErrorKind::Server, self.aborted(call, &reason));
        }
        let words = if client.is_some_and(hyper_util::client::legacy::Error::is_connect) {
            let reason = reason.strip_prefix("tcp connect error: ").unwrap_or(&reason);
            format!("cannot reach the server at {}: {reason}", self.url())
        } else {
            let what = format!("{} {}", call.method, call.path);
            format!("the connection to {} broke during {what}: {reason}", self.url())
        };
        ClusterError::new(ErrorKind::Unavailable, words)
    }

    fn aborted(&self, call: &Call, reason: &str) -> String {
        let hint = if call.content_type == APPLY_PATCH {
            "; if it does so each time, it cannot apply this kind on its side: ServerSideApply=false avoids that"
        } else {
            ""
        };
        format!("{} failed in the middle of {} {}: {reason}{hint}", self.url(), call.method, call.path)
    }
}

/// Whether the server gave up this one request, as it does after a panic: the connection and other requests go on.
fn was_aborted(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(stream) = error.downcast_ref::<h2::Error>() {
            return stream.is_reset()
                && stream.is_remote()
                && stream.reason() == Some(h2::Reason::INTERNAL_ERROR);
        }
        cause = error.source();
    }
    false
}

fn http_client_error<'e>(
    error: &'e (dyn StdError + 'static),
) -> Option<&'e hyper_util::client::legacy::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let client = error.downcast_ref();
        if client.is_some() {
            return client;
        }
        cause = error.source();
    }
    None
}

fn answer(head: &Parts, took: Duration, body: Bytes) -> Answer {
    let (retry_after, warnings) = (retry_after(&head.headers), warnings(&head.headers));
    let tag = head.headers.get(ETAG).cloned();
    Answer { status: head.status, retry_after, warnings, tag, took, body }
}

/// Seconds only: Kubernetes sends no dates.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
