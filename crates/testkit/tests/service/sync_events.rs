//! Kubernetes Events about an operation that never started.

use std::time::Duration;

use serde_json::json;
use tidegate_cluster::Cluster as _;
use tidegate_model::OperationPhase;
use tidegate_testkit::crash::CrashPoints;

use crate::user_documents::{self, APP_NAMESPACE, STANDALONE_APP};
use crate::world::{Life, World, kind};

const QUIET_TIME: Duration = Duration::from_secs(300);

#[test]
fn a_sync_refused_before_its_start_has_an_event() {
    let world = World::new(1, 0.0);
    user_documents::commit(&world.repository(), [STANDALONE_APP], (1, None));
    let work = async |_: &Life| {
        let mut document = user_documents::application(&world.repository(), STANDALONE_APP, None);
        document["spec"]["syncPolicy"] = json!({});
        world.write(document).await;
        world.wait_for_quiet(QUIET_TIME).await;
        let written = world.sim.get(&kind("Application"), "argocd", STANDALONE_APP).await.unwrap().unwrap();
        let mut request = serde_json::Value::from(written);
        request["operation"] = json!({"sync": {"syncOptions": ["Prunes=true"]}});
        world.sim.put(request.try_into().unwrap(), None).await.unwrap();
        world.wait_for_quiet(QUIET_TIME).await;
        let application = world.application(STANDALONE_APP).await.unwrap();
        let state = application.status.operation_state.unwrap();
        assert_eq!((state.phase, application.operation), (OperationPhase::Error, None));
        assert!(state.message.contains("Prunes=true"), "{}", state.message);
        let all = world.sim.objects();
        let about = all
            .iter()
            .filter(|one| one.kind() == "Event" && one.text("/involvedObject/name") == STANDALONE_APP);
        let recorded: Vec<_> =
            about.map(|one| ["/reason", "/type", "/message"].map(|at| one.text(at))).collect();
        let message = format!("no operation was started: {}", state.message);
        assert_eq!(recorded, [["OperationRefused", "Warning", message.as_str()]]);
        assert!(
            all.iter().all(|one| one.namespace() != APP_NAMESPACE || one.kind() != "ConfigMap"),
            "nothing exists"
        );
    };
    world.run_process(&CrashPoints::crash_at(0), work).unwrap();
}
