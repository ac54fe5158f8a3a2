//! Sync windows: when a wave may begin. What Argo CD decides, this decides.

use std::path::Path;
use std::time::Duration;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use tidegate_lifecycle::operation::Verdict;
use tidegate_model::{Schedule, Timestamp, parse_duration};

/// What a gate's name begins with that is open while sync windows allow it.
pub(crate) const WINDOW: &str = "window:";
/// Where systems keep the rules of time zones.
const ZONES: &str = "/usr/share/zoneinfo";
/// A longer zone than anybody's.
const ZONE_BYTES_MAX: u64 = 1 << 16;
/// Rules of time zones change, and so do clocks: a decision is looked at again after this time.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(600);

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
    /// What it is for.
    #[serde(default)]
    pub description: String,
}

/// What a sync window says while it is active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WindowKind {
    /// Waves may begin.
    Allow,
    /// Waves may not begin.
    Deny,
}

/// A window, ready to be asked.
#[derive(Clone, Debug)]
pub(crate) struct Opened {
    kind: WindowKind,
    schedule: Schedule,
    duration: Duration,
    zone: TimeZone,
    manual: bool,
    overrun: bool,
}

/// Where a window stands at a moment.
struct Standing {
    is_active: bool,
    /// How long until it begins or ends; `None` if it never does.
    changes_in: Option<Duration>,
}

/// The rules of a time zone, by its name in the database of time zones.
fn zone(name: &str) -> Result<TimeZone, String> {
    if matches!(name, "" | "UTC") {
        return Ok(TimeZone::UTC);
    }
    let parts_are_plain = name.split('/').all(|part| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+'))
    });
    let path = Path::new(ZONES).join(name);
    let known =
        parts_are_plain && path.metadata().is_ok_and(|file| file.is_file() && file.len() <= ZONE_BYTES_MAX);
    let unknown = || {
        format!(
            "time zone {name:?} is not in {ZONES}; write a name such as Europe/Berlin, or UTC, or install the time zones"
        )
    };
    if !known {
        return Err(unknown());
    }
    let rules = std::fs::read(&path).map_err(|_| unknown())?;
    TimeZone::tzif(name, &rules).map_err(|error| format!("time zone {name:?}: {error}"))
}

impl Opened {
    /// Checks a window. The error says what is wrong with it.
    pub fn of(window: &Window) -> Result<Self, String> {
        let duration = parse_duration(&window.duration).map_err(|error| format!("duration: {error}"))?;
        if duration.is_zero() {
            return Err("duration: a window that lasts no time is never open".to_owned());
        }
        Ok(Self {
            kind: window.kind,
            schedule: Schedule::parse(&window.schedule).map_err(|error| error.to_string())?,
            duration,
            zone: zone(&window.time_zone)?,
            manual: window.manual_sync,
            overrun: window.sync_overrun,
        })
    }

    /// It is active if it has begun within its duration, by the clock on the wall of its zone as that stands now.
    fn at(&self, now: Timestamp) -> Option<Standing> {
        let moment = jiff::Timestamp::from_millisecond(now.as_millis()).ok()?;
        let local: DateTime = self.zone.to_offset(moment).to_datetime(moment);
        let earliest = local.checked_sub(self.duration).ok()?;
        let until = |later: DateTime| later.duration_since(local).try_into().ok();
        let begun = self.schedule.next(earliest).filter(|begun| *begun < local);
        Some(match begun {
            Some(begun) => Standing {
                is_active: true,
                changes_in: begun.checked_add(self.duration).ok().and_then(until),
            },
            None => {
                // At the very moment of its beginning it is not active yet.
                let next =
                    if self.schedule.next(local.checked_sub(Duration::from_nanos(1)).ok()?) == Some(local) {
                        Some(Duration::ZERO)
                    } else {
                        self.schedule.next(local).and_then(until)
                    };
                Standing { is_active: false, changes_in: next.map(|wait| wait + Duration::from_millis(1)) }
            }
        })
    }
}

