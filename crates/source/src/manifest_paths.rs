//! The `argocd.argoproj.io/manifest-generate-paths` annotation, which lists the paths that affect an
//! Application.

use std::iter::Peekable;

/// Maximum length of file names and patterns, in characters. Anything longer always matches. File systems
/// support at most a quarter of this.
const NAME_CHARS_MAX: usize = 1024;

/// Returns true if a change to these files requires comparing the Application again, and if the annotation is
/// empty or the changed files are unknown. `paths` is the value of the annotation. Its paths are relative to
/// `folder`, the path of the source, or to the root of the repository if they start with a slash.
pub fn is_affected<'f>(paths: &str, folder: &str, changed: impl IntoIterator<Item = &'f str>) -> bool {
    let paths: Vec<Vec<String>> = paths
        .split(';')
        .map(str::trim)
        .filter(|path| !path.is_empty())
        .map(|path| {
            if path.starts_with('/') {
                normalize_path(path)
            } else {
                normalize_path(&format!("{folder}/{path}"))
            }
        })
        .collect();
    let mut changed = changed.into_iter().peekable();
    if paths.is_empty() || changed.peek().is_none() || has_longer(&paths, NAME_CHARS_MAX) {
        return true;
    }
    changed.any(|file| {
        let file = normalize_path(file);
        has_longer(std::slice::from_ref(&file), NAME_CHARS_MAX)
            || paths.iter().any(|path| file.starts_with(path) || matches(path, &file))
    })
}

fn has_longer(paths: &[Vec<String>], chars_max: usize) -> bool {
    paths.iter().flatten().any(|part| part.len() > chars_max && part.chars().count() > chars_max)
}

/// Splits a path into segments, resolving `.` and `..`. A `..` at the root is ignored.
fn normalize_path(path: &str) -> Vec<String> {
    let mut plain = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(plain.pop()),
            name => plain.push(name.to_owned()),
        }
    }
    plain
}

/// Returns true if a pattern matches a whole path. Each wildcard matches within a single segment.
fn matches(pattern: &[String], path: &[String]) -> bool {
    pattern.len() == path.len()
        && pattern.iter().zip(path).all(|(pattern, name)| matches_segment(pattern, name))
}

/// Matches `*`, `?`, `[a-z]`, `[^a]` and `\` like Go's `path.Match`. An invalid pattern matches nothing.
pub(crate) fn matches_segment(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // Position to resume from after a mismatch, with the last star consuming one more character.
    let (mut at, mut of, mut star) = (0, 0, None);
    loop {
        let rest = pattern.get(at..).unwrap_or_default();
        match (rest.first(), name.get(of)) {
            (None, None) => return true,
            (Some('*'), _) => {
                star = Some((at, of));
                at += 1;
                continue;
            }
            (Some(_), Some(sign)) => match match_one(rest, *sign) {
                Some((true, length)) => {
                    (at, of) = (at + length, of + 1);
                    continue;
                }
                Some((false, _)) => {}
                None => return false,
            },
            _ => {}
        }
        match star {
            Some((before, taken)) if taken < name.len() => {
                star = Some((before, taken + 1));
                (at, of) = (before + 1, taken + 1);
            }
            _ => return false,
        }
    }
}

/// Matches one character with the first element of a pattern. Returns the result and the length of the
/// element, or `None` if the element is invalid.
fn match_one(pattern: &[char], sign: char) -> Option<(bool, usize)> {
    let mut signs = pattern.iter().copied().peekable();
    match signs.next()? {
        '?' => Some((true, 1)),
        '\\' => Some((signs.next()? == sign, 2)),
        '[' => {
            let is_not = signs.next_if_eq(&'^').is_some();
            let (mut length, mut is_in) = (1 + usize::from(is_not), false);
            let mut ranges = 0;
            while ranges == 0 || signs.peek() != Some(&']') {
                let (low, taken) = parse_bound(&mut signs)?;
                let (high, more) = match signs.next_if_eq(&'-') {
                    Some(_) => parse_bound(&mut signs).map(|(high, more)| (high, more + 1))?,
                    None => (low, 0),
                };
                is_in |= (low..=high).contains(&sign);
                (length, ranges) = (length + taken + more, ranges + 1);
            }
            Some((is_in != is_not, length + 1))
        }
        literal => Some((literal == sign, 1)),
    }
}

fn parse_bound(signs: &mut Peekable<impl Iterator<Item = char>>) -> Option<(char, usize)> {
    match signs.next()? {
        '-' | ']' => None,
        '\\' => Some((signs.next()?, 2)),
        sign => Some((sign, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test, found by fuzzing: matching was slow if a large character class followed a star,
    /// because the class was evaluated for every position in the name.
    #[test]
    fn expensive_patterns_count_as_affected() {
        let class = format!("*[{}]", "a-b".repeat(20_000));
        let name = "c".repeat(20_000);
        assert!(is_affected(&class, "app", ["other/a"]) && is_affected("*d", "app", [name.as_str()]));
        assert!(!is_affected("*d", "app", ["c".repeat(1024).as_str()]));
    }

    #[test]
    fn changes_that_affect_an_application() {
        for (paths, folder, changed, expected) in [
            ("", "app", vec!["other/a.yaml"], true),
            (" ; ", "app", vec!["other/a.yaml"], true),
            (".", "app", vec![], true),
            (".", "app", vec!["app/a.yaml"], true),
            (".", "app", vec!["app/deep/a.yaml"], true),
            (".", "app", vec!["other/a.yaml"], false),
            (".", "app", vec!["application/a.yaml"], false),
            (".", "app", vec!["other/a.yaml", "app/a.yaml"], true),
            (".", ".", vec!["other/a.yaml"], true),
            ("../shared", "app", vec!["shared/a.yaml"], true),
            ("../../shared", "app", vec!["shared/a.yaml"], true),
            ("/shared", "app", vec!["shared/a.yaml"], true),
            ("/shared", "app", vec!["app/a.yaml"], false),
            (".;/shared", "app", vec!["shared/a.yaml"], true),
            (". ; ../shared", "app", vec!["shared/a.yaml"], true),
            ("/shared/a.yaml", "app", vec!["shared/a.yaml"], true),
            ("/shared/a.yaml", "app", vec!["shared/b.yaml"], false),
            ("/shared/*.yaml", "app", vec!["shared/a.yaml"], true),
            ("/shared/*.yaml", "app", vec!["shared/a.txt"], false),
            ("/shared/*.yaml", "app", vec!["shared/deep/a.yaml"], false),
            ("/*/a.yaml", "app", vec!["shared/a.yaml"], true),
            ("/shared/[ab]*.y?ml", "app", vec!["shared/beta.yaml"], true),
            ("/shared/[^ab]*.yaml", "app", vec!["shared/beta.yaml"], false),
            ("/shared/[a-", "app", vec!["shared/a"], false),
            ("/shared/\\*", "app", vec!["shared/a"], false),
            ("/a*b*c", "app", vec!["axxbxbxc"], true),
            ("/a*b*c", "app", vec!["axxcxbx"], false),
            ("/", "app", vec!["anything"], true),
        ] {
            assert_eq!(
                is_affected(paths, folder, changed.clone()),
                expected,
                "{paths:?} in {folder}: {changed:?}"
            );
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_longer_than_its_length() {
        let pattern = format!("/{}b", "*a".repeat(500));
        assert!(!is_affected(&pattern, "app", [&*"a".repeat(500)]));
    }
}
