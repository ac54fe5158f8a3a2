//! Invariants that hold after any sequence of writes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use tidegate_cluster::Propagation::{self, Background, Foreground, Orphan};
use tidegate_cluster::sim::{Faults, SimConfig, SimState, Verb};
use tidegate_cluster::{WatchEvent, WriteMode};
use tidegate_model::Object;

use super::{START, World, delete_request, gvk, key, manifest, ms, request, with_value, workload};

#[derive(Clone, Debug)]
enum Action {
    Write { kind: usize, name: usize, version: usize, mode: usize, dry_run: bool },
    Delete { kind: usize, name: usize, propagation: usize, dry_run: bool },
    RemoveFinalizer { kind: usize, name: usize },
    Wait(u64),
}

const KINDS: [&str; 7] = ["ConfigMap", "Deployment", "Job", "StatefulSet", "DaemonSet", "Pod", "Service"];
const OUTCOMES: [Option<&str>; 4] = [None, Some("fail"), Some("crashloop"), Some("stuck-deleting")];
const FINALIZER: &str = "example.com/hold";

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let (kind, name) = (0..KINDS.len(), 0..3_usize);
    let write = (kind.clone(), name.clone(), 0..8_usize, 0..5_usize, prop::bool::weighted(0.15));
    let delete = (kind.clone(), name.clone(), 0..3_usize, prop::bool::weighted(0.1));
    let act = prop_oneof![
        5 => write.prop_map(|(kind, name, version, mode, dry_run)| Action::Write { kind, name, version, mode, dry_run }),
        2 => delete.prop_map(|(kind, name, propagation, dry_run)| Action::Delete { kind, name, propagation, dry_run }),
        1 => (kind, name).prop_map(|(kind, name)| Action::RemoveFinalizer { kind, name }),
        3 => (0..400_u64).prop_map(Action::Wait),
    ];
    prop::collection::vec(act, 1..40)
}

fn manifest_of(kind: &str, name: usize, version: usize) -> Object {
    let name = format!("n{name}");
    let behavior = OUTCOMES[version % 4].map_or(json!({}), |outcome| json!({"outcome": outcome}));
    let object = match kind {
        "ConfigMap" => {
            manifest(kind, &name, json!({"data": {format!("k{}", version % 3): version.to_string()}}))
        }
        "Service" => manifest(
            kind,
            &name,
            json!({"spec": {"ports": [{"port": 80 + version}], "type": "LoadBalancer"}}),
        ),
        _ => workload(kind, &name, &format!("i:{version}"), behavior),
    };
    if version == 7 { with_value(&object, "/metadata/finalizers", json!([FINALIZER])) } else { object }
}

fn write_mode(number: usize) -> WriteMode {
    match number {
        0 | 1 => WriteMode::Apply { force: number == 1 },
        2 => WriteMode::ClientSideApply,
        number => WriteMode::Replace { recreate: number == 4 },
    }
}

fn propagation(number: usize) -> Propagation {
    [Foreground, Background, Orphan][number]
}

fn perform(world: &mut World, act: &Action) {
    match *act {
        Action::Write { kind, name, version, mode: number, dry_run } => {
            let mut write = request(&manifest_of(KINDS[kind], name, version), write_mode(number));
            write.dry_run = dry_run;
            let _ = world.state.apply(world.now, write);
        }
        Action::Delete { kind, name, propagation: number, dry_run } => {
            let mut delete = delete_request(KINDS[kind], &format!("n{name}"), propagation(number));
            delete.dry_run = dry_run;
            let _ = world.state.delete(world.now, delete);
        }
        Action::RemoveFinalizer { kind, name } => {
            let key = key(KINDS[kind], &format!("n{name}"));
            let _ = world.state.remove_finalizer(world.now, &key, "", FINALIZER, None);
        }
        Action::Wait(time) => world.advance(ms(time)),
    }
}

fn all_objects(state: &SimState) -> BTreeMap<String, Object> {
    state.objects().map(|object| (object.key().to_string(), object.clone())).collect()
}

