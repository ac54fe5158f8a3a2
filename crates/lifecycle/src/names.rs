//! Lists of names in messages.

/// Maximum number of names to show from a list that may contain thousands.
const NAMES_MAX: usize = 5;

/// Joins names with commas. If there are many, lists the first few and counts the rest.
pub fn join_names(names: &[&str]) -> String {
    let named = names.iter().take(NAMES_MAX).copied().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}
