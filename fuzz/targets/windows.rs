//! Fuzz target for sync windows, schedules and durations.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_fuzz::checks::{check_window, lines, now};
use tidegate_model::{Schedule, format_duration, parse_duration};

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
    check_window([schedule, duration, time_zone]);
});
