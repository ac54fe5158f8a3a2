//! The files of a folder, looked at again and again: only what has changed is read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::AppKey;
use super::projects::{self, Named};
use super::reading::doubt::Lacks;
use super::reading::{Seen, Stamp, written_twice};
use crate::error::ServiceError;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// So often a folder is listed until it says the same twice. Whoever renames a file at that moment has it in no list.
const LISTED_MAX: usize = 4;
/// What is not there any more is gone when it is still not there so long after that was seen.
const GONE_AFTER: Duration = Duration::from_millis(900);
/// What a file does not say any more that is written again and again is gone after so long.
pub(super) const GONE_AT_LAST: Duration = Duration::from_secs(10);

/// The files of a folder, as they were seen last.
#[derive(Default)]
pub(crate) struct Files {
    folder: PathBuf,
    seen: BTreeMap<PathBuf, Seen>,
    /// Those that were not found any more, and since when: they count until that is sure.
    missed: BTreeMap<PathBuf, Missed>,
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
    calm: Calm,
}

/// A file that is not found any more.
struct Missed {
    seen: Seen,
    /// Since when that is so, with nothing that speaks against it, and since when it was not found at all.
    since: Option<Instant>,
    first: Instant,
}

/// The beginning, until it is sure what is in no file.
#[derive(Default)]
struct Calm {
    /// The first look at which all could be read.
    first: Option<Instant>,
    /// The last one at which something was new.
    since: Option<Instant>,
    is_over: bool,
}

