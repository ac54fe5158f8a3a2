//! Formatting of error messages.

use std::error::Error as StdError;

use crate::credentials;

/// Formats an error and its causes on a single line, without repetitions and without potential credentials.
pub(crate) fn format_error_chain(error: &(dyn StdError + 'static)) -> String {
    if let Some(words) = credentials::credential_error_message(error) {
        return words;
    }
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        cause = error.source();
    }
    words
}
