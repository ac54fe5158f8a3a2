//! What a file does not say any more, and may say again when whoever writes it has come to the end: until that is sure it counts.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::time::Duration;

use tokio::time::Instant;

use super::super::files::absence::GONE_AT_LAST;
use super::Seen;
use crate::applications::store::AppKey;

/// What a file lacks that it had, each since when.
#[derive(Default)]
pub(crate) struct Lacks {
    pub applications: BTreeMap<AppKey, Instant>,
    pub sets: BTreeMap<AppKey, Instant>,
    pub projects: BTreeMap<String, Instant>,
}

/// Whether a file has been written to its end.
pub(crate) struct Doubt {
    lacks: Lacks,
    /// Since when it is as it is now.
    since: Instant,
}

impl Seen {
    /// What it has of something, without what it lacks and may say again.
    pub fn in_sight<'a, K: Ord, T>(
        &'a self,
        all: &'a BTreeMap<K, T>,
        lacks: impl Fn(&Lacks) -> &BTreeMap<K, Instant>,
    ) -> impl Iterator<Item = (&'a K, &'a T)> {
        let lacked = self.doubt.as_ref().map(move |doubt| lacks(&doubt.lacks));
        all.iter().filter(move |(key, _)| !lacked.is_some_and(|lacked| lacked.contains_key(*key)))
    }

    /// Takes in what the file is now; what it lacks then counts as it was. `doubted`: the time; nothing where what it lacks is
    /// gone at once.
    pub(in super::super) fn read_anew(
        &mut self,
        name: &str,
        content: io::Result<Vec<u8>>,
        doubted: Option<Instant>,
    ) {
        let Some(now) = doubted else { return self.read(name, content) };
        let (applications, sets, projects) =
            (self.applications.clone(), self.sets.clone(), self.projects.clone());
        let before = self.doubt.take().map(|doubt| doubt.lacks).unwrap_or_default();
        self.read(name, content);
        if self.is_broken {
            // All of it is as it was, and says so.
            return;
        }
        let lacks = Lacks {
            applications: carry_over(applications, &mut self.applications, (&before.applications, now)),
            sets: carry_over(sets, &mut self.sets, (&before.sets, now)),
            projects: carry_over(projects, &mut self.projects, (&before.projects, now)),
        };
        let is_whole = lacks.applications.is_empty() && lacks.sets.is_empty() && lacks.projects.is_empty();
        self.doubt = (!is_whole).then(|| Box::new(Doubt { lacks, since: now }));
        // Of what has been away for long enough nothing more is expected, however often the rest is written.
        self.give_up(|since| now.duration_since(since) >= GONE_AT_LAST);
    }

    /// Gives up what it lacks, if it has been as it is for long enough; says whether it has.
    pub(in super::super) fn settle(&mut self, now: Instant, patience: Duration) -> bool {
        let is_sure = |doubt: &Doubt| now.duration_since(doubt.since) >= patience;
        let is_over = self.doubt.as_deref().is_some_and(is_sure);
        if is_over {
            self.give_up(|_| true);
        }
        is_over
    }

    fn give_up(&mut self, is_gone: impl Fn(Instant) -> bool) {
        let Some(doubt) = &mut self.doubt else { return };
        let Lacks { applications, sets, projects } = &mut doubt.lacks;
        drop_from(&mut self.applications, applications, &is_gone);
        drop_from(&mut self.sets, sets, &is_gone);
        drop_from(&mut self.projects, projects, &is_gone);
        if applications.is_empty() && sets.is_empty() && projects.is_empty() {
            self.doubt = None;
        }
    }
}

/// Has what was there before and is not now stay; and says since when it is not.
fn carry_over<K: Ord + Clone, T>(
    before: BTreeMap<K, T>,
    now: &mut BTreeMap<K, T>,
    (lacked, at): (&BTreeMap<K, Instant>, Instant),
) -> BTreeMap<K, Instant> {
    let mut lacks = BTreeMap::new();
    for (key, one) in before {
        if let Entry::Vacant(place) = now.entry(key) {
            let since = lacked.get(place.key()).copied().unwrap_or(at);
            lacks.insert(place.key().clone(), since);
            place.insert(one);
        }
    }
    lacks
}

fn drop_from<K: Ord, T>(
    from: &mut BTreeMap<K, T>,
    lacks: &mut BTreeMap<K, Instant>,
    is_gone: &impl Fn(Instant) -> bool,
) {
    lacks.retain(|key, since| {
        let is_gone = is_gone(*since);
        if is_gone {
            from.remove(key);
        }
        !is_gone
    });
}
