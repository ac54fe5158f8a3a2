//! Reports about objects and reads of objects, in any order.

use std::collections::VecDeque;

use proptest::{prop_assert, prop_assert_eq, proptest};
use serde_json::json;
use tidegate_model::Object;

use super::*;

/// A namespace's owners are the owners of its objects, no matter how objects are added and removed.
#[test]
fn a_namespace_has_the_owners_of_its_objects() {
    let app = |name: usize| AppKey { namespace: "argocd".to_owned(), name: format!("app-{name}") };
    let object = |number: usize| {
        let cared = TrackedObject { gvk: Gvk::new("", "v1", "ConfigMap"), state: ObjectState::Unknown };
        (ObjectKey::new("", "ConfigMap", format!("ns-{}", number % 3), format!("map-{number}")), cared)
    };
    let (mut index, mut counted) = (ObjectIndex::default(), 0_usize);
    for step in 0..60_usize {
        let name = app(step.wrapping_mul(7) % 5);
        index.remove_application(&name);
        if step % 4 != 3 {
            let objects: BTreeMap<_, _> = (step % 6..step % 11).map(object).collect();
            index.add_objects(&name, &objects);
            index.applications.insert(name, ApplicationObjects::new(objects, 0));
        }
        let mut expected: BTreeMap<String, BTreeMap<AppKey, usize>> = BTreeMap::new();
        for (object, owner) in
            index.owners.iter().flat_map(|(object, all)| all.iter().map(move |one| (object, one)))
        {
            let count =
                expected.entry(object.namespace.clone()).or_default().entry(owner.clone()).or_default();
            *count = count.saturating_add(1);
        }
        assert_eq!(index.namespaces, expected, "after step {step}");
        counted = counted.saturating_add(usize::from(expected.len() > 1));
    }
    assert!(counted > 10, "{counted} steps with objects in several namespaces");
    (0..5).for_each(|name| drop(index.remove_application(&app(name))));
    assert!(index.namespaces.is_empty() && index.owners.is_empty());
}

/// A simulated object: its state in the cluster, in reports and in reads.
struct Simulation {
    index: ObjectIndex,
    version: usize,
    /// Versions that will be reported later, in order.
    pending_reports: VecDeque<usize>,
    /// Running comparison: the time at which it started, and the version that it has read.
    running_comparison: Option<(u64, Option<usize>)>,
    /// Result of the last comparison.
    last_compared: usize,
}

/// Applications that are already watching the object's kind at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InitialWatcher {
    /// The Application itself, which has compared the object.
    SameApplication,
    /// Other Applications with other objects of the same kind.
    OtherApplications,
    /// No Application.
    NoWatcher,
}

/// Returns the object, which is missing in every other version.
fn live_object(version: usize) -> Option<Object> {
    let text = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "map", "namespace": "default", "resourceVersion": version.to_string()},
    });
    (!version.is_multiple_of(2)).then(|| Object::try_from(text).unwrap())
}

fn state_at(version: usize) -> ObjectState {
    live_object(version).as_ref().map_or(ObjectState::Missing, ObjectState::from_object)
}

impl Simulation {
    fn new(begin: InitialWatcher) -> Self {
        let mut world = Self {
            index: ObjectIndex::default(),
            version: 1,
            pending_reports: VecDeque::new(),
            running_comparison: None,
            last_compared: 1,
        };
        if begin != InitialWatcher::NoWatcher {
            world.watch();
            world.list();
        }
        if begin == InitialWatcher::SameApplication {
            let objects = world.objects(1);
            world.apply_read(objects, world.index.clock);
        }
        world
    }

    fn app() -> AppKey {
        AppKey { namespace: "argocd".to_owned(), name: "app".to_owned() }
    }

    fn scope() -> Scope {
        Scope { detail: Detail::Metadata, ..Scope::complete_objects(Gvk::new("", "v1", "ConfigMap")) }
    }

    fn objects(&self, version: usize) -> BTreeMap<ObjectKey, TrackedObject> {
        let cared = TrackedObject { gvk: Gvk::new("", "v1", "ConfigMap"), state: state_at(version) };
        BTreeMap::from([(ObjectKey::new("", "ConfigMap", "default", "map"), cared)])
    }

    /// Starts the watch. No changes are reported until the first list.
    fn watch(&mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let begin = || {
            let task = runtime.spawn(async {}).abort_handle();
            ScopeWatch { users: 1, is_working: false, listed_at: 0, task, forbidden: None }
        };
        self.index.watches.entry(Self::scope()).or_insert_with(begin);
    }

