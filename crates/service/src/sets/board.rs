//! How each ApplicationSet stands now: for those who ask, and for the actors that begin anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_executor::{Counted, Durations};
use tidegate_lifecycle::rollout::Waiting;
use tidegate_model::argo::ApplicationSet;
use tokio::sync::broadcast;

use crate::applications::reconciles::BOUNDS;
use crate::applications::store::AppKey;
use crate::board::Board;

/// How each ApplicationSet stands. Cheap to clone: all clones show the same.
#[derive(Clone, Default)]
pub(crate) struct SetBoard {
    posted: Arc<Board<Arc<ApplicationSet>>>,
    courses: Arc<Mutex<BTreeMap<AppKey, Course>>>,
}

/// What is measured of a set.
struct Course {
    waiting: Option<Waiting>,
    skipped: u32,
    awaits: Option<String>,
    looks: Durations,
}

impl Default for Course {
    fn default() -> Self {
        Self { waiting: None, skipped: 0, awaits: None, looks: Durations::new(BOUNDS) }
    }
}

/// What is measured of a set.
#[derive(Clone, Debug)]
pub struct SetCourse {
    /// What the current step of its progressive sync waits for.
    pub waiting: Option<Waiting>,
    /// How long looks at it took.
    pub looks: Counted,
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FoundSets {
    /// The ApplicationSets, by name.
    pub sets: Vec<Arc<ApplicationSet>>,
    /// What cannot be read and belongs to none.
    pub problems: Vec<String>,
}

impl SetBoard {
    fn open(&self) -> MutexGuard<'_, BTreeMap<AppKey, Course>> {
        self.courses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look at a set took so long.
    pub fn looked(&self, key: &AppKey, took: Duration) {
        self.open().entry(key.clone()).or_default().looks.observe(took);
    }

    /// What the current step of its progressive sync waits for now; how many of its Applications somebody has gone on without; and
    /// what it awaits, in words. Says whether these two were the same before.
    pub fn rolls(
        &self,
        key: &AppKey,
        waiting: Option<Waiting>,
        skipped: u32,
        awaits: Option<String>,
    ) -> bool {
        let mut courses = self.open();
        let course = courses.entry(key.clone()).or_default();
        let is_same = (course.skipped, &course.awaits) == (skipped, &awaits);
        (course.waiting, course.skipped, course.awaits) = (waiting, skipped, awaits);
        is_same
    }

    /// What its progressive sync, or its deletion, awaits, in words.
    pub fn awaits(&self, key: &AppKey) -> Option<String> {
        self.open().get(key)?.awaits.clone()
    }

    /// What the current step of its progressive sync waits for.
    pub fn waiting(&self, key: &AppKey) -> Option<Waiting> {
        self.open().get(key)?.waiting
    }

    /// How many of its Applications somebody has gone on without in its progressive sync.
    pub fn skipped(&self, key: &AppKey) -> u32 {
        self.open().get(key).map_or(0, |course| course.skipped)
    }

    /// What is measured of each.
    pub fn courses(&self) -> Vec<(AppKey, SetCourse)> {
        let course = |one: &Course| SetCourse { waiting: one.waiting, looks: one.looks.counted() };
        self.open().iter().map(|(key, one)| (key.clone(), course(one))).collect()
    }

    /// One of them.
    pub fn get(&self, key: &AppKey) -> Option<Arc<ApplicationSet>> {
        self.posted.get(key)
    }

    /// By name.
    pub fn all(&self) -> Vec<(AppKey, Arc<ApplicationSet>)> {
        self.posted.all()
    }

    /// Returns what was there before.
    pub fn post(&self, key: &AppKey, set: Arc<ApplicationSet>) -> Option<Arc<ApplicationSet>> {
        self.posted.post(key, set)
    }

    pub fn remove(&self, key: &AppKey) {
        self.posted.remove(key);
        self.open().remove(key);
    }

    pub fn set_problems(&self, problems: Vec<String>) {
        self.posted.set_problems(problems);
    }

    /// Those that change from now on.
    pub fn changes(&self) -> broadcast::Receiver<AppKey> {
        self.posted.changes()
    }

    /// All, or those that are meant.
    pub fn find(&self, text: Option<&str>) -> FoundSets {
        let (sets, problems) = self.posted.find(text);
        FoundSets { sets, problems }
    }
}
