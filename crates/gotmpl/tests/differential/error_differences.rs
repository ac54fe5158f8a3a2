//! Permitted differences in error messages that originate in a library rather than in Go's template package.
//!
//! Go and this crate must fail at the same position and in the same function, and all output must be
//! identical. Differences are listed only here and in docs/reference/differences-from-argo-cd.md.

use crate::RenderResult;

/// Name of a function (or empty for any function), and the prefix of a reason that may differ.
const PERMITTED_REASONS: [(&str, &str); 4] = [
    // Go's JSON parser reports the position of an error, whereas Tidegate's reports the problem.
    ("mustFromJson", ""),
    // The reasons from Go's `regexp` and from the `regex` crate differ.
    ("", "error parsing regexp: "),
    ("", "regexp: Compile("),
    // The messages contain the invalid escape in different forms.
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
