//! Who is asked about ApplicationSets: the process at work in a state directory, or one elsewhere.

use tidegate_applicationset::rollout::full_name;
use tidegate_model::argo::ApplicationSet;
use tidegate_service::control::protocol::Request;
use tidegate_service::error::ServiceError;
use tidegate_service::reach::{self, ReachedSets};
use tidegate_service::sets::{SetDeletion, SetExplanation};

use crate::commands::app::desk::Desk;
use crate::error::CliError;
use crate::output::Printer;

/// The sets, or those that are meant.
pub async fn find(desk: &Desk, name: Option<&str>) -> Result<ReachedSets, ServiceError> {
    match desk {
        Desk::Here(state_dir) => reach::sets(state_dir, name).await,
        Desk::There(remote) => remote.sets(name).await,
    }
}

/// As [`find`]; where nobody serves them here, as they stood last, and that is told.
pub async fn look(desk: &Desk, printer: &Printer, name: Option<&str>) -> Result<ReachedSets, ServiceError> {
    match desk {
        Desk::Here(state_dir) => reach::find_sets(state_dir, printer, name).await,
        Desk::There(remote) => remote.sets(name).await,
    }
}

/// The only set that is meant.
pub async fn one(desk: &Desk, name: &str) -> Result<ApplicationSet, CliError> {
    only(find(desk, Some(name)).await?, name)
}

/// The only one of those that were found by a name.
pub fn only(found: ReachedSets, name: &str) -> Result<ApplicationSet, CliError> {
    let mut found = found.sets;
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (Some(last), false) => {
            found.push(last);
            let names: Vec<String> = found.iter().map(full_name).collect();
            Err(CliError::usage(format!(
                "there are several ApplicationSets {name}: {}; name one of them",
                names.join(", ")
            )))
        }
        (None, _) => Err(CliError::usage(format!(
            "there is no ApplicationSet {name}; `tidegate appset list` shows those there are"
        ))),
    }
}

/// The full name of the only set that is meant.
pub async fn named(desk: &Desk, name: &str) -> Result<String, CliError> {
    Ok(full_name(&one(desk, name).await?))
}

/// Where a set stands, and why.
pub async fn explain(desk: &Desk, name: &str) -> Result<SetExplanation, ServiceError> {
    match desk {
        Desk::Here(state_dir) => reach::explain_set(state_dir, name.to_owned()).await,
        Desk::There(remote) => remote.explain_set(name).await,
    }
}

/// As [`explain`]; where nobody serves it here, by what is recorded.
pub async fn look_explained(
    desk: &Desk,
    printer: &Printer,
    name: &str,
) -> Result<SetExplanation, ServiceError> {
    match desk {
        Desk::Here(state_dir) => reach::find_explanation(state_dir, printer, name).await,
        Desk::There(remote) => remote.explain_set(name).await,
    }
}

/// In which order the Applications of a set would be deleted with it.
pub async fn plan_deletion(desk: &Desk, name: &str) -> Result<SetDeletion, ServiceError> {
    match desk {
        Desk::Here(state_dir) => reach::plan_deletion(state_dir, name.to_owned()).await,
        Desk::There(remote) => remote.plan_deletion(name).await,
    }
}

/// Tells what to do with a set. Returns when that is durable.
pub async fn tell(desk: &Desk, request: &Request) -> Result<(), ServiceError> {
    match desk {
        Desk::Here(state_dir) => reach::tell(state_dir, request).await,
        Desk::There(remote) => remote.tell_set(request).await,
    }
}
