//! Retention rules for compactions: pure functions that all stores share.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_model::{StreamId, StreamKind, Timestamp};

/// Limits on the stored data of finished streams and long open streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Number of newest finished streams per line that keep all events. A line contains all streams of one
    /// kind for the same application. Streams without an application form a line per ApplicationSet.
    pub history: usize,
    /// Number of newest finished streams per line that keep at least their summary, including those in
    /// `history`. Older streams are removed.
    pub summaries: usize,
    /// Time after a stream's end at which its summary is removed, if nothing else remains of it.
    pub age: Duration,
    /// Number of newest events that an open stream keeps. Older events are removed if a snapshot covers them.
    pub open_events: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            history: 10,
            summaries: 100,
            age: Duration::from_secs(90 * 24 * 60 * 60),
            // Syncs of thousands of objects stay below this limit, so `ops log` shows every event.
            open_events: 100_000,
        }
    }
}

impl Retention {
    /// Returns the default limits with the given `history`.
    pub fn with_history(history: usize) -> Self {
        Self { history, ..Self::default() }
    }

    /// Returns the limits for a compaction triggered by growth. They keep the newest finished stream of each
    /// line intact.
    pub(crate) fn for_growth(&self) -> Self {
        Self { history: self.history.max(1), ..*self }
    }

    /// Returns true if an open stream exceeds its event limit by a tenth.
    pub(crate) fn is_exceeded(&self, last: u64, base: u64) -> bool {
        last.saturating_sub(base) >= self.open_events.saturating_add((self.open_events / 10).max(1))
    }

    /// Returns the number of the last event to remove from an open stream, or `None` to keep all events.
    pub(crate) fn cut_point(&self, last: u64, base: u64, snapshot: Option<u64>) -> Option<u64> {
        let cut = snapshot?.min(last.saturating_sub(self.open_events));
        (cut > base).then_some(cut)
    }
}

/// History line: all streams of one kind for the same application. Streams without an application are grouped
/// by ApplicationSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HistoryLine<'a> {
    kind: &'a StreamKind,
    application: Option<&'a str>,
    appset: Option<&'a str>,
}

impl<'a> HistoryLine<'a> {
    pub(crate) fn new(kind: &'a StreamKind, application: Option<&'a str>, set: Option<&'a str>) -> Self {
        Self { kind, application, appset: set.filter(|_| application.is_none()) }
    }

    /// Returns an owned copy of the line.
    pub(crate) fn to_key(self) -> HistoryLineKey {
        HistoryLineKey {
            kind: self.kind.clone(),
            application: self.application.map(str::to_owned),
            appset: self.appset.map(str::to_owned),
        }
    }
}

/// A [`HistoryLine`] with owned names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct HistoryLineKey {
    pub(crate) kind: StreamKind,
    application: Option<String>,
    appset: Option<String>,
}

/// Growth of a log, or a limit on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Growth {
    /// Number of finished streams.
    pub(crate) streams: usize,
    /// Number of events appended.
    pub(crate) events: u64,
    /// Number of bytes written, including blobs.
    pub(crate) bytes: u64,
}

/// Minimum growth in bytes that makes a compaction due: two database segments.
const GROWTH_MIN_BYTES: u64 = 1 << 20;

impl Growth {
    /// Returns the growth that makes a compaction due: a tenth each of `whole`, of the event limit in `keep`,
    /// and of `bytes`. `whole` is the number of finished streams that still have their events.
    pub(crate) fn limit_for(keep: &Retention, whole: usize, bytes: u64) -> Self {
        Self {
            streams: (whole / 10).max(1),
            events: (keep.open_events / 10).max(1),
            bytes: (bytes / 10).max(GROWTH_MIN_BYTES),
        }
    }

    /// Returns the growth that makes a compaction of a remote log due. It is constant, because the size of the
    /// log isn't known here, and a compaction is a few statements.
    pub(crate) fn remote_limit() -> Self {
        Self { streams: 500, events: 100_000, bytes: 64 << 20 }
    }

    /// Returns true if any of the limits is reached.
    pub(crate) fn has_reached(&self, limit: &Self) -> bool {
        self.streams >= limit.streams || self.events >= limit.events || self.bytes >= limit.bytes
    }
}

/// Finished streams to reduce or remove. Streams in neither list keep all their data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RetentionDecision {
    /// Streams to reduce to their summaries.
    pub(crate) reduced: Vec<StreamId>,
    /// Streams to remove; a subset of `reduced`.
    pub(crate) forgotten: Vec<StreamId>,
}

