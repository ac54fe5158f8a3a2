//! Stores for Applications and their state.

mod folder;
pub(crate) mod generated_applications;
pub(crate) mod kubernetes;
pub(crate) mod parsed_file;
pub(crate) mod polled_folder;
mod projects;
pub(crate) mod state_files;

use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use tidegate_application::control_namespace;
use tidegate_model::argo::{AppProject, Application, ApplicationSet, display_name, instance_name};
use tidegate_model::{Object, OperationId};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::projects::ProjectSet;
use crate::error::ServiceError;

pub use folder::FolderStore;
pub use kubernetes::{KubernetesStore, MANAGED_LABEL, ManagedScope};
pub(crate) use parsed_file::unreconciled_message;
pub use state_files::read_applications;

/// Name of an Application.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppKey {
    /// Namespace, which is the control plane's namespace if the Application doesn't specify one.
    pub namespace: String,
    /// Name, unique within the namespace.
    pub name: String,
}

impl AppKey {
    /// Returns the key of an Application.
    pub fn of(application: &Application) -> Self {
        let metadata = &application.metadata;
        Self { namespace: metadata.namespace_or_default().to_owned(), name: metadata.name.clone() }
    }

    /// Returns the key of an ApplicationSet.
    pub fn of_appset(set: &ApplicationSet) -> Self {
        Self { namespace: set.metadata.namespace_or_default().to_owned(), name: set.metadata.name.clone() }
    }

    /// Returns the key of a resource.
    pub(crate) fn of_object(object: &Object) -> Self {
        Self { namespace: object.namespace().to_owned(), name: object.name().to_owned() }
    }

    /// Parses an Application name, either as users write it (`NAMESPACE/NAME`) or as in operations
    /// (`NAMESPACE_NAME`). A name without a namespace belongs to the control plane's namespace.
    pub fn parse(text: &str) -> Self {
        let (namespace, name) = text.split_once(['/', '_']).unwrap_or((control_namespace(), text));
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// Returns the name that operations use.
    pub fn instance_name(&self) -> String {
        instance_name(&self.namespace, &self.name)
    }

    /// Returns true if the key is in the control plane's namespace, so that the name is sufficient to
    /// identify it.
    pub fn is_in_control_plane(&self) -> bool {
        self.namespace == control_namespace()
    }

    /// Returns true if namespace and name are valid names for objects and files.
    pub fn is_valid(&self) -> bool {
        let is_plain = |text: &str| {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
            !text.is_empty() && text.len() <= 253 && !text.starts_with('.') && text.chars().all(plain)
        };
        is_plain(&self.name) && is_plain(&self.namespace)
    }

    /// Returns the only match for the name `text`.
    ///
    /// # Errors
    ///
    /// Returns an error unless there is exactly one match.
    pub fn single_match<T>(found: impl IntoIterator<Item = T>, text: &str) -> Result<T, ServiceError> {
        let mut found = found.into_iter();
        match (found.next(), found.next()) {
            (Some(only), None) => Ok(only),
            // The input is wrong rather than the state of the system, so every command exits with code 2.
            (None, _) => Err(ServiceError::BadInput {
                message: format!(
                    "there is no application {text}; `tidegate app list` lists all applications"
                ),
            }),
            _ => Err(ServiceError::BadInput {
                message: format!("there are several applications named {text}; use NAMESPACE/NAME"),
            }),
        }
    }

    /// Returns the keys that a name given by a user refers to. A name without a namespace refers to the key in
    /// the control plane's namespace. Only if there is none, it refers to the keys in other namespaces.
    pub fn resolve(keys: impl IntoIterator<Item = Self>, text: &str) -> Vec<Self> {
        let mut found: Vec<Self> = keys.into_iter().filter(|key| key.matches(text)).collect();
        if found.iter().any(Self::is_in_control_plane) && !text.contains('/') {
            found.retain(Self::is_in_control_plane);
        }
        found
    }

    /// Keeps the resources that a name given by a user refers to, as [`Self::resolve`] does.
    pub fn retain_resolved<T>(found: &mut Vec<T>, key_of: impl Fn(&T) -> Self, text: &str) {
        let meant = Self::resolve(found.iter().map(&key_of), text);
        found.retain(|one| meant.contains(&key_of(one)));
    }

    /// Returns true if a name entered by a user refers to this Application, with or without a namespace.
    pub fn matches(&self, text: &str) -> bool {
        text.split_once('/')
            .map_or(self.name == text, |(namespace, name)| self.namespace == namespace && self.name == name)
    }
}

impl fmt::Display for AppKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&display_name(&self.namespace, &self.name))
    }
}

