//! Quoting of shell words in suggested commands.

use std::path::Path;

/// Quotes a path as a single shell word.
pub fn quote_path(path: &Path) -> String {
    quote_shell_word(&path.to_string_lossy())
}

/// Quotes text as a single shell word.
pub fn quote_shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./-+:,@%=".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