/// Whether a wave may begin now, and when to look again.
///
/// A window that denies goes before one that allows. While one denies, an operation that a person began goes on if all that
/// deny have `manualSync`, and one that was allowed when it began if all have `syncOverrun`. The same holds where there are
/// windows that allow and none of them is open.
pub(crate) fn decide(
    name: &str,
    windows: &[Opened],
    manual: bool,
    began: Timestamp,
    now: Timestamp,
) -> (Verdict, Duration) {
    let changes = windows.iter().filter_map(|window| window.at(now)?.changes_in).min();
    let again = changes.unwrap_or(LOOK_AGAIN_AFTER).clamp(Duration::from_millis(1), LOOK_AGAIN_AFTER);
    let Some(blocking) = blocking(windows, manual, Some(began), now) else {
        return (Verdict::Open, again);
    };
    let what = match blocking {
        WindowKind::Deny => "denies it",
        WindowKind::Allow => "does not allow it",
    };
    let reason = match opens_at(windows, manual, began, now) {
        // Windows begin and end at whole seconds.
        Some(at) => format!("sync window {name} {what} until {}", at.to_string().replace(".000Z", "Z")),
        None => format!("sync window {name} {what}"),
    };
    (Verdict::closed(reason), again)
}

/// Which kind of window keeps the wave closed.
fn blocking(
    windows: &[Opened],
    manual: bool,
    began: Option<Timestamp>,
    now: Timestamp,
) -> Option<WindowKind> {
    let is_active = |window: &&Opened| window.at(now).is_some_and(|standing| standing.is_active);
    let of = |kind| windows.iter().filter(move |window| window.kind == kind);
    let passes = |those: &[&Opened]| {
        manual && those.iter().all(|window| window.manual)
            || those.iter().all(|window| window.overrun)
                && began.is_some_and(|began| blocking(windows, manual, None, began).is_none())
    };
    let denying: Vec<&Opened> = of(WindowKind::Deny).filter(is_active).collect();
    if !denying.is_empty() {
        return (!passes(&denying)).then_some(WindowKind::Deny);
    }
    let allowing: Vec<&Opened> = of(WindowKind::Allow).collect();
    if allowing.is_empty() || allowing.iter().any(is_active) || passes(&allowing) {
        return None;
    }
    Some(WindowKind::Allow)
}

