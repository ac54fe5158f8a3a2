//! Self-heal of managed Applications, and its effect on hooks.

use std::fs;

use crate::fleet::Fleet;

/// The unchanged migration of the example, and two hooks that declare the operations in which they run.
const HOOKS: [(&str, Option<&str>); 3] =
    [("migrate", None), ("check", Some("sync,selfheal")), ("mend", Some("selfheal"))];

fn hook(name: &str, on: Option<&str>) -> String {
    let on = on.map(|on| format!("\n    tidegate.dev/hook-on: {on}")).unwrap_or_default();
    format!(
        "apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  annotations:
    argocd.argoproj.io/hook: PreSync
    argocd.argoproj.io/hook-delete-policy: BeforeHookCreation{on}
spec:
  template:
    spec: {{restartPolicy: Never, containers: [{{name: main, image: busybox}}]}}
"
    )
}

#[test]
fn a_self_heal_runs_only_the_hooks_that_request_it() {
    let fleet = Fleet::new();
    let hooks = HOOKS.map(|(name, on)| hook(name, on)).join("---\n");
    fs::write(fleet.path("repo/backend/migrate.yaml"), hooks).unwrap();
    fleet.commit();
    let service = fleet.serve();
    fleet.wait_until_synced(&["backend"]);
    let ran = || HOOKS.map(|(name, _)| fleet.creations("Job", name).len());
    assert_eq!(ran(), [1, 1, 0], "the sync");
    for heals in 1..3 {
        fleet.bench.run(&["sim", "delete", "apps:Deployment:fleet/backend"]).expect_code(0);
        fleet.wait_until("backend", |app| {
            let state = &app["status"]["operationState"];
            state["operation"]["sync"]["autoHealAttemptsCount"].is_u64()
                && state["phase"] == "Succeeded"
                && fleet.creations("Deployment", "backend").len() == heals + 1
        });
        fleet.wait_until_synced(&["backend"]);
        assert_eq!(ran(), [1, 1 + heals, heals], "self-heal {heals}");
    }
    // The hooks run before their phase, as in any sync.
    let made = |kind, name| *fleet.creations(kind, name).last().unwrap();
    assert!(made("Job", "check") < made("Deployment", "backend"));
    assert!(made("Job", "mend") < made("Deployment", "backend"));
    Fleet::stop(service);
}
