//! Identity, finalizers and status of a folder's ApplicationSets, stored in the state directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_application::AppKey;
use tidegate_model::annotations::DELETION_REQUESTED_BY;
use tidegate_model::argo::ApplicationSet;
use tidegate_state::disk::Disk;
use tidegate_state::error::ServiceError;

use crate::applications::generated_applications::now;
use crate::applications::state_files;

/// Kubernetes finalizer for an ApplicationSet with Applications that must outlive it.
pub(super) const ORPHAN_FINALIZER: &str = "orphan";

/// Stored state of all ApplicationSets. Access is exclusive, and memory and disk always match.
pub(super) struct StateStore {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    all: Mutex<Option<StateTable>>,
}

/// Current stored state.
pub(super) struct StateTable {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    appsets: BTreeMap<AppKey, ApplicationSet>,
    /// Counter, incremented on each change.
    changes: u64,
    /// Damaged files with their new paths.
    lost: BTreeMap<PathBuf, String>,
}

impl StateStore {
    pub fn new(disk: Arc<dyn Disk>, folder: PathBuf) -> Self {
        Self { disk, folder, all: Mutex::default() }
    }

    /// Reads or changes the stored state.
    pub fn with<T>(
        &self,
        act: impl FnOnce(&mut StateTable) -> Result<T, ServiceError>,
    ) -> Result<T, ServiceError> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_none() {
            *all = Some(StateTable::read(&self.disk, &self.folder)?);
        }
        match all.as_mut() {
            Some(all) => act(all),
            None => Err(ServiceError::refused("the stored status of ApplicationSets has not been read")),
        }
    }

    /// Changes an ApplicationSet's stored state. Does nothing if there is none, or if a different
    /// ApplicationSet now has the name.
    pub fn change(
        &self,
        set: &ApplicationSet,
        change: impl FnOnce(&mut ApplicationSet),
    ) -> Result<(), ServiceError> {
        self.with(|all| {
            let key = AppKey::of_appset(set);
            let Some(stored) = all.get(&key).filter(|stored| stored.metadata.uid == set.metadata.uid) else {
                return Ok(());
            };
            let mut changed = stored.clone();
            change(&mut changed);
            if changed == *stored { Ok(()) } else { all.put(changed) }
        })
    }
}

impl StateTable {
    fn read(disk: &Arc<dyn Disk>, folder: &Path) -> Result<Self, ServiceError> {
        state_files::remove_temporary_files(disk.as_ref(), folder);
        let lost = state_files::set_damaged_aside::<ApplicationSet>(disk.as_ref(), folder);
        let sets = state_files::read_all::<ApplicationSet>(folder)?;
        let appsets = sets.into_iter().map(|set| (AppKey::of_appset(&set), set)).collect();
        Ok(Self { disk: Arc::clone(disk), folder: folder.to_owned(), appsets, changes: 0, lost })
    }

    pub fn changes(&self) -> u64 {
        self.changes
    }

    pub fn get(&self, key: &AppKey) -> Option<&ApplicationSet> {
        self.appsets.get(key)
    }

    pub fn keys(&self) -> Vec<AppKey> {
        self.appsets.keys().cloned().collect()
    }

    /// Durably writes an ApplicationSet.
    pub fn put(&mut self, set: ApplicationSet) -> Result<(), ServiceError> {
        state_files::write(self.disk.as_ref(), &self.folder, &set)?;
        self.changes += 1;
        self.appsets.insert(AppKey::of_appset(&set), set);
        Ok(())
    }

    pub fn remove(&mut self, key: &AppKey) -> Result<(), ServiceError> {
        state_files::remove(self.disk.as_ref(), &self.folder, key)?;
        self.changes += 1;
        self.appsets.remove(key);
        Ok(())
    }

    /// Removes an ApplicationSet's document, which starts its deletion, even if the process crashes. The
    /// orphan setting and the requester are stored first, and take effect with the removal.
    pub fn delete(
        &mut self,
        set: &ApplicationSet,
        document: &Path,
        orphan: bool,
    ) -> Result<(), ServiceError> {
        let stored =
            self.get(&AppKey::of_appset(set)).filter(|stored| stored.metadata.uid == set.metadata.uid);
        let stored = stored.cloned();
        let mut going = stored.clone();
        let finalizers = going.as_mut().map(|going| &mut going.metadata.finalizers);
        let is_news = finalizers.filter(|all| orphan && !all.iter().any(|one| one == ORPHAN_FINALIZER));
        let mut is_changed = is_news.map(|all| all.push(ORPHAN_FINALIZER.to_owned())).is_some();
        if let (Some(going), Some(requester)) =
            (&mut going, set.metadata.annotations.get(DELETION_REQUESTED_BY))
        {
            going.metadata.annotations.insert(DELETION_REQUESTED_BY.to_owned(), requester.clone());
            is_changed = true;
        }
        if is_changed {
            going.iter().try_for_each(|going| self.put(going.clone()))?;
        }
        if let Err(source) = self.disk.remove(document) {
            // The document still exists, so restore the previous state.
            if let Some(Err(error)) = stored.map(|stored| self.put(stored)) {
                tracing::warn!(%error, "failed to restore the stored state after a failed deletion");
            }
            return Err(ServiceError::Io { action: "remove", path: document.to_owned(), source });
        }
        going.into_iter().try_for_each(|mut going| {
            going.metadata.deletion_timestamp.get_or_insert(now());
            self.put(going)
        })
    }

    /// Takes the new path of an ApplicationSet's damaged state, so that it is reported only once.
    pub fn take_lost(&mut self, key: &AppKey) -> Option<String> {
        self.lost.remove(&state_files::state_path(&self.folder, key))
    }

    /// Returns the damaged states of ApplicationSets without documents.
    pub fn lost_states(&self) -> impl Iterator<Item = String> {
        self.lost.iter().map(|(path, problem)| format!("{}: {problem}", path.display()))
    }
}
