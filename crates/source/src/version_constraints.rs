//! Version constraints in `targetRevision`, which select the newest matching tag. The rules are those of
//! Masterminds/semver, the Go package that Argo CD uses.

use std::cmp::Ordering;

/// A version, as found in a tag. It may start with `v` and lack the minor and patch components.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    /// Major, minor and patch component.
    numbers: [u64; 3],
    /// Identifiers of the prerelease. Empty for a release.
    prerelease: Vec<String>,
}

/// A component of a constraint. `None` if the component is missing or a wildcard: `x`, `X` or `*`.
type Part = Option<u64>;

/// A single comparison of a constraint, such as `>=1.2`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Comparison {
    operator: Operator,
    version: Version,
    /// Number of components in the constraint.
    component_count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    Less,
    GreaterOrEqual,
    LessOrEqual,
    Tilde,
    Caret,
}

/// Operators as written. Longer operators come first, because `>=` must not be parsed as `>`.
const OPERATORS: [(&str, Operator); 11] = [
    (">=", Operator::GreaterOrEqual),
    ("=>", Operator::GreaterOrEqual),
    ("<=", Operator::LessOrEqual),
    ("=<", Operator::LessOrEqual),
    ("!=", Operator::NotEqual),
    ("~>", Operator::Tilde),
    ("=", Operator::Equal),
    (">", Operator::Greater),
    ("<", Operator::Less),
    ("~", Operator::Tilde),
    ("^", Operator::Caret),
];
/// Maximum number of comparisons in a constraint, far more than are used in practice.
const COMPARISONS_MAX: usize = 64;

/// Returns the newest tag that satisfies a constraint, or `None` if there is none or the text isn't a
/// constraint. A version such as `1.2` or `v1.2.3` is a tag name, not a constraint.
pub(crate) fn newest_version<'t>(
    constraint: &str,
    tags: impl IntoIterator<Item = &'t str>,
) -> Option<&'t str> {
    if Version::parse(constraint).is_some() {
        return None;
    }
    let constraint = Constraint::parse(constraint)?;
    let versions = tags.into_iter().filter_map(|tag| Some((Version::parse(tag)?, tag)));
    let allowed = versions.filter(|(version, _)| constraint.allows(version));
    // Of several tags for the same version, such as 1.0 and v1.0.0, the first wins.
    let newest =
        allowed.reduce(|best, one| if one.0.compare(&best.0) == Ordering::Greater { one } else { best });
    newest.map(|(_, tag)| tag)
}

/// Returns true if a constraint allows a version. Always false if the text is itself a version.
pub fn allows(constraint: &str, version: &str) -> bool {
    newest_version(constraint, [version]).is_some()
}

/// Returns true if a version satisfies a constraint, or equals the text if it isn't a constraint. Empty
/// allows everything.
pub(crate) fn satisfies(constraint: &str, version: &str) -> bool {
    let constraint = if constraint.trim().is_empty() { "*" } else { constraint };
    match (Constraint::parse(constraint), Version::parse(version)) {
        (Some(constraint), Some(version)) => constraint.allows(&version),
        _ => constraint == version,
    }
}

/// Returns true if the text is a version with major, minor and patch components.
pub(crate) fn is_full_version(text: &str) -> bool {
    let numbers = text.split(['-', '+']).next().unwrap_or_default();
    Version::parse(text).is_some() && numbers.matches('.').count() == 2
}

/// Alternatives, each a list of comparisons that must all be true.
struct Constraint(Vec<Vec<Comparison>>);

impl Constraint {
    fn parse(text: &str) -> Option<Self> {
        let lists: Option<Vec<_>> = text.split("||").map(parse_list).collect();
        let lists = lists?;
        (lists.iter().map(Vec::len).sum::<usize>() <= COMPARISONS_MAX).then_some(Self(lists))
    }

    fn allows(&self, version: &Version) -> bool {
        self.0.iter().any(|list| {
            // A prerelease in any comparison allows prereleases for the whole alternative.
            let names_one = list.iter().any(|one| !one.version.prerelease.is_empty());
            (version.prerelease.is_empty() || names_one) && list.iter().all(|one| one.allows(version))
        })
    }
}

fn parse_list(text: &str) -> Option<Vec<Comparison>> {
    if let Some((from, to)) = text.split_once(" - ") {
        let bound = |text: &str, operator| {
            let (version, given, rest) = Version::parse_prefix(text.trim())?;
            rest.is_empty().then_some(Comparison { operator, version, component_count: given })
        };
        return Some(vec![bound(from, Operator::GreaterOrEqual)?, bound(to, Operator::LessOrEqual)?]);
    }
    let (mut rest, mut found) = (text.trim(), Vec::new());
    while !rest.is_empty() {
        let operator = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign));
        let (sign, operator) = operator.copied().unwrap_or(("", Operator::Equal));
        let (version, given, after) = Version::parse_prefix(rest.strip_prefix(sign)?.trim_start())?;
        found.push(Comparison { operator, version, component_count: given });
        let next = after.trim_start().strip_prefix(',').unwrap_or(after).trim_start();
        // Comparisons must be separated by a space or a comma.
        if !next.is_empty() && next.len() == after.len() {
            return None;
        }
        rest = next;
    }
    (!found.is_empty()).then_some(found)
}

