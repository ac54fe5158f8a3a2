//! Random applications.

use std::fmt::Write as _;
use std::time::Duration;

use tidegate_model::{Backoff, RetryPolicy, WaitFor};

use super::rng::Rng;
use crate::scenario::SyncSpec;

/// Life of an application: a series of syncs.
#[derive(Clone)]
pub struct ApplicationLife {
    /// The syncs.
    pub syncs: Vec<SyncSpec>,
    /// Percentage of cluster calls that fail.
    pub faults_percent: u64,
    /// Percentage of steps after which the engine crashes.
    pub crashes_percent: u64,
    /// Percentage of steps after which a user acts.
    pub people_percent: u64,
}

/// Draws a random life.
pub fn draw_life(rng: &mut Rng) -> ApplicationLife {
    let count = 1 + rng.below(3);
    ApplicationLife {
        syncs: (0..count).map(|_| draw_sync(rng)).collect(),
        faults_percent: rng.pick(&[0, 0, 2, 8, 20]),
        crashes_percent: rng.pick(&[0, 1, 3, 10]),
        people_percent: rng.pick(&[0, 0, 1]),
    }
}

fn draw_sync(rng: &mut Rng) -> SyncSpec {
    let mut yaml = String::new();
    let objects = 1 + rng.below(10);
    for _ in 0..objects {
        draw_object(rng, &mut yaml);
    }
    if rng.percent(15) {
        draw_definition(rng, &mut yaml);
    }
    if rng.percent(15) {
        draw_namespace(rng, &mut yaml);
    }
    SyncSpec::new(&yaml).with_request(|request| {
        // Without a deadline, the operation might never finish.
        request.deadline = Some(Duration::from_secs(7200));
        request.options.prune = rng.percent(60);
        request.options.dry_run = rng.percent(5);
        request.options.skip_dry_run = rng.percent(20);
        request.options.prune_confirmed = rng.percent(50);
        request.wait = if rng.percent(30) { WaitFor::Healthy } else { WaitFor::Synced };
        request.wave_delay = rng.percent(15).then(|| Duration::from_secs(rng.below(4)));
        request.retry = RetryPolicy {
            limit: rng.pick(&[0, 0, 1, 3]),
            backoff: Backoff {
                duration: Duration::from_secs(1 + rng.below(5)),
                factor: 2,
                max: Duration::from_secs(30),
            },
            restart: rng.percent(20),
        };
        for flag in ["PruneLast=true", "ApplyOutOfSyncOnly=true", "CreateNamespace=true", "Replace=true"] {
            if rng.percent(8) {
                request.options.flags.push(flag.to_owned());
            }
        }
        if rng.percent(8) {
            request.selection.push(":ConfigMap:config-1".parse().unwrap());
        }
    })
}

fn draw_annotations(rng: &mut Rng, yaml: &mut String, hook: bool) {
    let mut add = |name: &str, value: &str| writeln!(yaml, "    {name}: {value:?}").unwrap();
    let wave = i64::try_from(rng.below(5)).unwrap() - 2;
    if rng.percent(80) {
        add("argocd.argoproj.io/sync-wave", &wave.to_string());
    }
    if hook {
        add(
            "argocd.argoproj.io/hook",
            rng.pick(&["PreSync", "PreSync", "Sync", "PostSync", "SyncFail", "PreSync,PostSync"]),
        );
        if rng.percent(60) {
            let policies = [
                "HookSucceeded",
                "HookFailed",
                "BeforeHookCreation,HookSucceeded",
                "BeforeHookCreation",
                "HookSucceeded,HookFailed",
            ];
            add("argocd.argoproj.io/hook-delete-policy", rng.pick(&policies));
        }
        if rng.percent(10) {
            add("tidegate.dev/timeout", "10m");
        }
        if rng.percent(10) {
            add("tidegate.dev/hook-runner", "runner");
        }
    } else if rng.percent(10) {
        add(
            "argocd.argoproj.io/sync-options",
            rng.pick(&[
                "Prune=false",
                "Prune=confirm",
                "PruneLast=true",
                "Replace=true",
                "Force=true,Replace=true",
            ]),
        );
    }
    if rng.percent(15) {
        add("tidegate.dev/wave-timeout", rng.pick(&["30s", "5m"]));
    }
    if rng.percent(8) {
        add("tidegate.dev/gate", "gate");
    }
    if rng.percent(15) {
        add("sim.tidegate.dev/outcome", rng.pick(&["fail", "never-ready", "crashloop"]));
    } else if rng.percent(10) {
        add("sim.tidegate.dev/fail-times", "1");
    }
    if rng.percent(40) {
        add("sim.tidegate.dev/ready-after", &format!("{}s", rng.below(60)));
    }
}

