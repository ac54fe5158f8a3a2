//! Lists of names in messages.

/// Maximum number of names to show. Lists can have thousands.
const NAMES_MAX: usize = 5;

/// Joins names with commas, cutting a long list down to the first few and a count.
pub fn join_names(names: &[&str]) -> String {
    let named = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
