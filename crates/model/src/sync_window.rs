//! Sync windows, evaluated as in Argo CD. Callers supply the current time and the time zones.

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use crate::{Schedule, Timestamp, parse_duration};

/// Time zone rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeZoneRules(TimeZone);

impl TimeZoneRules {
    /// Coordinated Universal Time, a window's default time zone.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// Parses a POSIX rule such as `CET-1CEST,M3.5.0,M10.5.0/3`.
    pub fn from_posix_rule(rule: &str) -> Result<Self, String> {
        TimeZone::posix(rule).map(Self).map_err(|error| format!("time zone {rule:?}: {error}"))
    }

    /// Parses a file from the time zone database.
    pub fn from_tzif(name: &str, rules: &[u8]) -> Result<Self, String> {
        TimeZone::tzif(name, rules).map(Self).map_err(|error| format!("time zone {name:?}: {error}"))
    }
}

/// Sync window, as in Argo CD.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Window {
    /// Effect of the window while it is active: allow or deny.
    pub kind: WindowKind,
    /// Start times as a cron schedule with five fields.
    pub schedule: String,
    /// Duration, such as `8h`.
    pub duration: String,
    /// Time zone of the schedule, such as `Europe/Berlin`. Empty means UTC.
    #[serde(default)]
    pub time_zone: String,
    /// True if user-started operations may run despite the window.
    #[serde(default)]
    pub manual_sync: bool,
    /// True if operations that were allowed when they started may continue.
    #[serde(default)]
    pub sync_overrun: bool,
    /// Description for users.
    #[serde(default)]
    pub description: String,
}

impl Window {
    /// Creates a window with default settings.
    pub fn new(
        kind: WindowKind,
        schedule: impl Into<String>,
        duration: impl Into<String>,
        time_zone: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            schedule: schedule.into(),
            duration: duration.into(),
            time_zone: time_zone.into(),
            manual_sync: false,
            sync_overrun: false,
            description: String::new(),
        }
    }
}

/// Effect of an active sync window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowKind {
    /// Waves may start. If any window of this kind applies to an application, its waves may start only while
    /// at least one is active.
    Allow,
    /// Waves may not start.
    Deny,
}

impl WindowKind {
    /// Returns the name: `allow` or `deny`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}

/// Parsed window.
#[derive(Clone, Debug)]
pub struct ParsedWindow {
    kind: WindowKind,
    schedule: Schedule,
    duration: Duration,
    zone: TimeZoneRules,
    allows_manual: bool,
    allows_overrun: bool,
    display_text: String,
}

/// State of a window at a specific time.
struct WindowState {
    is_active: bool,
    /// Time until the state may change, or `None` if it never does.
    next_change: Option<Duration>,
}

impl ParsedWindow {
    /// Parses a window. `zone` looks up time zone rules by name.
    pub fn parse(
        window: &Window,
        zone: impl Fn(&str) -> Result<TimeZoneRules, String>,
    ) -> Result<Self, String> {
        let duration = parse_duration(&window.duration).map_err(|error| format!("duration: {error}"))?;
        if duration.is_zero() {
            return Err(
                "duration: the window never opens because its duration is zero; use a longer duration"
                    .to_owned(),
            );
        }
        let Window { kind, schedule, duration: lasts, time_zone, .. } = window;
        Ok(Self {
            kind: *kind,
            schedule: Schedule::parse(schedule).map_err(|error| error.to_string())?,
            duration,
            zone: if matches!(time_zone.as_str(), "" | "UTC") {
                TimeZoneRules::UTC
            } else {
                zone(time_zone)?
            },
            allows_manual: window.manual_sync,
            allows_overrun: window.sync_overrun,
            display_text: format!("{}:{schedule}:{lasts}", kind.as_str()),
        })
    }

    /// Returns the window's state at the given time. It is active for its duration after each start, by the
    /// wall clock of its time zone.
    fn state_at(&self, now: Timestamp) -> Option<WindowState> {
        let moment = jiff::Timestamp::from_millisecond(now.as_millis()).ok()?;
        let TimeZoneRules(zone) = &self.zone;
        let local: DateTime = zone.to_offset(moment).to_datetime(moment);
        let earliest = local.checked_sub(self.duration).ok()?;
        let until = |later: DateTime| later.duration_since(local).try_into().ok();
        let begun = self.schedule.next_after(earliest).filter(|begun| *begun < local);
        let changes_in: Option<Duration> = match begun {
            Some(begun) => begun.checked_add(self.duration).ok().and_then(until),
            None => {
                // A window isn't active at the exact time of its start.
                let begins =
                    self.schedule.next_after(local.checked_sub(Duration::from_nanos(1)).ok()?) == Some(local);
                let next = if begins {
                    Some(Duration::ZERO)
                } else {
                    self.schedule.next_after(local).and_then(until)
                };
                next.map(|wait| wait + Duration::from_millis(1))
            }
        };
        // A clock change may come before the window's next start or end.
        let moved = zone.following(moment).next().and_then(|next| {
            Duration::try_from(next.timestamp().duration_since(moment)).ok().filter(|wait| !wait.is_zero())
        });
        Some(WindowState {
            is_active: begun.is_some(),
            next_change: [changes_in, moved].into_iter().flatten().min(),
        })
    }
}

/// Windows that block an operation from starting a wave, and the expected end of the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowBlock {
    /// `Deny` if a deny window is active. `Allow` if there are allow windows but none is active.
    pub kind: WindowKind,
    /// Descriptions of the blocking windows.
    pub windows: Vec<String>,
    /// Expected end of the block, if it can be determined.
    pub expected_end: Option<Timestamp>,
}

