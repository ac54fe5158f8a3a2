//! What is told of an operation that never began, to whoever looks at the cluster.

use std::time::Duration;

use serde_json::json;
use tidegate_cluster::Cluster as _;
use tidegate_model::OperationPhase;
use tidegate_testkit::crash::Points;

use crate::author::{self, ALONE, HOME};
use crate::world::{Life, World, kind};

const REST: Duration = Duration::from_secs(300);

#[test]
fn a_sync_that_is_refused_before_it_begins_has_an_event() {
    let world = World::new(1, 0.0);
    author::commit(&world.repository(), [ALONE], (1, None));
    let served = async |_: &Life| {
        let mut document = author::application(&world.repository(), ALONE, None);
        document["spec"]["syncPolicy"] = json!({});
        world.write(document).await;
        world.quiet_for(REST).await;
        let written = world.sim.get(&kind("Application"), "argocd", ALONE).await.unwrap().unwrap();
        let mut asked = serde_json::Value::from(written);
        asked["operation"] = json!({"sync": {"syncOptions": ["Prunes=true"]}});
        world.sim.put(asked.try_into().unwrap(), None).await.unwrap();
        world.quiet_for(REST).await;
        let application = world.application(ALONE).await.unwrap();
        let state = application.status.operation_state.unwrap();
        assert_eq!((state.phase, application.operation), (OperationPhase::Error, None));
        assert!(state.message.contains("Prunes=true"), "{}", state.message);
        let all = world.sim.objects();
        let about =
            all.iter().filter(|one| one.kind() == "Event" && one.text("/involvedObject/name") == ALONE);
        let told: Vec<_> = about.map(|one| ["/reason", "/type", "/message"].map(|at| one.text(at))).collect();
        let message = format!("nothing was begun: {}", state.message);
        assert_eq!(told, [["OperationRefused", "Warning", message.as_str()]]);
        assert!(
            all.iter().all(|one| one.namespace() != HOME || one.kind() != "ConfigMap"),
            "nothing is there"
        );
    };
    world.live(&Points::dying_at(0), served).unwrap();
}
