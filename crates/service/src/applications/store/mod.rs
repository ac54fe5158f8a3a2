//! Where Applications are written down, and what is known of them is kept.

pub(crate) mod files;
mod folder;
pub(crate) mod generated;
pub(crate) mod kept;
pub(crate) mod kubernetes;
mod projects;
pub(crate) mod reading;

use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use tidegate_application::CONTROL_NAMESPACE;
use tidegate_model::argo::{AppProject, Application, ApplicationSet};
use tidegate_model::{Object, OperationId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::projects::ProjectSet;
use crate::error::ServiceError;

pub use folder::FolderStore;
pub use kept::kept_applications;
pub use kubernetes::{KubernetesStore, MANAGED_LABEL, Reach};
pub(crate) use reading::left_alone;

/// Which application.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppKey {
    /// Its namespace; that of the control plane where it names none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl AppKey {
    /// That of an application.
    pub fn of(application: &Application) -> Self {
        let metadata = &application.metadata;
        Self { namespace: metadata.home().to_owned(), name: metadata.name.clone() }
    }

    /// That of a set, which is named as an application is.
    pub fn of_set(set: &ApplicationSet) -> Self {
        Self { namespace: set.metadata.home().to_owned(), name: set.metadata.name.clone() }
    }

    /// That of a resource.
    pub(crate) fn of_object(object: &Object) -> Self {
        Self { namespace: object.namespace().to_owned(), name: object.name().to_owned() }
    }

    /// That of an application as people name it (`NAMESPACE/NAME`), or operations (`NAMESPACE_NAME`); one of the control plane
    /// goes by its name alone.
    pub fn named(text: &str) -> Self {
        let (namespace, name) = text.split_once(['/', '_']).unwrap_or((CONTROL_NAMESPACE, text));
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// As its operations name it.
    pub fn instance(&self) -> String {
        if self.is_of_control_plane() {
            self.name.clone()
        } else {
            format!("{}_{}", self.namespace, self.name)
        }
    }

    /// Whether it is in the namespace of the control plane, and goes by its name alone.
    pub fn is_of_control_plane(&self) -> bool {
        self.namespace == CONTROL_NAMESPACE
    }

    /// Whether both names can be those of objects, and of files.
    pub fn is_plain(&self) -> bool {
        let is_plain = |text: &str| {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
            !text.is_empty() && text.len() <= 253 && !text.starts_with('.') && text.chars().all(plain)
        };
        is_plain(&self.name) && is_plain(&self.namespace)
    }

    /// The only one that people mean by a text, of those it could be.
    ///
    /// # Errors
    ///
    /// There is none, or there are several.
    pub fn only<T>(found: impl IntoIterator<Item = T>, text: &str) -> Result<T, ServiceError> {
        let mut found = found.into_iter();
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            (None, _) => Err(ServiceError::refused(format!(
                "there is no application {text}; `tidegate app list` shows those there are"
            ))),
            _ => Err(ServiceError::refused(format!(
                "there are several applications {text}; write NAMESPACE/NAME"
            ))),
        }
    }

    /// Whether a person means it: by its name, or by both.
    pub fn is_meant(&self, text: &str) -> bool {
        text.split_once('/')
            .map_or(self.name == text, |(namespace, name)| self.namespace == namespace && self.name == name)
    }
}

impl fmt::Display for AppKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            CONTROL_NAMESPACE => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// An application as the store has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// What is wanted of it; at first also what is known of it, and the operation that is asked for. Later an operation is
    /// one that somebody has asked for since.
    pub application: Application,
    /// Why that may not be what is written down: it cannot be read, or it is wrong.
    pub problem: Option<String>,
    /// What was known of it could not be read: where that is now.
    pub lost: Option<String>,
}

/// An operation that somebody ends by writing the phase `Terminating`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Which one; nothing where it has not begun.
    pub operation: Option<OperationId>,
}

