//! The session of a page: opened with a token, told of, and ended.

use http::StatusCode;
use http::header::SET_COOKIE;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::access::{Caller, Role};
use crate::entrance::Entrance;
use crate::problem::Problem;
use crate::question::Nothing;
use crate::route::{Answer, Call, Gives, Route, act_otherwise, json, look};
use crate::sessions::Open;

const SESSION: &str = "/api/v1/session";
const END: &str = "/api/v1/session/end";

/// The rows of the table that are about sessions.
pub(super) fn routes() -> Vec<Route> {
    let gives = Gives::Json(SchemaGenerator::subschema_for::<Session>);
    let begin = (SESSION, "signIn", "Open a session with a token, from the page: it is kept in a cookie");
    let end = (END, "signOut", "End the session");
    vec![
        look((SESSION, "getSession", "Who asks, and what they may"), tell).anybody(),
        act_otherwise((begin, Role::ReadOnly), (StatusCode::OK, gives), sign_in).open(),
        act_otherwise((end, Role::ReadOnly), (StatusCode::OK, gives), sign_out),
    ]
}

/// Who asks, and what they may.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Session {
    /// The name of their token; of who came by a provider, `oidc:` and their name there; empty where nobody is asked.
    name: String,
    /// What they may; nothing where they are not let in.
    role: Option<Role>,
    /// Whether a token lets somebody in here.
    tokens: bool,
    /// The name of the provider with whom people sign in at /api/v1/session/oidc; nothing where they do not. Where there are
    /// neither tokens nor a provider, nobody is asked who they are.
    provider: Option<String>,
    /// What to send in the header `X-Tidegate-CSRF` with whatever is to be done; nothing where there is no session.
    csrf: Option<String>,
    /// When the session ends by itself, in seconds; nothing where there is none.
    ends_in_seconds: Option<u64>,
}

impl Session {
    fn none(entrance: &Entrance) -> Self {
        let provider = entrance.oidc().map(|oidc| oidc.name().to_owned());
        let tokens = entrance.takes_tokens();
        Self { name: String::new(), role: None, tokens, provider, csrf: None, ends_in_seconds: None }
    }

    fn new(caller: Caller, entrance: &Entrance, session: Option<&Open>) -> Self {
        Self {
            name: caller.name,
            role: Some(caller.role),
            csrf: session.map(|session| session.csrf().to_owned()),
            ends_in_seconds: session.map(|session| session.lasts(Instant::now()).as_secs()),
            ..Self::none(entrance)
        }
    }
}

async fn tell(call: Call) -> Result<Session, Problem> {
    let entrance = &call.visit.entrance;
    if !call.visit.is_let_in {
        return Ok(Session::none(entrance));
    }
    Ok(Session::new(call.by, entrance, call.pass.session()))
}

/// Whose session it is to be.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SignInBody {
    /// A token.
    token: String,
}

async fn sign_in(call: Call<Nothing, SignInBody>) -> Answer {
    let entrance = &call.visit.entrance;
    let signed_in = entrance.sign_in(&call.body.token, &call.visit, Instant::now())?;
    let session = Session::new(signed_in.caller, entrance, Some(&signed_in.session));
    let mut answer = json(StatusCode::OK, &session)?;
    answer.headers_mut().extend(signed_in.cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(answer)
}

/// Nothing more has to be said.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct EmptyBody {}

async fn sign_out(call: Call<Nothing, EmptyBody>) -> Answer {
    let entrance = &call.visit.entrance;
    call.pass.session().inspect(|session| session.end());
    let mut answer = json(StatusCode::OK, &Session::none(entrance))?;
    for cookie in entrance.forget().into_iter().flatten() {
        answer.headers_mut().append(SET_COOKIE, cookie);
    }
    Ok(answer)
}
