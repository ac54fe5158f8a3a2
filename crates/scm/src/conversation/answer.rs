//! What an answer means that is none of those that are wanted.

use std::time::Duration;

use http::header::WWW_AUTHENTICATE;
use http::{Response, StatusCode};
use hyper::body::Incoming;
use serde_json::Value;
use tidegate_web::{Wait, asks_to_wait};

use super::Conversation;
use crate::problem::Problem;

/// Longest words of a server that are passed on, in characters.
const WORDS_MAX: usize = 200;

impl Conversation<'_> {
    /// An answer that says yes; or what the other one says. `asked`: `GET /orgs/shop/repos`.
    pub(super) async fn judge(
        &self,
        answer: Response<Incoming>,
        asked: &str,
    ) -> Result<Response<Incoming>, Problem> {
        let status = answer.status();
        // With this Azure DevOps shows a page to sign in at.
        let status = match status {
            StatusCode::NON_AUTHORITATIVE_INFORMATION => StatusCode::UNAUTHORIZED,
            status if status.is_success() => return Ok(answer),
            status => status,
        };
        if let Some(wait) = asks_to_wait(status, answer.headers(), None) {
            if let Wait::For(wait) = wait {
                self.web.wait(self.who(), wait);
            }
            let wait = if let Wait::For(wait) = wait { Some(wait) } else { None };
            return Err(
                self.asked_to_wait(&format!("answered {status} to {asked} and asks us to wait"), wait)
            );
        }
        let asks = answer.headers().contains_key(WWW_AUTHENTICATE);
        let said = self.words(answer).await.map(|words| format!(" ({words})")).unwrap_or_default();
        let hint = self.hint(status, asks);
        let problem = self.wrong(format!("answered {status} to {asked}{said}{hint}"));
        let is_stale = status == StatusCode::UNAUTHORIZED && self.give_up();
        Err(Problem { status: Some(status), is_stale, ..problem })
    }

    fn hint(&self, status: StatusCode, asks: bool) -> String {
        let origin = self.proof.as_ref().map(|proof| proof.origin.as_str());
        match (status, origin) {
            (StatusCode::UNAUTHORIZED, Some(origin)) => format!("; it does not accept {origin}"),
            (StatusCode::UNAUTHORIZED, None) => {
                "; it asks for a token, and the generator names none".to_owned()
            }
            (StatusCode::FORBIDDEN, Some(origin)) => format!("; {origin} does not allow it"),
            (StatusCode::NOT_FOUND, Some(origin)) => {
                format!("; check the names, and whether {origin} may read it")
            }
            (StatusCode::NOT_FOUND | StatusCode::FORBIDDEN, None) => {
                "; check the names; what is private needs a token".to_owned()
            }
            _ if asks => "; it asks for credentials".to_owned(),
            _ if status.is_redirection() => ", where nobody is sent on".to_owned(),
            _ => String::new(),
        }
    }

    pub(super) fn asked_to_wait(&self, what: &str, wait: Option<Duration>) -> Problem {
        match wait {
            // Whole seconds, and the last of them is one.
            Some(wait) => self.wrong(format!("{what}; try again in {} s", wait.as_secs().saturating_add(1))),
            None => self.wrong(format!("{what}; try again later")),
        }
    }
}

/// What a server says in an answer that is an error, in the forms that are in use, as one line of reasonable length.
pub(super) fn words(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = |path: &str| body.pointer(path).and_then(Value::as_str);
    let found = ["/message", "/error/message", "/errors/0/message", "/error_description", "/error"];
    let found = found.into_iter().find_map(text)?;
    let line: String = found.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let line = line.trim();
    let is_long = line.chars().nth(WORDS_MAX).is_some();
    let short: String = line.chars().take(WORDS_MAX).chain(is_long.then_some('…')).collect();
    (!short.is_empty()).then_some(short)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn words_of_servers() {
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
            assert_eq!(words(body.as_bytes()).as_deref(), expected, "{body}");
        }
        let long = format!(r#"{{"message": "{}"}}"#, "ä".repeat(1000));
        assert_eq!(words(long.as_bytes()).unwrap().chars().count(), WORDS_MAX + 1);
    }
}
