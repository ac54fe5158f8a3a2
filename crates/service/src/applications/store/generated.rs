//! Applications that the ApplicationSets of a folder generate: files of the state directory, which are served beside those of
//! the folder. What Kubernetes does for resources is done here: each has a UID and a version, and one that is deleted stays,
//! marked, until its finalizers let it go.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tidegate_application::deletion::cascade;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::annotations::DELETION_REQUESTED_BY;
use tidegate_model::argo::{Application, ObjectMeta, Time};
use tokio::sync::watch;
use uuid::{NoContext, Uuid};

use super::AppKey;
use super::kept::{self, Kept};
use crate::disk::Disk;
use crate::error::ServiceError;
use crate::sets::store::{Found, Written};

/// What is written into a file: all of it, also credentials in addresses.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct Whole(Application);

impl Kept for Whole {
    const NOUN: &'static str = "application that was generated";
    const MODE: u32 = 0o600;

    fn key(&self) -> AppKey {
        AppKey::of(&self.0)
    }

    fn written(&self) -> Cow<'_, Self> {
        Cow::Borrowed(self)
    }
}

/// Whether an application is one of these: no author of a file gives it a UID and a version.
pub(super) fn is_generated(application: &Application) -> bool {
    !(application.metadata.uid.is_empty() || application.metadata.resource_version.is_empty())
}

/// The applications that were generated.
pub(crate) struct Generated {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    /// Who reads one to change it has it for itself.
    writing: Mutex<()>,
    changed: watch::Sender<()>,
}