fn write_head(rng: &mut Rng, yaml: &mut String, api: &str, kind: &str, name: &str, hook: bool) {
    write!(
        yaml,
        "apiVersion: {api}\nkind: {kind}\nmetadata:\n  name: {name}\n  annotations:\n    drawn: \"yes\"\n"
    )
    .unwrap();
    draw_annotations(rng, yaml, hook);
}

const POD: &str = "{containers: [{name: main, image: busybox}]}";

fn draw_object(rng: &mut Rng, yaml: &mut String) {
    let number = rng.below(6);
    match rng.below(10) {
        0..=2 => {
            write_head(rng, yaml, "batch/v1", "Job", &format!("hook-{number}"), true);
            writeln!(yaml, "spec: {{backoffLimit: 0, template: {{spec: {{restartPolicy: Never, containers: [{{name: main, image: busybox}}]}}}}}}").unwrap();
        }
        3..=5 => {
            write_head(rng, yaml, "v1", "ConfigMap", &format!("config-{number}"), false);
            writeln!(yaml, "data: {{value: \"{}\"}}", rng.below(3)).unwrap();
        }
        6..=7 => {
            let name = format!("server-{number}");
            write_head(rng, yaml, "apps/v1", "Deployment", &name, false);
            let replicas = 1 + rng.below(3);
            writeln!(yaml, "spec: {{replicas: {replicas}, selector: {{matchLabels: {{app: {name}}}}}, template: {{metadata: {{labels: {{app: {name}}}}}, spec: {POD}}}}}").unwrap();
        }
        8 => {
            let name = format!("store-{number}");
            write_head(rng, yaml, "apps/v1", "StatefulSet", &name, false);
            writeln!(yaml, "spec: {{replicas: 1, serviceName: {name}, selector: {{matchLabels: {{app: {name}}}}}, template: {{metadata: {{labels: {{app: {name}}}}}, spec: {POD}}}}}").unwrap();
        }
        _ => {
            write_head(rng, yaml, "v1", "Service", &format!("service-{number}"), false);
            writeln!(
                yaml,
                "spec: {{type: {}, selector: {{app: a}}, ports: [{{port: 80}}]}}",
                rng.pick(&["ClusterIP", "LoadBalancer"])
            )
            .unwrap();
        }
    }
    yaml.push_str("---\n");
}

fn draw_definition(rng: &mut Rng, yaml: &mut String) {
    let wave = rng.below(3);
    writeln!(
        yaml,
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: widgets.example.com\n  annotations: {{argocd.argoproj.io/sync-wave: \"{wave}\"}}\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {{kind: Widget, plural: widgets}}\n  versions: [{{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object, x-kubernetes-preserve-unknown-fields: true}}}}}}]\n---"
    )
    .unwrap();
    for number in 0..=rng.below(2) {
        write_head(rng, yaml, "example.com/v1", "Widget", &format!("widget-{number}"), false);
        yaml.push_str("spec: {size: 1}\n---\n");
    }
}

fn draw_namespace(rng: &mut Rng, yaml: &mut String) {
    writeln!(yaml, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: inner\n---").unwrap();
    write_head(rng, yaml, "v1", "ConfigMap", "inner", false);
    let inside =
        yaml.replacen("  name: inner\n  annotations", "  name: inner\n  namespace: inner\n  annotations", 1);
    *yaml = inside;
    yaml.push_str("data: {a: b}\n---\n");
}
