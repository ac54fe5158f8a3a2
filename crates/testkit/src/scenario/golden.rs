//! List of all golden operations.

use std::time::Duration;

use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{OperationPhase, Override, WaitFor};

use super::manifests::{
    FAILS, FAILS_ONCE, JOB, KEEP_NOTHING, ON_FAILURE, annotated_config_map, config_map, definition,
    deployment, hook, object_yaml,
};
use super::{
    Scenario, SyncSpec, UserAction, UserActionKind, deletions, failing_scenario, retry_policy, scenario,
};

fn hooks_of_all_phases() -> String {
    [
        hook("check", "PreSync", &[("argocd.argoproj.io/sync-wave", "-1")]),
        hook("backup", "PreSync", &[KEEP_NOTHING]),
        config_map("settings", "0"),
        deployment("api", "1", &[]),
        hook("migrate", "Sync", &[("argocd.argoproj.io/sync-wave", "1")]),
        deployment("web", "2", &[]),
        hook("smoke", "PostSync", &[KEEP_NOTHING]),
        hook("report", "PostSync", &[ON_FAILURE, ("argocd.argoproj.io/sync-wave", "1")]),
        hook("rescue", "SyncFail", &[]),
    ]
    .concat()
}

/// Returns hooks that can't be dry-run under a different name: the name is fixed or too long, or the server
/// rejects a second object.
fn hooks_without_second_object() -> String {
    let service = "spec: {type: NodePort, ports: [{port: 80, nodePort: 30080}]}";
    [
        definition("Door", &[("argocd.argoproj.io/hook", "PreSync"), ("argocd.argoproj.io/sync-wave", "-1")]),
        hook("a-job-whose-name-leaves-no-room-for-anything-to-be-put-behind", "PreSync", &[]),
        object_yaml("v1", "Service", "door", &[("argocd.argoproj.io/hook", "PostSync")], service),
        config_map("a", "0"),
    ]
    .concat()
}

fn is_in_wave(view: &OperationView, index: usize, state: &str) -> bool {
    view.waves.get(index).is_some_and(|wave| wave.state == state)
}

/// Returns all golden operations.
pub fn all() -> Vec<Scenario> {
    let mut all = basic_scenarios();
    all.extend(hook_scenarios());
    all.extend(prune_scenarios());
    all.extend(dependency_scenarios());
    all.extend(failure_scenarios());
    all.extend(user_action_scenarios());
    all.extend(decision_scenarios());
    all.extend(special_scenarios());
    all.extend(deletions::all());
    all
}

fn basic_scenarios() -> Vec<Scenario> {
    let three =
        [config_map("a", "-1"), deployment("b", "0", &[]), config_map("c", "1"), deployment("d", "1", &[])]
            .concat();
    let wide: String =
        (0..12).map(|n| config_map(&format!("c{n:02}"), if n < 6 { "0" } else { "1" })).collect();
    vec![
        scenario("waves", SyncSpec::new(&three)),
        scenario(
            "waves-until-healthy",
            SyncSpec::new(&three).with_request(|request| request.wait = WaitFor::Healthy),
        ),
        scenario("wide", SyncSpec::new(&wide)),
        Scenario {
            setup_syncs: vec![SyncSpec::new(&three)],
            ..scenario("second-sync", SyncSpec::new(&three))
        },
        Scenario {
            setup_syncs: vec![SyncSpec::new(&resource_to_recreate("a"))],
            ..scenario("force", SyncSpec::new(&resource_to_recreate("b")))
        },
        scenario("dry-run", SyncSpec::new(&three).with_request(|request| request.options.dry_run = true)),
    ]
}

/// Returns a resource that must be recreated, because an update can't make the change.
fn resource_to_recreate(image: &str) -> String {
    let force = [("argocd.argoproj.io/sync-options", "Force=true")];
    object_yaml("batch/v1", "Job", "load", &force, &JOB.replace("busybox", image))
}

fn hook_scenarios() -> Vec<Scenario> {
    let all = hooks_of_all_phases();
    let generated = all
        .replace("  name: backup", "  generateName: backup-")
        .replace("  name: smoke", "  generateName: smoke-");
    let awkward = SyncSpec::new(&hooks_without_second_object());
    vec![
        scenario("hooks", SyncSpec::new(&all)),
        Scenario { setup_syncs: vec![awkward.clone()], ..scenario("awkward-hooks-again", awkward) },
        Scenario { setup_syncs: vec![SyncSpec::new(&all)], ..scenario("hooks-again", SyncSpec::new(&all)) },
        scenario("generate-name", SyncSpec::new(&generated)),
    ]
    .into_iter()
    .chain(two_phase_hook_scenarios())
    .collect()
}

