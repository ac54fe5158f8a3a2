//! The way of a browser to an OpenID provider and back.

use std::sync::Arc;

use axum::body::Body;
use http::header::{HeaderValue, LOCATION, SET_COOKIE};
use http::{Response, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;

use crate::oidc::{CALLBACK, Came, Oidc, Trouble};
use crate::problem::{Code, Problem};
use crate::question::Question;
use crate::route::{Answer, Call, Route, pass_through};

const BEGIN: &str = "/api/v1/session/oidc";

/// The rows of the table that are about signing in with a provider.
pub(super) fn routes() -> Vec<Route> {
    let begin_words = (BEGIN, "beginSignIn", "Send a browser to the provider, to sign in there");
    let back_words =
        (CALLBACK, "endSignIn", "Where the provider sends a browser back to: it opens a session");
    vec![
        pass_through(begin_words, Question::new(), begin),
        pass_through(back_words, Question::foreign(), come_back),
    ]
}

/// What somebody wants who begins.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct BeginQuery {
    /// The view to be seen afterwards: a path of the page, such as /operations. Anything else leads to the first one.
    next: Option<String>,
}

async fn begin(call: Call<BeginQuery>) -> Answer {
    let visit = &call.visit;
    let oidc = provider(&call)?;
    if visit.is_sent {
        return Ok(Trouble::Foreign.answer());
    }
    let asked = (visit.host.as_str(), visit.entrance.is_tls());
    match oidc.begin(asked, call.query.next.as_deref(), Instant::now()).await {
        Ok(begun) => {
            let mut answer = sent_to(&begun.location)?;
            let kept = visit.entrance.depart(begun.is_secure, &begun.browser);
            answer.headers_mut().extend(kept.map(|cookie| (SET_COOKIE, cookie)));
            Ok(answer)
        }
        Err(trouble) => Ok(refused(&trouble)),
    }
}

/// What a provider sends a browser back with.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
struct Back {
    /// What the provider gives an ID token for.
    code: Option<String>,
    /// What the browser was sent off with.
    state: Option<String>,
    /// Why there is no code.
    error: Option<String>,
    /// Which provider it is.
    iss: Option<String>,
}

async fn come_back(call: Call<Back>) -> Answer {
    let oidc = provider(&call)?;
    let (entrance, now) = (&call.visit.entrance, Instant::now());
    let Back { code, state, error, iss: issuer } = call.query;
    let came = Came { code, state, error, issuer };
    let mut answer = match oidc.finish(&came, call.visit.traveller.as_deref(), now).await {
        // Whoever sends a browser here with a word of their own ends nothing.
        Err(trouble @ (Trouble::Over | Trouble::Busy)) => return Ok(refused(&trouble)),
        Err(trouble) => refused(&trouble),
        Ok(welcome) => {
            let signed_in =
                entrance.admit(welcome.person, oidc.lasts(), welcome.is_secure, Instant::now())?;
            tracing::info!(name = signed_in.caller.name, role = ?signed_in.caller.role, "somebody has signed in");
            let mut answer = sent_to(&welcome.next)?;
            answer.headers_mut().extend(signed_in.cookie.map(|cookie| (SET_COOKIE, cookie)));
            answer
        }
    };
    for cookie in entrance.arrive().into_iter().flatten() {
        answer.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(answer)
}

fn provider<Q>(call: &Call<Q>) -> Result<Arc<Oidc>, Problem> {
    let none = || Problem {
        next: "sign in with a token, or start `tidegate serve` with --oidc FILE".to_owned(),
        ..Problem::new(Code::NotFound, "nobody signs in with a provider here")
    };
    call.visit.entrance.oidc().map(Arc::clone).ok_or_else(none)
}

/// Tells those who run the service, too, where it is for them to do something.
fn refused(trouble: &Trouble) -> Response<Body> {
    match trouble {
        Trouble::Fault { .. } | Trouble::Nameless { .. } | Trouble::Mistaken { .. } => {
            tracing::warn!(%trouble, "somebody cannot sign in");
        }
        trouble => tracing::info!(%trouble, "somebody cannot sign in"),
    }
    trouble.answer()
}

fn sent_to(location: &str) -> Answer {
    let unfit =
        |_| Problem::new(Code::Internal, "the address of the provider has characters that no address has");
    let location = HeaderValue::from_str(location).map_err(unfit)?;
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SEE_OTHER;
    answer.headers_mut().insert(LOCATION, location);
    Ok(answer)
}
