//! Lines of a container's log.

use futures_util::stream::BoxStream;
use tidegate_model::Timestamp;

use crate::ClusterError;

const NANOS_PER_MILLI: i64 = 1_000_000;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

/// Log lines of a container, in the order written. If the stream cannot be started, its first item is the
/// error. The stream ends after an error.
pub type LogStream = BoxStream<'static, Result<LogLine, ClusterError>>;

/// A line of a container's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Time at which the kubelet recorded the line.
    pub at: LogTime,
    /// Text without the line ending.
    pub text: String,
    /// True if the line is complete. False if the stream or the container ended in the middle of the line.
    pub is_complete: bool,
}

/// Time of a log line, in nanoseconds since 1970. Several lines may have the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogTime(i64);

impl LogTime {
    /// Parses an RFC 3339 time with up to nine fractional digits, as written by kubelets.
    pub fn parse(text: &str) -> Option<Self> {
        let at: Timestamp = text.parse().ok()?;
        let fraction = text.split_once('.').map_or("", |(_, rest)| rest);
        let digits = fraction.bytes().take_while(u8::is_ascii_digit);
        // The timestamp has millisecond precision, so add the fourth to ninth fractional digits separately.
        let below = digits.chain(std::iter::repeat(b'0')).skip(3).take(6);
        let nanos = below.fold(0, |nanos: i64, digit| nanos * 10 + i64::from(digit - b'0'));
        Some(Self(at.as_millis().checked_mul(NANOS_PER_MILLI)?.checked_add(nanos)?))
    }

    /// Returns the time in milliseconds, rounded down.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::from_millis(self.0.div_euclid(NANOS_PER_MILLI))
    }

    /// Returns the start of the second, the finest resolution that servers accept.
    pub fn start_of_second(self) -> Timestamp {
        Timestamp::from_millis(self.0.div_euclid(NANOS_PER_SECOND).saturating_mul(1000))
    }
}

impl From<Timestamp> for LogTime {
    fn from(at: Timestamp) -> Self {
        Self(at.as_millis().saturating_mul(NANOS_PER_MILLI))
    }
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Container {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container in the pod.
    pub name: String,
}

/// Start position of a log stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStart {
    /// The most recent lines, at most this many.
    Last(usize),
    /// From the beginning of the second that contains this time. The stream may therefore repeat lines that
    /// the caller already has.
    Since(LogTime),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_to_the_nanosecond() {
        let base = LogTime::parse("2026-11-21T09:30:41Z").unwrap();
        for (text, nanos) in [
            ("2026-11-21T09:30:41.123456789Z", 123_456_789),
            ("2026-11-21T11:30:41.123456789+02:00", 123_456_789),
            ("2026-11-21T09:30:41.5Z", 500_000_000),
            ("2026-11-21T09:30:41.0000001Z", 100),
        ] {
            let at = LogTime::parse(text).unwrap();
            assert_eq!(at.0 - base.0, nanos, "{text}");
            assert_eq!(at.start_of_second(), "2026-11-21T09:30:41Z".parse().unwrap(), "{text}");
        }
        assert_eq!(LogTime::parse("listening on :80"), None);
    }
}
