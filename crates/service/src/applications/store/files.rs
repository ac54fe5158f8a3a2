//! The files of a folder, looked at again and again: only what has changed is read.

pub(super) mod absence;
mod list;
mod looking;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use self::absence::{Absence, GONE_AFTER, GONE_AT_LAST};
use self::list::{Listed, is_manifest, list};
pub(crate) use self::looking::{Looks, Removed, keep_looking};
use super::AppKey;
use super::projects::{self, Named};
use super::reading::doubt::Lacks;
use super::reading::{Seen, Stamp, written_twice};
use crate::error::ServiceError;

/// So often a folder is listed until it says the same twice. Whoever renames a file at that moment has it in no list.
const LISTED_MAX: usize = 4;
/// Files that come into a folder that had none may be many, and come slowly: so many times as long nothing of what is not among
/// them is gone.
const COMING: u32 = 33;

/// What was in a folder before its files were seen.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Before {
    /// Nobody has said anything of that, and there were files at the first look.
    #[default]
    Unsaid,
    /// Nothing that anybody knows of: nothing is waited for.
    Nothing,
    /// What is missing by now, as there are no files: it may come again.
    Missing,
}

/// The files of a folder, as they were seen last.
#[derive(Default)]
pub(crate) struct Files {
    folder: PathBuf,
    seen: BTreeMap<PathBuf, Seen>,
    /// Those that were not found any more, and since when: they count until that is sure.
    missed: BTreeMap<PathBuf, (Seen, Absence)>,
    /// The folder itself cannot be read.
    is_away: bool,
    /// Some of its files could not be looked at, and nobody knows what is in them.
    is_blind: bool,
    /// Files were taken away or renamed while it was listed: what was not found may be there.
    is_in_flux: bool,
    /// Nobody has to have made it, and nobody else takes anything out of it.
    is_ours: bool,
    /// Only its sets are asked for.
    has_only_sets: bool,
    /// What is wrong with the folder, or with a file that cannot be looked at.
    problems: Vec<String>,
    /// What is gone is sure after so long.
    patience: Duration,
    /// A file was seen in it.
    has_had_files: bool,
    before: Before,
    /// The folder itself, as it was when files were seen in it: its device and its number there.
    home: Option<(u64, u64)>,
    /// Of what is in no file at the beginning; and whether that is sure.
    beginning: Absence,
    has_looked_twice: bool,
}

