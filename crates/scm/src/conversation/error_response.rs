//! Conversion of error responses to problems.

use std::time::Duration;

use http::header::WWW_AUTHENTICATE;
use http::{Response, StatusCode};
use hyper::body::Incoming;
use serde_json::Value;
use tidegate_web::{RequestedWait, requested_wait};

use super::Conversation;
use crate::problem::Problem;

/// Maximum length of a server's message within an error message, in characters.
const MESSAGE_CHARACTERS_MAX: usize = 200;

impl Conversation<'_> {
    /// Returns the response if it is successful, or else a problem. `asked` describes the request, such as
    /// `GET /orgs/shop/repos`.
    pub(super) async fn check_response(
        &self,
        answer: Response<Incoming>,
        asked: &str,
    ) -> Result<Response<Incoming>, Problem> {
        let status = answer.status();
        // Without valid credentials, Azure DevOps responds with its login page and status 203.
        let status = match status {
            StatusCode::NON_AUTHORITATIVE_INFORMATION => StatusCode::UNAUTHORIZED,
            status if status.is_success() => return Ok(answer),
            status => status,
        };
        if let Some(wait) = requested_wait(status, answer.headers(), None) {
            if let RequestedWait::For(wait) = wait {
                self.web.record_wait(self.rate_limit_identity(), wait);
            }
            let wait = if let RequestedWait::For(wait) = wait { Some(wait) } else { None };
            return Err(self.wait_problem(
                &format!("returned {status} for {asked} and is rate limiting requests"),
                wait,
            ));
        }
        let asks = answer.headers().contains_key(WWW_AUTHENTICATE);
        let said = self.error_message(answer).await.map(|text| format!(" ({text})")).unwrap_or_default();
        let hint = self.hint(status, asks);
        let problem = self.problem(format!("returned {status} for {asked}{said}{hint}"));
        let is_stale = status == StatusCode::UNAUTHORIZED && self.discard_cached_token();
        Err(Problem { status: Some(status), is_stale, ..problem })
    }

    fn hint(&self, status: StatusCode, asks: bool) -> String {
        let origin = self.credentials.as_ref().map(|proof| proof.origin.as_str());
        match (status, origin) {
            (StatusCode::UNAUTHORIZED, Some(origin)) => format!("; the server does not accept {origin}"),
            (StatusCode::UNAUTHORIZED, None) => {
                "; the server requires a token, but the generator does not have one".to_owned()
            }
            (StatusCode::FORBIDDEN, Some(origin)) => format!("; {origin} has no permission"),
            (StatusCode::NOT_FOUND, Some(origin)) => {
                format!("; check the names and the permissions of {origin}")
            }
            (StatusCode::NOT_FOUND | StatusCode::FORBIDDEN, None) => {
                "; check the names; private repositories require a token".to_owned()
            }
            _ if asks => "; the server requires credentials".to_owned(),
            _ if status.is_redirection() => {
                ", and Tidegate does not follow redirects for this request".to_owned()
            }
            _ => String::new(),
        }
    }

    pub(super) fn wait_problem(&self, what: &str, wait: Option<Duration>) -> Problem {
        match wait {
            // Round up to whole seconds.
            Some(wait) => {
                self.problem(format!("{what}; try again in {} s", wait.as_secs().saturating_add(1)))
            }
            None => self.problem(format!("{what}; try again later")),
        }
    }
}

/// Returns the message in an error response of a known format, as a single line. Long messages are truncated.
pub(super) fn extract_message(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = |path: &str| body.pointer(path).and_then(Value::as_str);
    let found = ["/message", "/error/message", "/errors/0/message", "/error_description", "/error"];
    let found = found.into_iter().find_map(text)?;
    let line: String = found.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.trim();
    let is_long = line.chars().nth(MESSAGE_CHARACTERS_MAX).is_some();
    let short: String = line.chars().take(MESSAGE_CHARACTERS_MAX).chain(is_long.then_some('…')).collect();
    (!short.is_empty()).then_some(short)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    #[test]
    fn messages_of_servers() {
        for (body, expected) in [
            (r#"{"message": "Not Found", "documentation_url": "x"}"#, Some("Not Found")),
            (r#"{"error": {"message": "Repository\nx not found"}}"#, Some("Repository x not found")),
            (r#"{"errors": [{"message": "Project X does not exist."}]}"#, Some("Project X does not exist.")),
            (
                r#"{"error": "insufficient_scope", "error_description": "more privileges"}"#,
                Some("more privileges"),
            ),
            (r#"{"message": {"base": ["x"]}}"#, None),
            ("<html>", None),
        ] {
            assert_eq!(extract_message(body.as_bytes()).as_deref(), expected, "{body}");
        }
        let long = format!(r#"{{"message": "{}"}}"#, "ä".repeat(1000));
        assert_eq!(extract_message(long.as_bytes()).unwrap().chars().count(), MESSAGE_CHARACTERS_MAX + 1);
    }
}
