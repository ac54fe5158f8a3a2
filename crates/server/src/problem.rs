//! What is answered when something cannot be done.

use std::time::Duration;

use axum::body::Body;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use tidegate_executor::EngineError;
use tidegate_oplog::LogError;
use tidegate_service::error::{Kind, ServiceError};

/// What kind of problem it is. The words stay; programs may go by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// What is asked for does not make sense.
    BadRequest,
    /// There is no token or session, or none that counts.
    Unauthorized,
    /// The role does not allow it.
    Forbidden,
    /// There is no such thing.
    NotFound,
    /// The thing is there, and this cannot be done to it.
    MethodNotAllowed,
    /// The body did not come in time.
    TooSlow,
    /// The state of things does not allow it.
    Refused,
    /// It was there, and is not kept any more.
    Gone,
    /// The body is longer than is taken.
    TooLarge,
    /// The body is no JSON.
    NotJson,
    /// It is asked too often.
    TooOften,
    /// The process has only begun, or ends.
    NotReady,
    /// There was no answer in time. What was asked for may be done all the same.
    NoAnswer,
    /// Something went wrong.
    Internal,
}

impl Code {
    /// Its status.
    pub fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Refused => StatusCode::CONFLICT,
            Self::Gone => StatusCode::GONE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooOften => StatusCode::TOO_MANY_REQUESTS,
            Self::NotReady => StatusCode::SERVICE_UNAVAILABLE,
            Self::NoAnswer => StatusCode::GATEWAY_TIMEOUT,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// What to do about it, where nothing better is known.
    fn advice(self) -> &'static str {
        match self {
            Self::BadRequest => "correct the request; /openapi.json describes what is taken",
            Self::Unauthorized => {
                "send `Authorization: Bearer TOKEN` with a token of the file that --tokens names"
            }
            Self::Forbidden => "use a token, or sign in as somebody, of the role that is named",
            Self::NotFound => "look at the list of what there is; /openapi.json has the paths",
            Self::MethodNotAllowed => "use a method that the header Allow names",
            Self::TooSlow => "send the body at once",
            Self::Refused => "change what is in the way, or wait for it, and ask again",
            Self::Gone => "do without it, and look at what is kept: the thing itself says that",
            Self::TooLarge => "send less",
            Self::NotJson => "send JSON, with `Content-Type: application/json`",
            Self::TooOften => "wait as long as Retry-After says, and ask again",
            Self::NotReady => "ask again in a moment; /readyz says what is missing",
            Self::NoAnswer => "look whether it was done, and ask again",
            Self::Internal => "look into the log of the process, and ask again",
        }
    }
}

/// What is answered when something cannot be done.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// What kind of problem it is.
    pub code: Code,
    /// What is wrong, for people.
    pub message: String,
    /// What to do about it.
    pub next: String,
    /// When to ask again, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
}

impl Problem {
    /// A problem with the usual advice.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), next: code.advice().to_owned(), retry_after_seconds: None }
    }

    /// What is asked for does not make sense.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::new(Code::BadRequest, message)
    }

    /// It may be asked again after some time.
    pub(crate) fn after(self, wait: Duration) -> Self {
        let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1);
        Self { retry_after_seconds: Some(seconds), ..self }
    }

    /// As an answer.
    pub(crate) fn answer(&self) -> Response<Body> {
        let body = serde_json::to_vec(self).unwrap_or_default();
        let mut answer = Response::new(Body::from(body));
        *answer.status_mut() = self.code.status();
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == Code::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        answer
    }
}

/// What to do about an approval that somebody may not give.
const APPROVERS: &str = "have it approved by somebody whom the message names: a role does not help";

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        let code = match &error {
            ServiceError::Engine(
                EngineError::Unknown { .. } | EngineError::Log(LogError::UnknownStream { .. }),
            )
            | ServiceError::Log(LogError::UnknownStream { .. })
            | ServiceError::UnknownOperation { .. }
            | ServiceError::NoOperation { .. }
            | ServiceError::UnknownRun { .. }
            | ServiceError::BadInput { .. }
            | ServiceError::UnknownPlan { .. } => Code::NotFound,
            ServiceError::NotAllowed { .. } => Code::Forbidden,
            ServiceError::Engine(EngineError::Log(LogError::Compacted { .. }))
            | ServiceError::Log(LogError::Compacted { .. }) => Code::Gone,
            ServiceError::Engine(EngineError::ShuttingDown | EngineError::Stopped) => Code::NotReady,
            error => match error.kind() {
                Kind::BadInput => Code::BadRequest,
                Kind::Refusal => Code::Refused,
                Kind::NotFinished => Code::NotReady,
                Kind::Error => Code::Internal,
            },
        };
        let problem = Self::new(code, error.to_string());
        match error {
            // It is no matter of roles.
            ServiceError::NotAllowed { .. } => Self { next: APPROVERS.to_owned(), ..problem },
            ServiceError::NoOperation { id, is_run: true, .. } => {
                Self { next: format!("ask for /api/v1/runs/{id}"), ..problem }
            }
            _ => problem,
        }
    }
}
