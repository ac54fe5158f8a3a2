//! ApplicationSets in a folder of YAML files, alongside Applications. Only users write to these files. The
//! state directory contains the metadata and status that Kubernetes would store. After its document is
//! removed, an ApplicationSet exists until its deletion has finished.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tidegate_application::AppKey;
use tidegate_application::deletion::RESOURCES_FINALIZER;
use tidegate_applicationset::deletion_limit::approval;
use tidegate_applicationset::retry;
use tidegate_model::annotations::DELETION_REQUESTED_BY;
use tidegate_model::argo::{Application, ApplicationSet};
use tidegate_state::error::ServiceError;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::stored_state::{ORPHAN_FINALIZER, StateStore, StateTable};
use super::{AppSetEvent, AppSetStore, Existence, StoredAppSet, WriteResult};
use crate::applications::generated_applications::{GeneratedApplications, new_uid, now};
use crate::applications::parsed_file::ParsedAppSet;
use crate::applications::polled_folder::{
    PollRequests, PolledFolder, RemovedFiles, find_single_document_file, run_blocking, run_polling,
};
use crate::applications::{FolderStore, unreconciled_message};

/// ApplicationSets in a folder.
pub struct FolderAppSetStore {
    folder: PathBuf,
    state_folder: PathBuf,
    state: Arc<StateStore>,
    generated: Arc<GeneratedApplications>,
    removed: RemovedFiles,
}

impl FolderAppSetStore {
    /// Opens the ApplicationSets in the same folder as the given Applications. Their metadata and status are
    /// in `state_folder`.
    pub fn open(applications: &FolderStore, state_folder: PathBuf) -> Self {
        let disk = Arc::clone(&applications.disk);
        let state = Arc::new(StateStore::new(disk, state_folder.clone()));
        let (folder, generated) = (applications.folder.clone(), Arc::clone(&applications.generated));
        Self { folder, state_folder, state, generated, removed: RemovedFiles::default() }
    }

    /// Changes an ApplicationSet's stored state in a blocking thread.
    async fn change_state(
        &self,
        set: &ApplicationSet,
        change: impl FnOnce(&mut ApplicationSet) + Send + 'static,
    ) -> Result<(), ServiceError> {
        let (state, set) = (Arc::clone(&self.state), set.clone());
        run_blocking(self.state_folder.clone(), move || state.change(&set, change)).await
    }

    async fn with_generated<T: Send + 'static>(
        &self,
        act: impl FnOnce(&GeneratedApplications) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let generated = Arc::clone(&self.generated);
        run_blocking(generated.folder().to_owned(), move || act(&generated)).await
    }
}

#[async_trait]
impl AppSetStore for FolderAppSetStore {
    fn base(&self) -> PathBuf {
        self.folder.clone()
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn has_garbage_collector(&self) -> bool {
        false
    }

    fn watch(&self) -> UnboundedReceiver<AppSetEvent> {
        let (sender, receiver) = unbounded_channel();
        let changes = self.generated.subscribe();
        let mut watcher = Watcher::new(&self.folder, Arc::clone(&self.state));
        watcher.removed = self.removed.clone();
        run_polling(watcher, changes, &PollRequests::default(), move |watcher, _| {
            !sender.is_closed() && watcher.read_events().into_iter().all(|event| sender.send(event).is_ok())
        });
        receiver
    }

    async fn write_status(&self, set: &ApplicationSet) -> Result<(), ServiceError> {
        let status = set.status.clone();
        self.change_state(set, move |stored| stored.status = status).await
    }

    /// Leaves the refresh annotation alone, because it is part of a user's document. Instead, each reported
    /// change to the ApplicationSet triggers a refresh.
    async fn write_finalizer(&self, set: &ApplicationSet) -> Result<(), ServiceError> {
        let desired = set.metadata.finalizers.clone();
        let marked = move |stored: &mut ApplicationSet| {
            let finalizers = &mut stored.metadata.finalizers;
            finalizers.retain(|one| !is_own_finalizer(one) || desired.contains(one));
            let new: Vec<String> = desired
                .into_iter()
                .filter(|one| one == RESOURCES_FINALIZER && !finalizers.contains(one))
                .collect();
            // Finalizers must not be added during a deletion.
            if stored.metadata.deletion_timestamp.is_none() {
                finalizers.extend(new);
            }
        };
        self.change_state(set, marked).await?;
        self.generated.notify();
        Ok(())
    }

    async fn write_annotations(
        &self,
        set: &ApplicationSet,
        names: &'static [&'static str],
    ) -> Result<(), ServiceError> {
        let desired = set.metadata.annotations.clone();
        let annotated = move |stored: &mut ApplicationSet| {
            for name in names {
                match desired.get(*name) {
                    Some(value) => {
                        drop(stored.metadata.annotations.insert((*name).to_owned(), value.clone()));
                    }
                    None => drop(stored.metadata.annotations.remove(*name)),
                }
            }
        };
        self.change_state(set, annotated).await?;
        self.generated.notify();
        Ok(())
    }

