//! Rules for Applications as pure functions. They take the resource, the result of a comparison, the
//! operation's state and the time, and return the new status and the next step.
//!
//! | module | content |
//! |---|---|
//! | [`refresh`] | due comparisons and their revisions |
//! | [`comparison`] | sync status, health, and the status document |
//! | [`conditions`] | problems of an application and their times |
//! | [`confirmation`] | confirmation of prunes and deletions by an annotation |
//! | [`impersonation`] | impersonated service accounts of destinations |
//! | [`approval`] | required approvals of plans and allowed approvers |
//! | [`automated_sync`] | operations that start without a request |
//! | [`credentials`] | masking of credentials |
//! | [`deletion`] | cascade and next step of a deletion |
//! | [`external_urls`] | URLs of its objects from outside the cluster |
//! | [`webhook_events`] | webhook events about repositories, branches and pull requests |
//! | [`hook_finalizers`] | finalizers for deletion hooks |
//! | [`dependencies`] | dependencies that delay syncs and deletions |
//! | [`project`] | permissions of its project |
//! | [`sync_windows`] | sync windows |
//! | [`operation`] | engine request of an operation, and its status |
//! | [`history`] | operations in the log that the status lacks |
//! | [`rollout_operation`] | operations of progressive syncs, and the last deployed revisions |
//! | [`push_events`] | sources that a push affects |
//! | [`supersede`] | operations that end in favor of newer ones |
//! | [`ignored`] | annotations without effect |
//! | [`sources`] | one source or several |

pub mod approval;
pub mod automated_sync;
pub mod comparison;
pub mod conditions;
pub mod confirmation;
mod controller_info;
pub mod credentials;
pub mod deletion;
pub mod dependencies;
pub mod external_urls;
pub mod global_projects;
pub mod history;
pub mod hook_finalizers;
pub mod ignored;
pub mod impersonation;
pub mod operation;
mod previous_operation;
pub mod project;
pub mod push_events;
pub mod refresh;
mod repository_name;
pub mod rollout_operation;
pub mod sources;
mod successor;
pub mod supersede;
pub mod sync_windows;
pub mod webhook_events;

use tidegate_model::argo::{Application, Automated};
pub use tidegate_model::argo::{DEFAULT_CONTROL_NAMESPACE, control_namespace};

/// Returns the name that is used to track an application's objects and to list its operations.
pub fn instance_name(application: &Application) -> String {
    let metadata = &application.metadata;
    match metadata.namespace.as_str() {
        "" => metadata.name.clone(),
        namespace if namespace == control_namespace() => metadata.name.clone(),
        namespace => format!("{namespace}_{}", metadata.name),
    }
}

/// Returns the automated sync settings, if automated sync is enabled.
pub fn automated(application: &Application) -> Option<&Automated> {
    let automated = application.spec.sync_policy.as_ref()?.automated.as_ref()?;
    (automated.enabled != Some(false)).then_some(automated)
}
