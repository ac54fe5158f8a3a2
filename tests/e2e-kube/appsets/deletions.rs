//! Ordered deletions whose steps differ from the rollout's steps.

use serde_json::{Value, json};

use super::order::{self, assert_steps, max_concurrency};
use super::{DEV, Fleet, PROD, SIX, select_env, select_with_limit};

async fn synced_fleet(strategy: Value, annotations: Value) -> (Fleet, crate::bench::Running) {
    let mut fleet = Fleet::new(SIX).await;
    fleet.deploy(1, &[]);
    let service = fleet.serve();
    fleet.create(strategy, annotations).await;
    for name in fleet.names() {
        let path = format!("{}/{}", crate::applications::path(&fleet.site), name);
        fleet.site.observer().wait_until(&path, |app| app.is_some_and(crate::applications::is_done)).await;
    }
    fleet.site.reset_audit();
    (fleet, service)
}

/// Deletes qa first, then dev in pairs. Members outside of all steps are deleted last.
pub async fn an_appset_is_deleted_in_its_steps() {
    let steps = json!({"steps": [select_env("qa"), select_with_limit("dev", 2)]});
    let strategy = json!({"type": "AllAtOnce", "deletionOrder": "Custom", "deletionSync": steps});
    let (fleet, service) = synced_fleet(strategy, json!({})).await;
    let plan = fleet.site.run(&["appset", "delete", "fleet", "--plan"]).expect_code(0).out;
    let place = |name: &str| plan.find(name).unwrap_or_else(|| panic!("{name}: {plan}"));
    assert!(place("qa-a") < place("dev-a") && place("dev-c") < place("prod-a"), "{plan}");
    fleet.delete().await;
    assert_eq!(
        fleet.wait_until_gone().await,
        json!([]),
        "the ApplicationSet is deleted after its Applications"
    );
    let spans = order::deletions(&fleet).await;
    assert_steps(&spans, &[(&["qa-a"], 1), (DEV, 2), (PROD, 2)], "with the set");
    let dev: Vec<_> = spans.iter().filter(|span| span.member.starts_with("dev")).collect();
    assert_eq!(max_concurrency(&dev), 2, "{spans:#?}");
    assert_nothing_remains(&fleet).await;
    fleet.stop(service);
}

/// The annotation is for definitions without the field `deletionOrder`. It also applies to members that are
/// no longer generated.
pub async fn an_annotation_determines_the_deletion_order() {
    let steps = json!({"steps": [select_with_limit("prod", 1), select_env("dev")]}).to_string();
    let strategy = json!({"type": "AllAtOnce", "deletionOrder": "Custom"});
    let (mut fleet, service) = synced_fleet(strategy, json!({"tidegate.dev/deletion-sync": steps})).await;
    for name in ["prod-a", "prod-b", "dev-b", "qa-a"] {
        std::fs::remove_file(fleet.site.path().join(format!("repo/members/{name}.json"))).unwrap();
    }
    fleet.commit();
    fleet.refresh().await;
    fleet.wait_until(|set| set["status"]["resourcesCount"] == 2).await;
    let path = crate::applications::path(&fleet.site);
    let two_are_left = |apps: Option<&Value>| {
        apps.is_some_and(|apps| apps["items"].as_array().is_some_and(|apps| apps.len() == 2))
    };
    fleet.site.observer().wait_until(&path, two_are_left).await;
    let spans = order::deletions(&fleet).await;
    assert_steps(&spans, &[(PROD, 1), (&["dev-b"], 1), (&["qa-a"], 1)], "what drops out");
    assert_eq!(spans.len(), 4, "{spans:#?}");
    assert_eq!([fleet.version("dev-a").await, fleet.version("dev-c").await], ["1", "1"]);
    fleet.site.reset_audit();
    fleet.delete().await;
    assert_eq!(
        fleet.wait_until_gone().await,
        json!([]),
        "the ApplicationSet is deleted after its Applications"
    );
    assert_steps(&order::deletions(&fleet).await, &[(&["dev-a", "dev-c"], 2)], "with the set");
    assert_nothing_remains(&fleet).await;
    fleet.stop(service);
}

/// Checks that no object of any Application remains.
pub async fn assert_nothing_remains(fleet: &Fleet) {
    for (api, plural) in [("/api/v1", "configmaps"), ("/apis/batch/v1", "jobs")] {
        let path = format!("{api}/namespaces/{}/{plural}", fleet.site.namespace);
        let of_fleet = |object: &&Value| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            name != "kube-root-ca.crt" && object["metadata"]["deletionTimestamp"].is_null()
        };
        let list = fleet.site.observer().get(&path).await.unwrap();
        let left: Vec<_> = list["items"].as_array().unwrap().iter().filter(of_fleet).collect();
        let names: Vec<_> = left.iter().map(|one| &one["metadata"]["name"]).collect();
        assert!(left.is_empty(), "{names:?}: {:#?}", fleet.site.writes().await.summaries());
    }
}
