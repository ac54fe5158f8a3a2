//! A folder of YAML files. Its files are looked at every second; what is known of the applications is kept in the state
//! directory, so that nobody but their author writes to the files. What the ApplicationSets of the folder generate is in files
//! of the state directory, and is served beside.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tidegate_application::deletion::{self, RESOURCES_FINALIZER};
use tidegate_application::hook_finalizers;
use tidegate_model::annotations::DELETION_REQUESTED_BY;
use tidegate_model::argo::{Application, ApplicationSpec};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{OwnedMutexGuard, RwLock};

use super::files::{Files, Looks, Removed, blocking, keep_looking, only_in};
use super::generated::{Generated, is_generated, now};
use super::projects::{self, Named};
use super::reading::left_alone;
use super::{AppKey, ApplicationStore, StoreEvent, Stored, kept, tell_all};
use crate::applications::projects::ProjectSet;
use crate::disk::{Disk, SystemDisk};
use crate::error::ServiceError;

/// So many applications can be written at the same time, at most.
const PLACES: usize = 64;

/// A folder of YAML files.
pub struct FolderStore {
    pub(crate) folder: PathBuf,
    kept: PathBuf,
    pub(crate) generated: Arc<Generated>,
    pub(crate) disk: Arc<dyn Disk>,
    /// Taken by whoever writes what is known, for as long as that takes.
    writing: Arc<RwLock<()>>,
    looks: Looks,
    removed: Removed,
    /// Taken by whoever writes what is known of an application, each for some of them: also by one whom nobody waits for any more.
    places: Arc<[Arc<tokio::sync::Mutex<()>>]>,
}

impl FolderStore {
    /// A folder, which must be there, where to keep what is known, and where those are that ApplicationSets generate.
    pub fn open(folder: &Path, kept: PathBuf, generated: PathBuf) -> Result<Self, ServiceError> {
        Self::open_on(Arc::new(SystemDisk), folder, kept, generated)
    }

    /// The same, with what changes files.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        folder: &Path,
        kept: PathBuf,
        generated: PathBuf,
    ) -> Result<Self, ServiceError> {
        let wrong = |source| ServiceError::Io { action: "read", path: folder.to_path_buf(), source };
        let folder = fs::canonicalize(folder).map_err(wrong)?;
        fs::read_dir(&folder).map_err(wrong)?;
        [&kept, &generated].into_iter().for_each(|folder| kept::tidy(disk.as_ref(), folder));
        let generated = Generated::new(Arc::clone(&disk), generated);
        Ok(Self {
            folder,
            kept,
            generated,
            disk,
            writing: Arc::default(),
            looks: Looks::default(),
            removed: Removed::default(),
            places: (0..PLACES).map(|_| Arc::default()).collect(),
        })
    }

    /// Taken until what is known of an application is written.
    async fn place(&self, key: &AppKey) -> Option<OwnedMutexGuard<()>> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let index = usize::try_from(hasher.finish() % u64::try_from(PLACES).ok()?).ok()?;
        Some(Arc::clone(self.places.get(index)?).lock_owned().await)
    }
}

#[async_trait]
impl ApplicationStore for FolderStore {
    fn base(&self) -> PathBuf {
        self.folder.clone()
    }

    fn watch(&self) -> UnboundedReceiver<StoreEvent> {
        let (tell, told) = unbounded_channel();
        // Heard of from before the first look.
        let changes = self.generated.changes();
        let mut watcher =
            Watcher::new(Arc::clone(&self.disk), &self.folder, &self.kept, Arc::clone(&self.generated));
        watcher.removed = self.removed.clone();
        keep_looking(watcher, (changes, &self.looks), move |watcher, number| {
            let mut events = watcher.look();
            if watcher.looked != number {
                watcher.looked = number;
                events.push(StoreEvent::Looked(number));
            }
            tell_all(&tell, events)
        });
        told
    }

    fn look_soon(&self) -> Option<u64> {
        Some(self.looks.soon())
    }

    async fn keep(&self, application: &Application) -> Result<(), ServiceError> {
        let (folder, application) = (self.kept.clone(), application.clone());
        let disk = Arc::clone(&self.disk);
        let writing = Arc::clone(&self.writing).read_owned().await;
        let place = self.place(&AppKey::of(&application)).await;
        let write = move || {
            let written = kept::write(disk.as_ref(), &folder, &application);
            // Also where nobody waits for it any more.
            drop((writing, place));
            written
        };
        blocking(self.kept.clone(), write).await
    }

    async fn rest(&self) {
        drop(self.writing.write().await);
    }

