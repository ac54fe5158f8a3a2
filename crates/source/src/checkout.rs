//! Writing a folder of a commit for a program to read: plain files only, links as what they lead to.

use gix::ObjectId;
use gix::objs::tree::EntryKind;

use crate::SourceError;
use crate::tools::Workshop;
use crate::tree::{Reader, full};

/// What may still be written.
struct Left {
    entries: u64,
    bytes: u64,
    links: u64,
}

impl Reader<'_> {
    /// Writes a folder, under its path, with all that is in it.
    pub fn copy(&self, folder: ObjectId, path: &str, workshop: &Workshop) -> Result<(), SourceError> {
        let limits = self.limits;
        let mut left = Left { entries: limits.entries, bytes: limits.bytes, links: limits.links };
        self.copy_as(folder, (path, path), workshop, &mut left)
    }

    /// Writes a folder at one path under another.
    fn copy_as(
        &self,
        folder: ObjectId,
        (at, to): (&str, &str),
        workshop: &Workshop,
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
                self.copy_as(found.id, (&leads_to, &target), workshop, left)?;
                left.links = left.links.saturating_add(1);
                continue;
            }
            let Some(content) = self.content(&leads_to, &found)? else { continue };
            let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
            let fewer = left.bytes.checked_sub(size);
            left.bytes = fewer.ok_or_else(|| limit(self.limits.bytes, "bytes of files"))?;
            workshop.put(&target, &content)?;
        }
        Ok(())
    }
}