impl Calm {
    fn look(
        &mut self,
        (began, now): (Instant, Instant),
        (is_clear, has_read): (bool, bool),
        patience: Duration,
    ) {
        if !is_clear {
            (self.first, self.since) = (None, None);
            return;
        }
        let is_late = |since: Option<Instant>, patience| {
            since.is_some_and(|since| began.duration_since(since) >= patience)
        };
        self.is_over |= !has_read && is_late(self.since, patience) || is_late(self.first, GONE_AT_LAST);
        self.first.get_or_insert(now);
        if has_read || self.since.is_none() {
            self.since = Some(now);
        }
    }
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
        self.calm.is_over
    }

    /// Whether the folder itself cannot be read.
    pub fn is_away(&self) -> bool {
        self.is_away
    }

    /// Reads what has changed, and says whether anything has. `removed`: files that were taken away on purpose.
    pub fn look(&mut self, removed: &BTreeSet<PathBuf>) -> bool {
        let began = Instant::now();
        let was_away = self.is_away;
        let (found, problems) = self.stamps();
        // A list may take long: what it says was true at its end at the latest.
        let now = Instant::now();
        let mut has_changed = was_away != self.is_away || problems != self.problems;
        self.problems = problems;
        match self.is_away {
            // Of a folder that is away nothing is known.
            true => self.missed.values_mut().for_each(|missed| missed.since = None),
            false => has_changed |= self.miss(&found, (removed, began, now)),
        }
        let mut has_read = false;
        for (path, stamp) in found {
            let patience = if self.is_ours { None } else { Some(self.patience) };
            let seen = self.seen.entry(path.clone()).or_default();
            if seen.stamp == Some(stamp) {
                has_changed |= seen.settle(began, self.patience);
                continue;
            }
            let content = fs::read(&path);
            // What could not be read is tried again.
            seen.stamp = content.is_ok().then_some(stamp);
            seen.read_anew(&name(&path), content, patience.map(|patience| (now, patience)));
            if self.has_only_sets {
                seen.keep_only_sets();
            }
            (has_changed, has_read) = (true, true);
        }
        let is_clear = !self.is_in_flux && !self.is_unsure();
        self.calm.look((began, now), (is_clear, has_read), self.patience);
        has_changed
    }

    /// Sets aside what was not found, takes back what is found again, and gives up what is gone; says whether anything has changed
    /// by that.
    fn miss(
        &mut self,
        found: &BTreeMap<PathBuf, Stamp>,
        (removed, began, now): (&BTreeSet<PathBuf>, Instant, Instant),
    ) -> bool {
        let before = (self.seen.len(), self.missed.len());
        let (back, missed): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.missed).into_iter().partition(|(path, _)| found.contains_key(path));
        let is_changed = !back.is_empty();
        self.seen.extend(back.into_iter().map(|(path, missed)| (path, missed.seen)));
        self.missed = missed;
        if self.seen.keys().any(|path| !found.contains_key(path)) {
            let (seen, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
                std::mem::take(&mut self.seen).into_iter().partition(|(path, _)| found.contains_key(path));
            self.seen = seen;
            let gone = gone.into_iter().filter(|_| !self.is_ours);
            self.missed.extend(gone.map(|(path, seen)| (path, Missed { seen, since: None, first: now })));
        }
        let (patience, is_in_flux) = (self.patience, self.is_in_flux);
        self.missed.retain(|path, missed| {
            let is_sure = missed.since.is_some_and(|since| began.duration_since(since) >= patience);
            let is_gone = is_sure && !is_in_flux || began.duration_since(missed.first) >= GONE_AT_LAST;
            missed.since = missed.since.filter(|_| !is_in_flux).or(Some(now));
            !is_gone && !removed.contains(path)
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
        self.seen.values().chain(self.missed.values().map(|missed| &missed.seen))
    }

    /// The projects of all files, with the names of those; what may be gone counts where nobody else says it by now.
    pub fn projects(&self) -> Named {
        let mut all = Named::new();
        for (path, seen) in &self.seen {
            for (project, read) in &seen.projects {
                if !seen.lacks().is_some_and(|lacks| lacks.projects.contains_key(project)) {
                    projects::add(&mut all, project.clone(), read.clone(), &name(path));
                }
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
        lacks: impl Fn(&Lacks) -> &BTreeMap<AppKey, Instant>,
        tell: impl Fn(&mut T, String),
    ) -> BTreeMap<AppKey, T> {
        let mut all: BTreeMap<AppKey, (&Path, T)> = BTreeMap::new();
        let is_lacked = |seen: &Seen, key| seen.lacks().is_some_and(|all| lacks(all).contains_key(key));
        for (path, seen) in &self.seen {
            for (key, one) in of(seen).iter().filter(|(key, _)| !is_lacked(seen, key)) {
                match all.get_mut(key) {
                    None => drop(all.insert(key.clone(), (path, one.clone()))),
                    Some((first, counts)) => {
                        tell(counts, written_twice(&name(first), &name(path)));
                    }
                }
            }
        }
        let missed = self.missed.iter().map(|(path, missed)| (path, &missed.seen));
        for (path, seen) in self.seen.iter().chain(missed) {
            for (key, one) in of(seen) {
                all.entry(key.clone()).or_insert_with(|| (path, one.clone()));
            }
        }
        all.into_iter().map(|(key, (_, one))| (key, one)).collect()
    }

    /// Those sets that are in a file by now, without those that may be gone.
    pub fn sets_in_sight(&self) -> BTreeSet<AppKey> {
        let in_sight = |seen: &Seen| {
            let is_lacked = |key: &&AppKey| seen.lacks().is_some_and(|lacks| lacks.sets.contains_key(*key));
            seen.sets.keys().filter(|key| !is_lacked(key)).cloned().collect::<Vec<_>>()
        };
        self.seen.values().flat_map(in_sight).collect()
    }

    fn stamps(&mut self) -> (BTreeMap<PathBuf, Stamp>, Vec<String>) {
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
                let known = |(path, seen): (&PathBuf, &Seen)| Some((path.clone(), seen.stamp?));
                let problem = format!("{}: {error}; what was in it before counts", self.folder.display());
                return (self.seen.iter().filter_map(known).collect(), vec![problem]);
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
        (self.is_blind, self.is_in_flux) = (!listed.unread.is_empty(), listed.is_in_flux);
        for path in listed.unread {
            let known = self.seen.get(&path).or_else(|| self.missed.get(&path).map(|missed| &missed.seen));
            if let Some(stamp) = known.and_then(|seen| seen.stamp) {
                listed.found.insert(path, stamp);
            }
        }
        (listed.found, listed.problems)
    }
}

/// The files of a folder.
#[derive(PartialEq)]
struct Listed {
    found: BTreeMap<PathBuf, Stamp>,
    /// Those that are there and cannot be looked at.
    unread: BTreeSet<PathBuf>,
    /// One of them was not there any more when it was looked at.
    is_in_flux: bool,
    /// What is wrong with those that cannot be looked at, and with links that lead nowhere.
    problems: Vec<String>,
}

fn list(folder: &Path) -> std::io::Result<Listed> {
    let (mut found, mut unread, mut problems) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    let mut is_in_flux = false;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if !is_manifest(&path) {
            continue;
        }
        match fs::metadata(&path) {
            Ok(file) if file.is_file() => {
                let modified = file.modified().unwrap_or(std::time::UNIX_EPOCH);
                found.insert(path, (modified, file.len(), file.ino()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound && !is_link(&entry) => is_in_flux = true,
            Err(error) => {
                problems.push(format!("{}: {error}", name(&path)));
                if error.kind() != ErrorKind::NotFound {
                    unread.insert(path);
                }
            }
        }
    }
    Ok(Listed { found, unread, is_in_flux, problems })
}

fn is_link(entry: &fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_symlink())
}

pub(super) fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|one| ["yaml", "yml", "json"].iter().any(|known| one == *known))
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

/// Who may ask for a look at files, ahead of the next one.
#[derive(Clone, Default)]
pub(crate) struct Looks(watch::Sender<u64>);

impl Looks {
    /// Asks for one; the number that its [`keep_looking`] tells with what it has found.
    pub fn soon(&self) -> u64 {
        let mut number = 0;
        self.0.send_modify(|last| {
            *last = last.wrapping_add(1);
            number = *last;
        });
        number
    }
}

/// Looks again and again: regularly, and at once when it is said that something has changed, or somebody asks for that. What
/// looks is told the last number that was asked for before. Ends when nobody listens.
pub(crate) fn keep_looking<W: Send + 'static>(
    mut watcher: W,
    (mut changed, looks): (watch::Receiver<()>, &Looks),
    look: impl Fn(&mut W, u64) -> bool + Clone + Send + 'static,
) {
    let mut asked = looks.0.subscribe();
    tokio::spawn(async move {
        loop {
            let (look, number) = (look.clone(), *asked.borrow_and_update());
            let looking = tokio::task::spawn_blocking(move || {
                let goes_on = look(&mut watcher, number);
                (watcher, goes_on)
            });
            let Ok((back, true)) = looking.await else { return };
            watcher = back;
            tokio::select! {
                () = said(&mut changed) => {}
                () = said(&mut asked) => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    });
}

/// Returns when something is said. Where nobody is left who could, the files are looked at all the same.
async fn said<T>(what: &mut watch::Receiver<T>) {
    if what.changed().await.is_err() {
        std::future::pending::<()>().await;
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
