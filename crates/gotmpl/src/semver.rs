//! Semantic versions and constraints on them, as Masterminds' package reads them.

use std::cmp::Ordering;
use std::fmt;

/// A version; what is left out of `1` or `1.2` is 0.
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

fn number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// The parts of `v1.2.3-pre+meta`: numbers, prerelease, metadata.
fn parts(text: &str) -> Option<(Vec<&str>, &str, &str)> {
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
        let (numbers, prerelease, metadata) = parts(text).ok_or_else(invalid)?;
        let at = |index: usize| numbers.get(index).map_or(Some(0), |text| number(text)).ok_or_else(invalid);
        let has_leading_zero = |part: &str| part.len() > 1 && part.starts_with('0') && number(part).is_some();
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

    pub(crate) fn order(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| order_prerelease(&self.prerelease, &other.prerelease))
    }
}

fn order_prerelease(left: &str, right: &str) -> Ordering {
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
                    (Some(left), Some(right)) => match (number(left), number(right)) {
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

/// One comparison, such as `>= 1.2`; parts may be left out or be `x`.
struct Comparison {
    operator: &'static str,
    version: Version,
    /// How many of the numbers are given.
    given: usize,
}

/// How an operator is written, longer ones first, and what it means.
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

/// Whether a version meets a constraint.
pub(crate) fn check(constraint: &str, version: &str) -> Result<bool, String> {
    let alternatives: Vec<Vec<Comparison>> = constraint
        .split("||")
        .map(|part| comparisons(part).ok_or_else(|| format!("improper constraint: {constraint}")))
        .collect::<Result<_, _>>()?;
    let version = Version::parse(version)?;
    Ok(alternatives.iter().any(|all| all.iter().all(|comparison| comparison.holds(&version))))
}

fn comparisons(text: &str) -> Option<Vec<Comparison>> {
    // A hyphen with spaces around it is a range.
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
        let (numbers, prerelease, metadata) = parts(text)?;
        let mut values = [0; 3];
        let mut given = 0;
        for (value, number_text) in values.iter_mut().zip(&numbers) {
            if matches!(*number_text, "x" | "X" | "*") {
                break;
            }
            *value = number(number_text)?;
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
        Some(Self { operator, version, given })
    }

    fn holds(&self, version: &Version) -> bool {
        // A prerelease is only looked at by constraints that name one.
        if !version.prerelease.is_empty() && self.version.prerelease.is_empty() {
            return false;
        }
        let order = version.order(&self.version);
        match (self.operator, self.given) {
            ("=", 3) => order == Ordering::Equal,
            ("=", _) | ("~", _) => self.is_within(version, self.given.min(2)),
            ("!=", 3) => order != Ordering::Equal,
            ("!=", _) => !self.is_within(version, self.given),
            (">", 3) => order == Ordering::Greater,
            (">", _) => order == Ordering::Greater && !self.is_within(version, self.given),
            (">=", _) => order != Ordering::Less,
            ("<", _) => order == Ordering::Less,
            ("<=", 3) => order != Ordering::Greater,
            ("<=", _) => order != Ordering::Greater || self.is_within(version, self.given),
            _ => self.holds_caret(version),
        }
    }

    /// Whether the first numbers are the same, and the version is not below.
    fn is_within(&self, version: &Version, numbers: usize) -> bool {
        let own = [self.version.major, self.version.minor, self.version.patch];
        let others = [version.major, version.minor, version.patch];
        own.iter().zip(&others).take(numbers).all(|(own, other)| own == other)
            && version.order(&self.version) != Ordering::Less
    }

    /// `^`: the first number that is not zero stays.
    fn holds_caret(&self, version: &Version) -> bool {
        let same = match (self.version.major, self.version.minor, self.given) {
            (_, _, 0) => 0,
            (1.., ..) | (0, _, 1) => 1,
            (0, 1.., _) | (0, 0, 2) => 2,
            _ => 3,
        };
        self.is_within(version, same)
    }
}
