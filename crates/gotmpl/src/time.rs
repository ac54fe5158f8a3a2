//! Times, and Go's time layouts. Times are in UTC unless a zone is specified, so results don't depend on the
//! machine's time zone. Go formats any 64-bit time, but jiff's dates end with the year 9999
//! (<https://github.com/BurntSushi/jiff/issues/5>).

use std::fmt::Write as _;

use crate::zone::Offset;

/// A point in time as seconds since 1970 and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
    /// Offset from UTC in seconds, as written in the parsed string.
    pub(crate) offset: i64,
}

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
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const DAY_SECONDS: i64 = 86_400;

/// Calendar fields of a point in time.
#[derive(Clone, Copy, Debug)]
struct CalendarTime {
    year: i64,
    /// Month, starting at 1.
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    /// Day of the week. 0 is Sunday.
    weekday: i64,
    year_day: i64,
}

impl Time {
    pub(crate) fn from_seconds(seconds: i64) -> Self {
        Self { seconds, nanos: 0, offset: 0 }
    }

    fn civil(self, offset: &Offset) -> CalendarTime {
        let seconds = self.seconds.saturating_add(offset.seconds);
        let days = seconds.div_euclid(DAY_SECONDS);
        let rest = seconds.rem_euclid(DAY_SECONDS);
        let (year, month, day) = date_from_days(days);
        CalendarTime {
            year,
            month,
            day,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            weekday: (days + 4).rem_euclid(7),
            year_day: days - days_since_epoch(year, 1, 1) + 1,
        }
    }

    /// Formats a time like Go, as in `2006-01-02 15:04:05 +0000 UTC`.
    pub(crate) fn to_go_text(self) -> String {
        self.format("2006-01-02 15:04:05.999999999 -0700 MST", &self.own_offset())
    }

    pub(crate) fn rfc3339(self) -> String {
        self.format("2006-01-02T15:04:05.999999999Z07:00", &self.own_offset())
    }

    fn own_offset(self) -> Offset {
        if self.offset == 0 { Offset::utc() } else { Offset { seconds: self.offset, ..Offset::default() } }
    }

    /// Formats a time according to a layout. A layout shows how the reference time (Monday, 2 January 2006,
    /// 15:04:05) would be formatted.
    pub(crate) fn format(self, layout: &str, offset: &Offset) -> String {
        let civil = self.civil(offset);
        let mut text = String::new();
        let mut rest = layout;
        while !rest.is_empty() {
            let Some((before, part, after)) = next_part(rest) else {
                text.push_str(rest);
                break;
            };
            text.push_str(before);
            self.push_element(&mut text, civil, offset, part);
            rest = after;
        }
        text
    }

    fn push_element(self, text: &mut String, civil: CalendarTime, offset: &Offset, part: &str) {
        let twelve = (civil.hour + 11) % 12 + 1;
        // Writing to a string cannot fail.
        let _ = match part {
            "January" => write!(text, "{}", name_at(&MONTHS, civil.month - 1)),
            "Jan" => write!(text, "{}", short_name(name_at(&MONTHS, civil.month - 1))),
            "Monday" => write!(text, "{}", name_at(&DAYS, civil.weekday)),
            "Mon" => write!(text, "{}", short_name(name_at(&DAYS, civil.weekday))),
            "MST" if offset.name.is_empty() => write!(text, "{}", offset.digits("", 2)),
            "MST" => write!(text, "{}", offset.name),
            "01" => write!(text, "{:02}", civil.month),
            "1" => write!(text, "{}", civil.month),
            "02" => write!(text, "{:02}", civil.day),
            "_2" => write!(text, "{:2}", civil.day),
            "__2" => write!(text, "{:3}", civil.year_day),
            "002" => write!(text, "{:03}", civil.year_day),
            "2" => write!(text, "{}", civil.day),
            "03" => write!(text, "{twelve:02}"),
            "3" => write!(text, "{twelve}"),
            "15" => write!(text, "{:02}", civil.hour),
            "04" => write!(text, "{:02}", civil.minute),
            "4" => write!(text, "{}", civil.minute),
            "05" => write!(text, "{:02}", civil.second),
            "5" => write!(text, "{}", civil.second),
            "2006" => write!(text, "{:04}", civil.year),
            "06" => write!(text, "{:02}", civil.year.rem_euclid(100)),
            "PM" => write!(text, "{}", if civil.hour < 12 { "AM" } else { "PM" }),
            "pm" => write!(text, "{}", if civil.hour < 12 { "am" } else { "pm" }),
            _ if part.starts_with('Z') && offset.seconds == 0 => write!(text, "Z"),
            "Z07:00" | "-07:00" => write!(text, "{}", offset.digits(":", 2)),
            "Z0700" | "-0700" => write!(text, "{}", offset.digits("", 2)),
            "Z07:00:00" | "-07:00:00" => write!(text, "{}", offset.digits(":", 3)),
            "Z070000" | "-070000" => write!(text, "{}", offset.digits("", 3)),
            "Z07" | "-07" => write!(text, "{}", offset.digits("", 1)),
            fraction => write!(text, "{}", self.fraction(fraction)),
        };
    }

