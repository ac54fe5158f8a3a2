//! Interpretation of responses without a token.

use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tidegate_model::Timestamp;
use tidegate_web::{RequestedWait, TokenFailure};

use crate::error::to_line;
use crate::remote::{CompleteResponse, Problem};

/// Maximum delay accepted from a server, in seconds. Longer delays are capped.
const WAIT_MAX: u64 = 60 * 60;
/// Delay for a rate limit that doesn't state one, in seconds.
const WAIT_DEFAULT: u64 = 60;
/// Replacement for secrets in server messages.
const MASK: &str = "***";

/// Description of a token request for messages.
pub(super) struct TokenRequest<'a> {
    /// Description of the server, such as `GitHub at https://api.github.com`.
    pub server: String,
    /// Description of the credentials, such as `the GitHub App of Secret argocd/app`.
    pub who: String,
    /// Signed assertion or other credentials, to keep out of messages.
    pub assertion: &'a str,
    /// Time of the request in seconds since 1970.
    pub now: u64,
}

impl TokenRequest<'_> {
    /// Creates a problem. `text` continues a sentence that starts with the server.
    pub fn error(&self, text: &str) -> Problem {
        Problem::new(format!("cannot get a token for {}: {} {text}", self.who, self.server))
    }

    /// Creates the problem for a failed connection.
    pub fn connection_error(&self, problem: Problem) -> Problem {
        let what = format!("cannot get a token for {}: {}: {}", self.who, self.server, problem.message);
        Problem { message: what, ..problem }
    }

    /// Interprets a response without a token. `hint` is advice on fixing the problem.
    pub fn interpret_response(&self, answer: &CompleteResponse, hint: &'static str) -> TokenFailure<Problem> {
        let CompleteResponse { status, headers, content } = answer;
        if let Some(until) = requested_wait_end(*status, headers, self.now) {
            let moment =
                Timestamp::from_millis(i64::try_from(until).unwrap_or_default().saturating_mul(1000));
            let text = format!(
                "returned {status} and is rate limiting requests; the next request is sent after {moment}"
            );
            return TokenFailure { error: self.error(&text), retry_at: Some(until) };
        }
        let said = self.error_message(content).map(|text| format!(" ({text})")).unwrap_or_default();
        let sends = if status.is_redirection() {
            ", and Tidegate does not send credentials to redirect targets"
        } else {
            ""
        };
        let hint = match hint {
            "" if status.is_server_error() => "the next comparison will try again",
            hint => hint,
        };
        TokenFailure::from(self.error(&format!("returned {status}{said}{sends}")).with_hint(hint))
    }

    /// Returns the error message in a response, with the assertion masked. Servers may echo parts of a
    /// request.
    fn error_message(&self, content: &[u8]) -> Option<String> {
        let content: Value = serde_json::from_slice(content).ok()?;
        let found = ["message", "error_description", "error"];
        let found = found.into_iter().find_map(|name| content.get(name).and_then(Value::as_str))?;
        let signature = self.assertion.rsplit('.').next().unwrap_or_default();
        let hidden = [self.assertion, signature].into_iter().filter(|secret| !secret.is_empty());
        let text = hidden.fold(found.to_owned(), |text, secret| text.replace(secret, MASK));
        Some(to_line(&text)).filter(|text| !text.is_empty())
    }
}

/// Returns the Unix time when the delay requested by the server ends.
fn requested_wait_end(status: StatusCode, headers: &HeaderMap, now: u64) -> Option<u64> {
    let wait = match tidegate_web::requested_wait(status, headers, Some(now))? {
        RequestedWait::For(wait) => wait.as_secs(),
        RequestedWait::Unspecified => WAIT_DEFAULT,
    };
    Some(now.saturating_add(wait.clamp(1, WAIT_MAX)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    const NOON: u64 = 1_795_348_800;

    #[test]
    fn requested_waits() {
        let (soon, past) = ((NOON + 90).to_string(), (NOON - 90).to_string());
        for (status, headers, expected) in [
            (429, vec![("retry-after", "57")], Some(57)),
            (429, vec![], Some(60)),
            (403, vec![("retry-after", "57")], Some(57)),
            (503, vec![("retry-after", "57")], Some(57)),
            (403, vec![("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &soon)], Some(90)),
            (403, vec![("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &past)], Some(1)),
            (403, vec![("x-ratelimit-remaining", "17"), ("x-ratelimit-reset", &soon)], None),
            (429, vec![("retry-after", "99999999999999")], Some(3600)),
            (403, vec![], None),
            (500, vec![("retry-after", "57")], None),
        ] {
            let header = |(name, value): &(&str, &str)| {
                (HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap())
            };
            let all = headers.iter().map(header).collect();
            let until = requested_wait_end(StatusCode::from_u16(status).unwrap(), &all, NOON);
            assert_eq!(until, expected.map(|wait| NOON + wait), "{status} {headers:?}");
        }
    }
}