    async fn keeps(&self, application: &Application) -> Option<ServiceError> {
        if is_generated(application) {
            return None;
        }
        let (folder, key) = (self.folder.clone(), AppKey::of(application));
        blocking(self.folder.clone(), move || file_of(&folder, &key)).await.err()
    }

    async fn delete(&self, application: &Application) -> Result<(), ServiceError> {
        let (folder, files, application) = (self.kept.clone(), self.folder.clone(), application.clone());
        let (generated, disk) = (Arc::clone(&self.generated), Arc::clone(&self.disk));
        let removed = self.removed.clone();
        let place = self.place(&AppKey::of(&application)).await;
        let remove = move || {
            let _place = place;
            if is_generated(&application) {
                return generated.delete_as(&application);
            }
            let key = AppKey::of(&application);
            let path = file_of(&files, &key)?;
            // Its finalizers are known before its file goes, and count from then on; they do not where it stays.
            let before = kept::read::<Application>(&kept::file(&folder, &key));
            kept::write(disk.as_ref(), &folder, &application)?;
            if let Err(source) = disk.remove(&path) {
                match before {
                    Some(before) => kept::write(disk.as_ref(), &folder, &before)?,
                    None => kept::remove(disk.as_ref(), &folder, &key)?,
                }
                return Err(ServiceError::Io { action: "remove", path, source });
            }
            removed.add(path, key);
            Ok(())
        };
        blocking(self.folder.clone(), remove).await
    }

    async fn release(&self, application: &Application) -> Result<(), ServiceError> {
        self.keep(application).await?;
        let (generated, application) = (Arc::clone(&self.generated), application.clone());
        blocking(self.kept.clone(), move || match is_generated(&application) {
            true => generated.release(&application),
            false => Ok(()),
        })
        .await
    }

    async fn forget(&self, key: &AppKey) -> Result<(), ServiceError> {
        let (folder, key, disk) = (self.kept.clone(), key.clone(), Arc::clone(&self.disk));
        let place = self.place(&key).await;
        let remove = move || {
            let _place = place;
            kept::remove(disk.as_ref(), &folder, &key)
        };
        blocking(self.kept.clone(), remove).await
    }
}

/// The file of an application, which has nothing else in it.
fn file_of(folder: &Path, key: &AppKey) -> Result<PathBuf, ServiceError> {
    let also = format!(", with the finalizer {RESOURCES_FINALIZER} if its objects are to go");
    only_in(folder, |seen| seen.applications.contains_key(key), (&format!("application {key}"), &also))
}

struct Watcher {
    disk: Arc<dyn Disk>,
    kept: PathBuf,
    files: Files,
    /// The files of those that were generated.
    made: Files,
    generated: Arc<Generated>,
    told: BTreeMap<AppKey, Arc<Stored>>,
    problems: Vec<String>,
    /// The projects, as they were told.
    projects: Option<ProjectSet>,
    /// It could never be told which projects there are.
    is_blind: bool,
    /// Those that were known when nobody looked, and are in no file; they may be in a document that cannot be read.
    unplaced: BTreeMap<AppKey, Arc<Stored>>,
    /// What is told depends on more than the files: there are applications that go.
    is_waiting: bool,
    settled: bool,
    /// The last look that somebody has asked for.
    looked: u64,
    removed: Removed,
}

impl Watcher {
    fn new(disk: Arc<dyn Disk>, folder: &Path, kept: &Path, generated: Arc<Generated>) -> Self {
        Self {
            disk,
            kept: kept.to_owned(),
            files: Files::of(folder),
            made: Files::of_ours(generated.folder()),
            generated,
            told: BTreeMap::new(),
            problems: Vec::new(),
            projects: None,
            is_blind: false,
            unplaced: BTreeMap::new(),
            is_waiting: false,
            settled: false,
            looked: 0,
            removed: Removed::default(),
        }
    }