    /// Formats the fraction of a second. `.000` keeps trailing zeros, and `.999` removes them.
    fn fraction(self, part: &str) -> String {
        let digits = format!("{:09}", self.nanos);
        let (separator, places) = part.split_at(1);
        let cut = digits.get(..places.len()).unwrap_or(&digits);
        if places.starts_with('0') {
            return format!("{separator}{cut}");
        }
        match cut.trim_end_matches('0') {
            "" => String::new(),
            kept => format!("{separator}{kept}"),
        }
    }

    /// Parses a time according to a layout. Only fields in the layout are read.
    pub(crate) fn parse(layout: &str, text: &str) -> Option<Self> {
        let mut reading = TimeParser {
            year: 0,
            month: 1,
            day: 1,
            hour: 0,
            minute: 0,
            second: 0,
            nanos: 0,
            offset: 0,
            pm: None,
        };
        let (mut layout, mut text) = (layout, text);
        while let Some((before, part, after)) = next_part(layout) {
            text = text.strip_prefix(before)?;
            text = reading.read_element(part, text)?;
            if matches!(part, "05" | "5") && !after.starts_with(['.', ',']) {
                text = reading.read_fraction(text);
            }
            layout = after;
        }
        (text == layout).then(|| reading.to_time())?
    }
}

struct TimeParser {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    nanos: u32,
    offset: i64,
    pm: Option<bool>,
}

impl TimeParser {
    fn read_element<'t>(&mut self, part: &str, text: &'t str) -> Option<&'t str> {
        let rest;
        match part {
            "2006" => (self.year, rest) = parse_digits(text, 4, 4)?,
            "06" => {
                let (year, after) = parse_digits(text, 2, 2)?;
                self.year = if year >= 69 { year + 1900 } else { year + 2000 };
                rest = after;
            }
            "01" => (self.month, rest) = parse_digits(text, 2, 2)?,
            "1" => (self.month, rest) = parse_digits(text, 1, 2)?,
            "January" | "Jan" => {
                let (index, after) = parse_name(&MONTHS, text, part == "Jan")?;
                self.month = index + 1;
                rest = after;
            }
            "Monday" | "Mon" => (_, rest) = parse_name(&DAYS, text, part == "Mon")?,
            "02" => (self.day, rest) = parse_digits(text, 2, 2)?,
            "_2" | "2" => (self.day, rest) = parse_digits(text.trim_start_matches(' '), 1, 2)?,
            "15" => (self.hour, rest) = parse_digits(text, 2, 2)?,
            "03" => (self.hour, rest) = parse_digits(text, 2, 2)?,
            "3" => (self.hour, rest) = parse_digits(text, 1, 2)?,
            "04" => (self.minute, rest) = parse_digits(text, 2, 2)?,
            "4" => (self.minute, rest) = parse_digits(text, 1, 2)?,
            "05" => (self.second, rest) = parse_digits(text, 2, 2)?,
            "5" => (self.second, rest) = parse_digits(text, 1, 2)?,
            "PM" | "pm" => {
                let (half, after) = text.split_at_checked(2)?;
                self.pm = Some(half.eq_ignore_ascii_case("pm"));
                rest = after;
            }
            "MST" => rest = text.strip_prefix("UTC").or_else(|| text.strip_prefix("GMT"))?,
            _ if part.starts_with('Z') && text.starts_with('Z') => rest = text.get(1..)?,
            _ if part.contains("07") => rest = self.read_zone(part.trim_start_matches(['Z', '-']), text)?,
            _ => rest = self.read_fraction(text),
        }
        Some(rest)
    }

    fn read_zone<'t>(&mut self, part: &str, text: &'t str) -> Option<&'t str> {
        let sign = if text.starts_with('-') { -1 } else { 1 };
        let (hours, rest) = parse_digits(text.strip_prefix(['+', '-'])?, 2, 2)?;
        let mut seconds = hours * 3600;
        let mut rest = rest;
        if part.len() > 2 {
            let minutes;
            rest = if part.contains(':') { rest.strip_prefix(':')? } else { rest };
            (minutes, rest) = parse_digits(rest, 2, 2)?;
            seconds += minutes * 60;
        }
        self.offset = sign * seconds;
        Some(rest)
    }

    fn read_fraction<'t>(&mut self, text: &'t str) -> &'t str {
        let Some(rest) = text.strip_prefix(['.', ',']) else { return text };
        let end = rest.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(rest.len());
        let (places, rest) = rest.split_at(end);
        if places.is_empty() {
            return text;
        }
        self.nanos =
            format!("{places:0<9}").get(..9).and_then(|nanos| nanos.parse().ok()).unwrap_or_default();
        rest
    }

    fn to_time(&self) -> Option<Time> {
        let hour = match self.pm {
            Some(true) if self.hour < 12 => self.hour + 12,
            Some(false) if self.hour == 12 => 0,
            _ => self.hour,
        };
        let days = days_since_epoch(self.year, self.month, self.day);
        let is_date = date_from_days(days) == (self.year, self.month, self.day);
        let is_valid = is_date && hour < 24 && self.minute < 60 && self.second < 60;
        let seconds = days * DAY_SECONDS + hour * 3600 + self.minute * 60 + self.second - self.offset;
        is_valid.then_some(Time { seconds, nanos: self.nanos, offset: self.offset })
    }
}

