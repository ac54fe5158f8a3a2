//! Regression tests for failures found by random lives.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_cluster::Cluster as _;
use tidegate_model::Gvk;
use tidegate_model::argo::{OperationRequest, SyncOperation, SyncStatusCode};
use tidegate_testkit::crash::CrashPoints;

use crate::invariants;
use crate::user_documents::{self, APP_NAMESPACE, Fleet, STANDALONE_APP};
use crate::world::{Life, World, kind};

const QUIET_TIME: Duration = Duration::from_secs(300);
const HOUR: Duration = Duration::from_secs(3600);

/// Runs a test with an ApplicationSet that has `b` in its first step and `c` in its second. The first commit
/// is deployed, and the system is at rest.
fn with_appset(work: impl AsyncFnOnce(&World, &Life)) -> World {
    let world = World::new(1, 0.0);
    user_documents::commit(&world.repository(), ["b", "c"], (1, None));
    let members = [("b", 0), ("c", 1)].map(|(name, step)| (name.to_owned(), step));
    let fleet =
        Fleet { members: members.into(), max_update: vec![None, None], rollout: None, deletion: "AllAtOnce" };
    let living = async |life: &Life| {
        world.write(fleet.document(&world.repository())).await;
        world.wait_for_quiet(QUIET_TIME).await;
        work(&world, life).await;
    };
    world.run_process(&CrashPoints::crash_at(0), living).unwrap();
    world
}

#[test]
fn a_step_waits_for_an_application_that_briefly_cannot_be_written() {
    let world = with_appset(async |world, life| {
        // Block writes to the Application, so that its change can't be reverted.
        let mut changed = world.sim.get(&kind("Application"), "argocd", "b").await.unwrap().unwrap();
        *world.faults.blocked_application.lock().unwrap() = Some("b".to_owned());
        changed.section_mut("spec").insert("revisionHistoryLimit".to_owned(), json!(3));
        world.sim.put(changed, None).await.unwrap();
        user_documents::commit(&world.repository(), ["b", "c"], (2, None));
        life.appsets().refresh("fleet").await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        let set = world.appset().await.unwrap();
        let conditions: BTreeMap<_, _> =
            set.status.conditions.into_iter().map(|one| (one.kind, one.message)).collect();
        assert!(conditions["ErrorOccurred"].contains("Application b"), "{conditions:?}");
        *world.faults.blocked_application.lock().unwrap() = None;
        world.wait_for_quiet(QUIET_TIME).await;
    });
    let deployed = invariants::deployed_commits(&world.faults.writes.lock().unwrap());
    let order: Vec<_> = deployed.iter().map(|one| (one.application.as_str(), one.commit)).collect();
    assert_eq!(order, [("b", 1), ("c", 1), ("b", 2), ("c", 2)]);
    assert!(deployed[2].finished.unwrap() <= deployed[3].started);
}

/// Runs a test on a single Application while the system is at rest.
fn with_single_application(automated: &Value, work: impl AsyncFnOnce(&World, &Life)) -> World {
    let world = World::new(1, 0.0);
    user_documents::commit(&world.repository(), [STANDALONE_APP], (1, None));
    let living = async |life: &Life| {
        write_team_label(&world, automated, "red").await;
        world.wait_for_quiet(QUIET_TIME).await;
        work(&world, life).await;
    };
    world.run_process(&CrashPoints::crash_at(0), living).unwrap();
    world
}

async fn write_team_label(world: &World, automated: &Value, team: &str) {
    let document = user_documents::application(&world.repository(), STANDALONE_APP, None);
    let document = user_documents::with_policy(document, automated, &json!({"team": team}), &json!([]));
    world.write(document).await;
}

async fn team_label(world: &World) -> Option<String> {
    let home = world.sim.get(&Gvk::new("", "v1", "Namespace"), "", APP_NAMESPACE).await.unwrap()?;
    home.label("team").map(str::to_owned)
}

/// Checks that only outdated comparisons are repeated during an hour.
async fn assert_quiet(life: &Life) {
    let before = life.effort();
    tokio::time::sleep(HOUR).await;
    invariants::check_idle_effort(before, life.effort(), (HOUR, 1)).unwrap();
}

#[test]
fn namespace_metadata_is_healed_without_additional_comparisons() {
    let heals = json!({"prune": true, "selfHeal": true});
    for (automated, expected) in [(heals, "blue"), (json!({}), "red"), (json!(null), "red")] {
        let world = with_single_application(&automated, async |world, life| {
            if automated.is_null() {
                let sync_options = vec!["CreateNamespace=true".to_owned()];
                let sync = Some(SyncOperation { sync_options, ..SyncOperation::default() });
                let request = OperationRequest { sync, ..OperationRequest::default() };
                life.applications().sync(STANDALONE_APP, request).await.unwrap();
                world.wait_for_quiet(QUIET_TIME).await;
            }
            assert_eq!(team_label(world).await.as_deref(), Some("red"), "{automated}");
            write_team_label(world, &automated, "blue").await;
            world.wait_for_quiet(QUIET_TIME).await;
            assert_quiet(life).await;
            assert_eq!(team_label(world).await.as_deref(), Some(expected), "{automated}");
            let status = world.application(STANDALONE_APP).await.unwrap().status.sync.unwrap().status;
            let is_synced = expected == "blue";
            assert_eq!(status == SyncStatusCode::Synced, is_synced, "{automated}");
        });
        // A new process has no additional information, and must be just as quiet.
        let resting = async |life: &Life| {
            world.wait_for_quiet(QUIET_TIME).await;
            assert_quiet(life).await;
        };
        world.run_process(&CrashPoints::crash_at(0), resting).unwrap();
        assert_eq!(
            invariants::deployed_commits(&world.faults.writes.lock().unwrap()).len(),
            1,
            "no hook runs again"
        );
    }
}