    async fn is_being_deleted(&self, set: &ApplicationSet) -> Result<bool, ServiceError> {
        let (state, key, uid) = (Arc::clone(&self.state), AppKey::of_appset(set), set.metadata.uid.clone());
        let is_deleting = move || {
            let found = state.with(|all| Ok(all.get(&key).filter(|one| one.metadata.uid == uid).cloned()))?;
            Ok(found.is_some_and(|one| one.metadata.deletion_timestamp.is_some()))
        };
        run_blocking(self.state_folder.clone(), is_deleting).await
    }

    async fn exists(&self, set: &ApplicationSet) -> Result<bool, ServiceError> {
        let (state, key, uid) = (Arc::clone(&self.state), AppKey::of_appset(set), set.metadata.uid.clone());
        let is_there = move || state.with(|all| Ok(all.get(&key).is_some_and(|one| one.metadata.uid == uid)));
        run_blocking(self.state_folder.clone(), is_there).await
    }

    async fn delete(&self, set: &ApplicationSet, orphan: bool) -> Result<(), ServiceError> {
        let (folder, state, set) = (self.folder.clone(), Arc::clone(&self.state), set.clone());
        let removed = self.removed.clone();
        let remove = move || {
            let key = AppKey::of_appset(&set);
            let path = own_document_path(&folder, &key)?;
            state.with(|all| all.delete(&set, &path, orphan))?;
            removed.add(path, key);
            Ok(())
        };
        run_blocking(self.folder.clone(), remove).await?;
        self.generated.notify();
        Ok(())
    }

    async fn has_removable_file(&self, set: &ApplicationSet) -> bool {
        let (folder, key) = (self.folder.clone(), AppKey::of_appset(set));
        run_blocking(self.folder.clone(), move || own_document_path(&folder, &key)).await.is_ok()
    }

    /// Removes the state only during a deletion, because the ApplicationSet's name may already have been
    /// reused.
    async fn remove_state(&self, key: &AppKey) -> Result<(), ServiceError> {
        let (state, key) = (Arc::clone(&self.state), key.clone());
        let forget = move || {
            state.with(|all| match all.get(&key) {
                Some(set) if set.metadata.deletion_timestamp.is_some() => all.remove(&key),
                _ => Ok(()),
            })
        };
        run_blocking(self.state_folder.clone(), forget).await?;
        self.generated.notify();
        Ok(())
    }

    async fn create(&self, application: &Application) -> Result<WriteResult, ServiceError> {
        let application = application.clone();
        self.with_generated(move |generated| generated.create(&application)).await
    }

    async fn update(&self, application: &Application) -> Result<WriteResult, ServiceError> {
        let application = application.clone();
        self.with_generated(move |generated| generated.update(&application)).await
    }

    async fn delete_application(&self, key: &AppKey, uid: &str) -> Result<Existence, ServiceError> {
        let (key, uid) = (key.clone(), uid.to_owned());
        self.with_generated(move |generated| generated.delete(&key, &uid)).await
    }

    async fn application_existence(&self, key: &AppKey, uid: &str) -> Result<Existence, ServiceError> {
        let (key, uid) = (key.clone(), uid.to_owned());
        self.with_generated(move |generated| generated.find(&key, &uid)).await
    }
}

/// Returns an ApplicationSet's file if it contains no other documents.
fn own_document_path(folder: &Path, key: &AppKey) -> Result<PathBuf, ServiceError> {
    let what = format!("ApplicationSet {key}");
    find_single_document_file(folder, |file| file.appsets.contains_key(key), &what, "")
}

fn is_own_finalizer(finalizer: &str) -> bool {
    finalizer == RESOURCES_FINALIZER || finalizer == ORPHAN_FINALIZER
}

struct Watcher {
    files: PolledFolder,
    state: Arc<StateStore>,
    /// Reported ApplicationSets, without their status, which comes from their actors.
    reported: BTreeMap<AppKey, StoredAppSet>,
    problems: Vec<String>,
    /// Change counter of the stored state when all of it was last reported. `None` if some of it couldn't be
    /// reported.
    reported_changes: Option<u64>,
    /// True if another search for missing documents is required.
    is_unconfirmed: bool,
    removed: RemovedFiles,
    is_settled: bool,
}

/// Current state of the folder.
#[derive(Default)]
struct FolderState {
    appsets: BTreeMap<AppKey, StoredAppSet>,
    problems: Vec<String>,
    /// Change counter of the stored state.
    changes: u64,
}