impl Version {
    /// Parses the version in a tag. It must have a major component and no wildcards.
    fn parse(text: &str) -> Option<Self> {
        let is_open = |c: char| "xX*".contains(c);
        let numbers = text.split(['-', '+']).next()?;
        let (version, given, rest) = Self::parse_prefix(text)?;
        (rest.is_empty() && given > 0 && !numbers.contains(is_open)).then_some(version)
    }

    /// Parses a version at the start of a string. Returns the version, the number of its components, and the
    /// rest of the string.
    fn parse_prefix(text: &str) -> Option<(Self, usize, &str)> {
        let mut rest = text.strip_prefix('v').unwrap_or(text);
        let mut parts: [Part; 3] = [None; 3];
        for (at, part) in parts.iter_mut().enumerate() {
            if at > 0 {
                let Some(after) = rest.strip_prefix('.') else { break };
                rest = after;
            }
            (*part, rest) = parse_number(rest)?;
        }
        let (mut prerelease, mut build) = (Vec::new(), "");
        if let Some(after) = rest.strip_prefix('-') {
            let (words, after) = parse_identifiers(after)?;
            (prerelease, rest) = (words.split('.').map(str::to_owned).collect(), after);
        }
        if let Some(after) = rest.strip_prefix('+') {
            (build, rest) = parse_identifiers(after)?;
        }
        let is_number = |word: &str| word.chars().all(|c| c.is_ascii_digit());
        let has_bad =
            prerelease.iter().any(|word: &String| is_number(word) && word.len() > 1 && word.starts_with('0'));
        if has_bad || build.split('.').any(str::is_empty) && !build.is_empty() {
            return None;
        }
        let given = parts.iter().take_while(|part| part.is_some()).count();
        // Everything after a wildcard is a wildcard, too.
        let numbers =
            std::array::from_fn(|at| parts.get(at).copied().flatten().filter(|_| at < given).unwrap_or(0));
        Some((Self { numbers, prerelease }, given, rest))
    }

    fn compare(&self, other: &Self) -> Ordering {
        let releases = || match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => compare_identifiers(&self.prerelease, &other.prerelease),
        };
        self.numbers.cmp(&other.numbers).then_with(releases)
    }
}

fn compare_identifiers(one: &[String], other: &[String]) -> Ordering {
    let word = |(one, other): (&String, &String)| match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one.cmp(&other),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => one.cmp(other),
    };
    let differing = one.iter().zip(other).map(word).find(|order| *order != Ordering::Equal);
    differing.unwrap_or_else(|| one.len().cmp(&other.len()))
}

/// Parses a component: a number or a wildcard. Returns the component and the remaining text.
fn parse_number(text: &str) -> Option<(Part, &str)> {
    if let Some(rest) = text.strip_prefix(['x', 'X', '*']) {
        return Some((None, rest));
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((Some(digits.parse().ok()?), rest))
}

/// Parses identifiers separated by dots. Returns them and the remaining text.
fn parse_identifiers(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.')).unwrap_or(text.len());
    let (words, rest) = text.split_at_checked(end)?;
    (!words.split('.').any(str::is_empty)).then_some((words, rest))
}

impl Comparison {
    fn allows(&self, version: &Version) -> bool {
        let (given, wanted) = (self.component_count, &self.version);
        let order = version.compare(wanted);
        // Compare only as many components as the constraint specifies.
        let same = |count: usize| version.numbers.iter().take(count).eq(wanted.numbers.iter().take(count));
        let is_open = given < 3;
        match self.operator {
            Operator::Equal if !is_open => order == Ordering::Equal,
            Operator::Equal | Operator::Tilde => {
                // `~1.2.3` and `~1.2` allow versions 1.2.x, and `~1` allows versions 1.x.
                let all = given == 0 || (!is_open && wanted.numbers == [0, 0, 0]);
                order != Ordering::Less && (all || same(given.min(2)))
            }
            Operator::NotEqual if is_open && given > 0 => !same(given),
            Operator::NotEqual => order != Ordering::Equal,
            Operator::Greater if is_open && given > 0 => {
                let taken =
                    |version: &Version| version.numbers.iter().take(given).copied().collect::<Vec<_>>();
                taken(version) > taken(wanted)
            }
            Operator::Greater => order == Ordering::Greater,
            Operator::GreaterOrEqual => order != Ordering::Less,
            Operator::Less => order == Ordering::Less,
            Operator::LessOrEqual if is_open => same(given) || order != Ordering::Greater,
            Operator::LessOrEqual => order != Ordering::Greater,
            Operator::Caret => {
                // Everything up to the first nonzero component must be equal.
                let first = wanted.numbers.iter().take(given).position(|number| *number > 0);
                order != Ordering::Less && same(first.map_or(given, |at| at + 1))
            }
        }
    }
}

#[cfg(test)]
mod tests;
