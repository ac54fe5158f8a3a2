//! How objects go.

use serde_json::{Value, json};
use tidegate_cluster::Propagation::{Background, Foreground, Orphan};
use tidegate_cluster::sim::{STUCK, Verb};
use tidegate_cluster::{Deleted, ErrorKind, LiveQuery};
use tidegate_model::annotations::TRACKING_ID;

use super::{World, assert_refused, config_map, deletion, gvk, key, manifest, ms, object, with, workload};

fn running() -> World {
    let mut world = World::new();
    world.apply(&workload("Deployment", "api", "api:1", json!({})));
    world.settle();
    world
}

#[test]
fn foreground_takes_the_dependents_first() {
    let mut world = running();
    assert_eq!(world.delete("Deployment", "api", Foreground), Ok(Deleted::Deleting));
    let going = world.get("Deployment", "api").unwrap();
    assert!(going.is_deleting() && going.has_finalizer("foregroundDeletion"));
    assert_eq!(world.delete("Deployment", "api", Foreground), Ok(Deleted::Deleting), "once more is no error");
    while world.get("Deployment", "api").is_some() {
        world.wait(ms(1));
    }
    assert!(world.names("ReplicaSet").is_empty() && world.pods().is_empty());
}

#[test]
fn background_takes_the_dependents_afterwards() {
    let mut world = running();
    assert_eq!(world.delete("Deployment", "api", Background), Ok(Deleted::Gone));
    assert!(world.get("Deployment", "api").is_none());
    assert_eq!(world.pods().len(), 3);
    world.settle();
    assert!(world.names("ReplicaSet").is_empty() && world.pods().is_empty());
}

#[test]
fn orphans_stay() {
    let mut world = running();
    assert_eq!(world.delete("Deployment", "api", Orphan), Ok(Deleted::Deleting));
    world.settle();
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
    let mut other = deletion("ConfigMap", "web", Background);
    other.uid = "another".to_owned();
    let error = world.state.delete(world.now, other).unwrap_err();
    assert_refused(&error, ErrorKind::Conflict, "the UID in the precondition (another) does not match");
    let mut dry = deletion("ConfigMap", "web", Background);
    dry.dry_run = true;
    assert_eq!(world.state.delete(world.now, dry), Ok(Deleted::Gone));
    assert!(world.get("ConfigMap", "web").is_some() && world.last_audit().dry_run);
}

#[test]
fn finalizers_keep_an_object_until_the_last_is_removed() {
    let mut world = World::new();
    let held = with(&config_map("web", json!({})), "/metadata/finalizers", json!(["a.io/x", "b.io/y"]));
    let uid = world.apply(&held).uid().to_owned();
    assert_eq!(world.delete("ConfigMap", "web", Background), Ok(Deleted::Deleting));
    let remove = |world: &mut World, uid: &str, finalizer: &str| {
        let writes = world.state.audit().len();
        world.state.remove_finalizer(world.now, &key("ConfigMap", "web"), uid, finalizer, None).unwrap();
        world.state.audit().len() - writes
    };
    assert_eq!(remove(&mut world, &uid, "a.io/x"), 1);
    assert_eq!((world.last_audit().verb, world.last_audit().code), (Verb::Patch, 200));
    assert!(world.get("ConfigMap", "web").is_some());
    assert_eq!(remove(&mut world, &uid, "a.io/x"), 0, "there is nothing to write");
    assert_eq!(remove(&mut world, "another", "b.io/y"), 0);
    assert_eq!(remove(&mut world, &uid, "b.io/y"), 1);
    assert!(world.get("ConfigMap", "web").is_none());
    assert_eq!(remove(&mut world, &uid, "b.io/y"), 0);
}

#[test]
fn a_stuck_object_stays_until_somebody_frees_it() {
    let mut world = World::new();
    for kind in ["Deployment", "Job", "Pod"] {
        let uid =
            world.apply(&workload(kind, "it", "i:1", json!({"outcome": "stuck-deleting"}))).uid().to_owned();
        world.settle();
        assert_eq!(world.delete(kind, "it", Foreground), Ok(Deleted::Deleting));
        world.settle();
        assert!(world.get(kind, "it").unwrap().is_deleting());
        assert!(kind == "Pod" || world.pods().is_empty(), "only the object itself is stuck");
        world.state.remove_finalizer(world.now, &key(kind, "it"), &uid, STUCK, None).unwrap();
        assert!(world.get(kind, "it").is_none());
    }
}

#[test]
fn a_namespace_takes_its_contents_along() {
    let mut world = World::new();
    world.apply(&object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})));
    for kind in ["Deployment", "Job"] {
        world.apply(&with(&workload(kind, "it", "i:1", json!({})), "/metadata/namespace", json!("shop")));
    }
    world.settle();
    assert_eq!(world.delete("Namespace", "shop", Foreground), Ok(Deleted::Deleting));
    let namespace = world.state.get(world.now, &gvk("Namespace"), "", "shop").unwrap().unwrap();
    assert_eq!(namespace.text("/status/phase"), "Terminating");
    world.settle();
    let left: Vec<_> = world.state.objects().map(|object| object.key().to_string()).collect();
    assert_eq!(left, ["Namespace default", "Namespace kube-system"]);
}

#[test]
fn an_object_whose_owners_are_gone_goes_too() {
    let mut world = World::new();
    let (a, b) = (world.apply(&config_map("a", json!({}))), world.apply(&config_map("b", json!({}))));
    let owner = |object: &tidegate_model::Object| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": object.name(), "uid": object.uid()});
    let owned =
        |owners: Value| manifest("ConfigMap", "owned", json!({"metadata": {"ownerReferences": owners}}));
    world.apply(&owned(json!([owner(&a), owner(&b)])));
    world.delete("ConfigMap", "a", Background).unwrap();
    world.settle();
    assert!(world.get("ConfigMap", "owned").is_some(), "one owner is left");
    world.delete("ConfigMap", "b", Background).unwrap();
    world.settle();
    assert!(world.get("ConfigMap", "owned").is_none());
}

#[test]
fn live_finds_what_is_tracked_and_what_is_named() {
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
    let live = world.state.live(world.now, &query).unwrap();
    assert_eq!(live.iter().map(|live| live.key().name.as_str()).collect::<Vec<_>>(), ["mine", "named"]);
    // An object that is given to another application is no longer found.
    world.apply(&tracked("mine", "other"));
    let query = LiveQuery { application: "shop".to_owned(), ..LiveQuery::default() };
    assert_eq!(world.state.live(world.now, &query).unwrap(), []);
}
