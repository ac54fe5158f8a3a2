//! Permitted differences between the error messages of this crate and Go. All of these messages come from
//! libraries.
//!
//! Both implementations must fail at the same position and in the same function, and all output must be
//! identical. All permitted differences are listed in this file and in
//! docs/reference/differences-from-argo-cd.md.

use crate::RenderResult;

/// Functions, and the prefix of an error message that may differ from Go's. An empty name means any function.
const PERMITTED_REASONS: [(&str, &str); 4] = [
    // For invalid JSON, Go reports the position of the error, and Tidegate reports the cause.
    ("mustFromJson", ""),
    // Go's `regexp` package and the `regex` crate explain errors differently.
    ("", "error parsing regexp: "),
    ("", "regexp: Compile("),
    // The two messages quote the invalid escape in different forms.
    ("urlParse", "unable to parse url: "),
];

const CALL_ERROR_PREFIX: &str = ": error calling ";

/// Splits an error message into position, function and reason.
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
