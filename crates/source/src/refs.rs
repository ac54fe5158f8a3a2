//! The refs of a repository at a point in time.

use std::collections::{BTreeMap, BTreeSet};

use gix::ObjectId;

use crate::version_constraints;

/// Prefix of the full names of tags.
pub(crate) const TAGS: &str = "refs/tags/";

/// Refs of a repository and their targets. Equal if all refs have the same targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refs {
    pub(crate) head: Option<ObjectId>,
    pub(crate) names: BTreeMap<String, ObjectId>,
    /// IDs of annotated tags by full name, as listed by a server.
    pub(crate) tags: BTreeMap<String, ObjectId>,
}

impl Refs {
    /// Resolves a name to the first match among `HEAD`, a full name, a branch, a tag, and a remote-tracking
    /// branch.
    pub(crate) fn find(&self, name: &str) -> Option<ObjectId> {
        if matches!(name, "" | "HEAD") {
            return self.head;
        }
        self.find_full_name(name).map(|(_, id)| *id)
    }

    /// Resolves a name as Git does: tags take precedence over branches.
    pub(crate) fn find_as_git(&self, name: &str) -> Option<ObjectId> {
        if matches!(name, "" | "HEAD") {
            return self.head;
        }
        let prefixes = ["", "refs/", TAGS, "refs/heads/", "refs/remotes/origin/"];
        prefixes.iter().find_map(|prefix| self.names.get(&format!("{prefix}{name}"))).copied()
    }

    /// Returns the ref that a name refers to, along with its full name.
    fn find_full_name(&self, name: &str) -> Option<(&String, &ObjectId)> {
        let prefixes = ["", "refs/heads/", "refs/tags/", "refs/remotes/origin/", "refs/"];
        prefixes.iter().find_map(|prefix| self.names.get_key_value(&format!("{prefix}{name}")))
    }

    /// Returns the full name of the tag that a revision (a name or a version constraint) selects.
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

    /// Returns the target that starts with a prefix, or `None` if there isn't exactly one.
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
        // Symbolic refs have no target of their own.
        if let Some(id) = reference.try_id() {
            names.insert(reference.name().as_bstr().to_string(), id.detach());
        }
    }
    Ok(Refs { head, names, ..Refs::default() })
}
