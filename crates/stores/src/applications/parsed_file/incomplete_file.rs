//! Documents that have disappeared from a file, but may come back once it is fully written. They are kept
//! until their deletion is certain.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::time::Duration;

use tidegate_application::AppKey;
use tokio::time::Instant;

use super::super::polled_folder::absence::GRACE_PERIOD_MAX;
use super::ParsedFile;

/// Documents that have disappeared from a file, with the time of their disappearance.
#[derive(Default)]
pub struct MissingDocuments {
    pub applications: BTreeMap<AppKey, Instant>,
    pub appsets: BTreeMap<AppKey, Instant>,
    pub projects: BTreeMap<String, Instant>,
}

/// State of a file that may be incomplete.
pub struct IncompleteFile {
    missing: MissingDocuments,
    /// Time of the file's last change.
    changed_at: Instant,
}

impl ParsedFile {
    /// Returns the file's current documents of one kind.
    pub fn present_documents<'a, K: Ord, T>(
        &'a self,
        all: &'a BTreeMap<K, T>,
        lacks: impl Fn(&MissingDocuments) -> &BTreeMap<K, Instant>,
    ) -> impl Iterator<Item = (&'a K, &'a T)> {
        let lacked = self.incomplete.as_ref().map(move |doubt| lacks(&doubt.missing));
        all.iter().filter(move |(key, _)| !lacked.is_some_and(|lacked| lacked.contains_key(*key)))
    }

    /// Replaces the file's content, but keeps documents that have disappeared. `doubted` is the current time,
    /// or `None` to drop them immediately.
    pub(in super::super) fn replace_incomplete_content(
        &mut self,
        name: &str,
        content: io::Result<Vec<u8>>,
        doubted: Option<Instant>,
    ) {
        let Some(now) = doubted else { return self.replace_content(name, content) };
        let (applications, sets, projects) =
            (self.applications.clone(), self.appsets.clone(), self.projects.clone());
        let before = self.incomplete.take().map(|doubt| doubt.missing).unwrap_or_default();
        self.replace_content(name, content);
        if self.has_unknown_applications {
            // An unreadable file keeps all of its documents anyway.
            return;
        }
        let missing = MissingDocuments {
            applications: keep_missing(applications, &mut self.applications, &before.applications, now),
            appsets: keep_missing(sets, &mut self.appsets, &before.appsets, now),
            projects: keep_missing(projects, &mut self.projects, &before.projects, now),
        };
        let is_whole =
            missing.applications.is_empty() && missing.appsets.is_empty() && missing.projects.is_empty();
        self.incomplete = (!is_whole).then(|| Box::new(IncompleteFile { missing, changed_at: now }));
        // Frequent writes elsewhere in the file must not postpone a deletion forever.
        self.drop_missing(|since| now.duration_since(since) >= GRACE_PERIOD_MAX);
    }

    /// Drops the missing documents if the file hasn't changed for long enough. Returns true if there were
    /// any.
    pub(in super::super) fn drop_if_settled(&mut self, now: Instant, patience: Duration) -> bool {
        let is_sure = |doubt: &IncompleteFile| now.duration_since(doubt.changed_at) >= patience;
        let is_over = self.incomplete.as_deref().is_some_and(is_sure);
        if is_over {
            self.drop_missing(|_| true);
        }
        is_over
    }

    fn drop_missing(&mut self, is_gone: impl Fn(Instant) -> bool) {
        let Some(doubt) = &mut self.incomplete else { return };
        let MissingDocuments { applications, appsets, projects } = &mut doubt.missing;
        drop_documents(&mut self.applications, applications, &is_gone);
        drop_documents(&mut self.appsets, appsets, &is_gone);
        drop_documents(&mut self.projects, projects, &is_gone);
        if applications.is_empty() && appsets.is_empty() && projects.is_empty() {
            self.incomplete = None;
        }
    }
}

/// Keeps the documents that have disappeared, and returns the time of each disappearance. `missing_since`
/// contains those already missing, and `at` is the current time.
fn keep_missing<K: Ord + Clone, T>(
    before: BTreeMap<K, T>,
    now: &mut BTreeMap<K, T>,
    missing_since: &BTreeMap<K, Instant>,
    at: Instant,
) -> BTreeMap<K, Instant> {
    let mut lacks = BTreeMap::new();
    for (key, one) in before {
        if let Entry::Vacant(place) = now.entry(key) {
            let since = missing_since.get(place.key()).copied().unwrap_or(at);
            lacks.insert(place.key().clone(), since);
            place.insert(one);
        }
    }
    lacks
}

fn drop_documents<K: Ord, T>(
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
