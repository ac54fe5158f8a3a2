//! Whether `serve` writes as the service accounts of projects, where the command does not say it: what Argo CD's ConfigMap says.

use std::time::Duration;

use tidegate_application::accounts::Accounts;
use tidegate_cluster::{Cluster, ClusterError, ErrorKind};
use tidegate_model::Object;

use crate::args::ImpersonateArg;
use crate::commands::serve_config;
use crate::error::CliError;
use crate::output::Printer;

/// Where Argo CD keeps its settings.
const CONFIG_MAP: &str = "argocd-cm";
/// How often it is asked for, and how long after each time.
const TRIES: u32 = 10;
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Whether service accounts of projects are acted as.
const ENABLED: &str = "application.sync.impersonation.enabled";
/// Whether a project has to name one; it has to, where nothing is said.
const ENFORCED: &str = "application.sync.impersonation.enforced";

/// What is decided: by the command, or else by the ConfigMap in this namespace, if one is given. Who may not read that has never
/// been told to follow it; where only the answer is lacking, nothing is written with more rights than may be meant.
pub async fn decided(
    given: Option<ImpersonateArg>,
    config: Option<(&dyn Cluster, &str)>,
    printer: &Printer,
) -> Result<Accounts, CliError> {
    if let Some(given) = given {
        return Ok(given.accounts());
    }
    let found = match patiently(config).await {
        Err(error) if error.kind == ErrorKind::Forbidden => {
            serve_config::read(CONFIG_MAP, config, "impersonation", printer).await
        }
        Err(error) => {
            return Err(CliError::usage(format!(
                "whether to write as the service accounts of projects is not known, because the ConfigMap {CONFIG_MAP} cannot be read: \
                 {error}; begin again, or say it with --impersonate"
            )));
        }
        Ok(found) => found,
    };
    let Some(object) = found else { return Ok(Accounts::Ignored) };
    let (accounts, problems) = said(&object);
    serve_config::tell(&object, &problems, printer);
    Ok(accounts)
}

/// The ConfigMap, also of a server that does not answer for some seconds.
async fn patiently(config: Option<(&dyn Cluster, &str)>) -> Result<Option<Object>, ClusterError> {
    let mut tries = 1;
    loop {
        match serve_config::find(CONFIG_MAP, config).await {
            Err(error) if error.kind.is_transient() && tries < TRIES => {
                tries += 1;
                tokio::time::sleep(AGAIN_AFTER).await;
            }
            found => return found,
        }
    }
}

/// What the ConfigMap says, and what of it means nothing: then it is the stricter of both.
fn said(object: &Object) -> (Accounts, Vec<String>) {
    let mut problems = Vec::new();
    let mut is = |key: &str, otherwise: bool| match serve_config::value(object, key).map(str::parse::<bool>) {
        None => otherwise,
        Some(Ok(is)) => is,
        Some(Err(_)) => {
            problems.push(format!("{key} is neither true nor false; it counts as true"));
            true
        }
    };
    let accounts = match (is(ENABLED, false), is(ENFORCED, true)) {
        (false, _) => Accounts::Ignored,
        (true, true) => Accounts::Required,
        (true, false) => Accounts::WhereNamed,
    };
    (accounts, problems)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_config_map_switches_it_on() {
        for (data, accounts, problems) in [
            (json!({}), Accounts::Ignored, 0),
            (json!({ENABLED: "false"}), Accounts::Ignored, 0),
            (json!({ENABLED: "", ENFORCED: "false"}), Accounts::Ignored, 0),
            (json!({ENABLED: "true"}), Accounts::Required, 0),
            (json!({ENABLED: " true ", ENFORCED: "true"}), Accounts::Required, 0),
            (json!({ENABLED: "true", ENFORCED: "false"}), Accounts::WhereNamed, 0),
            // Nobody writes with more rights than were meant because of a misspelling.
            (json!({ENABLED: "yes", ENFORCED: "no"}), Accounts::Required, 2),
        ] {
            let object: Value =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
            let (found, told) = said(&Object::try_from(object).unwrap());
            assert_eq!((found, told.len()), (accounts, problems), "{data}");
        }
    }
}
