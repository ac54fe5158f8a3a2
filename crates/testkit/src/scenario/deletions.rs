//! Golden operations that delete applications.

use tidegate_model::{Cascade, SyncRequest};

use super::manifests::{
    FAILS, FAILS_ONCE, JOB, KEEP_NOTHING, annotated_config_map, config_map, deployment, hook, object_yaml,
};
use super::{Scenario, SyncSpec, UserAction, UserActionKind, failing_scenario, retry_policy, scenario};

fn deletion_request(cascade: Cascade) -> impl FnOnce(&mut SyncRequest) {
    move |request| {
        request.options.prune = true;
        request.deletion = Some(cascade);
    }
}

/// Returns a scenario that syncs manifests and then deletes the application.
fn deletion_scenario(name: &'static str, manifests: &str, cascade: Cascade) -> Scenario {
    let sync = SyncSpec::new(manifests).with_request(deletion_request(cascade));
    let expected_message = if cascade.deletes_objects() {
        "successfully deleted"
    } else {
        "successfully deleted (its objects remain)"
    };
    Scenario { setup_syncs: vec![SyncSpec::new(manifests)], expected_message, ..scenario(name, sync) }
}

pub(super) fn all() -> Vec<Scenario> {
    let wave = |wave| ("argocd.argoproj.io/sync-wave", wave);
    let option = |option| ("argocd.argoproj.io/sync-options", option);
    let helm = |hook| [("helm.sh/hook", hook), ("helm.sh/hook-delete-policy", "hook-succeeded")];
    let whole = [
        hook("backup", "PreSync", &[]),
        config_map("first", "-1"),
        config_map("second", "0"),
        deployment("third", "1", &[]),
        config_map("fourth", "2"),
        annotated_config_map("kept", &[option("Delete=false"), wave("1")]),
        annotated_config_map("kept-by-helm", &[("helm.sh/resource-policy", "keep"), wave("3")]),
        hook("drain", "PreDelete", &[wave("1")]),
        hook("farewell", "PreDelete", &[wave("2"), KEEP_NOTHING]),
        hook("report", "PostDelete", &[]),
        object_yaml("batch/v1", "Job", "tidy", &helm("post-delete"), JOB),
    ]
    .concat();
    let asked = [
        config_map("first", "0"),
        annotated_config_map("second", &[option("Delete=confirm"), wave("1")]),
        config_map("third", "2"),
    ]
    .concat();
    let namespace = object_yaml("v1", "Namespace", "store", &[wave("5")], "");
    let inside = annotated_config_map("inside", &[])
        .replace("  name: inside\n", "  name: inside\n  namespace: store\n");
    let fails = [config_map("first", "0"), hook("drain", "PreDelete", &[FAILS])].concat();
    let again =
        [config_map("first", "0"), config_map("second", "1"), hook("drain", "PreDelete", &[FAILS_ONCE])]
            .concat();
    let left_over = [config_map("first", "0"), hook("report", "PostDelete", &[FAILS])].concat();
    vec![
        deletion_scenario("delete", &whole, Cascade::Foreground),
        Scenario {
            actions: vec![UserAction {
                trigger: |view| view.message.starts_with("waiting for pruning confirmation"),
                kind: UserActionKind::ApprovePrunes,
            }],
            ..deletion_scenario("delete-confirm", &asked, Cascade::Background)
        },
        deletion_scenario("delete-orphan", &whole, Cascade::Orphan),
        deletion_scenario(
            "delete-namespace",
            &[namespace, inside, config_map("first", "7")].concat(),
            Cascade::Foreground,
        ),
        Scenario {
            setup_syncs: vec![SyncSpec::new(&fails)],
            ..failing_scenario(
                "delete-refused-by-hook",
                SyncSpec::new(&fails).with_request(deletion_request(Cascade::Foreground)),
                "PreDelete hook(s) failed: ",
            )
        },
        Scenario {
            setup_syncs: vec![SyncSpec::new(&again)],
            expected_message: "successfully deleted (retried 1 times).",
            ..scenario(
                "delete-retry",
                SyncSpec::new(&again).with_request(|request| {
                    deletion_request(Cascade::Foreground)(request);
                    request.retry = retry_policy(1);
                }),
            )
        },
        Scenario {
            setup_syncs: vec![SyncSpec::new(&left_over)],
            ..failing_scenario(
                "delete-fails-at-its-end",
                SyncSpec::new(&left_over).with_request(deletion_request(Cascade::Foreground)),
                "PostDelete hook(s) failed: ",
            )
        },
    ]
}
