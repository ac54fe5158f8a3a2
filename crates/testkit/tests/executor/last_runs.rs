//! Hooks that run only when their inputs have changed: the log says when they ran last, and the audit of the cluster whether
//! they run now.

use std::sync::Arc;

use serde_json::json;
use tidegate_cluster::Cluster as _;
use tidegate_executor::Engine;
use tidegate_lifecycle::operation::Scope;
use tidegate_model::{OperationPhase, Override, SyncRequest};
use tidegate_oplog::Retention;
use tidegate_testkit::scenario::Sync;

use crate::support::{Log, Moody, builder, end, hook, submit, until, write};

/// What is synced: the hook is another one with each `hook`, its input with each `input`, and what it does not name with each
/// `other`.
#[derive(Clone, Copy, Default)]
struct Inputs {
    hook: u32,
    input: u32,
    other: u32,
    /// How the hook ends: well if nothing is said, with `fail` badly, with `never` not at all.
    outcome: &'static str,
}

const FIRST: Inputs = Inputs { hook: 1, input: 1, other: 1, outcome: "" };
/// The outcome of a hook is in its manifest as well.
const FAILS: Inputs = Inputs { outcome: "fail", ..FIRST };
const STUCK: Inputs = Inputs { outcome: "never", ..FIRST };

fn map(name: &str, value: u32) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{value: \"{value}\"}}\n---\n"
    )
}

fn sync(inputs: Inputs, phases: &str) -> Sync {
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
    Sync::of(&format!("{job}{}{}", map("input", inputs.input), map("other", inputs.other)))
}

struct Bench {
    cluster: Arc<Moody>,
    log: Log,
    engine: Engine,
}

impl Bench {
    async fn new() -> Self {
        let (cluster, log) = (Moody::calm(), Log::new());
        let engine = builder(&cluster, &log).start().await.unwrap();
        Self { cluster, log, engine }
    }

    /// How often the hook ran in such an operation, and whether that ended well.
    async fn ran(&self, sync: &Sync) -> (usize, bool) {
        let before = self.cluster.created("migrate");
        let id = submit(&self.engine, sync).await;
        let view = end(&self.engine, id).await;
        (self.cluster.created("migrate") - before, view.phase == OperationPhase::Succeeded)
    }

    /// The hook does not end, and somebody decides.
    async fn overridden(&self, what: Override) {
        let id = submit(&self.engine, &sync(STUCK, "PreSync")).await;
        until(&self.engine, id, |view, _| view.message.contains("migrate")).await;
        let scope = Scope::of_words(Some("Job/migrate"), None, None, None).unwrap();
        self.engine.override_tasks(id, what, scope, "ann", "it is done by hand").await.unwrap();
        assert_eq!(end(&self.engine, id).await.phase, OperationPhase::Succeeded);
    }

    /// The process ends, and another one goes on with the log.
    async fn restart(&mut self) {
        self.engine.shutdown().await;
        self.log = self.log.reopen();
        self.engine = builder(&self.cluster, &self.log).start().await.unwrap();
    }
}

const RAN: (usize, bool) = (1, true);
const LEFT_OUT: (usize, bool) = (0, true);
const FAILED: (usize, bool) = (1, false);

