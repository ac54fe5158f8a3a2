//! ApplicationSets of a folder of YAML files, beside its Applications. Nobody but their author writes to the files; what
//! Kubernetes would keep of a set, and what is known of it, is kept in the state directory. A set whose document is taken
//! away is being deleted, until that is done.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tidegate_application::deletion::RESOURCES_FINALIZER;
use tidegate_applicationset::guard::approval;
use tidegate_applicationset::retry;
use tidegate_model::annotations::DELETION_REQUESTED_BY;
use tidegate_model::argo::{Application, ApplicationSet};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::known::{All, Known, ORPHAN};
use super::{Found, SetEvent, SetStore, StoredSet, Written};
use crate::applications::store::files::{Files, Looks, Removed, blocking, keep_looking, only_in};
use crate::applications::store::generated::{Generated, new_uid, now};
use crate::applications::store::reading::ReadSet;
use crate::applications::store::{AppKey, FolderStore, left_alone};
use crate::error::ServiceError;

/// ApplicationSets of a folder.
pub struct FolderSets {
    folder: PathBuf,
    kept: PathBuf,
    known: Arc<Known>,
    generated: Arc<Generated>,
    removed: Removed,
}

impl FolderSets {
    /// Those beside the Applications of a folder, and where to keep what is known of them.
    pub fn beside(applications: &FolderStore, kept: PathBuf) -> Self {
        let disk = Arc::clone(&applications.disk);
        let known = Arc::new(Known::new(disk, kept.clone()));
        let (folder, generated) = (applications.folder.clone(), Arc::clone(&applications.generated));
        Self { folder, kept, known, generated, removed: Removed::default() }
    }

    /// Changes what is known of a set, beside those who look.
    async fn change(
        &self,
        set: &ApplicationSet,
        change: impl FnOnce(&mut ApplicationSet) + Send + 'static,
    ) -> Result<(), ServiceError> {
        let (known, set) = (Arc::clone(&self.known), set.clone());
        blocking(self.kept.clone(), move || known.change(&set, change)).await
    }

    async fn generated<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Generated) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let generated = Arc::clone(&self.generated);
        blocking(generated.folder().to_owned(), move || act(&generated)).await
    }
}

#[async_trait]
impl SetStore for FolderSets {
    fn base(&self) -> PathBuf {
        self.folder.clone()
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn collects_garbage(&self) -> bool {
        false
    }

    fn watch(&self) -> UnboundedReceiver<SetEvent> {
        let (tell, told) = unbounded_channel();
        let changes = self.generated.changes();
        let mut watcher = Watcher::new(&self.folder, Arc::clone(&self.known));
        watcher.removed = self.removed.clone();
        keep_looking(watcher, (changes, &Looks::default()), move |watcher, _| {
            !tell.is_closed() && watcher.look().into_iter().all(|event| tell.send(event).is_ok())
        });
        told
    }

    async fn keep(&self, set: &ApplicationSet) -> Result<(), ServiceError> {
        let status = set.status.clone();
        self.change(set, move |known| known.status = status).await
    }

    /// A refresh that a document asks for cannot be struck out there: it is answered whenever the set is told.
    async fn mark(&self, set: &ApplicationSet) -> Result<(), ServiceError> {
        let wanted = set.metadata.finalizers.clone();
        let marked = move |known: &mut ApplicationSet| {
            let finalizers = &mut known.metadata.finalizers;
            finalizers.retain(|one| !is_own_finalizer(one) || wanted.contains(one));
            let new: Vec<String> = wanted
                .into_iter()
                .filter(|one| one == RESOURCES_FINALIZER && !finalizers.contains(one))
                .collect();
            // Nobody may add one to what is being deleted.
            if known.metadata.deletion_timestamp.is_none() {
                finalizers.extend(new);
            }
        };
        self.change(set, marked).await?;
        self.generated.tell();
        Ok(())
    }

    async fn annotate(
        &self,
        set: &ApplicationSet,
        names: &'static [&'static str],
    ) -> Result<(), ServiceError> {
        let wanted = set.metadata.annotations.clone();
        let annotated = move |known: &mut ApplicationSet| {
            for name in names {
                match wanted.get(*name) {
                    Some(value) => {
                        drop(known.metadata.annotations.insert((*name).to_owned(), value.clone()));
                    }
                    None => drop(known.metadata.annotations.remove(*name)),
                }
            }
        };
        self.change(set, annotated).await?;
        self.generated.tell();
        Ok(())
    }

