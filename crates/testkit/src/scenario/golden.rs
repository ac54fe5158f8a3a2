//! The golden operations themselves.

use std::time::Duration;

use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{OperationPhase, Override, WaitFor};

use super::{Act, Scenario, Sync, What, deletions, retries};

/// An object with annotations, as YAML.
pub(super) fn object(api: &str, kind: &str, name: &str, annotations: &[(&str, &str)], body: &str) -> String {
    let mut text = format!("apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {name}\n");
    if !annotations.is_empty() {
        text.push_str("  annotations:\n");
        for (key, value) in annotations {
            text.push_str(&format!("    {key}: {value:?}\n"));
        }
    }
    format!("{text}{body}\n---\n")
}

pub(super) fn config(name: &str, wave: &str) -> String {
    object("v1", "ConfigMap", name, &[("argocd.argoproj.io/sync-wave", wave)], "data: {a: b}")
}

pub(super) fn config_with(name: &str, annotations: &[(&str, &str)]) -> String {
    object("v1", "ConfigMap", name, annotations, "data: {a: b}")
}

pub(super) fn server(name: &str, wave: &str, more: &[(&str, &str)]) -> String {
    let mut annotations = vec![("argocd.argoproj.io/sync-wave", wave)];
    annotations.extend_from_slice(more);
    let body = format!(
        "spec:\n  replicas: 1\n  selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata: {{labels: \
         {{app: {name}}}}}\n    spec: {{containers: [{{name: main, image: busybox}}]}}"
    );
    object("apps/v1", "Deployment", name, &annotations, &body)
}

pub(super) const JOB: &str = "spec:\n  backoffLimit: 0\n  template:\n    spec: {restartPolicy: Never, containers: [{name: main, image: busybox}]}";

pub(super) fn hook(name: &str, phase: &str, more: &[(&str, &str)]) -> String {
    let mut annotations = vec![("argocd.argoproj.io/hook", phase)];
    annotations.extend_from_slice(more);
    object("batch/v1", "Job", name, &annotations, JOB)
}

pub(super) const KEEP_NOTHING: (&str, &str) =
    ("argocd.argoproj.io/hook-delete-policy", "BeforeHookCreation,HookSucceeded");
const ON_FAILURE: (&str, &str) = ("argocd.argoproj.io/hook-delete-policy", "HookFailed");
pub(super) const FAILS: (&str, &str) = ("sim.tidegate.dev/outcome", "fail");
pub(super) const FAILS_ONCE: (&str, &str) = ("sim.tidegate.dev/fail-times", "1");

pub(super) fn scenario(name: &'static str, sync: Sync) -> Scenario {
    Scenario {
        name,
        before: Vec::new(),
        sync,
        script: Vec::new(),
        ends: OperationPhase::Succeeded,
        says: "successfully synced",
    }
}

pub(super) fn failing(name: &'static str, sync: Sync, says: &'static str) -> Scenario {
    Scenario { ends: OperationPhase::Failed, says, ..scenario(name, sync) }
}

fn hooks_of_all_phases() -> String {
    [
        hook("check", "PreSync", &[("argocd.argoproj.io/sync-wave", "-1")]),
        hook("backup", "PreSync", &[KEEP_NOTHING]),
        config("settings", "0"),
        server("api", "1", &[]),
        hook("migrate", "Sync", &[("argocd.argoproj.io/sync-wave", "1")]),
        server("web", "2", &[]),
        hook("smoke", "PostSync", &[KEEP_NOTHING]),
        hook("report", "PostSync", &[ON_FAILURE, ("argocd.argoproj.io/sync-wave", "1")]),
        hook("rescue", "SyncFail", &[]),
    ]
    .concat()
}

/// Hooks of which no second one can be tried beside the first by another name, or not by any.
fn awkward_hooks() -> String {
    let service = "spec: {type: NodePort, ports: [{port: 80, nodePort: 30080}]}";
    [
        definition("Door", &[("argocd.argoproj.io/hook", "PreSync"), ("argocd.argoproj.io/sync-wave", "-1")]),
        hook("a-job-whose-name-leaves-no-room-for-anything-to-be-put-behind", "PreSync", &[]),
        object("v1", "Service", "door", &[("argocd.argoproj.io/hook", "PostSync")], service),
        config("a", "0"),
    ]
    .concat()
}

