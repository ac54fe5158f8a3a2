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
    fn new() -> Self {
        let mut world = Self {
            index: Index::default(),
            version: 1,
            under_way: VecDeque::new(),
            comparing: None,
            compared: 1,
        };
        let objects = world.objects(1);
        world.index.add(&Self::app(), &objects);
        world.index.applications.insert(Self::app(), Cares::of(objects, 0));
        world
    }

    fn app() -> AppKey {
        AppKey { namespace: "argocd".to_owned(), name: "app".to_owned() }
    }

    fn objects(&self, version: usize) -> BTreeMap<ObjectKey, Cared> {
        let cared = Cared { gvk: Gvk::new("", "v1", "ConfigMap"), state: at(version) };
        BTreeMap::from([(ObjectKey::new("", "ConfigMap", "default", "map"), cared)])
    }

    fn cares(&mut self) -> &mut Cares {
        self.index.applications.get_mut(&Self::app()).unwrap()
    }

    fn step(&mut self, step: u8) {
        match (step, self.comparing) {
            (0, _) => {
                self.version = self.version.wrapping_add(1);
                self.under_way.push_back(self.version);
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
            // The watch has ended: what it would have told is seen by the list that another one begins with.
            (3, _) => {
                self.under_way.clear();
                let scope = Scope::all(Gvk::new("", "v1", "ConfigMap"));
                let there = live(self.version).map(|object| (object.key(), State::of(&object)));
                self.index.listed(&scope, &there.into_iter().collect());
            }
            (_, None) => self.comparing = Some((self.cares().told, None)),
            (_, Some((since, None))) => self.comparing = Some((since, Some(self.version))),
            (_, Some((since, Some(read)))) => {
                let objects = self.objects(read);
                self.cares().is_read(objects, since);
                (self.comparing, self.compared) = (None, read);
            }
        }
    }
}

proptest! {
    /// Whenever changes, news of them and comparisons happen: whoever has no news has compared what there is, as far as that was
    /// told, and a comparison of what rests is the last one.
    #[test]
    fn what_was_not_read_is_news_and_what_was_is_none(steps in proptest::collection::vec(0_u8..7, 1..80)) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
            if world.under_way.is_empty() && world.comparing.is_none() && !world.cares().has_news() {
                prop_assert_eq!(at(world.compared), at(world.version));
            }
        }
        // It rests. What was told, and what will be, is in what is read now.
        while world.comparing.is_some() {
            world.step(4);
        }
        (0..3).for_each(|_| world.step(4));
        while !world.under_way.is_empty() {
            world.step(1);
        }
        prop_assert_eq!(world.compared, world.version);
        // That it is missing again is told to nobody, and is in the next comparison.
        prop_assert!(!world.cares().has_news() || live(world.version).is_none());
        (0..3).for_each(|_| world.step(4));
        prop_assert!(!world.cares().has_news());
    }
}