    async fn is_going(&self, set: &ApplicationSet) -> Result<bool, ServiceError> {
        let (known, key, uid) = (Arc::clone(&self.known), AppKey::of_set(set), set.metadata.uid.clone());
        let is_going = move || {
            let found = known.with(|all| Ok(all.get(&key).filter(|one| one.metadata.uid == uid).cloned()))?;
            Ok(found.is_some_and(|one| one.metadata.deletion_timestamp.is_some()))
        };
        blocking(self.kept.clone(), is_going).await
    }

    async fn is_there(&self, set: &ApplicationSet) -> Result<bool, ServiceError> {
        let (known, key, uid) = (Arc::clone(&self.known), AppKey::of_set(set), set.metadata.uid.clone());
        let is_there = move || known.with(|all| Ok(all.get(&key).is_some_and(|one| one.metadata.uid == uid)));
        blocking(self.kept.clone(), is_there).await
    }

    async fn delete(&self, set: &ApplicationSet, orphan: bool) -> Result<(), ServiceError> {
        let (folder, known, set) = (self.folder.clone(), Arc::clone(&self.known), set.clone());
        let removed = self.removed.clone();
        let remove = move || {
            let key = AppKey::of_set(&set);
            let path = file_of(&folder, &key)?;
            known.with(|all| all.delete(&set, &path, orphan))?;
            removed.add(path, key);
            Ok(())
        };
        blocking(self.folder.clone(), remove).await?;
        self.generated.tell();
        Ok(())
    }

    async fn goes_with_file(&self, set: &ApplicationSet) -> bool {
        let (folder, key) = (self.folder.clone(), AppKey::of_set(set));
        blocking(self.folder.clone(), move || file_of(&folder, &key)).await.is_ok()
    }

    /// Only what is being deleted is forgotten: another one of the name may be there already.
    async fn forget(&self, key: &AppKey) -> Result<(), ServiceError> {
        let (known, key) = (Arc::clone(&self.known), key.clone());
        let forget = move || {
            known.with(|all| match all.get(&key) {
                Some(set) if set.metadata.deletion_timestamp.is_some() => all.remove(&key),
                _ => Ok(()),
            })
        };
        blocking(self.kept.clone(), forget).await?;
        self.generated.tell();
        Ok(())
    }

    async fn create(&self, application: &Application) -> Result<Written, ServiceError> {
        let application = application.clone();
        self.generated(move |generated| generated.create(&application)).await
    }

    async fn update(&self, application: &Application) -> Result<Written, ServiceError> {
        let application = application.clone();
        self.generated(move |generated| generated.update(&application)).await
    }

    async fn delete_application(&self, key: &AppKey, uid: &str) -> Result<Found, ServiceError> {
        let (key, uid) = (key.clone(), uid.to_owned());
        self.generated(move |generated| generated.delete(&key, &uid)).await
    }

    async fn look(&self, key: &AppKey, uid: &str) -> Result<Found, ServiceError> {
        let (key, uid) = (key.clone(), uid.to_owned());
        self.generated(move |generated| generated.look(&key, &uid)).await
    }
}

/// The file of a set, where it is all that is in it.
fn file_of(folder: &Path, key: &AppKey) -> Result<PathBuf, ServiceError> {
    let what = format!("ApplicationSet {key}");
    only_in(folder, |seen| seen.sets.contains_key(key), (&what, ""))
}

fn is_own_finalizer(finalizer: &str) -> bool {
    finalizer == RESOURCES_FINALIZER || finalizer == ORPHAN
}

struct Watcher {
    files: Files,
    known: Arc<Known>,
    /// What was told, without how it stands: that is its actor's own word.
    told: BTreeMap<AppKey, StoredSet>,
    problems: Vec<String>,
    /// How much had changed of what is known when all of it was told; nothing where something could not be.
    told_at: Option<u64>,
    /// What is in no file is to be looked for once more.
    looks_again: bool,
    removed: Removed,
    settled: bool,
}