/// Returns the windows that block an operation from starting, or from continuing if it started at `began`.
///
/// Active deny windows block an operation, with two exceptions: a user started it and all these windows have
/// `manualSync`, or it was allowed when it started and all these windows have `syncOverrun`.
///
/// Without an active deny window, allow windows block the operation unless one of them is active, with the
/// same two exceptions.
pub fn find_block(
    windows: &[ParsedWindow],
    manual: bool,
    began: Option<Timestamp>,
    now: Timestamp,
) -> Option<WindowBlock> {
    let (by, those) = blocking_windows(windows, manual, began, now)?;
    let windows_in_the_way = those.iter().map(|window| window.display_text.clone()).collect();
    Some(WindowBlock {
        kind: by,
        windows: windows_in_the_way,
        expected_end: opens_at(windows, manual, began, now),
    })
}

/// Returns the time until the result of [`find_block`] may change.
pub fn next_window_change(windows: &[ParsedWindow], now: Timestamp) -> Option<Duration> {
    windows.iter().filter_map(|window| window.state_at(now)?.next_change).min()
}

fn blocking_windows(
    windows: &[ParsedWindow],
    manual: bool,
    began: Option<Timestamp>,
    now: Timestamp,
) -> Option<(WindowKind, Vec<&ParsedWindow>)> {
    let is_active = |window: &&ParsedWindow| window.state_at(now).is_some_and(|standing| standing.is_active);
    let of = |kind| windows.iter().filter(move |window| window.kind == kind);
    let passes = |those: &[&ParsedWindow]| {
        manual && those.iter().all(|window| window.allows_manual)
            || those.iter().all(|window| window.allows_overrun)
                && began.is_some_and(|began| blocking_windows(windows, manual, None, began).is_none())
    };
    let denying: Vec<&ParsedWindow> = of(WindowKind::Deny).filter(is_active).collect();
    if !denying.is_empty() {
        return (!passes(&denying)).then_some((WindowKind::Deny, denying));
    }
    let allowing: Vec<&ParsedWindow> = of(WindowKind::Allow).collect();
    if allowing.is_empty() || allowing.iter().any(is_active) || passes(&allowing) {
        return None;
    }
    Some((WindowKind::Allow, allowing))
}

/// Returns the time at which the windows stop blocking, if it is within the next few changes.
fn opens_at(
    windows: &[ParsedWindow],
    manual: bool,
    began: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    const CHANGES_MAX: usize = 64;
    let mut at = now;
    for _ in 0..CHANGES_MAX {
        at = at + next_window_change(windows, at)?.max(Duration::from_millis(1));
        if blocking_windows(windows, manual, began, at).is_none() {
            return Some(Timestamp::from_millis(at.as_millis() / 1000 * 1000));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    fn timestamp(text: &str) -> Timestamp {
        Timestamp::from_millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    /// Tests an allow window minute by minute on a day with a clock change. As in Argo CD, a window follows
    /// the wall clock, so on such days it can begin or end at the clock change.
    #[test]
    fn days_of_clock_changes() {
        const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
        const NEW_YORK: &str = "EST5EDT,M3.2.0,M11.1.0";
        // Half-hour clock changes in the southern hemisphere.
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
            let window = Window::new(WindowKind::Allow, schedule, duration, zone);
            let windows = [ParsedWindow::parse(&window, TimeZoneRules::from_posix_rule).unwrap()];
            let (begin, day) = (timestamp(&format!("{from}T00:00:00Z")), 24 * 60);
            let mut found: Vec<(String, String)> = Vec::new();
            let mut was_open = false;
            for minute in 0..day {
                let now = begin + Duration::from_secs(minute * 60);
                let clock = format!("{:02}:{:02}", minute / 60, minute % 60);
                let blocked = find_block(&windows, false, None, now);
                match (&blocked, was_open) {
                    (None, false) => found.push((clock.clone(), clock)),
                    (_, true) => found.last_mut().unwrap().1 = clock,
                    _ => {}
                }
                was_open = blocked.is_none();
                // The reported end is exact: the operation is blocked a second before it, and allowed right
                // after.
                if let Some(until) = blocked.and_then(|blocked| blocked.expected_end) {
                    let is_blocked = |at| super::find_block(&windows, false, None, at).is_some();
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
