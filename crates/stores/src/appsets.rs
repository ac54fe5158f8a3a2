//! Stores for ApplicationSets: their documents, their state, and the Applications they generate.

mod folder;
mod kubernetes;
mod stored_state;

use std::path::PathBuf;

use async_trait::async_trait;
use tidegate_model::argo::{Application, ApplicationSet};
use tokio::sync::mpsc::UnboundedReceiver;

use tidegate_application::AppKey;
use tidegate_state::error::ServiceError;
use tidegate_state::owned_shards::OwnedShards;

pub use folder::FolderAppSetStore;
pub use kubernetes::KubernetesAppSetStore;

/// An ApplicationSet in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredAppSet {
    /// Desired state. The first event also carries the stored status. In later events, the status contains
    /// only parts that the actor already knows.
    pub appset: ApplicationSet,
    /// Reason the ApplicationSet may differ from its document. If the document is unreadable, `appset` is the
    /// previous state. ApplicationSets that were never readable are in [`AppSetEvent::Problems`] instead,
    /// because nothing can be generated or deleted for them.
    pub problem: Option<String>,
    /// New path of the stored state, if it was unreadable and moved.
    pub lost: Option<String>,
}

/// An event from a store.
#[derive(Clone, Debug, PartialEq)]
pub enum AppSetEvent {
    /// An ApplicationSet was created or changed, or its deletion or refresh was requested.
    Applied(Box<StoredAppSet>),
    /// An ApplicationSet that another replica manages was added or changed, or another replica now manages it.
    OtherReplica(Box<ApplicationSet>),
    /// This process now manages the ApplicationSets in these shards. All events that this causes have been sent.
    OwnedShards(OwnedShards),
    /// An ApplicationSet is gone, and its finalizers have been processed.
    Gone(AppKey),
    /// All currently unreadable documents that may be ApplicationSets.
    Problems(Vec<String>),
    /// All ApplicationSets that existed at the start have been reported.
    Settled,
}

/// Result of a write to an Application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteResult {
    /// The write is durable.
    Done,
    /// Nothing was written, for the given reason: a conflict, or the Application already exists or is gone. A
    /// later event for the Application triggers another pass.
    Outdated(String),
}

/// Existence of an Application in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existence {
    /// The Application exists, although it may be in the process of being deleted.
    Exists,
    /// The Application is gone. An object with the same name is a different Application.
    Gone,
}

