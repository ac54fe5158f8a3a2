//! Watches tell every change once, in order, or say that they cannot.

use serde_json::json;
use tidegate_cluster::sim::{Cursor, SimConfig};
use tidegate_cluster::{ErrorKind, Propagation, WatchEvent};

use super::{World, assert_refused, config_map, gvk, ms, workload};

fn watch(world: &mut World, kind: &str, from: &str) -> Cursor {
    world.state.watch_since(world.now, &gvk(kind), from).unwrap()
}

/// What a cursor sees, in short.
fn seen(world: &mut World, cursor: &mut Cursor) -> Vec<String> {
    let events = world.state.changes(world.now, cursor).unwrap();
    let words = events.iter().filter_map(|event| match event {
        WatchEvent::Applied(object) => Some(format!("{} {}", object.name(), object.resource_version())),
        WatchEvent::Deleted(object) => Some(format!("-{} {}", object.name(), object.resource_version())),
        WatchEvent::Bookmark(_) => None,
    });
    words.collect()
}

#[test]
fn changes_come_in_order_from_where_the_list_ended() {
    let mut world = World::new();
    world.apply(&config_map("a", json!({})));
    let from = world.state.list(world.now, &gvk("ConfigMap")).unwrap().resource_version;
    let mut cursor = watch(&mut world, "ConfigMap", &from);
    assert_eq!(seen(&mut world, &mut cursor), [""; 0]);
    world.apply(&config_map("a", json!({"x": "1"})));
    world.apply(&config_map("b", json!({})));
    world.delete("ConfigMap", "a", Propagation::Background).unwrap();
    assert_eq!(seen(&mut world, &mut cursor), ["a 4", "b 5", "-a 6"]);
    assert_eq!(seen(&mut world, &mut cursor), [""; 0]);
    let mut late = watch(&mut world, "ConfigMap", "4");
    assert_eq!(seen(&mut world, &mut late), ["b 5", "-a 6"]);
}

#[test]
fn a_watch_from_nowhere_begins_with_what_is_there() {
    for from in ["", "0"] {
        let mut world = World::new();
        world.apply(&config_map("a", json!({})));
        let mut cursor = watch(&mut world, "ConfigMap", from);
        assert_eq!(seen(&mut world, &mut cursor), ["a 3"]);
        world.apply(&config_map("b", json!({})));
        assert_eq!(seen(&mut world, &mut cursor), ["b 4"]);
    }
}

#[test]
fn what_was_forgotten_is_gone() {
    let mut world = World::with(SimConfig { history: 3, ..SimConfig::default() });
    for number in 0..5 {
        world.apply(&config_map("a", json!({"n": number.to_string()})));
    }
    let error = world.state.watch_since(world.now, &gvk("ConfigMap"), "3").unwrap_err();
    assert_refused(&error, ErrorKind::Gone, "too old resource version");
    let mut slow = watch(&mut world, "ConfigMap", "4");
    world.apply(&config_map("b", json!({})));
    world.apply(&config_map("c", json!({})));
    assert_eq!(world.state.changes(world.now, &mut slow).unwrap_err().kind, ErrorKind::Gone);
    // A quiet kind forgets nothing, however much happens elsewhere.
    watch(&mut world, "Secret", "1");
    for (from, kind) in [("99999", ErrorKind::Gone), ("x", ErrorKind::Invalid)] {
        assert_eq!(world.state.watch_since(world.now, &gvk("ConfigMap"), from).unwrap_err().kind, kind);
    }
    let unknown = world.state.watch_since(world.now, &gvk("Widget"), "").unwrap_err();
    assert_eq!(unknown.kind, ErrorKind::UnknownKind);
}

#[test]
fn bookmarks_lead_past_quiet_times() {
    let mut world = World::new();
    let mut cursor = watch(&mut world, "Secret", "1");
    let next = |world: &mut World, cursor: &mut Cursor| world.state.changes(world.now, cursor).unwrap();
    assert_eq!(next(&mut world, &mut cursor), [WatchEvent::Bookmark("2".to_owned())]);
    assert_eq!(next(&mut world, &mut cursor), []);
    for number in 0..1000 {
        world.apply(&config_map("a", json!({"n": number.to_string()})));
    }
    assert_eq!(next(&mut world, &mut cursor), [WatchEvent::Bookmark("1002".to_owned())]);
}

#[test]
fn controllers_are_seen_at_work() {
    let mut world = World::new();
    let mut cursor = watch(&mut world, "Pod", "");
    seen(&mut world, &mut cursor);
    world.apply(&workload("DaemonSet", "agent", "a:1", json!({})));
    world.wait(ms(1000));
    let phases: Vec<String> = world
        .state
        .changes(world.now, &mut cursor)
        .unwrap()
        .iter()
        .map(|event| match event {
            WatchEvent::Applied(pod) => pod.text("/status/phase").to_owned(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(phases, ["Pending", "Pending", "Running"]);
}
