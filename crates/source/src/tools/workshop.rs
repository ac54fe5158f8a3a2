//! The private folder in which a program works: what it may read, and a home that is empty.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tempfile::TempDir;

use super::Tools;
use crate::SourceError;

/// Folders begin so; those that a killed process has left are removed by the next one.
const PREFIX: &str = "work-";
/// Where files of the repository are, under their paths.
pub(crate) const SOURCE: &str = "source";
/// What is in it may be secret.
const OWNER_ONLY: u32 = 0o600;

/// Removes what a killed process has left.
pub(super) fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// How many there are.
#[derive(Debug, Default)]
pub(super) struct Workshops {
    open: Mutex<usize>,
    closed: Condvar,
}

impl Workshops {
    /// Returns when all are gone, or when that takes too long.
    pub fn closed(&self, within: Duration) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = self.closed.wait_timeout_while(open, within, |open| *open > 0);
    }

    fn count(self: &Arc<Self>) -> Open {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        *open = open.saturating_add(1);
        Open(Arc::clone(self))
    }
}

/// One that counts.
struct Open(Arc<Workshops>);

impl Drop for Open {
    fn drop(&mut self) {
        let mut open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        *open = open.saturating_sub(1);
        self.0.closed.notify_all();
    }
}

/// A private folder. It is gone when this is dropped, and counts until then.
pub(crate) struct Workshop(TempDir, #[allow(dead_code, reason = "it is there to be dropped")] Open);

impl Workshop {
    pub fn open(tools: &Tools) -> Result<Self, SourceError> {
        let failed = |source: io::Error| failed(&tools.folder, &source);
        fs::create_dir_all(&tools.folder).map_err(failed)?;
        let counted = tools.workshops.count();
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&tools.folder).map_err(failed)?;
        let opened = Self(folder, counted);
        for folder in [opened.home(), opened.source()] {
            fs::create_dir(&folder).map_err(failed)?;
        }
        Ok(opened)
    }

    /// All of it.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Where the program is at home.
    pub fn home(&self) -> PathBuf {
        self.0.path().join("home")
    }

    /// Where files of the repository are, under their paths.
    pub fn source(&self) -> PathBuf {
        self.0.path().join(SOURCE)
    }

    /// Writes a file of our own beside those of the repository.
    pub fn write(&self, name: &str, content: &[u8]) -> Result<PathBuf, SourceError> {
        let path = self.0.path().join(name);
        write(&path, content)?;
        Ok(path)
    }

    /// Writes a file of the repository. Its path was made plain before: it stays where it should be.
    pub fn put(&self, path: &str, content: &[u8]) -> Result<(), SourceError> {
        self.put_in(SOURCE, path, content)
    }

    /// The same below another folder of our own, such as that of another repository.
    pub fn put_in(&self, root: &str, path: &str, content: &[u8]) -> Result<(), SourceError> {
        let path = self.0.path().join(checked(root)?).join(checked(path)?);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
        }
        write(&path, content)
    }

    /// A text without the name of this folder, which means nothing to anybody.
    pub fn hide(&self, text: &str) -> String {
        let source = format!("{}/", self.source().display());
        text.replace(&source, "").replace(&format!("{}/", self.0.path().display()), "")
    }
}

/// The files below a folder of a workshop, in any order, by their paths in the folder.
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

/// Goes through those files whose names are wanted, with what they hold. What cannot be read is left out.
pub(crate) fn each_file(top: &Path, is_wanted: impl Fn(&str) -> bool, mut with: impl FnMut(&str, &[u8])) {
    for path in file_paths(top) {
        if is_wanted(path.rsplit('/').next().unwrap_or_default())
            && let Ok(content) = fs::read(top.join(&path))
        {
            with(&path, &content);
        }
    }
}

fn write(path: &Path, content: &[u8]) -> Result<(), SourceError> {
    let opened = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(OWNER_ONLY).open(path);
    let written = opened.and_then(|mut file| file.write_all(content));
    written.map_err(|error| failed(path, &error))
}

/// A path that leads below a folder and nowhere else.
fn checked(path: &str) -> Result<&str, SourceError> {
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

fn failed(path: &Path, error: &io::Error) -> SourceError {
    SourceError::Workshop { path: path.to_path_buf(), reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_elsewhere() {
        for path in
            ["../a", "/a", "a//b", "a/../../b", "a/./b", ".git/config", "a/.GIT/b", "a\nb", "a\0b", ""]
        {
            assert!(matches!(checked(path), Err(SourceError::Name { .. })), "{path:?}");
        }
        for path in ["a", "a/b.yaml", "..a/b..", ".gitignore"] {
            assert_eq!(checked(path), Ok(path));
        }
    }
}