impl Watcher {
    fn new(folder: &Path, state: Arc<StateStore>) -> Self {
        let files = PolledFolder::new_for_appsets(folder);
        Self {
            files,
            state,
            reported: BTreeMap::new(),
            problems: Vec::new(),
            reported_changes: None,
            is_unconfirmed: true,
            removed: RemovedFiles::default(),
            is_settled: false,
        }
    }

    /// Returns true if the whole stored state has been reported.
    fn is_all_reported(&self) -> bool {
        self.reported_changes.is_some()
            && self.reported_changes == self.state.with(|all| Ok(all.changes())).ok()
    }

    /// Returns the events since the state was last read.
    fn read_events(&mut self) -> Vec<AppSetEvent> {
        let removed = self.removed.take();
        let has_changed = self.files.poll_files(&removed);
        if self.files.is_unreadable() {
            self.removed.restore(removed);
        }
        if !self.is_settled && self.state.with(|all| Ok(all.keys().is_empty())).unwrap_or_default() {
            self.files.mark_initially_empty();
        }
        let is_unconfirmed = !self.files.is_initial_confirmed();
        if !has_changed && self.is_all_reported() && self.is_unconfirmed == is_unconfirmed {
            return Vec::new();
        }
        self.is_unconfirmed = is_unconfirmed;
        self.reported_changes = None;
        let mut problems = self.files.problems();
        for file in self.files.parsed_files() {
            problems.extend(file.appset_problems.iter().cloned());
            // An unreadable document may be an ApplicationSet.
            problems.extend(file.problems.iter().filter(|_| file.has_unknown_applications).cloned());
        }
        let twice = |read: &mut ParsedAppSet, problem| read.problem = read.problem.take().or(Some(problem));
        let documents = self.files.documents(|file| &file.appsets, |lacks| &lacks.appsets, twice);
        let hidden = match self.files.can_hide_documents() {
            true => Some(UncertaintyReason::Unreadable(problems.join("; "))),
            false => is_unconfirmed.then(|| {
                let reason = self.files.missing_files_reason();
                UncertaintyReason::MayReappear(reason.unwrap_or_else(|| {
                    "the folder will be read again before the ApplicationSet is treated as deleted".to_owned()
                }))
            }),
        };
        let present_keys = self.files.present_appsets();
        let merged =
            self.state.with(|all| Ok(merge_documents(all, documents, &present_keys, hidden.as_ref())));
        match merged {
            Ok(mut merged) => {
                self.reported_changes = merged.problems.is_empty().then_some(merged.changes);
                merged.problems.splice(0..0, problems);
                self.collect_events(merged)
            }
            // Without the stored state, report nothing: an ApplicationSet's identity decides which
            // Applications it owns.
            Err(error) => {
                problems.push(error.to_string());
                self.update_problems(problems).into_iter().collect()
            }
        }
    }

    fn collect_events(&mut self, merged: FolderState) -> Vec<AppSetEvent> {
        let FolderState { appsets, problems, changes: _ } = merged;
        let gone = self.reported.keys().filter(|key| !appsets.contains_key(*key));
        let mut events: Vec<AppSetEvent> = gone.cloned().map(AppSetEvent::Gone).collect();
        let mut reported = BTreeMap::new();
        for (key, stored) in appsets {
            let mut comparable = StoredAppSet { lost: None, ..stored.clone() };
            comparable.appset.status = Default::default();
            let before = self.reported.get(&key);
            if before.is_some_and(|before| before.appset.metadata.uid != comparable.appset.metadata.uid) {
                events.push(AppSetEvent::Gone(key.clone()));
            }
            if before != Some(&comparable) {
                events.push(AppSetEvent::Applied(Box::new(stored)));
            }
            reported.insert(key, comparable);
        }
        self.reported = reported;
        events.extend(self.update_problems(problems));
        if !self.is_settled {
            events.push(AppSetEvent::Settled);
            self.is_settled = true;
        }
        events
    }

    fn update_problems(&mut self, problems: Vec<String>) -> Option<AppSetEvent> {
        let is_news = problems != self.problems || !self.is_settled && !problems.is_empty();
        self.problems.clone_from(&problems);
        is_news.then_some(AppSetEvent::Problems(problems))
    }
}

/// Reason some documents may currently be hidden.
enum UncertaintyReason {
    /// A document is unreadable.
    Unreadable(String),
    /// A document from before the start may reappear.
    MayReappear(String),
}