/// Returns scenarios with hooks of the same name in two phases.
fn two_phase_hook_scenarios() -> Vec<Scenario> {
    let settings = config_map("settings", "0");
    let helm = [
        ("helm.sh/hook", "pre-install,post-install"),
        ("helm.sh/hook-delete-policy", "hook-succeeded"),
        ("argocd.argoproj.io/sync-wave", "0"),
    ];
    let later = ("argocd.argoproj.io/sync-wave", "1");
    let failing_hook =
        [hook("tidy", "Sync,SyncFail", &[]), hook("migrate", "Sync", &[FAILS, later])].concat();
    vec![
        scenario(
            "hook-in-two-phases",
            SyncSpec::new(&[hook("notify", "PreSync,PostSync", &[]), settings.clone()].concat()),
        ),
        scenario(
            "helm-hook-in-two-phases",
            SyncSpec::new(&[object_yaml("batch/v1", "Job", "both", &helm, JOB), settings].concat()),
        ),
        failing_scenario(
            "hook-in-sync-and-sync-fail",
            SyncSpec::new(&failing_hook),
            "completed unsuccessfully",
        ),
    ]
}

/// Manifests of the example with dependencies: twelve objects, without waves.
pub const DEPENDENCY_GRAPH: &str = include_str!("../../../../examples/graph/graph.yaml");

/// Returns objects with dependencies, against the order of their kinds and names.
fn objects_with_dependencies(outcome: &[(&str, &str)]) -> String {
    const ON: &str = "tidegate.dev/depends-on";
    [
        annotated_config_map("settings", &[(ON, "apps:Deployment:z-database")]),
        deployment("api", "0", &[(ON, "batch:Job:migrate, :ConfigMap:settings")]),
        deployment("other", "0", &[]),
        deployment("z-database", "0", outcome),
        hook("migrate", "Sync", &[(ON, "apps:Deployment:z-database"), KEEP_NOTHING]),
        hook("smoke", "Sync", &[(ON, "apps:Deployment:api")]),
        deployment("last", "1", &[]),
    ]
    .concat()
}

fn dependency_scenarios() -> Vec<Scenario> {
    let all = objects_with_dependencies(&[]);
    let never = objects_with_dependencies(&[
        ("sim.tidegate.dev/outcome", "never-ready"),
        ("tidegate.dev/wave-timeout", "1m"),
    ]);
    let pruning = SyncSpec::new(&config_map("new", "0")).with_request(|request| request.options.prune = true);
    vec![
        scenario("dependencies", SyncSpec::new(&all)),
        Scenario { setup_syncs: vec![SyncSpec::new(&all)], ..scenario("dependencies-pruned", pruning) },
        scenario("dependency-graph", SyncSpec::new(DEPENDENCY_GRAPH)),
        failing_scenario("dependency-late", SyncSpec::new(&never), "did not complete within 1 min"),
    ]
}

fn prune_scenarios() -> Vec<Scenario> {
    let before: String = ["1", "2", "3"]
        .iter()
        .map(|wave| config_map(&format!("old-{wave}"), wave))
        .chain([deployment("old", "2", &[])])
        .collect();
    let after = config_map("new", "2");
    let sync = || SyncSpec::new(&after).with_request(|request| request.options.prune = true);
    let last =
        |request: &mut tidegate_model::SyncRequest| request.options.flags.push("PruneLast=true".into());
    let confirmed = before.replace(
        "name: old-2\n  annotations:\n",
        "name: old-2\n  annotations:\n    argocd.argoproj.io/sync-options: Prune=confirm\n",
    );
    vec![
        Scenario { setup_syncs: vec![SyncSpec::new(&before)], ..scenario("prune", sync()) },
        Scenario {
            setup_syncs: vec![SyncSpec::new(&before)],
            ..scenario("prune-last", sync().with_request(last))
        },
        Scenario {
            setup_syncs: vec![SyncSpec::new(&before)],
            ..scenario("prune-not-asked", SyncSpec::new(&after))
        },
        Scenario {
            setup_syncs: vec![SyncSpec::new(&confirmed)],
            actions: vec![UserAction {
                trigger: |view| view.message.starts_with("waiting for pruning confirmation"),
                kind: UserActionKind::ApprovePrunes,
            }],
            ..scenario("prune-confirm", sync())
        },
    ]
}

