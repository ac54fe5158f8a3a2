//! Fetching what kustomizations name on servers, and what that names in turn.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use gix::ObjectId;
use sha2::Sha256;

use super::edits::Fetched;
use super::needs::{Entry, Needs, refused};
use super::remote::{self, Base, Remote};
use crate::SourceError;
use crate::fetching::Refusal;
use crate::making::Making;
use crate::repository::Repository;
use crate::tree::Reader;

/// Remote bases inside each other: more than anybody follows.
const DEPTH_MAX: u64 = 8;
/// Remote bases and files of one kustomization.
const FETCHED_MAX: u64 = 100;
/// Why nothing is fetched, if nobody has allowed it.
const DENIED: &str = "such are fetched only where `tidegate serve --allow-remote-bases` names them; or copy it into the repository, or make it a source of its own";
/// Why something else than what is allowed is not fetched.
const NOT_ALLOWED: &str = "none of the addresses in `tidegate serve --allow-remote-bases` is its beginning; add it there, copy it into the repository, or make it a source of its own";

/// What is needed of one commit of another repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    pub repository: Opened,
    pub commit: String,
    /// The content of files that Git LFS keeps is read.
    lfs: bool,
    needs: Needs,
    /// The folders that are needed, none inside another.
    pub folders: Vec<(String, ObjectId)>,
}

/// A repository that is open. The same address is the same repository.
#[derive(Clone)]
pub(super) struct Opened(pub Arc<Repository>);

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.address())
    }
}

impl PartialEq for Opened {
    fn eq(&self, other: &Self) -> bool {
        self.0.address() == other.0.address()
    }
}

impl Eq for Opened {}

/// An entry that was not looked at yet.
struct Waiting {
    /// The tree whose kustomization it is in; none for the source itself.
    of: Option<usize>,
    depth: u64,
    entry: Entry,
}

/// Fetches what these entries name, and all that it names in turn; puts it into the kustomizations that name it.
pub(super) fn gather(
    own: &mut Needs,
    entries: Vec<Entry>,
    making: &Making,
) -> Result<Vec<Tree>, SourceError> {
    let mut trees: Vec<Tree> = Vec::new();
    let waits = |of, depth| move |entry| Waiting { of, depth, entry };
    let mut waiting: VecDeque<Waiting> = entries.into_iter().map(waits(None, 1)).collect();
    let mut count = 0_u64;
    while let Some(Waiting { of, depth, entry }) = waiting.pop_front() {
        let file = match of.and_then(|of| trees.get(of)) {
            Some(tree) => format!("{} of {}", entry.file, tree.repository.0.address()),
            None => entry.file.clone(),
        };
        count = count.saturating_add(1);
        for (number, limit, what) in
            [(depth, DEPTH_MAX, "remote bases inside each other"), (count, FETCHED_MAX, "remote bases")]
        {
            if number > limit {
                return Err(SourceError::Limit { path: file, limit, what });
            }
        }
        let problem = |reason: String| SourceError::Base {
            file: file.clone(),
            base: remote::shown(&entry.text),
            reason,
        };
        let (fetched, more) = fetch(&entry.text, &mut trees, making).map_err(|refusal| match refusal {
            Refusal::NotAllowed => {
                refused(&file, &entry.text, if allows_any(making) { NOT_ALLOWED } else { DENIED })
            }
            Refusal::Problem(reason) => problem(reason),
        })?;
        if let Fetched::Folder { tree, .. } = &fetched {
            waiting.extend(more.into_iter().map(waits(Some(*tree), depth.saturating_add(1))));
        }
        let needs = match of {
            Some(of) => trees.get_mut(of).map(|tree| &mut tree.needs),
            None => Some(&mut *own),
        };
        if let Some(edit) = needs.and_then(|needs| needs.edits.get_mut(&entry.file)) {
            edit.put((entry.field, entry.index), fetched);
        }
    }
    for tree in &mut trees {
        let needs = &tree.needs;
        tree.folders = tree.reading(making, |reader| needs.folders(reader))?;
    }
    Ok(trees)
}

fn allows_any(making: &Making) -> bool {
    making.fetching.as_ref().is_some_and(|fetching| fetching.allows_bases())
}

/// Fetches what one entry names; which entries of its own lead on.
fn fetch(text: &str, trees: &mut Vec<Tree>, making: &Making) -> Result<(Fetched, Vec<Entry>), Refusal> {
    let fetching = making.fetching.as_ref().filter(|fetching| fetching.allows_bases());
    let fetching = fetching.ok_or(Refusal::NotAllowed)?;
    let Base { url, revision, path } = match remote::parse(text).map_err(Refusal::Problem)? {
        Remote::Folder(base) => base,
        Remote::File(url) => {
            let content = fetching.file(&url)?;
            return Ok((Fetched::File { url, content }, Vec::new()));
        }
    };
    let (repository, commit) = fetching.base(&url, &revision)?;
    let repository = Opened(repository);
    let known = trees.iter().position(|tree| tree.repository == repository && tree.commit == commit);
    let number = known.unwrap_or(trees.len());
    // What is wanted again is wanted again as a whole: the closure may be called twice.
    let before = trees.get(number).map(|tree| tree.needs.clone()).unwrap_or_default();
    let lfs = trees.get(number).map_or_else(|| repository.0.enables_lfs(), |tree| tree.lfs);
    let found = repository.0.in_commit_as((&commit, lfs), &making.limits, |reader| {
        let mut needs = before.clone();
        // Told better here than by a program that is in some folder of ours.
        reader.folder(&path)?;
        let entries = needs.add(reader, &path, None)?;
        Ok((needs, entries))
    });
    let (needs, entries) = found.map_err(|error| match error {
        SourceError::NoKustomization { path } => {
            Refusal::Problem(format!("its folder {path:?} has no kustomization.yaml"))
        }
        error => error.into(),
    })?;
    match trees.get_mut(number) {
        Some(tree) => tree.needs = needs,
        None => trees.push(Tree { repository, commit, lfs, needs, folders: Vec::new() }),
    }
    Ok((Fetched::Folder { tree: number, path }, entries))
}

impl Tree {
    /// Has its commit read, in the same way each time.
    pub fn reading<T>(
        &self,
        making: &Making,
        using: impl Fn(&Reader<'_>) -> Result<T, SourceError>,
    ) -> Result<T, SourceError> {
        self.repository.0.in_commit_as((&self.commit, self.lfs), &making.limits, using)
    }

    /// What is written for a file, at a path below a folder of the workshop.
    pub fn changed(&self, root: &str, file: &str, to: &str) -> Option<Vec<crate::checkout::Written>> {
        self.needs.edits.get(file).map(|edit| edit.written(root, to))
    }

    /// Writes all of it into a digest.
    pub fn digest(&self, hasher: &mut Sha256) {
        use sha2::Digest as _;
        hasher.update(format!("{}\0", self.repository.0.address()));
        hasher.update([u8::from(self.lfs)]);
        for (path, tree) in &self.folders {
            hasher.update(format!("{path}\0{tree}\0"));
        }
        for (file, edit) in &self.needs.edits {
            hasher.update(format!("{file}\0"));
            edit.digest(hasher);
        }
    }
}
