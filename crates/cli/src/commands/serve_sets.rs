//! What `serve` decides for all ApplicationSets, where the command does not say it: what Argo CD's ConfigMap says.

use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_model::Object;
use tidegate_service::sets::SetOptions;

use crate::args::SetsArgs;
use crate::commands::serve_config;
use crate::output::Printer;

/// Where Argo CD keeps parameters of its controllers.
const CONFIG_MAP: &str = "argocd-cmd-params-cm";
/// Whether Applications are synced step by step.
const PROGRESSIVE_SYNCS: &str = "applicationsetcontroller.enable.progressive.syncs";
/// So many seconds an Application may be Pending.
const PENDING_TIMEOUT: &str = "applicationsetcontroller.default.application.progressing.timeout";

/// What is decided: by the command, and beside it by the ConfigMap in this namespace, if one is given.
pub async fn options(args: &SetsArgs, config: Option<(&dyn Cluster, &str)>, printer: &Printer) -> SetOptions {
    let mut options = args.options();
    if let Some(object) = serve_config::read(CONFIG_MAP, config, "ApplicationSets", printer).await {
        serve_config::tell(&object, &said(&object, args, &mut options), printer);
    }
    options
}

/// Takes in what the ConfigMap says; what of it means nothing.
fn said(object: &Object, args: &SetsArgs, options: &mut SetOptions) -> Vec<String> {
    let value = |key| serve_config::value(object, key);
    let mut problems = Vec::new();
    match value(PROGRESSIVE_SYNCS).filter(|_| args.progressive_syncs.is_none()) {
        None => {}
        Some(text) => match text.parse() {
            Ok(is) => options.policy.progressive_syncs = is,
            Err(_) => problems.push(format!("{PROGRESSIVE_SYNCS} is {text:?}; write true or false")),
        },
    }
    match value(PENDING_TIMEOUT).filter(|_| args.pending_timeout.is_none()) {
        None => {}
        Some(text) => match text.parse() {
            Ok(seconds) => options.cases.pending_timeout = Some(Duration::from_secs(seconds)),
            Err(_) => problems.push(format!("{PENDING_TIMEOUT} is {text:?}; write a number of seconds")),
        },
    }
    problems
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        sets: SetsArgs,
    }

    fn decided(words: &[&str], data: serde_json::Value) -> (bool, Option<u64>, usize) {
        let line = Line::try_parse_from([&["serve"], words].concat()).unwrap();
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
        let mut options = line.sets.options();
        let problems = said(&Object::try_from(object).unwrap(), &line.sets, &mut options);
        let timeout = options.cases.pending_timeout.map(|timeout| timeout.as_secs());
        (options.policy.progressive_syncs, timeout, problems.len())
    }

    #[test]
    fn what_the_command_says_counts_before_the_config_map() {
        let off = || json!({PROGRESSIVE_SYNCS: "false", PENDING_TIMEOUT: "300"});
        assert_eq!(decided(&[], json!({})), (true, None, 0));
        assert_eq!(decided(&[], off()), (false, Some(300), 0));
        assert_eq!(decided(&["--enable-progressive-syncs"], off()), (true, Some(300), 0));
        assert_eq!(decided(&["--enable-progressive-syncs=false"], json!({})), (false, None, 0));
        assert_eq!(decided(&["--pending-timeout", "10m"], off()), (false, Some(600), 0));
        assert_eq!(
            decided(&[], json!({PROGRESSIVE_SYNCS: "perhaps", PENDING_TIMEOUT: "5m"})),
            (true, None, 2)
        );
    }
}
