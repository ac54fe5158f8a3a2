//! Permitted differences in error messages that come from a library rather than from Go's templates.
//!
//! Both must fail at the same place and in the same function, and all output must be identical. Differences
//! are listed only here and in docs/reference/differences-from-argo-cd.md.

use crate::RenderResult;

/// A function, or any, and the prefix of a reason that may differ.
const PERMITTED_REASONS: [(&str, &str); 4] = [
    // Go's JSON parser reports the position; Tidegate's reports the problem.
    ("mustFromJson", ""),
    // Reasons given by Go's `regexp` and by the `regex` crate.
    ("", "error parsing regexp: "),
    ("", "regexp: Compile("),
    // Name of the invalid escape.
    ("urlParse", "unable to parse url: "),
];

const CALL_ERROR_PREFIX: &str = ": error calling ";

/// Returns the position, the function, and the message.
fn split_error(refusal: &str) -> Option<(&str, &str, &str)> {
    let (place, called) = refusal.rsplit_once(CALL_ERROR_PREFIX)?;
    let (function, reason) = called.split_once(": ")?;
    Some((place, function, reason))
}

pub fn is_same(here: &RenderResult, go: &RenderResult) -> bool {
    match (here, go) {
        (Ok(here), Ok(go)) => here == go,
        (Err(here), Err(go)) => {
            here == go
                || split_error(here).zip(split_error(go)).is_some_and(|(here, go)| {
                    let is_named = |(function, reason): &(&str, &str)| {
                        (function.is_empty() || *function == go.1) && go.2.starts_with(reason)
                    };
                    (here.0, here.1) == (go.0, go.1) && PERMITTED_REASONS.iter().any(is_named)
                })
        }
        _ => false,
    }
}
