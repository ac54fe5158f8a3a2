use std::borrow::Cow;

use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Error, MessageFormatter as _, Options, UserMessageFormatter};

use super::Limits;
use super::error::ManifestCause;
use super::node::Node;

/// Reads one document. `Err` carries the line inside the text, from 1.
pub(super) fn parse(text: &str, limits: &Limits) -> Result<Node, (u64, ManifestCause)> {
    read(text, &options(limits, DuplicateKeyPolicy::Error)).map_err(|error| explain(&error, limits))
}

/// Reads a document that has a key twice, to say which object that is in.
pub(super) fn parse_leniently(text: &str, limits: &Limits) -> Option<Node> {
    read(text, &options(limits, DuplicateKeyPolicy::FirstWins)).ok()
}

/// How often one document is read again for a number beyond all floats.
const REREADS_MAX: usize = 64;

/// A short commit hash such as `97e83412` looks like a number that no float holds: kubectl reads it as text, so it is
/// read again as if it stood in quotes.
fn read(text: &str, options: &Options) -> Result<Node, Error> {
    let mut text = Cow::Borrowed(text);
    for _ in 0..REREADS_MAX {
        match serde_saphyr::from_str_with_options(&text, options.clone()) {
            Err(error) => text = Cow::Owned(quoted(&text, &error).ok_or(error)?),
            read => return read,
        }
    }
    serde_saphyr::from_str_with_options(&text, options.clone())
}

/// The text with quotes around the number that an error is about, if it is a number in digits (`.inf` is none).
fn quoted(text: &str, error: &Error) -> Option<String> {
    let Error::NonFiniteFloat { value, location } = error else { return None };
    let value = value.trim();
    let start = usize::try_from(location.span().byte_offset()?).ok()?;
    let (before, rest) = text.split_at_checked(start)?;
    let after = rest.strip_prefix(value)?;
    let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
    digits.starts_with(|c: char| c.is_ascii_digit()).then(|| format!("{before}\"{value}\"{after}"))
}

/// The reading of YAML that kubectl users expect: 1.1 scalars with legacy octal numbers, merge keys, no key twice.
fn options(limits: &Limits, duplicate_keys: DuplicateKeyPolicy) -> Options {
    serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: duplicate_keys,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_events: limits.nodes.saturating_mul(3),
            max_nodes: limits.nodes,
            max_documents: limits.documents,
            max_depth: limits.depth,
            flow_nesting_limit: limits.depth,
            max_aliases: limits.alias_expansion,
            // One anchor used a hundred times is ordinary; what counts is how much comes out.
            enforce_alias_anchor_ratio: false,
            max_total_scalar_bytes: usize::try_from(limits.bytes).unwrap_or(usize::MAX),
            simple_key_max_lookahead: LONGEST_KEY_CHARS,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: limits.alias_expansion,
        },
    }
}

/// JSON has no limit for keys; YAML's 1024 is a limit of old parsers.
const LONGEST_KEY_CHARS: usize = 65_536;

fn explain(error: &Error, limits: &Limits) -> (u64, ManifestCause) {
    let line = error.location().map_or(1, |location| location.line().max(1));
    (line, cause(error, limits))
}

fn cause(error: &Error, limits: &Limits) -> ManifestCause {
    match error {
        Error::WithSnippet { error, .. } | Error::AliasError { error, .. } => cause(error, limits),
        Error::DuplicateMappingKey { key, .. } => {
            ManifestCause::DuplicateKey { key: key.clone().unwrap_or_else(|| "?".to_owned()) }
        }
        Error::Budget { breach, .. } => breached(breach, limits),
        // The value may be a secret's.
        Error::NonFiniteFloat { .. } => ManifestCause::Syntax {
            message: "a number must be finite; put quotes around it if it is a text".to_owned(),
        },
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => ManifestCause::AliasBomb { what: message(error) },
        _ => syntax(message(error), limits),
    }
}

fn message(error: &Error) -> String {
    UserMessageFormatter.format_message(error).into_owned()
}

/// The scanner reports its own nesting limits as syntax errors.
fn syntax(message: String, limits: &Limits) -> ManifestCause {
    if message.contains("recursion limit") || message.contains("nesting") {
        ManifestCause::TooDeep { limit: limits.depth }
    } else {
        ManifestCause::Syntax { message }
    }
}

fn breached(breach: &BudgetBreach, limits: &Limits) -> ManifestCause {
    match breach {
        BudgetBreach::Depth { .. } => ManifestCause::TooDeep { limit: limits.depth },
        BudgetBreach::Aliases { aliases } => ManifestCause::AliasBomb { what: format!("{aliases} aliases") },
        BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => {
            ManifestCause::TooMuch { what: format!("more than {} values", limits.nodes) }
        }
        BudgetBreach::Documents { .. } => {
            ManifestCause::TooMuch { what: format!("more than {} documents", limits.documents) }
        }
        other => ManifestCause::TooMuch { what: format!("{other:?}") },
    }
}