fn failure_scenarios() -> Vec<Scenario> {
    let rescue = hook("rescue", "SyncFail", &[KEEP_NOTHING]);
    let failing_hook =
        [config_map("a", "-1"), hook("migrate", "Sync", &[FAILS, ON_FAILURE]), config_map("b", "1")].concat();
    let retried = [
        hook("backup", "PreSync", &[]),
        config_map("a", "-1"),
        hook("migrate", "Sync", &[FAILS_ONCE]),
        deployment("api", "0", &[]),
        config_map("b", "1"),
    ]
    .concat();
    let broken = [
        config_map("a", "0"),
        object_yaml(
            "v1",
            "Service",
            "broken",
            &[("argocd.argoproj.io/sync-wave", "1")],
            "spec: {ports: [{port: 80}]}",
        ),
        deployment("never", "2", &[("sim.tidegate.dev/outcome", "fail")]),
        config_map("after", "3"),
    ]
    .concat();
    vec![
        failing_scenario("failing-hook", SyncSpec::new(&failing_hook), "completed unsuccessfully"),
        failing_scenario(
            "sync-fail",
            SyncSpec::new(&[failing_hook, rescue.clone()].concat()),
            "completed unsuccessfully",
        ),
        failing_scenario(
            "degraded",
            SyncSpec::new(&[broken, rescue.clone()].concat()),
            "completed unsuccessfully",
        ),
        scenario("retry", SyncSpec::new(&retried).with_request(|request| request.retry = retry_policy(2))),
        scenario(
            "retry-restart",
            SyncSpec::new(&retried).with_request(|request| {
                request.retry = retry_policy(2);
                request.retry.restart = true;
            }),
        ),
        failing_scenario(
            "retries-used-up",
            SyncSpec::new(&[hook("migrate", "PreSync", &[FAILS]), rescue].concat())
                .with_request(|request| request.retry = retry_policy(1)),
            "(retried 1 times)",
        ),
    ]
}

fn user_action_scenarios() -> Vec<Scenario> {
    let slow = ("sim.tidegate.dev/ready-after", "1h");
    let long =
        [config_map("a", "-1"), hook("migrate", "Sync", &[slow]), deployment("api", "1", &[])].concat();
    let waits = [
        config_map("a", "0"),
        deployment("api", "1", &[("sim.tidegate.dev/ready-after", "30s")]),
        config_map("b", "2"),
    ]
    .concat();
    let late_wave = deployment(
        "api",
        "1",
        &[("sim.tidegate.dev/outcome", "never-ready"), ("tidegate.dev/wave-timeout", "1m")],
    );
    let rescue = hook("rescue", "SyncFail", &[]);
    vec![
        Scenario {
            actions: vec![UserAction {
                trigger: |view| is_in_wave(view, 1, "AwaitingHealth"),
                kind: UserActionKind::Terminate,
            }],
            ..failing_scenario("terminate", SyncSpec::new(&long), "Operation terminated")
        },
        Scenario {
            actions: vec![
                UserAction {
                    trigger: |view| is_in_wave(view, 1, "AwaitingHealth"),
                    kind: UserActionKind::Pause,
                },
                UserAction { trigger: |view| view.paused_by.is_some(), kind: UserActionKind::Resume },
            ],
            ..scenario("pause", SyncSpec::new(&waits))
        },
        failing_scenario(
            "wave-deadline",
            SyncSpec::new(&[config_map("a", "0"), late_wave, config_map("b", "2"), rescue].concat()),
            "did not complete within 1 min",
        ),
        failing_scenario(
            "hook-deadline",
            SyncSpec::new(
                &[hook("migrate", "PreSync", &[slow, ("tidegate.dev/timeout", "90s")]), config_map("a", "0")]
                    .concat(),
            ),
            "completed unsuccessfully",
        ),
        failing_scenario(
            "operation-deadline",
            SyncSpec::new(&long).with_request(|request| request.deadline = Some(Duration::from_secs(300))),
            "triggered by the operation deadline of 5 min",
        ),
    ]
}

fn has_resource(view: &OperationView, name: &str) -> bool {
    view.resources.iter().any(|result| result.name == name)
}

