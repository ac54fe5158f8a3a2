//! Sync windows: periods in which a wave may start.

use std::path::Path;
use std::time::Duration;

use tidegate_lifecycle::operation::Verdict;
use tidegate_model::{ParsedWindow, TimeZoneRules, Timestamp, WindowKind, find_block, next_window_change};

/// Name prefix of sync window gates.
pub const WINDOW_PREFIX: &str = "window:";
/// Directory of time zone rules.
const ZONEINFO_DIRECTORY: &str = "/usr/share/zoneinfo";
/// Maximum size of a time zone file in bytes.
const ZONE_BYTES_MAX: u64 = 1 << 16;
/// Maximum time before a decision is reevaluated. Time zone rules and clocks may change in the meantime.
const REEVALUATION_INTERVAL_MAX: Duration = Duration::from_secs(600);

/// Loads a time zone by name from the system's database.
pub fn load_time_zone(name: &str) -> Result<TimeZoneRules, String> {
    let parts_are_plain = name.split('/').all(|part| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+'))
    });
    let path = Path::new(ZONEINFO_DIRECTORY).join(name);
    let known =
        parts_are_plain && path.metadata().is_ok_and(|file| file.is_file() && file.len() <= ZONE_BYTES_MAX);
    let unknown = || {
        format!(
            "time zone {name:?} is not in {ZONEINFO_DIRECTORY}; use a name such as Europe/Berlin or UTC, or install the time zone data"
        )
    };
    if !known {
        return Err(unknown());
    }
    let rules = std::fs::read(&path).map_err(|_| unknown())?;
    TimeZoneRules::from_tzif(name, &rules)
}

/// Decides whether a wave may start now, and when to reevaluate.
pub(crate) fn evaluate_windows(
    name: &str,
    windows: &[ParsedWindow],
    manual: bool,
    began: Timestamp,
    now: Timestamp,
) -> (Verdict, Duration) {
    let changes = next_window_change(windows, now);
    let again = changes
        .unwrap_or(REEVALUATION_INTERVAL_MAX)
        .clamp(Duration::from_millis(1), REEVALUATION_INTERVAL_MAX);
    let Some(blocked) = find_block(windows, manual, Some(began), now) else {
        return (Verdict::Open, again);
    };
    let what = match blocked.kind {
        WindowKind::Deny => "denies syncs",
        WindowKind::Allow => "does not allow syncs",
    };
    let reason = match blocked.expected_end {
        // Omit milliseconds: windows start and end at whole seconds.
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

    fn decision_text(windows: &[Window], manual: bool, began: &str, now: &str) -> String {
        let windows: Vec<ParsedWindow> =
            windows.iter().map(|window| ParsedWindow::parse(window, load_time_zone).unwrap()).collect();
        match evaluate_windows("w", &windows, manual, at(began), at(now)).0 {
            Verdict::Open => "open".to_owned(),
            Verdict::Closed { reason, .. } => reason,
        }
    }

    const DAY: &str = "2026-03-02T";

    #[test]
    fn windows_open_and_close_a_gate() {
        use WindowKind::{Allow, Deny};
        let office = || Window::new(Allow, "0 9 * * *", "8h", "");
        let lunch = || Window::new(Deny, "0 12 * * *", "1h", "");
        let evening = || Window::new(Allow, "0 20 * * *", "1h", "");
        let manual = |window| Window { manual_sync: true, ..window };
        let overrun = |window| Window { sync_overrun: true, ..window };
        let closed = "sync window w does not allow syncs until 2026-03-02T";
        // Columns: windows, true for a manual sync, start time, current time, expected decision.
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
                "sync window w denies syncs until 2026-03-02T13:00:00Z".into(),
            ),
            (vec![lunch()], false, "08:00:00Z", "11:00:00Z", "open".into()),
            (vec![manual(office())], true, "08:00:00Z", "08:30:00Z", "open".into()),
            (vec![manual(office()), evening()], true, "08:00:00Z", "08:30:00Z", format!("{closed}09:00:00Z")),
            (vec![manual(office())], false, "08:00:00Z", "08:30:00Z", format!("{closed}09:00:00Z")),
            (vec![manual(lunch()), office()], true, "08:00:00Z", "12:30:00Z", "open".into()),
            // An operation that was allowed to start may continue if the windows permit overruns.
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
            let said = decision_text(&windows, manual, &format!("{DAY}{began}"), &format!("{DAY}{now}"));
            assert_eq!(said, expected, "{windows:?} at {now}");
        }
    }

    #[test]
    fn a_window_follows_the_clock_of_its_time_zone() {
        let office = [Window::new(WindowKind::Allow, "0 9 * * *", "8h", "Europe/Berlin")];
        for (now, is_open) in [
            ("2026-03-02T08:30:00Z", true),
            ("2026-03-02T07:30:00Z", false),
            // This date is in daylight saving time.
            ("2026-07-02T07:30:00Z", true),
            ("2026-07-02T15:30:00Z", false),
        ] {
            assert_eq!(decision_text(&office, false, now, now) == "open", is_open, "{now}");
        }
    }

    #[test]
    fn an_invalid_window_is_rejected() {
        let table = [
            (Window::new(WindowKind::Allow, "0 9 * *", "8h", ""), "has 4 fields"),
            (Window::new(WindowKind::Allow, "0 9 * * *", "long", ""), "duration: "),
            (Window::new(WindowKind::Allow, "0 9 * * *", "0s", ""), "never open"),
            (
                Window::new(WindowKind::Allow, "0 9 * * *", "8h", "Europe/Atlantis"),
                "time zone \"Europe/Atlantis\" is not in",
            ),
            (Window::new(WindowKind::Allow, "0 9 * * *", "8h", "../../../etc/passwd"), "is not in"),
        ];
        for (window, wrong) in table {
            let error = ParsedWindow::parse(&window, load_time_zone).unwrap_err();
            assert!(error.contains(wrong), "{error}");
        }
    }
}
