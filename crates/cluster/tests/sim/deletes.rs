//! Deletion of objects.

use serde_json::{Value, json};
use tidegate_cluster::Propagation::{Background, Foreground, Orphan};
use tidegate_cluster::sim::{STUCK_FINALIZER, Verb};
use tidegate_cluster::{DeleteResult, ErrorKind, LiveQuery};
use tidegate_model::annotations::TRACKING_ID;

use super::{
    World, assert_refused, config_map, delete_request, gvk, key, manifest, ms, object, with_value, workload,
};

fn world_with_running_deployment() -> World {
    let mut world = World::new();
    world.apply(&workload("Deployment", "api", "api:1", json!({})));
    world.run_until_idle();
    world
}

#[test]
fn foreground_deletion_removes_dependents_first() {
    let mut world = world_with_running_deployment();
    assert_eq!(world.delete("Deployment", "api", Foreground), Ok(DeleteResult::Deleting));
    let going = world.get("Deployment", "api").unwrap();
    assert!(going.is_deleting() && going.has_finalizer("foregroundDeletion"));
    assert_eq!(
        world.delete("Deployment", "api", Foreground),
        Ok(DeleteResult::Deleting),
        "a second delete is not an error"
    );
    while world.get("Deployment", "api").is_some() {
        world.advance(ms(1));
    }
    assert!(world.names("ReplicaSet").is_empty() && world.pods().is_empty());
}

#[test]
fn background_deletion_removes_dependents_afterwards() {
    let mut world = world_with_running_deployment();
    assert_eq!(world.delete("Deployment", "api", Background), Ok(DeleteResult::Gone));
    assert!(world.get("Deployment", "api").is_none());
    assert_eq!(world.pods().len(), 3);
    world.run_until_idle();
    assert!(world.names("ReplicaSet").is_empty() && world.pods().is_empty());
}

#[test]
fn orphaned_dependents_remain() {
    let mut world = world_with_running_deployment();
    assert_eq!(world.delete("Deployment", "api", Orphan), Ok(DeleteResult::Deleting));
    world.run_until_idle();
    assert!(world.get("Deployment", "api").is_none());
    assert_eq!((world.names("ReplicaSet").len(), world.pods().len()), (1, 3));
    let set = world.names("ReplicaSet").remove(0);
    assert!(!world.get("ReplicaSet", &set).unwrap().has_owner());
}

#[test]
fn absent_objects_and_other_uids_are_refused() {
    let mut world = World::new();
    let error = world.delete("Job", "m", Background).unwrap_err();
    assert_refused(&error, ErrorKind::NotFound, "jobs.batch \"m\" not found");
    assert_eq!((world.last_audit().verb, world.last_audit().code), (Verb::Delete, 404));
    world.apply(&config_map("web", json!({})));
    let mut other = delete_request("ConfigMap", "web", Background);
    other.uid = "another".to_owned();
    let error = world.state.delete(world.now, other).unwrap_err();
    assert_refused(&error, ErrorKind::Conflict, "the UID in the precondition (another) does not match");
    let mut dry = delete_request("ConfigMap", "web", Background);
    dry.dry_run = true;
    assert_eq!(world.state.delete(world.now, dry), Ok(DeleteResult::Gone));
    assert!(world.get("ConfigMap", "web").is_some() && world.last_audit().dry_run);
}

#[test]
fn finalizers_keep_an_object_until_the_last_is_removed() {
    let mut world = World::new();
    let held = with_value(&config_map("web", json!({})), "/metadata/finalizers", json!(["a.io/x", "b.io/y"]));
    let uid = world.apply(&held).uid().to_owned();
    assert_eq!(world.delete("ConfigMap", "web", Background), Ok(DeleteResult::Deleting));
    let remove = |world: &mut World, uid: &str, finalizer: &str| {
        let writes = world.state.audit().len();
        world.state.remove_finalizer(world.now, &key("ConfigMap", "web"), uid, finalizer, None).unwrap();
        world.state.audit().len() - writes
    };
    assert_eq!(remove(&mut world, &uid, "a.io/x"), 1);
    assert_eq!((world.last_audit().verb, world.last_audit().code), (Verb::Patch, 200));
    assert!(world.get("ConfigMap", "web").is_some());
    assert_eq!(remove(&mut world, &uid, "a.io/x"), 0, "no finalizer is left to remove");
    assert_eq!(remove(&mut world, "another", "b.io/y"), 0);
    assert_eq!(remove(&mut world, &uid, "b.io/y"), 1);
    assert!(world.get("ConfigMap", "web").is_none());
    assert_eq!(remove(&mut world, &uid, "b.io/y"), 0);
}