impl Generated {
    pub fn new(disk: Arc<dyn Disk>, folder: PathBuf) -> Arc<Self> {
        Arc::new(Self { disk, folder, writing: Mutex::default(), changed: watch::Sender::new(()) })
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Is told when one was changed, or anything else of the state directory that is served.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Tells those who look.
    pub fn tell(&self) {
        self.changed.send_replace(());
    }

    fn hold(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one of a name, as it is now. One that cannot be read is there all the same.
    fn get(&self, key: &AppKey) -> Result<Option<Application>, ServiceError> {
        let path = kept::file(&self.folder, key);
        let wrong = |source| ServiceError::Io { action: "read", path: path.clone(), source };
        match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(wrong(error)),
            Ok(content) => serde_json::from_slice(&content).map(Some).map_err(|error| wrong(error.into())),
        }
    }

    fn put(&self, application: Application) -> Result<(), ServiceError> {
        kept::write(self.disk.as_ref(), &self.folder, &Whole(application))?;
        self.tell();
        Ok(())
    }

    fn remove(&self, key: &AppKey) -> Result<(), ServiceError> {
        kept::remove(self.disk.as_ref(), &self.folder, key)?;
        self.tell();
        Ok(())
    }

    /// Whether there is one of this name.
    pub fn has(&self, key: &AppKey) -> bool {
        kept::file(&self.folder, key).exists()
    }

    /// Makes one.
    pub fn create(&self, application: &Application) -> Result<Written, ServiceError> {
        let _held = self.hold();
        let key = AppKey::of(application);
        if !key.is_plain() {
            return Err(ServiceError::refused(format!(
                "application {key}: a name must hold lower-case letters, digits, '-' and '.' only"
            )));
        }
        if self.has(&key) {
            return Ok(Written::Outdated(format!("there is an application {key} by now")));
        }
        let mut fresh = application.clone();
        (fresh.operation, fresh.status) = (None, Default::default());
        fresh.metadata.uid = new_uid();
        "1".clone_into(&mut fresh.metadata.resource_version);
        (fresh.metadata.creation_timestamp, fresh.metadata.deletion_timestamp) = (Some(now()), None);
        self.put(fresh)?;
        Ok(Written::Done)
    }

    /// Changes the version that was looked at.
    pub fn update(&self, application: &Application) -> Result<Written, ServiceError> {
        let _held = self.hold();
        let (key, wanted) = (AppKey::of(application), &application.metadata);
        let Some(mut there) = self.get(&key)? else {
            return Ok(Written::Outdated(format!("application {key} is gone, or in a file of its author")));
        };
        let found = &there.metadata;
        if found.uid != wanted.uid || found.resource_version != wanted.resource_version {
            return Ok(Written::Outdated(format!("application {key} was changed since it was looked at")));
        }
        let mut finalizers = wanted.finalizers.clone();
        // Nobody may add one to what is being deleted.
        finalizers.retain(|one| !there.is_deleting() || found.finalizers.contains(one));
        there.metadata = ObjectMeta {
            labels: wanted.labels.clone(),
            annotations: wanted.annotations.clone(),
            finalizers,
            rest: wanted.rest.clone(),
            ..there.metadata
        };
        there.spec.clone_from(&application.spec);
        self.put_or_remove(there)?;
        Ok(Written::Done)
    }

    /// Deletes the one of this UID: it goes at once where none of its finalizers says what is to be done before.
    pub fn delete(&self, key: &AppKey, uid: &str) -> Result<Found, ServiceError> {
        let _held = self.hold();
        let Some(mut there) = self.get(key)?.filter(|one| one.metadata.uid == uid && !uid.is_empty()) else {
            return Ok(Found::Gone);
        };
        if !there.is_deleting() {
            there.metadata.deletion_timestamp = Some(now());
            self.put_or_remove(there)?;
        }
        Ok(if self.has(key) { Found::There } else { Found::Gone })
    }

    /// Whether the one of this UID is there.
    pub fn look(&self, key: &AppKey, uid: &str) -> Result<Found, ServiceError> {
        let there = self.get(key)?.is_some_and(|one| one.metadata.uid == uid);
        Ok(if there { Found::There } else { Found::Gone })
    }

    /// Deletes an application, which is deleted by the finalizers it has.
    pub fn delete_as(&self, application: &Application) -> Result<(), ServiceError> {
        self.change(application, |there| {
            there.metadata.finalizers.clone_from(&application.metadata.finalizers);
            if let Some(asker) = application.annotation(DELETION_REQUESTED_BY) {
                there.metadata.annotations.insert(DELETION_REQUESTED_BY.to_owned(), asker.to_owned());
            }
            there.metadata.deletion_timestamp.get_or_insert(now());
        })
    }

    /// The finalizers of an application that is being deleted are now these.
    pub fn release(&self, application: &Application) -> Result<(), ServiceError> {
        self.change(application, |there| {
            there.metadata.finalizers.clone_from(&application.metadata.finalizers);
        })
    }

    fn change(
        &self,
        application: &Application,
        change: impl FnOnce(&mut Application),
    ) -> Result<(), ServiceError> {
        let _held = self.hold();
        let there = self.get(&AppKey::of(application))?;
        let Some(mut there) = there.filter(|one| one.metadata.uid == application.metadata.uid) else {
            return Ok(());
        };
        change(&mut there);
        self.put_or_remove(there)
    }

    /// Writes another version. One that is being deleted is there for as long as something is to be done first.
    fn put_or_remove(&self, mut application: Application) -> Result<(), ServiceError> {
        let version = &mut application.metadata.resource_version;
        *version = version.parse::<u64>().unwrap_or_default().saturating_add(1).to_string();
        match application.is_deleting() && cascade(&application).is_none() {
            true => self.remove(&AppKey::of(&application)),
            false => self.put(application),
        }
    }

    /// Lets one go whose author has written it down too: it is his, and nothing of it is deleted.
    pub fn give_up(&self, key: &AppKey) -> Result<(), ServiceError> {
        let _held = self.hold();
        self.remove(key)
    }
}

/// A UID that nothing else has.
pub(crate) fn new_uid() -> String {
    let millis = u64::try_from(SystemClock.now().as_millis()).unwrap_or(0);
    let since_epoch = std::time::Duration::from_millis(millis);
    let time = uuid::Timestamp::from_unix(NoContext, since_epoch.as_secs(), since_epoch.subsec_nanos());
    Uuid::new_v7(time).to_string()
}

/// The present, as resources have it.
pub(crate) fn now() -> Time {
    SystemClock.now().into()
}
