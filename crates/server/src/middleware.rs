//! Middleware that runs before every route: authentication, rate limits, size limits and timeouts.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawPathParams, rejection::RawPathParamsRejection};
use bytes::Bytes;
use futures_util::future::join_all;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tidegate_application::control_namespace;
use tokio::time::Instant;

use crate::access::{Access, Caller};
use crate::auth::{Authenticator, RequestOrigin};
use crate::forward::{self, FORWARDED, Forwarder, PeerTls, RETRY_DELAY, RoutedRequest};
use crate::headers::{CONTROL_NAMESPACE, single_header};
use crate::limits::Limits;
use crate::merged_events::merge_events;
use crate::metrics::METRICS_PATH;
use crate::problem::{Code, Problem};
use crate::rate_limit::{RateLimiter, check_rate};
use crate::route::{CheckedRequest, Route};
use crate::routes::EVENTS_PATH;
use crate::server_state::ServerState;
use crate::tokens::AuthContext;
use crate::webhooks::{WEBHOOK_PATH, Webhooks};

/// Rate limit key shared by all unauthenticated requests.
const SHARED_KEY: &str = "";
/// Header for resuming an event stream.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Middleware that runs before every route.
pub(crate) struct Middleware {
    pub state: Arc<ServerState>,
    authenticator: Arc<Authenticator>,
    webhooks: Webhooks,
    /// Client for other services, if the service shares an operation log.
    forwarder: Option<Forwarder>,
    limits: Limits,
    total_limiter: RateLimiter,
    caller_limiter: RateLimiter,
    unauthenticated_limiter: RateLimiter,
    page_limiter: RateLimiter,
    /// Limits requests with a cookie, which a standby forwards without having checked it.
    session_limiter: RateLimiter,
}

impl Middleware {
    pub fn new(
        state: Arc<ServerState>,
        authenticator: Authenticator,
        webhooks: Webhooks,
        peer_tls: Option<PeerTls>,
        limits: Limits,
    ) -> Self {
        let Limits { total_rate, caller_rate, unauthenticated_rate, page_rate, .. } = limits;
        let rates = [total_rate, caller_rate, unauthenticated_rate, page_rate, page_rate];
        let [total_limiter, caller_limiter, unauthenticated_limiter, page_limiter, session_limiter] =
            rates.map(RateLimiter::new);
        Self {
            state,
            authenticator: Arc::new(authenticator),
            webhooks,
            forwarder: peer_tls.map(Forwarder::new),
            limits,
            total_limiter,
            caller_limiter,
            unauthenticated_limiter,
            page_limiter,
            session_limiter,
        }
    }

    /// Forwards a request to the leader if this service is a standby. Otherwise, returns it.
    pub async fn forward_if_standby(&self, route: &Route, request: Request<Body>) -> RoutedRequest {
        let response = match self.forward_request(route, request).await {
            Ok(RoutedRequest::Local(request)) => return RoutedRequest::Local(request),
            Ok(RoutedRequest::Remote(response)) => finish_response(Ok(response)),
            Err(problem) => finish_response(Err(problem)),
        };
        self.state.metrics.count_forwarded(response.status().as_u16());
        RoutedRequest::Remote(response)
    }

