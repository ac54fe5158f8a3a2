//! Rate limits that servers impose.

use std::time::Duration;

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use jiff::fmt::rfc2822;

/// Rate-limit headers: the number of remaining requests, and the Unix time at which the limit resets.
const REMAINING_HEADERS: [(&str, &str); 2] =
    [("x-ratelimit-remaining", "x-ratelimit-reset"), ("ratelimit-remaining", "ratelimit-reset")];

/// A wait requested by a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedWait {
    /// A known duration.
    For(Duration),
    /// An unknown duration.
    Unspecified,
}

/// Returns the wait that a server asks for in any of the common headers. Times are compared with the server's
/// own clock or, if it doesn't send one, with `now` (Unix time).
pub fn requested_wait(status: StatusCode, headers: &HeaderMap, now: Option<u64>) -> Option<RequestedWait> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |name: &str| text(name).and_then(|text| text.parse::<u64>().ok());
    // Prefer the server's clock.
    let now = text(DATE.as_str()).and_then(parse_http_date).or(now);
    let until = |moment: Option<u64>| Some(Duration::from_secs(moment?.saturating_sub(now?)));
    let after = text(RETRY_AFTER.as_str()).map(|text| match text.parse() {
        Ok(wait) => Some(Duration::from_secs(wait)),
        Err(_) => until(parse_http_date(text)),
    });
    let spent = REMAINING_HEADERS
        .iter()
        .find(|(left, _)| number(left) == Some(0))
        .map(|(_, reset)| until(number(reset)));
    let wait = match status {
        StatusCode::TOO_MANY_REQUESTS => after.or(spent).unwrap_or_default(),
        StatusCode::FORBIDDEN | StatusCode::SERVICE_UNAVAILABLE => after.or(spent)?,
        _ => return None,
    };
    Some(wait.map_or(RequestedWait::Unspecified, RequestedWait::For))
}

/// Parses an HTTP date into Unix time.
fn parse_http_date(date: &str) -> Option<u64> {
    let moment = rfc2822::DateTimeParser::new().parse_timestamp(date).ok()?;
    u64::try_from(moment.as_second()).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn requested_waits() {
        let date = ("date", "Sun, 22 Nov 2026 12:00:00 GMT");
        let noon = 1_795_348_800_u64;
        let reset = (noon + 90).to_string();
        let seconds = |seconds| Some(RequestedWait::For(Duration::from_secs(seconds)));
        for (status, headers, expected) in [
            (429, vec![("retry-after", "57")], seconds(57)),
            (429, vec![], Some(RequestedWait::Unspecified)),
            (403, vec![("retry-after", "57")], seconds(57)),
            (503, vec![("retry-after", "57")], seconds(57)),
            (403, vec![date, ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset)], seconds(90)),
            (429, vec![date, ("ratelimit-remaining", "0"), ("ratelimit-reset", &reset)], seconds(90)),
            (429, vec![date, ("retry-after", "Sun, 22 Nov 2026 12:01:00 GMT")], seconds(60)),
            (
                403,
                vec![("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset)],
                Some(RequestedWait::Unspecified),
            ),
            (403, vec![("x-ratelimit-remaining", "17"), ("x-ratelimit-reset", &reset)], None),
            (403, vec![], None),
            (500, vec![("retry-after", "57")], None),
        ] {
            let header = |(name, value): &(&str, &str)| {
                (HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap())
            };
            let all = headers.iter().map(header).collect();
            let found = requested_wait(StatusCode::from_u16(status).unwrap(), &all, None);
            assert_eq!(found, expected, "{status} {headers:?}");
        }
    }
}
