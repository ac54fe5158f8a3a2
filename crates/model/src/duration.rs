use std::fmt::Write as _;
use std::time::Duration;

/// Error returned when a string is not a valid duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid duration {text:?}: use a number and a unit, such as 90s, 5m or 1h30m, or a whole number of seconds"
)]
pub struct InvalidDuration {
    text: String,
}

const UNITS: [(&str, f64); 6] =
    [("ms", 1.0), ("us", 0.001), ("ns", 0.000_001), ("h", 3_600_000.0), ("m", 60_000.0), ("s", 1000.0)];

/// Parses a duration as Argo CD does: a whole number of seconds, or a Go duration such as `1h30m`.
///
/// The result has millisecond precision. Negative durations are rejected.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let invalid = || InvalidDuration { text: text.to_owned() };
    let trimmed = text.trim();
    if let Ok(seconds) = trimmed.parse::<u32>() {
        return Ok(Duration::from_secs(seconds.into()));
    }
    let (mut rest, mut millis) = (trimmed, 0.0_f64);
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(invalid)?;
        let (number, tail) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| invalid())?;
        let (unit, factor) = UNITS.iter().find(|(unit, _)| tail.starts_with(unit)).ok_or_else(invalid)?;
        millis += number * factor;
        rest = tail.strip_prefix(unit).unwrap_or_default();
    }
    Duration::try_from_secs_f64(millis.round() / 1000.0).map_err(|_| invalid())
}

/// Formats a duration for display, in its two largest units: `41 s`, `4 min 19 s`, `2 h 5 min`, `3 d 4 h`.
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds == 0 && !duration.is_zero() {
        return format!("{} ms", duration.as_millis());
    }
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let mut text = String::new();
    for (count, unit) in parts.iter().skip_while(|(count, _)| *count == 0).take(2) {
        if *count > 0 {
            let separator = if text.is_empty() { "" } else { " " };
            // Writing to a String cannot fail.
            let _ = write!(text, "{separator}{count} {unit}");
        }
    }
    if text.is_empty() { "0 s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_users_write() {
        for (text, millis) in [
            ("30", 30_000),
            ("90s", 90_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1500),
            ("250ms", 250),
            ("0", 0),
            (" 5m ", 300_000),
        ] {
            assert_eq!(parse_duration(text).unwrap(), Duration::from_millis(millis), "{text}");
        }
        for text in ["", "x", "-5s", "5", "5 m", "1h30", "s", "99999999999999999999999h"] {
            assert_eq!(parse_duration(text).is_ok(), text == "5", "{text}");
        }
    }

    #[test]
    fn writes_the_two_largest_units() {
        for (seconds, text) in [
            (0, "0 s"),
            (41, "41 s"),
            (259, "4 min 19 s"),
            (7200, "2 h"),
            (7500, "2 h 5 min"),
            (273_600, "3 d 4 h"),
        ] {
            assert_eq!(format_duration(Duration::from_secs(seconds)), text);
        }
        assert_eq!(format_duration(Duration::from_millis(20)), "20 ms");
    }
}
