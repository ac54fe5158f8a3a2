//! What an answer means that is none of those that are wanted.

use std::time::Duration;

use http::header::{DATE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, Response, StatusCode};
use hyper::body::Incoming;
use jiff::fmt::rfc2822;
use serde_json::Value;

use super::Conversation;
use crate::problem::Problem;

/// Longest words of a server that are passed on, in characters.
const WORDS_MAX: usize = 200;
/// How many requests are left, and when there are more again, in seconds since 1970.
const LEFT: [(&str, &str); 2] =
    [("x-ratelimit-remaining", "x-ratelimit-reset"), ("ratelimit-remaining", "ratelimit-reset")];

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
        if let Some(wait) = asks_to_wait(status, answer.headers()) {
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

/// How long a server asks us to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    For(Duration),
    Unsaid,
}

/// Whether a server asks us to wait, by whichever of the headers that are in use.
fn asks_to_wait(status: StatusCode, headers: &HeaderMap) -> Option<Wait> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |name: &str| text(name).and_then(|text| text.parse::<u64>().ok());
    // By the clock of the server, which is the one that counts.
    let now = text(DATE.as_str()).and_then(seconds);
    let until = |moment: Option<u64>| Some(Duration::from_secs(moment?.saturating_sub(now?)));
    let after = text(RETRY_AFTER.as_str()).map(|text| match text.parse() {
        Ok(wait) => Some(Duration::from_secs(wait)),
        Err(_) => until(seconds(text)),
    });
    let spent = LEFT.iter().find(|(left, _)| number(left) == Some(0)).map(|(_, reset)| until(number(reset)));
    let wait = match status {
        StatusCode::TOO_MANY_REQUESTS => after.or(spent).unwrap_or_default(),
        StatusCode::FORBIDDEN | StatusCode::SERVICE_UNAVAILABLE => after.or(spent)?,
        _ => return None,
    };
    Some(wait.map_or(Wait::Unsaid, Wait::For))
}

/// Seconds since 1970 of a date as HTTP writes it.
fn seconds(date: &str) -> Option<u64> {
    let moment = rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    u64::try_from(moment.as_second()).ok()
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
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn who_asks_us_to_wait_and_for_how_long() {
        let date = ("date", "Sun, 22 Nov 2026 12:00:00 GMT");
        let noon = 1_795_348_800_u64;
        let reset = (noon + 90).to_string();
        let seconds = |seconds| Some(Wait::For(Duration::from_secs(seconds)));
        for (status, headers, expected) in [
            (429, vec![("retry-after", "57")], seconds(57)),
            (429, vec![], Some(Wait::Unsaid)),
            (403, vec![("retry-after", "57")], seconds(57)),
            (503, vec![("retry-after", "57")], seconds(57)),
            (403, vec![date, ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset)], seconds(90)),
            (429, vec![date, ("ratelimit-remaining", "0"), ("ratelimit-reset", &reset)], seconds(90)),
            (429, vec![date, ("retry-after", "Sun, 22 Nov 2026 12:01:00 GMT")], seconds(60)),
            (403, vec![("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset)], Some(Wait::Unsaid)),
            (403, vec![("x-ratelimit-remaining", "17"), ("x-ratelimit-reset", &reset)], None),
            (403, vec![], None),
            (500, vec![("retry-after", "57")], None),
        ] {
            let header = |(name, value): &(&str, &str)| {
                (HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap())
            };
            let all = headers.iter().map(header).collect();
            let found = asks_to_wait(StatusCode::from_u16(status).unwrap(), &all);
            assert_eq!(found, expected, "{status} {headers:?}");
        }
    }

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
