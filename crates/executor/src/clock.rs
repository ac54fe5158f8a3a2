use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tidegate_model::Timestamp;

/// Where the engine reads the time. The machine below never does.
pub trait Clock: Send + Sync + 'static {
    /// The present moment, by whatever clock the engine was given.
    fn now(&self) -> Timestamp;
}

/// The clock of this process: the time of day when it was first read, and from then on the time that passes. A step of
/// the machine's clock neither brings a deadline near nor takes it away.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// A moment by both of the clocks of the machine.
#[derive(Clone, Copy)]
struct Moment {
    time: Timestamp,
    passed: Instant,
}

/// What [`SystemClock`] goes by; all of a process are one.
static BEGAN: RwLock<Option<Moment>> = RwLock::new(None);

impl SystemClock {
    /// Sets the clock of this process, which goes on from there. For whoever knows what time it is by the clock that
    /// earlier processes went by.
    pub fn set(time: Timestamp) {
        *BEGAN.write().unwrap_or_else(PoisonError::into_inner) = Some(Moment { time, passed: passed() });
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let began = *BEGAN.read().unwrap_or_else(PoisonError::into_inner);
        let began = began.unwrap_or_else(|| {
            let mut began = BEGAN.write().unwrap_or_else(PoisonError::into_inner);
            *began.get_or_insert_with(|| Moment { time: time_of_day(), passed: passed() })
        });
        began.time + passed().saturating_duration_since(began.passed)
    }
}

/// The time by the clock on the wall, which somebody may set.
fn time_of_day() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the wall clock")]
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// The time that passes, as the runtime measures it: in tests it may be virtual.
fn passed() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The time that passes, whatever a runtime says.
fn awake() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that measures time")]
    Instant::now()
}

/// How long a machine has been running, which no step of its clock changes. What two processes read can be compared as
/// long as the machine was not started again in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uptime {
    /// Which start of which machine.
    pub boot: String,
    /// The time since then.
    pub since: Duration,
}

impl Uptime {
    /// That of this machine; `None` where the system does not tell.
    pub fn now() -> Option<Self> {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
        let seconds: f64 = uptime.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Self { boot: boot.trim().to_owned(), since: Duration::try_from_secs_f64(seconds).ok()? })
    }
}

/// How long this machine has slept since somebody first asked. Clocks that only go forward stand still meanwhile; zero
/// where the system does not tell.
pub(crate) fn slept() -> Duration {
    static BEGAN: OnceLock<Option<(Uptime, Instant)>> = OnceLock::new();
    let began = BEGAN.get_or_init(|| Some((Uptime::now()?, awake())));
    let Some(((uptime, since), now)) =
        began.as_ref().map(|(uptime, since)| (uptime, since)).zip(Uptime::now())
    else {
        return Duration::ZERO;
    };
    let awake = awake().saturating_duration_since(*since);
    now.since.saturating_sub(uptime.since).saturating_sub(awake)
}

/// The clock of the tokio runtime, starting at a given time. In tests it is virtual: it stands still while anything
/// is at work and jumps to the next timer.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeClock {
    start: Timestamp,
    origin: tokio::time::Instant,
}

impl RuntimeClock {
    /// A clock that shows `start` now.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { start, origin: tokio::time::Instant::now() }
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        self.start + tokio::time::Instant::now().saturating_duration_since(self.origin)
    }
}
