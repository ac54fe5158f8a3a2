//! Fuzz target for sync windows, schedules and durations.
#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::{lines, now};
use tidegate_model::{
    ParsedWindow, Schedule, TimeZoneRules, Window, WindowKind, find_block, format_duration,
    next_window_change, parse_duration,
};

/// Time zone rules for Berlin as a POSIX string, so that the target doesn't depend on the machine's time zone
/// database.
const RULE: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

fuzz_target!(|input: &[u8]| {
    let [schedule, duration, time_zone] = lines(input);
    if let Ok(duration) = parse_duration(&duration) {
        assert!(!format_duration(duration).is_empty());
    }
    if let Ok(read) = Schedule::parse_with_shorthands(&schedule) {
        let (Some(first), from) = (read.next_after_utc(now()), now()) else { return };
        assert!(first > from);
        let second = read.next_after_utc(first);
        assert!(second.is_some_and(|second| second > first), "{schedule:?} returns the same time twice");
    }
    let window = |kind| Window {
        kind,
        schedule: schedule.clone(),
        duration: duration.clone(),
        time_zone: time_zone.clone(),
        manual_sync: false,
        sync_overrun: true,
        description: String::new(),
    };
    let zone = |name: &str| TimeZoneRules::from_posix_rule(if name == "Europe/Berlin" { RULE } else { name });
    let read = |kind| ParsedWindow::parse(&window(kind), zone);
    let (Ok(allow), Ok(deny)) = (read(WindowKind::Allow), read(WindowKind::Deny)) else { return };
    for days in [0, 30, 130, 400] {
        let at = now() + Duration::from_secs(86_400 * days);
        let is_denied = find_block(std::slice::from_ref(&deny), false, None, at).is_some();
        let is_allowed = find_block(std::slice::from_ref(&allow), false, None, at).is_none();
        assert_eq!(is_denied, is_allowed, "an allow window is the opposite of the same deny window");
        next_window_change(&[allow.clone(), deny.clone()], at);
    }
});
