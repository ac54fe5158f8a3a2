//! The machine's view of the service.

use std::sync::Arc;

use tidegate_model::argo::Application;

use crate::AppKey;
use crate::approval::ApprovalPolicy;
use crate::sync_windows::SyncWindows;

/// Reason why an application can't be managed at its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdmissionError {
    /// The specification, the destination or the project forbids it.
    Invalid(String),
    /// The cluster is unreachable.
    Unreachable(String),
    /// The cluster hasn't been contacted yet.
    Unchecked(String),
}

/// State of the service outside of the application. Implementations answer from memory.
pub trait World {
    /// Returns the sync windows of an application.
    fn sync_windows(&self, application: &Application) -> SyncWindows;
    /// Returns the approval policy of an application.
    fn approval_policy(&self, application: &Application) -> Result<ApprovalPolicy, String>;
    /// Checks the specification, the destination and the project.
    fn check_admission(&self, application: &Application) -> Result<(), AdmissionError>;
    /// Returns a message if it isn't known yet whether the application's cluster is reachable.
    fn unknown_cluster_reason(&self, application: &Application) -> Option<String>;
    /// Returns the unknown fields of the application's project.
    fn unknown_project_fields(&self, application: &Application) -> Vec<String>;
    /// Returns the warnings about the application's project.
    fn project_warnings(&self, application: &Application) -> Vec<String>;
    /// Returns a message for each kind that can't be watched.
    fn forbidden_kinds(&self, key: &AppKey) -> Vec<String>;
    /// Returns true if the application's objects have changed since they were last read.
    fn has_unread_changes(&self, key: &AppKey) -> bool;
    /// Returns an application as it was last published.
    fn application(&self, key: &AppKey) -> Option<Arc<Application>>;
    /// Returns the reason why the ApplicationSet's deletion order holds back an application's deletion.
    fn deletion_order_reason(&self, application: &Application) -> Option<String>;
    /// Returns the dependents that block an application's deletion, or `None` until all are known.
    fn blocking_dependents(&self, key: &AppKey) -> Option<Vec<(AppKey, Arc<Application>)>>;
}
