//! UTC dates in the Gregorian calendar, for Lua's `os.time` and `os.date`.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

/// Converts a date and time to Unix time. Out-of-range values carry over. Returns `None` if the year isn't
/// between -9999 and 9999.
pub(super) fn seconds_since_epoch(date: [i64; 3], time: [i64; 3]) -> Option<i64> {
    let ([year, month, day], [hour, minute, second]) = (date, time);
    let months = month.checked_sub(1)?;
    let year = i16::try_from(year.checked_add(months.div_euclid(12))?).ok()?;
    let month = i8::try_from(months.rem_euclid(12) + 1).ok()?;
    let start = TimeZone::UTC.to_timestamp(Date::new(year, month, 1).ok()?.into()).ok()?.as_second();
    let hours = day.checked_sub(1)?.checked_mul(24)?.checked_add(hour)?;
    let minutes = hours.checked_mul(60)?.checked_add(minute)?;
    start.checked_add(minutes.checked_mul(60)?)?.checked_add(second)
}

/// Splits a Unix time into calendar fields.
pub(super) fn date_time(seconds: i64) -> Option<DateTime> {
    Some(TimeZone::UTC.to_datetime(Timestamp::from_second(seconds).ok()?))
}

/// Formats a time like C's `strftime`. Unknown directives stay unchanged.
pub(super) fn format_time(time: DateTime, format: &str) -> String {
    let mut text = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        match if character == '%' { characters.next() } else { None } {
            None => text.push(character),
            Some(directive) => text.push_str(&format_directive(time, directive)),
        }
    }
    text
}

fn format_directive(time: DateTime, directive: char) -> String {
    match directive {
        'Y' => time.year().to_string(),
        'y' => format!("{:02}", time.year().rem_euclid(100)),
        'F' => format_time(time, "%Y-%m-%d"),
        'D' | 'x' => format_time(time, "%m/%d/%y"),
        'X' => format_time(time, "%T"),
        'c' => format_time(time, "%a %b %d %T %Y"),
        'Z' => "UTC".to_owned(),
        'z' => "+0000".to_owned(),
        '%' => "%".to_owned(),
        'm' | 'd' | 'H' | 'I' | 'M' | 'S' | 'p' | 'j' | 'w' | 'a' | 'A' | 'b' | 'h' | 'B' | 'T' | 'R' => {
            strtime::format(format!("%{directive}"), time).unwrap_or_default()
        }
        other => format!("%{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds_after_round_trip(seconds: i64) -> Option<i64> {
        let moment = date_time(seconds).unwrap();
        let date = [i64::from(moment.year()), i64::from(moment.month()), i64::from(moment.day())];
        let time = [i64::from(moment.hour()), i64::from(moment.minute()), i64::from(moment.second())];
        seconds_since_epoch(date, time)
    }

    #[test]
    fn dates_survive_a_round_trip() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 Thursday 001"),
            (951_782_400, "2000-02-29 00:00:00 Tuesday 060"),
            (1_795_253_400, "2026-11-21 09:30:00 Saturday 325"),
            (-1, "1969-12-31 23:59:59 Wednesday 365"),
            (4_107_542_399, "2100-02-28 23:59:59 Sunday 059"),
        ] {
            assert_eq!(format_time(date_time(seconds).unwrap(), "%F %T %A %j"), text);
            assert_eq!(seconds_after_round_trip(seconds), Some(seconds));
        }
        for seconds in (-200_000_000_000..200_000_000_000).step_by(7_777_777_777) {
            assert_eq!(seconds_after_round_trip(seconds), Some(seconds));
        }
        assert_eq!(
            seconds_since_epoch([2025, 14, 32], [0, 0, 0]),
            seconds_since_epoch([2026, 3, 4], [0, 0, 0]),
            "carried over"
        );
        assert_eq!(seconds_since_epoch([i64::MAX, 1, 1], [0, 0, 0]), None);
        assert_eq!(date_time(i64::MIN), None);
    }

    #[test]
    fn formats() {
        let moment = date_time(1_795_253_400 + 4 * 3_600 + 5).unwrap();
        assert_eq!(format_time(moment, "!%Y-%m-%dT%XZ"), "!2026-11-21T13:30:05Z");
        assert_eq!(
            format_time(moment, "%c | %I%p %y %b %B %a %h %R %D %% %Q %"),
            "Sat Nov 21 13:30:05 2026 | 01PM 26 Nov November Sat Nov 13:30 11/21/26 % %Q %"
        );
    }
}
