//! Time across restarts.
//!
//! A running process measures time instead of reading the wall clock. Time between two processes on the same
//! machine is measured, too: the `clock` file in the state directory maps operation time to uptime.
//!
//! ```text
//! clock     boot id | milliseconds since boot | milliseconds since 1970 | first digits of the SHA-256 of these
//! ```
//!
//! After a reboot, or on another machine, only the wall clock can tell how much time has passed. It isn't
//! trusted if it has gone backwards. Without an open operation, nothing depends on the measured time, and the
//! wall clock is used.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tidegate_executor::{Clock as _, SystemClock, Uptime};
use tidegate_model::{Timestamp, format_duration};
use tidegate_oplog::{Log, LogError, Lookup};

use crate::error::ServiceError;
use crate::files;
use crate::notices::Notices;
use crate::operations;
use crate::state_dir::StateDir;

/// Tolerated difference between the clocks. System clocks are constantly corrected by small amounts.
const TOLERANCE: Duration = Duration::from_secs(5);
/// Maximum size of the file in bytes.
const BYTES_MAX: u64 = 1024;
const DIGITS: usize = 16;

/// Operation time at a given machine uptime.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ClockMark {
    uptime: Uptime,
    time: Timestamp,
}

/// Content of an earlier process's clock file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StoredMark {
    /// The file doesn't exist.
    Missing,
    /// The file contains a valid time.
    Mark(ClockMark),
    /// The file is invalid or unreadable. A power failure may leave it empty, for example.
    Invalid,
}

/// Result of comparing the wall clock with the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockComparison {
    /// The wall clock matches the measured time.
    InAgreement,
    /// The wall clock was set forward by this amount. Operations continue with measured time.
    Ahead(Timestamp, Duration),
    /// The wall clock was set back by this amount, or is behind because the state directory moved to another
    /// machine.
    Behind(Timestamp, Duration),
}

/// Sets this process's clock from the file that earlier processes wrote. Warns about a difference from the
/// wall clock.
///
/// # Errors
///
/// Returns an error if the path is not a regular file.
pub fn initialize_clock(state_dir: &StateDir, log: &Log, notices: &dyn Notices) -> Result<(), ServiceError> {
    let path = state_dir.clock();
    let mark = match read_stored_mark(&path)? {
        StoredMark::Mark(mark) => mark,
        StoredMark::Missing => return Ok(()),
        StoredMark::Invalid => {
            notices.warn(&format!(
                "{} is damaged and will be rewritten by the next operation; clock changes since the last operation cannot be detected",
                path.display()
            ));
            return Ok(());
        }
    };
    let is_open = match operations::list_operations(log, &Lookup::open()) {
        Ok(listed) => !operations::open_operations(&listed).is_empty(),
        // The next query for operations reports the same error.
        Err(_) => return Ok(()),
    };
    if !is_open {
        return Ok(());
    }
    let (time, by, which) = match compare_clocks(&mark, Uptime::now().as_ref(), SystemClock.now()) {
        ClockComparison::InAgreement => return Ok(()),
        ClockComparison::Ahead(time, by) => (time, by, "ahead of"),
        ClockComparison::Behind(time, by) => (time, by, "behind"),
    };
    SystemClock::set(time);
    notices.warn(&format!(
        "this machine's clock is {} {which} the time expected from the unfinished operations in {}; until these \
         operations end, deadlines and timestamps use the expected time",
        format_duration(Duration::from_secs(by.as_secs())),
        state_dir.path().display()
    ));
    Ok(())
}

/// Writes the current time for later processes. The caller must hold the lock on the state directory.
pub fn write_mark(state_dir: &StateDir) {
    let Some(uptime) = Uptime::now() else { return };
    let mark = ClockMark { uptime, time: SystemClock.now() };
    let path = state_dir.clock();
    // Without the file, the next process uses the wall clock.
    if let Err(error) = files::replace_file(&path, &mark.to_line()) {
        tracing::warn!(%error, path = %path.display(), "failed to store the time for later processes");
    }
}

