//! Time over restarts.
//!
//! While a process runs, time is measured and not read from the wall. Between two processes of one machine it is measured
//! as well: the file `clock` of the state directory says which time it was, by the clock that operations go by, at which
//! moment of the machine's uptime.
//!
//! ```text
//! clock     boot id | milliseconds since boot | milliseconds since 1970 | the first digits of the SHA-256 of these
//! ```
//!
//! Where the machine was started anew, or is another one, only its clock can tell how much time has passed; it is not
//! believed when it says that time went back. Where no operation is open nothing depends on it, and the clock on the wall
//! counts.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tidegate_executor::{Clock as _, SystemClock, Uptime};
use tidegate_model::{Timestamp, format_duration};
use tidegate_oplog::{Log, LogError, Lookup};

use crate::error::ServiceError;
use crate::notices::Notices;
use crate::operations;
use crate::state_dir::StateDir;

/// Clocks are corrected by a little all the time.
const TOLERANCE: Duration = Duration::from_secs(5);
/// A line.
const BYTES_MAX: u64 = 1024;
const DIGITS: usize = 16;

/// The time at a moment of a machine's uptime.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    uptime: Uptime,
    time: Timestamp,
}

/// What an earlier process has left.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Left {
    /// Nothing.
    Nothing,
    /// The time.
    Mark(Mark),
    /// Something else, or something that may not be read. A machine that lost its power may have left an empty file.
    Garbled,
}

/// What was made of the clock on the wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    /// It goes on from where it was.
    Steady,
    /// It was set by so much, and operations go on by the time that passed.
    Ahead(Timestamp, Duration),
    /// It was set back by so much, or another machine is behind.
    Behind(Timestamp, Duration),
}

/// Sets the clock of this process by what earlier ones have left, and says so when it is not that of the wall.
///
/// # Errors
///
/// Something that is no file is in its place.
pub fn settle(state_dir: &StateDir, log: &Log, notices: &dyn Notices) -> Result<(), ServiceError> {
    let path = state_dir.clock();
    let mark = match read(&path)? {
        Left::Mark(mark) => mark,
        Left::Nothing => return Ok(()),
        Left::Garbled => {
            notices.warn(&format!(
                "{} is damaged, and is written anew by the next operation: whether the clock of this machine was set since the last one cannot be told",
                path.display()
            ));
            return Ok(());
        }
    };
    let is_open = match operations::listed(log, &Lookup::open()) {
        Ok(listed) => !operations::open_operations(&listed).is_empty(),
        // Whoever asks for operations next is told.
        Err(_) => return Ok(()),
    };
    if !is_open {
        return Ok(());
    }
    let (time, by, which) = match judge(&mark, Uptime::now().as_ref(), SystemClock.now()) {
        Judgement::Steady => return Ok(()),
        Judgement::Ahead(time, by) => (time, by, "ahead of"),
        Judgement::Behind(time, by) => (time, by, "behind"),
    };
    SystemClock::set(time);
    notices.warn(&format!(
        "the clock of this machine is {} {which} the one that the open operations in {} go by; their deadlines count the time that has passed, and until they are over times are told by that clock",
        format_duration(Duration::from_secs(by.as_secs())),
        state_dir.path().display()
    ));
    Ok(())
}

/// Leaves the time for later processes. The caller holds the lock of the state directory.
pub fn mark(state_dir: &StateDir) {
    let Some(uptime) = Uptime::now() else { return };
    let mark = Mark { uptime, time: SystemClock.now() };
    let (path, new) = (state_dir.clock(), state_dir.path().join("clock.new"));
    // Without it the clock on the wall counts.
    let write = || {
        // Whatever is there, opening it may last for ever.
        let _ = fs::remove_file(&new);
        File::create_new(&new)?.write_all(mark.to_line().as_bytes())?;
        fs::rename(&new, &path)
    };
    if let Err(error) = write() {
        tracing::warn!(%error, path = %path.display(), "the time could not be left for later processes");
    }
}

