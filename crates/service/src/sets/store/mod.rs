//! Where ApplicationSets are written down, what is known of them is kept, and the Applications they generate are made,
//! changed and deleted.

mod folder;
mod known;
mod kubernetes;

use std::path::PathBuf;

use async_trait::async_trait;
use tidegate_model::argo::{Application, ApplicationSet};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::applications::store::AppKey;
use crate::error::ServiceError;

pub use folder::FolderSets;
pub use kubernetes::KubernetesSets;

/// A set as the store has it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredSet {
    /// What is wanted of it; at first also what is known of it. Later its status is nothing that its actor does not know.
    pub set: ApplicationSet,
    /// Why that may not be what is written down. Where that cannot be read, `set` is what was there before; one that could
    /// never be read is not told, and [`SetEvent::Problems`] names it: nothing is generated or deleted for what nobody knows.
    pub problem: Option<String>,
    /// What was known of it could not be read: where that is now.
    pub lost: Option<String>,
}

/// What happens in a store.
#[derive(Clone, Debug, PartialEq)]
pub enum SetEvent {
    /// A set is new, or changed: also when it is asked to go, or to be generated again.
    Applied(Box<StoredSet>),
    /// A set is gone, and nothing keeps it any more.
    Gone(AppKey),
    /// Everything that cannot be read and may be a set, now.
    Problems(Vec<String>),
    /// All that was there at the beginning has been told.
    Settled,
}

/// What has become of a write to an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It is durable.
    Done,
    /// Nothing was written, and why: somebody was faster, or it is there already, or not there any more. It is looked at
    /// again when the watch of the Applications tells.
    Outdated(String),
}

/// Whether an Application is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It is, perhaps on its way out.
    There,
    /// It is gone; what has its name, if anything, is another one.
    Gone,
}

/// Where ApplicationSets are written down, and the Applications that they generate. Of one set only its own actor writes. A
/// set is named as an Application is: two of different kinds may have the same name.
#[async_trait]
pub trait SetStore: Send + Sync + 'static {
    /// What relative addresses of repositories are relative to.
    fn base(&self) -> PathBuf;

    /// Whether others read there what is known, and each write costs all of them.
    fn is_shared(&self) -> bool;

    /// Whether somebody else deletes Applications whose owner is gone, as Kubernetes' garbage collector does.
    fn collects_garbage(&self) -> bool;

    /// Labels that the store gives Applications by itself, so that they are served: they stay, whatever is generated.
    fn own_labels(&self) -> &'static [&'static str] {
        &[]
    }

    /// What is there, and then what changes. Ends with the receiver.
    fn watch(&self) -> UnboundedReceiver<SetEvent>;

    /// Keeps the status of a set, and nothing else of it. When this returns it is durable, or the set is gone.
    ///
    /// # Errors
    ///
    /// The store does not take it, or others were faster again and again.
    async fn keep(&self, set: &ApplicationSet) -> Result<(), ServiceError>;

    /// Our finalizer is on the set where `set` has it, and off where not; those of others are left alone. A refresh that was
    /// told is struck out where `set` has no annotation for it; one that somebody has asked for since stays.
    ///
    /// # Errors
    ///
    /// As [`keep`](Self::keep).
    async fn mark(&self, set: &ApplicationSet) -> Result<(), ServiceError>;

    /// These annotations, in which it is kept what people have asked for by commands (an
    /// [`approval`](tidegate_applicationset::guard::approval) of deletions, a [`retry`](tidegate_applicationset::retry)), are as `set`
    /// has them. When this returns that is durable, or the set is gone.
    ///
    /// # Errors
    ///
    /// As [`keep`](Self::keep).
    async fn annotate(
        &self,
        set: &ApplicationSet,
        names: &'static [&'static str],
    ) -> Result<(), ServiceError>;

    /// Whether a set is being deleted now, past every cache.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    async fn is_going(&self, set: &ApplicationSet) -> Result<bool, ServiceError>;

    /// Whether a set is there now, past every cache: one that is not told any more may be.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    async fn is_there(&self, set: &ApplicationSet) -> Result<bool, ServiceError>;

    /// Asks for a set to go, by a person's wish; what becomes of it the watch tells. With `orphan` its Applications are to
    /// outlive it: it is told with the finalizer `orphan`, which whoever serves it takes off by [`mark`](Self::mark) once they are
    /// released, unless [garbage is collected](Self::collects_garbage).
    ///
    /// # Errors
    ///
    /// The store does not take it; in a folder, its document is not all that is in the file, or it is in none.
    async fn delete(&self, set: &ApplicationSet, orphan: bool) -> Result<(), ServiceError>;

    /// Whether a set is written down in a file that [`delete`](Self::delete) removes.
    async fn goes_with_file(&self, _: &ApplicationSet) -> bool {
        false
    }

    /// Forgets what is known of a set.
    ///
    /// # Errors
    ///
    /// The store does not take it.
    async fn forget(&self, key: &AppKey) -> Result<(), ServiceError>;

    /// Makes an Application, which is then served as any other: metadata and `spec` as they are given, nothing else.
    ///
    /// # Errors
    ///
    /// The store refuses it, or does not answer.
    async fn create(&self, application: &Application) -> Result<Written, ServiceError>;

    /// Changes labels, annotations, finalizers, owners and `spec` of an Application into these, if it is still as it was when
    /// it was told with this `resourceVersion`, apart from its status and operation: those two are never touched.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    async fn update(&self, application: &Application) -> Result<Written, ServiceError>;

    /// Deletes an Application: the one of this UID, and no other. Its finalizers decide what goes with it, and when.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create).
    async fn delete_application(&self, key: &AppKey, uid: &str) -> Result<Found, ServiceError>;

    /// Whether the Application of this UID is there now, past every cache.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    async fn look(&self, key: &AppKey, uid: &str) -> Result<Found, ServiceError>;
}

#[cfg(test)]
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]
mod tests;