fn definition(kind: &str, annotations: &[(&str, &str)]) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = "{openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}";
    let body = format!(
        "spec:\n  group: example.com\n  scope: Namespaced\n  names: {{kind: {kind}, plural: {plural}}}\n  versions:\n  - \
         {{name: v1, served: true, storage: true, schema: {schema}}}"
    );
    let name = format!("{plural}.example.com");
    object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &name, annotations, &body)
}

fn in_wave(view: &OperationView, index: usize, state: &str) -> bool {
    view.waves.get(index).is_some_and(|wave| wave.state == state)
}

/// All golden operations.
pub fn all() -> Vec<Scenario> {
    let mut all = plain();
    all.extend(hooks());
    all.extend(prunes());
    all.extend(failures());
    all.extend(people());
    all.extend(decisions());
    all.extend(special());
    all.extend(deletions::all());
    all
}

fn plain() -> Vec<Scenario> {
    let three = [config("a", "-1"), server("b", "0", &[]), config("c", "1"), server("d", "1", &[])].concat();
    let wide: String = (0..12).map(|n| config(&format!("c{n:02}"), if n < 6 { "0" } else { "1" })).collect();
    vec![
        scenario("waves", Sync::of(&three)),
        scenario("waves-until-healthy", Sync::of(&three).with(|request| request.wait = WaitFor::Healthy)),
        scenario("wide", Sync::of(&wide)),
        Scenario { before: vec![Sync::of(&three)], ..scenario("second-sync", Sync::of(&three)) },
        Scenario { before: vec![Sync::of(&forced("a"))], ..scenario("force", Sync::of(&forced("b"))) },
        scenario("dry-run", Sync::of(&three).with(|request| request.options.dry_run = true)),
    ]
}

/// A resource whose change no write can make, so it is made anew.
fn forced(image: &str) -> String {
    let force = [("argocd.argoproj.io/sync-options", "Force=true")];
    object("batch/v1", "Job", "load", &force, &JOB.replace("busybox", image))
}

fn hooks() -> Vec<Scenario> {
    let all = hooks_of_all_phases();
    let generated = all
        .replace("  name: backup", "  generateName: backup-")
        .replace("  name: smoke", "  generateName: smoke-");
    let awkward = Sync::of(&awkward_hooks());
    vec![
        scenario("hooks", Sync::of(&all)),
        Scenario { before: vec![awkward.clone()], ..scenario("awkward-hooks-again", awkward) },
        Scenario { before: vec![Sync::of(&all)], ..scenario("hooks-again", Sync::of(&all)) },
        scenario("generate-name", Sync::of(&generated)),
    ]
    .into_iter()
    .chain(hooks_in_two_phases())
    .collect()
}

/// Hooks of one name that run in two phases.
fn hooks_in_two_phases() -> Vec<Scenario> {
    let settings = config("settings", "0");
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
            Sync::of(&[hook("notify", "PreSync,PostSync", &[]), settings.clone()].concat()),
        ),
        scenario(
            "helm-hook-in-two-phases",
            Sync::of(&[object("batch/v1", "Job", "both", &helm, JOB), settings].concat()),
        ),
        failing("hook-in-sync-and-sync-fail", Sync::of(&failing_hook), "completed unsuccessfully"),
    ]
}

