//! What a file does not say any more, and may say again when whoever writes it has come to the end.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use tokio::time::Instant;

use super::super::files::GONE_AT_LAST;
use super::{Seen, Stamp};
use crate::applications::store::AppKey;

/// What a file lacks that it had.
#[derive(Default)]
pub(crate) struct Lacks {
    pub applications: BTreeSet<AppKey>,
    pub sets: BTreeSet<AppKey>,
    pub projects: BTreeSet<String>,
}

/// Whether a file has been written to its end.
pub(crate) struct Doubt {
    lacks: Lacks,
    /// What says so, since when, and since when anything of it did.
    stamp: Stamp,
    since: Instant,
    first: Instant,
}

impl Doubt {
    pub fn of(before: Option<Box<Self>>, stamp: Stamp, lacks: Lacks, now: Instant) -> Self {
        let first = before.as_ref().map_or(now, |before| before.first);
        let since = before.filter(|before| before.stamp == stamp).map_or(now, |before| before.since);
        Self { lacks, stamp, since, first }
    }

    /// Whether nothing more is to be expected. Never at once.
    pub fn is_sure(&self, now: Instant, patience: Duration) -> bool {
        let is_late = |since: Instant, patience| now > since && now.duration_since(since) >= patience;
        is_late(self.since, patience) || is_late(self.first, GONE_AT_LAST)
    }
}

impl Seen {
    /// What it may lack by now.
    pub fn lacks(&self) -> Option<&Lacks> {
        self.doubt.as_ref().map(|doubt| &doubt.lacks)
    }

    /// What would be gone, were it this; nothing where all of it stays, or is said to be unreadable.
    pub(in super::super) fn would_lose(&self, name: &str, content: &io::Result<Vec<u8>>) -> Option<Lacks> {
        let content = content.as_ref().ok().filter(|_| self.has_any())?;
        let mut now = Self::default();
        now.read(name, Ok(content.clone()));
        let says_nothing = !now.has_any() && now.problems.is_empty() && now.set_problems.is_empty();
        if now.is_broken || says_nothing {
            return None;
        }
        let lost = |had: &mut dyn Iterator<Item = &AppKey>,
                    has: &dyn Fn(&AppKey) -> bool|
         -> BTreeSet<AppKey> { had.filter(|key| !has(key)).cloned().collect() };
        let lacks = Lacks {
            applications: lost(&mut self.applications.keys(), &|key| now.applications.contains_key(key)),
            sets: lost(&mut self.sets.keys(), &|key| now.sets.contains_key(key)),
            projects: self
                .projects
                .keys()
                .filter(|name| !now.projects.contains_key(*name))
                .cloned()
                .collect(),
        };
        let is_whole = lacks.applications.is_empty() && lacks.sets.is_empty() && lacks.projects.is_empty();
        (!is_whole).then_some(lacks)
    }
}
