//! Files in a polled folder. Only changed files are read.

pub(super) mod absence;
mod folder_listing;
mod polling;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::Instant;

use self::absence::{Absence, GRACE_PERIOD, GRACE_PERIOD_MAX, GracePeriods};
use self::folder_listing::{FolderListing, is_manifest, list_folder};
pub use self::polling::{PollRequests, RemovedFiles, run_polling};
use tidegate_application::AppKey;
use tidegate_state::error::ServiceError;

use super::parsed_file::incomplete_file::MissingDocuments;
use super::parsed_file::{FileStamp, ParsedFile, duplicate_message};
use super::projects::{self, ProjectResults};

/// Maximum number of attempts to list the same files twice in a row. A listing may miss a file that is being
/// renamed.
const LIST_ATTEMPTS_MAX: usize = 4;
/// Factor for the grace period while files appear in a previously empty folder. There may be many files, and
/// they may appear slowly.
const INITIAL_GRACE_FACTOR: u32 = 33;

/// Expected content of a folder without any files so far.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum InitialContent {
    /// Irrelevant, because the first poll found files.
    #[default]
    Unset,
    /// No content is expected, so waiting is unnecessary.
    Empty,
    /// Content is expected, but missing.
    Missing,
}

/// Files in a folder as of the last poll.
#[derive(Default)]
pub struct PolledFolder {
    folder: PathBuf,
    parsed: BTreeMap<PathBuf, ParsedFile>,
    /// Missing files, with their absence. Their content is kept until their deletion is certain.
    missing: BTreeMap<PathBuf, (ParsedFile, Absence)>,
    /// True if the folder itself is unreadable.
    is_unreadable: bool,
    /// True if some files are inaccessible, so that their content is unknown.
    has_inaccessible_files: bool,
    /// True if files were removed or renamed during the listing, so missing files may still exist.
    is_changing: bool,
    /// True for Tidegate's own folder, which only Tidegate changes and which may be missing.
    is_internal: bool,
    /// True if only ApplicationSets are needed.
    has_only_appsets: bool,
    /// Errors about the folder and its inaccessible files.
    problems: Vec<String>,
    /// Time until a missing file counts as deleted.
    grace_period: Duration,
    /// True once any file was found.
    has_had_files: bool,
    initial_content: InitialContent,
    /// Device and inode of the folder when it had files.
    identity: Option<(u64, u64)>,
    /// Absence of documents that weren't in any file at the start. `is_initial_confirmed` is true once their
    /// absence is certain.
    initial_absence: Absence,
    is_initial_confirmed: bool,
}

