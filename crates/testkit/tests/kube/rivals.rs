//! Two operations of the same application on a real cluster, with separate logs and without a claim. One
//! creates its hook between the other's read and creation of the hook.

use std::time::Duration;

use tidegate_executor::Engine;
use tidegate_model::{OperationId, OperationPhase, Timestamp};
use tidegate_testkit::kube::{AuditEvent, ControlPlane, User};
use tidegate_testkit::scenario::SyncSpec;
use tokio::sync::oneshot;

use crate::engine::{Bench, wait_until};

const WAITS: &str = "waiting for completion of hook batch/Job/migrate";

/// Minimum duration of the hook.
const RUNS: Duration = Duration::from_secs(3);

/// Returns a hook that runs for a while.
fn migration(version: &str, policy: &str) -> SyncSpec {
    SyncSpec::new(&format!(
        "apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations:
    argocd.argoproj.io/hook: Sync
    argocd.argoproj.io/hook-delete-policy: {policy}
    sim.tidegate.dev/ready-after: 3s
spec:
  backoffLimit: 0
  template:
    spec: {{restartPolicy: Never, containers: [{{name: main, image: \"migrate:{version}\"}}]}}
"
    ))
}

pub async fn a_hook_created_at_the_last_moment_is_left_alone() {
    // A hook kept by its policy is overwritten after it has finished, and its version can't be changed.
    for (policy, version, creations) in [("BeforeHookCreation", "1", 1), ("HookFailed", "2", 0)] {
        let control = ControlPlane::shared();
        let first = Bench::for_test(control, "last-moment").await;
        let mark = control.audit_mark();
        let (begin, begins) = oneshot::channel();
        let (run, runs) = oneshot::channel();
        let (tell, messages) = oneshot::channel();
        let rival = async move {
            begin.send(()).unwrap();
            tell.send(runs.await.unwrap()).unwrap();
        };
        let second = Bench::new(control, first.namespace.clone(), User::ENGINE).await;
        let second = second.before_write("migrate", rival);
        let of_first = async {
            begins.await.unwrap();
            let running = async |engine: &Engine, id| {
                wait_until(engine, id, |view| view.message == WAITS).await;
                run.send(id).unwrap();
            };
            first.run_with(&migration("2", policy), &mut Vec::new(), running).await
        };
        let waiting = async |engine: &Engine, id| {
            let other: OperationId = messages.await.unwrap();
            wait_until(engine, id, |view| view.message == format!("{WAITS} of operation {other}")).await;
        };
        let (sync, mut nobody) = (migration(version, policy), Vec::new());
        let of_second = second.run_with(&sync, &mut nobody, waiting);
        let ((one, ended), (two, view)) = tokio::join!(of_first, of_second);
        assert_eq!(ended.phase, OperationPhase::Succeeded, "{policy}: {}", ended.message);
        assert_eq!(view.phase, OperationPhase::Succeeded, "{policy}: {}", view.message);
        let writes = control.audit_in_namespace(mark, &first.namespace).await.unwrap().successful_writes();
        let by = |event: &AuditEvent, id: OperationId| {
            event.name == "migrate" && event.operation.as_deref() == Some(&id.to_string())
        };
        let first_of = |id| writes.0.iter().find(|event| by(event, id)).unwrap();
        let at = |event: &AuditEvent| event.received_at.parse::<Timestamp>().unwrap();
        let after = at(first_of(two)).since(at(first_of(one)));
        assert!(after >= RUNS, "{policy}: {after:?} {:#?}", writes.summaries());
        let created = writes.0.iter().filter(|event| by(event, two) && event.code == 201).count();
        assert_eq!(created, creations, "{policy}: {:#?}", writes.summaries());
    }
}
