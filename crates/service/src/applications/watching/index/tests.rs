//! News of objects, and what was read of them, in any order.

use std::collections::VecDeque;

use proptest::{prop_assert, prop_assert_eq, proptest};
use serde_json::json;
use tidegate_model::Object;

use super::*;

/// However objects come and go, a namespace has those owners that its objects have.
#[test]
fn a_namespace_has_the_owners_of_its_objects() {
    let app = |name: usize| AppKey { namespace: "argocd".to_owned(), name: format!("app-{name}") };
    let object = |number: usize| {
        let cared = Cared { gvk: Gvk::new("", "v1", "ConfigMap"), state: State::Unknown };
        (ObjectKey::new("", "ConfigMap", format!("ns-{}", number % 3), format!("map-{number}")), cared)
    };
    let (mut index, mut counted) = (Index::default(), 0_usize);
    for step in 0..60_usize {
        let name = app(step.wrapping_mul(7) % 5);
        index.forget(&name);
        if step % 4 != 3 {
            let objects: BTreeMap<_, _> = (step % 6..step % 11).map(object).collect();
            index.add(&name, &objects);
            index.applications.insert(name, Cares::of(objects, 0));
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
    (0..5).for_each(|name| drop(index.forget(&app(name))));
    assert!(index.namespaces.is_empty() && index.owners.is_empty());
}

/// One object, as its cluster has it, as that was told, and as it was read.
struct World {
    index: Index,
    version: usize,
    /// Told of later, in order.
    under_way: VecDeque<usize>,
    /// A comparison that has begun at a moment, and what it has read.
    comparing: Option<(u64, Option<usize>)>,
    /// What the last one has read.
    compared: usize,
}

/// Who watches the object when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    /// The application, which has compared it.
    Compared,
    /// Others, who care for others of its kind.
    Watched,
    /// Nobody.
    New,
}

/// In each other version it is not there.
fn live(version: usize) -> Option<Object> {
    let text = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "map", "namespace": "default", "resourceVersion": version.to_string()},
    });
    (!version.is_multiple_of(2)).then(|| Object::try_from(text).unwrap())
}

fn at(version: usize) -> State {
    live(version).as_ref().map_or(State::Missing, State::of)
}

impl World {
    fn new(begin: Begin) -> Self {
        let mut world = Self {
            index: Index::default(),
            version: 1,
            under_way: VecDeque::new(),
            comparing: None,
            compared: 1,
        };
        if begin != Begin::New {
            world.watch();
            world.list();
        }
        if begin == Begin::Compared {
            let objects = world.objects(1);
            world.take(objects, world.index.clock);
        }
        world
    }

    fn app() -> AppKey {
        AppKey { namespace: "argocd".to_owned(), name: "app".to_owned() }
    }

    fn scope() -> Scope {
        Scope { detail: Detail::Metadata, ..Scope::all(Gvk::new("", "v1", "ConfigMap")) }
    }

    fn objects(&self, version: usize) -> BTreeMap<ObjectKey, Cared> {
        let cared = Cared { gvk: Gvk::new("", "v1", "ConfigMap"), state: at(version) };
        BTreeMap::from([(ObjectKey::new("", "ConfigMap", "default", "map"), cared)])
    }

    /// Nobody is told of changes before the first list.
    fn watch(&mut self) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let begin = || {
            let task = runtime.spawn(async {}).abort_handle();
            Watched { users: 1, is_seen: false, listed_at: 0, task, forbidden: None }
        };
        self.index.watched.entry(Self::scope()).or_insert_with(begin);
    }

    fn list(&mut self) {
        let there = live(self.version).map(|object| (object.key(), State::of(&object)));
        self.index.listed(&Self::scope(), &there.into_iter().collect());
    }

    fn is_seen(&self) -> bool {
        self.index.watched.get(&Self::scope()).is_some_and(|watched| watched.is_seen)
    }

    /// As the watches of a cluster take in what was read.
    fn take(&mut self, objects: BTreeMap<ObjectKey, Cared>, since: u64) -> Option<u64> {
        let objects = match self.index.read_again(&Self::app(), objects, since) {
            Ok(all_up_to) => return all_up_to,
            Err(others) => others,
        };
        self.index.care_for(&Self::app(), objects, since);
        self.watch();
        self.cares().unwrap().scopes.insert(Self::scope());
        self.index.catch_up(&Self::app(), since)
    }

    fn cares(&mut self) -> Option<&mut Cares> {
        self.index.applications.get_mut(&Self::app())
    }

    /// Whether it has compared, and no reason to do it again.
    fn rests(&mut self) -> bool {
        self.comparing.is_none() && self.cares().is_some_and(|cares| !cares.has_news())
    }

    fn step(&mut self, step: u8) {
        match (step, self.comparing) {
            (0, _) => {
                self.version = self.version.wrapping_add(1);
                if self.is_seen() {
                    self.under_way.push_back(self.version);
                }
            }
            (1, _) => {
                let Some(told) = self.under_way.pop_front() else { return };
                let (object, _) = self.objects(0).pop_first().unwrap();
                self.index.changed(&object, &at(told));
            }
            (2, _) => {
                let owners = BTreeSet::from([Self::app()]);
                self.index.note(&owners);
            }
            // A watch begins, or has ended: what it would have told is seen by the list that another one begins with.
            (3, _) if self.index.watched.contains_key(&Self::scope()) => {
                self.under_way.clear();
                self.list();
            }
            (3, _) => {}
            // So many others have changed that nobody remembers all.
            (4, _) => {
                for number in 0..RECENT_MAX {
                    let other = ObjectKey::new("", "ConfigMap", "default", format!("other-{number}"));
                    self.index.changed(&other, &at(1));
                }
            }
            (_, None) => self.comparing = Some((self.index.clock, None)),
            (_, Some((since, None))) => self.comparing = Some((since, Some(self.version))),
            (_, Some((since, Some(read)))) => {
                self.take(self.objects(read), since);
                (self.comparing, self.compared) = (None, read);
            }
        }
    }
}

proptest! {
    /// Whenever changes, news of them and comparisons happen, and whoever watched before it did: who has no news has compared what
    /// there is, as far as that was told, and a comparison of what rests is the last one.
    #[test]
    fn what_was_not_read_is_news_and_what_was_is_none(
        begin in proptest::sample::select(vec![Begin::Compared, Begin::Watched, Begin::New]),
        steps in proptest::collection::vec(0_u8..9, 1..80),
    ) {
        let mut world = World::new(begin);
        for step in steps {
            world.step(step);
            if world.under_way.is_empty() && world.is_seen() && world.rests() {
                prop_assert_eq!(at(world.compared), at(world.version));
            }
        }
        // It rests. What was told, and what will be, is in what is read now.
        while world.comparing.is_some() {
            world.step(5);
        }
        (0..3).for_each(|_| world.step(5));
        if !world.is_seen() {
            world.step(3);
        }
        while !world.under_way.is_empty() {
            world.step(1);
        }
        prop_assert_eq!(world.compared, world.version);
        // That it is missing again is told to nobody, and is in the next comparison; so is what many changes have made uncertain.
        (0..3).for_each(|_| world.step(5));
        prop_assert!(world.rests());
        // Nothing has changed: what the last one has found is what the next one would find.
        let objects = world.objects(world.version);
        prop_assert!(world.take(objects, world.index.clock).is_some());
    }
}
