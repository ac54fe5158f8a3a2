//! Rules for Applications as pure functions: they take the resource, the result of a comparison, the
//! operation's state and the time, and return the new status and the next step.
//!
//! | module | content |
//! |---|---|
//! | [`refresh`] | when an application must be compared, and at which revision |
//! | [`comparison`] | sync status, health, and the rest of the status |
//! | [`conditions`] | conditions and their transition times |
//! | [`confirmation`] | confirmation of prunes and deletions with an annotation |
//! | [`impersonation`] | service accounts to impersonate at destinations |
//! | [`approval`] | syncs that need an approved plan, and who may approve it |
//! | [`automated_sync`] | operations that start without a request |
//! | [`credentials`] | masking of credentials |
//! | [`deletion`] | deletion of applications: the cascade and the next step |
//! | [`external_urls`] | URLs at which objects are reachable from outside the cluster |
//! | [`webhook_events`] | webhook events about repositories, branches and pull requests |
//! | [`hook_finalizers`] | finalizers for deletion hooks |
//! | [`dependencies`] | dependencies that delay syncs and deletions |
//! | [`project`] | project permissions |
//! | [`sync_windows`] | sync windows |
//! | [`machine`] | state machine of an application's controller |
//! | [`operation`] | conversion of operations to engine requests, and of progress to status |
//! | [`history`] | recovery of the status from the operation log |
//! | [`rollout_operation`] | operations of progressive syncs, and the last deployed revisions |
//! | [`push_events`] | pushes, and the sources that they affect |
//! | [`supersede`] | superseding of running operations by newer ones |
//! | [`ignored`] | annotations that have no effect |
//! | [`sources`] | unified access to one or several sources |

mod app_key;
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
pub mod machine;
pub mod operation;
mod previous_operation;
pub mod project;
pub mod push_events;
pub mod refresh;
mod repository_name;
pub mod rollout_operation;
mod shared_application;
pub mod sources;
mod successor;
pub mod supersede;
pub mod sync_windows;
pub mod webhook_events;

pub use app_key::{AppKey, NameError};
pub use shared_application::SharedApplication;
use tidegate_model::argo::{self, Application, Automated};
pub use tidegate_model::argo::{DEFAULT_CONTROL_NAMESPACE, control_namespace};

/// Returns the name used to track an application's objects and to list its operations.
pub fn instance_name(application: &Application) -> String {
    let metadata = &application.metadata;
    argo::instance_name(metadata.namespace_or_default(), &metadata.name)
}

/// Returns the automated sync settings, if automated sync is on.
pub fn automated(application: &Application) -> Option<&Automated> {
    let automated = application.spec.sync_policy.as_ref()?.automated.as_ref()?;
    (automated.enabled != Some(false)).then_some(automated)
}
