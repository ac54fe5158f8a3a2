//! Routes for page sessions: open a session with a token, view it, and end it.

use http::StatusCode;
use http::header::SET_COOKIE;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use tidegate_application::control_namespace;
use tokio::time::Instant;

use crate::access::{Caller, Role};
use crate::auth::Authenticator;
use crate::problem::Problem;
use crate::query::NoParameters;
use crate::route::{Call, HandlerResult, ResponseContent, Route, get_route, json_response, post_route_as};
use crate::sessions::OpenSession;

const SESSION: &str = "/api/v1/session";
const SESSION_END: &str = "/api/v1/session/end";

pub(super) fn routes() -> Vec<Route> {
    let content = ResponseContent::Json(SchemaGenerator::subschema_for::<SessionInfo>);
    vec![
        get_route(SESSION, "getSession", "Get the identity and role of the caller", get_session)
            .optional_auth(),
        post_route_as(
            SESSION,
            "signIn",
            "Open a session with a token, and set the session cookie",
            Role::ReadOnly,
            StatusCode::OK,
            content,
            sign_in,
        )
        .public(),
        post_route_as(
            SESSION_END,
            "signOut",
            "End the session",
            Role::ReadOnly,
            StatusCode::OK,
            content,
            sign_out,
        ),
    ]
}

/// Identity and permissions of the caller.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SessionInfo {
    /// Name of the caller's token, or `oidc:` followed by the name of a user who signed in with a provider.
    /// Empty if the caller is not authenticated.
    name: String,
    /// Role of the caller; absent if the caller is not authenticated.
    role: Option<Role>,
    /// True if the server accepts tokens.
    accepts_tokens: bool,
    /// Name of the provider for signing in at /api/v1/session/oidc; absent if no provider is configured. If
    /// the server has neither tokens nor a provider, callers don't need to authenticate.
    provider: Option<String>,
    /// Value for the `X-Tidegate-CSRF` header, which every request that makes changes must contain; absent
    /// without a session.
    csrf: Option<String>,
    /// Time until the session expires, in seconds; absent without a session.
    expires_in_seconds: Option<u64>,
    /// Namespace of the control plane. Applications in this namespace are listed without a namespace. Absent
    /// if the caller is not authenticated.
    control_namespace: Option<&'static str>,
}

impl SessionInfo {
    fn unauthenticated(entrance: &Authenticator) -> Self {
        let provider = entrance.oidc().map(|oidc| oidc.name().to_owned());
        let accepts_tokens = entrance.has_tokens();
        Self {
            name: String::new(),
            role: None,
            accepts_tokens,
            provider,
            csrf: None,
            expires_in_seconds: None,
            control_namespace: None,
        }
    }

    fn new(caller: Caller, entrance: &Authenticator, session: Option<&OpenSession>) -> Self {
        Self {
            name: caller.name,
            role: Some(caller.role),
            csrf: session.map(|session| session.csrf().to_owned()),
            expires_in_seconds: session.map(|session| session.remaining_lifetime(Instant::now()).as_secs()),
            control_namespace: Some(control_namespace()),
            ..Self::unauthenticated(entrance)
        }
    }
}

async fn get_session(call: Call) -> Result<SessionInfo, Problem> {
    let entrance = &call.origin.authenticator;
    if !call.origin.is_authenticated {
        return Ok(SessionInfo::unauthenticated(entrance));
    }
    Ok(SessionInfo::new(call.caller, entrance, call.auth.session()))
}

/// Credentials for a new session.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SignInBody {
    /// The caller's token.
    token: String,
}

async fn sign_in(call: Call<NoParameters, SignInBody>) -> HandlerResult {
    let entrance = &call.origin.authenticator;
    let signed_in = entrance.sign_in_with_token(&call.body.token, &call.origin, Instant::now())?;
    let session = SessionInfo::new(signed_in.caller, entrance, Some(&signed_in.session));
    let mut answer = json_response(StatusCode::OK, &session)?;
    answer.headers_mut().extend(signed_in.cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(answer)
}

/// An empty body.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "SignOutBody")]
struct EmptyBody {}

async fn sign_out(call: Call<NoParameters, EmptyBody>) -> HandlerResult {
    let entrance = &call.origin.authenticator;
    call.auth.session().inspect(|session| session.end());
    let mut answer = json_response(StatusCode::OK, &SessionInfo::unauthenticated(entrance))?;
    for cookie in entrance.expired_session_cookies().into_iter().flatten() {
        answer.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(answer)
}
