//! What is known of the sets of a folder, in the state directory: who each is, what keeps it, and how it stands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tidegate_model::annotations::DELETION_REQUESTED_BY;
use tidegate_model::argo::ApplicationSet;

use crate::applications::store::generated::now;
use crate::applications::store::{AppKey, kept};
use crate::disk::Disk;
use crate::error::ServiceError;

/// Kubernetes' own word for a set whose Applications are to outlive it.
pub(super) const ORPHAN: &str = "orphan";

/// What is known of all sets. One at a time reads and writes it; what is in memory is on the disk.
pub(super) struct Known {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    all: Mutex<Option<All>>,
}

/// What is known now.
pub(super) struct All {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    sets: BTreeMap<AppKey, ApplicationSet>,
    /// How often something of them has changed.
    changes: u64,
    /// Files that were damaged, and where they are now.
    lost: BTreeMap<PathBuf, String>,
}

impl Known {
    pub fn new(disk: Arc<dyn Disk>, folder: PathBuf) -> Self {
        Self { disk, folder, all: Mutex::default() }
    }

    /// Reads what is known, or changes it.
    pub fn with<T>(&self, act: impl FnOnce(&mut All) -> Result<T, ServiceError>) -> Result<T, ServiceError> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_none() {
            *all = Some(All::read(&self.disk, &self.folder)?);
        }
        match all.as_mut() {
            Some(all) => act(all),
            None => Err(ServiceError::refused("what is known of ApplicationSets was not read")),
        }
    }

    /// Changes what is known of one set; nothing where it is not known, or is another one of its name.
    pub fn change(
        &self,
        set: &ApplicationSet,
        change: impl FnOnce(&mut ApplicationSet),
    ) -> Result<(), ServiceError> {
        self.with(|all| {
            let key = AppKey::of_set(set);
            let Some(known) = all.get(&key).filter(|known| known.metadata.uid == set.metadata.uid) else {
                return Ok(());
            };
            let mut changed = known.clone();
            change(&mut changed);
            if changed == *known { Ok(()) } else { all.put(changed) }
        })
    }
}

impl All {
    fn read(disk: &Arc<dyn Disk>, folder: &Path) -> Result<Self, ServiceError> {
        kept::tidy(disk.as_ref(), folder);
        let lost = kept::set_aside::<ApplicationSet>(disk.as_ref(), folder);
        let sets = kept::all::<ApplicationSet>(folder)?;
        let sets = sets.into_iter().map(|set| (AppKey::of_set(&set), set)).collect();
        Ok(Self { disk: Arc::clone(disk), folder: folder.to_owned(), sets, changes: 0, lost })
    }

    pub fn changes(&self) -> u64 {
        self.changes
    }

    pub fn get(&self, key: &AppKey) -> Option<&ApplicationSet> {
        self.sets.get(key)
    }

    pub fn keys(&self) -> Vec<AppKey> {
        self.sets.keys().cloned().collect()
    }

    /// Writes one. When this returns it is on the disk.
    pub fn put(&mut self, set: ApplicationSet) -> Result<(), ServiceError> {
        kept::write(self.disk.as_ref(), &self.folder, &set)?;
        self.changes += 1;
        self.sets.insert(AppKey::of_set(&set), set);
        Ok(())
    }

    pub fn remove(&mut self, key: &AppKey) -> Result<(), ServiceError> {
        kept::remove(self.disk.as_ref(), &self.folder, key)?;
        self.changes += 1;
        self.sets.remove(key);
        Ok(())
    }

    /// Takes the document of a set away: from then on it is being deleted, whatever dies. That its Applications are to outlive
    /// it, and who asks, is known before, and means nothing as long as the document is there.
    pub fn delete(
        &mut self,
        set: &ApplicationSet,
        document: &Path,
        orphan: bool,
    ) -> Result<(), ServiceError> {
        let known = self.get(&AppKey::of_set(set)).filter(|known| known.metadata.uid == set.metadata.uid);
        let known = known.cloned();
        let mut going = known.clone();
        let finalizers = going.as_mut().map(|going| &mut going.metadata.finalizers);
        let is_news = finalizers.filter(|all| orphan && !all.iter().any(|one| one == ORPHAN));
        let mut is_changed = is_news.map(|all| all.push(ORPHAN.to_owned())).is_some();
        if let (Some(going), Some(asker)) = (&mut going, set.metadata.annotations.get(DELETION_REQUESTED_BY))
        {
            going.metadata.annotations.insert(DELETION_REQUESTED_BY.to_owned(), asker.clone());
            is_changed = true;
        }
        if is_changed {
            going.iter().try_for_each(|going| self.put(going.clone()))?;
        }
        if let Err(source) = self.disk.remove(document) {
            // It was not deleted.
            if let Some(Err(error)) = known.map(|known| self.put(known)) {
                tracing::warn!(%error, "a deletion that was refused cannot be taken back");
            }
            return Err(ServiceError::Io { action: "remove", path: document.to_owned(), source });
        }
        going.into_iter().try_for_each(|mut going| {
            going.metadata.deletion_timestamp.get_or_insert(now());
            self.put(going)
        })
    }

    /// Where that is now which was known of a set, if it was damaged. Told once.
    pub fn take_lost(&mut self, key: &AppKey) -> Option<String> {
        self.lost.remove(&kept::file(&self.folder, key))
    }

    /// What was known of sets that are in no file either.
    pub fn lost(&self) -> impl Iterator<Item = String> {
        self.lost.iter().map(|(path, told)| format!("{}: {told}", path.display()))
    }
}