impl Files {
    /// Those of a folder.
    pub fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), patience: GONE_AFTER, ..Self::default() }
    }

    /// Those of a folder of our own, which is there once there is something in it.
    pub fn of_ours(folder: &Path) -> Self {
        Self { is_ours: true, ..Self::of(folder) }
    }

    /// Those of a folder of which only the sets are asked for.
    pub fn of_sets(folder: &Path) -> Self {
        Self { has_only_sets: true, ..Self::of(folder) }
    }

    /// Of what is gone the next look is sure, however soon it comes.
    #[cfg(test)]
    pub fn without_patience(self) -> Self {
        Self { patience: Duration::ZERO, ..self }
    }

    /// Whether what was in no file at the beginning was looked for once more since: all could be read then, and nothing was just
    /// being written.
    pub fn has_looked_twice(&self) -> bool {
        self.has_looked_twice
    }

    /// Whether there has been no file in it since somebody looks at it, as where a volume is not mounted yet, or a repository not
    /// fetched.
    fn is_bare(&self) -> bool {
        !self.has_had_files && !self.is_away && !self.is_ours
    }

    /// Why nothing follows from what is not in it, where it has had no file.
    pub fn why_bare(&self) -> Option<String> {
        self.is_bare().then(|| {
            format!(
                "{}: there is no manifest in it, so what it had before is left as it is; a file, such as an empty none.yaml, says that this is meant",
                self.folder.display()
            )
        })
    }

    /// Nothing is known of what was in it before somebody looked: nothing is waited for.
    pub fn expect_nothing(&mut self) {
        self.before = Before::Nothing;
    }

    /// Whether there may be more to come into a folder that had nothing.
    pub fn is_coming(&self) -> bool {
        self.before == Before::Missing && !self.has_looked_twice
    }

    /// The folder that they are in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether the folder itself cannot be read.
    pub fn is_away(&self) -> bool {
        self.is_away
    }

    /// Reads what has changed, and says whether anything has. `removed`: files that were taken away on purpose.
    pub fn look(&mut self, removed: &BTreeMap<PathBuf, AppKey>) -> bool {
        let began = Instant::now();
        let (was_away, was_coming) = (self.is_away, self.is_coming());
        let (found, problems) = self.stamps();
        // A list may take long: what it says was true at its end at the latest.
        let now = Instant::now();
        let mut has_changed = was_away != self.is_away || problems != self.problems;
        self.problems = problems;
        match self.is_away {
            // Of a folder that is away nothing is known.
            true => self.missed.values_mut().for_each(|(_, absence)| absence.forget_rest()),
            false => has_changed |= self.miss(&found, removed, (began, now)),
        }
        self.has_had_files |= !found.is_empty();
        if self.is_bare() && self.before == Before::Unsaid {
            self.before = Before::Missing;
        }
        let mut has_read = false;
        for (path, stamp) in found {
            let seen = self.seen.entry(path.clone()).or_default();
            if seen.stamp == Some(stamp) {
                has_changed |= seen.settle(began, self.patience);
                continue;
            }
            let content = fs::read(&path);
            // What could not be read is tried again.
            seen.stamp = content.is_ok().then_some(stamp);
            seen.read_anew(&name(&path), content, (!self.is_ours).then_some(now));
            if self.has_only_sets {
                seen.keep_only_sets();
            }
            (has_changed, has_read) = (true, true);
        }
        let patience = self.patience();
        match !self.is_in_flux && !self.is_unsure() && !self.is_bare() {
            true => self.has_looked_twice |= self.beginning.is_sure((began, now), has_read, patience),
            false => self.beginning = Absence::default(),
        }
        // That nothing comes any more is news by itself.
        has_changed | (was_coming && !self.is_coming())
    }

    /// How long what is not found is waited for: while nothing speaks against its being gone, and at the longest.
    fn patience(&self) -> (Duration, Duration) {
        let times = if self.is_coming() { COMING } else { 1 };
        (self.patience.saturating_mul(times), GONE_AT_LAST.saturating_mul(times))
    }

    /// Sets aside what was not found, takes back what is found again, and gives up what is gone; says whether anything has changed
    /// by that.
    fn miss(
        &mut self,
        found: &BTreeMap<PathBuf, Stamp>,
        removed: &BTreeMap<PathBuf, AppKey>,
        times: (Instant, Instant),
    ) -> bool {
        let before = (self.seen.len(), self.missed.len());
        let (back, missed): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.missed).into_iter().partition(|(path, _)| found.contains_key(path));
        let is_changed = !back.is_empty();
        self.seen.extend(back.into_iter().map(|(path, (seen, _))| (path, seen)));
        self.missed = missed;
        if self.seen.keys().any(|path| !found.contains_key(path)) {
            let (seen, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
                std::mem::take(&mut self.seen).into_iter().partition(|(path, _)| found.contains_key(path));
            self.seen = seen;
            let gone = gone.into_iter().filter(|_| !self.is_ours);
            self.missed.extend(gone.map(|(path, seen)| (path, (seen, Absence::default()))));
        }
        let (patience, is_in_flux) = (self.patience(), self.is_in_flux);
        self.missed.retain(|path, (_, absence)| {
            !absence.is_sure(times, is_in_flux, patience) && !removed.contains_key(path)
        });
        is_changed || before != (self.seen.len(), self.missed.len())
    }

    /// What is wrong with the folder, or with a file that cannot be looked at.
    pub fn problems(&self) -> Vec<String> {
        self.problems.clone()
    }

    /// Whether there may be documents in what cannot be read.
    pub fn is_unsure(&self) -> bool {
        self.is_away || self.is_blind || self.each().any(|seen| seen.is_broken)
    }

    /// Whether there may be projects in what cannot be read.
    pub fn hides_projects(&self) -> bool {
        self.is_away || self.is_blind || self.is_in_flux || self.each().any(|seen| seen.hides_projects)
    }

    /// What is known of each file.
    pub fn each(&self) -> impl Iterator<Item = &Seen> {
        self.seen.values().chain(self.missed.values().map(|(seen, _)| seen))
    }

    /// The projects of all files, with the names of those; what may be gone counts where nobody else says it by now.
    pub fn projects(&self) -> Named {
        let mut all = Named::new();
        for (path, seen) in &self.seen {
            for (project, read) in seen.in_sight(&seen.projects, |lacks| &lacks.projects) {
                projects::add(&mut all, project.clone(), read.clone(), &name(path));
            }
        }
        for (project, read) in self.each().flat_map(|seen| &seen.projects) {
            all.entry(project.clone()).or_insert_with(|| read.clone());
        }
        all
    }

    /// What all files have of something. Of two of one name the first is there, and is told of the other; what may be gone counts
    /// where nobody else has it by now.
    pub fn all<T: Clone>(
        &self,
        of: impl Fn(&Seen) -> &BTreeMap<AppKey, T>,
        lacks: impl Fn(&Lacks) -> &BTreeMap<AppKey, Instant> + Copy,
        tell: impl Fn(&mut T, String),
    ) -> BTreeMap<AppKey, T> {
        let mut all: BTreeMap<AppKey, (&Path, T)> = BTreeMap::new();
        for (path, seen) in &self.seen {
            for (key, one) in seen.in_sight(of(seen), lacks) {
                match all.get_mut(key) {
                    None => drop(all.insert(key.clone(), (path, one.clone()))),
                    Some((first, counts)) => {
                        tell(counts, written_twice(&name(first), &name(path)));
                    }
                }
            }
        }
        let missed = self.missed.iter().map(|(path, (seen, _))| (path, seen));
        for (path, seen) in self.seen.iter().chain(missed) {
            for (key, one) in of(seen) {
                all.entry(key.clone()).or_insert_with(|| (path, one.clone()));
            }
        }
        all.into_iter().map(|(key, (_, one))| (key, one)).collect()
    }

    /// Those sets that are in a file by now, without those that may be gone.
    pub fn sets_in_sight(&self) -> BTreeSet<AppKey> {
        let in_sight = self.seen.values().flat_map(|seen| seen.in_sight(&seen.sets, |lacks| &lacks.sets));
        in_sight.map(|(key, _)| key.clone()).collect()
    }

    /// The files that were there last.
    fn known(&self) -> BTreeMap<PathBuf, Stamp> {
        self.seen.iter().filter_map(|(path, seen)| Some((path.clone(), seen.stamp?))).collect()
    }

    /// The folder itself: its device, and its number there.
    fn place(&self) -> Option<(u64, u64)> {
        fs::metadata(&self.folder).ok().map(|folder| (folder.dev(), folder.ino()))
    }

    /// Why what was in the folder is not what is in it now: it is empty, and not the one that files were seen in, as where a
    /// volume is not mounted any more. It begins anew then.
    fn why_elsewhere(&mut self, listed: &Listed) -> Option<String> {
        let now = self.place();
        if !listed.found.is_empty() || !listed.unread.is_empty() {
            self.home = if listed.is_in_flux { self.home } else { now };
            return None;
        }
        let is_unknown = self.seen.is_empty() && self.missed.is_empty();
        if self.is_ours || is_unknown || self.home.is_none() || self.home == now {
            return None;
        }
        (self.before, self.has_looked_twice) = (Before::Missing, false);
        let folder = self.folder.display();
        Some(format!(
            "{folder}: it is another folder now, with no manifest in it; what was in it before counts"
        ))
    }

    fn stamps(&mut self) -> (BTreeMap<PathBuf, Stamp>, Vec<String>) {
        let before = self.place();
        let listed = list(&self.folder);
        self.is_away = listed.is_err();
        let mut listed = match listed {
            Ok(listed) => listed,
            Err(error) if self.is_ours && self.seen.is_empty() && error.kind() == ErrorKind::NotFound => {
                self.is_away = false;
                return Default::default();
            }
            // What was in it before counts: nobody has said that it is to go.
            Err(error) => {
                let problem = format!("{}: {error}; what was in it before counts", self.folder.display());
                return (self.known(), vec![problem]);
            }
        };
        for _ in 1..LISTED_MAX {
            let is_whole =
                !self.seen.is_empty() && self.seen.keys().all(|path| listed.found.contains_key(path));
            if is_whole && listed.problems.is_empty() && !listed.is_in_flux {
                break;
            }
            let Ok(mut again) = list(&self.folder) else { break };
            let is_same = again == listed;
            listed.found.retain(|path, _| !again.found.contains_key(path) && fs::metadata(path).is_ok());
            again.found.append(&mut listed.found);
            listed = again;
            if is_same {
                break;
            }
        }
        // Replaced meanwhile, it may have been listed in part.
        listed.is_in_flux |= self.place() != before;
        if let Some(problem) = self.why_elsewhere(&listed) {
            self.is_away = true;
            return (self.known(), vec![problem]);
        }
        (self.is_blind, self.is_in_flux) = (!listed.unread.is_empty(), listed.is_in_flux);
        for path in listed.unread {
            let known = self.seen.get(&path).or_else(|| self.missed.get(&path).map(|(seen, _)| seen));
            if let Some(stamp) = known.and_then(|seen| seen.stamp) {
                listed.found.insert(path, stamp);
            }
        }
        (listed.found, listed.problems)
    }
}

