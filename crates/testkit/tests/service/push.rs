//! Plans of a push, from the event to the first write.

use std::time::Duration;

use serde_json::json;
use tidegate_application::operation::engine_id;
use tidegate_application::push_events::{PushEvent, WebhookChanges};
use tidegate_cluster::Cluster as _;
use tidegate_executor::PlanCounts;
use tidegate_model::Gvk;
use tidegate_testkit::crash::CrashPoints;

use crate::user_documents::{self, APP_NAMESPACE, STANDALONE_APP};
use crate::world::{Life, World};

const QUIET_TIME: Duration = Duration::from_secs(300);
/// Time between two looks at the cluster, which is shorter than a call.
const MOMENT: Duration = Duration::from_millis(1);

fn written_objects(world: &World) -> usize {
    world.writes().iter().filter(|one| one.operation_id.is_some()).count()
}

/// Changes an object of the Application, acting as another client.
async fn edit_settings(world: &World) {
    let settings = Gvk::new("", "v1", "ConfigMap");
    let name = format!("settings-{STANDALONE_APP}");
    let mut object = world.sim.get(&settings, APP_NAMESPACE, &name).await.unwrap().unwrap();
    object.metadata_mut().insert("labels".to_owned(), json!({"edited": "true"}));
    world.sim.put(object, None).await.unwrap();
}

/// Pushes a commit to an automated Application, and returns the number of plans until the first write. If
/// `is_edited` is set, an object changes after the comparison, once the operation has its ID.
fn plans_of_push(is_edited: bool) -> PlanCounts {
    let world = World::new(1, 0.0);
    user_documents::commit(&world.repository(), [STANDALONE_APP], (1, None));
    let pushing = async |life: &Life| {
        world.write(user_documents::application(&world.repository(), STANDALONE_APP, None)).await;
        world.wait_for_quiet(QUIET_TIME).await;
        let (before, written) = (life.plan_counts(), written_objects(&world));
        assert!(written > 0, "the first commit is deployed");
        user_documents::commit(&world.repository(), [STANDALONE_APP], (2, None));
        let repository = world.repository();
        let pushes = vec![PushEvent::new([repository.to_str().unwrap()])];
        let changes = WebhookChanges { pushes, ..WebhookChanges::default() };
        assert_eq!(life.applications().handle_push(changes).await.unwrap(), 1);
        let has_id = async || {
            let application = world.application(STANDALONE_APP).await.unwrap();
            application.operation.as_ref().and_then(engine_id).is_some()
        };
        while !has_id().await {
            tokio::time::sleep(MOMENT).await;
        }
        if is_edited {
            edit_settings(&world).await;
        }
        while written_objects(&world) == written {
            tokio::time::sleep(MOMENT).await;
        }
        let after = life.plan_counts();
        PlanCounts { computed: after.computed - before.computed, reused: after.reused - before.reused }
    };
    world.run_process(&CrashPoints::crash_at(0), pushing).unwrap()
}

#[test]
fn a_push_is_planned_once() {
    assert_eq!(plans_of_push(false), PlanCounts { computed: 1, reused: 1 });
}

#[test]
fn a_push_is_planned_again_after_a_change_in_the_cluster() {
    assert_eq!(plans_of_push(true), PlanCounts { computed: 2, reused: 0 });
}
