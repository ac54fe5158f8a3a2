//! A tool's private working folder, with its input files and an empty home folder.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::Tools;
use crate::SourceError;

/// Name prefix of working folders. A killed process leaves its folders behind for the next one to delete.
const FOLDER_PREFIX: &str = "work-";
/// Folder for the files of the source.
pub(crate) const SOURCE_FOLDER: &str = "source";
/// Mode of all files. They may be secret, so only the owner has access.
const OWNER_ONLY: u32 = 0o600;

/// Deletes working folders left behind by a killed process.
pub(super) fn delete_stale_folders(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(FOLDER_PREFIX) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Number of open working folders.
#[derive(Debug, Default)]
pub(super) struct WorkingFolders {
    open: Mutex<usize>,
    closed: Condvar,
}

impl WorkingFolders {
    /// Waits up to `within` for all working folders to be deleted.
    pub fn wait_until_closed(&self, within: Duration) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.closed.wait_timeout_while(open, within, |open| *open > 0);
    }

    fn open_guard(self: &Arc<Self>) -> OpenGuard {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        *open = open.saturating_add(1);
        OpenGuard(Arc::clone(self))
    }
}

/// Guard that counts one open folder until it is dropped.
struct OpenGuard(Arc<WorkingFolders>);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        let mut open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        *open = open.saturating_sub(1);
        self.0.closed.notify_all();
    }
}

/// A private folder. Dropping it deletes the folder before decrementing the counter.
pub(crate) struct WorkingFolder(TempDir, #[allow(dead_code, reason = "held until it is dropped")] OpenGuard);

impl WorkingFolder {
    pub fn create(tools: &Tools) -> Result<Self, SourceError> {
        let failed = |source: io::Error| write_error(&tools.folder, &source);
        fs::create_dir_all(&tools.folder).map_err(failed)?;
        let counted = tools.workshops.open_guard();
        let folder =
            tempfile::Builder::new().prefix(FOLDER_PREFIX).tempdir_in(&tools.folder).map_err(failed)?;
        let opened = Self(folder, counted);
        for folder in [opened.home(), opened.source()] {
            fs::create_dir(&folder).map_err(failed)?;
        }
        Ok(opened)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the home folder of the tool.
    pub fn home(&self) -> PathBuf {
        self.0.path().join("home")
    }

    /// Returns the folder for the files of the source.
    pub fn source(&self) -> PathBuf {
        self.0.path().join(SOURCE_FOLDER)
    }

    /// Writes a file to the top level of the working folder, next to the source's folder.
    pub fn write_file(&self, name: &str, content: &[u8]) -> Result<PathBuf, SourceError> {
        let path = self.0.path().join(name);
        write_private(&path, content)?;
        Ok(path)
    }

    /// Writes a file of the source. The path must be normalized, so that the file is always inside the
    /// folder.
    pub fn write_source_file(&self, path: &str, content: &[u8]) -> Result<(), SourceError> {
        self.write_file_in(SOURCE_FOLDER, path, content)
    }

    /// Writes a file to a subfolder of the working folder, such as another repository's.
    pub fn write_file_in(&self, root: &str, path: &str, content: &[u8]) -> Result<(), SourceError> {
        let path = self.0.path().join(check_path(root)?).join(check_path(path)?);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| write_error(folder, &error))?;
        }
        write_private(&path, content)
    }

    /// Strips the path of the working folder from a message.
    pub fn remove_folder_path(&self, text: &str) -> String {
        let source = format!("{}/", self.source().display());
        text.replace(&source, "").replace(&format!("{}/", self.0.path().display()), "")
    }
}

/// Returns the relative paths of all files under a folder, in arbitrary order.
pub(crate) fn file_paths(top: &Path) -> Vec<String> {
    let (mut folders, mut files) = (vec![top.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(path),
                Ok(kind) if kind.is_file() => {
                    let below = path.strip_prefix(top).unwrap_or(&path);
                    files.push(below.to_string_lossy().into_owned());
                }
                _ => {}
            }
        }
    }
    files
}

/// Calls a function with the path and content of each file with a wanted name. Unreadable files are skipped.
pub(crate) fn visit_files(top: &Path, is_wanted: impl Fn(&str) -> bool, mut with: impl FnMut(&str, &[u8])) {
    for path in file_paths(top) {
        if is_wanted(path.rsplit('/').next().unwrap_or_default())
            && let Ok(content) = fs::read(top.join(&path))
        {
            with(&path, &content);
        }
    }
}

fn write_private(path: &Path, content: &[u8]) -> Result<(), SourceError> {
    let opened = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(OWNER_ONLY).open(path);
    let written = opened.and_then(|mut file| file.write_all(content));
    written.map_err(|error| write_error(path, &error))
}

/// Returns the path unless it is unsafe, e.g. because it leads out of the folder.
fn check_path(path: &str) -> Result<&str, SourceError> {
    let is_bad = |name: &str| {
        matches!(name, "" | "." | "..")
            || name.eq_ignore_ascii_case(".git")
            || name.contains(char::is_control)
    };
    match path.split('/').find(|name| is_bad(name)) {
        Some(_) => Err(SourceError::Name { path: path.escape_debug().to_string() }),
        None => Ok(path),
    }
}

fn write_error(path: &Path, error: &io::Error) -> SourceError {
    SourceError::Workshop { path: path.to_path_buf(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_only_in_the_folder() {
        for path in
            ["../a", "/a", "a//b", "a/../../b", "a/./b", ".git/config", "a/.GIT/b", "a\nb", "a\0b", ""]
        {
            assert!(matches!(check_path(path), Err(SourceError::Name { .. })), "{path:?}");
        }
        for path in ["a", "a/b.yaml", "..a/b..", ".gitignore"] {
            assert_eq!(check_path(path), Ok(path));
        }
    }
}
