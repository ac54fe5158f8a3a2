//! Cron schedules with five fields, for sync windows and CronJobs. As in Kubernetes and Argo CD, they follow
//! robfig/cron. The `cron` crate follows Quartz: it requires seconds, and its weekdays start at 1
//! (<https://github.com/zslayton/cron/issues/113>).

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;

use crate::Timestamp;

/// Maximum number of days to search for a match. Covers the longest gap between two leap days, around a
/// century year that isn't a leap year.
const DAYS_MAX: u32 = 8 * 366 + 1;

/// Shorthands for whole schedules, such as `@daily`. Only some callers accept them.
const SHORTHANDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Error returned when a string is not a valid schedule. The message names the invalid field and its valid
/// values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidSchedule(String);

/// A cron schedule: minute, hour, day of the month, month, day of the week.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// True if the day of the month and the day of the week are both restricted. Matching either one is then
    /// enough.
    matches_either_day: bool,
}

/// Name and valid values of one schedule field.
struct Field {
    name: &'static str,
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { name: "minute", min: 0, max: 59, names: &[] },
    Field { name: "hour", min: 0, max: 23, names: &[] },
    Field { name: "day of month", min: 1, max: 31, names: &[] },
    Field { name: "month", min: 1, max: 12, names: &MONTHS },
    Field { name: "day of week", min: 0, max: 6, names: &WEEKDAYS },
];

impl Schedule {
    /// Parses a schedule with five fields, or a shorthand such as `@daily`.
    pub fn parse_with_shorthands(text: &str) -> Result<Self, InvalidSchedule> {
        let word = SHORTHANDS.iter().find(|(word, _)| *word == text.trim());
        Self::parse(word.map_or(text, |(_, fields)| fields))
    }

