//! What an answer means that brings no token.

use http::{HeaderMap, StatusCode};
use serde_json::Value;
use tidegate_model::Timestamp;
use tidegate_web::{Refused, Wait};

use crate::error::plain;
use crate::remote::{Fetched, Problem};

/// Who asks us to wait is believed for so long, in seconds; then it is asked again.
const WAIT_MAX: u64 = 60 * 60;
/// How long to wait where somebody asks for it and does not say, in seconds.
const WAIT_UNSAID: u64 = 60;
/// What stands for a secret in words of a server.
const SHOWN: &str = "***";

/// Who was asked, and what of it must not show.
pub(super) struct Asked<'a> {
    /// `GitHub at https://api.github.com`.
    pub server: String,
    /// `the GitHub App of Secret argocd/app`.
    pub who: String,
    /// What was signed here.
    pub proof: &'a str,
    /// When it was asked, in seconds since 1970.
    pub now: u64,
}

impl Asked<'_> {
    /// No token, and why.
    pub fn wrong(&self, words: &str) -> Problem {
        Problem::new(format!("{} has no token: {} {words}", self.who, self.server))
    }

    /// The same, where the way there was the problem.
    pub fn unreached(&self, problem: Problem) -> Problem {
        let what = format!("{} has no token: {}: {}", self.who, self.server, problem.what);
        Problem { what, ..problem }
    }

    /// An answer that is no token. `hints` are for a status; empty ones say nothing.
    pub fn judge(&self, answer: &Fetched, hint: &'static str) -> Refused<Problem> {
        let Fetched { status, headers, content } = answer;
        if let Some(until) = asks_to_wait(*status, headers, self.now) {
            let moment =
                Timestamp::from_millis(i64::try_from(until).unwrap_or_default().saturating_mul(1000));
            let words = format!("answered {status} and asks us to wait; nobody asks again before {moment}");
            return Refused { error: self.wrong(&words), until: Some(until) };
        }
        let said = self.words(content).map(|words| format!(" ({words})")).unwrap_or_default();
        let sends = if status.is_redirection() { ", and nobody is sent on with a proof" } else { "" };
        let hint = match hint {
            "" if status.is_server_error() => "it is tried again at the next look",
            hint => hint,
        };
        Refused::from(self.wrong(&format!("answered {status}{said}{sends}")).hint(hint))
    }

    /// What a server says in an answer that is an error: it may repeat what it was sent.
    fn words(&self, content: &[u8]) -> Option<String> {
        let content: Value = serde_json::from_slice(content).ok()?;
        let found = ["message", "error_description", "error"];
        let found = found.into_iter().find_map(|name| content.get(name).and_then(Value::as_str))?;
        let signature = self.proof.rsplit('.').next().unwrap_or_default();
        let hidden = [self.proof, signature].into_iter().filter(|secret| !secret.is_empty());
        let words = hidden.fold(found.to_owned(), |words, secret| words.replace(secret, SHOWN));
        Some(plain(&words)).filter(|words| !words.is_empty())
    }
}

/// Until when a server asks us to wait, in seconds since 1970.
fn asks_to_wait(status: StatusCode, headers: &HeaderMap, now: u64) -> Option<u64> {
    let wait = match tidegate_web::asks_to_wait(status, headers, Some(now))? {
        Wait::For(wait) => wait.as_secs(),
        Wait::Unsaid => WAIT_UNSAID,
    };
    Some(now.saturating_add(wait.clamp(1, WAIT_MAX)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    const NOON: u64 = 1_795_348_800;

    #[test]
    fn who_asks_us_to_wait_and_until_when() {
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
            let until = asks_to_wait(StatusCode::from_u16(status).unwrap(), &all, NOON);
            assert_eq!(until, expected.map(|wait| NOON + wait), "{status} {headers:?}");
        }
    }
}