    /// What has happened since the last look.
    fn look(&mut self) -> Vec<StoreEvent> {
        let removed = self.removed.take();
        let has_changed = self.files.look(&removed) | self.made.look(&BTreeMap::new());
        let of_removed: BTreeSet<AppKey> = match self.files.is_away() {
            true => {
                self.removed.put_back(removed);
                BTreeSet::new()
            }
            false => removed.into_values().collect(),
        };
        if self.settled && !has_changed && !self.is_waiting && of_removed.is_empty() {
            return Vec::new();
        }
        self.is_waiting = false;
        let mut problems = self.files.problems();
        problems.extend(self.made.problems());
        problems.extend(self.files.each().flat_map(|seen| seen.problems.iter().cloned()));
        let projects = self.files.projects();
        let twice = |stored: &mut Arc<Stored>, problem| {
            Arc::make_mut(stored).problem.get_or_insert(problem);
        };
        let mut current = self.files.all(|seen| &seen.applications, |lacks| &lacks.applications, twice);
        // What a file says of versions was true of a resource that somebody has copied.
        let has_version =
            |stored: &&mut Arc<Stored>| !stored.application.metadata.resource_version.is_empty();
        for stored in current.values_mut().filter(has_version) {
            Arc::make_mut(stored).application.metadata.resource_version.clear();
        }
        for (key, stored) in current.iter_mut().filter(|(_, stored)| is_unread(stored)) {
            self.is_as_before(key, Arc::make_mut(stored));
        }
        let lost = if self.settled { BTreeMap::new() } else { self.recall() };
        self.unplaced.retain(|key, _| !current.contains_key(key));
        let mut events = self.projects_are(projects, &problems);
        problems.extend(self.made.each().flat_map(|seen| seen.problems.iter().cloned()));
        for (key, made) in self.made.all(|seen| &seen.applications, |lacks| &lacks.applications, twice) {
            let Some(authored) = current.get_mut(&key) else {
                current.insert(key, made);
                continue;
            };
            let message =
                "an ApplicationSet generates an application of this name too; the one in the folder counts";
            Arc::make_mut(authored).problem.get_or_insert_with(|| message.to_owned());
            if made.application.is_deleting() {
                self.is_waiting = true;
                problems.extend(self.generated.give_up(&key).err().map(|error| error.to_string()));
            }
        }
        events.extend(self.events(current, (problems, lost), &of_removed));
        events
    }

    /// An application whose document cannot be read is what it was before, also when nobody looked.
    fn is_as_before(&self, key: &AppKey, stored: &mut Stored) {
        let told = self.told.get(key).map(|told| told.application.clone());
        let known = || kept::read::<Application>(&kept::file(&self.kept, key));
        let is_read = |known: &Application| !is_generated(known) && known.spec != ApplicationSpec::default();
        let Some(mut known) = told.filter(is_read).or_else(|| known().filter(is_read)) else { return };
        (known.status, known.operation) = Default::default();
        // It is written down: nobody has said that it is to go.
        known.metadata.deletion_timestamp = None;
        known.metadata.annotations.remove(DELETION_REQUESTED_BY);
        stored.application = known;
    }

    /// What was never read may say that the project `default` forbids something.
    fn projects_are(&mut self, projects: Named, problems: &[String]) -> Vec<StoreEvent> {
        let is_coming = self.files.is_coming() && self.is_missing();
        let words = || format!("{}: its files are still coming", self.files.folder().display());
        let coming = self.why_bare().or_else(|| is_coming.then(words));
        self.is_blind = self.files.hides_projects() && (self.is_blind || !self.settled);
        let set = projects::of_files(projects, Some(problems).filter(|_| self.is_blind), coming);
        if self.projects.as_ref() == Some(&set) {
            return Vec::new();
        }
        self.projects = Some(set.clone());
        vec![StoreEvent::Projects(set)]
    }

    /// Whether there may be applications in what cannot be read.
    fn is_unsure(&self) -> bool {
        self.files.is_unsure() || self.made.is_unsure()
    }

    /// Takes in what was known when nobody looked; where that is which was damaged.
    fn recall(&mut self) -> BTreeMap<PathBuf, String> {
        let lost = kept::set_aside::<Application>(self.disk.as_ref(), &self.kept);
        for application in kept::kept_applications(&self.kept).unwrap_or_default() {
            // It may have gone while nobody looked.
            let key = AppKey::of(&application);
            self.told.insert(key, Arc::new(Stored { application, problem: None, lost: None }));
        }
        self.unplaced.clone_from(&self.told);
        if self.unplaced.is_empty() {
            self.files.expect_nothing();
        }
        lost
    }

    /// Why what was known, and is in no file, may be there, where the folder has none at all.
    fn why_bare(&self) -> Option<String> {
        self.files.why_bare().filter(|_| self.is_missing())
    }

    /// Whether something that was known is in no file, and may be there.
    fn is_missing(&self) -> bool {
        self.unplaced.values().any(|stored| is_doubted(&stored.application))
    }