    /// Parses a schedule such as `0 9 * * 1-5`. The error names the invalid field and its valid values.
    pub fn parse(text: &str) -> Result<Self, InvalidSchedule> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = words.as_slice() else {
            return Err(InvalidSchedule(format!(
                "invalid schedule {text:?}: it has {} fields; use five: minute, hour, day of month, month and day of week, such as \"0 22 * * 1-5\"",
                words.len()
            )));
        };
        let words = [minute, hour, day, month, weekday];
        let mut sets = [0_u64; 5];
        for ((field, word), set) in FIELDS.iter().zip(words).zip(&mut sets) {
            *set = field.parse(word).ok_or_else(|| {
                let (least, most) = (field.min, field.max);
                InvalidSchedule(format!(
                    "invalid schedule {text:?}: {word:?} is not a valid {}; use *, numbers from {least} to {most}, lists, ranges or steps",
                    field.name
                ))
            })?;
        }
        let [minutes, hours, days, months, weekdays] = sets;
        let is_any = |word: &str| word.starts_with('*') || word.starts_with('?');
        let either_day = !is_any(day) && !is_any(weekday);
        Ok(Self { minutes, hours, days, months, weekdays, matches_either_day: either_day })
    }

    /// Returns the first start after the given time, or `None` if there is none.
    pub fn next_after(&self, after: DateTime) -> Option<DateTime> {
        let mut date = after.date();
        for day in 0..DAYS_MAX {
            if self.matches_day(date) {
                let earliest = (day == 0).then(|| after.time());
                if let Some(time) =
                    self.times_of_day().find(|time| earliest.is_none_or(|after| *time > after))
                {
                    return Some(date.to_datetime(time));
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// Returns the first start after the given time, in UTC.
    pub fn next_after_utc(&self, after: Timestamp) -> Option<Timestamp> {
        let after = jiff::Timestamp::from_millisecond(after.as_millis()).ok()?;
        let next = self.next_after(TimeZone::UTC.to_datetime(after))?;
        let next = TimeZone::UTC.to_timestamp(next).ok()?;
        Some(Timestamp::from_millis(next.as_millisecond()))
    }

    fn matches_day(&self, date: Date) -> bool {
        let has = |set: u64, number: i8| u32::try_from(number).is_ok_and(|number| has_bit(set, number));
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        let is_day = if self.matches_either_day { day || weekday } else { day && weekday };
        has(self.months, date.month()) && is_day
    }

    fn times_of_day(&self) -> impl Iterator<Item = Time> {
        let hours =
            (0..24_i8).filter(|hour| u32::try_from(*hour).is_ok_and(|hour| has_bit(self.hours, hour)));
        hours.flat_map(|hour| {
            let minutes = (0..60_i8)
                .filter(|minute| u32::try_from(*minute).is_ok_and(|one| has_bit(self.minutes, one)));
            minutes.filter_map(move |minute| Time::new(hour, minute, 0, 0).ok())
        })
    }
}

fn has_bit(set: u64, number: u32) -> bool {
    1_u64.checked_shl(number).is_some_and(|bit| set & bit != 0)
}

impl Field {
    fn parse(&self, text: &str) -> Option<u64> {
        text.split(',').try_fold(0, |set, part| Some(set | self.parse_part(part)?))
    }

    /// Parses `*`, `5` or `1-5`, each optionally with a step: `*/15`, `5/10`, `8-18/2`.
    fn parse_part(&self, text: &str) -> Option<u64> {
        let (range, step) = match text.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<u32>().ok().filter(|step| *step > 0)?)),
            None => (text, None),
        };
        let (first, last) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (self.min, self.max),
            Some((first, last)) => (self.parse_number(first)?, self.parse_number(last)?),
            None => {
                let first = self.parse_number(range)?;
                (first, if step.is_some() { self.max } else { first })
            }
        };
        if first > last {
            return None;
        }
        let step = usize::try_from(step.unwrap_or(1)).ok()?;
        (first..=last).step_by(step).try_fold(0, |set, number| Some(set | 1_u64.checked_shl(number)?))
    }

    fn parse_number(&self, text: &str) -> Option<u32> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let number = match named {
            Some(position) => u32::try_from(position).ok()?.saturating_add(self.min),
            None => text.parse().ok()?,
        };
        (self.min..=self.max).contains(&number).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_start() {
        let table = [
            ("0 9 * * *", "2026-03-02T08:59:59", "2026-03-02T09:00:00"),
            ("0 9 * * *", "2026-03-02T09:00:00", "2026-03-03T09:00:00"),
            ("*/15 * * * *", "2026-12-31T23:50:00", "2027-01-01T00:00:00"),
            ("5/20 1-3 * * *", "2026-03-02T03:45:00", "2026-03-03T01:05:00"),
            ("30 22 * * 1-5", "2026-03-06T22:30:00", "2026-03-09T22:30:00"),
            ("30 22 * * MON-fri/2", "2026-03-02T22:30:00", "2026-03-04T22:30:00"),
            ("0 0 29 2 *", "2026-03-02T00:00:00", "2028-02-29T00:00:00"),
            ("0 0 31 * *", "2026-04-01T00:00:00", "2026-05-31T00:00:00"),
            // With both the day of the month and the day of the week restricted, matching either one is
            // enough.
            ("0 0 13 * 5", "2026-03-02T00:00:00", "2026-03-06T00:00:00"),
            ("0 0 13 * 5", "2026-03-06T00:00:00", "2026-03-13T00:00:00"),
            // A step over all days counts as unrestricted here, so both must match.
            ("0 0 */2 * 1", "2026-03-02T00:00:00", "2026-03-09T00:00:00"),
            ("0 0 ? jan,JUL 0", "2026-03-02T00:00:00", "2026-07-05T00:00:00"),
        ];
        for (schedule, after, expected) in table {
            let next = Schedule::parse(schedule).unwrap().next_after(after.parse().unwrap());
            assert_eq!(next, Some(expected.parse().unwrap()), "{schedule} after {after}");
        }
        assert_eq!(
            Schedule::parse("0 0 31 2 *").unwrap().next_after("2026-03-02T00:00:00".parse().unwrap()),
            None
        );
    }

    #[test]
    fn the_next_start_in_utc() {
        for (schedule, after, expected) in [
            ("*/5 * * * *", "2026-11-21T09:31:20Z", "2026-11-21T09:35:00Z"),
            ("30 9 * * *", "2026-11-21T09:30:00Z", "2026-11-22T09:30:00Z"),
            ("30 9 * * *", "2026-11-21T09:29:59.999Z", "2026-11-21T09:30:00Z"),
            ("0 0 29 2 *", "2026-11-21T09:30:00Z", "2028-02-29T00:00:00Z"),
            ("0 12 1 * 0", "2026-11-21T09:30:00Z", "2026-11-22T12:00:00Z"),
        ] {
            let next = Schedule::parse(schedule).unwrap().next_after_utc(after.parse().unwrap());
            assert_eq!(next, Some(expected.parse().unwrap()), "{schedule} after {after}");
        }
        assert_eq!(Schedule::parse("0 0 31 2 *").unwrap().next_after_utc(Timestamp::from_millis(0)), None);
    }

    #[test]
    fn shorthands_are_accepted_where_allowed() {
        let next = |text| {
            Schedule::parse_with_shorthands(text).unwrap().next_after("2026-12-31T23:30:00".parse().unwrap())
        };
        for (word, expected) in [
            ("@hourly", "2027-01-01T00:00:00"),
            (" @weekly ", "2027-01-03T00:00:00"),
            ("@monthly", "2027-01-01T00:00:00"),
            ("*/20 * * * *", "2026-12-31T23:40:00"),
        ] {
            assert_eq!(next(word), Some(expected.parse().unwrap()), "{word}");
        }
        for wrong in ["@often", "@daily *", "* * * *"] {
            assert!(Schedule::parse_with_shorthands(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_invalid_schedule_is_rejected_with_the_name_of_the_field() {
        for (schedule, wrong) in [
            ("", "has 0 fields"),
            ("@daily", "has 1 fields"),
            ("0 0 0 * * *", "has 6 fields"),
            ("60 * * * *", "\"60\" is not a valid minute"),
            ("* 24 * * *", "\"24\" is not a valid hour"),
            ("* * 0 * *", "\"0\" is not a valid day of month"),
            ("* * * 13 *", "\"13\" is not a valid month"),
            ("* * * * 7", "\"7\" is not a valid day of week"),
            ("* * * * fri-mon", "\"fri-mon\" is not a valid day of week"),
            ("*/0 * * * *", "\"*/0\" is not a valid minute"),
            ("1,,2 * * * *", "\"1,,2\" is not a valid minute"),
            ("-1 * * * *", "\"-1\" is not a valid minute"),
        ] {
            let error = Schedule::parse(schedule).unwrap_err().to_string();
            assert!(error.contains(wrong), "{schedule}: {error}");
        }
    }
}
