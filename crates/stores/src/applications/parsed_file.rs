//! Applications, ApplicationSets and projects in a single file. An error affects only its own document.

pub(super) mod incomplete_file;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use serde_json::Value;
use tidegate_application::AppKey;
use tidegate_model::Gvk;
use tidegate_model::argo::{self, API_VERSION, Application, ApplicationSet, ObjectMeta};
use tidegate_planner::manifests::{Limits, ManifestError, parse_each};

use self::incomplete_file::IncompleteFile;
use super::StoredApplication;
use super::projects::{self, ProjectResults};

/// Modification time, length and inode of a file, used to detect changes.
pub(super) type FileStamp = (std::time::SystemTime, u64, u64);

/// Result of reading an ApplicationSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedAppSet {
    /// Current content, or the last readable content if that is unreadable. `None` if the ApplicationSet was
    /// never readable.
    pub appset: Option<ApplicationSet>,
    /// Reason the content may be outdated.
    pub problem: Option<String>,
}

/// Result of reading a file.
#[derive(Default)]
pub struct ParsedFile {
    pub(super) stamp: Option<FileStamp>,
    /// Documents that have disappeared from the file but may come back.
    pub(super) incomplete: Option<Box<IncompleteFile>>,
    /// Applications. An unreadable one keeps its last readable content.
    pub applications: BTreeMap<AppKey, Arc<StoredApplication>>,
    /// ApplicationSets. An unreadable one keeps its last readable content.
    pub appsets: BTreeMap<AppKey, ParsedAppSet>,
    /// Projects. An unreadable one keeps its last readable content.
    pub(super) projects: ProjectResults,
    /// Errors without a known document.
    pub problems: Vec<String>,
    /// Errors of ApplicationSets with unknown names.
    pub appset_problems: Vec<String>,
    /// True if an unreadable part of the file may contain any Application.
    pub has_unknown_applications: bool,
    /// True if unreadable parts of the file may contain projects.
    pub can_hide_projects: bool,
}

/// Kinds of managed documents.
const APPLICATION_KIND: &str = "Application";
const APPSET_KIND: &str = "ApplicationSet";

/// Returns the message for an Application that keeps its previous state.
pub fn unreconciled_message(reason: &str, problem: &str) -> String {
    format!("{reason}, so its last valid version remains in effect until this is fixed: {problem}")
}

/// Returns the message for a document defined in two locations. Neither definition is reconciled, because it
/// isn't clear which one was meant.
pub(super) fn duplicate_message(first: &str, other: &str) -> String {
    format!(
        "the resource is defined in both {first} and {other}, so it is not managed until one definition is \
         removed"
    )
}

