//! Defaults of `serve` for all ApplicationSets, read from Argo CD's ConfigMap.

use std::time::Duration;

use tidegate_appset_controller::AppSetOptions;
use tidegate_cluster::Cluster;
use tidegate_model::Object;

use crate::args::ServeAppSetArgs;
use crate::commands::serve_config;
use crate::output::Printer;

/// ConfigMap with the parameters of Argo CD's controllers.
const CONFIG_MAP: &str = "argocd-cmd-params-cm";
/// Key that enables progressive syncs.
const PROGRESSIVE_SYNCS: &str = "applicationsetcontroller.enable.progressive.syncs";
/// Key of the maximum time in seconds that an Application may be Pending.
const PENDING_TIMEOUT: &str = "applicationsetcontroller.default.application.progressing.timeout";

/// Returns the options from the command line. Missing ones come from the ConfigMap in the namespace, if it
/// exists.
pub async fn load_options(
    args: &ServeAppSetArgs,
    config: Option<(&dyn Cluster, &str)>,
    printer: &Printer,
) -> AppSetOptions {
    let mut options = args.options();
    if let Some(object) = serve_config::read_config_map(CONFIG_MAP, config, "ApplicationSets", printer).await
    {
        serve_config::print_problems(&object, &apply_config_map(&object, args, &mut options), printer);
    }
    options
}

/// Applies the ConfigMap's values, and returns the invalid ones.
fn apply_config_map(object: &Object, args: &ServeAppSetArgs, options: &mut AppSetOptions) -> Vec<String> {
    let value = |key| serve_config::get_value(object, key);
    let mut problems = Vec::new();
    match value(PROGRESSIVE_SYNCS).filter(|_| args.progressive_syncs.is_none()) {
        None => {}
        Some(text) => match text.parse() {
            Ok(is) => options.policy.progressive_syncs = is,
            Err(_) => problems.push(format!("invalid {PROGRESSIVE_SYNCS} {text:?}: use true or false")),
        },
    }
    match value(PENDING_TIMEOUT).filter(|_| args.pending_timeout.is_none()) {
        None => {}
        Some(text) => match text.parse() {
            Ok(seconds) => options.cases.pending_timeout = Some(Duration::from_secs(seconds)),
            Err(_) => problems.push(format!("invalid {PENDING_TIMEOUT} {text:?}: use a number of seconds")),
        },
    }
    problems
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct TestCommandLine {
        #[command(flatten)]
        sets: ServeAppSetArgs,
    }

    fn resolve_options(text: &[&str], data: serde_json::Value) -> (bool, Option<u64>, usize) {
        let line = TestCommandLine::try_parse_from([&["serve"], text].concat()).unwrap();
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
        let mut options = line.sets.options();
        let problems = apply_config_map(&Object::try_from(object).unwrap(), &line.sets, &mut options);
        let timeout = options.cases.pending_timeout.map(|timeout| timeout.as_secs());
        (options.policy.progressive_syncs, timeout, problems.len())
    }

    #[test]
    fn arguments_take_precedence_over_the_config_map() {
        let off = || json!({PROGRESSIVE_SYNCS: "false", PENDING_TIMEOUT: "300"});
        assert_eq!(resolve_options(&[], json!({})), (true, None, 0));
        assert_eq!(resolve_options(&[], off()), (false, Some(300), 0));
        assert_eq!(resolve_options(&["--enable-progressive-syncs"], off()), (true, Some(300), 0));
        assert_eq!(resolve_options(&["--enable-progressive-syncs=false"], json!({})), (false, None, 0));
        assert_eq!(resolve_options(&["--pending-timeout", "10m"], off()), (false, Some(600), 0));
        assert_eq!(
            resolve_options(&[], json!({PROGRESSIVE_SYNCS: "perhaps", PENDING_TIMEOUT: "5m"})),
            (true, None, 2)
        );
    }
}
