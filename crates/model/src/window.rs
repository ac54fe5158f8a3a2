//! Sync windows: whether something may begin. What Argo CD decides, this decides; zones and the time come in.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::{Schedule, Timestamp, parse_duration};

/// The rules of a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// Coordinated Universal Time, in which a window is that names no zone.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// From a rule such as `CET-1CEST,M3.5.0,M10.5.0/3`.
    pub fn of_rule(rule: &str) -> Result<Self, String> {
        TimeZone::posix(rule).map(Self).map_err(|error| format!("time zone {rule:?}: {error}"))
    }

    /// From a file of the database of time zones.
    pub fn of_file(name: &str, rules: &[u8]) -> Result<Self, String> {
        TimeZone::tzif(name, rules).map(Self).map_err(|error| format!("time zone {name:?}: {error}"))
    }
}

/// A sync window, as Argo CD has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Window {
    /// Whether it allows or denies.
    pub kind: WindowKind,
    /// When it begins: five fields, as cron has them.
    pub schedule: String,
    /// How long it lasts, such as `8h`.
    pub duration: String,
    /// The time zone of the schedule, such as `Europe/Berlin`; UTC if not said.
    #[serde(default)]
    pub time_zone: String,
    /// Operations that a person began may pass all the same.
    #[serde(default)]
    pub manual_sync: bool,
    /// Operations that were allowed when they began may go on.
    #[serde(default)]
    pub sync_overrun: bool,
    /// What the window is for, for people.
    #[serde(default)]
    pub description: String,
}

/// What a sync window says while it is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowKind {
    /// Waves may begin; where there are such windows, only in one of them.
    Allow,
    /// Waves may not begin.
    Deny,
}

impl WindowKind {
    /// The word for it: `allow` or `deny`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// A window, ready to be asked.
#[derive(Clone, Debug)]
pub struct Opened {
    kind: WindowKind,
    schedule: Schedule,
    duration: Duration,
    zone: Zone,
    manual: bool,
    overrun: bool,
    shown: String,
}

/// Where a window stands at a moment.
struct Standing {
    is_active: bool,
    /// How long until that may change; `None` if it never does.
    changes_in: Option<Duration>,
}

impl Opened {
    /// Checks a window; `zone` finds the rules of a time zone by its name. The error says what is wrong with it.
    pub fn of(window: &Window, zone: impl Fn(&str) -> Result<Zone, String>) -> Result<Self, String> {
        let duration = parse_duration(&window.duration).map_err(|error| format!("duration: {error}"))?;
        if duration.is_zero() {
            return Err("duration: a window that lasts no time is never open".to_owned());
        }
        let Window { kind, schedule, duration: lasts, time_zone, .. } = window;
        Ok(Self {
            kind: *kind,
            schedule: Schedule::parse(schedule).map_err(|error| error.to_string())?,
            duration,
            zone: if matches!(time_zone.as_str(), "" | "UTC") { Zone::UTC } else { zone(time_zone)? },
            manual: window.manual_sync,
            overrun: window.sync_overrun,
            shown: format!("{}:{schedule}:{lasts}", kind.word()),
        })
    }

