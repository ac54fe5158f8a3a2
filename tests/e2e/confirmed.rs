//! Prunes that wait for a person, who writes the annotation of Argo CD into the Application.

use std::fs;

use serde_json::Value;

use crate::fleet::Fleet;

const APPROVED: &str = "argocd.argoproj.io/deletion-approved";
/// An object of the backend that is not pruned without being asked for.
const GUARDED: &str = "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: guarded\n  annotations: {argocd.argoproj.io/sync-options: Prune=confirm}\n";

fn is_held(app: &Value) -> bool {
    let state = &app["status"]["operationState"];
    state["phase"] == "Running"
        && state["message"] == "waiting for pruning confirmation of /ConfigMap/guarded"
}

/// How often the cluster was told that the object is to go.
fn deletions(fleet: &Fleet) -> usize {
    let writes = fleet.bench.writes();
    writes.iter().filter(|one| one["verb"] == "delete" && one["name"] == "guarded").count()
}

/// Killed while it waits, the service goes on with the prune when somebody has confirmed it meanwhile.
#[test]
fn a_prune_that_waits_is_confirmed_by_an_annotation_also_while_the_service_is_killed() {
    let fleet = Fleet::new();
    let guarded = fleet.path("repo/backend/guarded.yaml");
    fs::write(&guarded, GUARDED).unwrap();
    fleet.migrates_for("100ms");
    let serving = fleet.serve();
    fleet.wait(&["backend"]);
    let foreseen = fleet.bench.run(&["app", "delete", "backend"]).expect_code(2).out;
    let guarded_goes = "to be deleted once that is confirmed: ConfigMap fleet/guarded";
    assert!(foreseen.contains(guarded_goes), "{foreseen}");
    assert_eq!(foreseen.matches("once that is confirmed").count(), 1, "{foreseen}");
    fs::remove_file(guarded).unwrap();
    fleet.commit();
    fleet.bench.run(&["app", "refresh", "backend"]).expect_code(0);
    let held = fleet.until("backend", is_held);
    let annotate = |before: &str, said: &str| {
        let line = |said: &str| match said {
            "" => "  name: backend\n".to_owned(),
            said => format!("  name: backend\n  annotations: {{{APPROVED}: \"{said}\"}}\n"),
        };
        fleet.replace("backend.yaml", &line(before), &line(said));
    };
    annotate("", "2020-01-01T00:00:00Z");
    fleet.until("backend", |app| app["metadata"]["annotations"][APPROVED] == "2020-01-01T00:00:00Z");
    assert!(is_held(&fleet.get("backend")), "it is older than the operation");
    assert_eq!(deletions(&fleet), 0);
    serving.signal("KILL");
    serving.finish();
    let began = held["status"]["operationState"]["startedAt"].as_str().unwrap();
    annotate("2020-01-01T00:00:00Z", began);
    let serving = fleet.serve();
    fleet.until("backend", |_| deletions(&fleet) == 1);
    fleet.wait(&["backend"]);
    assert_eq!(deletions(&fleet), 1);
    let log = fleet.bench.run(&["ops", "log", &fleet.bench.newest_of("backend")]).expect_code(0).out;
    let told = format!("somebody approves its prunes: the annotation {APPROVED} says {began}");
    assert_eq!(log.matches(&told).count(), 1, "{log}");
    Fleet::end(serving);
}
