//! Hooks that run only if their inputs have changed. The log records each hook's last run, and the cluster's
//! audit log shows whether it runs again.

use std::sync::Arc;

use serde_json::json;
use tidegate_cluster::Cluster as _;
use tidegate_executor::Engine;
use tidegate_lifecycle::operation::Scope;
use tidegate_model::{OperationPhase, Override, SyncRequest};
use tidegate_oplog::Retention;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{FaultyCluster, Log, builder, external_write, hook, submit, wait_for_end, wait_until};

/// Inputs of a sync. `hook` changes the hook, `input` changes its declared input, and `other` changes an
/// undeclared object.
#[derive(Clone, Copy, Default)]
struct Inputs {
    hook: u32,
    input: u32,
    other: u32,
    /// Outcome of the hook: success by default, `fail`, or `never` for a hook that doesn't finish.
    outcome: &'static str,
}

const INITIAL_INPUTS: Inputs = Inputs { hook: 1, input: 1, other: 1, outcome: "" };
/// The outcome of a hook is part of its manifest.
const FAILING_INPUTS: Inputs = Inputs { outcome: "fail", ..INITIAL_INPUTS };
const STUCK_INPUTS: Inputs = Inputs { outcome: "never", ..INITIAL_INPUTS };

fn config_map(name: &str, value: u32) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{value: \"{value}\"}}\n---\n"
    )
}

fn sync(inputs: Inputs, phases: &str) -> SyncSpec {
    let version = inputs.hook.to_string();
    let mut annotations = vec![
        ("tidegate.dev/run-when", "inputs-changed"),
        ("tidegate.dev/inputs", ":ConfigMap:default/input"),
        ("example.com/version", version.as_str()),
    ];
    match inputs.outcome {
        "never" => annotations.push(("sim.tidegate.dev/ready-after", "10h")),
        "" => {}
        outcome => annotations.push(("sim.tidegate.dev/outcome", outcome)),
    }
    let job = hook("migrate", phases, &annotations);
    SyncSpec::new(&format!("{job}{}{}", config_map("input", inputs.input), config_map("other", inputs.other)))
}

struct Bench {
    cluster: Arc<FaultyCluster>,
    log: Log,
    engine: Engine,
}

impl Bench {
    async fn new() -> Self {
        let (cluster, log) = (FaultyCluster::reliable(), Log::new());
        let engine = builder(&cluster, &log).start().await.unwrap();
        Self { cluster, log, engine }
    }

    /// Runs an operation. Returns the number of hook runs, and true if the operation succeeded.
    async fn run(&self, sync: &SyncSpec) -> (usize, bool) {
        let before = self.cluster.creations_of("migrate");
        let id = submit(&self.engine, sync).await;
        let view = wait_for_end(&self.engine, id).await;
        (self.cluster.creations_of("migrate") - before, view.phase == OperationPhase::Succeeded)
    }

    /// Runs an operation with an endless hook, and a user's decision about the hook.
    async fn run_with_override(&self, what: Override) {
        let id = submit(&self.engine, &sync(STUCK_INPUTS, "PreSync")).await;
        wait_until(&self.engine, id, |view, _| view.message.contains("migrate")).await;
        let scope = Scope::parse(Some("Job/migrate"), None, None, None).unwrap();
        self.engine.override_tasks(id, what, scope, "ann", "it is done by hand").await.unwrap();
        assert_eq!(wait_for_end(&self.engine, id).await.phase, OperationPhase::Succeeded);
    }

    /// Stops the process, and starts another one on the same log.
    async fn restart(&mut self) {
        self.engine.shutdown().await;
        self.log = self.log.reopen();
        self.engine = builder(&self.cluster, &self.log).start().await.unwrap();
    }
}

const RAN: (usize, bool) = (1, true);
const SKIPPED: (usize, bool) = (0, true);
const FAILED: (usize, bool) = (1, false);