fn compare_clocks(mark: &ClockMark, uptime: Option<&Uptime>, wall: Timestamp) -> ClockComparison {
    let measured = uptime
        .filter(|uptime| uptime.boot == mark.uptime.boot)
        .and_then(|uptime| uptime.since.checked_sub(mark.uptime.since))
        .map(|passed| mark.time + passed);
    let least = measured.unwrap_or(mark.time);
    if least.since(wall) > TOLERANCE {
        return ClockComparison::Behind(least, least.since(wall));
    }
    match measured {
        Some(time) if wall.since(time) > TOLERANCE => ClockComparison::Ahead(time, wall.since(time)),
        _ => ClockComparison::InAgreement,
    }
}

fn read_stored_mark(path: &Path) -> Result<StoredMark, ServiceError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            return Err(LogError::NotAFile { path: path.to_path_buf() }.into());
        }
        Ok(_) => {}
        Err(_) => return Ok(StoredMark::Missing),
    }
    let mut line = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut line));
    let mark = read.ok().and_then(|_| std::str::from_utf8(&line).ok().and_then(ClockMark::parse));
    Ok(mark.map_or(StoredMark::Invalid, StoredMark::Mark))
}

impl ClockMark {
    fn to_line(&self) -> String {
        let Self { uptime: Uptime { boot, since }, time } = self;
        let text = format!("{boot} {} {}", since.as_millis(), time.as_millis());
        format!("{text} {}\n", line_digest(&text))
    }

    fn parse(line: &str) -> Option<Self> {
        let (said, stored) = line.strip_suffix('\n')?.rsplit_once(' ')?;
        let mut text = said.split(' ');
        let (boot, since, time) = (text.next()?, text.next()?.parse().ok()?, text.next()?.parse().ok()?);
        let uptime = Uptime { boot: boot.to_owned(), since: Duration::from_millis(since) };
        (line_digest(said) == stored).then(|| Self { uptime, time: Timestamp::from_millis(time) })
    }
}

fn line_digest(text: &str) -> String {
    let digits: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    digits.chars().take(DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn uptime_since(boot: &str, since: Duration) -> Uptime {
        Uptime { boot: boot.to_owned(), since }
    }

    #[test]
    fn clock_steps_are_distinguished_from_elapsed_time() {
        let noon = Timestamp::from_millis(1_795_262_400_000);
        let mark = ClockMark { uptime: uptime_since("a", HOUR), time: noon };
        let later = noon + HOUR;
        let second = Duration::from_secs(1);
        let same = Some(uptime_since("a", HOUR * 2));
        let rows = [
            ("an hour has passed", same.clone(), later, ClockComparison::InAgreement),
            (
                "and the clock was put right by a second",
                same.clone(),
                later + second,
                ClockComparison::InAgreement,
            ),
            ("or back", same.clone(), later - second, ClockComparison::InAgreement),
            ("set forward", same.clone(), later + HOUR, ClockComparison::Ahead(later, HOUR)),
            ("set back", same.clone(), noon - HOUR, ClockComparison::Behind(later, HOUR * 2)),
            ("another machine, later", Some(uptime_since("b", second)), later, ClockComparison::InAgreement),
            (
                "another machine, earlier",
                Some(uptime_since("b", HOUR * 9)),
                noon - HOUR,
                ClockComparison::Behind(noon, HOUR),
            ),
            (
                "an uptime that went back",
                Some(uptime_since("a", second)),
                later,
                ClockComparison::InAgreement,
            ),
            ("a system without an uptime", None, noon - HOUR, ClockComparison::Behind(noon, HOUR)),
        ];
        for (what, uptime, wall, expected) in rows {
            assert_eq!(compare_clocks(&mark, uptime.as_ref(), wall), expected, "{what}");
        }
    }

    #[test]
    fn a_mark_is_read_exactly_as_written_or_rejected() {
        let mark = ClockMark {
            uptime: uptime_since("c4a5d083", HOUR),
            time: Timestamp::from_millis(1_795_262_400_000),
        };
        let line = mark.to_line();
        assert_eq!(ClockMark::parse(&line), Some(mark));
        for at in 0..line.len() {
            let mut bytes = line.clone().into_bytes();
            bytes[at] ^= 1;
            assert_eq!(ClockMark::parse(&String::from_utf8(bytes).unwrap()), None, "byte {at}");
            assert_eq!(ClockMark::parse(&line[..at]), None, "{at} bytes");
        }
    }
}
