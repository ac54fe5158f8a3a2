//! Parsers for values that clap's built-in parsers don't cover.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, RangedU64ValueParser, TypedValueParser};
use tidegate_app_controller::listing::LabelTerm;
use tidegate_lifecycle::operation::gate_error;
use tidegate_model::{ResourceSelector, Timestamp, normalize_reason, parse_duration};
use tidegate_planner::manifests::is_label;

/// Maximum length of a name in Kubernetes.
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// Returns a parser for paths. A path may be empty, because an empty environment variable counts as unset.
pub fn path_parser() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// Parses an optional reason.
pub fn parse_reason(text: &str) -> Result<String, String> {
    Ok(normalize_reason(text))
}

/// Parses a required reason.
pub fn parse_required_reason(text: &str) -> Result<String, String> {
    Some(normalize_reason(text))
        .filter(|reason| !reason.is_empty())
        .ok_or_else(|| "provide a reason".to_owned())
}

/// Parses `true` or `false`. An empty variable counts as false.
pub fn parse_bool(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "t" => Ok(true),
        "false" | "0" | "f" | "" => Ok(false),
        _ => Err("use true or false".to_owned()),
    }
}

/// Returns a parser for numbers greater than zero.
pub fn count_parser() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

pub fn parse_duration_arg(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|error| error.to_string())
}

/// A time, absolute or relative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeArg {
    Absolute(Timestamp),
    /// Duration before the current time.
    Relative(Duration),
}

impl TimeArg {
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Absolute(at) => at,
            Self::Relative(passed) => now - passed,
        }
    }
}

pub fn parse_time(text: &str) -> Result<TimeArg, String> {
    let ago = || parse_duration(text).map(TimeArg::Relative).ok();
    let read = text.parse().map(TimeArg::Absolute).ok().or_else(ago);
    read.ok_or_else(|| {
        "use a time, such as 2026-11-21T09:30:00Z, or a duration before now, such as 90m or 24h".to_owned()
    })
}

pub fn parse_resource_selector(text: &str) -> Result<ResourceSelector, String> {
    text.parse::<ResourceSelector>().map_err(|error| error.to_string())
}

/// Conditions on labels.
pub type LabelConditions = Vec<LabelTerm>;

pub fn parse_label_conditions(text: &str) -> Result<LabelConditions, String> {
    LabelTerm::parse(text).map_err(|error| error.to_string())
}

pub fn parse_application_name(text: &str) -> Result<String, String> {
    let unusual = |c: char| c.is_control() || c.is_whitespace();
    if text.is_empty() || text.len() > NAME_MAX || text.contains(unusual) {
        return Err(format!("use 1 to {NAME_MAX} characters without whitespace"));
    }
    Ok(text.to_owned())
}

pub fn parse_namespace(text: &str) -> Result<String, String> {
    if is_label(text) {
        return Ok(text.to_owned());
    }
    Err(format!("use 1 to {LABEL_MAX} lowercase letters, digits and '-', without '-' at the start or end"))
}

pub fn parse_sync_option(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() && !value.trim().is_empty() => Ok(text.to_owned()),
        _ => Err("use NAME=VALUE, such as PruneLast=true".to_owned()),
    }
}

pub fn parse_key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err("use KEY=VALUE, such as team=shop".to_owned()),
    }
}

/// Parses the name of a gate, as in the annotation.
pub fn parse_gate(text: &str) -> Result<String, String> {
    let name = text.trim();
    if name.is_empty() || name.contains(|c: char| c == ',' || c.is_whitespace() || c.is_control()) {
        return Err("use a name without spaces or commas, such as approval or soak:10m".to_owned());
    }
    if let Some(problem) = gate_error(name) {
        return Err(problem);
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_absolute_or_relative_to_now() {
        let now = Timestamp::from_millis(10_000_000);
        let at = |text: &str| parse_time(text).map(|moment| moment.resolve(now).as_millis());
        assert_eq!(at("1970-01-01T00:00:05Z"), Ok(5_000));
        assert_eq!(at("1970-01-01T02:00:05+02:00"), Ok(5_000));
        assert_eq!(at("90m"), Ok(10_000_000 - 90 * 60_000));
        for bad in ["", "yesterday", "2026-13-01T00:00:00Z", "-3h"] {
            assert!(at(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn invalid_names_are_rejected() {
        assert!(parse_application_name("shop").is_ok());
        for bad in ["", "a b", "a\u{1b}", "a\n"] {
            assert!(parse_application_name(bad).is_err(), "{bad:?}");
        }
        assert!(parse_namespace("shop-1").is_ok());
        for bad in ["", "-a", "a-", "A", "a/b", "ä"] {
            assert!(parse_namespace(bad).is_err(), "{bad:?}");
        }
        assert!(parse_sync_option("PruneLast=true").is_ok());
        assert!(parse_sync_option("PruneLast").is_err());
        assert_eq!(parse_key_value("a/b=c=d"), Ok(("a/b".to_owned(), "c=d".to_owned())));
        assert_eq!(parse_key_value("a="), Ok(("a".to_owned(), String::new())));
        assert!(parse_key_value("=a").is_err() && parse_key_value("a").is_err());
    }
}
