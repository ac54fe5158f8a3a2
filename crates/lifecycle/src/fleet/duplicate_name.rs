use std::collections::BTreeSet;

/// Error returned when two Applications of a request have the same name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ApplicationSet {set} has two Applications named {member}; give each a unique name")]
pub struct DuplicateName {
    /// Name of the ApplicationSet.
    pub set: String,
    /// The duplicate name.
    pub member: String,
}

/// Collects the names of an ApplicationSet's Applications. Fails if there are duplicates.
pub(crate) fn collect_unique_names<'a>(
    set: &str,
    names: impl Iterator<Item = &'a String>,
) -> Result<BTreeSet<&'a String>, DuplicateName> {
    let mut unique = BTreeSet::new();
    for name in names {
        if !unique.insert(name) {
            return Err(DuplicateName { set: set.to_owned(), member: name.clone() });
        }
    }
    Ok(unique)
}
