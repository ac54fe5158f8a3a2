//! Recursive fetching of the remote entries of kustomizations.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use gix::ObjectId;
use sha2::Sha256;

use super::remote_entry::{self, GitFolder, ParsedEntry};
use super::requirements::{KustomizationRequirements, RemoteEntry, remote_entry_error};
use super::written_kustomization::Replacement;
use crate::SourceError;
use crate::remote_dependencies::FetchRefusal;
use crate::render_inputs::RenderInputs;
use crate::repository::Repository;
use crate::tree::CommitReader;

/// Maximum nesting depth of remote bases.
const DEPTH_MAX: u64 = 8;
/// Maximum number of remote bases and files for one source.
const FETCHED_MAX: u64 = 100;
/// Reason reported when fetching remote bases is disabled.
const FETCHING_DISABLED: &str = "remote bases are fetched only if `tidegate serve --allow-remote-bases` allows them; allow this base, \
     copy it into the repository, or make it a separate source";
/// Reason reported when the base isn't allowed.
const NOT_ALLOWED: &str = "none of the prefixes in `tidegate serve --allow-remote-bases` matches this base; add a matching prefix, copy the base \
     into the repository, or make it a separate source";

/// Required folders of a commit in another repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FetchedTree {
    pub repository: OpenRepository,
    pub commit: String,
    /// True if Git LFS pointers are replaced with the content of their objects.
    has_lfs: bool,
    needs: KustomizationRequirements,
    /// Required folders, none inside another.
    pub folders: Vec<(String, ObjectId)>,
}

/// An open repository, compared by address.
#[derive(Clone)]
pub(super) struct OpenRepository(pub Arc<Repository>);

impl fmt::Debug for OpenRepository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.address())
    }
}

impl PartialEq for OpenRepository {
    fn eq(&self, other: &Self) -> bool {
        self.0.address() == other.0.address()
    }
}

impl Eq for OpenRepository {}

/// An entry that hasn't been fetched yet.
struct QueuedEntry {
    /// Index of the tree with the entry's kustomization. `None` for the source itself.
    tree: Option<usize>,
    depth: u64,
    entry: RemoteEntry,
}

/// Fetches remote entries and, recursively, those of the fetched kustomizations. These are edited to refer to
/// the fetched folders and files.
pub(super) fn fetch_entries(
    own: &mut KustomizationRequirements,
    entries: Vec<RemoteEntry>,
    making: &RenderInputs,
) -> Result<Vec<FetchedTree>, SourceError> {
    let mut trees: Vec<FetchedTree> = Vec::new();
    let waits = |of, depth| move |entry| QueuedEntry { tree: of, depth, entry };
    let mut waiting: VecDeque<QueuedEntry> = entries.into_iter().map(waits(None, 1)).collect();
    let mut count = 0_u64;
    while let Some(QueuedEntry { tree: of, depth, entry }) = waiting.pop_front() {
        let file = match of.and_then(|of| trees.get(of)) {
            Some(tree) => format!("{} of {}", entry.file, tree.repository.0.address()),
            None => entry.file.clone(),
        };
        count = count.saturating_add(1);
        for (number, limit, what) in
            [(depth, DEPTH_MAX, "nested remote bases"), (count, FETCHED_MAX, "remote bases")]
        {
            if number > limit {
                return Err(SourceError::Limit { path: file, limit, what });
            }
        }
        let problem = |reason: String| SourceError::Base {
            file: file.clone(),
            base: remote_entry::without_secrets(&entry.text),
            reason,
        };
        let (fetched, more) =
            fetch_entry(&entry.text, &mut trees, making).map_err(|refusal| match refusal {
                FetchRefusal::NotAllowed => remote_entry_error(
                    &file,
                    &entry.text,
                    if allows_any(making) { NOT_ALLOWED } else { FETCHING_DISABLED },
                ),
                FetchRefusal::Problem(reason) => problem(reason),
            })?;
        if let Replacement::Folder { tree, .. } = &fetched {
            waiting.extend(more.into_iter().map(waits(Some(*tree), depth.saturating_add(1))));
        }
        let needs = match of {
            Some(of) => trees.get_mut(of).map(|tree| &mut tree.needs),
            None => Some(&mut *own),
        };
        if let Some(edit) = needs.and_then(|needs| needs.edits.get_mut(&entry.file)) {
            edit.set_replacement(entry.field, entry.index, fetched);
        }
    }
    for tree in &mut trees {
        let needs = &tree.needs;
        tree.folders = tree.with_reader(making, |reader| needs.folders(reader))?;
    }
    Ok(trees)
}