/// Decides which finished streams to reduce or remove. Orders streams by ID rather than by the times in their
/// summaries, because the clocks may have been wrong.
pub(crate) fn decide_retention<'a>(
    finished: impl IntoIterator<Item = (StreamId, HistoryLine<'a>, Timestamp)>,
    keep: &Retention,
    now: Timestamp,
) -> RetentionDecision {
    let mut lines: BTreeMap<HistoryLine<'_>, Vec<(StreamId, Timestamp)>> = BTreeMap::new();
    for (stream, line, ended_at) in finished {
        lines.entry(line).or_default().push((stream, ended_at));
    }
    let mut fate = RetentionDecision::default();
    for mut streams in lines.into_values() {
        streams.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        fate.add_line(streams, keep, now);
    }
    fate.reduced.sort_unstable();
    fate.forgotten.sort_unstable();
    fate
}

impl RetentionDecision {
    /// Decides which finished streams of one line to reduce or remove. `newest_first` contains the line's
    /// finished streams with their end times.
    pub(crate) fn add_line(
        &mut self,
        newest_first: impl IntoIterator<Item = (StreamId, Timestamp)>,
        keep: &Retention,
        now: Timestamp,
    ) {
        for (older, (stream, ended_at)) in newest_first.into_iter().enumerate().skip(keep.history) {
            self.reduced.push(stream);
            if older >= keep.summaries || now.since(ended_at) > keep.age {
                self.forgotten.push(stream);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn stream_id(number: u128) -> StreamId {
        StreamId(Uuid::from_u128(number))
    }

    /// Decides about streams 1 to 6 of one application, finished on days 1 to 6, and stream 7 of another
    /// application, finished on day 1.
    fn decide_for_days(history: usize, summaries: usize, days: u32, now: u32) -> (Vec<u128>, Vec<u128>) {
        let kind = StreamKind::OPERATION;
        let shop = HistoryLine::new(&kind, Some("shop"), Some("ignored beside an application"));
        let bank = HistoryLine::new(&kind, Some("bank"), None);
        let on = |day: u32| Timestamp::from_millis(0) + DAY * day;
        let finished =
            (1..=6).map(|day| (stream_id(day.into()), shop, on(day))).chain([(stream_id(7), bank, on(1))]);
        let keep = Retention { history, summaries, age: DAY * days, ..Retention::default() };
        let RetentionDecision { reduced, forgotten } = decide_retention(finished, &keep, on(now));
        let numbers = |ids: Vec<StreamId>| ids.into_iter().map(|id| id.0.as_u128()).collect();
        (numbers(reduced), numbers(forgotten))
    }

    #[test]
    fn newest_streams_keep_all_older_ones_a_summary_and_the_oldest_nothing() {
        for (history, summaries, days, now, reduced, forgotten) in [
            (10, 100, 90, 7, vec![], vec![]),
            (2, 100, 90, 7, vec![1, 2, 3, 4], vec![]),
            (2, 4, 90, 7, vec![1, 2, 3, 4], vec![1, 2]),
            (2, 0, 90, 7, vec![1, 2, 3, 4], vec![1, 2, 3, 4]),
            (4, 2, 90, 7, vec![1, 2], vec![1, 2]),
            (2, 100, 4, 7, vec![1, 2, 3, 4], vec![1, 2]),
            (2, 3, 4, 7, vec![1, 2, 3, 4], vec![1, 2, 3]),
            // Streams within the history stay whole, however old.
            (10, 100, 1, 1_000, vec![], vec![]),
            (0, 100, 1, 0, vec![1, 2, 3, 4, 5, 6, 7], vec![]),
            (0, 0, 1, 0, vec![1, 2, 3, 4, 5, 6, 7], vec![1, 2, 3, 4, 5, 6, 7]),
        ] {
            assert_eq!(
                decide_for_days(history, summaries, days, now),
                (reduced, forgotten),
                "history {history}, summaries {summaries}, {days} days, on day {now}"
            );
        }
    }

    #[test]
    fn events_of_an_open_stream_are_removed_only_if_a_snapshot_covers_them() {
        let keep = Retention { open_events: 100, ..Retention::default() };
        for (last, base, snapshot, cut) in [
            (50, 0, Some(50), None),
            (100, 0, Some(100), None),
            (101, 0, Some(101), Some(1)),
            (1_000, 0, None, None),
            (1_000, 0, Some(512), Some(512)),
            (1_000, 0, Some(950), Some(900)),
            (1_000, 900, Some(950), None),
            (1_000, 899, Some(950), Some(900)),
        ] {
            assert_eq!(
                keep.cut_point(last, base, snapshot),
                cut,
                "last {last}, base {base}, snapshot {snapshot:?}"
            );
        }
    }
}
