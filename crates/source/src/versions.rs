//! Version constraints, as `targetRevision` has them: which of the tags is the newest that they allow. The rules are those
//! of Masterminds' semver, which Argo CD uses.

use std::cmp::Ordering;

/// A version as tags have it: a `v` may come first, and minor and patch may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    /// Major, minor, patch.
    numbers: [u64; 3],
    /// Empty for a release.
    prerelease: Vec<String>,
}

/// A number of a constraint that may be left open, with `x`, `X` or `*`, or by saying nothing.
type Part = Option<u64>;

/// One comparison of a constraint: `>=1.2`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Comparison {
    operator: Operator,
    version: Version,
    /// How many numbers were given: nothing is said of those after them.
    given: usize,
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

/// Longer first: `>=` is not `>` and then `=`.
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
/// More comparisons than anybody writes.
const COMPARISONS_MAX: usize = 64;

/// The newest of these tags that a constraint allows; nothing if none is, or if it is no constraint. A version such as `1.2`
/// or `v1.2.3` is none: it is the name of a tag.
pub(crate) fn newest<'t>(constraint: &str, tags: impl IntoIterator<Item = &'t str>) -> Option<&'t str> {
    if Version::parse(constraint).is_some() {
        return None;
    }
    let constraint = Constraint::parse(constraint)?;
    let versions = tags.into_iter().filter_map(|tag| Some((Version::parse(tag)?, tag)));
    let allowed = versions.filter(|(version, _)| constraint.allows(version));
    // Of two that say the same, such as 1.0 and v1.0.0, the first one.
    let newest =
        allowed.reduce(|best, one| if one.0.compare(&best.0) == Ordering::Greater { one } else { best });
    newest.map(|(_, tag)| tag)
}

/// Whether a constraint allows a version. A version such as `1.2` is none, and allows nothing.
pub fn allows(constraint: &str, version: &str) -> bool {
    newest(constraint, [version]).is_some()
}

/// Whether a version is what a constraint asks for, or a version that stands for itself; nothing asks for any.
pub(crate) fn satisfies(constraint: &str, version: &str) -> bool {
    let constraint = if constraint.trim().is_empty() { "*" } else { constraint };
    match (Constraint::parse(constraint), Version::parse(version)) {
        (Some(constraint), Some(version)) => constraint.allows(&version),
        _ => constraint == version,
    }
}

/// Whether a text is one version, with all its numbers.
pub(crate) fn is_whole(text: &str) -> bool {
    let numbers = text.split(['-', '+']).next().unwrap_or_default();
    Version::parse(text).is_some() && numbers.matches('.').count() == 2
}

/// Any of several lists, of which all have to hold.
struct Constraint(Vec<Vec<Comparison>>);

impl Constraint {
    fn parse(text: &str) -> Option<Self> {
        let lists: Option<Vec<_>> = text.split("||").map(list).collect();
        let lists = lists?;
        (lists.iter().map(Vec::len).sum::<usize>() <= COMPARISONS_MAX).then_some(Self(lists))
    }

    fn allows(&self, version: &Version) -> bool {
        self.0.iter().any(|list| {
            // Who names a prerelease in a list means those of the whole list.
            let names_one = list.iter().any(|one| !one.version.prerelease.is_empty());
            (version.prerelease.is_empty() || names_one) && list.iter().all(|one| one.allows(version))
        })
    }
}

fn list(text: &str) -> Option<Vec<Comparison>> {
    if let Some((from, to)) = text.split_once(" - ") {
        let bound = |text: &str, operator| {
            let (version, given, rest) = Version::read(text.trim())?;
            rest.is_empty().then_some(Comparison { operator, version, given })
        };
        return Some(vec![bound(from, Operator::GreaterOrEqual)?, bound(to, Operator::LessOrEqual)?]);
    }
    let (mut rest, mut found) = (text.trim(), Vec::new());
    while !rest.is_empty() {
        let operator = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign));
        let (sign, operator) = operator.copied().unwrap_or(("", Operator::Equal));
        let (version, given, after) = Version::read(rest.strip_prefix(sign)?.trim_start())?;
        found.push(Comparison { operator, version, given });
        let next = after.trim_start().strip_prefix(',').unwrap_or(after).trim_start();
        // Something has to be between two.
        if !next.is_empty() && next.len() == after.len() {
            return None;
        }
        rest = next;
    }
    (!found.is_empty()).then_some(found)
}

