//! Dates in the Gregorian calendar in UTC, for Lua's `os.time` and `os.date`.

const DAY_SECONDS: i64 = 86_400;
/// Supported range in seconds before and after 1970: a hundred thousand years.
const SECONDS_MAX: i64 = 100_000 * 366 * DAY_SECONDS;
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// A time, broken down into calendar fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CalendarTime {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    /// Day of the week. 0 is Sunday.
    pub(super) weekday: i64,
    /// Day of the year, starting at 1.
    pub(super) day_of_year: i64,
}

/// Returns the number of days from 1970-01-01 to a date. Months and days that are out of range carry over.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let months = month - 1;
    let year = year + months.div_euclid(12);
    let month = months.rem_euclid(12) + 1;
    // In this calculation, years start in March, so the leap day is the last day of a year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

/// Returns the number of seconds from 1970 to a date and time. Values that are out of range carry over.
pub(super) fn seconds_since_epoch(date: [i64; 3], time: [i64; 3]) -> Option<i64> {
    let ([year, month, day], [hour, minute, second]) = (date, time);
    let all = [year, month, day, hour, minute, second];
    if all.iter().any(|part| part.unsigned_abs() > SECONDS_MAX.unsigned_abs()) || year.abs() > 100_000 {
        return None;
    }
    Some(days_since_epoch(year, month, day) * DAY_SECONDS + hour * 3_600 + minute * 60 + second)
}

impl CalendarTime {
    /// Splits a number of seconds since 1970 into calendar fields.
    pub(super) fn from_seconds(seconds: i64) -> Option<Self> {
        if seconds.unsigned_abs() > SECONDS_MAX.unsigned_abs() {
            return None;
        }
        let (days, rest) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
        // Start with an estimate that is never too late, and correct it below.
        let mut year = 1970 + days.div_euclid(if days < 0 { 365 } else { 366 });
        while days_since_epoch(year + 1, 1, 1) <= days {
            year += ((days - days_since_epoch(year + 1, 1, 1)) / 366).max(1);
        }
        let month =
            (2..=12).take_while(|month| days_since_epoch(year, *month, 1) <= days).last().unwrap_or(1);
        Some(Self {
            year,
            month,
            day: days - days_since_epoch(year, month, 1) + 1,
            hour: rest / 3_600,
            minute: rest / 60 % 60,
            second: rest % 60,
            weekday: (days + 4).rem_euclid(7),
            day_of_year: days - days_since_epoch(year, 1, 1) + 1,
        })
    }

    /// Formats the time like C's `strftime`. Unknown directives are left unchanged.
    pub(super) fn format(&self, format: &str) -> String {
        let mut text = String::new();
        let mut characters = format.chars();
        while let Some(character) = characters.next() {
            match if character == '%' { characters.next() } else { None } {
                None => text.push(character),
                Some(directive) => text.push_str(&self.format_directive(directive)),
            }
        }
        text
    }

    fn format_directive(&self, directive: char) -> String {
        let name = |names: &[&str], index: i64, length: usize| {
            let name =
                usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or_default();
            name.get(..length).unwrap_or(name).to_owned()
        };
        match directive {
            'Y' => self.year.to_string(),
            'y' => format!("{:02}", self.year.rem_euclid(100)),
            'm' => format!("{:02}", self.month),
            'd' => format!("{:02}", self.day),
            'H' => format!("{:02}", self.hour),
            'I' => format!("{:02}", (self.hour + 11) % 12 + 1),
            'M' => format!("{:02}", self.minute),
            'S' => format!("{:02}", self.second),
            'p' => if self.hour < 12 { "AM" } else { "PM" }.to_owned(),
            'j' => format!("{:03}", self.day_of_year),
            'w' => self.weekday.to_string(),
            'a' => name(&WEEKDAYS, self.weekday, 3),
            'A' => name(&WEEKDAYS, self.weekday, usize::MAX),
            'b' | 'h' => name(&MONTHS, self.month - 1, 3),
            'B' => name(&MONTHS, self.month - 1, usize::MAX),
            'T' | 'X' => self.format("%H:%M:%S"),
            'F' => self.format("%Y-%m-%d"),
            'D' | 'x' => self.format("%m/%d/%y"),
            'R' => self.format("%H:%M"),
            'c' => self.format("%a %b %d %H:%M:%S %Y"),
            'Z' => "UTC".to_owned(),
            'z' => "+0000".to_owned(),
            '%' => "%".to_owned(),
            other => format!("%{other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_survive_a_round_trip() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 Thursday 001"),
            (951_782_400, "2000-02-29 00:00:00 Tuesday 060"),
            (1_795_253_400, "2026-11-21 09:30:00 Saturday 325"),
            (-1, "1969-12-31 23:59:59 Wednesday 365"),
            (4_107_542_399, "2100-02-28 23:59:59 Sunday 059"),
        ] {
            let moment = CalendarTime::from_seconds(seconds).unwrap();
            assert_eq!(moment.format("%F %T %A %j"), text);
            let date = [moment.year, moment.month, moment.day];
            assert_eq!(seconds_since_epoch(date, [moment.hour, moment.minute, moment.second]), Some(seconds));
        }
        for seconds in (-200_000_000_000..200_000_000_000).step_by(7_777_777_777) {
            let moment = CalendarTime::from_seconds(seconds).unwrap();
            let date = [moment.year, moment.month, moment.day];
            assert_eq!(seconds_since_epoch(date, [moment.hour, moment.minute, moment.second]), Some(seconds));
        }
        assert_eq!(
            seconds_since_epoch([2025, 14, 32], [0, 0, 0]),
            seconds_since_epoch([2026, 3, 4], [0, 0, 0]),
            "carried over"
        );
        assert_eq!(seconds_since_epoch([i64::MAX, 1, 1], [0, 0, 0]), None);
        assert_eq!(CalendarTime::from_seconds(i64::MIN), None);
    }

    #[test]
    fn formats() {
        let moment = CalendarTime::from_seconds(1_795_253_400 + 4 * 3_600 + 5).unwrap();
        assert_eq!(moment.format("!%Y-%m-%dT%XZ"), "!2026-11-21T13:30:05Z");
        assert_eq!(
            moment.format("%c | %I%p %y %b %B %a %h %R %D %% %Q %"),
            "Sat Nov 21 13:30:05 2026 | 01PM 26 Nov November Sat Nov 13:30 11/21/26 % %Q %"
        );
    }
}
