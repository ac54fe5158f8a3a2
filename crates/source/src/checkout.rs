//! Writes a folder of a commit to disk for Helm or Kustomize. Only plain files are written, and links are
//! replaced with their targets.

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use crate::tools::{SOURCE_FOLDER, WorkingFolder};
use crate::tree::{CommitReader, Limits, join_paths};
use crate::{SourceError, tree};

/// Number of files, bytes and links that may still be written.
pub(crate) struct Budget {
    entries: u64,
    bytes: u64,
    links: u64,
}

impl Budget {
    pub fn from_limits(limits: &Limits) -> Self {
        Self { entries: limits.entries, bytes: limits.bytes, links: limits.links }
    }
}

/// A file to write: its path and content.
pub(crate) type OutputFile = (String, Vec<u8>);

/// Destination of copied files, and replacements for some of these files.
pub(crate) struct CopyTarget<'c> {
    pub workshop: &'c WorkingFolder,
    /// Folder in the working folder that represents the root of the repository.
    pub root: &'c str,
    /// Returns the files to write in place of a repository file. If it returns `None`, the file is copied
    /// unchanged.
    pub replacements: &'c dyn Fn(&str, &str) -> Option<Vec<OutputFile>>,
}

impl<'c> CopyTarget<'c> {
    /// Creates a target for which files are copied unchanged to their own paths.
    pub fn unchanged(workshop: &'c WorkingFolder) -> Self {
        Self { workshop, root: SOURCE_FOLDER, replacements: &|_, _| None }
    }
}

impl CommitReader<'_> {
    /// Writes a folder recursively to its own path.
    pub fn copy(&self, folder: ObjectId, path: &str, workshop: &WorkingFolder) -> Result<(), SourceError> {
        self.copy_to(
            folder,
            (path, path),
            &CopyTarget::unchanged(workshop),
            &mut Budget::from_limits(self.limits),
        )
    }

    /// Writes a folder recursively to a different path.
    pub fn copy_to(
        &self,
        folder: ObjectId,
        (at, to): (&str, &str),
        copying: &CopyTarget<'_>,
        left: &mut Budget,
    ) -> Result<(), SourceError> {
        let limit = |limit, what| SourceError::Limit { path: at.to_owned(), limit, what };
        for entry in self.list(folder, at, true)? {
            let (place, target) = (join_paths(at, &entry.path), join_paths(to, &entry.path));
            let one_less = left.entries.checked_sub(1);
            left.entries = one_less.ok_or_else(|| limit(self.limits.entries, "files and folders"))?;
            let (leads_to, found) = self.resolve_links(&place, &entry)?;
            if found.kind == EntryKind::Tree {
                // A link to one of its own parent folders would cause endless recursion.
                let fewer = left.links.checked_sub(1);
                left.links = fewer.ok_or_else(|| limit(self.limits.links, "nested links to folders"))?;
                self.copy_to(found.id, (&leads_to, &target), copying, left)?;
                left.links = left.links.saturating_add(1);
                continue;
            }
            let Some(content) = self.content(&leads_to, &found)? else { continue };
            let changed = |file: &str| (copying.replacements)(file, &target);
            let written = changed(&place).or_else(|| changed(&leads_to));
            let written = written.unwrap_or_else(|| vec![(target, content)]);
            for (path, content) in written {
                let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
                let fewer = left.bytes.checked_sub(size);
                left.bytes = fewer.ok_or_else(|| limit(self.limits.bytes, "bytes of files"))?;
                copying.workshop.write_file_in(copying.root, &path, &content)?;
            }
        }
        Ok(())
    }

    /// Returns the ID of a folder's content: the ID of its tree, or of the commit's tree if links in the
    /// folder may lead anywhere in the commit.
    pub fn content_id(&self, folder: ObjectId, path: &str) -> Result<ObjectId, SourceError> {
        let has_links = self.list(folder, path, true)?.iter().any(tree::TreeEntry::is_link);
        Ok(if has_links { self.root } else { folder })
    }
}
