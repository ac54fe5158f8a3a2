use std::collections::BTreeSet;

/// Error for two Applications with the same name in one request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("ApplicationSet {set} has two Applications named {member}; give each a unique name")]
pub struct DuplicateName {
    /// Name of the ApplicationSet.
    pub set: String,
    /// The duplicate name.
    pub member: String,
}

/// Collects the Applications' names. Fails on duplicates.
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