impl Version {
    /// A version of a tag: with a major version, and nothing left open by a sign.
    fn parse(text: &str) -> Option<Self> {
        let is_open = |c: char| "xX*".contains(c);
        let numbers = text.split(['-', '+']).next()?;
        let (version, given, rest) = Self::read(text)?;
        (rest.is_empty() && given > 0 && !numbers.contains(is_open)).then_some(version)
    }

    /// A version at the beginning of a text, how many numbers it has, and what comes after.
    fn read(text: &str) -> Option<(Self, usize, &str)> {
        let mut rest = text.strip_prefix('v').unwrap_or(text);
        let mut parts: [Part; 3] = [None; 3];
        for (at, part) in parts.iter_mut().enumerate() {
            if at > 0 {
                let Some(after) = rest.strip_prefix('.') else { break };
                rest = after;
            }
            (*part, rest) = number(rest)?;
        }
        let (mut prerelease, mut build) = (Vec::new(), "");
        if let Some(after) = rest.strip_prefix('-') {
            let (words, after) = words(after)?;
            (prerelease, rest) = (words.split('.').map(str::to_owned).collect(), after);
        }
        if let Some(after) = rest.strip_prefix('+') {
            (build, rest) = words(after)?;
        }
        let is_number = |word: &str| word.chars().all(|c| c.is_ascii_digit());
        let has_bad =
            prerelease.iter().any(|word: &String| is_number(word) && word.len() > 1 && word.starts_with('0'));
        if has_bad || build.split('.').any(str::is_empty) && !build.is_empty() {
            return None;
        }
        let given = parts.iter().take_while(|part| part.is_some()).count();
        // After one that is open, the others are.
        let numbers =
            std::array::from_fn(|at| parts.get(at).copied().flatten().filter(|_| at < given).unwrap_or(0));
        Some((Self { numbers, prerelease }, given, rest))
    }

    fn compare(&self, other: &Self) -> Ordering {
        let releases = || match (self.prerelease.is_empty(), other.prerelease.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => compare_words(&self.prerelease, &other.prerelease),
        };
        self.numbers.cmp(&other.numbers).then_with(releases)
    }
}

fn compare_words(one: &[String], other: &[String]) -> Ordering {
    let word = |(one, other): (&String, &String)| match (one.parse::<u64>(), other.parse::<u64>()) {
        (Ok(one), Ok(other)) => one.cmp(&other),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => one.cmp(other),
    };
    let differing = one.iter().zip(other).map(word).find(|order| *order != Ordering::Equal);
    differing.unwrap_or_else(|| one.len().cmp(&other.len()))
}

/// A number, or a sign that leaves it open, and what comes after.
fn number(text: &str) -> Option<(Part, &str)> {
    if let Some(rest) = text.strip_prefix(['x', 'X', '*']) {
        return Some((None, rest));
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((Some(digits.parse().ok()?), rest))
}

/// Words with dots between them.
fn words(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.')).unwrap_or(text.len());
    let (words, rest) = text.split_at_checked(end)?;
    (!words.split('.').any(str::is_empty)).then_some((words, rest))
}

impl Comparison {
    fn allows(&self, version: &Version) -> bool {
        let (given, wanted) = (self.given, &self.version);
        let order = version.compare(wanted);
        // Of those numbers that were given.
        let same = |count: usize| version.numbers.iter().take(count).eq(wanted.numbers.iter().take(count));
        let is_open = given < 3;
        match self.operator {
            Operator::Equal if !is_open => order == Ordering::Equal,
            Operator::Equal | Operator::Tilde => {
                // `~1.2.3` and `~1.2` stay within 1.2; `~1` within 1.
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
                // Up to the first number that is not 0, of those that were given.
                let first = wanted.numbers.iter().take(given).position(|number| *number > 0);
                order != Ordering::Less && same(first.map_or(given, |at| at + 1))
            }
        }
    }
}

#[cfg(test)]
mod tests;