impl PolledFolder {
    /// Creates a poller for the files in a folder.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), grace_period: GRACE_PERIOD, ..Self::default() }
    }

    /// Creates a poller for Tidegate's own folder, which is created with its first file.
    pub fn new_internal(folder: &Path) -> Self {
        Self { is_internal: true, ..Self::new(folder) }
    }

    /// Creates a poller that reads only the ApplicationSets in a folder.
    pub fn new_for_appsets(folder: &Path) -> Self {
        Self { has_only_appsets: true, ..Self::new(folder) }
    }

    /// Makes the next poll treat every missing file as deleted.
    #[cfg(test)]
    pub fn without_grace_period(self) -> Self {
        Self { grace_period: Duration::ZERO, ..self }
    }

    /// Returns true if a second poll has confirmed which files are missing at the start. All files must have
    /// been readable and complete.
    pub fn is_initial_confirmed(&self) -> bool {
        self.is_initial_confirmed
    }

    /// Returns true if the folder has had no files since the first poll. A volume may not be mounted, or a
    /// repository not cloned.
    fn has_had_no_files(&self) -> bool {
        !self.has_had_files && !self.is_unreadable && !self.is_internal
    }

    /// Returns the reason for keeping missing content, if the folder has never had any files.
    pub fn missing_files_reason(&self) -> Option<String> {
        self.has_had_no_files().then(|| {
            format!(
                "{}: the folder contains no manifests, so its previous contents remain in effect; add a \
                 file, such as an empty none.yaml, if this is intended",
                self.folder.display()
            )
        })
    }

    /// Records that no content is expected, so that the poller doesn't wait for it.
    pub fn mark_initially_empty(&mut self) {
        self.initial_content = InitialContent::Empty;
    }

    /// Returns true if more files may appear in a previously empty folder.
    pub fn has_appearing_files(&self) -> bool {
        self.initial_content == InitialContent::Missing && !self.is_initial_confirmed
    }

    /// Returns the path of the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns true if the folder itself is unreadable.
    pub fn is_unreadable(&self) -> bool {
        self.is_unreadable
    }

    /// Reads the changed files. Returns true if anything changed. `removed` lists files that were removed on
    /// purpose.
    pub fn poll_files(&mut self, removed: &BTreeMap<PathBuf, AppKey>) -> bool {
        let began = Instant::now();
        let (was_away, was_coming) = (self.is_unreadable, self.has_appearing_files());
        let (found, problems) = self.list_files();
        // Listing may be slow, so take the time afterwards.
        let now = Instant::now();
        let mut has_changed = was_away != self.is_unreadable || problems != self.problems;
        self.problems = problems;
        match self.is_unreadable {
            // An unreadable folder says nothing about its files.
            true => self.missing.values_mut().for_each(|(_, absence)| absence.reset_undisturbed()),
            false => has_changed |= self.update_missing(&found, removed, began, now),
        }
        self.has_had_files |= !found.is_empty();
        if self.has_had_no_files() && self.initial_content == InitialContent::Unset {
            self.initial_content = InitialContent::Missing;
        }
        let mut has_read = false;
        for (path, stamp) in found {
            let file = self.parsed.entry(path.clone()).or_default();
            if file.stamp == Some(stamp) {
                has_changed |= file.drop_if_settled(began, self.grace_period);
                continue;
            }
            let content = fs::read(&path);
            // Make sure that unreadable files are read again.
            file.stamp = content.is_ok().then_some(stamp);
            file.replace_incomplete_content(&file_name(&path), content, (!self.is_internal).then_some(now));
            if self.has_only_appsets {
                file.keep_only_appsets();
            }
            (has_changed, has_read) = (true, true);
        }
        let grace_periods = self.grace_periods();
        match !self.is_changing && !self.can_hide_documents() && !self.has_had_no_files() {
            true => {
                self.is_initial_confirmed |=
                    self.initial_absence.record_missing(began, now, has_read, grace_periods)
            }
            false => self.initial_absence = Absence::default(),
        }
        // The end of the wait for files also counts as a change.
        has_changed | (was_coming && !self.has_appearing_files())
    }

    /// Returns the waiting times for missing content.
    fn grace_periods(&self) -> GracePeriods {
        let times = if self.has_appearing_files() { INITIAL_GRACE_FACTOR } else { 1 };
        GracePeriods {
            undisturbed: self.grace_period.saturating_mul(times),
            total: GRACE_PERIOD_MAX.saturating_mul(times),
        }
    }

    /// Sets missing files aside, restores those that are back, and drops those that were certainly deleted.
    /// Returns true if anything changed.
    fn update_missing(
        &mut self,
        found: &BTreeMap<PathBuf, FileStamp>,
        removed: &BTreeMap<PathBuf, AppKey>,
        began: Instant,
        now: Instant,
    ) -> bool {
        let before = (self.parsed.len(), self.missing.len());
        let (back, missed): (BTreeMap<_, _>, _) =
            std::mem::take(&mut self.missing).into_iter().partition(|(path, _)| found.contains_key(path));
        let is_changed = !back.is_empty();
        self.parsed.extend(back.into_iter().map(|(path, (file, _))| (path, file)));
        self.missing = missed;
        if self.parsed.keys().any(|path| !found.contains_key(path)) {
            let (file, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
                std::mem::take(&mut self.parsed).into_iter().partition(|(path, _)| found.contains_key(path));
            self.parsed = file;
            let gone = gone.into_iter().filter(|_| !self.is_internal);
            self.missing.extend(gone.map(|(path, file)| (path, (file, Absence::default()))));
        }
        let (grace_periods, is_in_flux) = (self.grace_periods(), self.is_changing);
        self.missing.retain(|path, (_, absence)| {
            !absence.record_missing(began, now, is_in_flux, grace_periods) && !removed.contains_key(path)
        });
        is_changed || before != (self.parsed.len(), self.missing.len())
    }

    /// Returns the errors about the folder and its inaccessible files.
    pub fn problems(&self) -> Vec<String> {
        self.problems.clone()
    }

    /// Returns true if unreadable content may contain documents.
    pub fn can_hide_documents(&self) -> bool {
        self.is_unreadable
            || self.has_inaccessible_files
            || self.parsed_files().any(|file| file.has_unknown_applications)
    }

    /// Returns true if unreadable content may contain projects.
    pub fn can_hide_projects(&self) -> bool {
        self.is_unreadable
            || self.has_inaccessible_files
            || self.is_changing
            || self.parsed_files().any(|file| file.can_hide_projects)
    }

    /// Returns the content of each file, including the last content of missing ones.
    pub fn parsed_files(&self) -> impl Iterator<Item = &ParsedFile> {
        self.parsed.values().chain(self.missing.values().map(|(file, _)| file))
    }

    /// Returns the projects in all files. A missing file still counts, unless another file now has its
    /// project.
    pub fn projects(&self) -> ProjectResults {
        let mut all = ProjectResults::new();
        for (path, file) in &self.parsed {
            for (project, read) in file.present_documents(&file.projects, |lacks| &lacks.projects) {
                projects::add_project(&mut all, project.clone(), read.clone(), &file_name(path));
            }
        }
        for (project, read) in self.parsed_files().flat_map(|file| &file.projects) {
            all.entry(project.clone()).or_insert_with(|| read.clone());
        }
        all
    }

    /// Returns the documents of one kind in all files. Of two documents with the same name, the first is
    /// used, and `notify` gets an error with both paths. A missing file still counts, unless another file now
    /// has its document.
    pub fn documents<T: Clone>(
        &self,
        of: impl Fn(&ParsedFile) -> &BTreeMap<AppKey, T>,
        lacks: impl Fn(&MissingDocuments) -> &BTreeMap<AppKey, Instant> + Copy,
        notify: impl Fn(&mut T, String),
    ) -> BTreeMap<AppKey, T> {
        let mut all: BTreeMap<AppKey, (&Path, T)> = BTreeMap::new();
        for (path, file) in &self.parsed {
            for (key, one) in file.present_documents(of(file), lacks) {
                match all.get_mut(key) {
                    None => drop(all.insert(key.clone(), (path, one.clone()))),
                    Some((first, counts)) => {
                        notify(counts, duplicate_message(&file_name(first), &file_name(path)));
                    }
                }
            }
        }
        let missed = self.missing.iter().map(|(path, (file, _))| (path, file));
        for (path, file) in self.parsed.iter().chain(missed) {
            for (key, one) in of(file) {
                all.entry(key.clone()).or_insert_with(|| (path, one.clone()));
            }
        }
        all.into_iter().map(|(key, (_, one))| (key, one)).collect()
    }

    /// Returns the ApplicationSets that are certainly in a file.
    pub fn present_appsets(&self) -> BTreeSet<AppKey> {
        let in_sight = self
            .parsed
            .values()
            .flat_map(|file| file.present_documents(&file.appsets, |lacks| &lacks.appsets));
        in_sight.map(|(key, _)| key.clone()).collect()
    }

    /// Returns the files found by the last poll.
    fn known_files(&self) -> BTreeMap<PathBuf, FileStamp> {
        self.parsed.iter().filter_map(|(path, file)| Some((path.clone(), file.stamp?))).collect()
    }

    /// Returns the folder's device and inode.
    fn identity(&self) -> Option<(u64, u64)> {
        fs::metadata(&self.folder).ok().map(|folder| (folder.dev(), folder.ino()))
    }

    /// Returns an error if the folder is empty and isn't the one that had files before, for example because a
    /// volume was unmounted. The poller then waits for missing content again.
    fn replaced_folder_error(&mut self, listed: &FolderListing) -> Option<String> {
        let now = self.identity();
        if !listed.files.is_empty() || !listed.inaccessible.is_empty() {
            self.identity = if listed.is_changing { self.identity } else { now };
            return None;
        }
        let is_unknown = self.parsed.is_empty() && self.missing.is_empty();
        if self.is_internal || is_unknown || self.identity.is_none() || self.identity == now {
            return None;
        }
        (self.initial_content, self.is_initial_confirmed) = (InitialContent::Missing, false);
        let folder = self.folder.display();
        Some(format!(
            "{folder}: the folder was replaced by a folder without manifests; its previous contents remain in \
             effect"
        ))
    }

    fn list_files(&mut self) -> (BTreeMap<PathBuf, FileStamp>, Vec<String>) {
        let before = self.identity();
        let listed = list_folder(&self.folder);
        self.is_unreadable = listed.is_err();
        let mut listed = match listed {
            Ok(listed) => listed,
            Err(error)
                if self.is_internal && self.parsed.is_empty() && error.kind() == ErrorKind::NotFound =>
            {
                self.is_unreadable = false;
                return Default::default();
            }
            // Keep the previous content, because it wasn't deleted on purpose.
            Err(error) => {
                let problem =
                    format!("{}: {error}; its previous contents remain in effect", self.folder.display());
                return (self.known_files(), vec![problem]);
            }
        };
        for _ in 1..LIST_ATTEMPTS_MAX {
            let is_whole =
                !self.parsed.is_empty() && self.parsed.keys().all(|path| listed.files.contains_key(path));
            if is_whole && listed.problems.is_empty() && !listed.is_changing {
                break;
            }
            let Ok(mut again) = list_folder(&self.folder) else { break };
            let is_same = again == listed;
            listed.files.retain(|path, _| !again.files.contains_key(path) && fs::metadata(path).is_ok());
            again.files.append(&mut listed.files);
            listed = again;
            if is_same {
                break;
            }
        }
        // If the folder was replaced during the listing, the list may be incomplete.
        listed.is_changing |= self.identity() != before;
        if let Some(problem) = self.replaced_folder_error(&listed) {
            self.is_unreadable = true;
            return (self.known_files(), vec![problem]);
        }
        (self.has_inaccessible_files, self.is_changing) =
            (!listed.inaccessible.is_empty(), listed.is_changing);
        for path in listed.inaccessible {
            let known = self.parsed.get(&path).or_else(|| self.missing.get(&path).map(|(file, _)| file));
            if let Some(stamp) = known.and_then(|file| file.stamp) {
                listed.files.insert(path, stamp);
            }
        }
        (listed.files, listed.problems)
    }
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Returns the file that contains only this document. A file with other documents must not be deleted. `what`
/// describes the document, and `also` says how to delete it manually.
pub fn find_single_document_file(
    folder: &Path,
    has: impl Fn(&ParsedFile) -> bool,
    what: &str,
    also: &str,
) -> Result<PathBuf, ServiceError> {
    let wrong = |source| ServiceError::Io { action: "read", path: folder.to_path_buf(), source };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if !is_manifest(&path) {
            continue;
        }
        let mut file = ParsedFile::default();
        file.replace_content(&file_name(&path), fs::read(&path));
        if has(&file) {
            found.push((path, !file.has_single_document()));
        }
    }
    let refused = |reason: String| Err(ServiceError::refused(format!("{reason}; nothing was removed")));
    match found.as_slice() {
        [(path, false)] => Ok(path.clone()),
        [(path, true)] => refused(format!(
            "{} contains other documents besides {what}: remove the document of {what} from the file manually{also}",
            path.display()
        )),
        [] => refused(format!("{what} is not in any readable file")),
        _ => refused(format!("{what} is in several files")),
    }
}

/// Runs file operations in a blocking thread.
pub async fn run_blocking<T: Send + 'static>(
    path: PathBuf,
    call: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
) -> Result<T, ServiceError> {
    let failed = |error| ServiceError::Io { action: "write", path, source: std::io::Error::other(error) };
    tokio::task::spawn_blocking(call).await.map_err(failed)?
}
