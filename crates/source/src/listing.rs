//! What is in a commit, for those who choose among its files by rules of their own.

use crate::{Limits, Repository, SourceError};

impl Repository {
    /// The paths of all files of a commit, sorted; links are among them, and what is in submodules is not.
    ///
    /// # Errors
    ///
    /// The commit cannot be had, or has more files than `limits` says.
    pub fn paths(&self, commit: &str, limits: &Limits) -> Result<Vec<String>, SourceError> {
        self.in_commit(commit, limits, |reader| reader.paths())
    }

    /// The content of a file of a commit, wherever a link of that name leads; nothing where no file is.
    ///
    /// # Errors
    ///
    /// The commit cannot be had, a link leads out of it, or the file has more bytes than `limits` says.
    pub fn content(&self, commit: &str, path: &str, limits: &Limits) -> Result<Option<Vec<u8>>, SourceError> {
        self.in_commit(commit, limits, |reader| match reader.lookup(path)? {
            Some(entry) => reader.content(path, &entry),
            None => Ok(None),
        })
    }
}