    /// It is active if it has begun within its duration, by the clock on the wall of its zone as that stands now.
    fn at(&self, now: Timestamp) -> Option<Standing> {
        let moment = jiff::Timestamp::from_millisecond(now.as_millis()).ok()?;
        let Zone(zone) = &self.zone;
        let local: DateTime = zone.to_offset(moment).to_datetime(moment);
        let earliest = local.checked_sub(self.duration).ok()?;
        let until = |later: DateTime| later.duration_since(local).try_into().ok();
        let begun = self.schedule.next(earliest).filter(|begun| *begun < local);
        let changes_in: Option<Duration> = match begun {
            Some(begun) => begun.checked_add(self.duration).ok().and_then(until),
            None => {
                // At the very moment of its beginning it is not active yet.
                let begins =
                    self.schedule.next(local.checked_sub(Duration::from_nanos(1)).ok()?) == Some(local);
                let next =
                    if begins { Some(Duration::ZERO) } else { self.schedule.next(local).and_then(until) };
                next.map(|wait| wait + Duration::from_millis(1))
            }
        };
        // The clock on the wall may be moved before that.
        let moved = zone.following(moment).next().and_then(|next| {
            Duration::try_from(next.timestamp().duration_since(moment)).ok().filter(|wait| !wait.is_zero())
        });
        Some(Standing {
            is_active: begun.is_some(),
            changes_in: [changes_in, moved].into_iter().flatten().min(),
        })
    }
}

/// What windows keep from beginning, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Whether one denies, or none of those that allow is open.
    pub by: WindowKind,
    /// The windows that are in the way.
    pub windows: Vec<String>,
    /// When they let it through, as far as that can be told.
    pub until: Option<Timestamp>,
}

/// Whether something may begin, or go on that began at a moment, by all windows that are about it.
///
/// A window that denies goes before one that allows. While one denies, what a person began goes on if all that deny have
/// `manualSync`, and what was allowed when it began if all have `syncOverrun`. The same holds where there are windows that
/// allow and none of them is open.
pub fn blocked(
    windows: &[Opened],
    manual: bool,
    began: Option<Timestamp>,
    now: Timestamp,
) -> Option<Blocked> {
    let (by, those) = blocking(windows, manual, began, now)?;
    let windows_in_the_way = those.iter().map(|window| window.shown.clone()).collect();
    Some(Blocked { by, windows: windows_in_the_way, until: opens_at(windows, manual, began, now) })
}

/// How long until the windows may say something else.
pub fn changes_in(windows: &[Opened], now: Timestamp) -> Option<Duration> {
    windows.iter().filter_map(|window| window.at(now)?.changes_in).min()
}

fn blocking(
    windows: &[Opened],
    manual: bool,
    began: Option<Timestamp>,
    now: Timestamp,
) -> Option<(WindowKind, Vec<&Opened>)> {
    let is_active = |window: &&Opened| window.at(now).is_some_and(|standing| standing.is_active);
    let of = |kind| windows.iter().filter(move |window| window.kind == kind);
    let passes = |those: &[&Opened]| {
        manual && those.iter().all(|window| window.manual)
            || those.iter().all(|window| window.overrun)
                && began.is_some_and(|began| blocking(windows, manual, None, began).is_none())
    };
    let denying: Vec<&Opened> = of(WindowKind::Deny).filter(is_active).collect();
    if !denying.is_empty() {
        return (!passes(&denying)).then_some((WindowKind::Deny, denying));
    }
    let allowing: Vec<&Opened> = of(WindowKind::Allow).collect();
    if allowing.is_empty() || allowing.iter().any(is_active) || passes(&allowing) {
        return None;
    }
    Some((WindowKind::Allow, allowing))
}