    async fn forward_request(&self, route: &Route, request: Request<Body>) -> Result<RoutedRequest, Problem> {
        let Some(forwarder) = &self.forwarder else { return Ok(RoutedRequest::Local(request)) };
        let is_forwarded = request.headers().contains_key(&FORWARDED);
        if self.state.handles_requests() {
            // A standby that others can reach must not give them the rights of local users.
            if is_forwarded && !self.authenticator.needs_authentication() {
                return Err(Problem {
                    next: "start all services of the shared log with `tidegate serve --tokens FILE` or `tidegate serve --oidc FILE`".to_owned(),
                    ..Problem::new(Code::Forbidden, "this service accepts only local requests")
                });
            }
            return Ok(RoutedRequest::Local(request));
        }
        if is_forwarded {
            return Ok(RoutedRequest::Remote(forward::not_owner_response()));
        }
        if is_local(route) {
            return Ok(RoutedRequest::Local(request));
        }
        let now = Instant::now();
        let (parts, body) = request.into_parts();
        let (headers, mut sender, mut body_permit) = (&parts.headers, None, None);
        match route.access {
            Access::SignedRequest => {
                sender = Some(self.webhooks.identify_sender(headers, now)?);
                // Held until the response, because the body can be large.
                body_permit = Some(self.webhooks.acquire_body_permit().await?);
            }
            _ if headers.contains_key(header::AUTHORIZATION) => match self.authenticate(&parts, now) {
                Ok(_) => check_rate(self.total_limiter.count_request(SHARED_KEY, now))?,
                // The leader decides, because its token file may be newer.
                Err(problem) if problem.code == Code::Unauthorized => {}
                Err(problem) => return Err(problem),
            },
            // Only the leader can check sessions.
            _ if headers.contains_key(header::COOKIE) => {
                check_rate(self.session_limiter.count_request(SHARED_KEY, now))?;
            }
            _ => self.count_unauthenticated(now)?,
        }
        let limit = if sender.is_some() { self.limits.webhook_bytes } else { self.limits.body_bytes };
        let body = self.collect_body(body, limit).await?;
        if let Some(sender) = sender {
            sender.verify_body(&body)?;
        }
        let leader = self.state.leader();
        let response = forwarder.forward(&self.state, leader, parts, body, &self.limits).await;
        drop(body_permit);
        response
    }

    /// Checks regularly whether a standby can forward requests. Runs until it is dropped.
    pub async fn check_leader(&self) {
        if let Some(forwarder) = &self.forwarder {
            forwarder.check_leader(&self.state).await;
        }
    }

    /// Handles a request for a route. If another service owns the shard that the request is about, that service handles
    /// it.
    pub async fn handle_request(
        &self,
        route: &Route,
        names: Result<RawPathParams, RawPathParamsRejection>,
        mut request: Request<Body>,
    ) -> Response<Body> {
        let names = match names {
            Ok(names) => Ok(names.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()),
            Err(error) => Err(Problem::bad_request(error.to_string())),
        };
        let deadline = Instant::now() + self.limits.leader_timeout;
        loop {
            let (parts, body) = request.into_parts();
            let (answer, body) = match self.handle_here(route, &names, &parts, body).await {
                Ok((answer, body)) => (answer, body),
                Err(problem) => (Err(problem), Bytes::new()),
            };
            let shard = answer.as_ref().err().and_then(|problem| problem.other_shard);
            let (Some(shard), Some(forwarder)) = (shard, &self.forwarder) else {
                let answer = match answer {
                    Ok(response) => self.involve_others(route, &parts, body, response).await,
                    Err(problem) => Err(problem),
                };
                let answer = finish_response(answer);
                self.state.metrics.count_response(route.id, answer.status().as_u16());
                return answer;
            };
            if parts.headers.contains_key(&FORWARDED) {
                return finish_response(Ok(forward::not_owner_response()));
            }
            let owner = self.state.shard_owner(shard);
            let forwarded = match forwarder.forward(&self.state, owner, parts, body, &self.limits).await {
                // This service has just become the owner, or is about to hand the shard over.
                Ok(RoutedRequest::Local(again)) if Instant::now() < deadline => {
                    tokio::time::sleep(RETRY_DELAY).await;
                    request = again;
                    continue;
                }
                Ok(RoutedRequest::Local(_)) => answer,
                Ok(RoutedRequest::Remote(response)) => Ok(response),
                Err(problem) => Err(problem),
            };
            let response = finish_response(forwarded);
            self.state.metrics.count_forwarded(response.status().as_u16());
            return response;
        }
    }