fn parse_digits(text: &str, least: usize, most: usize) -> Option<(i64, &str)> {
    let end = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len()).min(most);
    let (digits, rest) = text.split_at_checked(end)?;
    (end >= least).then(|| digits.parse().ok().map(|value| (value, rest)))?
}

fn parse_name<'t>(words: &[&str], text: &'t str, cut: bool) -> Option<(i64, &'t str)> {
    (0_i64..).zip(words).find_map(|(index, word)| {
        let word = if cut { short_name(word) } else { word };
        text.strip_prefix(word).map(|rest| (index, rest))
    })
}

fn name_at<'n>(names: &[&'n str], index: i64) -> &'n str {
    usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or_default()
}

fn short_name(name: &str) -> &str {
    name.get(..3).unwrap_or(name)
}

/// Layout elements. Longer elements come before their own prefixes.
const PARTS: [&str; 33] = [
    "January",
    "Jan",
    "Monday",
    "Mon",
    "MST",
    "2006",
    "__2",
    "_2",
    "002",
    "01",
    "02",
    "03",
    "04",
    "05",
    "06",
    "15",
    "Z07:00:00",
    "Z070000",
    "Z07:00",
    "Z0700",
    "Z07",
    "-07:00:00",
    "-070000",
    "-07:00",
    "-0700",
    "-07",
    "PM",
    "pm",
    "1",
    "2",
    "3",
    "4",
    "5",
];

/// Splits a layout into the text before the next element, the element, and the rest.
fn next_part(layout: &str) -> Option<(&str, &str, &str)> {
    for (at, _) in layout.char_indices() {
        let rest = layout.get(at..)?;
        let length = part_at(rest);
        if length > 0 {
            return Some((layout.get(..at)?, rest.get(..length)?, rest.get(length..)?));
        }
    }
    None
}

fn part_at(rest: &str) -> usize {
    if rest.starts_with(['.', ',']) {
        let digits = rest.get(1..).unwrap_or_default();
        for digit in ['0', '9'] {
            let count = digits.len() - digits.trim_start_matches(digit).len();
            let follows = digits.get(count..).and_then(|rest| rest.chars().next());
            if count > 0 && !follows.is_some_and(|next| next.is_ascii_digit()) {
                return count + 1;
            }
        }
        return 0;
    }
    let part = PARTS.iter().find(|part| rest.starts_with(**part));
    // `Jan` and `Mon` are layout elements only if no letter follows them.
    let is_word = |part: &str| {
        let follows = rest.get(part.len()..).and_then(|rest| rest.chars().next());
        matches!(part, "Jan" | "Mon") && follows.is_some_and(|next| next.is_ascii_lowercase())
    };
    part.filter(|part| !is_word(part)).map_or(0, |part| part.len())
}

/// Returns the number of days from 1970-01-01 to a date. Internally, years start in March so that the leap
/// day is the last day of a year.
fn days_since_epoch(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn date_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let year = year_of_era + era * 400;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

/// Formats a duration in nanoseconds like Go: `1h2m0.5s`.
pub(crate) fn duration_text(nanos: i64) -> String {
    let (sign, nanos) = if nanos < 0 { ("-", nanos.unsigned_abs()) } else { ("", nanos.unsigned_abs()) };
    let fraction = |value: u64, unit: u64, width: usize| {
        let rest = value % unit;
        let text = format!("{rest:0width$}");
        match text.trim_end_matches('0') {
            "" => String::new(),
            kept => format!(".{kept}"),
        }
    };
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{nanos}ns"),
        1_000..1_000_000 => format!("{sign}{}{}µs", nanos / 1_000, fraction(nanos, 1_000, 3)),
        1_000_000..1_000_000_000 => format!("{sign}{}{}ms", nanos / 1_000_000, fraction(nanos, 1_000_000, 6)),
        _ => {
            let seconds = nanos / 1_000_000_000;
            let part = fraction(nanos, 1_000_000_000, 9);
            let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
            let mut text = sign.to_owned();
            let _ = match (hours, minutes) {
                (0, 0) => Ok(()),
                (0, _) => write!(text, "{minutes}m"),
                _ => write!(text, "{hours}h{minutes}m"),
            };
            let _ = write!(text, "{}{part}s", seconds % 60);
            text
        }
    }
}

/// Parses a duration in Go's format. Returns the number of nanoseconds, or `None` if the duration is invalid.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanos = 0.0_f64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        let factor = match unit {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return None,
        };
        nanos += number.parse::<f64>().ok()? * factor;
        rest = after;
    }
    #[expect(clippy::cast_possible_truncation, clippy::as_conversions, reason = "the range has been checked")]
    (nanos < 9.2e18).then_some((nanos * sign) as i64)
}