impl UncertaintyReason {
    /// Returns the reason that an ApplicationSet's document may still exist. A document removed by a command
    /// certainly doesn't.
    fn reason_for(&self, stored: &ApplicationSet) -> Option<&str> {
        let metadata = &stored.metadata;
        let is_orphaned = || metadata.finalizers.iter().any(|one| one == ORPHAN_FINALIZER);
        match self {
            Self::Unreadable(reason) => Some(reason),
            Self::MayReappear(_) if is_orphaned() => None,
            Self::MayReappear(_) if metadata.annotations.contains_key(DELETION_REQUESTED_BY) => None,
            Self::MayReappear(reason) => Some(reason),
        }
    }
}

/// Merges the documents with the stored state. `hidden` is the reason some documents may currently be hidden.
/// An ApplicationSet outside `present_keys` may have been deleted, so changes to it don't take effect.
fn merge_documents(
    all: &mut StateTable,
    mut documents: BTreeMap<AppKey, ParsedAppSet>,
    present_keys: &BTreeSet<AppKey>,
    hidden: Option<&UncertaintyReason>,
) -> FolderState {
    documents.retain(|key, _| present_keys.contains(key) || all.get(key).is_some());
    let mut merged = FolderState::default();
    let keys: BTreeSet<AppKey> = documents.keys().cloned().chain(all.keys()).collect();
    for key in keys {
        let lost = all.take_lost(&key);
        let document = documents.remove(&key);
        match resolve_state(all.get(&key), document, hidden) {
            Ok((appset, problem)) => {
                let is_new = all.get(&key) != Some(&appset);
                if is_new && let Err(error) = all.put(appset.clone()) {
                    // Report only state that would survive a crash.
                    merged.problems.push(error.to_string());
                    continue;
                }
                merged.appsets.insert(key, StoredAppSet { appset, problem, lost });
            }
            Err(problem) => merged.problems.push(format!("ApplicationSet {key}: {problem}")),
        }
    }
    merged.problems.extend(all.lost_states());
    merged.changes = all.changes();
    merged
}

/// Returns an ApplicationSet's current state, and the reason it may differ from the document. If it was never
/// readable, returns the problem as an error.
fn resolve_state(
    stored: Option<&ApplicationSet>,
    document: Option<ParsedAppSet>,
    hidden: Option<&UncertaintyReason>,
) -> Result<(ApplicationSet, Option<String>), String> {
    let (stored, document) = match (stored, document) {
        (Some(stored), document) => (stored.clone(), document),
        (None, Some(ParsedAppSet { appset: Some(set), problem })) => {
            return Ok((initialize_appset(set), problem));
        }
        (None, document) => {
            return Err(document.and_then(|read| read.problem).unwrap_or_default());
        }
    };
    let is_deleting = stored.metadata.deletion_timestamp.is_some();
    match document {
        // As in Kubernetes, a deletion can't be undone.
        Some(_) if is_deleting => {
            let problem = "the document in the apps folder is ignored until the deletion of the ApplicationSet is complete";
            Ok((stored, Some(problem.to_owned())))
        }
        Some(ParsedAppSet { appset: Some(set), problem }) => Ok((update_from_document(stored, set), problem)),
        Some(ParsedAppSet { appset: None, problem }) => {
            let problem = problem.unwrap_or_default();
            Ok((stored, Some(unreconciled_message("the document is invalid", &problem))))
        }
        None if is_deleting => Ok((stored, None)),
        None => match hidden.and_then(|hidden| hidden.reason_for(&stored)) {
            Some(problem) => {
                let problem = unreconciled_message("the ApplicationSet is not in any readable file", problem);
                Ok((stored, Some(problem)))
            }
            None => {
                let mut gone = stored;
                gone.metadata.deletion_timestamp = Some(now());
                Ok((gone, None))
            }
        },
    }
}

/// Initializes a new ApplicationSet.
fn initialize_appset(mut set: ApplicationSet) -> ApplicationSet {
    set.metadata.uid = new_uid();
    set.metadata.creation_timestamp = Some(now());
    set
}

/// Updates an ApplicationSet from its document, keeping its identity.
fn update_from_document(stored: ApplicationSet, document: ApplicationSet) -> ApplicationSet {
    let mut set = document;
    approval::carry_over_approval(&stored, &mut set);
    retry::carry_over_retry(&stored, &mut set);
    let before = stored.metadata;
    (set.metadata.uid, set.metadata.creation_timestamp) = (before.uid, before.creation_timestamp);
    // Drop the orphan finalizer, which takes effect only once the file is deleted. The process that set it
    // crashed before that.
    for own in before.finalizers.into_iter().filter(|one| one == RESOURCES_FINALIZER) {
        if !set.metadata.finalizers.contains(&own) {
            set.metadata.finalizers.push(own);
        }
    }
    set.status = stored.status;
    set
}
