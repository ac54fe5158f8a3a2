//! Commits local folders to Git, so that users can try Tidegate without a `git` program.

use std::fs;
use std::path::Path;

use gix::ThreadSafeRepository;
use gix::objs::Tree;
use gix::objs::tree::{Entry, EntryKind};
use gix::{ObjectId, Repository};

use crate::SourceError;
use crate::error::git_error_text;

const NAME: &str = "Tidegate example";
const MAIL: &str = "example@tidegate.dev";

/// Commits all files in a folder, creating the repository if needed. Returns the commit, or `None` if nothing
/// changed. `seconds` is the Unix time of the commit.
pub fn commit_folder(folder: &Path, message: &str, seconds: i64) -> Result<Option<String>, SourceError> {
    let wrong = |reason: String| SourceError::Write { folder: folder.to_path_buf(), reason };
    let git = open_or_create(folder).map_err(|error| wrong(git_error_text(&error)))?;
    let tree = write_tree(&git, folder).map_err(wrong)?;
    write_commit(&git, tree, message, seconds).map_err(|error| wrong(git_error_text(&error)))
}

fn open_or_create(folder: &Path) -> gix::Result<Repository> {
    let options = gix::open::Options::isolated();
    let opened = if folder.join(".git").exists() {
        options.open(folder)?
    } else {
        let anywhere = gix::create::Options { destination_must_be_empty: Some(false), ..Default::default() };
        ThreadSafeRepository::init_opts(folder, gix::create::Kind::WithWorktree, anywhere, options)?
    };
    Ok(opened.to_thread_local())
}

/// Writes a folder and its subfolders as tree objects and returns the ID of its tree.
fn write_tree(git: &Repository, folder: &Path) -> Result<ObjectId, String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut entries = Vec::new();
    for found in fs::read_dir(folder).map_err(told)? {
        let found = found.map_err(told)?;
        let name = found.file_name().to_string_lossy().into_owned();
        if name == ".git" {
            continue;
        }
        let kind = found.file_type().map_err(told)?;
        let (mode, oid) = if kind.is_dir() {
            (EntryKind::Tree, write_tree(git, &found.path())?)
        } else if kind.is_symlink() {
            let target = fs::read_link(found.path()).map_err(told)?;
            let written = git.write_blob(target.to_string_lossy().as_bytes());
            (EntryKind::Link, written.map_err(|error| git_error_text(&error))?.detach())
        } else {
            let written = git.write_blob(fs::read(found.path()).map_err(told)?);
            (EntryKind::Blob, written.map_err(|error| git_error_text(&error))?.detach())
        };
        entries.push(Entry { mode: mode.into(), filename: name.into(), oid });
    }
    entries.sort();
    git.write_object(Tree { entries }).map(gix::Id::detach).map_err(|error| git_error_text(&error))
}

fn write_commit(
    git: &Repository,
    tree: ObjectId,
    message: &str,
    seconds: i64,
) -> gix::Result<Option<String>> {
    let parent = git.head()?.id().map(gix::Id::detach);
    if let Some(parent) = parent
        && git.find_commit(parent)?.tree_id()?.detach() == tree
    {
        return Ok(None);
    }
    let time = format!("{seconds} +0000");
    let who = gix::actor::SignatureRef { name: NAME.into(), email: MAIL.into(), time: &time };
    let id = git.commit_as(who, who, "HEAD", message, tree, parent)?.to_string();
    // With a stale index, `git status` would report changes.
    git.index_from_tree(&tree)?.write(Default::default())?;
    Ok(Some(id))
}