/// An Application in the store.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredApplication {
    /// Desired state. An Application's first event also contains its status and operation. In later events,
    /// an operation is a new request from another client.
    pub application: Application,
    /// Reason why the desired state may be outdated, if the Application is unreadable or invalid.
    pub problem: Option<String>,
    /// Message about a damaged earlier state, with the path to which its file was moved.
    pub lost_state: Option<String>,
}

/// Operation that another client has terminated by writing the phase `Terminating`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalTermination {
    /// Operation ID. `None` if the operation hasn't started.
    pub operation: Option<OperationId>,
}

/// An event from a store.
#[derive(Clone, Debug, PartialEq)]
pub enum StoreEvent {
    /// An Application was added or changed.
    Applied(Box<StoredApplication>),
    /// Another client has changed an Application's persisted state.
    Overwritten {
        /// Name of the Application.
        key: AppKey,
        /// Operation to terminate, if the client has set the operation's phase to `Terminating`.
        termination: Option<ExternalTermination>,
    },
    /// An Application no longer exists.
    Gone(AppKey),
    /// All projects. Sent before the first Application.
    Projects(ProjectSet),
    /// All current errors that can't be attributed to an Application.
    Problems(Vec<String>),
    /// All Applications that existed at the start have been sent.
    Settled,
    /// The store was read after this number was issued, and all changes have been sent.
    ReadDone(u64),
}

/// Store for Applications. Only an Application's actor writes the Application's state.
#[async_trait]
pub trait ApplicationStore: Send + Sync + 'static {
    /// Returns the base directory for relative repository addresses.
    fn base(&self) -> PathBuf;

    /// Returns the namespace of the projects.
    fn project_namespace(&self) -> String {
        control_namespace().to_owned()
    }

    /// Returns true if other clients read the state from the store, so that each write causes work for all of
    /// them.
    fn is_shared(&self) -> bool {
        false
    }

    /// Sends the current content and then all changes, until the receiver is dropped.
    fn watch(&self) -> UnboundedReceiver<StoreEvent>;

    /// Requests an early read of the current content, if the store doesn't report changes automatically.
    /// Returns the number that the corresponding [`StoreEvent::ReadDone`] will contain.
    fn request_read(&self) -> Option<u64> {
        None
    }

    /// Persists an Application's state and its requested operation atomically. Both are durable when this
    /// function returns.
    async fn persist(&self, application: &Application) -> Result<(), ServiceError>;

    /// Returns the reason why [`Self::delete`] would refuse to delete an Application, if it can be determined
    /// in advance.
    async fn deletion_error(&self, _: &Application) -> Option<ServiceError> {
        None
    }

    /// Deletes an Application. Its current finalizers keep it until the deletion has finished. The request is
    /// durable when this function returns. The watch reports the progress.
    async fn delete(&self, application: &Application) -> Result<(), ServiceError>;

    /// Replaces a deleted Application's finalizers. The watch reports when the Application no longer exists.
    async fn release(&self, application: &Application) -> Result<(), ServiceError>;

    /// Returns the client that wrote the phase of an Application's operation, such as `kubectl-patch`, if the
    /// store provides this information.
    async fn writer_of_phase(&self, _: &AppKey) -> Option<String> {
        None
    }

    /// Returns the client that wrote the annotation that confirms an Application's deletions, such as
    /// `kubectl-annotate`, if the watched object contains this information.
    fn writer_of_approval(&self, _: &AppKey) -> Option<String> {
        None
    }

    /// Waits until all writes have finished, including writes that no caller is waiting for anymore.
    async fn await_writes(&self) {}

    /// Removes the finalizer that keeps a deleted project until no Application uses it. Does nothing if
    /// projects are files or if another controller manages them.
    async fn release_project(&self, _: &AppProject) -> Result<(), ServiceError> {
        Ok(())
    }

    /// Returns true if an Application that is missing from the initial events definitely doesn't exist.
    /// Returns false for files, because a missing file may reappear.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_of_a_name_mean_the_same_application() {
        for (text, shown, instance) in [
            ("shop", "shop", "shop"),
            ("argocd/shop", "shop", "shop"),
            ("apps/shop", "apps/shop", "apps_shop"),
            ("apps_shop", "apps/shop", "apps_shop"),
        ] {
            let key = AppKey::parse(text);
            assert_eq!((key.to_string().as_str(), key.instance_name().as_str()), (shown, instance), "{text}");
        }
    }
}
