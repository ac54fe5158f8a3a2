//! Access to all files of a commit, for generators that select files by their own rules.

use crate::{Limits, Repository, SourceError};

impl Repository {
    /// Returns the sorted paths of all files in a commit, including links but not files in submodules.
    ///
    /// # Errors
    ///
    /// Returns an error if the commit is unavailable or contains more files than `limits` allows.
    pub fn paths(&self, commit: &str, limits: &Limits) -> Result<Vec<String>, SourceError> {
        self.with_reader(commit, limits, |reader| reader.paths())
    }

    /// Returns the content of a file in a commit, or `None` if it doesn't exist. Follows links.
    ///
    /// # Errors
    ///
    /// Returns an error if the commit is unavailable, if a link refers to a target outside the commit, or if
    /// the file is larger than `limits` allows.
    pub fn content(&self, commit: &str, path: &str, limits: &Limits) -> Result<Option<Vec<u8>>, SourceError> {
        self.with_reader(commit, limits, |reader| match reader.lookup(path)? {
            Some(entry) => reader.content(path, &entry),
            None => Ok(None),
        })
    }
}
