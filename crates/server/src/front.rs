//! What stands before every route: who asks, how often, how much, and for how long they are answered.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, rejection::RawPathParamsRejection};
use axum::routing::{MethodFilter, on};
use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::time::Instant;

use crate::access::{Access, Caller};
use crate::limits::Limits;
use crate::problem::{Code, Problem};
use crate::rate::Gauge;
use crate::route::{Asked, Route};
use crate::site::Site;
use crate::tokens::{Pass, Tokens};
use crate::webhooks::Webhooks;

/// Under this name the requests of everybody are counted.
const EVERYBODY: &str = "";
/// The header by which somebody goes on with a stream of events.
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// What stands before every route.
pub(crate) struct Front {
    site: Arc<Site>,
    /// `None` where those on this machine may look without.
    tokens: Option<Arc<Tokens>>,
    webhooks: Webhooks,
    limits: Limits,
    all: Gauge,
    each: Gauge,
    strangers: Gauge,
}

impl Front {
    pub fn new(site: Arc<Site>, (tokens, webhooks): (Option<Tokens>, Webhooks), limits: Limits) -> Self {
        let [all, each, strangers] = [limits.all, limits.each, limits.strangers].map(Gauge::new);
        let tokens = tokens.map(Arc::new);
        Self { site, tokens, webhooks, limits, all, each, strangers }
    }

    /// The answer of a route to a request.
    async fn answer(
        &self,
        route: &Route,
        names: Result<RawPathParams, RawPathParamsRejection>,
        request: Request<Body>,
    ) -> Result<Response<Body>, Problem> {
        let now = Instant::now();
        let mut sender = None;
        let (by, pass) = match route.access {
            Access::Probe => (Caller::unnamed(), Pass::open()),
            Access::Signed => {
                sender = Some(self.webhooks.sender(request.headers(), now)?);
                (Caller::unnamed(), Pass::open())
            }
            Access::Open => {
                self.stranger(now)?;
                (Caller::unnamed(), Pass::open())
            }
            Access::Needs(role) => {
                let (by, pass) = self.caller(request.headers(), now)?;
                often(self.all.count(EVERYBODY, now))?;
                if by.role < role {
                    let message = format!("{} asks for the role operator", route.summary);
                    return Err(self.forbidden(message));
                }
                (by, pass)
            }
        };
        let names = names.map_err(|error| Problem::bad(error.to_string()))?;
        let names = names.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let last_event = text(request.headers(), &LAST_EVENT)?;
        let query = request.uri().query().map(str::to_owned);
        let body = match &sender {
            Some(sender) => {
                let _place = self.webhooks.place().await?;
                let body = self.body(request, self.limits.webhook_bytes).await?;
                sender.prove(&body)?;
                body
            }
            None if route.body.is_some() => self.body(request, self.limits.body_bytes).await?,
            None => Bytes::new(),
        };
        let asked = Asked { site: Arc::clone(&self.site), names, query, body, by, pass, last_event, sender };
        match tokio::time::timeout(self.limits.answer_within, route.answer(asked)).await {
            Ok(answer) => answer,
            Err(_) => {
                let limit = self.limits.answer_within.as_secs();
                Err(Problem::new(Code::NoAnswer, format!("there was no answer within {limit} s")))
            }
        }
    }

    /// Counts a request of somebody who is not known. Those who are, are kept out by none of these.
    fn stranger(&self, now: Instant) -> Result<(), Problem> {
        often(self.strangers.count(EVERYBODY, now))
    }

    fn forbidden(&self, message: String) -> Problem {
        let problem = Problem::new(Code::Forbidden, message);
        match self.tokens {
            Some(_) => problem,
            None => Problem {
                next: "start `tidegate serve` with --tokens FILE: without tokens the API can be read only"
                    .to_owned(),
                ..problem
            },
        }
    }

    /// Who asks.
    fn caller(&self, headers: &HeaderMap, now: Instant) -> Result<(Caller, Pass), Problem> {
        let Some(tokens) = &self.tokens else {
            if let Err(problem) = at_home(headers) {
                return Err(self.stranger(now).err().unwrap_or(problem));
            }
            return Ok((Caller::unnamed(), Pass::open()));
        };
        let given = text(headers, &header::AUTHORIZATION)?;
        let token = given.as_deref().and_then(|given| given.split_once(' '));
        let token =
            token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        let Some((by, pass)) = token.and_then(|token| tokens.caller(token, now)) else {
            self.stranger(now)?;
            let message =
                if given.is_none() { "this needs a token" } else { "the token does not count here" };
            return Err(Problem::new(Code::Unauthorized, message));
        };
        often(self.each.count(&by.name, now))?;
        Ok((by, pass))
    }

