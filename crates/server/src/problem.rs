//! Error responses from the API.

use std::time::Duration;

use axum::body::Body;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use tidegate_executor::EngineError;
use tidegate_oplog::{LogError, Shard};
use tidegate_state::error::{ErrorCategory, ServiceError};

/// Kind of a problem. The values are stable, so programs may depend on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The request is malformed or contains invalid values.
    BadRequest,
    /// The request has no valid token or session.
    Unauthorized,
    /// The role does not permit the request.
    Forbidden,
    /// The resource does not exist.
    NotFound,
    /// The resource does not support this method.
    MethodNotAllowed,
    /// The body did not arrive in time.
    #[serde(rename = "request-timeout")]
    TooSlow,
    /// The current state does not permit the request.
    #[serde(rename = "conflict")]
    Refused,
    /// The resource existed but is no longer stored.
    Gone,
    /// The body is too large.
    #[serde(rename = "payload-too-large")]
    TooLarge,
    /// The body is not JSON.
    #[serde(rename = "unsupported-media-type")]
    NotJson,
    /// There were too many requests.
    #[serde(rename = "too-many-requests")]
    TooOften,
    /// The process is starting or shutting down.
    NotReady,
    /// The response was not ready in time. The request may still take effect.
    #[serde(rename = "gateway-timeout")]
    NoAnswer,
    /// An internal error occurred.
    #[serde(rename = "internal-error")]
    Internal,
}

impl Code {
    /// Returns the HTTP status.
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

    /// Returns the default advice.
    fn advice(self) -> &'static str {
        match self {
            Self::BadRequest => "correct the request; /openapi.json describes the API",
            Self::Unauthorized => "send `Authorization: Bearer TOKEN` with a token from the --tokens file",
            Self::Forbidden => "use a token, or sign in as a user, with the required role",
            Self::NotFound => "check the name against the list; /openapi.json lists the paths",
            Self::MethodNotAllowed => "use a method from the Allow header",
            Self::TooSlow => "send the body without delay",
            Self::Refused => "resolve the conflict, or wait until it is resolved, then retry",
            Self::Gone => {
                "get the operation, rollout or deletion without its events; its summary is still stored"
            }
            Self::TooLarge => "send a smaller request",
            Self::NotJson => "send JSON, with `Content-Type: application/json`",
            Self::TooOften => "retry after the delay in the Retry-After header",
            Self::NotReady => "retry in a moment; /readyz shows the reason",
            Self::NoAnswer => "check whether the request was carried out, then retry",
            Self::Internal => "check the server log for the cause, then retry",
        }
    }
}

/// Error response from the API.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Kind of the problem.
    pub code: Code,
    /// Human-readable message.
    pub message: String,
    /// Next step for the caller.
    #[serde(rename = "hint")]
    pub next: String,
    /// Delay before a retry, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u64>,
    /// Shard of the request, if another service owns it and must handle the request.
    #[serde(skip)]
    pub(crate) other_shard: Option<Shard>,
}

impl Problem {
    /// Creates a problem with the default advice.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            next: code.advice().to_owned(),
            retry_after_seconds: None,
            other_shard: None,
        }
    }

    /// Creates a problem for an invalid request.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(Code::BadRequest, message)
    }

    /// Sets the delay before a retry.
    pub(crate) fn with_retry_after(self, wait: Duration) -> Self {
        let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).max(1);
        Self { retry_after_seconds: Some(seconds), ..self }
    }

    /// Converts the problem to an HTTP response.
    pub(crate) fn to_response(&self) -> Response<Body> {
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

/// Advice for a caller who may not approve.
const APPROVERS_ADVICE: &str = "ask one of the approvers named in the message; a role alone is not enough";

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        let code = match &error {
            ServiceError::Engine(
                EngineError::UnknownOperation { .. } | EngineError::Log(LogError::UnknownStream { .. }),
            )
            | ServiceError::Log(LogError::UnknownStream { .. })
            | ServiceError::UnknownOperation { .. }
            | ServiceError::NotAnOperation { .. }
            | ServiceError::UnknownRun { .. }
            | ServiceError::BadInput { .. }
            | ServiceError::UnknownPlan { .. } => Code::NotFound,
            ServiceError::NotAllowed { .. } => Code::Forbidden,
            ServiceError::Engine(EngineError::Log(LogError::Compacted { .. }))
            | ServiceError::Log(LogError::Compacted { .. }) => Code::Gone,
            ServiceError::Engine(EngineError::ShuttingDown | EngineError::Stopped) => Code::NotReady,
            error => match error.category() {
                ErrorCategory::BadInput => Code::BadRequest,
                ErrorCategory::Refused => Code::Refused,
                ErrorCategory::NotFinished => Code::NotReady,
                ErrorCategory::Error => Code::Internal,
            },
        };
        let problem = Self { other_shard: error.other_shard(), ..Self::new(code, error.to_string()) };
        match error {
            // The default advice suggests another role, which wouldn't help.
            ServiceError::NotAllowed { .. } => Self { next: APPROVERS_ADVICE.to_owned(), ..problem },
            ServiceError::NotAnOperation { id, is_run: true, .. } => {
                Self { next: format!("use /api/v1/runs/{id}"), ..problem }
            }
            _ => problem,
        }
    }
}