/// First location of each document.
type DocumentLocations = BTreeMap<(&'static str, AppKey), String>;

/// Records a document's location. Returns an error if it already has one.
fn record_location(
    kind: &'static str,
    key: &AppKey,
    place: String,
    places: &mut DocumentLocations,
) -> Option<String> {
    match places.entry((kind, key.clone())) {
        Entry::Vacant(vacant) => {
            vacant.insert(place);
            None
        }
        Entry::Occupied(first) => Some(duplicate_message(first.get(), &place)),
    }
}

impl ParsedFile {
    /// Replaces the file's content.
    pub fn replace_content(&mut self, name: &str, content: io::Result<Vec<u8>>) {
        let content = match content {
            Err(error) => {
                self.can_hide_projects = true;
                return self.keep_content(format!("{name}: {error}"));
            }
            Ok(content) => content,
        };
        let (targets, errors) = parse_each(name, &content, &Limits::default());
        // While it is rewritten, a file may be empty or contain only a comment.
        if targets.is_empty() && errors.is_empty() && self.has_documents() {
            return self
                .keep_content(format!("{name}: the file is empty; delete it to remove its applications"));
        }
        let before = std::mem::take(&mut self.applications);
        let sets = std::mem::take(&mut self.appsets);
        let projects = std::mem::take(&mut self.projects);
        (self.problems, self.appset_problems, self.has_unknown_applications) =
            (Vec::new(), Vec::new(), false);
        let mut places = DocumentLocations::new();
        for target in targets {
            let (place, object) = (target.origin.to_string(), target.object.as_value());
            let document = || format!("{place}, document {}", target.origin.document);
            if target.object.gvk() == Gvk::from_api_version(API_VERSION, projects::KIND) {
                let (name, project) = projects::parse_project(object, &document());
                self.problems.extend(project.as_ref().err().cloned());
                projects::add_project(&mut self.projects, name, project, &place);
                continue;
            }
            if target.object.gvk() == Gvk::from_api_version(API_VERSION, APPSET_KIND) {
                match parse_appset(object, &place, document) {
                    Ok((key, read)) => self.add_appset(key, read, place, &mut places),
                    Err(problem) => self.appset_problems.push(problem),
                }
                continue;
            }
            match parse_application(object, &place, document) {
                Ok(stored) => self.add_application(stored, place, &mut places),
                Err(problem) => self.problems.push(problem),
            }
        }
        let (of_projects, errors) = errors.into_iter().partition(|error| project_of(error).is_some());
        self.record_project_errors(of_projects);
        let (of_sets, errors): (Vec<_>, Vec<_>) =
            errors.into_iter().partition(|error| document_key(error, APPSET_KIND).is_some());
        for (key, problem) in self.sort_errors(of_sets, APPSET_KIND) {
            self.appsets.entry(key).or_default().problem.get_or_insert(problem);
        }
        for (key, problem) in self.sort_errors(errors, APPLICATION_KIND) {
            let problem = unreconciled_message("the document is invalid", &problem);
            let known = before.get(&key).map(|known| known.application.clone());
            let application = known.unwrap_or_else(|| unreadable_application(&key));
            let stored = StoredApplication { application, problem: Some(problem.clone()), lost_state: None };
            let stored = self.applications.entry(key).or_insert_with(|| Arc::new(stored));
            Arc::make_mut(stored).problem.get_or_insert(problem);
        }
        self.keep_unreadable_appsets(sets);
        self.can_hide_projects = self.has_unknown_applications && can_name_projects(&content);
        if self.has_unknown_applications {
            let problem = unreconciled_message("the file is invalid", &self.problems.join("; "));
            for (key, mut stored) in before {
                Arc::make_mut(&mut stored).problem = Some(problem.clone());
                self.applications.entry(key).or_insert(stored);
            }
            for (name, project) in projects {
                self.projects.entry(name).or_insert(project);
            }
        }
    }

    /// Keeps the last readable content of unreadable ApplicationSets, and of those that may be in an
    /// unreadable part of the file.
    fn keep_unreadable_appsets(&mut self, before: BTreeMap<AppKey, ParsedAppSet>) {
        let hidden = self
            .has_unknown_applications
            .then(|| unreconciled_message("the file is invalid", &self.problems.join("; ")));
        for (key, before) in before {
            match (self.appsets.get_mut(&key), &hidden) {
                (Some(now), _) if now.appset.is_none() && before.appset.is_some() => {
                    now.appset = before.appset;
                    let message = |problem: String| unreconciled_message("the document is invalid", &problem);
                    now.problem = now.problem.take().map(message);
                }
                (None, Some(problem)) => {
                    drop(self.appsets.insert(key, ParsedAppSet { problem: Some(problem.clone()), ..before }));
                }
                _ => {}
            }
        }
    }

    /// Records unreadable projects. A project with unreadable rules permits nothing.
    fn record_project_errors(&mut self, errors: Vec<ManifestError>) {
        for error in errors {
            let problem = error.to_string();
            // A name with a slash, quoted in the error message, isn't a project name.
            if let Some(name) = project_of(&error).filter(|name| !name.ends_with('"')) {
                self.projects.insert(name.to_owned(), Err(problem.clone()));
            }
            self.problems.push(problem);
        }
    }

    /// Keeps the previous content of an unreadable file, as a control plane does when it rejects invalid
    /// content.
    fn keep_content(&mut self, problem: String) {
        for stored in self.applications.values_mut() {
            Arc::make_mut(stored).problem = Some(unreconciled_message("the file is invalid", &problem));
        }
        for read in self.appsets.values_mut() {
            read.problem = Some(unreconciled_message("the file is invalid", &problem));
        }
        (self.problems, self.has_unknown_applications) = (vec![problem], true);
    }

    /// Drops everything except the ApplicationSets, to save memory.
    pub(super) fn keep_only_appsets(&mut self) {
        self.applications.clear();
        self.projects.clear();
    }

    fn has_documents(&self) -> bool {
        !(self.applications.is_empty() && self.appsets.is_empty() && self.projects.is_empty())
    }

    /// Returns true if the file contains exactly one document, which is readable.
    pub fn has_single_document(&self) -> bool {
        let number =
            self.applications.len().saturating_add(self.appsets.len()).saturating_add(self.projects.len());
        number == 1
            && !self.has_unknown_applications
            && self.problems.is_empty()
            && self.appset_problems.is_empty()
    }

    fn add_appset(&mut self, key: AppKey, read: ParsedAppSet, place: String, places: &mut DocumentLocations) {
        let twice = record_location(APPSET_KIND, &key, place, places);
        let first = self.appsets.entry(key).or_insert(read);
        if let Some(problem) = twice {
            first.problem.get_or_insert(problem);
        }
    }

    fn add_application(&mut self, stored: StoredApplication, place: String, places: &mut DocumentLocations) {
        let key = AppKey::of(&stored.application);
        let twice = record_location(APPLICATION_KIND, &key, place, places);
        let first = self.applications.entry(key).or_insert_with(|| Arc::new(stored));
        if let Some(problem) = twice {
            Arc::make_mut(first).problem.get_or_insert(problem);
        }
    }

    /// Groups a kind's errors by document. Errors without a known document apply to the whole file.
    fn sort_errors(&mut self, errors: Vec<ManifestError>, kind: &str) -> BTreeMap<AppKey, String> {
        let mut found: BTreeMap<AppKey, String> = BTreeMap::new();
        for error in errors {
            let problem = match error.document {
                0 => error.to_string(),
                document => format!("{error} (document {document})"),
            };
            match document_key(&error, kind).filter(AppKey::is_valid) {
                Some(key) => {
                    let all = found.entry(key).or_default();
                    all.push_str(if all.is_empty() { "" } else { "; " });
                    all.push_str(&problem);
                }
                None => {
                    self.problems.push(problem);
                    self.has_unknown_applications = true;
                }
            }
        }
        found
    }
}

/// Returns true if unreadable content may contain projects.
fn can_name_projects(content: &[u8]) -> bool {
    content.windows(projects::KIND.len()).any(|part| part == projects::KIND.as_bytes())
}

/// Returns the name of the project that caused an error.
fn project_of(error: &ManifestError) -> Option<&str> {
    let name = error.object.as_deref()?.strip_prefix("AppProject ")?;
    Some(name.split_once('/').map_or(name, |(_, name)| name))
}

/// Returns the key of the Application or ApplicationSet that caused an error.
fn document_key(error: &ManifestError, kind: &str) -> Option<AppKey> {
    let name = error.object.as_deref()?.strip_prefix(kind)?.strip_prefix(' ')?;
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    Some(AppKey::of(&empty_application(namespace, name)))
}

fn empty_application(namespace: &str, name: &str) -> Application {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    Application {
        metadata: ObjectMeta { name, namespace, ..ObjectMeta::default() },
        ..Application::default()
    }
}

/// Returns a placeholder for an unreadable Application with a known name.
fn unreadable_application(key: &AppKey) -> Application {
    let namespace = if key.is_in_control_plane() { "" } else { key.namespace.as_str() };
    empty_application(namespace, &key.name)
}

fn parse_application(
    value: &Value,
    place: &str,
    document: impl Fn() -> String,
) -> Result<StoredApplication, String> {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("/apiVersion"), text("/kind"));
    match (version, kind) {
        (API_VERSION, APPLICATION_KIND) => {}
        _ => {
            return Err(format!(
                "{place}: unsupported kind {kind} ({version}); use Application, ApplicationSet or AppProject"
            ));
        }
    }
    let (application, problem) = match argo::read_resource::<Application>(value) {
        Ok(mut application) => {
            // The controller owns these fields, so ignore them in files.
            application.status = Default::default();
            let request = application.operation.take();
            let problem = request
                .map(|_| "the operation field has no effect in a file; use `tidegate app sync`".to_owned());
            (application, problem)
        }
        Err(error) => {
            let metadata = value.pointer("/metadata").cloned().unwrap_or_default();
            let bare = || empty_application(text("/metadata/namespace"), text("/metadata/name"));
            let application = serde_json::from_value(metadata)
                .map_or_else(|_| bare(), |metadata| Application { metadata, ..Application::default() });
            (
                application,
                Some(unreconciled_message("the document is invalid", &format!("{}: {error}", document()))),
            )
        }
    };
    let key = AppKey::of(&application);
    check_names(&key, place)?;
    Ok(StoredApplication { application, problem, lost_state: None })
}

