//! What may differ: the words of a refusal, where they are those of a library and not of Go's templates.
//!
//! Both must refuse, at the same place and in the same function, and what is not refused is the same to the letter. This is the
//! one place where differences are named, besides docs/compatibility.md.

use crate::Rendered;

/// A function, or any, and how the reason begins that it may put in other words.
const REASONS: [(&str, &str); 4] = [
    // Go's reader of JSON says where, the one here what.
    ("mustFromJson", ""),
    // The reasons of `regexp` and those of the crate `regex`.
    ("", "error parsing regexp: "),
    ("", "regexp: Compile("),
    // Which of the escapes is meant.
    ("urlParse", "unable to parse url: "),
];

const CALLING: &str = ": error calling ";

/// Where it is, which function was called, and what that says.
fn parts(refusal: &str) -> Option<(&str, &str, &str)> {
    let (place, called) = refusal.rsplit_once(CALLING)?;
    let (function, reason) = called.split_once(": ")?;
    Some((place, function, reason))
}

pub fn is_same(here: &Rendered, go: &Rendered) -> bool {
    match (here, go) {
        (Ok(here), Ok(go)) => here == go,
        (Err(here), Err(go)) => {
            here == go
                || parts(here).zip(parts(go)).is_some_and(|(here, go)| {
                    let is_named = |(function, reason): &(&str, &str)| {
                        (function.is_empty() || *function == go.1) && go.2.starts_with(reason)
                    };
                    (here.0, here.1) == (go.0, go.1) && REASONS.iter().any(is_named)
                })
        }
        _ => false,
    }
}
