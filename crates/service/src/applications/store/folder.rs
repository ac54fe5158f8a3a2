//! A folder of YAML files. Its files are looked at every second; what is known of the applications is kept in the state
//! directory, so that nobody but their author writes to the files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use tidegate_application::deletion;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::argo::Application;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::projects::{self, Named};
use super::reading::{Seen, Stamp, left_alone};
use super::{AppKey, ApplicationStore, StoreEvent, Stored, kept, tell_all};
use crate::applications::projects::ProjectSet;
use crate::error::ServiceError;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A folder of YAML files.
pub struct FolderStore {
    folder: PathBuf,
    kept: PathBuf,
}

impl FolderStore {
    /// A folder, which must be there, and where to keep what is known.
    pub fn open(folder: &Path, kept: PathBuf) -> Result<Self, ServiceError> {
        let wrong = |source| ServiceError::Io { action: "read", path: folder.to_path_buf(), source };
        let folder = fs::canonicalize(folder).map_err(wrong)?;
        fs::read_dir(&folder).map_err(wrong)?;
        Ok(Self { folder, kept })
    }
}

#[async_trait]
impl ApplicationStore for FolderStore {
    fn base(&self) -> PathBuf {
        self.folder.clone()
    }

    fn watch(&self) -> UnboundedReceiver<StoreEvent> {
        let (tell, told) = unbounded_channel();
        let mut watcher =
            Watcher { folder: self.folder.clone(), kept: self.kept.clone(), ..Watcher::default() };
        tokio::spawn(async move {
            loop {
                let looking = tokio::task::spawn_blocking(move || {
                    let events = watcher.look();
                    (watcher, events)
                });
                let Ok((back, events)) = looking.await else { return };
                watcher = back;
                if !tell_all(&tell, events) {
                    return;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        told
    }

    async fn keep(&self, application: &Application) -> Result<(), ServiceError> {
        let (folder, application) = (self.kept.clone(), application.clone());
        blocking(self.kept.clone(), move || kept::write(&folder, &application)).await
    }

    async fn delete(&self, application: &Application) -> Result<(), ServiceError> {
        let (folder, files, application) = (self.kept.clone(), self.folder.clone(), application.clone());
        let remove = move || {
            let path = only_in(&files, &AppKey::of(&application))?;
            // Its finalizers are known before its file goes, and count from then on.
            kept::write(&folder, &application)?;
            fs::remove_file(&path).map_err(|source| ServiceError::Io { action: "remove", path, source })
        };
        blocking(self.folder.clone(), remove).await
    }

    async fn release(&self, application: &Application) -> Result<(), ServiceError> {
        self.keep(application).await
    }

    async fn forget(&self, key: &AppKey) -> Result<(), ServiceError> {
        let path = kept::file(&self.kept, key);
        let forget = move || match fs::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(ServiceError::Io { action: "remove", path, source })
            }
            _ => Ok(()),
        };
        blocking(self.kept.clone(), forget).await
    }
}

async fn blocking(
    path: PathBuf,
    call: impl FnOnce() -> Result<(), ServiceError> + Send + 'static,
) -> Result<(), ServiceError> {
    let failed = |error| ServiceError::Io { action: "write", path, source: std::io::Error::other(error) };
    tokio::task::spawn_blocking(call).await.map_err(failed)?
}

#[derive(Default)]
struct Watcher {
    folder: PathBuf,
    kept: PathBuf,
    files: BTreeMap<PathBuf, Seen>,
    told: BTreeMap<AppKey, Stored>,
    problems: Vec<String>,
    /// The projects, as they were told.
    projects: Option<ProjectSet>,
    /// It could never be told which projects there are.
    is_blind: bool,
    /// Those that were known when nobody looked, and are in no file; they may be in a document that cannot be read.
    unplaced: BTreeMap<AppKey, Stored>,
    /// The folder itself cannot be read.
    is_away: bool,
    settled: bool,
}

impl Watcher {
    /// What has happened since the last look.
    fn look(&mut self) -> Vec<StoreEvent> {
        let (found, mut problems) = self.stamps();
        self.files.retain(|path, _| found.contains_key(path));
        for (path, stamp) in found {
            let seen = self.files.entry(path.clone()).or_default();
            if seen.stamp != Some(stamp) {
                seen.stamp = Some(stamp);
                seen.read(&name(&path), fs::read(&path));
            }
        }
        let mut current: BTreeMap<AppKey, (PathBuf, Stored)> = BTreeMap::new();
        let mut projects = Named::new();
        for (path, seen) in &self.files {
            problems.extend(seen.problems.iter().cloned());
            for (project, read) in &seen.projects {
                projects::add(&mut projects, project.clone(), read.clone(), &name(path));
            }
            for (key, stored) in &seen.applications {
                match current.get_mut(key) {
                    None => drop(current.insert(key.clone(), (path.clone(), stored.clone()))),
                    Some((first, stored)) => {
                        let message =
                            format!("it is also in {}; the one in {} counts", name(path), name(first));
                        stored.problem.get_or_insert(message);
                    }
                }
            }
        }
        let mut events = self.projects_are(projects, &problems);
        events.extend(
            self.events(current.into_iter().map(|(key, (_, stored))| (key, stored)).collect(), problems),
        );
        events
    }

    /// What was never read may say that the project `default` forbids something.
    fn projects_are(&mut self, projects: Named, problems: &[String]) -> Vec<StoreEvent> {
        let hides = self.is_away || self.files.values().any(|seen| seen.hides_projects);
        self.is_blind = hides && (self.is_blind || !self.settled);
        let set = projects::of_files(projects, Some(problems).filter(|_| self.is_blind));
        if self.projects.as_ref() == Some(&set) {
            return Vec::new();
        }
        self.projects = Some(set.clone());
        vec![StoreEvent::Projects(set)]
    }

    /// Whether there may be applications in what cannot be read.
    fn is_unsure(&self) -> bool {
        self.is_away || self.files.values().any(|seen| seen.is_broken)
    }

    fn stamps(&mut self) -> (BTreeMap<PathBuf, Stamp>, Vec<String>) {
        let (mut found, mut problems) = (BTreeMap::new(), Vec::new());
        let entries = fs::read_dir(&self.folder);
        self.is_away = entries.is_err();
        let entries = match entries {
            Ok(entries) => entries,
            // What was in it before counts: nobody has said that it is to go.
            Err(error) => {
                let known = |(path, seen): (&PathBuf, &Seen)| Some((path.clone(), seen.stamp?));
                let problem = format!("{}: {error}; what was in it before counts", self.folder.display());
                return (self.files.iter().filter_map(known).collect(), vec![problem]);
            }
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            match fs::metadata(&path) {
                Ok(file) if is_manifest(&path) && file.is_file() => {
                    found.insert(path, (file.modified().unwrap_or(std::time::UNIX_EPOCH), file.len()));
                }
                Err(error) if is_manifest(&path) => problems.push(format!("{}: {error}", name(&path))),
                _ => {}
            }
        }
        (found, problems)
    }

    fn events(&mut self, mut current: BTreeMap<AppKey, Stored>, problems: Vec<String>) -> Vec<StoreEvent> {
        let mut lost = BTreeMap::new();
        if !self.settled {
            lost = kept::set_aside(&self.kept);
            for application in kept::kept_applications(&self.kept).unwrap_or_default() {
                // It may have gone while nobody looked.
                self.told.insert(AppKey::of(&application), Stored { application, problem: None, lost: None });
            }
            self.unplaced.clone_from(&self.told);
        }
        self.unplaced.retain(|key, _| !current.contains_key(key));
        if problems.is_empty() || !self.is_unsure() {
            self.unplaced.clear();
        }
        for (key, stored) in &self.unplaced {
            let mut stored = stored.clone();
            stored.problem = Some(left_alone("it is in no file that can be read", &problems.join("; ")));
            current.insert(key.clone(), stored);
        }
        let mut events = Vec::new();
        for (key, before) in &self.told {
            if !current.contains_key(key) {
                match leaving(before, kept::read(&kept::file(&self.kept, key))) {
                    Some(stored) => drop(current.insert(key.clone(), stored)),
                    None => events.push(StoreEvent::Gone(key.clone())),
                }
            }
        }
        for (key, stored) in &current {
            let before = self.told.get(key);
            if self.settled && before == Some(stored) {
                continue;
            }
            let mut told = stored.clone();
            told.lost = lost.remove(&kept::file(&self.kept, key));
            if let Some(known) = kept::read(&kept::file(&self.kept, key)) {
                (told.application.status, told.application.operation) = (known.status, known.operation);
            }
            if self.settled && before.is_some() {
                // Its actor knows that one better.
                told.application.operation = None;
            }
            events.push(StoreEvent::Applied(Box::new(told)));
        }
        self.told = current;
        if !self.settled || self.problems != problems {
            events.push(StoreEvent::Problems(problems.clone()));
            self.problems = problems;
        }
        if !self.settled {
            events.push(StoreEvent::Settled);
            self.settled = true;
        }
        events
    }
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|one| ["yaml", "yml", "json"].iter().any(|known| one == *known))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// An application whose file is gone, and which asks that something be done first: it stays until that is done. Where its
/// deletion was asked for by a command, or is done, its finalizers are those that are kept.
fn leaving(before: &Stored, kept: Option<Application>) -> Option<Stored> {
    let mut stored = before.clone();
    let metadata = &mut stored.application.metadata;
    if let Some(kept) = kept.filter(Application::is_deleting) {
        metadata.finalizers = kept.metadata.finalizers;
        metadata.deletion_timestamp = kept.metadata.deletion_timestamp;
    }
    let now = SystemClock.now().into();
    metadata.deletion_timestamp.get_or_insert(now);
    stored.problem = None;
    deletion::cascade(&stored.application).map(|_| stored)
}

/// The file that has an application, and nothing else: whoever has written more into it does not want that removed.
fn only_in(folder: &Path, wanted: &AppKey) -> Result<PathBuf, ServiceError> {
    let wrong = |source| ServiceError::Io { action: "read", path: folder.to_path_buf(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if !is_manifest(&path) {
            continue;
        }
        let mut seen = Seen::default();
        seen.read(&name(&path), fs::read(&path));
        if seen.applications.contains_key(wanted) {
            let others = seen.applications.len() > 1 || seen.is_broken || !seen.problems.is_empty();
            found.push((path, others));
        }
    }
    let refused = |why: String| Err(ServiceError::refused(format!("{why}; nothing was removed")));
    match found.as_slice() {
        [(path, false)] => Ok(path.clone()),
        [(path, true)] => refused(format!(
            "application {wanted} is not all that is in {}: remove it there by hand, with the finalizer {} if its objects are to go",
            path.display(),
            deletion::RESOURCES_FINALIZER
        )),
        [] => refused(format!("application {wanted} is in no file that can be read")),
        _ => refused(format!("application {wanted} is in several files")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    const WEB: &str = "{apiVersion: argoproj.io/v1alpha1, kind: Application, metadata: {name: web}, spec: {project: default, destination: {name: in-cluster}, source: {repoURL: ./repo}}}\n";

    /// Files change their length, so that a clock that stands still is no harm.
    fn bench() -> (tempfile::TempDir, Watcher, impl Fn(&str, &str)) {
        let folder = tempfile::tempdir().unwrap();
        let (path, kept) = (folder.path().to_path_buf(), folder.path().join("kept"));
        let watcher = Watcher { folder: path.clone(), kept, ..Watcher::default() };
        let write = move |name: &str, content: &str| fs::write(path.join(name), content).unwrap();
        (folder, watcher, write)
    }

    /// What has happened, in a word for each.
    fn told(watcher: &mut Watcher) -> Vec<String> {
        let tell = |event| match event {
            StoreEvent::Applied(stored) => {
                let wrong = stored.problem.map(|problem| format!(" ({problem})")).unwrap_or_default();
                let deleting = if stored.application.is_deleting() { " deleting" } else { "" };
                format!("applied {}{deleting}{wrong}", AppKey::of(&stored.application))
            }
            StoreEvent::Gone(key) => format!("gone {key}"),
            StoreEvent::Projects(_) => "projects".to_owned(),
            StoreEvent::Problems(problems) => format!("problems {problems:?}"),
            StoreEvent::Settled => "settled".to_owned(),
        };
        watcher.look().into_iter().map(tell).filter(|told| told != "projects").collect()
    }

    #[test]
    fn what_changes_is_told_once() {
        let (_folder, mut watcher, write) = bench();
        write("web.yaml", WEB);
        write("notes.txt", "nothing of ours");
        assert_eq!(told(&mut watcher), ["applied web", "problems []", "settled"]);
        assert_eq!(told(&mut watcher), Vec::<String>::new());
        write("web.yaml", &WEB.replace("./repo", "./other"));
        assert_eq!(told(&mut watcher), ["applied web"]);
        write("web.yaml", "# nothing any more\n---\n");
        assert_eq!(told(&mut watcher), ["gone web"]);
    }

    #[test]
    fn what_is_away_or_empty_for_a_moment_counts_as_it_was() {
        let (folder, mut watcher, write) = bench();
        write("web.yaml", WEB);
        told(&mut watcher);
        let away = folder.path().with_extension("away");
        fs::rename(folder.path(), &away).unwrap();
        let events = told(&mut watcher);
        assert!(events.len() == 1 && events[0].contains("what was in it before counts"), "{events:?}");
        fs::rename(&away, folder.path()).unwrap();
        assert_eq!(told(&mut watcher), ["problems []"]);
        write("web.yaml", "");
        let events = told(&mut watcher);
        assert!(events[0].starts_with("applied web (its file cannot be read"), "{events:?}");
        write("web.yaml", WEB);
        assert_eq!(told(&mut watcher), ["applied web", "problems []"]);
        fs::remove_file(folder.path().join("web.yaml")).unwrap();
        assert_eq!(told(&mut watcher), ["gone web"]);
    }

    #[test]
    fn what_cannot_be_read_costs_nothing_else() {
        let (_folder, mut watcher, write) = bench();
        write("web.yaml", WEB);
        write("other.yaml", &WEB.replace("name: web", "name: other"));
        told(&mut watcher);
        write("web.yaml", "kind: [");
        let events = told(&mut watcher);
        assert_eq!(events.len(), 2, "{events:?}");
        assert!(events[0].starts_with("applied web (its file cannot be read"), "{events:?}");
        assert!(events[1].contains("web.yaml"), "{events:?}");
        write("web.yaml", WEB);
        assert_eq!(told(&mut watcher), ["applied web", "problems []"]);
    }

    #[test]
    fn a_mistake_costs_its_document_only() {
        let (folder, mut watcher, write) = bench();
        let other = WEB.replace("name: web", "name: other");
        write("web.yaml", &format!("{WEB}---\n{other}"));
        told(&mut watcher);
        let changed = other.replace("./repo", "./elsewhere");
        // Nothing of it can be told: whatever was there is left alone, and the rest goes on.
        write("web.yaml", &format!("kind: [\n---\n{changed}"));
        let events = told(&mut watcher);
        assert_eq!(events[0], "applied other");
        assert!(events[1].starts_with("applied web (its file cannot be read"), "{events:?}");
        assert!(events[1].contains("(document 1)"), "{events:?}");
        assert_eq!((events.len(), events[2].starts_with("problems")), (3, true), "{events:?}");
        // Whose it is can be told: it has its last good state, and the field and its line are named.
        let wrong = WEB.replace("spec: {", "spec: {\n  syncPolicy: {\n    automated: {prune: often}}, ");
        write("web.yaml", &format!("{changed}---\n{wrong}"));
        let events = told(&mut watcher);
        let part = "web.yaml:5: Application web: field spec.syncPolicy.automated.prune must be true or false";
        assert!(events[0].contains(part) && events[0].contains("(document 2)"), "{events:?}");
        let web = watcher.told.values().find(|one| one.application.metadata.name == "web").unwrap();
        assert_eq!(web.application.sources()[0].repo_url, "./repo");
        // Also when nobody has looked before, with what is kept.
        let known = web.application.clone();
        kept::write(&watcher.kept, &known).unwrap();
        write("web.yaml", &format!("kind: [\n---\n{changed}"));
        let (folder, kept) = (folder.path().to_path_buf(), watcher.kept.clone());
        let mut again = Watcher { folder, kept, ..Watcher::default() };
        let events = told(&mut again);
        assert_eq!(events[0], "applied other");
        assert!(events[1].starts_with("applied web (it is in no file that can be read"), "{events:?}");
        write("web.yaml", &changed);
        assert_eq!(told(&mut again), ["gone web", "problems []"]);
    }

    #[test]
    fn what_is_no_application_is_named() {
        let (_folder, mut watcher, write) = bench();
        for (content, expected) in [
            (
                WEB.replace("kind: Application", "kind: ApplicationSet"),
                "ApplicationSet web is not supported yet",
            ),
            (WEB.replace("argoproj.io/v1alpha1", "v1"), "is no Application"),
            (WEB.replace("name: web", "name: ../../web"), "lower-case"),
            (WEB.replace("name: web", "name: web, namespace: a_b"), "lower-case"),
            (
                WEB.replace("{project: default", "{project: 7"),
                "applied web (its document cannot be read, so it is left alone, as it was, until that is mended: web.yaml:1: Application web: field spec.project",
            ),
            (WEB.replace("spec:", "operation: {sync: {}}, spec:"), "operation in a file has no effect"),
            (format!("{WEB}---\n{WEB}"), "it is also in web.yaml:3"),
        ] {
            write("web.yaml", &content);
            let events = told(&mut watcher).join("\n");
            assert!(events.contains(expected), "{content}: {events}");
        }
        write("web.yaml", WEB);
        told(&mut watcher);
        write("zzz.yaml", &format!("{WEB}\n"));
        assert_eq!(told(&mut watcher), ["applied web (it is also in zzz.yaml; the one in web.yaml counts)"]);
    }

    #[test]
    fn what_is_kept_comes_back_and_what_went_meanwhile_is_told() {
        let (folder, mut watcher, write) = bench();
        write("web.yaml", WEB);
        told(&mut watcher);
        let mut known = watcher.told.values().next().unwrap().application.clone();
        known.status.source_type = "Directory".into();
        kept::write(&watcher.kept, &known).unwrap();
        let mut gone = known.clone();
        gone.metadata.name = "gone".into();
        kept::write(&watcher.kept, &gone).unwrap();
        let mut leaving = known.clone();
        leaving.metadata.name = "leaving".into();
        leaving.metadata.finalizers = vec![deletion::RESOURCES_FINALIZER.to_owned()];
        kept::write(&watcher.kept, &leaving).unwrap();
        let again = || {
            let (folder, kept) = (folder.path().to_path_buf(), watcher.kept.clone());
            Watcher { folder, kept, ..Watcher::default() }
        };
        let expected = ["gone gone", "applied leaving deleting", "applied web", "problems []", "settled"];
        assert_eq!(told(&mut again()), expected);
        let events = again().look();
        let web = events.iter().find_map(|event| match event {
            StoreEvent::Applied(stored) if stored.application.metadata.name == "web" => Some(stored),
            _ => None,
        });
        assert_eq!(web.unwrap().application.status, known.status);
    }
}
