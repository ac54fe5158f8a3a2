//! What a repository's names mean at one moment.

use std::collections::{BTreeMap, BTreeSet};

use gix::ObjectId;

use crate::versions;

/// What stands before the names of tags.
pub(crate) const TAGS: &str = "refs/tags/";

/// The names of a repository and what they stood for when it was looked at. Equal when nothing has moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refs {
    pub(crate) head: Option<ObjectId>,
    pub(crate) names: BTreeMap<String, ObjectId>,
    /// The tags that are objects of their own, by their whole names, where a server has told.
    pub(crate) tags: BTreeMap<String, ObjectId>,
}

impl Refs {
    /// What a name stands for: `HEAD`, a whole name, a branch, a tag, and then a branch of a remote.
    pub(crate) fn find(&self, name: &str) -> Option<ObjectId> {
        if matches!(name, "" | "HEAD") {
            return self.head;
        }
        self.whole(name).map(|(_, id)| *id)
    }

    /// The same in Git's own order, in which tags come before branches.
    pub(crate) fn find_as_git(&self, name: &str) -> Option<ObjectId> {
        if matches!(name, "" | "HEAD") {
            return self.head;
        }
        let prefixes = ["", "refs/", TAGS, "refs/heads/", "refs/remotes/origin/"];
        prefixes.iter().find_map(|prefix| self.names.get(&format!("{prefix}{name}"))).copied()
    }

    /// What is meant by a name, with its whole name.
    fn whole(&self, name: &str) -> Option<(&String, &ObjectId)> {
        let prefixes = ["", "refs/heads/", "refs/tags/", "refs/remotes/origin/", "refs/"];
        prefixes.iter().find_map(|prefix| self.names.get_key_value(&format!("{prefix}{name}")))
    }

    /// The whole name of the tag that a revision means, be it as a version constraint.
    pub(crate) fn tag(&self, revision: &str) -> Option<String> {
        let newest = self.newest_name(revision).map(|name| format!("{TAGS}{name}"));
        newest.or_else(|| {
            self.whole(revision).map(|(name, _)| name.clone()).filter(|name| name.starts_with(TAGS))
        })
    }

    /// What the newest tag stands for that a version constraint allows.
    pub(crate) fn newest(&self, constraint: &str) -> Option<ObjectId> {
        let newest = self.newest_name(constraint)?;
        self.names.get(&format!("{TAGS}{newest}")).copied()
    }

    fn newest_name(&self, constraint: &str) -> Option<&str> {
        versions::newest(constraint, self.names.keys().filter_map(|name| name.strip_prefix(TAGS)))
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
    Ok(Refs { head, names, ..Refs::default() })
}