#[test]
fn a_stuck_object_remains_until_its_finalizer_is_removed() {
    let mut world = World::new();
    for kind in ["Deployment", "Job", "Pod"] {
        let uid =
            world.apply(&workload(kind, "it", "i:1", json!({"outcome": "stuck-deleting"}))).uid().to_owned();
        world.run_until_idle();
        assert_eq!(world.delete(kind, "it", Foreground), Ok(DeleteResult::Deleting));
        world.run_until_idle();
        assert!(world.get(kind, "it").unwrap().is_deleting());
        assert!(kind == "Pod" || world.pods().is_empty(), "only the object itself is stuck");
        world.state.remove_finalizer(world.now, &key(kind, "it"), &uid, STUCK_FINALIZER, None).unwrap();
        assert!(world.get(kind, "it").is_none());
    }
}

#[test]
fn a_deleted_namespace_deletes_its_contents() {
    let mut world = World::new();
    world.apply(&object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})));
    for kind in ["Deployment", "Job"] {
        world.apply(&with_value(
            &workload(kind, "it", "i:1", json!({})),
            "/metadata/namespace",
            json!("shop"),
        ));
    }
    world.run_until_idle();
    assert_eq!(world.delete("Namespace", "shop", Foreground), Ok(DeleteResult::Deleting));
    let namespace = world.state.get(world.now, &gvk("Namespace"), "", "shop").unwrap().unwrap();
    assert_eq!(namespace.text("/status/phase"), "Terminating");
    world.run_until_idle();
    let left: Vec<_> = world.state.objects().map(|object| object.key().to_string()).collect();
    assert_eq!(left, ["Namespace default", "Namespace kube-system"]);
}

#[test]
fn an_object_without_remaining_owners_is_deleted() {
    let mut world = World::new();
    let (a, b) = (world.apply(&config_map("a", json!({}))), world.apply(&config_map("b", json!({}))));
    let owner = |object: &tidegate_model::Object| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": object.name(), "uid": object.uid()});
    let owned =
        |owners: Value| manifest("ConfigMap", "owned", json!({"metadata": {"ownerReferences": owners}}));
    world.apply(&owned(json!([owner(&a), owner(&b)])));
    world.delete("ConfigMap", "a", Background).unwrap();
    world.run_until_idle();
    assert!(world.get("ConfigMap", "owned").is_some(), "one owner still exists");
    world.delete("ConfigMap", "b", Background).unwrap();
    world.run_until_idle();
    assert!(world.get("ConfigMap", "owned").is_none());
}

#[test]
fn live_queries_find_tracked_and_named_objects() {
    let mut world = World::new();
    let tracked = |name: &str, application: &str| {
        let mut object = config_map(name, json!({}));
        object.set_annotation(TRACKING_ID, format!("{application}:/ConfigMap:default/{name}"));
        object
    };
    let owner = world.apply(&tracked("mine", "shop"));
    world.apply(&tracked("foreign", "shop2"));
    world.apply(&config_map("named", json!({})));
    world.apply(&config_map("other", json!({})));
    let mut owned = tracked("owned", "shop");
    owned.metadata_mut().insert(
        "ownerReferences".to_owned(),
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "mine", "uid": owner.uid()}]),
    );
    world.apply(&owned);
    let named = |kind: &str, name: &str| (gvk(kind), "default".to_owned(), name.to_owned());
    let query = LiveQuery {
        application: "shop".to_owned(),
        named: [named("ConfigMap", "named"), named("ConfigMap", "absent"), named("Widget", "unserved")]
            .into(),
        ..LiveQuery::default()
    };
    let live = world.state.list_live(world.now, &query).unwrap();
    assert_eq!(live.iter().map(|live| live.key().name.as_str()).collect::<Vec<_>>(), ["mine", "named"]);
    // An object that moves to another application is no longer found.
    world.apply(&tracked("mine", "other"));
    let query = LiveQuery { application: "shop".to_owned(), ..LiveQuery::default() };
    assert_eq!(world.state.list_live(world.now, &query).unwrap(), []);
}