    /// Sends a webhook event to the other services that share the work, and adds their events to an event stream.
    async fn involve_others(
        &self,
        route: &Route,
        parts: &Parts,
        body: Bytes,
        response: Response<Body>,
    ) -> Result<Response<Body>, Problem> {
        let forwarder = match &self.forwarder {
            Some(forwarder) if !parts.headers.contains_key(&FORWARDED) => forwarder,
            _ => return Ok(response),
        };
        let send = |name: String, address: Option<Uri>| {
            let (forwarder, parts, body) = (forwarder.clone(), parts.clone(), body.clone());
            async move {
                let sent = match &address {
                    Some(address) => forwarder.send_once(address, &parts, body).await,
                    None => Err("has no usable address".to_owned()),
                };
                sent.map_err(|reason| format!("another service ({name}) {reason}"))
            }
        };
        match route.path {
            WEBHOOK_PATH => {
                for (name, address) in self.state.other_services() {
                    let sending = send(name, address);
                    // A service that misses the event finds the change at its next regular comparison.
                    tokio::spawn(async move {
                        if let Err(reason) = sending.await {
                            tracing::warn!("cannot forward a webhook event: {reason}");
                        }
                    });
                }
                Ok(response)
            }
            EVENTS_PATH => {
                let others = self.state.other_services();
                if others.is_empty() {
                    return Ok(response);
                }
                let changed = self.state.wait_for_other_services(others.clone());
                let (head, own) = response.into_parts();
                let mut streams = vec![own];
                let opened = join_all(others.into_iter().map(|(name, address)| send(name, address))).await;
                for stream in opened {
                    let stream = stream.map_err(|reason| {
                        Problem::new(
                            Code::NotReady,
                            format!("the events of all services are not available: {reason}"),
                        )
                        .with_retry_after(RETRY_DELAY)
                    });
                    streams.push(stream?);
                }
                Ok(Response::from_parts(head, merge_events(streams, changed)))
            }
            _ => Ok(response),
        }
    }

    /// Handles a request for a route at this service. Returns the response, and the body of the request.
    async fn handle_here(
        &self,
        route: &Route,
        names: &Result<Vec<(String, String)>, Problem>,
        parts: &Parts,
        body: Body,
    ) -> Result<(Result<Response<Body>, Problem>, Bytes), Problem> {
        let now = Instant::now();
        let (mut sender, mut is_let_in) = (None, true);
        let (caller, auth) = match route.access {
            Access::Probe => (Caller::anonymous(), AuthContext::anonymous()),
            Access::SignedRequest => {
                sender = Some(self.webhooks.identify_sender(&parts.headers, now)?);
                (Caller::anonymous(), AuthContext::anonymous())
            }
            Access::Public => {
                self.count_unauthenticated(now)?;
                (Caller::anonymous(), AuthContext::anonymous())
            }
            Access::OptionalAuth => match self.authenticate(parts, now) {
                Err(problem) if problem.code == Code::Unauthorized => {
                    is_let_in = false;
                    (Caller::anonymous(), AuthContext::anonymous())
                }
                known => known?,
            },
            Access::RequiresRole(role) => {
                let (by, pass) = self.authenticate(parts, now)?;
                check_rate(self.total_limiter.count_request(SHARED_KEY, now))?;
                if by.role < role {
                    let message = format!("the operator role is required: {}", route.summary);
                    return Err(self.forbidden_problem(message));
                }
                (by, pass)
            }
        };
        let path_parameters = names.clone()?;
        let last_event = single_header(&parts.headers, &LAST_EVENT_ID)?;
        let query = parts.uri.query().map(str::to_owned);
        let origin = RequestOrigin::new(&self.authenticator, &parts.headers, is_let_in);
        let body = match &sender {
            Some(sender) => {
                let _place = self.webhooks.acquire_body_permit().await?;
                let body = self.read_body(parts, body, self.limits.webhook_bytes).await?;
                sender.verify_body(&body)?;
                body
            }
            None if route.body.is_some() => self.read_body(parts, body, self.limits.body_bytes).await?,
            None => Bytes::new(),
        };
        let operation_request = CheckedRequest {
            state: Arc::clone(&self.state),
            path_parameters,
            query,
            body: body.clone(),
            caller,
            auth,
            origin,
            last_event,
            sender,
        };
        let answer =
            match tokio::time::timeout(self.limits.response_timeout, route.handle(operation_request)).await {
                Ok(answer) if route.access.identifies_callers() && is_let_in => answer.map(|mut answer| {
                    // All characters of a namespace are valid in a header.
                    let namespace = HeaderValue::from_str(control_namespace()).ok();
                    answer.headers_mut().extend(namespace.map(|namespace| (CONTROL_NAMESPACE, namespace)));
                    answer
                }),
                Ok(answer) => answer,
                Err(_) => {
                    let limit = self.limits.response_timeout.as_secs();
                    Err(Problem::new(Code::NoAnswer, format!("no response within {limit} s")))
                }
            };
        Ok((answer, body))
    }