    fn events(
        &mut self,
        mut current: BTreeMap<AppKey, Arc<Stored>>,
        (mut problems, mut lost): (Vec<String>, BTreeMap<PathBuf, String>),
        of_removed: &BTreeSet<AppKey>,
    ) -> Vec<StoreEvent> {
        self.unplaced.retain(|key, _| !current.contains_key(key));
        let is_unsure = !problems.is_empty() && self.is_unsure();
        if !is_unsure {
            let looks_again = !self.files.has_looked_twice();
            self.unplaced.retain(|_, stored| looks_again && is_doubted(&stored.application));
            self.is_waiting |= !self.unplaced.is_empty();
        }
        let bare = self.why_bare();
        problems.extend(bare.clone());
        for (key, stored) in &self.unplaced {
            let mut stored = Stored::clone(stored);
            stored.problem = Some(match bare.as_deref() {
                _ if is_unsure => left_alone("it is in no file that can be read", &problems.join("; ")),
                Some(bare) => left_alone("it is in no file", bare),
                None => "it is in no file; before anything follows from that, it is looked for once more"
                    .to_owned(),
            });
            current.insert(key.clone(), Arc::new(stored));
        }
        let mut events = Vec::new();
        // Others of the same name: of those before nothing counts.
        let mut replaced = BTreeSet::new();
        for (key, before) in &self.told {
            match current.get(key) {
                Some(now) if is_another(&before.application, &now.application) => {
                    replaced.insert(key.clone());
                    events.push(StoreEvent::Gone(key.clone()));
                }
                Some(_) => {}
                None => match leaving(before, kept::read(&kept::file(&self.kept, key))) {
                    Some(stored) => {
                        self.is_waiting = true;
                        current.insert(key.clone(), Arc::new(stored));
                    }
                    None => events.push(StoreEvent::Gone(key.clone())),
                },
            }
        }
        for (key, stored) in &current {
            let before = self.told.get(key).filter(|_| !replaced.contains(key));
            // One whose file was removed, and is there again, is not going any more.
            if self.settled && before == Some(stored) && !of_removed.contains(key) {
                continue;
            }
            let mut told = Stored::clone(stored);
            told.lost = lost.remove(&kept::file(&self.kept, key));
            let known = kept::read::<Application>(&kept::file(&self.kept, key));
            if let Some(known) = known.filter(|known| !is_another(known, &stored.application)) {
                (told.application.status, told.application.operation) = (known.status, known.operation);
                hook_finalizers::keep(&mut told.application.metadata.finalizers, &known.metadata.finalizers);
            }
            if self.settled && before.is_some() {
                // Its actor knows that one better.
                told.application.operation = None;
            }
            events.push(StoreEvent::Applied(Box::new(told)));
        }
        self.told = current;
        if !self.settled || self.problems != problems {
            events.push(StoreEvent::Problems(problems.clone()));
            self.problems = problems;
        }
        if !self.settled {
            events.push(StoreEvent::Settled);
            self.settled = true;
        }
        events
    }
}

/// Whether one that is in no file may be there. One that was going has none, and that of one that was generated is ours.
fn is_doubted(known: &Application) -> bool {
    !known.is_deleting() && !is_generated(known)
}

/// Whether nothing but its name, or its metadata, could be read of an application.
fn is_unread(stored: &Stored) -> bool {
    stored.problem.is_some() && stored.application.spec == ApplicationSpec::default()
}

/// Whether an application was generated anew under its name. One of the folder goes on with what is known.
fn is_another(before: &Application, now: &Application) -> bool {
    is_generated(before) && is_generated(now) && before.metadata.uid != now.metadata.uid
}

/// An application whose file is gone, and which asks that something be done first: it stays until that is done. Where its
/// deletion was asked for by a command, or is done, its finalizers are those that are kept. One that was generated has its
/// file for as long as something is to be done.
fn leaving(before: &Stored, kept: Option<Application>) -> Option<Stored> {
    if is_generated(&before.application) {
        return None;
    }
    let mut stored = before.clone();
    let metadata = &mut stored.application.metadata;
    match kept {
        Some(kept) if kept.is_deleting() => {
            metadata.finalizers = kept.metadata.finalizers;
            metadata.deletion_timestamp = kept.metadata.deletion_timestamp;
            let asker = kept.metadata.annotations.get_key_value(DELETION_REQUESTED_BY);
            metadata.annotations.extend(asker.map(|(name, asker)| (name.clone(), asker.clone())));
        }
        // Those that its author did not have to write.
        Some(kept) => hook_finalizers::keep(&mut metadata.finalizers, &kept.metadata.finalizers),
        None => {}
    }
    metadata.deletion_timestamp.get_or_insert(now());
    stored.problem = None;
    deletion::cascade(&stored.application).map(|_| stored)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first surprise")]
mod tests;