/// What is there now.
#[derive(Default)]
struct Looked {
    sets: BTreeMap<AppKey, StoredSet>,
    problems: Vec<String>,
    /// So often it has changed.
    changes: u64,
}

impl Watcher {
    fn new(folder: &Path, known: Arc<Known>) -> Self {
        let files = Files::of_sets(folder);
        Self {
            files,
            known,
            told: BTreeMap::new(),
            problems: Vec::new(),
            told_at: None,
            looks_again: true,
            removed: Removed::default(),
            settled: false,
        }
    }

    /// Whether all that is known has been told.
    fn is_told(&self) -> bool {
        self.told_at.is_some() && self.told_at == self.known.with(|all| Ok(all.changes())).ok()
    }

    /// What has happened since the last look.
    fn look(&mut self) -> Vec<SetEvent> {
        let removed = self.removed.take();
        let has_changed = self.files.look(&removed);
        if self.files.is_away() {
            self.removed.put_back(removed);
        }
        if !self.settled && self.known.with(|all| Ok(all.keys().is_empty())).unwrap_or_default() {
            self.files.expect_nothing();
        }
        let looks_again = !self.files.has_looked_twice();
        if !has_changed && self.is_told() && self.looks_again == looks_again {
            return Vec::new();
        }
        self.looks_again = looks_again;
        self.told_at = None;
        let mut problems = self.files.problems();
        for seen in self.files.each() {
            problems.extend(seen.set_problems.iter().cloned());
            // What cannot be read at all may be a set.
            problems.extend(seen.problems.iter().filter(|_| seen.is_broken).cloned());
        }
        let twice = |read: &mut ReadSet, problem| read.problem = read.problem.take().or(Some(problem));
        let documents = self.files.all(|seen| &seen.sets, |lacks| &lacks.sets, twice);
        let hidden = match self.files.is_unsure() {
            true => Some(Hidden::Unread(problems.join("; "))),
            false => looks_again.then(|| {
                let why = self.files.why_bare();
                Hidden::Doubted(why.unwrap_or_else(|| "it is looked for once more".to_owned()))
            }),
        };
        let in_sight = self.files.sets_in_sight();
        let looked = self.known.with(|all| Ok(look(all, documents, (&in_sight, hidden.as_ref()))));
        match looked {
            Ok(mut looked) => {
                self.told_at = looked.problems.is_empty().then_some(looked.changes);
                looked.problems.splice(0..0, problems);
                self.events(looked)
            }
            // Nothing is told of what may be known: who a set is says which Applications are its own.
            Err(error) => {
                problems.push(error.to_string());
                self.problems_are(problems).into_iter().collect()
            }
        }
    }

    fn events(&mut self, looked: Looked) -> Vec<SetEvent> {
        let Looked { sets, problems, changes: _ } = looked;
        let gone = self.told.keys().filter(|key| !sets.contains_key(*key));
        let mut events: Vec<SetEvent> = gone.cloned().map(SetEvent::Gone).collect();
        let mut told = BTreeMap::new();
        for (key, stored) in sets {
            let mut comparable = StoredSet { lost: None, ..stored.clone() };
            comparable.set.status = Default::default();
            let before = self.told.get(&key);
            if before.is_some_and(|before| before.set.metadata.uid != comparable.set.metadata.uid) {
                events.push(SetEvent::Gone(key.clone()));
            }
            if before != Some(&comparable) {
                events.push(SetEvent::Applied(Box::new(stored)));
            }
            told.insert(key, comparable);
        }
        self.told = told;
        events.extend(self.problems_are(problems));
        if !self.settled {
            events.push(SetEvent::Settled);
            self.settled = true;
        }
        events
    }

    fn problems_are(&mut self, problems: Vec<String>) -> Option<SetEvent> {
        let is_news = problems != self.problems || !self.settled && !problems.is_empty();
        self.problems.clone_from(&problems);
        is_news.then_some(SetEvent::Problems(problems))
    }
}

/// Why there may be documents that nobody sees now.
enum Hidden {
    /// There is something that cannot be read.
    Unread(String),
    /// What was there when nobody looked may come.
    Doubted(String),
}