fn allows_any(making: &RenderInputs) -> bool {
    making.dependencies.as_ref().is_some_and(|fetching| fetching.allows_bases())
}

/// Fetches one entry. Returns its replacement, and the remote entries of the kustomizations that come with
/// it.
fn fetch_entry(
    text: &str,
    trees: &mut Vec<FetchedTree>,
    making: &RenderInputs,
) -> Result<(Replacement, Vec<RemoteEntry>), FetchRefusal> {
    let fetching = making.dependencies.as_ref().filter(|fetching| fetching.allows_bases());
    let fetching = fetching.ok_or(FetchRefusal::NotAllowed)?;
    let GitFolder { url, revision, path } =
        match remote_entry::parse_entry(text).map_err(FetchRefusal::Problem)? {
            ParsedEntry::Folder(base) => base,
            ParsedEntry::File(url) => {
                let content = fetching.fetch_file(&url)?;
                return Ok((Replacement::File { url, content }, Vec::new()));
            }
        };
    let (repository, commit) = fetching.fetch_base(&url, &revision)?;
    let repository = OpenRepository(repository);
    let known = trees.iter().position(|tree| tree.repository == repository && tree.commit == commit);
    let number = known.unwrap_or(trees.len());
    // The closure runs again after fetching Git LFS objects, so it must not change shared state.
    let before = trees.get(number).map(|tree| tree.needs.clone()).unwrap_or_default();
    let lfs = trees.get(number).map_or_else(|| repository.0.enables_lfs(), |tree| tree.has_lfs);
    let found = repository.0.with_reader_and_lfs(&commit, lfs, &making.limits, |reader| {
        let mut needs = before.clone();
        // Report a missing folder here; Kustomize's message would show a path in the working folder.
        reader.folder(&path)?;
        let entries = needs.add(reader, &path, None)?;
        Ok((needs, entries))
    });
    let (needs, entries) = found.map_err(|error| match error {
        SourceError::NoKustomization { path } => {
            FetchRefusal::Problem(format!("the folder {path:?} has no kustomization.yaml"))
        }
        error => error.into(),
    })?;
    match trees.get_mut(number) {
        Some(tree) => tree.needs = needs,
        None => trees.push(FetchedTree { repository, commit, has_lfs: lfs, needs, folders: Vec::new() }),
    }
    Ok((Replacement::Folder { tree: number, path }, entries))
}

impl FetchedTree {
    /// Calls a function with the commit, with Git LFS consistently enabled or disabled.
    pub fn with_reader<T>(
        &self,
        making: &RenderInputs,
        using: impl Fn(&CommitReader<'_>) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        self.repository.0.with_reader_and_lfs(&self.commit, self.has_lfs, &making.limits, using)
    }

    /// Returns the replacements for `file`, or `None` to copy it unchanged. `to` is its destination relative
    /// to `root`, a folder in the working folder.
    pub fn replacement_files(
        &self,
        root: &str,
        file: &str,
        to: &str,
    ) -> Option<Vec<crate::checkout::OutputFile>> {
        self.needs.edits.get(file).map(|edit| edit.files_to_write(root, to))
    }

    /// Adds the required content to a digest.
    pub fn digest(&self, hasher: &mut Sha256) {
        use sha2::Digest as _;
        hasher.update(format!("{}\0", self.repository.0.address()));
        hasher.update([u8::from(self.has_lfs)]);
        for (path, tree) in &self.folders {
            hasher.update(format!("{path}\0{tree}\0"));
        }
        for (file, edit) in &self.needs.edits {
            hasher.update(format!("{file}\0"));
            edit.digest(hasher);
        }
    }
}
