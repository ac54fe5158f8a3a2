//! Refs of a repository at a point in time.

use std::collections::{BTreeMap, BTreeSet};

use gix::ObjectId;

use crate::version_constraints;

/// Prefix of tag refs.
pub(crate) const TAGS: &str = "refs/tags/";

/// Refs of a repository, with their targets. Two values are equal if no ref has moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refs {
    pub(crate) head: Option<ObjectId>,
    pub(crate) names: BTreeMap<String, ObjectId>,
    /// Annotated tags by full name, as reported by a server.
    pub(crate) tags: BTreeMap<String, ObjectId>,
}

impl Refs {
    /// Resolves a name to `HEAD`, a full ref name, a branch, a tag, or a remote-tracking branch. These are
    /// tried in this order.
    pub(crate) fn find(&self, name: &str) -> Option<ObjectId> {
        if matches!(name, "" | "HEAD") {
            return self.head;
        }
        self.find_full_name(name).map(|(_, id)| *id)
    }

    /// Resolves a name in Git's order of precedence, in which tags come before branches.
    pub(crate) fn find_as_git(&self, name: &str) -> Option<ObjectId> {
        if matches!(name, "" | "HEAD") {
            return self.head;
        }
        let prefixes = ["", "refs/", TAGS, "refs/heads/", "refs/remotes/origin/"];
        prefixes.iter().find_map(|prefix| self.names.get(&format!("{prefix}{name}"))).copied()
    }

    /// Returns the ref with the given full name.
    fn find_full_name(&self, name: &str) -> Option<(&String, &ObjectId)> {
        let prefixes = ["", "refs/heads/", "refs/tags/", "refs/remotes/origin/", "refs/"];
        prefixes.iter().find_map(|prefix| self.names.get_key_value(&format!("{prefix}{name}")))
    }

    /// Returns the full name of the tag that a revision refers to, directly or through a version constraint.
    pub(crate) fn tag(&self, revision: &str) -> Option<String> {
        let newest = self.newest_name(revision).map(|name| format!("{TAGS}{name}"));
        newest.or_else(|| {
            self.find_full_name(revision).map(|(name, _)| name.clone()).filter(|name| name.starts_with(TAGS))
        })
    }

    /// Returns the target of the newest tag that satisfies a version constraint.
    pub(crate) fn newest(&self, constraint: &str) -> Option<ObjectId> {
        let newest = self.newest_name(constraint)?;
        self.names.get(&format!("{TAGS}{newest}")).copied()
    }

    fn newest_name(&self, constraint: &str) -> Option<&str> {
        version_constraints::newest_version(
            constraint,
            self.names.keys().filter_map(|name| name.strip_prefix(TAGS)),
        )
    }

    /// Returns the target that starts with the given prefix, if it is unique.
    pub(crate) fn complete(&self, prefix: &str) -> Option<ObjectId> {
        let all = self.names.values().chain(&self.head);
        let found: BTreeSet<_> = all.filter(|id| id.to_string().starts_with(prefix)).collect();
        found.first().filter(|_| found.len() == 1).map(|id| **id)
    }
}

pub(crate) fn read_refs(repository: &gix::Repository) -> gix::Result<Refs> {
    let head = repository.head()?.id().map(gix::Id::detach);
    let mut names = BTreeMap::new();
    for reference in repository.references()?.all()? {
        let reference = reference?;
        // Skip symbolic refs, which don't have a target of their own.
        if let Some(id) = reference.try_id() {
            names.insert(reference.name().as_bstr().to_string(), id.detach());
        }
    }
    Ok(Refs { head, names, ..Refs::default() })
}
