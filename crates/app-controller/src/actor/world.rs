//! The machine's view of the service.

use std::sync::Arc;

use tidegate_application::AppKey;
use tidegate_application::approval::ApprovalPolicy;
use tidegate_application::machine::{AdmissionError, World};
use tidegate_application::sync_windows::SyncWindows;
use tidegate_model::argo::Application;

use crate::admission::admit;
use crate::destinations::DestinationError;
use crate::shared_state::SharedState;

impl World for SharedState {
    fn sync_windows(&self, application: &Application) -> SyncWindows {
        self.sync_windows(application)
    }

    fn approval_policy(&self, application: &Application) -> Result<ApprovalPolicy, String> {
        self.approval_policy(application)
    }

    fn check_admission(&self, application: &Application) -> Result<(), AdmissionError> {
        admit(self, application).map(drop).map_err(|error| match error {
            DestinationError::Invalid(reason) => AdmissionError::Invalid(reason),
            DestinationError::Unreachable(reason) => AdmissionError::Unreachable(reason),
            DestinationError::Unchecked(reason) => AdmissionError::Unchecked(reason),
        })
    }

    fn unknown_cluster_reason(&self, application: &Application) -> Option<String> {
        self.destinations.unchecked_reason(&application.spec.destination)
    }

    fn unknown_project_fields(&self, application: &Application) -> Vec<String> {
        self.projects.unknown_fields(application)
    }

    fn project_warnings(&self, application: &Application) -> Vec<String> {
        self.projects.warnings(application)
    }

    fn forbidden_kinds(&self, key: &AppKey) -> Vec<String> {
        self.watches.forbidden_messages(key)
    }

    fn has_unread_changes(&self, key: &AppKey) -> bool {
        self.watches.has_unread_changes(key)
    }

    fn application(&self, key: &AppKey) -> Option<Arc<Application>> {
        self.application_cache.get(key)
    }

    fn deletion_order_reason(&self, application: &Application) -> Option<String> {
        self.deletion_queue.wait_reason(application)
    }

    fn blocking_dependents(&self, key: &AppKey) -> Option<Vec<(AppKey, Arc<Application>)>> {
        self.dependencies.blocking_dependents(key, &self.application_cache)
    }
}