fn without_metadata_and_status(object: &Object) -> Value {
    let mut value = object.as_value().clone();
    value.as_object_mut().unwrap().retain(|field, _| field != "metadata" && field != "status");
    let steering =
        object.pointer("/metadata/annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    let steering: Vec<_> = steering.into_iter().filter(|(name, _)| name.starts_with("sim.")).collect();
    json!([value, steering])
}

fn version_of(object: &Object) -> u64 {
    object.resource_version().parse().unwrap()
}

/// Checks that resource versions and generations reflect exactly the changes between two points in time.
fn check_versions(
    before: &BTreeMap<String, Object>,
    after: &BTreeMap<String, Object>,
    revisions: (u64, u64),
) {
    for (name, now) in after {
        assert!(version_of(now) <= revisions.1);
        let Some(then) = before.get(name).filter(|then| then.uid() == now.uid()) else {
            assert!(version_of(now) > revisions.0, "{name} is new but has an old version");
            continue;
        };
        assert_eq!(
            then == now,
            then.resource_version() == now.resource_version(),
            "{name}: the version changes exactly when the object changes"
        );
        assert!(version_of(then) <= version_of(now) && then.generation() <= now.generation());
        // A volume name or the scheduling of a pod does not increase the generation, so for some kinds this
        // holds in only one direction.
        let same = without_metadata_and_status(then) == without_metadata_and_status(now);
        assert!(
            !same || then.generation() == now.generation(),
            "{name}: the generation changed without a spec change"
        );
        assert!(
            now.generation() == 0 || same || then.generation() < now.generation(),
            "{name}: the spec changed without a new generation"
        );
        assert!(!then.is_deleting() || now.is_deleting(), "{name}: a deletion was undone");
    }
}

/// Checks that no object outlives its owner once the cluster is idle.
fn check_no_orphans(world: &mut World) {
    world.run_until_idle();
    let uids: Vec<String> = world.state.objects().map(|object| object.uid().to_owned()).collect();
    for object in world.state.objects().filter(|object| object.has_owner() && !object.is_deleting()) {
        let owner = object.text("/metadata/ownerReferences/0/uid").to_owned();
        assert!(uids.contains(&owner), "{object} outlived its owner");
    }
    for object in world.state.objects().filter(|object| object.is_deleting()) {
        assert!(
            object.finalizers().next().is_some(),
            "{object} is being deleted, but nothing blocks its removal"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn the_world_stays_consistent(acts in actions()) {
        let mut world = World::new();
        for act in &acts {
            let (before, revision) = (all_objects(&world.state), world.state.revision());
            perform(&mut world, act);
            let after = all_objects(&world.state);
            check_versions(&before, &after, (revision, world.state.revision()));
            if matches!(act, Action::Write { dry_run: true, .. } | Action::Delete { dry_run: true, .. }) {
                prop_assert_eq!(before, after);
                prop_assert_eq!(revision, world.state.revision());
            }
        }
        check_no_orphans(&mut world);
        let sequences: Vec<u64> = world.state.audit().iter().map(|entry| entry.sequence).collect();
        prop_assert_eq!(sequences.clone(), (1..=sequences.len() as u64).collect::<Vec<_>>());
        let created = |entry: &&tidegate_cluster::sim::AuditEntry| entry.code == 201 && !matches!(entry.verb, Verb::Apply | Verb::Create);
        prop_assert!(world.state.audit().iter().all(|entry| !created(&entry)));
    }

    #[test]
    fn results_do_not_depend_on_reads(acts in actions(), looks in prop::collection::vec(1..50_u64, 40)) {
        let (mut watched, mut alone) = (World::new(), World::new());
        for (act, look) in acts.iter().zip(looks) {
            if let Action::Wait(time) = act {
                alone.now = alone.now + ms(*time);
                let end = watched.now + ms(*time);
                while watched.now < end {
                    watched.now = end.min(watched.now + ms(look));
                    watched.state.advance(watched.now);
                    watched.names("Pod");
                }
            } else {
                perform(&mut watched, act);
                perform(&mut alone, act);
            }
        }
        alone.advance(ms(1));
        watched.advance(ms(1));
        prop_assert_eq!(all_objects(&watched.state), all_objects(&alone.state));
    }

    #[test]
    fn list_and_watch_lead_to_the_same_state(acts in actions(), seed in any::<u64>()) {
        let mut faults = Faults::none();
        (faults.watch_repeated, faults.stale_read) = (0.2, 0.2);
        let mut world = World { state: SimState::new(SimConfig::default().with_seed(seed).with_faults(faults), START), now: START };
        let mut cursor = world.state.watch_since(START, &gvk("Pod"), "").unwrap();
        let mut seen: BTreeMap<String, Object> = BTreeMap::new();
        for act in acts.iter().cloned().chain(std::iter::repeat_n(Action::Wait(101), 400)) {
            perform(&mut world, &act);
            for event in world.state.next_changes(world.now, &mut cursor).unwrap() {
                match event {
                    WatchEvent::Applied(object) => { seen.insert(object.key().to_string(), object); }
                    WatchEvent::Deleted(object) => { seen.remove(&object.key().to_string()); }
                    WatchEvent::Bookmark(_) => {}
                }
            }
        }
        let pods: BTreeMap<String, Object> = all_objects(&world.state).into_iter().filter(|(_, object)| object.kind() == "Pod").collect();
        prop_assert_eq!(seen, pods);
    }

    #[test]
    fn the_same_seed_gives_the_same_world(acts in actions(), seed in any::<u64>()) {
        let run = || {
            let mut world = World::with_config(SimConfig::default().with_seed(seed).with_faults(Faults::uniform(0.05)));
            acts.iter().for_each(|act| perform(&mut world, act));
            (all_objects(&world.state), world.state.audit().to_vec(), world.state.next_due())
        };
        prop_assert_eq!(run(), run());
    }
}