    async fn body(&self, request: Request<Body>, limit: usize) -> Result<Bytes, Problem> {
        let media = text(request.headers(), &header::CONTENT_TYPE)?.unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default().trim();
        // Also of an empty body: a page in somebody's browser cannot send this without being asked first.
        if !media.eq_ignore_ascii_case("application/json") {
            return Err(Problem::new(Code::NotJson, format!("the body is {media:?}, and JSON is taken")));
        }
        let reading = Limited::new(request.into_body(), limit).collect();
        match tokio::time::timeout(self.limits.body_within, reading).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                Err(Problem::new(Code::TooLarge, format!("the body is longer than {limit} bytes")))
            }
            Ok(Err(_)) => Err(Problem::bad("the body ended before its end")),
            Err(_) => Err(Problem::new(Code::TooSlow, "the body did not come in time")),
        }
    }
}

pub(crate) fn often(counted: Result<(), Duration>) -> Result<(), Problem> {
    counted.map_err(|wait| Problem::new(Code::TooOften, "there were too many requests").after(wait))
}

/// A header that may be there once.
pub(crate) fn text(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() {
        return Err(Problem::bad(format!("the header {name} is there more than once")));
    }
    let read = |value: &HeaderValue| value.to_str().map(str::to_owned);
    value.map(read).transpose().map_err(|_| Problem::bad(format!("the header {name} is no text")))
}

/// Without tokens, only those are answered who know where they are: a page of elsewhere whose name was made to lead here
/// names itself as the host.
fn at_home(headers: &HeaderMap) -> Result<(), Problem> {
    let host = text(headers, &header::HOST)?.unwrap_or_default();
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name),
    };
    if is_here(name) {
        return Ok(());
    }
    Err(Problem {
        next: "ask at 127.0.0.1 or localhost, or start `tidegate serve` with --tokens FILE".to_owned(),
        ..Problem::new(Code::Forbidden, format!("the host {host:?} is not this machine"))
    })
}

/// Whether a host, without brackets and port, is this machine.
pub(crate) fn is_here(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// What every answer says to browsers: that it is data, for nobody else, and not to be kept.
const FOR_BROWSERS: [(HeaderName, HeaderValue); 4] = [
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

fn answered(answer: Result<Response<Body>, Problem>) -> Response<Body> {
    let mut answer = answer.unwrap_or_else(|problem| problem.answer());
    for (name, value) in FOR_BROWSERS {
        answer.headers_mut().entry(name).or_insert(value);
    }
    answer
}

/// The router of a table of routes.
pub(crate) fn router(front: &Arc<Front>, routes: Vec<Route>) -> Router {
    let mut router = Router::new();
    for route in routes {
        let (path, route, front) = (route.path, Arc::new(route), Arc::clone(front));
        // The table has no other methods.
        let Ok(filter) = MethodFilter::try_from(route.method.clone()) else { continue };
        let answer = move |names: Result<RawPathParams, RawPathParamsRejection>, request: Request<Body>| async move {
            let answer = answered(front.answer(&route, names, request).await);
            front.site.metrics.answered(route.id, answer.status().as_u16());
            answer
        };
        router = router.route(path, on(filter, answer));
    }
    let (nowhere, elsewise) = (Arc::clone(front), Arc::clone(front));
    let none = move |request: Request<Body>| async move {
        let counted = nowhere.stranger(Instant::now());
        let missing =
            || Problem::new(Code::NotFound, format!("there is nothing at {}", request.uri().path()));
        answered(Err(counted.err().unwrap_or_else(missing)))
    };
    let other_method = move |request: Request<Body>| async move {
        let counted = elsewise.stranger(Instant::now());
        let message = format!("{} cannot be done to {}", request.method(), request.uri().path());
        answered(Err(counted.err().unwrap_or_else(|| Problem::new(Code::MethodNotAllowed, message))))
    };
    router.fallback(none).method_not_allowed_fallback(other_method)
}
