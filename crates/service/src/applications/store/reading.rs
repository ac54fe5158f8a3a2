//! The Applications, sets and projects of one file. A mistake costs the document it is in, and no other.

pub(super) mod doubt;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use serde_json::Value;
use tidegate_model::Gvk;
use tidegate_model::argo::{self, API_VERSION, Application, ApplicationSet, ObjectMeta};
use tidegate_planner::manifests::{Limits, ManifestError, parse_each};

use self::doubt::Doubt;
use super::projects::{self, Named};
use super::{AppKey, Stored};

/// What says that a file has changed: when it was written, its length, and which file it is.
pub(super) type Stamp = (std::time::SystemTime, u64, u64);

/// What was read of a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReadSet {
    /// What is written down, or was before where that cannot be read; nothing where it never could.
    pub set: Option<ApplicationSet>,
    /// Why that may not be what is written down.
    pub problem: Option<String>,
}

/// What was seen of a file.
#[derive(Default)]
pub(crate) struct Seen {
    pub(super) stamp: Option<Stamp>,
    /// What it lacks since then, and may say again.
    pub(super) doubt: Option<Box<Doubt>>,
    /// Its applications, as far as they could be read; those of before where they cannot be read now.
    pub applications: BTreeMap<AppKey, Arc<Stored>>,
    /// Its sets, in the same way.
    pub sets: BTreeMap<AppKey, ReadSet>,
    /// Its projects, in the same way.
    pub(super) projects: Named,
    /// What cannot be read and belongs to none.
    pub problems: Vec<String>,
    /// What is wrong with sets, and belongs to none.
    pub set_problems: Vec<String>,
    /// Some of it cannot be read, and it cannot be told which applications were there.
    pub is_broken: bool,
    /// There may be projects in what cannot be read.
    pub hides_projects: bool,
}

/// `kind` of the documents that are served.
const APPLICATION: &str = "Application";
const SET: &str = "ApplicationSet";

/// What is said of an application that stays as it was.
pub(crate) fn left_alone(why: &str, problem: &str) -> String {
    format!("{why}, so it is left alone, as it was, until that is mended: {problem}")
}

/// What is said of one that is written down in two places. It is left alone: nobody can say which is meant.
pub(super) fn written_twice(first: &str, other: &str) -> String {
    format!("it is written down in {first} and in {other}, so it is left alone until one of them is gone")
}

