//! Servers that ask us to wait.

use std::time::Duration;

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use jiff::fmt::rfc2822;

/// How many requests are left, and when there are more again, in seconds since 1970.
const LEFT: [(&str, &str); 2] =
    [("x-ratelimit-remaining", "x-ratelimit-reset"), ("ratelimit-remaining", "ratelimit-reset")];

/// How long a server asks us to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// So long.
    For(Duration),
    /// It does not say how long.
    Unsaid,
}

/// Whether a server asks us to wait, by whichever of the headers that are in use. `now` is the moment, in seconds since 1970, by
/// which a moment in them counts where the server does not say what its clock shows.
pub fn asks_to_wait(status: StatusCode, headers: &HeaderMap, now: Option<u64>) -> Option<Wait> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |name: &str| text(name).and_then(|text| text.parse::<u64>().ok());
    // By the clock of the server, which is the one that counts.
    let now = text(DATE.as_str()).and_then(seconds).or(now);
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
            let found = asks_to_wait(StatusCode::from_u16(status).unwrap(), &all, None);
            assert_eq!(found, expected, "{status} {headers:?}");
        }
    }
}
