//! What is to be done about an Application. Pure: the resource, what was compared, how its operation stands and the time
//! come in as arguments; the status document and the next step come out.
//!
//! | module | question |
//! |---|---|
//! | [`refresh`] | must it be compared again, and with which revision? |
//! | [`comparison`] | in sync? how well does it do? what does its status say? |
//! | [`conditions`] | what is wrong with it, and since when? |
//! | [`confirmation`] | has an annotation confirmed what its operation prunes or deletes? |
//! | [`accounts`] | as whom is it written to its destination? |
//! | [`approval`] | must somebody approve the plan of a sync, and who may? |
//! | [`automation`] | is an operation begun without being asked, which one, or when? |
//! | [`credentials`] | what of it must not be seen? |
//! | [`deletion`] | is it deleted, with what of it, and what is done next for that? |
//! | [`external`] | where are its objects reached from outside the cluster? |
//! | [`hosted`] | which repositories, branches and pull requests does a server tell of? |
//! | [`hook_finalizers`] | which of its finalizers are there because of its hooks? |
//! | [`dependencies`] | what does it wait for, before it is synced and before it is deleted? |
//! | [`project`] | what does its project permit? |
//! | [`windows`] | may it be synced now? |
//! | [`operation`] | what does an operation ask of the engine, and what does its status say? |
//! | [`recorded`] | what does the operation log know that the status does not? |
//! | [`running`] | when is the operation begun that a progressive sync wants, and what was deployed last? |
//! | [`pushes`] | which sources is a push about? |
//! | [`superseding`] | does an operation go on when something newer is wanted? |
//! | [`unheeded`] | what do its annotations say that has no effect? |
//! | [`sources`] | what is deployed, be it one source or several? |

pub mod accounts;
pub mod approval;
pub mod automation;
mod before;
pub mod comparison;
pub mod conditions;
pub mod confirmation;
pub mod credentials;
pub mod deletion;
pub mod dependencies;
pub mod external;
pub mod global_projects;
pub mod hook_finalizers;
pub mod hosted;
pub mod operation;
pub mod project;
pub mod pushes;
pub mod recorded;
pub mod refresh;
mod repository_names;
pub mod running;
pub mod sources;
pub mod superseding;
pub mod unheeded;
pub mod windows;

pub use tidegate_model::argo::CONTROL_NAMESPACE;
use tidegate_model::argo::{Application, Automated};

/// The name under which an application's objects are tracked, and its operations listed.
pub fn instance_name(application: &Application) -> String {
    let metadata = &application.metadata;
    match metadata.namespace.as_str() {
        "" | CONTROL_NAMESPACE => metadata.name.clone(),
        namespace => format!("{namespace}_{}", metadata.name),
    }
}

/// What is done without being asked, if anything is.
pub fn automated(application: &Application) -> Option<&Automated> {
    let automated = application.spec.sync_policy.as_ref()?.automated.as_ref()?;
    (automated.enabled != Some(false)).then_some(automated)
}
