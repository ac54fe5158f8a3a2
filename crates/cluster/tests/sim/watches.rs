//! Watches deliver every change once and in order, or fail.

use serde_json::json;
use tidegate_cluster::sim::{SimConfig, WatchCursor};
use tidegate_cluster::{ErrorKind, Propagation, WatchEvent};

use super::{World, assert_refused, config_map, gvk, ms, workload};

fn start_watch(world: &mut World, kind: &str, from: &str) -> WatchCursor {
    world.state.watch_since(world.now, &gvk(kind), from).unwrap()
}

/// Returns a short description of the events that a watch cursor delivers.
fn describe_events(world: &mut World, cursor: &mut WatchCursor) -> Vec<String> {
    let events = world.state.next_changes(world.now, cursor).unwrap();
    let text = events.iter().filter_map(|event| match event {
        WatchEvent::Applied(object) => Some(format!("{} {}", object.name(), object.resource_version())),
        WatchEvent::Deleted(object) => Some(format!("-{} {}", object.name(), object.resource_version())),
        WatchEvent::Bookmark(_) => None,
    });
    text.collect()
}

#[test]
fn changes_arrive_in_order_from_the_version_of_the_list() {
    let mut world = World::new();
    world.apply(&config_map("a", json!({})));
    let from = world.state.list(world.now, &gvk("ConfigMap")).unwrap().resource_version;
    let mut cursor = start_watch(&mut world, "ConfigMap", &from);
    assert_eq!(describe_events(&mut world, &mut cursor), [""; 0]);
    world.apply(&config_map("a", json!({"x": "1"})));
    world.apply(&config_map("b", json!({})));
    world.delete("ConfigMap", "a", Propagation::Background).unwrap();
    assert_eq!(describe_events(&mut world, &mut cursor), ["a 4", "b 5", "-a 6"]);
    assert_eq!(describe_events(&mut world, &mut cursor), [""; 0]);
    let mut late = start_watch(&mut world, "ConfigMap", "4");
    assert_eq!(describe_events(&mut world, &mut late), ["b 5", "-a 6"]);
}

#[test]
fn a_watch_without_a_version_starts_with_existing_objects() {
    for from in ["", "0"] {
        let mut world = World::new();
        world.apply(&config_map("a", json!({})));
        let mut cursor = start_watch(&mut world, "ConfigMap", from);
        assert_eq!(describe_events(&mut world, &mut cursor), ["a 3"]);
        world.apply(&config_map("b", json!({})));
        assert_eq!(describe_events(&mut world, &mut cursor), ["b 4"]);
    }
}

#[test]
fn a_version_older_than_the_history_is_gone() {
    let mut world = World::with_config(SimConfig { history: 3, ..SimConfig::default() });
    for number in 0..5 {
        world.apply(&config_map("a", json!({"n": number.to_string()})));
    }
    let error = world.state.watch_since(world.now, &gvk("ConfigMap"), "3").unwrap_err();
    assert_refused(&error, ErrorKind::Gone, "too old resource version");
    let mut slow = start_watch(&mut world, "ConfigMap", "4");
    world.apply(&config_map("b", json!({})));
    world.apply(&config_map("c", json!({})));
    assert_eq!(world.state.next_changes(world.now, &mut slow).unwrap_err().kind, ErrorKind::Gone);
    // A rarely changing kind keeps its history despite changes to other kinds.
    start_watch(&mut world, "Secret", "1");
    for (from, kind) in [("99999", ErrorKind::Gone), ("x", ErrorKind::Invalid)] {
        assert_eq!(world.state.watch_since(world.now, &gvk("ConfigMap"), from).unwrap_err().kind, kind);
    }
    let unknown = world.state.watch_since(world.now, &gvk("Widget"), "").unwrap_err();
    assert_eq!(unknown.kind, ErrorKind::UnknownKind);
}

#[test]
fn bookmarks_advance_quiet_watches() {
    let mut world = World::new();
    let mut cursor = start_watch(&mut world, "Secret", "1");
    let next =
        |world: &mut World, cursor: &mut WatchCursor| world.state.next_changes(world.now, cursor).unwrap();
    assert_eq!(next(&mut world, &mut cursor), [WatchEvent::Bookmark("2".to_owned())]);
    assert_eq!(next(&mut world, &mut cursor), []);
    for number in 0..1000 {
        world.apply(&config_map("a", json!({"n": number.to_string()})));
    }
    assert_eq!(next(&mut world, &mut cursor), [WatchEvent::Bookmark("1002".to_owned())]);
}

#[test]
fn watches_deliver_the_writes_of_controllers() {
    let mut world = World::new();
    let mut cursor = start_watch(&mut world, "Pod", "");
    describe_events(&mut world, &mut cursor);
    world.apply(&workload("DaemonSet", "agent", "a:1", json!({})));
    world.advance(ms(1000));
    let phases: Vec<String> = world
        .state
        .next_changes(world.now, &mut cursor)
        .unwrap()
        .iter()
        .map(|event| match event {
            WatchEvent::Applied(pod) => pod.text("/status/phase").to_owned(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(phases, ["Pending", "Pending", "Running"]);
}
