//! Deletion of an Application without a finalizer during its sync. The audit log shows the writes of each
//! operation.

use serde_json::{Value, json};

use crate::applications;
use crate::kube_bench::KubeBench;

/// Returns the ID and phase of each operation of the Application, oldest first.
fn operations(bench: &KubeBench) -> Vec<(String, String)> {
    let listed = bench.run(&["ops", "list", "-o", "json"]).expect_code(0).out;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let word = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    listed.as_array().unwrap().iter().map(|one| (word(one, "id"), word(one, "phase"))).collect()
}

/// The hook must run to its end even if the process is killed, and no object may be deployed afterwards. A
/// new Application with the same name must not be affected.
pub async fn a_sync_ends_with_its_hook_when_its_application_is_gone() {
    let bench = applications::bench_with_crds().await;
    applications::commit_waiting_version(&bench, "1");
    let service = applications::serve(&bench);
    applications::create(&bench).await;
    applications::wait_until(&bench, applications::is_running).await;
    let [(old, _)] = &operations(&bench)[..] else { panic!("{:?}", operations(&bench)) };
    let path = format!("{}/shop", applications::path(&bench));
    bench.observer().delete(&path, &json!({})).await.unwrap();
    bench.observer().wait_until(&path, |found| found.is_none()).await;
    // Create a new Application before the sync of the first one has ended.
    applications::create(&bench).await;
    applications::wait_until(&bench, |app| app["status"]["reconciledAt"].is_string()).await;
    service.signal("KILL");
    service.finish();
    let service = applications::serve(&bench);
    applications::complete_job(&bench, "migrate").await;
    // The new operation runs its own hook.
    let by_another = |app: &Value| applications::is_running(app) && operations(&bench).len() == 2;
    applications::wait_until(&bench, by_another).await;
    assert_eq!(operations(&bench)[0], (old.clone(), "Failed".to_owned()));
    assert_eq!(bench.creations("ConfigMap", "settings").await, 0, "{:#?}", bench.writes().await.summaries());
    applications::complete_job(&bench, "migrate").await;
    let app = applications::wait_until(&bench, applications::is_done).await;
    assert_eq!(app["status"]["history"].as_array().unwrap().len(), 1);
    let (new, _) = &operations(&bench)[1];
    let writes = bench.writes().await;
    let settings = writes.0.iter().filter(|event| event.name == "settings");
    let by: Vec<_> = settings.filter_map(|event| event.operation.as_ref()).collect();
    assert_eq!(by, [new], "{:#?}", writes.summaries());
    for operation in [old, new] {
        bench.assert_created_once_by(Some(operation.as_str()), "Job", "migrate", "parted").await;
    }
    service.signal("TERM");
    service.finish().expect_code(0);
}