fn check_names(key: &AppKey, place: &str) -> Result<(), String> {
    if key.is_valid() {
        return Ok(());
    }
    let names: BTreeSet<&str> = [key.namespace.as_str(), key.name.as_str()].into();
    Err(format!("{place}: {names:?} may contain only lowercase letters, digits, '-' and '.'"))
}

fn parse_appset(
    value: &Value,
    place: &str,
    document: impl Fn() -> String,
) -> Result<(AppKey, ParsedAppSet), String> {
    match argo::read_resource::<ApplicationSet>(value) {
        Ok(mut set) => {
            // The controller owns these fields, so ignore them in files.
            set.status = Default::default();
            let metadata = &mut set.metadata;
            (metadata.creation_timestamp, metadata.deletion_timestamp) = (None, None);
            metadata.uid.clear();
            metadata.resource_version.clear();
            let key = AppKey::of_appset(&set);
            check_names(&key, place)?;
            Ok((key, ParsedAppSet { appset: Some(set), problem: None }))
        }
        Err(error) => {
            let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let key = AppKey::of(&empty_application(text("/metadata/namespace"), text("/metadata/name")));
            check_names(&key, place)?;
            Ok((key, ParsedAppSet { appset: None, problem: Some(format!("{}: {error}", document())) }))
        }
    }
}
