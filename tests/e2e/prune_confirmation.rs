//! Prunes that are waiting for a confirmation through Argo CD's annotation in the Application.

use std::fs;

use serde_json::Value;

use crate::fleet::Fleet;

const APPROVED: &str = "argocd.argoproj.io/deletion-approved";
/// An object of the backend that requires a confirmation before its prune.
const GUARDED: &str = "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: guarded\n  annotations: {argocd.argoproj.io/sync-options: Prune=confirm}\n";

fn is_held(app: &Value) -> bool {
    let state = &app["status"]["operationState"];
    state["phase"] == "Running"
        && state["message"] == "waiting for pruning confirmation of /ConfigMap/guarded"
}

/// Returns the number of deletions of the object.
fn count_deletions(fleet: &Fleet) -> usize {
    let writes = fleet.bench.writes();
    writes.iter().filter(|one| one["verb"] == "delete" && one["name"] == "guarded").count()
}

/// A service that is killed during the wait must continue with the prune if the prune was confirmed in the
/// meantime.
#[test]
fn a_waiting_prune_is_confirmed_by_an_annotation_despite_a_kill() {
    let fleet = Fleet::new();
    let guarded = fleet.path("repo/backend/guarded.yaml");
    fs::write(&guarded, GUARDED).unwrap();
    fleet.set_migration_duration("100ms");
    let service = fleet.serve();
    fleet.wait_until_synced(&["backend"]);
    let foreseen = fleet.bench.run(&["app", "delete", "backend"]).expect_code(2).out;
    let guarded_goes = "to delete after confirmation: ConfigMap fleet/guarded";
    assert!(foreseen.contains(guarded_goes), "{foreseen}");
    assert_eq!(foreseen.matches("after confirmation").count(), 1, "{foreseen}");
    fs::remove_file(guarded).unwrap();
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    let held = fleet.wait_until("backend", is_held);
    let annotate = |before: &str, after: &str| {
        let line = |text: &str| match text {
            "" => "  name: backend\n".to_owned(),
            text => format!("  name: backend\n  annotations: {{{APPROVED}: \"{text}\"}}\n"),
        };
        fleet.replace("backend.yaml", &line(before), &line(after));
    };
    annotate("", "2020-01-01T00:00:00Z");
    fleet.wait_until("backend", |app| app["metadata"]["annotations"][APPROVED] == "2020-01-01T00:00:00Z");
    assert!(is_held(&fleet.get("backend")), "it is older than the operation");
    assert_eq!(count_deletions(&fleet), 0);
    service.signal("KILL");
    service.finish();
    let began = held["status"]["operationState"]["startedAt"].as_str().unwrap();
    annotate("2020-01-01T00:00:00Z", began);
    let service = fleet.serve();
    fleet.wait_until("backend", |_| count_deletions(&fleet) == 1);
    fleet.wait_until_synced(&["backend"]);
    assert_eq!(count_deletions(&fleet), 1);
    let log = fleet.bench.run(&["ops", "log", &fleet.bench.newest_of("backend")]).expect_code(0).out;
    let told = format!("unknown confirmed the prunes: the {APPROVED} annotation is set to {began}");
    assert_eq!(log.matches(&told).count(), 1, "{log}");
    Fleet::stop(service);
}
