//! What a repository's names mean at one moment.

use std::collections::{BTreeMap, BTreeSet};

use gix::ObjectId;

use crate::versions;

/// The names of a repository and what they stood for when it was looked at. Equal when nothing has moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refs {
    pub(crate) head: Option<ObjectId>,
    pub(crate) names: BTreeMap<String, ObjectId>,
}

impl Refs {
    /// What a name stands for: `HEAD`, a whole name, a branch, a tag, and then a branch of a remote.
    pub(crate) fn find(&self, name: &str) -> Option<ObjectId> {
        if matches!(name, "" | "HEAD") {
            return self.head;
        }
        let prefixes = ["", "refs/heads/", "refs/tags/", "refs/remotes/origin/", "refs/"];
        prefixes.iter().find_map(|prefix| self.names.get(&format!("{prefix}{name}"))).copied()
    }

    /// What the newest tag stands for that a version constraint allows.
    pub(crate) fn newest(&self, constraint: &str) -> Option<ObjectId> {
        let tags = self.names.keys().filter_map(|name| name.strip_prefix("refs/tags/"));
        let newest = versions::newest(constraint, tags)?;
        self.names.get(&format!("refs/tags/{newest}")).copied()
    }

    /// The only commit of a name that begins so.
    pub(crate) fn complete(&self, prefix: &str) -> Option<ObjectId> {
        let all = self.names.values().chain(&self.head);
        let found: BTreeSet<_> = all.filter(|id| id.to_string().starts_with(prefix)).collect();
        found.first().filter(|_| found.len() == 1).map(|id| **id)
    }
}

pub(crate) fn look(repository: &gix::Repository) -> gix::Result<Refs> {
    let head = repository.head()?.id().map(gix::Id::detach);
    let mut names = BTreeMap::new();
    for reference in repository.references()?.all()? {
        let reference = reference?;
        // One that only points to another name means nothing of its own.
        if let Some(id) = reference.try_id() {
            names.insert(reference.name().as_bstr().to_string(), id.detach());
        }
    }
    Ok(Refs { head, names })
}
