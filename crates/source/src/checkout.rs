//! Writes a folder of a commit to disk for Helm or Kustomize. Only regular files are written; links become
//! copies of their targets.

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use crate::tools::{SOURCE_FOLDER, WorkingFolder};
use crate::tree::{CommitReader, Limits, join_paths};
use crate::{SourceError, tree};

/// Remaining budget of files, bytes and nested links.
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

/// Path and content of a file to write.
pub(crate) type OutputFile = (String, Vec<u8>);

/// Destination of copied files, some of them replaced on the way.
pub(crate) struct CopyTarget<'c> {
    pub workshop: &'c WorkingFolder,
    /// Destination of the repository root, relative to the working folder.
    pub root: &'c str,
    /// Returns the replacements for a file, given its path in the repository and its destination. `None`
    /// copies it unchanged.
    pub replacements: &'c dyn Fn(&str, &str) -> Option<Vec<OutputFile>>,
}

impl<'c> CopyTarget<'c> {
    /// Creates a target that copies all files unchanged, to their own paths.
    pub fn unchanged(workshop: &'c WorkingFolder) -> Self {
        Self { workshop, root: SOURCE_FOLDER, replacements: &|_, _| None }
    }
}

impl CommitReader<'_> {
    /// Copies a folder recursively, at its own path.
    pub fn copy(&self, folder: ObjectId, path: &str, workshop: &WorkingFolder) -> Result<(), SourceError> {
        self.copy_to(
            folder,
            path,
            path,
            &CopyTarget::unchanged(workshop),
            &mut Budget::from_limits(self.limits),
        )
    }

    /// Copies the folder `at` to `to`, recursively.
    pub fn copy_to(
        &self,
        folder: ObjectId,
        at: &str,
        to: &str,
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
                // A link to a parent folder would otherwise recurse forever.
                let fewer = left.links.checked_sub(1);
                left.links = fewer.ok_or_else(|| limit(self.limits.links, "nested links to folders"))?;
                self.copy_to(found.id, &leads_to, &target, copying, left)?;
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

    /// Returns an ID for the content of a folder. With links, it is the ID of the root tree, because links
    /// may point anywhere in the commit.
    pub fn content_id(&self, folder: ObjectId, path: &str) -> Result<ObjectId, SourceError> {
        let has_links = self.list(folder, path, true)?.iter().any(tree::TreeEntry::is_link);
        Ok(if has_links { self.root } else { folder })
    }
}
