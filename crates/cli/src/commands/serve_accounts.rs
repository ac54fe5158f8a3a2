//! Whether `serve` writes as the service accounts of projects, where the command does not say it: what Argo CD's ConfigMap says.

use tidegate_application::accounts::Accounts;
use tidegate_cluster::Cluster;
use tidegate_model::Object;

use crate::args::ImpersonateArg;
use crate::commands::serve_config;
use crate::output::Printer;

/// Where Argo CD keeps its settings.
const CONFIG_MAP: &str = "argocd-cm";
/// Whether service accounts of projects are acted as.
const ENABLED: &str = "application.sync.impersonation.enabled";
/// Whether a project has to name one; it has to, where nothing is said.
const ENFORCED: &str = "application.sync.impersonation.enforced";

/// What is decided: by the command, or else by the ConfigMap in this namespace, if one is given.
pub async fn decided(
    given: Option<ImpersonateArg>,
    config: Option<(&dyn Cluster, &str)>,
    printer: &Printer,
) -> Accounts {
    if let Some(given) = given {
        return given.accounts();
    }
    let Some(object) = serve_config::read(CONFIG_MAP, config, "impersonation", printer).await else {
        return Accounts::Ignored;
    };
    let (accounts, problems) = said(&object);
    serve_config::tell(&object, &problems, printer);
    accounts
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