/// When the windows let it through, if they do within the next changes.
fn opens_at(windows: &[Opened], manual: bool, began: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    const CHANGES_MAX: usize = 64;
    let mut at = now;
    for _ in 0..CHANGES_MAX {
        at = at + changes_in(windows, at)?.max(Duration::from_millis(1));
        if blocking(windows, manual, began, at).is_none() {
            return Some(Timestamp::from_millis(at.as_millis() / 1000 * 1000));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    fn at(text: &str) -> Timestamp {
        Timestamp::from_millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    /// A window that allows, on the day on which the clocks of its zone are moved, minute by minute: from when to when it is
    /// open. As in Argo CD, a window goes by the clock on the wall as that stands now: on such days it begins or ends with the
    /// jump.
    #[test]
    fn days_on_which_clocks_are_moved() {
        const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
        const NEW_YORK: &str = "EST5EDT,M3.2.0,M11.1.0";
        // By half an hour, and the other way round.
        const LORD_HOWE: &str = "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0";
        for (zone, schedule, duration, from, open) in [
            // 02:00 becomes 03:00 at 01:00Z.
            (BERLIN, "0 9 * * *", "8h", "2026-03-29", vec![("07:01", "15:00")]),
            (BERLIN, "0 9 * * *", "8h", "2026-03-28", vec![("08:01", "16:00")]),
            (BERLIN, "30 1 * * *", "1h", "2026-03-29", vec![("00:31", "01:00"), ("23:31", "23:59")]),
            (BERLIN, "30 2 * * *", "1h", "2026-03-29", vec![("01:00", "01:30")]),
            (BERLIN, "0 0 * * *", "6h", "2026-03-29", vec![("00:00", "04:00"), ("22:01", "23:59")]),
            // 03:00 becomes 02:00 at 01:00Z.
            (BERLIN, "30 2 * * *", "1h", "2026-10-25", vec![("00:31", "01:00"), ("01:31", "02:30")]),
            (BERLIN, "0 9 * * *", "8h", "2026-10-25", vec![("08:01", "16:00")]),
            (BERLIN, "0 1 * * *", "2h", "2026-10-25", vec![("00:00", "02:00")]),
            // 02:00 becomes 03:00 at 07:00Z.
            (NEW_YORK, "0 2 * * *", "1h", "2026-03-08", vec![]),
            (NEW_YORK, "0 2 * * *", "2h", "2026-03-08", vec![("07:00", "08:00")]),
            (NEW_YORK, "0 22 * * *", "5h", "2026-03-08", vec![("03:01", "07:00")]),
            // 02:00 becomes 01:00 at 06:00Z.
            (NEW_YORK, "0 1 * * *", "1h", "2026-11-01", vec![("05:01", "06:00"), ("06:01", "07:00")]),
            (NEW_YORK, "0 9 * * *", "1h", "2026-11-01", vec![("14:01", "15:00")]),
            // 02:00 becomes 02:30 at 15:30Z, and 01:30 at 15:00Z.
            (LORD_HOWE, "0 2 * * *", "1h", "2026-10-03", vec![("15:30", "16:00")]),
            (LORD_HOWE, "45 1 * * *", "30m", "2026-04-04", vec![("14:46", "15:00"), ("15:16", "15:45")]),
        ] {
            let window = Window {
                kind: WindowKind::Allow,
                schedule: schedule.to_owned(),
                duration: duration.to_owned(),
                time_zone: zone.to_owned(),
                manual_sync: false,
                sync_overrun: false,
                description: String::new(),
            };
            let windows = [Opened::of(&window, Zone::of_rule).unwrap()];
            let (begin, day) = (at(&format!("{from}T00:00:00Z")), 24 * 60);
            let mut found: Vec<(String, String)> = Vec::new();
            let mut was_open = false;
            for minute in 0..day {
                let now = begin + Duration::from_secs(minute * 60);
                let clock = format!("{:02}:{:02}", minute / 60, minute % 60);
                let blocked = blocked(&windows, false, None, now);
                match (&blocked, was_open) {
                    (None, false) => found.push((clock.clone(), clock)),
                    (_, true) => found.last_mut().unwrap().1 = clock,
                    _ => {}
                }
                was_open = blocked.is_none();
                // What is said of its opening is so: not a second before, and a moment later it is.
                if let Some(until) = blocked.and_then(|blocked| blocked.until) {
                    let is_blocked = |at| super::blocked(&windows, false, None, at).is_some();
                    assert!(
                        !is_blocked(until + Duration::from_secs(1)),
                        "{zone} {schedule} at {now} until {until}"
                    );
                    let before = Timestamp::from_millis(until.as_millis() - 1000);
                    assert!(before < now || is_blocked(before), "{zone} {schedule} at {now} until {until}");
                }
            }
            let open: Vec<(String, String)> =
                open.into_iter().map(|(from, to)| (from.to_owned(), to.to_owned())).collect();
            assert_eq!(found, open, "{zone} {schedule} {duration} on {from}");
        }
    }
}
