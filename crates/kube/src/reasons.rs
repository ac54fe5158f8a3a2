//! Errors in words.

use std::error::Error as StdError;

use crate::credentials;

/// An error and its causes in one line, without saying anything twice and without what may hold a credential.
pub(crate) fn reasons(error: &(dyn StdError + 'static)) -> String {
    if let Some(words) = credentials::guarded(error) {
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