#[tokio::test(start_paused = true)]
async fn a_hook_runs_again_only_if_it_or_its_inputs_changed() {
    let mut bench = Bench::new().await;
    let table = [
        ("for the first time", INITIAL_INPUTS, RAN),
        ("nothing has changed", INITIAL_INPUTS, SKIPPED),
        ("an input that it does not name", Inputs { other: 2, ..INITIAL_INPUTS }, SKIPPED),
        ("an input that it names", Inputs { input: 2, ..INITIAL_INPUTS }, RAN),
        ("the same again", Inputs { input: 2, ..INITIAL_INPUTS }, SKIPPED),
        ("back to the inputs of the run before the last one", INITIAL_INPUTS, RAN),
        ("the hook itself", Inputs { hook: 2, ..INITIAL_INPUTS }, RAN),
        ("the same once more", Inputs { hook: 2, ..INITIAL_INPUTS }, SKIPPED),
    ];
    for (name, inputs, expected) in table {
        assert_eq!(bench.run(&sync(inputs, "PreSync")).await, expected, "{name}");
        // The new process knows the last run only from the log.
        bench.restart().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_runs_again_until_it_has_succeeded() {
    let bench = Bench::new().await;
    let table = [
        ("for the first time", FAILING_INPUTS, FAILED),
        ("it has failed", FAILING_INPUTS, FAILED),
        ("it is fixed", INITIAL_INPUTS, RAN),
        ("nothing has changed", INITIAL_INPUTS, SKIPPED),
        ("broken again", FAILING_INPUTS, FAILED),
        ("it succeeded once and has failed since", INITIAL_INPUTS, RAN),
    ];
    for (name, inputs, expected) in table {
        assert_eq!(bench.run(&sync(inputs, "PreSync")).await, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_several_phases_runs_again_until_it_has_succeeded_in_each() {
    let bench = Bench::new().await;
    let both = sync(INITIAL_INPUTS, "PreSync,PostSync");
    let mut broken = both.clone();
    broken.manifests.push_str(&hook("breaks", "Sync", &[("sim.tidegate.dev/outcome", "fail")]));
    assert_eq!(bench.run(&broken).await, FAILED, "before all others only");
    assert_eq!(bench.run(&both).await, (2, true));
    assert_eq!(bench.run(&both).await, SKIPPED);
}

#[tokio::test(start_paused = true)]
async fn operations_without_the_hook_do_not_change_its_last_run() {
    let changed = Inputs { input: 2, ..INITIAL_INPUTS };
    let dry: fn(&mut SyncRequest) = |request| request.options.dry_run = true;
    let one_object: fn(&mut SyncRequest) = |request| {
        request.selection = vec![":ConfigMap:input".parse().unwrap()];
    };
    let without_hooks: fn(&mut SyncRequest) = |request| request.options.skip_hooks = true;
    for (name, between) in [("dry", dry), ("selected", one_object), ("without hooks", without_hooks)] {
        let bench = Bench::new().await;
        assert_eq!(bench.run(&sync(INITIAL_INPUTS, "PreSync")).await, RAN, "{name}");
        assert_eq!(bench.run(&sync(changed, "PreSync").with_request(between)).await, SKIPPED, "{name}");
        assert_eq!(
            bench.run(&sync(INITIAL_INPUTS, "PreSync")).await,
            SKIPPED,
            "{name}: it ran with that last"
        );
        assert_eq!(bench.run(&sync(changed, "PreSync")).await, RAN, "{name}: it never ran with that");
    }
}

#[tokio::test(start_paused = true)]
async fn each_namespace_has_its_own_last_runs() {
    let bench = Bench::new().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}});
    bench.cluster.sim.apply(external_write(namespace.try_into().unwrap())).await.unwrap();
    let job = hook("migrate", "PreSync", &[("tidegate.dev/run-when", "inputs-changed")]);
    let here = SyncSpec::new(&format!("{job}{}", config_map("input", 1)));
    let there = here.clone().with_request(|request| request.namespace = "elsewhere".into());
    for (name, sync, expected) in [
        ("here", &here, RAN),
        ("there", &there, RAN),
        ("there again", &there, SKIPPED),
        ("here again", &here, SKIPPED),
    ] {
        assert_eq!(bench.run(sync).await, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_marked_as_done_counts_as_run_and_a_skipped_one_does_not() {
    for (what, takes_part) in [(Override::MarkDone, false), (Override::Skip, true)] {
        let bench = Bench::new().await;
        bench.run_with_override(what).await;
        let id = submit(&bench.engine, &sync(STUCK_INPUTS, "PreSync")).await;
        if takes_part {
            // The hook runs again and doesn't finish on its own, so terminate the operation.
            wait_until(&bench.engine, id, |_, _| bench.cluster.creations_of("migrate") == 2).await;
            bench.engine.terminate(id, "ann").await.unwrap();
        }
        let view = wait_for_end(&bench.engine, id).await;
        assert_eq!(view.phase == OperationPhase::Succeeded, !takes_part, "{what:?}: {}", view.message);
        assert_eq!(bench.cluster.creations_of("migrate"), 1 + usize::from(takes_part), "{what:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn compaction_forgets_last_runs() {
    let bench = Bench::new().await;
    assert_eq!(bench.run(&sync(INITIAL_INPUTS, "PreSync")).await, RAN);
    assert_eq!(bench.run(&sync(INITIAL_INPUTS, "PreSync")).await, SKIPPED);
    bench.engine.compact(Retention { history: 0, ..Retention::default() }).await.unwrap();
    assert_eq!(bench.run(&sync(INITIAL_INPUTS, "PreSync")).await, RAN);
    assert_eq!(bench.run(&sync(INITIAL_INPUTS, "PreSync")).await, SKIPPED);
}