    fn list(&mut self) {
        let there = live_object(self.version).map(|object| (object.key(), ObjectState::from_object(&object)));
        self.index.apply_list(&Self::scope(), &there.into_iter().collect());
    }

    fn is_watch_working(&self) -> bool {
        self.index.watches.get(&Self::scope()).is_some_and(|watched| watched.is_working)
    }

    /// Applies a read in the same way as `ClusterWatches::set_objects`.
    fn apply_read(&mut self, objects: BTreeMap<ObjectKey, TrackedObject>, since: u64) -> Option<u64> {
        let objects = match self.index.record_read(&Self::app(), objects, since) {
            Ok(all_up_to) => return all_up_to,
            Err(others) => others,
        };
        self.index.replace_objects(&Self::app(), objects, since);
        self.watch();
        self.application_objects().unwrap().scopes.insert(Self::scope());
        self.index.apply_missed_changes(&Self::app(), since)
    }

    fn application_objects(&mut self) -> Option<&mut ApplicationObjects> {
        self.index.applications.get_mut(&Self::app())
    }

    /// Returns true if the Application has compared the object and has no reason to compare it again.
    fn is_idle(&mut self) -> bool {
        self.running_comparison.is_none()
            && self.application_objects().is_some_and(|cares| !cares.has_unread_changes())
    }

    fn step(&mut self, step: u8) {
        match (step, self.running_comparison) {
            (0, _) => {
                self.version = self.version.wrapping_add(1);
                if self.is_watch_working() {
                    self.pending_reports.push_back(self.version);
                }
            }
            (1, _) => {
                let Some(report) = self.pending_reports.pop_front() else { return };
                let (object, _) = self.objects(0).pop_first().unwrap();
                self.index.apply_state(&object, &state_at(report));
            }
            (2, _) => {
                let owners = BTreeSet::from([Self::app()]);
                self.index.record_change(&owners);
            }
            // A watch starts or has ended. The list at the start of the next watch includes the reports that
            // were missed.
            (3, _) if self.index.watches.contains_key(&Self::scope()) => {
                self.pending_reports.clear();
                self.list();
            }
            (3, _) => {}
            // Too many other objects have changed for all changes to be stored.
            (4, _) => {
                for number in 0..RECENT_CHANGES_MAX {
                    let other = ObjectKey::new("", "ConfigMap", "default", format!("other-{number}"));
                    self.index.apply_state(&other, &state_at(1));
                }
            }
            (_, None) => self.running_comparison = Some((self.index.clock, None)),
            (_, Some((since, None))) => self.running_comparison = Some((since, Some(self.version))),
            (_, Some((since, Some(read)))) => {
                self.apply_read(self.objects(read), since);
                (self.running_comparison, self.last_compared) = (None, read);
            }
        }
    }
}

proptest! {
    /// Checks any order of changes, reports and comparisons, with any initial watchers. An Application
    /// without unread changes has compared the reported state. Without further changes, it stops comparing.
    #[test]
    fn an_application_without_unread_changes_has_read_the_current_object(
        begin in proptest::sample::select(vec![InitialWatcher::SameApplication, InitialWatcher::OtherApplications, InitialWatcher::NoWatcher]),
        steps in proptest::collection::vec(0_u8..9, 1..80),
    ) {
        let mut world = Simulation::new(begin);
        for step in steps {
            world.step(step);
            if world.pending_reports.is_empty() && world.is_watch_working() && world.is_idle() {
                prop_assert_eq!(state_at(world.last_compared), state_at(world.version));
            }
        }
        // After the last report, the last comparison has read the current state.
        while world.running_comparison.is_some() {
            world.step(5);
        }
        (0..3).for_each(|_| world.step(5));
        if !world.is_watch_working() {
            world.step(3);
        }
        while !world.pending_reports.is_empty() {
            world.step(1);
        }
        prop_assert_eq!(world.last_compared, world.version);
        // No report confirms that an object is still missing, or resolves the uncertainty after too many
        // changes. The next comparison does both.
        (0..3).for_each(|_| world.step(5));
        prop_assert!(world.is_idle());
        // Nothing has changed, so the next comparison has the same result as the previous comparison.
        let objects = world.objects(world.version);
        prop_assert!(world.apply_read(objects, world.index.clock).is_some());
    }
}