/// When the windows let it through, if they do within the next changes.
fn opens_at(windows: &[Opened], manual: bool, began: Timestamp, now: Timestamp) -> Option<Timestamp> {
    const CHANGES_MAX: usize = 64;
    let mut at = now;
    for _ in 0..CHANGES_MAX {
        let wait = windows.iter().filter_map(|window| window.at(at)?.changes_in).min()?;
        at = at + wait.max(Duration::from_millis(1));
        if blocking(windows, manual, Some(began), at).is_none() {
            return Some(Timestamp::from_millis(at.as_millis() / 1000 * 1000));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::from_millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    fn window(kind: WindowKind, schedule: &str, duration: &str, zone: &str) -> Window {
        Window {
            kind,
            schedule: schedule.to_owned(),
            duration: duration.to_owned(),
            time_zone: zone.to_owned(),
            manual_sync: false,
            sync_overrun: false,
            description: String::new(),
        }
    }

    fn says(windows: &[Window], manual: bool, began: &str, now: &str) -> String {
        let windows: Vec<Opened> = windows.iter().map(|window| Opened::of(window).unwrap()).collect();
        match decide("w", &windows, manual, at(began), at(now)).0 {
            Verdict::Open => "open".to_owned(),
            Verdict::Closed { reason, .. } => reason,
        }
    }

    const DAY: &str = "2026-03-02T";

    #[test]
    fn what_windows_decide() {
        use WindowKind::{Allow, Deny};
        let office = || window(Allow, "0 9 * * *", "8h", "");
        let lunch = || window(Deny, "0 12 * * *", "1h", "");
        let evening = || window(Allow, "0 20 * * *", "1h", "");
        let manual = |window| Window { manual_sync: true, ..window };
        let overrun = |window| Window { sync_overrun: true, ..window };
        let closed = "sync window w does not allow it until 2026-03-02T";
        // Windows, whether a person began it, when it began, now, and what is decided.
        let table: Vec<(Vec<Window>, bool, &str, &str, String)> = vec![
            (vec![], false, "08:00:00Z", "08:00:00Z", "open".into()),
            (vec![office()], false, "08:00:00Z", "08:59:59Z", format!("{closed}09:00:00Z")),
            (vec![office()], false, "08:00:00Z", "09:00:00Z", format!("{closed}09:00:00Z")),
            (vec![office()], false, "08:00:00Z", "09:00:00.001Z", "open".into()),
            (vec![office()], false, "08:00:00Z", "16:59:59.999Z", "open".into()),
            (vec![office(), evening()], false, "08:00:00Z", "17:00:00Z", format!("{closed}20:00:00Z")),
            (vec![office(), evening()], false, "08:00:00Z", "20:30:00Z", "open".into()),
            (
                vec![office(), lunch()],
                false,
                "08:00:00Z",
                "12:30:00Z",
                "sync window w denies it until 2026-03-02T13:00:00Z".into(),
            ),
            (vec![lunch()], false, "08:00:00Z", "11:00:00Z", "open".into()),
            (vec![manual(office())], true, "08:00:00Z", "08:30:00Z", "open".into()),
            (vec![manual(office()), evening()], true, "08:00:00Z", "08:30:00Z", format!("{closed}09:00:00Z")),
            (vec![manual(office())], false, "08:00:00Z", "08:30:00Z", format!("{closed}09:00:00Z")),
            (vec![manual(lunch()), office()], true, "08:00:00Z", "12:30:00Z", "open".into()),
            // What was allowed when it began may go on, if the windows say so.
            (vec![overrun(lunch())], false, "11:59:00Z", "12:30:00Z", "open".into()),
            (vec![overrun(office())], false, "16:59:00Z", "17:30:00Z", "open".into()),
            (
                vec![overrun(office()), evening()],
                false,
                "16:59:00Z",
                "17:30:00Z",
                format!("{closed}20:00:00Z"),
            ),
        ];
        for (windows, manual, began, now, expected) in table {
            let said = says(&windows, manual, &format!("{DAY}{began}"), &format!("{DAY}{now}"));
            assert_eq!(said, expected, "{windows:?} at {now}");
        }
    }

    #[test]
    fn a_window_goes_by_the_clock_of_its_zone() {
        let office = [window(WindowKind::Allow, "0 9 * * *", "8h", "Europe/Berlin")];
        for (now, is_open) in [
            ("2026-03-02T08:30:00Z", true),
            ("2026-03-02T07:30:00Z", false),
            // Summer time.
            ("2026-07-02T07:30:00Z", true),
            ("2026-07-02T15:30:00Z", false),
        ] {
            assert_eq!(says(&office, false, now, now) == "open", is_open, "{now}");
        }
    }

    #[test]
    fn what_cannot_be_a_window_is_refused() {
        let table = [
            (window(WindowKind::Allow, "0 9 * *", "8h", ""), "has 4 fields"),
            (window(WindowKind::Allow, "0 9 * * *", "long", ""), "duration: "),
            (window(WindowKind::Allow, "0 9 * * *", "0s", ""), "never open"),
            (
                window(WindowKind::Allow, "0 9 * * *", "8h", "Europe/Atlantis"),
                "time zone \"Europe/Atlantis\" is not in",
            ),
            (window(WindowKind::Allow, "0 9 * * *", "8h", "../../../etc/passwd"), "is not in"),
        ];
        for (window, wrong) in table {
            let error = Opened::of(&window).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
