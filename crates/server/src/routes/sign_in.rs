//! Redirects a browser to an OpenID provider and back.

use std::sync::Arc;

use axum::body::Body;
use http::header::{HeaderValue, LOCATION, SET_COOKIE};
use http::{Response, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;

use crate::oidc::{CALLBACK, CallbackParameters, Oidc, SignInError};
use crate::problem::{Code, Problem};
use crate::query::QueryParser;
use crate::route::{Call, HandlerResult, Route, redirect_route};

const LOGIN: &str = "/api/v1/session/oidc";

pub(super) fn routes() -> Vec<Route> {
    vec![
        redirect_route(
            LOGIN,
            "beginSignIn",
            "Redirect the browser to the provider for sign-in",
            QueryParser::new(),
            start_login,
        ),
        redirect_route(
            CALLBACK,
            "endSignIn",
            "Complete the sign-in after the provider's redirect, and open a session",
            QueryParser::ignoring_unknown(),
            finish_login,
        ),
    ]
}

/// Options for a login.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[derive(Default)]
struct BeginQuery {
    /// View to show after the login, as a path such as /operations (default: the first view). Invalid values
    /// are ignored.
    next: Option<String>,
}

async fn start_login(call: Call<BeginQuery>) -> HandlerResult {
    let visit = &call.origin;
    let oidc = oidc_provider(&call)?;
    if visit.is_cross_site {
        return Ok(SignInError::CrossSite.to_response());
    }
    let (is_tls, next) = (visit.authenticator.is_tls(), call.query.next.as_deref());
    match oidc.start_login(&visit.host, is_tls, next, Instant::now()).await {
        Ok(started) => {
            let mut answer = redirect_to(&started.location)?;
            let login_cookie = visit.authenticator.login_cookie(started.is_secure, &started.browser_secret);
            answer.headers_mut().extend(login_cookie.map(|cookie| (SET_COOKIE, cookie)));
            Ok(answer)
        }
        Err(trouble) => Ok(error_page(&trouble)),
    }
}

/// Parameters that the provider adds when it redirects the browser back.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default)]
struct CallbackQuery {
    /// Authorization code that the provider exchanges for an ID token.
    code: Option<String>,
    /// State of the login request.
    state: Option<String>,
    /// Error code, if the provider did not issue an authorization code.
    error: Option<String>,
    /// Issuer that sent the response.
    iss: Option<String>,
}

async fn finish_login(call: Call<CallbackQuery>) -> HandlerResult {
    let oidc = oidc_provider(&call)?;
    let (entrance, now) = (&call.origin.authenticator, Instant::now());
    let CallbackQuery { code, state, error, iss: issuer } = call.query;
    let came = CallbackParameters { code, state, error, issuer };
    let mut answer = match oidc.finish_login(&came, call.origin.login_secret.as_deref(), now).await {
        // A third party may redirect the browser here with a made-up state, which must not end the login.
        Err(trouble @ (SignInError::Expired | SignInError::Busy)) => return Ok(error_page(&trouble)),
        Err(trouble) => error_page(&trouble),
        Ok(welcome) => {
            let signed_in = entrance.sign_in_person(
                welcome.person,
                oidc.session_lifetime(),
                welcome.is_secure,
                Instant::now(),
            )?;
            tracing::info!(name = signed_in.caller.name, role = ?signed_in.caller.role, "user signed in");
            let mut answer = redirect_to(&welcome.next)?;
            answer.headers_mut().extend(signed_in.cookie.map(|cookie| (SET_COOKIE, cookie)));
            answer
        }
    };
    for cookie in entrance.expired_login_cookies().into_iter().flatten() {
        answer.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(answer)
}

fn oidc_provider<Q>(call: &Call<Q>) -> Result<Arc<Oidc>, Problem> {
    let none = || Problem {
        next: "sign in with a token, or start `tidegate serve` with --oidc FILE".to_owned(),
        ..Problem::new(Code::NotFound, "sign-in with a provider is not configured")
    };
    call.origin.authenticator.oidc().map(Arc::clone).ok_or_else(none)
}

/// Returns the error page. Also logs the problem if an administrator has to fix it.
fn error_page(trouble: &SignInError) -> Response<Body> {
    match trouble {
        SignInError::Provider { .. } | SignInError::NoName { .. } | SignInError::InvalidResponse { .. } => {
            tracing::warn!(%trouble, "sign-in failed");
        }
        trouble => tracing::info!(%trouble, "sign-in failed"),
    }
    trouble.to_response()
}

fn redirect_to(location: &str) -> HandlerResult {
    let unfit = |_| Problem::new(Code::Internal, "the provider's address contains invalid characters");
    let location = HeaderValue::from_str(location).map_err(unfit)?;
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SEE_OTHER;
    answer.headers_mut().insert(LOCATION, location);
    Ok(answer)
}
