//! Schedules of CronJobs: five fields, in UTC.

use std::time::Duration;

use tidegate_model::Timestamp;

/// When something is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    minutes: Vec<bool>,
    hours: Vec<bool>,
    days: Vec<bool>,
    months: Vec<bool>,
    weekdays: Vec<bool>,
    /// Days of the month and of the week are both given: either is enough.
    either_day: bool,
}

const SHORTHANDS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

const MINUTE: i64 = 60;
const DAY: i64 = 86_400;
/// The longest gap a schedule can have: from one 29 February to the next across a century without one.
const DAYS_MAX: i64 = 366 * 8;

impl Schedule {
    /// Reads a schedule; `None` when it is not one. Names of months and days are not read.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = SHORTHANDS.iter().find(|(name, _)| *name == text).map_or(text, |(_, fields)| fields);
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields.as_slice() else { return None };
        let mut week = field(weekdays, 0, 7)?;
        // Sunday is 0 and 7.
        if week.pop()? {
            *week.first_mut()? = true;
        }
        Some(Self {
            minutes: field(minutes, 0, 59)?,
            hours: field(hours, 0, 23)?,
            days: field(days, 1, 31)?,
            months: field(months, 1, 12)?,
            weekdays: week,
            either_day: !days.starts_with('*') && !weekdays.starts_with('*'),
        })
    }

    /// The first time due after `time`.
    pub(crate) fn next(&self, time: Timestamp) -> Option<Timestamp> {
        let start = (time.as_seconds().div_euclid(MINUTE) + 1) * MINUTE;
        let first_day = start.div_euclid(DAY);
        for day in first_day..first_day + DAYS_MAX {
            if self.has_day(day) {
                let from = if day == first_day { start.rem_euclid(DAY) / MINUTE } else { 0 };
                let minute = (from..DAY / MINUTE)
                    .find(|minute| at(&self.hours, minute / 60) && at(&self.minutes, minute % 60));
                if let Some(minute) = minute {
                    let seconds = u64::try_from(day * DAY + minute * MINUTE).ok()?;
                    return Some(Timestamp::from_millis(0) + Duration::from_secs(seconds));
                }
            }
        }
        None
    }

    fn has_day(&self, day: i64) -> bool {
        let (month, day_of_month) = civil(day);
        // 1 January 1970 was a Thursday.
        let in_week = at(&self.weekdays, (day + 4).rem_euclid(7));
        let in_month = at(&self.days, day_of_month - 1);
        at(&self.months, month - 1) && if self.either_day { in_week || in_month } else { in_week && in_month }
    }
}

fn at(flags: &[bool], position: i64) -> bool {
    usize::try_from(position).ok().and_then(|position| flags.get(position)).copied().unwrap_or(false)
}

/// One field: `*`, numbers, ranges, steps and lists of them.
fn field(text: &str, least: usize, most: usize) -> Option<Vec<bool>> {
    let mut flags = vec![false; most - least + 1];
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, step.parse().ok().filter(|step| *step > 0)?),
            None => (part, 1),
        };
        let (from, to) = match range.split_once('-') {
            _ if range == "*" || range == "?" => (least, most),
            Some((from, to)) => (from.parse().ok()?, to.parse().ok()?),
            None if part.contains('/') => (range.parse().ok()?, most),
            None => (range.parse().ok()?, range.parse().ok()?),
        };
        if from < least || to > most || from > to {
            return None;
        }
        for number in (from..=to).step_by(step) {
            *flags.get_mut(number - least)? = true;
        }
    }
    Some(flags)
}

/// Month and day of the month of a day counted from 1 January 1970. The year begins in March here, so that the leap
/// day is the last one.
fn civil(day: i64) -> (i64, i64) {
    let shifted = day + 719_468;
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * month + 2) / 5 + 1;
    (if month < 10 { month + 3 } else { month - 9 }, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_next_time() {
        for (schedule, from, expected) in [
            ("*/5 * * * *", "2026-11-21T09:31:20Z", "2026-11-21T09:35:00Z"),
            ("0 3 * * *", "2026-11-21T09:30:00Z", "2026-11-22T03:00:00Z"),
            ("30 9 * * *", "2026-11-21T09:30:00Z", "2026-11-22T09:30:00Z"),
            ("0 0 29 2 *", "2026-11-21T09:30:00Z", "2028-02-29T00:00:00Z"),
            ("0 12 * * 1-5", "2026-11-21T09:30:00Z", "2026-11-23T12:00:00Z"),
            ("0 12 1 * 0", "2026-11-21T09:30:00Z", "2026-11-22T12:00:00Z"),
            ("@hourly", "2026-12-31T23:30:00Z", "2027-01-01T00:00:00Z"),
        ] {
            let next = Schedule::parse(schedule).unwrap().next(from.parse().unwrap()).unwrap();
            assert_eq!(next, expected.parse().unwrap(), "{schedule}");
        }
        for wrong in ["", "* * * *", "61 * * * *", "a * * * *", "*/0 * * * *"] {
            assert_eq!(Schedule::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Schedule::parse("0 0 31 2 *").unwrap().next(Timestamp::from_millis(0)), None);
    }
}
