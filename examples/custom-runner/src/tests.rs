use tidegate::prelude::*;
use tidegate::tokio;

use super::deploy;

const MANIFESTS: &str = include_str!("../manifests.yaml");

fn message<'v>(view: &'v OperationView, name: &str) -> Option<&'v str> {
    view.resources.iter().find(|result| result.name == name).map(|result| result.message.as_str())
}

#[tokio::test(crate = "tidegate::tokio")]
async fn the_runner_runs_each_hook_once_and_in_order() {
    let view = deploy(MANIFESTS).await.unwrap();
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert_eq!(message(&view, "orders"), Some("tables: orders"));
    assert_eq!(message(&view, "customers"), Some("tables: orders, customers"));
}

#[tokio::test(crate = "tidegate::tokio")]
async fn a_failed_hook_prevents_later_objects_from_being_applied() {
    let view = deploy(&MANIFESTS.replace("{table: customers}", "{}")).await.unwrap();
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    assert_eq!(message(&view, "customers"), Some("the hook does not name a table"));
    assert_eq!(message(&view, "settings"), None);
}
