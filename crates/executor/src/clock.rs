use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tidegate_model::Timestamp;

/// The engine's source of time. State machines never read a clock themselves.
pub trait Clock: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// The process clock: the wall-clock time at the first read, advanced by a monotonic clock. Adjustments of
/// the wall clock don't move deadlines.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// A point in time on both clocks.
#[derive(Clone, Copy)]
struct ClockReading {
    time: Timestamp,
    instant: Instant,
}

/// Starting point of [`SystemClock`], shared by the whole process.
static BEGAN: RwLock<Option<ClockReading>> = RwLock::new(None);

impl SystemClock {
    /// Sets the process clock to continue from `time`, for callers with a clock that must not fall behind
    /// earlier processes.
    pub fn set(time: Timestamp) {
        *BEGAN.write().unwrap_or_else(PoisonError::into_inner) =
            Some(ClockReading { time, instant: runtime_now() });
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let began = *BEGAN.read().unwrap_or_else(PoisonError::into_inner);
        let began = began.unwrap_or_else(|| {
            let mut began = BEGAN.write().unwrap_or_else(PoisonError::into_inner);
            *began.get_or_insert_with(|| ClockReading { time: time_of_day(), instant: runtime_now() })
        });
        began.time + runtime_now().saturating_duration_since(began.instant)
    }
}

/// Returns the wall-clock time, which administrators can adjust.
fn time_of_day() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// Returns the runtime's monotonic time, which tests can make virtual.
fn runtime_now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Returns the real monotonic time, even if the runtime's time is virtual.
fn real_now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that measures time")]
    Instant::now()
}

/// Uptime of a machine, unaffected by changes to its clock. Comparable across processes between reboots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uptime {
    /// ID of the current boot.
    pub boot: String,
    /// Time since boot.
    pub since: Duration,
}

impl Uptime {
    /// Returns the uptime of this machine, or `None` if the system doesn't report it.
    pub fn now() -> Option<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
        let seconds: f64 = uptime.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Self { boot: boot.trim().to_owned(), since: Duration::try_from_secs_f64(seconds).ok()? })
    }
}

/// Returns the machine's total suspended time since the first call. Monotonic clocks stop during suspensions.
/// Returns zero if the system doesn't report suspensions.
pub(crate) fn suspended_time() -> Duration {
    static BEGAN: OnceLock<Option<(Uptime, Instant)>> = OnceLock::new();
    let began = BEGAN.get_or_init(|| Some((Uptime::now()?, real_now())));
    let Some(((uptime, since), now)) =
        began.as_ref().map(|(uptime, since)| (uptime, since)).zip(Uptime::now())
    else {
        return Duration::ZERO;
    };
    let awake = real_now().saturating_duration_since(*since);
    now.since.saturating_sub(uptime.since).saturating_sub(awake)
}

/// Clock of the tokio runtime, starting at a given time. In tests, it is virtual: it stands still while tasks
/// run, then jumps to the next timer.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeClock {
    start: Timestamp,
    origin: tokio::time::Instant,
}

impl RuntimeClock {
    /// Creates a clock that starts at `start`.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start, origin: tokio::time::Instant::now() }
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        self.start + tokio::time::Instant::now().saturating_duration_since(self.origin)
    }
}