fn judge(mark: &Mark, uptime: Option<&Uptime>, wall: Timestamp) -> Judgement {
    let measured = uptime
        .filter(|uptime| uptime.boot == mark.uptime.boot)
        .and_then(|uptime| uptime.since.checked_sub(mark.uptime.since))
        .map(|passed| mark.time + passed);
    let least = measured.unwrap_or(mark.time);
    if least.since(wall) > TOLERANCE {
        return Judgement::Behind(least, least.since(wall));
    }
    match measured {
        Some(time) if wall.since(time) > TOLERANCE => Judgement::Ahead(time, wall.since(time)),
        _ => Judgement::Steady,
    }
}

fn read(path: &Path) -> Result<Left, ServiceError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            return Err(LogError::NotAFile { path: path.to_path_buf() }.into());
        }
        Ok(_) => {}
        Err(_) => return Ok(Left::Nothing),
    }
    let mut line = Vec::new();
    let read = File::open(path).and_then(|file| file.take(BYTES_MAX).read_to_end(&mut line));
    let mark = read.ok().and_then(|_| std::str::from_utf8(&line).ok().and_then(Mark::parse));
    Ok(mark.map_or(Left::Garbled, Left::Mark))
}

impl Mark {
    fn to_line(&self) -> String {
        let Self { uptime: Uptime { boot, since }, time } = self;
        let said = format!("{boot} {} {}", since.as_millis(), time.as_millis());
        format!("{said} {}\n", digest(&said))
    }

    fn parse(line: &str) -> Option<Self> {
        let (said, stored) = line.strip_suffix('\n')?.rsplit_once(' ')?;
        let mut words = said.split(' ');
        let (boot, since, time) = (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let uptime = Uptime { boot: boot.to_owned(), since: Duration::from_millis(since) };
        (digest(said) == stored).then(|| Self { uptime, time: Timestamp::from_millis(time) })
    }
}

fn digest(text: &str) -> String {
    let digits: String = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    digits.chars().take(DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn uptime(boot: &str, since: Duration) -> Uptime {
        Uptime { boot: boot.to_owned(), since }
    }

    #[test]
    fn steps_of_the_clock_are_told_from_time_that_passed() {
        let noon = Timestamp::from_millis(1_795_262_400_000);
        let mark = Mark { uptime: uptime("a", HOUR), time: noon };
        let later = noon + HOUR;
        let second = Duration::from_secs(1);
        let same = Some(uptime("a", HOUR * 2));
        let rows = [
            ("an hour has passed", same.clone(), later, Judgement::Steady),
            ("and the clock was put right by a second", same.clone(), later + second, Judgement::Steady),
            ("or back", same.clone(), later - second, Judgement::Steady),
            ("set forward", same.clone(), later + HOUR, Judgement::Ahead(later, HOUR)),
            ("set back", same.clone(), noon - HOUR, Judgement::Behind(later, HOUR * 2)),
            ("another machine, later", Some(uptime("b", second)), later, Judgement::Steady),
            (
                "another machine, earlier",
                Some(uptime("b", HOUR * 9)),
                noon - HOUR,
                Judgement::Behind(noon, HOUR),
            ),
            ("an uptime that went back", Some(uptime("a", second)), later, Judgement::Steady),
            ("a system without an uptime", None, noon - HOUR, Judgement::Behind(noon, HOUR)),
        ];
        for (what, uptime, wall, expected) in rows {
            assert_eq!(judge(&mark, uptime.as_ref(), wall), expected, "{what}");
        }
    }

    #[test]
    fn a_mark_is_read_as_it_was_left_or_not_at_all() {
        let mark = Mark { uptime: uptime("c4a5d083", HOUR), time: Timestamp::from_millis(1_795_262_400_000) };
        let line = mark.to_line();
        assert_eq!(Mark::parse(&line), Some(mark));
        for at in 0..line.len() {
            let mut bytes = line.clone().into_bytes();
            bytes[at] ^= 1;
            assert_eq!(Mark::parse(&String::from_utf8(bytes).unwrap()), None, "byte {at}");
            assert_eq!(Mark::parse(&line[..at]), None, "{at} bytes");
        }
    }
}
