//! Sync windows.

use tidegate_testkit::fuzz;

use crate::checks::{check_window, lines};

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
    fuzz::fuzz_bytes("windows", &seeds, &words, |input| check_window(lines(input)));
}