fn prunes() -> Vec<Scenario> {
    let before: String = ["1", "2", "3"]
        .iter()
        .map(|wave| config(&format!("old-{wave}"), wave))
        .chain([server("old", "2", &[])])
        .collect();
    let after = config("new", "2");
    let sync = || Sync::of(&after).with(|request| request.options.prune = true);
    let last =
        |request: &mut tidegate_model::SyncRequest| request.options.flags.push("PruneLast=true".into());
    let confirmed = before.replace(
        "name: old-2\n  annotations:\n",
        "name: old-2\n  annotations:\n    argocd.argoproj.io/sync-options: Prune=confirm\n",
    );
    vec![
        Scenario { before: vec![Sync::of(&before)], ..scenario("prune", sync()) },
        Scenario { before: vec![Sync::of(&before)], ..scenario("prune-last", sync().with(last)) },
        Scenario { before: vec![Sync::of(&before)], ..scenario("prune-not-asked", Sync::of(&after)) },
        Scenario {
            before: vec![Sync::of(&confirmed)],
            script: vec![Act {
                when: |view| view.message.starts_with("waiting for pruning confirmation"),
                what: What::Confirm,
            }],
            ..scenario("prune-confirm", sync())
        },
    ]
}

fn failures() -> Vec<Scenario> {
    let rescue = hook("rescue", "SyncFail", &[KEEP_NOTHING]);
    let failing_hook =
        [config("a", "-1"), hook("migrate", "Sync", &[FAILS, ON_FAILURE]), config("b", "1")].concat();
    let retried = [
        hook("backup", "PreSync", &[]),
        config("a", "-1"),
        hook("migrate", "Sync", &[FAILS_ONCE]),
        server("api", "0", &[]),
        config("b", "1"),
    ]
    .concat();
    let broken = [
        config("a", "0"),
        object(
            "v1",
            "Service",
            "broken",
            &[("argocd.argoproj.io/sync-wave", "1")],
            "spec: {ports: [{port: 80}]}",
        ),
        server("never", "2", &[("sim.tidegate.dev/outcome", "fail")]),
        config("after", "3"),
    ]
    .concat();
    vec![
        failing("failing-hook", Sync::of(&failing_hook), "completed unsuccessfully"),
        failing("sync-fail", Sync::of(&[failing_hook, rescue.clone()].concat()), "completed unsuccessfully"),
        failing("degraded", Sync::of(&[broken, rescue.clone()].concat()), "completed unsuccessfully"),
        scenario("retry", Sync::of(&retried).with(|request| request.retry = retries(2))),
        scenario(
            "retry-restart",
            Sync::of(&retried).with(|request| {
                request.retry = retries(2);
                request.retry.restart = true;
            }),
        ),
        failing(
            "retries-used-up",
            Sync::of(&[hook("migrate", "PreSync", &[FAILS]), rescue].concat())
                .with(|request| request.retry = retries(1)),
            "(retried 1 times)",
        ),
    ]
}

fn people() -> Vec<Scenario> {
    let slow = ("sim.tidegate.dev/ready-after", "1h");
    let long = [config("a", "-1"), hook("migrate", "Sync", &[slow]), server("api", "1", &[])].concat();
    let waits =
        [config("a", "0"), server("api", "1", &[("sim.tidegate.dev/ready-after", "30s")]), config("b", "2")]
            .concat();
    let late_wave = server(
        "api",
        "1",
        &[("sim.tidegate.dev/outcome", "never-ready"), ("tidegate.dev/wave-timeout", "1m")],
    );
    let rescue = hook("rescue", "SyncFail", &[]);
    vec![
        Scenario {
            script: vec![Act { when: |view| in_wave(view, 1, "AwaitingHealth"), what: What::Terminate }],
            ..failing("terminate", Sync::of(&long), "Operation terminated")
        },
        Scenario {
            script: vec![
                Act { when: |view| in_wave(view, 1, "AwaitingHealth"), what: What::Pause },
                Act { when: |view| view.paused_by.is_some(), what: What::Unpause },
            ],
            ..scenario("pause", Sync::of(&waits))
        },
        failing(
            "wave-deadline",
            Sync::of(&[config("a", "0"), late_wave, config("b", "2"), rescue].concat()),
            "did not pass within 1 min",
        ),
        failing(
            "hook-deadline",
            Sync::of(
                &[hook("migrate", "PreSync", &[slow, ("tidegate.dev/timeout", "90s")]), config("a", "0")]
                    .concat(),
            ),
            "completed unsuccessfully",
        ),
        failing(
            "operation-deadline",
            Sync::of(&long).with(|request| request.deadline = Some(Duration::from_secs(300))),
            "triggered by the operation deadline of 5 min",
        ),
    ]
}

