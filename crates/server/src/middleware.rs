//! Middleware that runs before every route: authentication, rate limits, size limits and timeouts.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawPathParams, rejection::RawPathParamsRejection};
use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{Request, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tidegate_application::control_namespace;
use tokio::time::Instant;

use crate::access::{Access, Caller};
use crate::auth::{Authenticator, RequestOrigin};
use crate::forward::{self, FORWARDED, Forwarder, PeerTls, RoutedRequest};
use crate::headers::{CONTROL_NAMESPACE, single_header};
use crate::limits::Limits;
use crate::metrics::METRICS_PATH;
use crate::owner::Owner;
use crate::problem::{Code, Problem};
use crate::rate_limit::{RateLimiter, check_rate};
use crate::route::{CheckedRequest, Route};
use crate::server_state::ServerState;
use crate::tokens::AuthContext;
use crate::webhooks::Webhooks;

/// Rate limit key shared by all unauthenticated requests.
const SHARED_KEY: &str = "";
/// Header for resuming an event stream.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Middleware that runs before every route.
pub(crate) struct Middleware {
    pub state: Arc<ServerState>,
    authenticator: Arc<Authenticator>,
    webhooks: Webhooks,
    /// Client for the leader, if the service shares an operation log.
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
        let is_leader = *self.state.leader().borrow() == Owner::This;
        let is_forwarded = request.headers().contains_key(&FORWARDED);
        if is_leader {
            // A standby that others can reach must not give them the rights of local users.
            if is_forwarded && !self.authenticator.needs_authentication() {
                return Err(Problem {
                    next: "start all services of the shared log with `tidegate serve --tokens FILE` or `tidegate serve --oidc FILE`".to_owned(),
                    ..Problem::new(Code::Forbidden, "the leader accepts only local requests")
                });
            }
            return Ok(RoutedRequest::Local(request));
        }
        if is_forwarded {
            return Ok(RoutedRequest::Remote(forward::not_leader_response()));
        }
        if is_local(route) {
            return Ok(RoutedRequest::Local(request));
        }
        let now = Instant::now();
        let (headers, mut sender, mut body_permit) = (request.headers(), None, None);
        match route.access {
            Access::SignedRequest => {
                sender = Some(self.webhooks.identify_sender(headers, now)?);
                // Held until the response, because the body can be large.
                body_permit = Some(self.webhooks.acquire_body_permit().await?);
            }
            _ if headers.contains_key(header::AUTHORIZATION) => match self.authenticate(&request, now) {
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
        let (parts, body) = request.into_parts();
        let body = self.collect_body(body, limit).await?;
        if let Some(sender) = sender {
            sender.verify_body(&body)?;
        }
        let response = forwarder.forward(&self.state, parts, body, &self.limits).await;
        drop(body_permit);
        response
    }

    /// Checks regularly whether a standby can forward requests. Runs until it is dropped.
    pub async fn check_leader(&self) {
        if let Some(forwarder) = &self.forwarder {
            forwarder.check_leader(&self.state).await;
        }
    }

    /// Handles a request for a route.
    pub async fn handle_request(
        &self,
        route: &Route,
        names: Result<RawPathParams, RawPathParamsRejection>,
        request: Request<Body>,
    ) -> Result<Response<Body>, Problem> {
        let now = Instant::now();
        let (mut sender, mut is_let_in) = (None, true);
        let (caller, auth) = match route.access {
            Access::Probe => (Caller::anonymous(), AuthContext::anonymous()),
            Access::SignedRequest => {
                sender = Some(self.webhooks.identify_sender(request.headers(), now)?);
                (Caller::anonymous(), AuthContext::anonymous())
            }
            Access::Public => {
                self.count_unauthenticated(now)?;
                (Caller::anonymous(), AuthContext::anonymous())
            }
            Access::OptionalAuth => match self.authenticate(&request, now) {
                Err(problem) if problem.code == Code::Unauthorized => {
                    is_let_in = false;
                    (Caller::anonymous(), AuthContext::anonymous())
                }
                known => known?,
            },
            Access::RequiresRole(role) => {
                let (by, pass) = self.authenticate(&request, now)?;
                check_rate(self.total_limiter.count_request(SHARED_KEY, now))?;
                if by.role < role {
                    let message = format!("the operator role is required: {}", route.summary);
                    return Err(self.forbidden_problem(message));
                }
                (by, pass)
            }
        };
        let names = names.map_err(|error| Problem::bad_request(error.to_string()))?;
        let path_parameters = names.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let last_event = single_header(request.headers(), &LAST_EVENT_ID)?;
        let query = request.uri().query().map(str::to_owned);
        let origin = RequestOrigin::new(&self.authenticator, request.headers(), is_let_in);
        let body = match &sender {
            Some(sender) => {
                let _place = self.webhooks.acquire_body_permit().await?;
                let body = self.read_body(request, self.limits.webhook_bytes).await?;
                sender.verify_body(&body)?;
                body
            }
            None if route.body.is_some() => self.read_body(request, self.limits.body_bytes).await?,
            None => Bytes::new(),
        };
        let operation_request = CheckedRequest {
            state: Arc::clone(&self.state),
            path_parameters,
            query,
            body,
            caller,
            auth,
            origin,
            last_event,
            sender,
        };
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
        }
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

    fn authenticate(&self, request: &Request<Body>, now: Instant) -> Result<(Caller, AuthContext), Problem> {
        match self.authenticator.authenticate(request.method(), request.headers(), now) {
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

    async fn read_body(&self, request: Request<Body>, limit: usize) -> Result<Bytes, Problem> {
        let media = single_header(request.headers(), &header::CONTENT_TYPE)?.unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default().trim();
        // Require the type even for an empty body, because a foreign page in a browser can't set it without a
        // preflight request.
        if !media.eq_ignore_ascii_case("application/json") {
            return Err(Problem::new(Code::NotJson, format!("unsupported Content-Type {media:?}")));
        }
        self.collect_body(request.into_body(), limit).await
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
