//! An operation executes the plan of the comparison that led to it, unless an input has changed.

use std::sync::Arc;

use serde_json::json;
use tidegate_cluster::Cluster as _;
use tidegate_executor::{PlanCounts, Targets};
use tidegate_model::{ClaimConflictPolicy, Object, OperationPhase};
use tidegate_oplog::Inventories as _;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{
    FaultyCluster, Log, builder, config, delete_namespace, external_write, hook, submit, wait_for_end,
};

/// Namespace of the application, which can be deleted.
const NAMESPACE: &str = "web";

const CHANGED: PlanCounts = PlanCounts { computed: 2, reused: 0 };
const UNCHANGED: PlanCounts = PlanCounts { computed: 1, reused: 1 };

/// Deploys a first version, compares the application with a second version, lets `change` interfere, and
/// syncs the second version. Returns the numbers of plans of the comparison and the operation, and the final
/// writes.
async fn plan_twice(
    second: &str,
    is_handed_over: bool,
    change: impl AsyncFnOnce(&FaultyCluster, &mut SyncSpec),
) -> (PlanCounts, Vec<String>) {
    let (cluster, log) = (FaultyCluster::reliable(), Log::new());
    let engine = builder(&cluster, &log).start().await.unwrap();
    let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    cluster.sim.apply(external_write(Object::try_from(own).unwrap())).await.unwrap();
    let prunes = |manifests: &str| {
        SyncSpec::new(manifests).with_request(|request| {
            request.namespace = NAMESPACE.to_owned();
            request.options.prune = true;
        })
    };
    let first = prunes(&format!("{}{}", config("a", 0, &[]), config("b", 1, &[])));
    let id = submit(&engine, &first).await;
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    let mut sync = prunes(second);
    let (before, written) = (engine.plan_counts(), cluster.writes().len());
    let inventory = log.inventory("simulated", "shop").unwrap();
    let targets = Arc::new(sync.targets().targets);
    let comparing = engine.compare(&cluster.sim, &sync.request, &targets, inventory.as_ref());
    let (_, plan) = comparing.await.unwrap();
    change(&cluster, &mut sync).await;
    let compared = is_handed_over.then(|| Arc::new(plan));
    let id = engine.next_id().await.unwrap();
    let targets = Targets { compared, ..sync.targets() };
    engine.ensure_with_policy(id, sync.request, targets, ClaimConflictPolicy::Queue).await.unwrap();
    wait_for_end(&engine, id).await;
    let after = engine.plan_counts();
    engine.shutdown().await;
    let counts =
        PlanCounts { computed: after.computed - before.computed, reused: after.reused - before.reused };
    let writes = cluster.writes().split_off(written);
    (counts, writes.iter().map(|one| format!("{:?} {} {}", one.verb, one.kind, one.name)).collect())
}

fn second_version() -> String {
    format!(
        "{}{}{}",
        config("a", 0, &[("note", "new")]),
        config("c", 0, &[]),
        hook("migrate", "PreSync", &[])
    )
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_application_is_planned_once() {
    let mut expected = None;
    for is_handed_over in [false, true] {
        let (counts, writes) = plan_twice(&second_version(), is_handed_over, async |_, _| {}).await;
        assert_eq!(counts, if is_handed_over { UNCHANGED } else { CHANGED });
        // The hook, both versions' objects, and the pruned object.
        assert!(writes.iter().any(|one| one.contains("migrate")), "{writes:?}");
        assert!(writes.iter().any(|one| one == "Delete ConfigMap b"), "{writes:?}");
        assert_eq!(*expected.get_or_insert(writes.clone()), writes);
    }
}

async fn write(cluster: &FaultyCluster, kind: &str, name: &str) {
    let object = json!({"apiVersion": "v1", "kind": kind, "metadata": {
        "name": name, "namespace": NAMESPACE, "labels": {"edited": "true"},
    }});
    cluster.sim.apply(external_write(Object::try_from(object).unwrap())).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_changed_input_is_planned_again() {
    let second = second_version();
    let planned = |counts: (PlanCounts, Vec<String>)| counts.0;
    let edits = plan_twice(&second, true, async |cluster, _| write(cluster, "ConfigMap", "a").await);
    assert_eq!(planned(edits.await), CHANGED, "an object has changed");
    let creates = plan_twice(&second, true, async |cluster, _| write(cluster, "ConfigMap", "c").await);
    assert_eq!(planned(creates.await), CHANGED, "an object exists now");
    let others = plan_twice(&second, true, async |cluster, _| write(cluster, "ConfigMap", "z").await);
    assert_eq!(planned(others.await), UNCHANGED, "an object that belongs to no application");
    let ends = plan_twice(&second, true, async |cluster, _| delete_namespace(&cluster.sim, NAMESPACE));
    assert_eq!(planned(ends.await), CHANGED, "the namespace is being deleted");
    let defines = plan_twice(&second, true, async |cluster, _| {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "gadgets.tools.example"},
            "spec": {
                "group": "tools.example", "scope": "Namespaced",
                "names": {"kind": "Gadget", "plural": "gadgets", "singular": "gadget", "listKind": "GadgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                    {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        });
        cluster.sim.apply(external_write(Object::try_from(definition).unwrap())).await.unwrap();
        while !cluster.sim.discover().await.unwrap().kinds.keys().any(|kind| kind.kind == "Gadget") {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    });
    assert_eq!(planned(defines.await), CHANGED, "the cluster serves another kind");
    let commits = plan_twice(&second, true, async |_, sync| sync.manifests.push_str(&config("d", 0, &[])));
    assert_eq!(planned(commits.await), CHANGED, "the manifests have changed");
    let keeps = plan_twice(&second, true, async |_, sync| sync.request.options.prune = false);
    assert_eq!(planned(keeps.await), CHANGED, "an object isn't pruned anymore");
    let options = plan_twice(&second, true, async |_, sync| {
        sync.request.options.flags.push("PruneLast=true".to_owned());
    });
    assert_eq!(planned(options.await), CHANGED, "the options have changed");
    let named = second.replace("  name: migrate\n", "  generateName: migrate-\n");
    let names = plan_twice(&named, true, async |_, _| {}).await;
    assert_eq!(planned(names), CHANGED, "the hook's name contains the start time");
}
