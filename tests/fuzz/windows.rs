//! Sync windows.

use std::time::Duration;

use tidegate_model::{ParsedWindow, TimeZoneRules, Window, WindowKind, find_block, next_window_change};
use tidegate_testkit::fuzz;

use crate::now;

/// Time zone rules of Berlin, which don't depend on a time zone database on this machine.
const RULE: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

#[test]
fn fuzz_windows() {
    let seeds: [&[u8]; 5] = [
        b"0 22 * * 1-5\n8h\nEurope/Berlin",
        b"*/5 0-6/2 1,15 JAN-MAR mon\n30m\n",
        b"@every 1h30m\n90s\nUTC",
        b"30 2 31 3 7\n1h\nCET-1CEST,M3.5.0,M10.5.0/3",
        b"CRON_TZ=America/New_York 0 0 29 2 ?\n100000h\nEST5EDT",
    ];
    let words =
        ["@daily", "@reboot", "*/0", "60", "L", "#2", "-", ",", "59/59", "2562047h", "1ns", "h", "\n"];
    fuzz::fuzz_bytes("windows", &seeds, &words, |input| {
        let text = String::from_utf8_lossy(input);
        let mut lines = text.split('\n').map(str::to_owned);
        let mut next = || lines.next().unwrap_or_default();
        let (schedule, duration, time_zone) = (next(), next(), next());
        let window = |kind| Window {
            kind,
            schedule: schedule.clone(),
            duration: duration.clone(),
            time_zone: time_zone.clone(),
            manual_sync: false,
            sync_overrun: true,
            description: String::new(),
        };
        let zone = |name: &str| match name {
            "Europe/Berlin" => TimeZoneRules::from_posix_rule(RULE),
            other => TimeZoneRules::from_posix_rule(other),
        };
        let read = |kind| ParsedWindow::parse(&window(kind), zone);
        let (Ok(allow), Ok(deny)) = (read(WindowKind::Allow), read(WindowKind::Deny)) else { return };
        for days in [0, 30, 130, 400] {
            let at = now() + Duration::from_secs(86_400 * days);
            let is_denied = find_block(std::slice::from_ref(&deny), false, None, at).is_some();
            let is_allowed = find_block(std::slice::from_ref(&allow), false, None, at).is_none();
            assert_eq!(is_denied, is_allowed, "allow and deny windows agree: {text:?}");
            next_window_change(&[allow.clone(), deny.clone()], at);
        }
    });
}