impl Hidden {
    /// Why there may be the document of a set. Nobody is in doubt of one that a command has taken away.
    fn of(&self, known: &ApplicationSet) -> Option<&str> {
        let metadata = &known.metadata;
        let is_orphaned = || metadata.finalizers.iter().any(|one| one == ORPHAN);
        match self {
            Self::Unread(why) => Some(why),
            Self::Doubted(_) if is_orphaned() => None,
            Self::Doubted(_) if metadata.annotations.contains_key(DELETION_REQUESTED_BY) => None,
            Self::Doubted(why) => Some(why),
        }
    }
}

/// Brings together what is written down and what is known. `hidden`: why there may be documents that nobody sees now. A set
/// whose document is not `in_sight` any more may be gone: nothing new follows from it.
fn look(
    all: &mut All,
    mut documents: BTreeMap<AppKey, ReadSet>,
    (in_sight, hidden): (&BTreeSet<AppKey>, Option<&Hidden>),
) -> Looked {
    documents.retain(|key, _| in_sight.contains(key) || all.get(key).is_some());
    let mut looked = Looked::default();
    let keys: BTreeSet<AppKey> = documents.keys().cloned().chain(all.keys()).collect();
    for key in keys {
        let lost = all.take_lost(&key);
        let document = documents.remove(&key);
        match judge(all.get(&key), document, hidden) {
            Ok((set, problem)) => {
                let is_new = all.get(&key) != Some(&set);
                if is_new && let Err(error) = all.put(set.clone()) {
                    // Told is only what will still be true after a crash.
                    looked.problems.push(error.to_string());
                    continue;
                }
                looked.sets.insert(key, StoredSet { set, problem, lost });
            }
            Err(problem) => looked.problems.push(format!("ApplicationSet {key}: {problem}")),
        }
    }
    looked.problems.extend(all.lost());
    looked.changes = all.changes();
    looked
}

/// What a set is now, and why that may not be what is written down. One that could never be read is nothing but a problem.
fn judge(
    known: Option<&ApplicationSet>,
    document: Option<ReadSet>,
    hidden: Option<&Hidden>,
) -> Result<(ApplicationSet, Option<String>), String> {
    let (known, document) = match (known, document) {
        (Some(known), document) => (known.clone(), document),
        (None, Some(ReadSet { set: Some(set), problem })) => return Ok((made(set), problem)),
        (None, document) => {
            return Err(document.and_then(|read| read.problem).unwrap_or_default());
        }
    };
    let is_deleting = known.metadata.deletion_timestamp.is_some();
    match document {
        // Kubernetes takes back no deletion either.
        Some(_) if is_deleting => {
            let problem = "its document counts again when its deletion is done";
            Ok((known, Some(problem.to_owned())))
        }
        Some(ReadSet { set: Some(set), problem }) => Ok((joined(known, set), problem)),
        Some(ReadSet { set: None, problem }) => {
            let problem = problem.unwrap_or_default();
            Ok((known, Some(left_alone("its document cannot be read", &problem))))
        }
        None if is_deleting => Ok((known, None)),
        None => match hidden.and_then(|hidden| hidden.of(&known)) {
            Some(problem) => {
                let problem = left_alone("it is in no file that can be read", problem);
                Ok((known, Some(problem)))
            }
            None => {
                let mut gone = known;
                gone.metadata.deletion_timestamp = Some(now());
                Ok((gone, None))
            }
        },
    }
}

/// A set that is new.
fn made(mut set: ApplicationSet) -> ApplicationSet {
    set.metadata.uid = new_uid();
    set.metadata.creation_timestamp = Some(now());
    set
}

/// A set as its document says, which goes on being the one it was.
fn joined(known: ApplicationSet, document: ApplicationSet) -> ApplicationSet {
    let mut set = document;
    approval::carried(&known, &mut set);
    retry::carried(&known, &mut set);
    let before = known.metadata;
    (set.metadata.uid, set.metadata.creation_timestamp) = (before.uid, before.creation_timestamp);
    // That it is to be orphaned counts when its file is gone; whoever asked for that has died before.
    for own in before.finalizers.into_iter().filter(|one| one == RESOURCES_FINALIZER) {
        if !set.metadata.finalizers.contains(&own) {
            set.metadata.finalizers.push(own);
        }
    }
    set.status = known.status;
    set
}
