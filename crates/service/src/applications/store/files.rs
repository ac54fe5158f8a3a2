//! The files of a folder, looked at again and again: only what has changed is read.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::watch;

use super::AppKey;
use super::projects::{self, Named};
use super::reading::{Seen, Stamp, written_twice};
use crate::error::ServiceError;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// So often a folder is listed until it says the same twice. Whoever renames a file at that moment has it in no list.
const LISTED_MAX: usize = 4;

/// The files of a folder, as they were seen last.
#[derive(Default)]
pub(crate) struct Files {
    folder: PathBuf,
    seen: BTreeMap<PathBuf, Seen>,
    /// Those that the last look did not find. They count until another one has not found them either.
    missed: BTreeMap<PathBuf, Seen>,
    /// The folder itself cannot be read.
    is_away: bool,
    /// Nobody has to have made it.
    is_ours: bool,
    /// Only its sets are asked for.
    has_only_sets: bool,
    /// What is wrong with the folder, or with a file that cannot be looked at.
    problems: Vec<String>,
}

impl Files {
    /// Those of a folder.
    pub fn of(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..Self::default() }
    }

    /// Those of a folder of our own, which is there once there is something in it.
    pub fn of_ours(folder: &Path) -> Self {
        Self { is_ours: true, ..Self::of(folder) }
    }

    /// Those of a folder of which only the sets are asked for.
    pub fn of_sets(folder: &Path) -> Self {
        Self { has_only_sets: true, ..Self::of(folder) }
    }

    /// Reads what has changed, and says whether anything has.
    pub fn look(&mut self) -> bool {
        let was_away = self.is_away;
        let (found, problems) = self.stamps();
        let mut has_changed = was_away != self.is_away || problems != self.problems;
        self.problems = problems;
        // Of a folder that is away nothing is known.
        has_changed |= !self.is_away && self.miss(&found);
        for (path, stamp) in found {
            let seen = self.seen.entry(path.clone()).or_default();
            if seen.stamp == Some(stamp) {
                continue;
            }
            let content = fs::read(&path);
            // Whoever writes a file anew may have come to a part of it: what it does not say any more counts once it stays so.
            if !self.is_ours && seen.doubted != Some(stamp) && seen.would_lose(&name(&path), &content) {
                seen.doubted = Some(stamp);
                continue;
            }
            (seen.stamp, seen.doubted) = (Some(stamp), None);
            seen.read(&name(&path), content);
            if self.has_only_sets {
                seen.keep_only_sets();
            }
            has_changed = true;
        }
        has_changed
    }

    /// Sets aside what was not found, and takes back what is found again; says whether anything has changed by that.
    fn miss(&mut self, found: &BTreeMap<PathBuf, Stamp>) -> bool {
        let is_there = |(path, _): &(PathBuf, Seen)| found.contains_key(path);
        let missed = std::mem::take(&mut self.missed);
        let were_missed = !missed.is_empty();
        self.seen.extend(missed.into_iter().filter(is_there));
        if self.seen.keys().all(|path| found.contains_key(path)) {
            return were_missed;
        }
        let (seen, gone) = std::mem::take(&mut self.seen).into_iter().partition(is_there);
        self.seen = seen;
        // Of our own files nobody else takes one away.
        self.missed = if self.is_ours { BTreeMap::new() } else { gone };
        true
    }

    /// What is wrong with the folder, or with a file that cannot be looked at.
    pub fn problems(&self) -> Vec<String> {
        self.problems.clone()
    }

    /// Whether there may be documents in what cannot be read.
    pub fn is_unsure(&self) -> bool {
        self.is_away || self.each().any(|seen| seen.is_broken)
    }

    /// Whether there may be projects in what cannot be read.
    pub fn hides_projects(&self) -> bool {
        self.is_away || self.each().any(|seen| seen.hides_projects)
    }

    /// What is known of each file.
    pub fn each(&self) -> impl Iterator<Item = &Seen> {
        self.seen.values().chain(self.missed.values())
    }

    /// The projects of all files, with the names of those; not what another file says by now.
    pub fn projects(&self) -> Named {
        let mut all = Named::new();
        for (path, seen) in &self.seen {
            for (project, read) in &seen.projects {
                projects::add(&mut all, project.clone(), read.clone(), &name(path));
            }
        }
        for seen in self.missed.values() {
            for (project, read) in &seen.projects {
                all.entry(project.clone()).or_insert_with(|| read.clone());
            }
        }
        all
    }

    /// What all files have of something. Of two of one name the first is there, and is told of the other.
    pub fn all<T: Clone>(
        &self,
        of: impl Fn(&Seen) -> &BTreeMap<AppKey, T>,
        tell: impl Fn(&mut T, String),
    ) -> BTreeMap<AppKey, T> {
        let mut all: BTreeMap<AppKey, (&Path, T)> = BTreeMap::new();
        for (path, seen) in &self.seen {
            for (key, one) in of(seen) {
                match all.get_mut(key) {
                    None => drop(all.insert(key.clone(), (path, one.clone()))),
                    Some((first, counts)) => {
                        tell(counts, written_twice(&name(first), &name(path)));
                    }
                }
            }
        }
        for (path, seen) in &self.missed {
            for (key, one) in of(seen) {
                all.entry(key.clone()).or_insert_with(|| (path, one.clone()));
            }
        }
        all.into_iter().map(|(key, (_, one))| (key, one)).collect()
    }

    fn stamps(&mut self) -> (BTreeMap<PathBuf, Stamp>, Vec<String>) {
        let listed = list(&self.folder);
        self.is_away = listed.is_err();
        let (mut found, mut problems) = match listed {
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
        let is_whole = |found: &BTreeMap<_, _>| {
            !self.seen.is_empty() && self.seen.keys().all(|path| found.contains_key(path))
        };
        for _ in 1..LISTED_MAX {
            if is_whole(&found) && problems.is_empty() {
                break;
            }
            let Ok((again, still)) = list(&self.folder) else { break };
            let is_same = again == found && still == problems;
            found.retain(|path, _| fs::metadata(path).is_ok());
            found.extend(again);
            problems = still;
            if is_same {
                break;
            }
        }
        (found, problems)
    }
}

/// The files of a folder, and what is wrong with those that cannot be looked at.
fn list(folder: &Path) -> std::io::Result<(BTreeMap<PathBuf, Stamp>, Vec<String>)> {
    let (mut found, mut problems) = (BTreeMap::new(), Vec::new());
    for path in fs::read_dir(folder)?.flatten().map(|entry| entry.path()) {
        match fs::metadata(&path) {
            Ok(file) if is_manifest(&path) && file.is_file() => {
                let modified = file.modified().unwrap_or(std::time::UNIX_EPOCH);
                found.insert(path, (modified, file.len(), file.ino()));
            }
            Err(error) if is_manifest(&path) => problems.push(format!("{}: {error}", name(&path))),
            _ => {}
        }
    }
    Ok((found, problems))
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
