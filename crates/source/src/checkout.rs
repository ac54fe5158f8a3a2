//! Writing a folder of a commit for a program to read: plain files only, links as what they lead to.

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use crate::tools::{SOURCE, Workshop};
use crate::tree::{Limits, Reader, full};
use crate::{SourceError, tree};

/// What may still be written.
pub(crate) struct Left {
    entries: u64,
    bytes: u64,
    links: u64,
}

impl Left {
    pub fn of(limits: &Limits) -> Self {
        Self { entries: limits.entries, bytes: limits.bytes, links: limits.links }
    }
}

/// A file that is written, by its path and content.
pub(crate) type Written = (String, Vec<u8>);

/// Where files are written to, and which of them are changed on the way.
pub(crate) struct Copying<'c> {
    pub workshop: &'c Workshop,
    /// What stands in the workshop for the top folder of the repository.
    pub root: &'c str,
    /// What is written instead of a file of the repository that goes to a path; nothing: the file itself.
    pub changed: &'c dyn Fn(&str, &str) -> Option<Vec<Written>>,
}

impl<'c> Copying<'c> {
    /// Files as they are, under their own paths.
    pub fn plain(workshop: &'c Workshop) -> Self {
        Self { workshop, root: SOURCE, changed: &|_, _| None }
    }
}

impl Reader<'_> {
    /// Writes a folder, under its path, with all that is in it.
    pub fn copy(&self, folder: ObjectId, path: &str, workshop: &Workshop) -> Result<(), SourceError> {
        self.copy_to(folder, (path, path), &Copying::plain(workshop), &mut Left::of(self.limits))
    }

    /// Writes a folder at one path under another.
    pub fn copy_to(
        &self,
        folder: ObjectId,
        (at, to): (&str, &str),
        copying: &Copying<'_>,
        left: &mut Left,
    ) -> Result<(), SourceError> {
        let limit = |limit, what| SourceError::Limit { path: at.to_owned(), limit, what };
        for entry in self.list(folder, at, true)? {
            let (place, target) = (full(at, &entry.path), full(to, &entry.path));
            let one_less = left.entries.checked_sub(1);
            left.entries = one_less.ok_or_else(|| limit(self.limits.entries, "files and folders"))?;
            let (leads_to, found) = self.follow(&place, &entry)?;
            if found.kind == EntryKind::Tree {
                // A link to a folder that it is in would have no end.
                let fewer = left.links.checked_sub(1);
                left.links =
                    fewer.ok_or_else(|| limit(self.limits.links, "links to folders inside each other"))?;
                self.copy_to(found.id, (&leads_to, &target), copying, left)?;
                left.links = left.links.saturating_add(1);
                continue;
            }
            let Some(content) = self.content(&leads_to, &found)? else { continue };
            let changed = |file: &str| (copying.changed)(file, &target);
            let written = changed(&place).or_else(|| changed(&leads_to));
            let written = written.unwrap_or_else(|| vec![(target, content)]);
            for (path, content) in written {
                let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
                let fewer = left.bytes.checked_sub(size);
                left.bytes = fewer.ok_or_else(|| limit(self.limits.bytes, "bytes of files"))?;
                copying.workshop.put_in(copying.root, &path, &content)?;
            }
        }
        Ok(())
    }

    /// What the content of a folder is known by: its tree, or that of the whole commit where links may lead anywhere in it.
    pub fn content_id(&self, folder: ObjectId, path: &str) -> Result<ObjectId, SourceError> {
        let has_links = self.list(folder, path, true)?.iter().any(tree::Entry::is_link);
        Ok(if has_links { self.root } else { folder })
    }
}
