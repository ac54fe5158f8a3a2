//! HTTP calls, with limits on their duration and number, and with the current credentials. A call is never
//! repeated unless the server refused the credentials.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ETAG, HeaderMap, RETRY_AFTER};
use http::response::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use tidegate_cluster::{Backpressure, ClusterError, ErrorKind, check_write};
use tokio::time::Instant;

use crate::backpressure::{Monitor, SILENT_AFTER};
use crate::call::{APPLY_PATCH, Call};
use crate::connect_options::WATCH_DURATION;
use crate::error_message::format_error_chain;
use crate::identity;
use crate::identity_gate::was_withheld;
use crate::limit::Limiter;
use crate::response::{ApiResponse, CallSubject, parse_warnings};
use crate::transport::{Connections, GatedClient, Transport, WatchPermit};

/// Path that every server answers without authentication, and cheaply.
pub(crate) const VERSION: &str = "/version";
/// Maximum size of a response in bytes. A page of 500 objects of the largest size fits.
const RESPONSE_BYTES_MAX: usize = 1 << 30;
/// Maximum number of attempts for a bulk read when the server is overloaded.
const RETRY_ATTEMPTS_MAX: usize = 5;
/// First delay between attempts, unless the server requests one. It doubles with each attempt.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(100);

/// Maximum number of identity checks of new connections per call. Other calls may use up the checked
/// connections in the meantime.
const IDENTITY_CHECKS_MAX: usize = 16;

/// API server, with limits on its calls.
pub(crate) struct Server {
    transport: Transport,
    limiter: Limiter,
    monitor: Monitor,
    /// Locked while an unresponsive server is being probed.
    probe_lock: tokio::sync::Mutex<()>,
    call_timeout: Duration,
    watch_duration: Duration,
}

impl Server {
    pub(crate) fn new(transport: Transport, call_timeout: Duration, in_flight: usize) -> Self {
        let (limiter, monitor, probe_lock) =
            (Limiter::new(in_flight), Monitor::new(), tokio::sync::Mutex::new(()));
        Self { transport, limiter, monitor, probe_lock, call_timeout, watch_duration: WATCH_DURATION }
    }

