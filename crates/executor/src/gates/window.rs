//! Sync windows: when a wave may begin.

use std::path::Path;
use std::time::Duration;

use tidegate_lifecycle::operation::Verdict;
use tidegate_model::{Opened, Timestamp, WindowKind, Zone, blocked, changes_in};

/// What a gate's name begins with that is open while sync windows allow it.
pub const WINDOW: &str = "window:";
/// Where systems keep the rules of time zones.
const ZONES: &str = "/usr/share/zoneinfo";
/// A longer zone than anybody's.
const ZONE_BYTES_MAX: u64 = 1 << 16;
/// Rules of time zones change, and so do clocks: a decision is looked at again after this time.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// The rules of a time zone, by its name in the database of time zones of this machine.
pub fn zone(name: &str) -> Result<Zone, String> {
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
    Zone::of_file(name, &rules)
}

/// Whether a wave may begin now, and when to look again.
pub(crate) fn decide(
    name: &str,
    windows: &[Opened],
    manual: bool,
    began: Timestamp,
    now: Timestamp,
) -> (Verdict, Duration) {
    let changes = changes_in(windows, now);
    let again = changes.unwrap_or(LOOK_AGAIN_AFTER).clamp(Duration::from_millis(1), LOOK_AGAIN_AFTER);
    let Some(blocked) = blocked(windows, manual, Some(began), now) else {
        return (Verdict::Open, again);
    };
    let what = match blocked.by {
        WindowKind::Deny => "denies it",
        WindowKind::Allow => "does not allow it",
    };
    let reason = match blocked.until {
        // Windows begin and end at whole seconds.
        Some(at) => format!("sync window {name} {what} until {}", at.to_string().replace(".000Z", "Z")),
        None => format!("sync window {name} {what}"),
    };
    (Verdict::closed(reason), again)
}

#[cfg(test)]
mod tests {
    use tidegate_model::Window;

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
        let windows: Vec<Opened> = windows.iter().map(|window| Opened::of(window, zone).unwrap()).collect();
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
            let error = Opened::of(&window, zone).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
