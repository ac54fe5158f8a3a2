//! Applications that are deleted.

use tidegate_model::{Cascade, SyncRequest};

use super::golden::{
    FAILS, FAILS_ONCE, JOB, KEEP_NOTHING, config, config_with, failing, hook, object, scenario, server,
};
use super::{Act, Scenario, Sync, What, retries};

fn deletion(cascade: Cascade) -> impl FnOnce(&mut SyncRequest) {
    move |request| {
        request.options.prune = true;
        request.deletion = Some(cascade);
    }
}

/// The same manifests synced, and then deleted.
fn deleted(name: &'static str, manifests: &str, cascade: Cascade) -> Scenario {
    let sync = Sync::of(manifests).with(deletion(cascade));
    let says =
        if cascade.deletes() { "successfully deleted" } else { "successfully deleted (its objects stay)" };
    Scenario { before: vec![Sync::of(manifests)], says, ..scenario(name, sync) }
}

pub(super) fn all() -> Vec<Scenario> {
    let wave = |wave| ("argocd.argoproj.io/sync-wave", wave);
    let option = |option| ("argocd.argoproj.io/sync-options", option);
    let helm = |hook| [("helm.sh/hook", hook), ("helm.sh/hook-delete-policy", "hook-succeeded")];
    let whole = [
        hook("backup", "PreSync", &[]),
        config("first", "-1"),
        config("second", "0"),
        server("third", "1", &[]),
        config("fourth", "2"),
        config_with("kept", &[option("Delete=false"), wave("1")]),
        config_with("kept-by-helm", &[("helm.sh/resource-policy", "keep"), wave("3")]),
        hook("drain", "PreDelete", &[wave("1")]),
        hook("farewell", "PreDelete", &[wave("2"), KEEP_NOTHING]),
        hook("report", "PostDelete", &[]),
        object("batch/v1", "Job", "tidy", &helm("post-delete"), JOB),
    ]
    .concat();
    let asked = [
        config("first", "0"),
        config_with("second", &[option("Delete=confirm"), wave("1")]),
        config("third", "2"),
    ]
    .concat();
    let namespace = object("v1", "Namespace", "store", &[wave("5")], "");
    let inside =
        config_with("inside", &[]).replace("  name: inside\n", "  name: inside\n  namespace: store\n");
    let fails = [config("first", "0"), hook("drain", "PreDelete", &[FAILS])].concat();
    let again =
        [config("first", "0"), config("second", "1"), hook("drain", "PreDelete", &[FAILS_ONCE])].concat();
    let left_over = [config("first", "0"), hook("report", "PostDelete", &[FAILS])].concat();
    vec![
        deleted("delete", &whole, Cascade::Foreground),
        Scenario {
            script: vec![Act {
                when: |view| view.message.starts_with("waiting for pruning confirmation"),
                what: What::Confirm,
            }],
            ..deleted("delete-confirm", &asked, Cascade::Background)
        },
        deleted("delete-orphan", &whole, Cascade::Orphan),
        deleted("delete-namespace", &[namespace, inside, config("first", "7")].concat(), Cascade::Foreground),
        Scenario {
            before: vec![Sync::of(&fails)],
            ..failing(
                "delete-refused-by-hook",
                Sync::of(&fails).with(deletion(Cascade::Foreground)),
                "PreDelete hook(s) failed: ",
            )
        },
        Scenario {
            before: vec![Sync::of(&again)],
            says: "successfully deleted (retried 1 times).",
            ..scenario(
                "delete-retry",
                Sync::of(&again).with(|request| {
                    deletion(Cascade::Foreground)(request);
                    request.retry = retries(1);
                }),
            )
        },
        Scenario {
            before: vec![Sync::of(&left_over)],
            ..failing(
                "delete-fails-at-its-end",
                Sync::of(&left_over).with(deletion(Cascade::Foreground)),
                "PostDelete hook(s) failed: ",
            )
        },
    ]
}
