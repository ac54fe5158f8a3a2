//! Stores for Applications and their state.

mod folder;
pub mod generated_applications;
pub mod kubernetes;
pub mod parsed_file;
pub mod polled_folder;
mod projects;
pub mod state_files;

use std::path::PathBuf;

use async_trait::async_trait;
use tidegate_application::{AppKey, control_namespace};
use tidegate_model::OperationId;
use tidegate_model::argo::{AppProject, Application};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use tidegate_state::error::ServiceError;
use tidegate_state::owned_shards::OwnedShards;

pub use folder::FolderStore;
pub use kubernetes::adoption::AdoptionCheck;
pub use kubernetes::{KubernetesStore, MANAGED_LABEL, ManagedScope};
pub use parsed_file::unreconciled_message;
pub use projects::{ProjectResults, ProjectSet};
pub use state_files::read_applications;

/// An Application in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredApplication {
    /// Desired state. The first event for an Application also carries its status and operation. An operation
    /// in a later event is a new request from another client.
    pub application: Application,
    /// Reason the desired state may be outdated, if the Application is currently unreadable or invalid.
    pub problem: Option<String>,
    /// Message about damaged persisted state, with the path it was moved to.
    pub lost_state: Option<String>,
}

/// Operation terminated by another client, which wrote the `Terminating` phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalTermination {
    /// Operation ID. `None` before the operation has started.
    pub operation: Option<OperationId>,
}

/// An event from a store.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreEvent {
    /// An Application was added or changed.
    Applied(Box<StoredApplication>),
    /// An Application that another replica manages was added or changed, or another replica now manages it.
    OtherReplica(Box<Application>),
    /// This process now manages the Applications in these shards. All events that this causes have been sent.
    OwnedShards(OwnedShards),
    /// Another client changed an Application's persisted state.
    Overwritten {
        /// Name of the Application.
        key: AppKey,
        /// Operation to terminate, if the client set its phase to `Terminating`.
        termination: Option<ExternalTermination>,
    },
    /// An Application is gone.
    Gone(AppKey),
    /// All projects. Sent before the first Application.
    Projects(ProjectSet),
    /// All current errors without a known Application.
    Problems(Vec<String>),
    /// All Applications that existed at the start have been sent.
    Settled,
    /// The store was read after this number was issued, and all changes have been sent.
    ReadDone(u64),
}

/// Store for Applications. Only an Application's actor writes its state.
#[async_trait]
pub trait ApplicationStore: Send + Sync + 'static {
    /// Returns the base directory for relative repository URLs.
    fn base(&self) -> PathBuf;

    /// Returns the namespace of the projects.
    fn project_namespace(&self) -> String {
        control_namespace().to_owned()
    }

    /// Returns true if other clients read the state from the store, which makes each write more expensive.
    fn is_shared(&self) -> bool {
        false
    }

    /// Sends the current content, then all changes, until the receiver is dropped.
    fn watch(&self) -> UnboundedReceiver<StoreEvent>;

    /// Sets the shards whose Applications this process manages. The watch reports the change, and then
    /// [`StoreEvent::OwnedShards`]. Only for a store that several replicas can use.
    fn set_owned_shards(&self, _: OwnedShards) {}

    /// Sets the check before this process starts to manage an Application in one of its shards. Must be called before
    /// [`watch`](Self::watch). Only for a store that several replicas can use.
    fn set_adoption_check(&self, _: AdoptionCheck) {}

    /// Requests an early read if the store doesn't report changes by itself. Returns the number to expect in
    /// [`StoreEvent::ReadDone`].
    fn request_read(&self) -> Option<u64> {
        None
    }

    /// Atomically persists an Application's state and its requested operation. Both are durable on return.
    async fn persist(&self, application: &Application) -> Result<(), ServiceError>;

    /// Returns the expected error of [`Self::delete`], as far as it can be predicted.
    async fn deletion_error(&self, _: &Application) -> Option<ServiceError> {
        None
    }

    /// Deletes an Application, which remains until its current finalizers have been removed. The request is
    /// durable on return. The watch reports the progress.
    async fn delete(&self, application: &Application) -> Result<(), ServiceError>;

    /// Replaces a deleted Application's finalizers. The watch reports when the Application is gone.
    async fn release(&self, application: &Application) -> Result<(), ServiceError>;

    /// Returns the client that wrote the phase of an Application's operation, such as `kubectl-patch`, if
    /// known.
    async fn writer_of_phase(&self, _: &AppKey) -> Option<String> {
        None
    }

    /// Returns the client that confirmed an Application's deletions with an annotation, such as
    /// `kubectl-annotate`, if the watched object shows it.
    fn writer_of_approval(&self, _: &AppKey) -> Option<String> {
        None
    }

    /// Waits until all writes have finished, including those of dropped callers.
    async fn await_writes(&self) {}

    /// Removes the finalizer that keeps a deleted project until no Application uses it. Does nothing if
    /// projects are files or belong to another controller.
    async fn release_project(&self, _: &AppProject) -> Result<(), ServiceError> {
        Ok(())
    }

    /// Returns true if an Application missing from the initial events definitely doesn't exist. A missing
    /// file, in contrast, may reappear.
    fn is_authoritative(&self, _: &AppKey) -> bool {
        false
    }

    /// Deletes an Application's persisted state.
    async fn delete_state(&self, key: &AppKey) -> Result<(), ServiceError>;
}

/// Sends events. Returns false if the receiver was dropped.
fn send_events(sender: &UnboundedSender<StoreEvent>, events: Vec<StoreEvent>) -> bool {
    !sender.is_closed() && events.into_iter().all(|event| sender.send(event).is_ok())
}
