//! What a compaction keeps: pure, and the same for every store.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate_model::{StreamId, StreamKind, Timestamp};

/// How much of what is over, or long, is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// So many of the newest finished streams of a line keep every fact. A line is all streams of a kind that are about
    /// one application, or else one set.
    pub history: usize,
    /// So many of them keep at least their summary, and no fewer than keep their facts. Older ones are forgotten.
    pub summaries: usize,
    /// Those that are left with their summary are forgotten so long after they ended.
    pub age: Duration,
    /// An open stream keeps so many of its newest facts. Older ones go when a snapshot covers them.
    pub open_facts: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            history: 10,
            summaries: 100,
            age: Duration::from_secs(90 * 24 * 60 * 60),
            // A sync of thousands of objects records less, so `ops log` tells it all.
            open_facts: 100_000,
        }
    }
}

impl Retention {
    /// The usual, but for the number of finished streams that keep every fact.
    pub fn of_history(history: usize) -> Self {
        Self { history, ..Self::default() }
    }

    /// The fact up to which those of an open stream go, if any do.
    pub(crate) fn cut(&self, last: u64, base: u64, snapshot: Option<u64>) -> Option<u64> {
        let cut = snapshot?.min(last.saturating_sub(self.open_facts));
        (cut > base).then_some(cut)
    }
}

/// What the history of a stream is counted by: what it is, and the application it is about, or else the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Line<'a> {
    kind: &'a StreamKind,
    application: Option<&'a str>,
    set: Option<&'a str>,
}

impl<'a> Line<'a> {
    pub(crate) fn new(kind: &'a StreamKind, application: Option<&'a str>, set: Option<&'a str>) -> Self {
        Self { kind, application, set: set.filter(|_| application.is_none()) }
    }
}

/// What is to become of finished streams. Of what is in neither, everything is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    /// Left with their summaries.
    pub(crate) reduced: Vec<StreamId>,
    /// Left with nothing; among those above.
    pub(crate) forgotten: Vec<StreamId>,
}

/// Decides about finished streams, each with the moment it ended. Newer means a greater id: the times in summaries are
/// those of clocks, which may have been wrong.
pub(crate) fn fate<'a>(
    finished: impl IntoIterator<Item = (StreamId, Line<'a>, Timestamp)>,
    keep: &Retention,
    now: Timestamp,
) -> Fate {
    let mut lines: BTreeMap<Line<'_>, Vec<(StreamId, Timestamp)>> = BTreeMap::new();
    for (stream, line, ended_at) in finished {
        lines.entry(line).or_default().push((stream, ended_at));
    }
    let mut fate = Fate::default();
    for mut streams in lines.into_values() {
        streams.sort_unstable_by(|(a, _), (b, _)| b.cmp(a));
        for (older, (stream, ended_at)) in streams.into_iter().enumerate().skip(keep.history) {
            fate.reduced.push(stream);
            if older >= keep.summaries || now.since(ended_at) > keep.age {
                fate.forgotten.push(stream);
            }
        }
    }
    fate.reduced.sort_unstable();
    fate.forgotten.sort_unstable();
    fate
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn id(number: u128) -> StreamId {
        StreamId(Uuid::from_u128(number))
    }

    /// Streams 1 to 6 of one application, which ended on days 1 to 6, and number 7 of another, on day 1.
    fn fate_of(history: usize, summaries: usize, days: u32, now: u32) -> (Vec<u128>, Vec<u128>) {
        let kind = StreamKind::OPERATION;
        let shop = Line::new(&kind, Some("shop"), Some("ignored beside an application"));
        let bank = Line::new(&kind, Some("bank"), None);
        let on = |day: u32| Timestamp::from_millis(0) + DAY * day;
        let finished = (1..=6).map(|day| (id(day.into()), shop, on(day))).chain([(id(7), bank, on(1))]);
        let keep = Retention { history, summaries, age: DAY * days, ..Retention::default() };
        let Fate { reduced, forgotten } = fate(finished, &keep, on(now));
        let numbers = |ids: Vec<StreamId>| ids.into_iter().map(|id| id.0.as_u128()).collect();
        (numbers(reduced), numbers(forgotten))
    }

    #[test]
    fn the_newest_keep_all_older_ones_a_line_and_the_oldest_nothing() {
        for (history, summaries, days, now, reduced, forgotten) in [
            (10, 100, 90, 7, vec![], vec![]),
            (2, 100, 90, 7, vec![1, 2, 3, 4], vec![]),
            (2, 4, 90, 7, vec![1, 2, 3, 4], vec![1, 2]),
            (2, 0, 90, 7, vec![1, 2, 3, 4], vec![1, 2, 3, 4]),
            (4, 2, 90, 7, vec![1, 2], vec![1, 2]),
            (2, 100, 4, 7, vec![1, 2, 3, 4], vec![1, 2]),
            (2, 3, 4, 7, vec![1, 2, 3, 4], vec![1, 2, 3]),
            // Age alone does not touch the history.
            (10, 100, 1, 1_000, vec![], vec![]),
            (0, 100, 1, 0, vec![1, 2, 3, 4, 5, 6, 7], vec![]),
            (0, 0, 1, 0, vec![1, 2, 3, 4, 5, 6, 7], vec![1, 2, 3, 4, 5, 6, 7]),
        ] {
            assert_eq!(
                fate_of(history, summaries, days, now),
                (reduced, forgotten),
                "history {history}, summaries {summaries}, {days} days, on day {now}"
            );
        }
    }

    #[test]
    fn facts_of_an_open_stream_go_only_when_a_snapshot_covers_them() {
        let keep = Retention { open_facts: 100, ..Retention::default() };
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
                keep.cut(last, base, snapshot),
                cut,
                "last {last}, base {base}, snapshot {snapshot:?}"
            );
        }
    }
}
