//! What may differ: the words of a refusal, where they are those of a library and not of Go's templates.
//!
//! Both must refuse, at the same place and in the same function; only the reason may be put otherwise. This is the one place
//! where such differences are named, besides docs/compatibility.md.

use crate::Rendered;

/// What stands before the reason, in Go's words.
const REASONS: [(&str, &str); 13] = [
    // Go's reader of JSON says where, the one here what.
    ("error calling mustFromJson: ", ""),
    // The reasons of `regexp` and those of the crate `regex`.
    ("", "error parsing regexp: "),
    ("", "regexp: Compile("),
    // Go prints the values, and names both types or one, in an order of its own.
    ("error calling eq: ", "non-comparable type"),
    ("error calling ne: ", "non-comparable type"),
    ("error calling le: ", "non-comparable type"),
    ("error calling gt: ", "non-comparable type"),
    // Values are printed, and texts are cut in the middle of a character.
    ("", "range can't iterate over "),
    // `uint64` is a type of its own in Go.
    ("", "uint64"),
    // How a place in memory is described that is not there.
    ("", "reflect: "),
    ("", "runtime error: "),
    ("error calling len: ", ""),
    // Which of the escapes is meant.
    ("error calling urlParse: ", ""),
];

pub fn is_same(here: &Rendered, go: &Rendered) -> bool {
    if here == go {
        return true;
    }
    let (Err(here), Err(go)) = (here, go) else { return false };
    // In which of its lines a template cannot be read, Go counts from what it has looked at ahead.
    let without_line = |words: &str| words.splitn(4, ':').nth(3).map(str::to_owned);
    if !go.contains("executing") && without_line(here).is_some_and(|words| Some(words) == without_line(go)) {
        return true;
    }
    REASONS.iter().any(|(function, reason)| {
        let Some((before, after)) = go.split_once(&format!("{function}{reason}")) else { return false };
        let place = before.rsplit_once("error calling").map_or(before, |(place, _)| place);
        !(before.is_empty() && after.is_empty()) && here.starts_with(place)
    })
}