/// Store for ApplicationSets and their generated Applications. Only an ApplicationSet's own actor writes to
/// it. Both have the same type of key, and an ApplicationSet may share its name with an Application.
#[async_trait]
pub trait AppSetStore: Send + Sync + 'static {
    /// Returns the base directory for relative repository URLs.
    fn base(&self) -> PathBuf;

    /// Returns true if other programs read the state from the store, which makes each write more expensive.
    fn is_shared(&self) -> bool;

    /// Returns true if Applications without an owner are deleted automatically, as by the Kubernetes garbage
    /// collector.
    fn has_garbage_collector(&self) -> bool;

    /// Returns the labels that mark Applications as managed by this service. The store adds them and keeps
    /// them even if they aren't generated.
    fn own_labels(&self) -> &'static [&'static str] {
        &[]
    }

    /// Reports the existing ApplicationSets, then changes, until the receiver is dropped.
    fn watch(&self) -> UnboundedReceiver<AppSetEvent>;

    /// Sets the shards whose ApplicationSets this process manages. The watch reports the change, and then
    /// [`AppSetEvent::OwnedShards`]. Only for a store that several replicas can use.
    fn set_owned_shards(&self, _: OwnedShards) {}

    /// Writes only the status of an ApplicationSet. On return, the status is durable or the ApplicationSet is
    /// gone.
    ///
    /// # Errors
    ///
    /// Returns an error if the store rejects the write, or after too many conflicts with other writes.
    async fn write_status(&self, set: &ApplicationSet) -> Result<(), ServiceError>;

    /// Sets or removes the engine's finalizer as in `set`, keeping other finalizers. If `set` lacks the
    /// refresh annotation, also removes the completed refresh request, but not a later one.
    ///
    /// # Errors
    ///
    /// Returns an error for the same reasons as [`write_status`](Self::write_status).
    async fn write_finalizer(&self, set: &ApplicationSet) -> Result<(), ServiceError>;

    /// Writes the annotations in `names` as in `set`. They record requests made with commands: an
    /// [`approval`](tidegate_applicationset::deletion_limit) of deletions, or a
    /// [`retry`](tidegate_applicationset::retry). On return, they are durable or the ApplicationSet is gone.
    ///
    /// # Errors
    ///
    /// Returns an error for the same reasons as [`write_status`](Self::write_status).
    async fn write_annotations(
        &self,
        set: &ApplicationSet,
        names: &'static [&'static str],
    ) -> Result<(), ServiceError>;

    /// Returns true if an ApplicationSet is being deleted. Bypasses all caches.
    ///
    /// # Errors
    ///
    /// Returns an error if the store doesn't respond.
    async fn is_being_deleted(&self, set: &ApplicationSet) -> Result<bool, ServiceError>;

    /// Returns true if an ApplicationSet exists. Bypasses the cache, because the watch may stop reporting an
    /// ApplicationSet that still exists.
    ///
    /// # Errors
    ///
    /// Returns an error if the store doesn't respond.
    async fn exists(&self, set: &ApplicationSet) -> Result<bool, ServiceError>;

    /// Requests the deletion of an ApplicationSet on behalf of a user. The watch reports the progress. If
    /// `orphan` is set, the Applications outlive the ApplicationSet, which is then reported with the `orphan`
    /// finalizer. The controller removes this finalizer with [`write_finalizer`](Self::write_finalizer) once
    /// the Applications are released, unless there is a [garbage collector](Self::has_garbage_collector).
    ///
    /// # Errors
    ///
    /// Returns an error if the store rejects the request. In a folder, also fails if the document has no file
    /// or its file contains other documents.
    async fn delete(&self, set: &ApplicationSet, orphan: bool) -> Result<(), ServiceError>;

    /// Returns true if [`delete`](Self::delete) would remove the file with an ApplicationSet's document.
    async fn has_removable_file(&self, _: &ApplicationSet) -> bool {
        false
    }

    /// Removes an ApplicationSet's stored state.
    ///
    /// # Errors
    ///
    /// Returns an error if the store rejects the write.
    async fn remove_state(&self, key: &AppKey) -> Result<(), ServiceError>;

    /// Creates an Application with only this metadata and `spec`. It is then managed like any other.
    ///
    /// # Errors
    ///
    /// Returns an error if the store rejects the Application or doesn't respond.
    async fn create(&self, application: &Application) -> Result<WriteResult, ServiceError>;

    /// Updates an Application's labels, annotations, finalizers, owners and `spec`, unless they have changed
    /// since the event with the given `resourceVersion`. Never touches its status or operation.
    ///
    /// # Errors
    ///
    /// Returns an error for the same reasons as [`create`](Self::create).
    async fn update(&self, application: &Application) -> Result<WriteResult, ServiceError>;

    /// Deletes only the Application with this UID. Its finalizers determine what else is deleted, and when.
    ///
    /// # Errors
    ///
    /// Returns an error for the same reasons as [`create`](Self::create).
    async fn delete_application(&self, key: &AppKey, uid: &str) -> Result<Existence, ServiceError>;

    /// Checks whether the Application with this UID exists. Bypasses all caches.
    ///
    /// # Errors
    ///
    /// Returns an error if the store doesn't respond.
    async fn application_existence(&self, key: &AppKey, uid: &str) -> Result<Existence, ServiceError>;
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may panic")]
mod tests;
