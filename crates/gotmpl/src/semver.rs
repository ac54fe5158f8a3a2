//! Semantic versions and version constraints, compatible with the Go package Masterminds/semver.

use std::cmp::Ordering;
use std::fmt;

/// A version. Missing components, as in `1` or `1.2`, are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    pub(crate) prerelease: String,
    pub(crate) metadata: String,
    pub(crate) original: String,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

fn is_identifier(text: &str) -> bool {
    text.split('.')
        .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'))
}

fn parse_number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Splits `v1.2.3-pre+meta` into numbers, prerelease and metadata.
fn split_version(text: &str) -> Option<(Vec<&str>, &str, &str)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (text, metadata) = match text.split_once('+') {
        Some((text, metadata)) => (text, Some(metadata)),
        None => (text, None),
    };
    let (numbers, prerelease) = match text.split_once('-') {
        Some((numbers, prerelease)) => (numbers, Some(prerelease)),
        None => (text, None),
    };
    if !metadata.is_none_or(is_identifier) || !prerelease.is_none_or(is_identifier) {
        return None;
    }
    let numbers: Vec<&str> = numbers.split('.').collect();
    (numbers.len() <= 3).then_some((numbers, prerelease.unwrap_or_default(), metadata.unwrap_or_default()))
}

impl Version {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let invalid = || "Invalid Semantic Version".to_owned();
        let (numbers, prerelease, metadata) = split_version(text).ok_or_else(invalid)?;
        let at =
            |index: usize| numbers.get(index).map_or(Some(0), |text| parse_number(text)).ok_or_else(invalid);
        let has_leading_zero =
            |part: &str| part.len() > 1 && part.starts_with('0') && parse_number(part).is_some();
        if prerelease.split('.').any(has_leading_zero) {
            return Err("Version segment starts with 0".to_owned());
        }
        Ok(Self {
            major: at(0)?,
            minor: at(1)?,
            patch: at(2)?,
            prerelease: prerelease.to_owned(),
            metadata: metadata.to_owned(),
            original: text.to_owned(),
        })
    }

    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| compare_prerelease(&self.prerelease, &other.prerelease))
    }
}

fn compare_prerelease(left: &str, right: &str) -> Ordering {
    match (left, right) {
        ("", "") => Ordering::Equal,
        ("", _) => Ordering::Greater,
        (_, "") => Ordering::Less,
        _ => {
            let (mut left, mut right) = (left.split('.'), right.split('.'));
            loop {
                let ordering = match (left.next(), right.next()) {
                    (None, None) => return Ordering::Equal,
                    (None, Some(_)) => Ordering::Less,
                    (Some(_), None) => Ordering::Greater,
                    (Some(left), Some(right)) => match (parse_number(left), parse_number(right)) {
                        (Some(left), Some(right)) => left.cmp(&right),
                        (Some(_), None) => Ordering::Less,
                        (None, Some(_)) => Ordering::Greater,
                        (None, None) => left.cmp(right),
                    },
                };
                if ordering != Ordering::Equal {
                    return ordering;
                }
            }
        }
    }
}

/// A comparison such as `>= 1.2`. Trailing components of the version may be missing or `x`.
struct Comparison {
    operator: &'static str,
    version: Version,
    /// Number of specified components.
    component_count: usize,
}

/// Operators as written in constraints, longest first, each with its canonical form.
const OPERATORS: [(&str, &str); 12] = [
    ("!=", "!="),
    (">=", ">="),
    ("=>", ">="),
    ("<=", "<="),
    ("=<", "<="),
    ("~>", "~"),
    (">", ">"),
    ("<", "<"),
    ("=", "="),
    ("~", "~"),
    ("^", "^"),
    ("", "="),
];

/// Returns true if a version satisfies a constraint.
pub(crate) fn satisfies(constraint: &str, version: &str) -> Result<bool, String> {
    let alternatives: Vec<Vec<Comparison>> = constraint
        .split("||")
        .map(|part| parse_comparisons(part).ok_or_else(|| format!("improper constraint: {constraint}")))
        .collect::<Result<_, _>>()?;
    let version = Version::parse(version)?;
    Ok(alternatives.iter().any(|all| all.iter().all(|comparison| comparison.matches(&version))))
}

fn parse_comparisons(text: &str) -> Option<Vec<Comparison>> {
    // A hyphen surrounded by spaces denotes a range.
    if let Some((from, to)) = text.split_once(" - ") {
        let mut both = vec![Comparison::parse(&format!(">={}", from.trim()))?];
        both.push(Comparison::parse(&format!("<={}", to.trim()))?);
        return Some(both);
    }
    let mut found = Vec::new();
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let operator = rest.len() - rest.trim_start_matches(['=', '!', '<', '>', '~', '^', ' ']).len();
        let end = rest.get(operator..)?.find([',', ' ']).map_or(rest.len(), |end| operator + end);
        let (comparison, after) = rest.split_at(end);
        found.push(Comparison::parse(comparison)?);
        rest = after.trim_start_matches([',', ' ']);
    }
    Some(found)
}

impl Comparison {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (written, operator) = OPERATORS.iter().find(|(written, _)| text.starts_with(written))?;
        let text = text.get(written.len()..)?.trim();
        let (numbers, prerelease, metadata) = split_version(text)?;
        let mut values = [0; 3];
        let mut given = 0;
        for (value, number_text) in values.iter_mut().zip(&numbers) {
            if matches!(*number_text, "x" | "X" | "*") {
                break;
            }
            *value = parse_number(number_text)?;
            given += 1;
        }
        let [major, minor, patch] = values;
        let version = Version {
            major,
            minor,
            patch,
            prerelease: prerelease.to_owned(),
            metadata: metadata.to_owned(),
            original: text.to_owned(),
        };
        Some(Self { operator, version, component_count: given })
    }

    fn matches(&self, version: &Version) -> bool {
        // A prerelease version satisfies only constraints that contain a prerelease.
        if !version.prerelease.is_empty() && self.version.prerelease.is_empty() {
            return false;
        }
        let order = version.compare(&self.version);
        match (self.operator, self.component_count) {
            ("=", 3) => order == Ordering::Equal,
            ("=", _) | ("~", _) => self.is_within(version, self.component_count.min(2)),
            ("!=", 3) => order != Ordering::Equal,
            ("!=", _) => !self.is_within(version, self.component_count),
            (">", 3) => order == Ordering::Greater,
            (">", _) => order == Ordering::Greater && !self.is_within(version, self.component_count),
            (">=", _) => order != Ordering::Less,
            ("<", _) => order == Ordering::Less,
            ("<=", 3) => order != Ordering::Greater,
            ("<=", _) => order != Ordering::Greater || self.is_within(version, self.component_count),
            _ => self.matches_caret(version),
        }
    }

    /// Returns true if the version agrees with the constraint's in the first `numbers` components and isn't
    /// lower.
    fn is_within(&self, version: &Version, numbers: usize) -> bool {
        let own = [self.version.major, self.version.minor, self.version.patch];
        let others = [version.major, version.minor, version.patch];
        own.iter().zip(&others).take(numbers).all(|(own, other)| own == other)
            && version.compare(&self.version) != Ordering::Less
    }

    /// Implements the `^` operator: the first nonzero component must be equal.
    fn matches_caret(&self, version: &Version) -> bool {
        let same = match (self.version.major, self.version.minor, self.component_count) {
            (_, _, 0) => 0,
            (1.., ..) | (0, _, 1) => 1,
            (0, 1.., _) | (0, 0, 2) => 2,
            _ => 3,
        };
        self.is_within(version, same)
    }
}
