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
use crate::entrance::{Entrance, Visit};
use crate::limits::Limits;
use crate::page;
use crate::problem::{Code, Problem};
use crate::rate::Gauge;
use crate::route::{Asked, Route};
use crate::site::Site;
use crate::tokens::Pass;
use crate::webhooks::Webhooks;

/// Under this name the requests of everybody are counted.
const EVERYBODY: &str = "";
/// The header by which somebody goes on with a stream of events.
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// What stands before every route.
pub(crate) struct Front {
    pub site: Arc<Site>,
    entrance: Arc<Entrance>,
    webhooks: Webhooks,
    limits: Limits,
    all: Gauge,
    each: Gauge,
    strangers: Gauge,
    visitors: Gauge,
}

impl Front {
    pub fn new(site: Arc<Site>, (entrance, webhooks): (Entrance, Webhooks), limits: Limits) -> Self {
        let rates = [limits.all, limits.each, limits.strangers, limits.visitors];
        let [all, each, strangers, visitors] = rates.map(Gauge::new);
        Self { site, entrance: Arc::new(entrance), webhooks, limits, all, each, strangers, visitors }
    }

    /// The answer of a route to a request.
    async fn answer(
        &self,
        route: &Route,
        names: Result<RawPathParams, RawPathParamsRejection>,
        request: Request<Body>,
    ) -> Result<Response<Body>, Problem> {
        let now = Instant::now();
        let (mut sender, mut is_let_in) = (None, true);
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
            Access::Anybody => match self.caller(&request, now) {
                Err(problem) if problem.code == Code::Unauthorized => {
                    is_let_in = false;
                    (Caller::unnamed(), Pass::open())
                }
                known => known?,
            },
            Access::Needs(role) => {
                let (by, pass) = self.caller(&request, now)?;
                often(self.all.count(EVERYBODY, now))?;
                if by.role < role {
                    let message = format!("this asks for the role operator: {}", route.summary);
                    return Err(self.forbidden(message));
                }
                (by, pass)
            }
        };
        let names = names.map_err(|error| Problem::bad(error.to_string()))?;
        let names = names.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let last_event = text(request.headers(), &LAST_EVENT)?;
        let query = request.uri().query().map(str::to_owned);
        let visit = Visit::new(&self.entrance, request.headers(), is_let_in);
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
        let asked =
            Asked { site: Arc::clone(&self.site), names, query, body, by, pass, visit, last_event, sender };
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
        match self.entrance.asks() {
            true => problem,
            false => Problem {
                next: "start `tidegate serve` with --tokens FILE or --oidc FILE: without them the API can be read only"
                    .to_owned(),
                ..problem
            },
        }
    }

    /// Who asks.
    fn caller(&self, request: &Request<Body>, now: Instant) -> Result<(Caller, Pass), Problem> {
        match self.entrance.caller(request.method(), request.headers(), now) {
            Ok((by, pass)) => {
                if self.entrance.asks() {
                    often(self.each.count(&by.name, now))?;
                }
                Ok((by, pass))
            }
            // What makes no sense is told to everybody.
            Err(problem) if problem.code == Code::BadRequest => Err(problem),
            Err(problem) => Err(self.stranger(now).err().unwrap_or(problem)),
        }
    }

    /// Counts a file of the page that somebody asks for, who need not be known.
    pub fn visitor(&self, now: Instant) -> Result<(), Problem> {
        often(self.visitors.count(EVERYBODY, now))
    }

    async fn body(&self, request: Request<Body>, limit: usize) -> Result<Bytes, Problem> {
        let media = text(request.headers(), &header::CONTENT_TYPE)?.unwrap_or_default();
        let media = media.split(';').next().unwrap_or_default().trim();
        // Also of an empty body: a page in somebody's browser cannot send this without being asked first.
        if !media.eq_ignore_ascii_case("application/json") {
            return Err(Problem::new(
                Code::NotJson,
                format!("the header Content-Type is {media:?}, and application/json is taken"),
            ));
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

pub(crate) fn answered(answer: Result<Response<Body>, Problem>) -> Response<Body> {
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
    let router = page::add(router, front);
    let (nowhere, elsewise) = (Arc::clone(front), Arc::clone(front));
    let none = move |request: Request<Body>| async move {
        let counted = nowhere.stranger(Instant::now());
        let missing =
            || Problem::new(Code::NotFound, format!("there is nothing at {}", request.uri().path()));
        match counted {
            Ok(()) if page::is_opened(&request) => answered(Ok(page::nowhere())),
            counted => answered(Err(counted.err().unwrap_or_else(missing))),
        }
    };
    let other_method = move |request: Request<Body>| async move {
        let counted = elsewise.stranger(Instant::now());
        let message = format!("{} cannot be done to {}", request.method(), request.uri().path());
        answered(Err(counted.err().unwrap_or_else(|| Problem::new(Code::MethodNotAllowed, message))))
    };
    router.fallback(none).method_not_allowed_fallback(other_method)
}