#[tokio::test(start_paused = true)]
async fn it_runs_when_it_or_what_it_names_is_another_one_than_when_it_ran_last() {
    let mut bench = Bench::new().await;
    let table = [
        ("for the first time", FIRST, RAN),
        ("nothing has changed", FIRST, LEFT_OUT),
        ("what it does not name", Inputs { other: 2, ..FIRST }, LEFT_OUT),
        ("what it names", Inputs { input: 2, ..FIRST }, RAN),
        ("the same again", Inputs { input: 2, ..FIRST }, LEFT_OUT),
        ("back to what it ran with before the last time", FIRST, RAN),
        ("the hook itself", Inputs { hook: 2, ..FIRST }, RAN),
        ("the same once more", Inputs { hook: 2, ..FIRST }, LEFT_OUT),
    ];
    for (name, inputs, expected) in table {
        assert_eq!(bench.ran(&sync(inputs, "PreSync")).await, expected, "{name}");
        // The log alone knows it.
        bench.restart().await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_runs_again_until_it_has_succeeded() {
    let bench = Bench::new().await;
    let table = [
        ("for the first time", FAILS, FAILED),
        ("it has failed", FAILS, FAILED),
        ("it is mended", FIRST, RAN),
        ("nothing has changed", FIRST, LEFT_OUT),
        ("broken again", FAILS, FAILED),
        ("what has succeeded once has failed since", FIRST, RAN),
    ];
    for (name, inputs, expected) in table {
        assert_eq!(bench.ran(&sync(inputs, "PreSync")).await, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_several_phases_runs_again_until_it_has_succeeded_in_each() {
    let bench = Bench::new().await;
    let both = sync(FIRST, "PreSync,PostSync");
    let mut broken = both.clone();
    broken.manifests.push_str(&hook("breaks", "Sync", &[("sim.tidegate.dev/outcome", "fail")]));
    assert_eq!(bench.ran(&broken).await, FAILED, "before all others only");
    assert_eq!(bench.ran(&both).await, (2, true));
    assert_eq!(bench.ran(&both).await, LEFT_OUT);
}

#[tokio::test(start_paused = true)]
async fn operations_that_leave_it_out_or_are_of_something_else_say_nothing_of_it() {
    let changed = Inputs { input: 2, ..FIRST };
    let dry: fn(&mut SyncRequest) = |request| request.options.dry_run = true;
    let one_object: fn(&mut SyncRequest) = |request| {
        request.selection = vec![":ConfigMap:input".parse().unwrap()];
    };
    let without_hooks: fn(&mut SyncRequest) = |request| request.options.skip_hooks = true;
    for (name, between) in [("dry", dry), ("selected", one_object), ("without hooks", without_hooks)] {
        let bench = Bench::new().await;
        assert_eq!(bench.ran(&sync(FIRST, "PreSync")).await, RAN, "{name}");
        assert_eq!(bench.ran(&sync(changed, "PreSync").with(between)).await, LEFT_OUT, "{name}");
        assert_eq!(bench.ran(&sync(FIRST, "PreSync")).await, LEFT_OUT, "{name}: it ran with that last");
        assert_eq!(bench.ran(&sync(changed, "PreSync")).await, RAN, "{name}: it never ran with that");
    }
}

#[tokio::test(start_paused = true)]
async fn each_namespace_has_runs_of_its_own() {
    let bench = Bench::new().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}});
    bench.cluster.sim.apply(write(namespace.try_into().unwrap())).await.unwrap();
    let job = hook("migrate", "PreSync", &[("tidegate.dev/run-when", "inputs-changed")]);
    let here = Sync::of(&format!("{job}{}", map("input", 1)));
    let there = here.clone().with(|request| request.namespace = "elsewhere".into());
    for (name, sync, expected) in [
        ("here", &here, RAN),
        ("there", &there, RAN),
        ("there again", &there, LEFT_OUT),
        ("here again", &here, LEFT_OUT),
    ] {
        assert_eq!(bench.ran(sync).await, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_person_marks_as_done_has_run_and_what_is_skipped_has_not() {
    for (what, takes_part) in [(Override::MarkDone, false), (Override::Skip, true)] {
        let bench = Bench::new().await;
        bench.overridden(what).await;
        let id = submit(&bench.engine, &sync(STUCK, "PreSync")).await;
        if takes_part {
            // It never ends by itself.
            until(&bench.engine, id, |_, _| bench.cluster.created("migrate") == 2).await;
            bench.engine.terminate(id, "ann").await.unwrap();
        }
        let view = end(&bench.engine, id).await;
        assert_eq!(view.phase == OperationPhase::Succeeded, !takes_part, "{what:?}: {}", view.message);
        assert_eq!(bench.cluster.created("migrate"), 1 + usize::from(takes_part), "{what:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_what_was_compacted_nothing_is_known() {
    let bench = Bench::new().await;
    assert_eq!(bench.ran(&sync(FIRST, "PreSync")).await, RAN);
    assert_eq!(bench.ran(&sync(FIRST, "PreSync")).await, LEFT_OUT);
    bench.engine.compact(Retention { history: 0, ..Retention::default() }).await.unwrap();
    assert_eq!(bench.ran(&sync(FIRST, "PreSync")).await, RAN);
    assert_eq!(bench.ran(&sync(FIRST, "PreSync")).await, LEFT_OUT);
}