pub(super) fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The file that has a document, and nothing else: whoever has written more into it does not want that removed. `what` it is,
/// and `also` what to do by hand.
pub(crate) fn only_in(
    folder: &Path,
    has: impl Fn(&Seen) -> bool,
    (what, also): (&str, &str),
) -> Result<PathBuf, ServiceError> {
    let wrong = |source| ServiceError::Io { action: "read", path: folder.to_path_buf(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if !is_manifest(&path) {
            continue;
        }
        let mut seen = Seen::default();
        seen.read(&name(&path), fs::read(&path));
        if has(&seen) {
            found.push((path, !seen.is_one()));
        }
    }
    let refused = |why: String| Err(ServiceError::refused(format!("{why}; nothing was removed")));
    match found.as_slice() {
        [(path, false)] => Ok(path.clone()),
        [(path, true)] => {
            refused(format!("{what} is not all that is in {}: remove it there by hand{also}", path.display()))
        }
        [] => refused(format!("{what} is in no file that can be read")),
        _ => refused(format!("{what} is in several files")),
    }
}

/// Reads or writes files.
pub(crate) async fn blocking<T: Send + 'static>(
    path: PathBuf,
    call: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
) -> Result<T, ServiceError> {
    let failed = |error| ServiceError::Io { action: "write", path, source: std::io::Error::other(error) };
    tokio::task::spawn_blocking(call).await.map_err(failed)?
}