fn is_known(view: &OperationView, name: &str) -> bool {
    view.resources.iter().any(|result| result.name == name)
}

/// Somebody skips a hook that runs too long, marks as done what never becomes healthy, or has a failed hook tried again
/// while another one runs.
fn decisions() -> Vec<Scenario> {
    let slow = ("sim.tidegate.dev/ready-after", "1h");
    let soon = ("sim.tidegate.dev/ready-after", "5m");
    let stuck = [hook("stuck", "PreSync", &[slow]), config("a", "0")].concat();
    let never = server("never", "0", &[("sim.tidegate.dev/outcome", "never-ready")]);
    let failed = |view: &OperationView| {
        let flaky = |result: &tidegate_model::ResourceResult| {
            result.name == "flaky" && result.hook_phase == Some(OperationPhase::Failed)
        };
        // Whoever has asked once asks again when the answer was lost, and is refused.
        view.resources.iter().any(|result| flaky(result) || result.overridden.is_some())
    };
    let flaky = [hook("flaky", "PreSync", &[FAILS_ONCE]), hook("slow", "PreSync", &[soon]), config("a", "0")];
    vec![
        Scenario {
            script: vec![Act {
                when: |view| is_known(view, "stuck"),
                what: What::Override(Override::Skip, "Job/stuck"),
            }],
            ..scenario("skipped-hook", Sync::of(&stuck))
        },
        Scenario {
            script: vec![Act {
                when: |view| is_known(view, "stuck"),
                what: What::Override(Override::MarkDone, "Job/stuck"),
            }],
            ..scenario("hook-marked-as-done", Sync::of(&stuck))
        },
        Scenario {
            script: vec![Act {
                when: |view| is_known(view, "never"),
                what: What::Override(Override::Skip, "Deployment/never"),
            }],
            ..scenario("skipped-resource", Sync::of(&[never, config("b", "1")].concat()))
        },
        Scenario {
            script: vec![Act { when: failed, what: What::Override(Override::Retry, "Job/flaky") }],
            ..scenario("hook-tried-again", Sync::of(&flaky.concat()))
        },
    ]
}

fn special() -> Vec<Scenario> {
    let widgets = definition("Widget", &[("argocd.argoproj.io/sync-wave", "1")]);
    let widget = |name: &str, wave: &str| {
        object("example.com/v1", "Widget", name, &[("argocd.argoproj.io/sync-wave", wave)], "spec: {size: 1}")
    };
    let namespace = object("v1", "Namespace", "store", &[("argocd.argoproj.io/sync-wave", "5")], "");
    let inside =
        config_with("inside", &[]).replace("  name: inside\n", "  name: inside\n  namespace: store\n");
    let selected = [hook("backup", "PreSync", &[]), config("a", "0"), config("b", "1")].concat();
    vec![
        scenario(
            "definition-and-resource",
            Sync::of(&[widgets, widget("one", "0"), widget("two", "1")].concat()),
        ),
        scenario("namespace", Sync::of(&[namespace, inside, config("a", "0")].concat())),
        scenario(
            "created-namespace",
            Sync::of(&[config("a", "0"), hook("backup", "PreSync", &[])].concat()).with(|request| {
                request.namespace = "fresh".into();
                request.options.flags.push("CreateNamespace=true".into());
            }),
        ),
        scenario(
            "selective",
            Sync::of(&selected)
                .with(|request| request.selection = vec![":ConfigMap:a".parse().expect("a selector")]),
        ),
        scenario(
            "helm-hooks",
            Sync::of(
                &[
                    object(
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
                    object("batch/v1", "Job", "post", &[("helm.sh/hook", "post-install")], JOB),
                    config("a", "0"),
                ]
                .concat(),
            ),
        ),
    ]
}
