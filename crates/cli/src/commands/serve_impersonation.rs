//! Default impersonation mode for `serve`, read from Argo CD's ConfigMap.

use std::time::Duration;

use tidegate_application::impersonation::ImpersonationMode;
use tidegate_cluster::{Cluster, ClusterError, ErrorKind};
use tidegate_model::Object;

use crate::args::ImpersonateArg;
use crate::commands::serve_config;
use crate::error::CliError;
use crate::output::Printer;

/// ConfigMap with Argo CD's settings.
const CONFIG_MAP: &str = "argocd-cm";
/// Maximum number of attempts to read the ConfigMap, and the delay between them.
const READ_ATTEMPTS_MAX: u32 = 10;
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Key that enables impersonation of the projects' service accounts.
const ENABLED: &str = "application.sync.impersonation.enabled";
/// Key that requires every project to specify a service account (default: true).
const ENFORCED: &str = "application.sync.impersonation.enforced";

/// Returns the mode from the command line or else from the ConfigMap in the given namespace, if any. Ignores
/// the ConfigMap if Tidegate may not read it. If the API server doesn't respond, returns an error, so that a
/// write never has more permissions than intended.
pub async fn choose_mode(
    given: Option<ImpersonateArg>,
    config: Option<(&dyn Cluster, &str)>,
    printer: &Printer,
) -> Result<ImpersonationMode, CliError> {
    if let Some(given) = given {
        return Ok(given.impersonation_mode());
    }
    let found = match read_with_retries(config).await {
        Err(error) if error.kind == ErrorKind::Forbidden => {
            serve_config::read_config_map(CONFIG_MAP, config, "impersonation", printer).await
        }
        Err(error) => {
            return Err(CliError::usage(format!(
                "cannot read the {CONFIG_MAP} ConfigMap, so it is unknown whether Tidegate must impersonate \
                 the projects' service accounts: {error}; restart the service, or set --impersonate"
            )));
        }
        Ok(found) => found,
    };
    let Some(object) = found else { return Ok(ImpersonationMode::Ignored) };
    let (accounts, problems) = parse_mode(&object);
    serve_config::print_problems(&object, &problems, printer);
    Ok(accounts)
}

/// Returns the ConfigMap. Retries for a few seconds if the server doesn't respond.
async fn read_with_retries(config: Option<(&dyn Cluster, &str)>) -> Result<Option<Object>, ClusterError> {
    let mut tries = 1;
    loop {
        match serve_config::find_config_map(CONFIG_MAP, config).await {
            Err(error) if error.kind.is_transient() && tries < READ_ATTEMPTS_MAX => {
                tries += 1;
                tokio::time::sleep(RETRY_DELAY).await;
            }
            found => return found,
        }
    }
}

/// Returns the ConfigMap's mode, and any problems. An invalid value selects the stricter mode.
fn parse_mode(object: &Object) -> (ImpersonationMode, Vec<String>) {
    let mut problems = Vec::new();
    let mut is =
        |key: &str, otherwise: bool| match serve_config::get_value(object, key).map(str::parse::<bool>) {
            None => otherwise,
            Some(Ok(is)) => is,
            Some(Err(_)) => {
                problems.push(format!("{key} must be true or false; it is treated as true"));
                true
            }
        };
    let accounts = match (is(ENABLED, false), is(ENFORCED, true)) {
        (false, _) => ImpersonationMode::Ignored,
        (true, true) => ImpersonationMode::Required,
        (true, false) => ImpersonationMode::WhereNamed,
    };
    (accounts, problems)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_config_map_enables_impersonation() {
        for (data, accounts, problems) in [
            (json!({}), ImpersonationMode::Ignored, 0),
            (json!({ENABLED: "false"}), ImpersonationMode::Ignored, 0),
            (json!({ENABLED: "", ENFORCED: "false"}), ImpersonationMode::Ignored, 0),
            (json!({ENABLED: "true"}), ImpersonationMode::Required, 0),
            (json!({ENABLED: " true ", ENFORCED: "true"}), ImpersonationMode::Required, 0),
            (json!({ENABLED: "true", ENFORCED: "false"}), ImpersonationMode::WhereNamed, 0),
            // A misspelled value must not grant more permissions than intended.
            (json!({ENABLED: "yes", ENFORCED: "no"}), ImpersonationMode::Required, 2),
        ] {
            let object: Value =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
            let (found, told) = parse_mode(&Object::try_from(object).unwrap());
            assert_eq!((found, told.len()), (accounts, problems), "{data}");
        }
    }
}