    /// Counts an unauthenticated request. The limit for these doesn't affect authenticated callers.
    pub fn count_unauthenticated(&self, now: Instant) -> Result<(), Problem> {
        check_rate(self.unauthenticated_limiter.count_request(SHARED_KEY, now))
    }

    fn forbidden_problem(&self, message: String) -> Problem {
        let problem = Problem::new(Code::Forbidden, message);
        match self.authenticator.needs_authentication() {
            true => problem,
            false => Problem {
                next: "start `tidegate serve` with --tokens FILE or --oidc FILE: without them the API is read-only"
                    .to_owned(),
                ..problem
            },
        }
    }

    fn authenticate(&self, parts: &Parts, now: Instant) -> Result<(Caller, AuthContext), Problem> {
        match self.authenticator.authenticate(&parts.method, &parts.headers, now) {
            Ok((by, pass)) => {
                if self.authenticator.needs_authentication() {
                    check_rate(self.caller_limiter.count_request(&by.name, now))?;
                }
                Ok((by, pass))
            }
            // Malformed requests get an error response before authentication.
            Err(problem) if problem.code == Code::BadRequest => Err(problem),
            Err(problem) => Err(self.count_unauthenticated(now).err().unwrap_or(problem)),
        }
    }

    /// Counts a request for a page file, which doesn't require authentication.
    pub fn count_page_request(&self, now: Instant) -> Result<(), Problem> {
        check_rate(self.page_limiter.count_request(SHARED_KEY, now))
    }

    async fn read_body(&self, parts: &Parts, body: Body, limit: usize) -> Result<Bytes, Problem> {
        let media = single_header(&parts.headers, &header::CONTENT_TYPE)?.unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default().trim();
        // Require the type even for an empty body, because a foreign page in a browser can't set it without a
        // preflight request.
        if !media.eq_ignore_ascii_case("application/json") {
            return Err(Problem::new(Code::NotJson, format!("unsupported Content-Type {media:?}")));
        }
        self.collect_body(body, limit).await
    }

    async fn collect_body(&self, body: Body, limit: usize) -> Result<Bytes, Problem> {
        // The length in the head has already been checked, but a chunked body has none.
        let reading = Limited::new(body, limit).collect();
        match tokio::time::timeout(self.limits.body_timeout, reading).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large_problem(limit)),
            Ok(Err(_)) => Err(Problem::bad_request("the body is incomplete")),
            Err(_) => Err(Problem::new(Code::TooSlow, "the body did not arrive in time")),
        }
    }
}

/// Returns true if requests for a route concern the process, so that a standby handles them itself.
fn is_local(route: &Route) -> bool {
    matches!(route.access, Access::Probe) || route.path == METRICS_PATH
}

/// Returns the problem for an oversized body.
pub(crate) fn too_large_problem(limit: usize) -> Problem {
    Problem::new(Code::TooLarge, format!("the body is longer than {limit} bytes"))
}

/// Security headers for every response, which is private data and must not be cached.
const SECURITY_HEADERS: [(HeaderName, HeaderValue); 4] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

pub(crate) fn finish_response(answer: Result<Response<Body>, Problem>) -> Response<Body> {
    let mut answer = answer.unwrap_or_else(|problem| problem.to_response());
    for (name, value) in SECURITY_HEADERS {
        answer.headers_mut().entry(name).or_insert(value);
    }
    answer
}