/// What happens in a store.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreEvent {
    /// An application is new, or changed.
    Applied(Box<Stored>),
    /// Somebody else has changed what was kept of an application.
    Overwritten {
        /// Which application.
        key: AppKey,
        /// The operation that is to end, where the phase says so now.
        ended: Option<Ended>,
    },
    /// An application is no longer written down.
    Gone(AppKey),
    /// These are the projects there are. Told before any application.
    Projects(ProjectSet),
    /// Everything that cannot be read and belongs to no application, now.
    Problems(Vec<String>),
    /// All that was there at the beginning has been told.
    Settled,
    /// The store was looked at since this number was given, and all that was found has been told.
    Looked(u64),
}

/// Where Applications are written down. Of one application only its own actor writes.
#[async_trait]
pub trait ApplicationStore: Send + Sync + 'static {
    /// What relative addresses of repositories are relative to.
    fn base(&self) -> PathBuf;

    /// The namespace of the projects.
    fn home(&self) -> String {
        CONTROL_NAMESPACE.to_owned()
    }

    /// Whether others read there what is known, and each write costs all of them.
    fn is_shared(&self) -> bool {
        false
    }

    /// What is there, and then what changes. Ends with the receiver.
    fn watch(&self) -> UnboundedReceiver<StoreEvent>;

    /// Has what is written down by now looked at soon, where that is not told by itself: the number that the watch tells then.
    fn look_soon(&self) -> Option<u64> {
        None
    }

    /// Keeps what is known of an application, and the operation that is asked for. When this returns it is on the disk, all
    /// of it or nothing.
    async fn keep(&self, application: &Application) -> Result<(), ServiceError>;

    /// Why [`Self::delete`] would refuse to remove an application, as far as that is known before.
    async fn keeps(&self, _: &Application) -> Option<ServiceError> {
        None
    }

    /// Removes an application from where it is written down, with the finalizers it has: those keep it until its deletion
    /// is done. When this returns that is durable; the watch tells what becomes of it.
    async fn delete(&self, application: &Application) -> Result<(), ServiceError>;

    /// Lets an application go that is being deleted: its finalizers are now these. The watch tells when it is gone.
    async fn release(&self, application: &Application) -> Result<(), ServiceError>;

    /// Who has written the phase of an application's operation, as far as that is known: `kubectl-patch`.
    async fn writer_of_phase(&self, _: &AppKey) -> Option<String> {
        None
    }

    /// Who has written the annotation that confirms deletions of an application, as far as what is watched says that:
    /// `kubectl-annotate`.
    fn writer_of_approval(&self, _: &AppKey) -> Option<String> {
        None
    }

    /// Returns when nothing is being written any more, also for those who have given up waiting for it.
    async fn rest(&self) {}

    /// Takes off the finalizer by which a project that is being deleted stays until no Application names it. Where projects are
    /// files, or somebody else sees to them, there is nothing to do.
    async fn release_project(&self, _: &AppProject) -> Result<(), ServiceError> {
        Ok(())
    }

    /// Whether an application that it does not have, once all were told, is nowhere else. A file may come back.
    fn speaks_for(&self, _: &AppKey) -> bool {
        false
    }

    /// Forgets what is known of an application.
    async fn forget(&self, key: &AppKey) -> Result<(), ServiceError>;
}

/// Tells what has happened; says whether anybody listens still.
fn tell_all(tell: &UnboundedSender<StoreEvent>, events: Vec<StoreEvent>) -> bool {
    !tell.is_closed() && events.into_iter().all(|event| tell.send(event).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_is_the_same_however_it_is_named() {
        for (text, shown, instance) in [
            ("shop", "shop", "shop"),
            ("argocd/shop", "shop", "shop"),
            ("apps/shop", "apps/shop", "apps_shop"),
            ("apps_shop", "apps/shop", "apps_shop"),
        ] {
            let key = AppKey::named(text);
            assert_eq!((key.to_string().as_str(), key.instance().as_str()), (shown, instance), "{text}");
        }
    }
}