    /// Sets the requested duration of watches.
    pub(crate) fn with_watch_duration(self, watch_duration: Duration) -> Self {
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

    /// Sends a call. Returns the response, whatever its status.
    pub(crate) async fn call(&self, call: &Call) -> Result<ApiResponse, ClusterError> {
        let link = self.transport.current_connections().await;
        let answer = self.call_limited(&link, call).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        if self.transport.renew(&link).await {
            return self.call_limited(&self.transport.connections(), call).await;
        }
        match self.transport.renewal_error() {
            Some(reason) => Err(ClusterError::new(ErrorKind::Unauthorized, reason)),
            None => Ok(answer),
        }
    }

    /// Sends one of many reads. If the server is overloaded, retries a few times after the requested delay.
    pub(crate) async fn call_with_retry(&self, call: &Call) -> Result<ApiResponse, ClusterError> {
        let mut wait = RETRY_DELAY_MIN;
        for _ in 1..RETRY_ATTEMPTS_MAX {
            let answer = self.call(call).await?;
            if answer.status != StatusCode::TOO_MANY_REQUESTS {
                return Ok(answer);
            }
            tokio::time::sleep(answer.requested_delay().unwrap_or(wait)).await;
            wait = wait.saturating_mul(2);
        }
        self.call(call).await
    }

    /// Returns the reason why calls are currently delayed.
    pub(crate) fn backpressure(&self) -> Option<Backpressure> {
        self.monitor.backpressure()
    }

    /// Probes a silent server from time to time, because an open watch can't tell a quiet server from a hung
    /// one. Any response will do. Runs until dropped.
    pub(crate) async fn probe_while_silent(&self) -> Infallible {
        loop {
            let due = self.monitor.last_response_at() + SILENT_AFTER;
            tokio::time::sleep_until(due).await;
            let _turn = self.probe_lock.lock().await;
            // Many watches go quiet at the same time. Check again under the lock, so that only one of them
            // probes.
            if self.monitor.last_response_at() + SILENT_AFTER <= Instant::now()
                && self.call(&Call::get(VERSION.to_owned())).await.is_err()
            {
                tokio::time::sleep(SILENT_AFTER).await;
            }
        }
    }

    async fn call_limited(&self, link: &Connections, call: &Call) -> Result<ApiResponse, ClusterError> {
        let permit = self.limiter.acquire(&call.request_key()).await;
        let answer = self.with_timeout(call, self.attempt(link, call)).await?;
        let too_many = answer.status == StatusCode::TOO_MANY_REQUESTS;
        // A refusal of one request, or a failure of the server behind one kind, doesn't affect other calls.
        match answer.retry_after.filter(|_| too_many || answer.status.is_server_error()) {
            Some(wait) if !answer.is_request_specific() => permit.record_overload(Some(wait)),
            _ if too_many => permit.record_overload(None),
            _ => permit.record_success(),
        }
        self.record_requested_delay(call, &answer);
        Ok(answer)
    }

    /// Delays identical requests from all callers by the requested time if the server is overloaded.
    fn record_requested_delay(&self, call: &Call, answer: &ApiResponse) {
        let too_many = answer.status == StatusCode::TOO_MANY_REQUESTS;
        let Some(wait) = answer.requested_delay().filter(|_| too_many) else { return };
        if answer.is_request_specific() {
            self.limiter.delay_request(call.request_key(), wait);
        } else {
            self.limiter.delay_all(wait);
        }
        // Don't quote the message: it may contain the request and isn't masked here.
        self.monitor.record_delay(wait, || format!("{} to {} {}", answer.status, call.method, call.path));
    }

    async fn attempt(&self, link: &Connections, call: &Call) -> Result<ApiResponse, ClusterError> {
        let started = Instant::now();
        self.collect_response(call, started, self.send(link.call_client(), call).await?).await
    }

    async fn collect_response(
        &self,
        call: &Call,
        started: Instant,
        response: Response<Body>,
    ) -> Result<ApiResponse, ClusterError> {
        self.monitor.record_response();
        let (head, body) = response.into_parts();
        let body = Limited::new(body, RESPONSE_BYTES_MAX).map_frame(|frame| {
            self.monitor.record_response();
            frame
        });
        let body = body.collect().await.map_err(|error| self.connection_error(call, &*error))?.to_bytes();
        Ok(build_response(&head, started.elapsed(), body))
    }

    /// Opens a short-lived stream.
    pub(crate) async fn open_stream(
        &self,
        call: &Call,
        about: CallSubject<'_>,
    ) -> Result<Body, ClusterError> {
        let permit = self.limiter.acquire(&call.request_key()).await;
        let response = self.send(self.transport.connections().call_client(), call).await?;
        permit.record_success();
        self.check_stream_response(call, about, response).await
    }

    /// Opens a watch. Only the start of the response has a timeout, and the watch takes no call permit.
    pub(crate) async fn open_watch(
        &self,
        call: &Call,
        about: CallSubject<'_>,
    ) -> Result<(Body, Option<WatchPermit>), ClusterError> {
        self.limiter.wait_until_allowed(&call.request_key()).await;
        let link = self.transport.current_connections().await;
        let (mut response, mut watch_permit) = self.with_timeout(call, self.send_watch(&link, call)).await?;
        if response.status() == StatusCode::UNAUTHORIZED && self.transport.renew(&link).await {
            let link = self.transport.connections();
            (response, watch_permit) = self.with_timeout(call, self.send_watch(&link, call)).await?;
        }
        self.monitor.record_response();
        Ok((self.with_timeout(call, self.check_stream_response(call, about, response)).await?, watch_permit))
    }

    /// Opens a stream without a timeout. The response starts only when there is content. The stream takes no
    /// call permit, and waiting for it doesn't mean that the server is unresponsive.
    pub(crate) async fn open_unlimited_stream(
        &self,
        call: &Call,
        about: CallSubject<'_>,
    ) -> Result<(Body, Option<WatchPermit>), ClusterError> {
        self.limiter.wait_until_allowed(&call.request_key()).await;
        let link = self.transport.current_connections().await;
        let (mut response, mut watch_permit) = self.send_watch(&link, call).await?;
        if response.status() == StatusCode::UNAUTHORIZED && self.transport.renew(&link).await {
            (response, watch_permit) = self.send_watch(&self.transport.connections(), call).await?;
        }
        self.monitor.record_response();
        // The body of a refusal is read completely, so it gets a timeout.
        Ok((self.with_timeout(call, self.check_stream_response(call, about, response)).await?, watch_permit))
    }

    /// Records that an open watch received data.
    pub(crate) fn record_activity(&self) {
        self.monitor.record_response();
    }

    async fn check_stream_response(
        &self,
        call: &Call,
        about: CallSubject<'_>,
        response: Response<Body>,
    ) -> Result<Body, ClusterError> {
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        let (head, body) = response.into_parts();
        let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await;
        let body = body.map_err(|error| self.connection_error(call, &*error))?.to_bytes();
        let answer = build_response(&head, Duration::ZERO, body);
        self.record_requested_delay(call, &answer);
        Err(answer.refusal_error(about))
    }

    /// Sends a request, but only to the expected cluster.
    async fn send(&self, gated_client: &GatedClient, call: &Call) -> Result<Response<Body>, ClusterError> {
        for _ in 0..IDENTITY_CHECKS_MAX {
            if let Some(reason) = self.transport.expected_cluster().blocked_reason() {
                return Err(ClusterError::new(ErrorKind::Unavailable, reason));
            }
            if !gated_client.gate.is_sure().await {
                self.confirm_identity(gated_client).await?;
            }
            if call.method != Method::GET {
                // The call may have waited for a long time.
                check_write()?;
            }
            match gated_client.client.send(self.build_request(call)?).await {
                // Not sent: the call needs a new connection. Open and check one, then retry.
                Err(error) if was_withheld(&error) => self.confirm_identity(gated_client).await?,
                sent => return sent.map_err(|error| self.send_error(call, error)),
            }
        }
        let text = format!("the server at {} closes connections as soon as they open", self.url());
        Err(ClusterError::new(ErrorKind::Unavailable, text))
    }

    /// Opens a connection and checks the cluster's identity.
    async fn confirm_identity(&self, gated_client: &GatedClient) -> Result<(), ClusterError> {
        let Some(expected) = self.transport.expected_cluster().identity() else { return Ok(()) };
        let check = gated_client.gate.begin_check().await;
        let (call, started) = (identity::identity_call()?, Instant::now());
        let sent = gated_client.client.send(self.build_request(&call)?).await;
        let response = sent.map_err(|error| self.send_error(&call, error))?;
        let answer = self.collect_response(&call, started, response).await?;
        match identity::parse_identity(&answer)? {
            Some(found) if found == expected => {
                check.confirm();
                Ok(())
            }
            Some(_) => {
                let text = format!("a different cluster responds at {}", self.url());
                self.transport.expected_cluster().set_blocked_reason(Some(text.clone()));
                Err(ClusterError::new(ErrorKind::Unavailable, text))
            }
            None => {
                let text = format!(
                    "cannot identify the cluster at {}: the kube-system namespace cannot be read",
                    self.url()
                );
                Err(ClusterError::new(ErrorKind::Unavailable, text))
            }
        }
    }

    async fn send_watch(
        &self,
        link: &Connections,
        call: &Call,
    ) -> Result<(Response<Body>, Option<WatchPermit>), ClusterError> {
        let (gated_client, watch_permit) = link.acquire_watch_client();
        Ok((self.send(gated_client, call).await?, watch_permit))
    }

    fn build_request(&self, call: &Call) -> Result<Request<Body>, ClusterError> {
        call.build_request().map_err(|error| {
            ClusterError::new(
                ErrorKind::Invalid,
                format!("cannot build the request for {}: {error}", call.path),
            )
        })
    }

    fn send_error(&self, call: &Call, error: kube::Error) -> ClusterError {
        match error {
            kube::Error::Auth(error) => {
                let text = format!("no credentials for {}: {}", self.url(), format_error_chain(&error));
                ClusterError::new(ErrorKind::Unauthorized, text)
            }
            other => self.connection_error(call, &other),
        }
    }

    pub(crate) async fn with_timeout<T>(
        &self,
        call: &Call,
        work: impl Future<Output = Result<T, ClusterError>>,
    ) -> Result<T, ClusterError> {
        let _sent = self.monitor.begin_call(format!("{} {}", call.method, call.path));
        tokio::time::timeout(self.call_timeout, work).await.unwrap_or_else(|_| {
            let maybe = if call.method == Method::GET { "" } else { "; the request may have taken effect" };
            let text = format!(
                "{} did not respond to {} {} within {:?}{maybe}",
                self.url(),
                call.method,
                call.path,
                self.call_timeout
            );
            Err(ClusterError::new(ErrorKind::Timeout, text))
        })
    }

    /// Returns the error for a connection that failed or closed too early.
    pub(crate) fn connection_error(&self, call: &Call, error: &(dyn StdError + 'static)) -> ClusterError {
        let client = find_http_client_error(error);
        // Report the innermost errors, because the outer ones name only the layer.
        let reason = format_error_chain(client.and_then(StdError::source).unwrap_or(error));
        if is_abort(error) {
            return ClusterError::new(ErrorKind::Server, self.aborted_message(call, &reason));
        }
        let text = if client.is_some_and(hyper_util::client::legacy::Error::is_connect) {
            let reason = reason.strip_prefix("tcp connect error: ").unwrap_or(&reason);
            format!("cannot reach the server at {}: {reason}", self.url())
        } else {
            let what = format!("{} {}", call.method, call.path);
            format!("the connection to {} was lost during {what}: {reason}", self.url())
        };
        ClusterError::new(ErrorKind::Unavailable, text)
    }

    fn aborted_message(&self, call: &Call, reason: &str) -> String {
        let hint = if call.content_type == APPLY_PATCH {
            "; if this keeps happening, the server cannot apply this kind: set ServerSideApply=false"
        } else {
            ""
        };
        format!("{} aborted {} {}: {reason}{hint}", self.url(), call.method, call.path)
    }
}

/// Returns true if the server aborted only this request, for example after a panic. The connection and other
/// requests are unaffected.
fn is_abort(error: &(dyn StdError + 'static)) -> bool {
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

fn find_http_client_error<'e>(
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

fn build_response(head: &Parts, duration: Duration, body: Bytes) -> ApiResponse {
    let (retry_after, warnings) = (parse_retry_after(&head.headers), parse_warnings(&head.headers));
    let etag = head.headers.get(ETAG).cloned();
    ApiResponse { status: head.status, retry_after, warnings, etag, duration, body }
}

/// Parses `Retry-After`. Supports only seconds, because Kubernetes never sends dates.
fn parse_retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
