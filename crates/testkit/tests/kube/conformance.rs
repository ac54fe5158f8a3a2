//! Conformance tests. The simulated cluster and a real cluster receive the same requests and must respond the
//! same way.
//!
//! Each scenario runs on both clusters and writes a protocol. The protocol contains the requests, the
//! responses with their error kinds and messages, the resulting fields of the manifests, changes of the
//! resource versions, and finally the cluster's own audit log. The two protocols must be equal, line by line.

mod deletes;
mod kinds;
mod reads;
mod stage;
mod workloads;
mod writes;

use tidegate_testkit::kube::ControlPlane;

use stage::{Stage, stage_pair};

/// Runs a scenario on both clusters, and compares the protocols.
async fn compare(name: &str, play: impl AsyncFn(&mut Stage)) {
    let [mut sim, mut kube] = stage_pair(ControlPlane::shared(), name).await;
    tokio::join!(play(&mut sim), play(&mut kube));
    sim.note_audit().await;
    kube.note_audit().await;
    let (sim, kube) = (sim.finish(), kube.finish());
    let mut report = String::new();
    for number in 0..sim.len().max(kube.len()) {
        let [sim, kube] = [&sim, &kube].map(|lines| lines.get(number).map_or("nothing", String::as_str));
        if sim == kube {
            report.push_str(&format!("       {sim}\n"));
        } else {
            report.push_str(&format!("  sim: {sim}\n kube: {kube}\n"));
        }
    }
    assert!(sim == kube, "the simulated and the real cluster differ:\n{report}");
    assert!(!sim.is_empty(), "a scenario that does nothing");
}

macro_rules! scenarios {
    ($($module:ident: $($name:ident),*;)*) => {
        $($(pub async fn $name() {
            compare(&stringify!($name).replace('_', "-"), $module::$name).await;
        })*)*
    };
}

scenarios! {
    writes: create_update_repeat, creating, guarded, dry_runs, conflicts, refusals, immutable_fields, generated_names, replacing,
        recreating;
    deletes: propagation, preconditions, finalizers, namespaces;
    kinds: definitions, unknown_kinds, statuses;
    reads: watching, listing, living, tracking;
    workloads: pods_of_workloads, events_of_objects, jobs, rollouts;
}