/// Returns scenarios in which a user intervenes: skips a slow hook or marks it as done, skips an object that
/// never becomes healthy, or retries a failed hook while another is running.
fn decision_scenarios() -> Vec<Scenario> {
    let slow = ("sim.tidegate.dev/ready-after", "1h");
    let soon = ("sim.tidegate.dev/ready-after", "5m");
    let stuck = [hook("stuck", "PreSync", &[slow]), config_map("a", "0")].concat();
    let never = deployment("never", "0", &[("sim.tidegate.dev/outcome", "never-ready")]);
    let failed = |view: &OperationView| {
        let flaky = |result: &tidegate_model::ResourceResult| {
            result.name == "flaky" && result.hook_phase == Some(OperationPhase::Failed)
        };
        // A user who didn't get the response repeats the request, which is then rejected.
        view.resources.iter().any(|result| flaky(result) || result.overridden.is_some())
    };
    let flaky =
        [hook("flaky", "PreSync", &[FAILS_ONCE]), hook("slow", "PreSync", &[soon]), config_map("a", "0")];
    vec![
        Scenario {
            actions: vec![UserAction {
                trigger: |view| has_resource(view, "stuck"),
                kind: UserActionKind::Override(Override::Skip, "Job/stuck"),
            }],
            ..scenario("skipped-hook", SyncSpec::new(&stuck))
        },
        Scenario {
            actions: vec![UserAction {
                trigger: |view| has_resource(view, "stuck"),
                kind: UserActionKind::Override(Override::MarkDone, "Job/stuck"),
            }],
            ..scenario("hook-marked-as-done", SyncSpec::new(&stuck))
        },
        Scenario {
            actions: vec![UserAction {
                trigger: |view| has_resource(view, "never"),
                kind: UserActionKind::Override(Override::Skip, "Deployment/never"),
            }],
            ..scenario("skipped-resource", SyncSpec::new(&[never, config_map("b", "1")].concat()))
        },
        Scenario {
            actions: vec![UserAction {
                trigger: failed,
                kind: UserActionKind::Override(Override::Retry, "Job/flaky"),
            }],
            ..scenario("hook-tried-again", SyncSpec::new(&flaky.concat()))
        },
    ]
}

fn special_scenarios() -> Vec<Scenario> {
    let widgets = definition("Widget", &[("argocd.argoproj.io/sync-wave", "1")]);
    let widget = |name: &str, wave: &str| {
        object_yaml(
            "example.com/v1",
            "Widget",
            name,
            &[("argocd.argoproj.io/sync-wave", wave)],
            "spec: {size: 1}",
        )
    };
    let namespace = object_yaml("v1", "Namespace", "store", &[("argocd.argoproj.io/sync-wave", "5")], "");
    let inside = annotated_config_map("inside", &[])
        .replace("  name: inside\n", "  name: inside\n  namespace: store\n");
    let selected = [hook("backup", "PreSync", &[]), config_map("a", "0"), config_map("b", "1")].concat();
    vec![
        scenario(
            "definition-and-resource",
            SyncSpec::new(&[widgets, widget("one", "0"), widget("two", "1")].concat()),
        ),
        scenario("namespace", SyncSpec::new(&[namespace, inside, config_map("a", "0")].concat())),
        scenario(
            "created-namespace",
            SyncSpec::new(&[config_map("a", "0"), hook("backup", "PreSync", &[])].concat()).with_request(
                |request| {
                    request.namespace = "fresh".into();
                    request.options.flags.push("CreateNamespace=true".into());
                },
            ),
        ),
        scenario(
            "selective",
            SyncSpec::new(&selected).with_request(|request| {
                request.selection = vec![":ConfigMap:a".parse().expect("a selector")]
            }),
        ),
        scenario(
            "helm-hooks",
            SyncSpec::new(
                &[
                    object_yaml(
                        "batch/v1",
                        "Job",
                        "pre",
                        &[
                            ("helm.sh/hook", "pre-install,pre-upgrade"),
                            ("helm.sh/hook-weight", "-5"),
                            ("helm.sh/hook-delete-policy", "hook-succeeded"),
                        ],
                        JOB,
                    ),
                    object_yaml("batch/v1", "Job", "post", &[("helm.sh/hook", "post-install")], JOB),
                    config_map("a", "0"),
                ]
                .concat(),
            ),
        ),
    ]
}
