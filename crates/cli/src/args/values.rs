//! Values that need more than clap's own parsers.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, RangedU64ValueParser, TypedValueParser};
use tidegate_lifecycle::operation::gate_problem;
use tidegate_model::{ResourceSelector, Timestamp, parse_duration, reason_line};
use tidegate_service::applications::listing::LabelTerm;

/// The longest name Kubernetes gives anything.
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// A path, which may be empty: a variable of the environment that is empty is not set.
pub fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// Why something is wanted, as it is recorded.
pub fn reason(text: &str) -> Result<String, String> {
    Ok(reason_line(text))
}

/// The same where it has to be said.
pub fn said_reason(text: &str) -> Result<String, String> {
    Some(reason_line(text)).filter(|reason| !reason.is_empty()).ok_or_else(|| "say why".to_owned())
}

/// How many: one at least.
pub fn count() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

pub fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// A moment, as people say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    At(Timestamp),
    /// So long ago.
    Ago(Duration),
}

impl Moment {
    pub fn at(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(passed) => now - passed,
        }
    }
}

pub fn moment(text: &str) -> Result<Moment, String> {
    let ago = || parse_duration(text).map(Moment::Ago).ok();
    let read = text.parse().map(Moment::At).ok().or_else(ago);
    read.ok_or_else(|| "a time is written 2026-11-21T09:30:00Z, or as how long ago: 90m, 24h".to_owned())
}

pub fn selector(text: &str) -> Result<ResourceSelector, String> {
    text.parse::<ResourceSelector>().map_err(|error| error.to_string())
}

/// What is asked of labels.
pub type Labels = Vec<LabelTerm>;

pub fn labels(text: &str) -> Result<Labels, String> {
    LabelTerm::parse(text).map_err(|error| error.to_string())
}

pub fn application(text: &str) -> Result<String, String> {
    let unusual = |c: char| c.is_control() || c.is_whitespace();
    if text.is_empty() || text.len() > NAME_MAX || text.contains(unusual) {
        return Err(format!("an application's name has 1 to {NAME_MAX} characters and no white space"));
    }
    Ok(text.to_owned())
}

pub fn namespace(text: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let edge = |c: Option<char>| c.is_some_and(|c| c != '-');
    if text.len() <= LABEL_MAX
        && text.chars().all(good)
        && edge(text.chars().next())
        && edge(text.chars().last())
    {
        return Ok(text.to_owned());
    }
    Err(format!(
        "a namespace has 1 to {LABEL_MAX} lower-case letters, digits and '-', and no '-' at its ends"
    ))
}

pub fn sync_option(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => Ok(text.to_owned()),
        _ => Err("an option is written Name=value, such as PruneLast=true".to_owned()),
    }
}

pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err("write KEY=VALUE, such as team=shop".to_owned()),
    }
}

/// The name of a gate, as the annotation gives it.
pub fn gate(text: &str) -> Result<String, String> {
    let name = text.trim();
    if name.is_empty() || name.contains(|c: char| c == ',' || c.is_whitespace() || c.is_control()) {
        return Err("a gate has a name without spaces and commas, such as approval or soak:10m".to_owned());
    }
    if let Some(problem) = gate_problem(name) {
        return Err(problem);
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_said_as_times_or_as_how_long_ago() {
        let now = Timestamp::from_millis(10_000_000);
        let at = |text: &str| moment(text).map(|moment| moment.at(now).as_millis());
        assert_eq!(at("1970-01-01T00:00:05Z"), Ok(5_000));
        assert_eq!(at("1970-01-01T02:00:05+02:00"), Ok(5_000));
        assert_eq!(at("90m"), Ok(10_000_000 - 90 * 60_000));
        for bad in ["", "yesterday", "2026-13-01T00:00:00Z", "-3h"] {
            assert!(at(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_checked() {
        assert!(application("shop").is_ok());
        for bad in ["", "a b", "a\u{1b}", "a\n"] {
            assert!(application(bad).is_err(), "{bad:?}");
        }
        assert!(namespace("shop-1").is_ok());
        for bad in ["", "-a", "a-", "A", "a/b", "ä"] {
            assert!(namespace(bad).is_err(), "{bad:?}");
        }
        assert!(sync_option("PruneLast=true").is_ok());
        assert!(sync_option("PruneLast").is_err());
        assert_eq!(pair("a/b=c=d"), Ok(("a/b".to_owned(), "c=d".to_owned())));
        assert_eq!(pair("a="), Ok(("a".to_owned(), String::new())));
        assert!(pair("=a").is_err() && pair("a").is_err());
    }
}