/// Where each of a kind is written down first in a file.
type Places = BTreeMap<(&'static str, AppKey), String>;

/// Notes where one is written down; where that is the second place, what is said.
fn noted(kind: &'static str, key: &AppKey, place: String, places: &mut Places) -> Option<String> {
    match places.entry((kind, key.clone())) {
        Entry::Vacant(vacant) => {
            vacant.insert(place);
            None
        }
        Entry::Occupied(first) => Some(written_twice(first.get(), &place)),
    }
}

impl Seen {
    /// Takes in what the file is now.
    pub fn read(&mut self, name: &str, content: io::Result<Vec<u8>>) {
        let content = match content {
            Err(error) => {
                self.hides_projects = true;
                return self.keep(format!("{name}: {error}"));
            }
            Ok(content) => content,
        };
        let (targets, errors) = parse_each(name, &content, &Limits::default());
        // Whoever writes a file anew empties it first, and what it begins with may be a comment.
        if targets.is_empty() && errors.is_empty() && self.has_any() {
            return self.keep(format!("{name}: it is empty; remove it if its applications are to go"));
        }
        let before = std::mem::take(&mut self.applications);
        let sets = std::mem::take(&mut self.sets);
        let projects = std::mem::take(&mut self.projects);
        (self.problems, self.set_problems, self.is_broken) = (Vec::new(), Vec::new(), false);
        let mut places = Places::new();
        for target in targets {
            let (place, object) = (target.origin.to_string(), target.object.as_value());
            let document = || format!("{place}, document {}", target.origin.document);
            if target.object.gvk() == Gvk::from_api_version(API_VERSION, projects::KIND) {
                let (name, project) = projects::read(object, &document());
                self.problems.extend(project.as_ref().err().cloned());
                projects::add(&mut self.projects, name, project, &place);
                continue;
            }
            if target.object.gvk() == Gvk::from_api_version(API_VERSION, SET) {
                match read_set(object, &place, document) {
                    Ok((key, read)) => self.add_set(key, read, (place, &mut places)),
                    Err(problem) => self.set_problems.push(problem),
                }
                continue;
            }
            match read_one(object, &place, document) {
                Ok(stored) => self.add(stored, (place, &mut places)),
                Err(problem) => self.problems.push(problem),
            }
        }
        let (of_projects, errors) = errors.into_iter().partition(|error| project_of(error).is_some());
        self.refuse_projects(of_projects);
        let (of_sets, errors): (Vec<_>, Vec<_>) =
            errors.into_iter().partition(|error| named(error, SET).is_some());
        for (key, problem) in self.sort(of_sets, SET) {
            self.sets.entry(key).or_default().problem.get_or_insert(problem);
        }
        for (key, problem) in self.sort(errors, APPLICATION) {
            let problem = left_alone("its document cannot be read", &problem);
            let known = before.get(&key).map(|known| known.application.clone());
            let application = known.unwrap_or_else(|| unread(&key));
            let stored = Stored { application, problem: Some(problem.clone()), lost: None };
            let stored = self.applications.entry(key).or_insert_with(|| Arc::new(stored));
            Arc::make_mut(stored).problem.get_or_insert(problem);
        }
        self.keep_sets(sets);
        self.hides_projects = self.is_broken && names_projects(&content);
        if self.is_broken {
            let problem = left_alone("its file cannot be read", &self.problems.join("; "));
            for (key, mut stored) in before {
                Arc::make_mut(&mut stored).problem = Some(problem.clone());
                self.applications.entry(key).or_insert(stored);
            }
            for (name, project) in projects {
                self.projects.entry(name).or_insert(project);
            }
        }
    }

    /// A set that cannot be read is what it was before; so is one of which it is not known whether it is there.
    fn keep_sets(&mut self, before: BTreeMap<AppKey, ReadSet>) {
        let hidden = self.is_broken.then(|| left_alone("its file cannot be read", &self.problems.join("; ")));
        for (key, before) in before {
            match (self.sets.get_mut(&key), &hidden) {
                (Some(now), _) if now.set.is_none() && before.set.is_some() => {
                    now.set = before.set;
                    let told = |problem: String| left_alone("its document cannot be read", &problem);
                    now.problem = now.problem.take().map(told);
                }
                (None, Some(problem)) => {
                    drop(self.sets.insert(key, ReadSet { problem: Some(problem.clone()), ..before }));
                }
                _ => {}
            }
        }
    }

    /// Rules that cannot be read forbid everything.
    fn refuse_projects(&mut self, errors: Vec<ManifestError>) {
        for error in errors {
            let problem = error.to_string();
            // One with a slash in it is in quotes, and no project's.
            if let Some(name) = project_of(&error).filter(|name| !name.ends_with('"')) {
                self.projects.insert(name.to_owned(), Err(problem.clone()));
            }
            self.problems.push(problem);
        }
    }

    /// As a control plane refuses what it cannot read, and keeps what it has.
    fn keep(&mut self, problem: String) {
        for stored in self.applications.values_mut() {
            Arc::make_mut(stored).problem = Some(left_alone("its file cannot be read", &problem));
        }
        for read in self.sets.values_mut() {
            read.problem = Some(left_alone("its file cannot be read", &problem));
        }
        (self.problems, self.is_broken) = (vec![problem], true);
    }

    /// For whoever asks for its sets alone: the rest takes its place in memory only once.
    pub(super) fn keep_only_sets(&mut self) {
        self.applications.clear();
        self.projects.clear();
    }

    fn has_any(&self) -> bool {
        !(self.applications.is_empty() && self.sets.is_empty() && self.projects.is_empty())
    }

    /// Whether it holds one document, which can be read, and nothing else.
    pub fn is_one(&self) -> bool {
        let number =
            self.applications.len().saturating_add(self.sets.len()).saturating_add(self.projects.len());
        number == 1 && !self.is_broken && self.problems.is_empty() && self.set_problems.is_empty()
    }

    fn add_set(&mut self, key: AppKey, read: ReadSet, (place, places): (String, &mut Places)) {
        let twice = noted(SET, &key, place, places);
        let first = self.sets.entry(key).or_insert(read);
        if let Some(problem) = twice {
            first.problem.get_or_insert(problem);
        }
    }

    fn add(&mut self, stored: Stored, (place, places): (String, &mut Places)) {
        let key = AppKey::of(&stored.application);
        let twice = noted(APPLICATION, &key, place, places);
        let first = self.applications.entry(key).or_insert_with(|| Arc::new(stored));
        if let Some(problem) = twice {
            Arc::make_mut(first).problem.get_or_insert(problem);
        }
    }

    /// What is wrong with those of a kind that can be told, all of it; what cannot be told is the file's.
    fn sort(&mut self, errors: Vec<ManifestError>, kind: &str) -> BTreeMap<AppKey, String> {
        let mut found: BTreeMap<AppKey, String> = BTreeMap::new();
        for error in errors {
            let problem = match error.document {
                0 => error.to_string(),
                document => format!("{error} (document {document})"),
            };
            match named(&error, kind).filter(AppKey::is_plain) {
                Some(key) => {
                    let all = found.entry(key).or_default();
                    all.push_str(if all.is_empty() { "" } else { "; " });
                    all.push_str(&problem);
                }
                None => {
                    self.problems.push(problem);
                    self.is_broken = true;
                }
            }
        }
        found
    }
}

/// Whether a text is perhaps about projects, however little of it can be read.
fn names_projects(content: &[u8]) -> bool {
    content.windows(projects::KIND.len()).any(|part| part == projects::KIND.as_bytes())
}

/// The project that an error is about.
fn project_of(error: &ManifestError) -> Option<&str> {
    let name = error.object.as_deref()?.strip_prefix("AppProject ")?;
    Some(name.split_once('/').map_or(name, |(_, name)| name))
}

/// The application, or the set, that an error is about.
fn named(error: &ManifestError, kind: &str) -> Option<AppKey> {
    let name = error.object.as_deref()?.strip_prefix(kind)?.strip_prefix(' ')?;
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    Some(AppKey::of(&bare(namespace, name)))
}

fn bare(namespace: &str, name: &str) -> Application {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    Application {
        metadata: ObjectMeta { name, namespace, ..ObjectMeta::default() },
        ..Application::default()
    }
}

/// An application of which no more is known than its name.
fn unread(key: &AppKey) -> Application {
    let namespace = if key.is_of_control_plane() { "" } else { key.namespace.as_str() };
    bare(namespace, &key.name)
}

fn read_one(value: &Value, place: &str, document: impl Fn() -> String) -> Result<Stored, String> {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("/apiVersion"), text("/kind"));
    match (version, kind) {
        (API_VERSION, APPLICATION) => {}
        _ => {
            return Err(format!(
                "{place}: {kind} ({version}) is no Application, no ApplicationSet and no AppProject; only these are served"
            ));
        }
    }
    let (application, problem) = match argo::read::<Application>(value) {
        Ok(mut application) => {
            // Those who serve it write these.
            application.status = Default::default();
            let asked = application.operation.take();
            let problem =
                asked.map(|_| "operation in a file has no effect; use `tidegate app sync`".to_owned());
            (application, problem)
        }
        Err(error) => {
            let metadata = value.pointer("/metadata").cloned().unwrap_or_default();
            let bare = || bare(text("/metadata/namespace"), text("/metadata/name"));
            let application = serde_json::from_value(metadata)
                .map_or_else(|_| bare(), |metadata| Application { metadata, ..Application::default() });
            (
                application,
                Some(left_alone("its document cannot be read", &format!("{}: {error}", document()))),
            )
        }
    };
    let key = AppKey::of(&application);
    check_names(&key, place)?;
    Ok(Stored { application, problem, lost: None })
}

fn check_names(key: &AppKey, place: &str) -> Result<(), String> {
    if key.is_plain() {
        return Ok(());
    }
    let names: BTreeSet<&str> = [key.namespace.as_str(), key.name.as_str()].into();
    Err(format!("{place}: {names:?} must hold lower-case letters, digits, '-' and '.' only"))
}

fn read_set(value: &Value, place: &str, document: impl Fn() -> String) -> Result<(AppKey, ReadSet), String> {
    match argo::read::<ApplicationSet>(value) {
        Ok(mut set) => {
            // Those who serve it write these.
            set.status = Default::default();
            let metadata = &mut set.metadata;
            (metadata.creation_timestamp, metadata.deletion_timestamp) = (None, None);
            metadata.uid.clear();
            metadata.resource_version.clear();
            let key = AppKey::of_set(&set);
            check_names(&key, place)?;
            Ok((key, ReadSet { set: Some(set), problem: None }))
        }
        Err(error) => {
            let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let key = AppKey::of(&bare(text("/metadata/namespace"), text("/metadata/name")));
            check_names(&key, place)?;
            Ok((key, ReadSet { set: None, problem: Some(format!("{}: {error}", document())) }))
        }
    }
}
