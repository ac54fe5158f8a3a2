//! Which applications changed files are about (`argocd.argoproj.io/manifest-generate-paths`).

use std::iter::Peekable;

/// Four times as long as names of files may be on any system. What is longer, or a pattern of it, is not looked at closer.
const NAME_CHARS_MAX: usize = 1024;

/// Whether an application is to be compared when these files of its repository have changed. `paths` is its annotation,
/// `folder` the path of its source; paths that begin with a slash begin at the root of the repository, others there. An
/// application without the annotation is touched by every change, and so is each where nobody knows which files changed.
pub fn is_touched<'f>(paths: &str, folder: &str, changed: impl IntoIterator<Item = &'f str>) -> bool {
    let paths: Vec<Vec<String>> = paths
        .split(';')
        .map(str::trim)
        .filter(|path| !path.is_empty())
        .map(|path| if path.starts_with('/') { parts(path) } else { parts(&format!("{folder}/{path}")) })
        .collect();
    let mut changed = changed.into_iter().peekable();
    if paths.is_empty() || changed.peek().is_none() || has_longer(&paths, NAME_CHARS_MAX) {
        return true;
    }
    changed.any(|file| {
        let file = parts(file);
        has_longer(std::slice::from_ref(&file), NAME_CHARS_MAX)
            || paths.iter().any(|path| file.starts_with(path) || matches(path, &file))
    })
}

fn has_longer(paths: &[Vec<String>], chars_max: usize) -> bool {
    paths.iter().flatten().any(|part| part.len() > chars_max && part.chars().count() > chars_max)
}

/// A path without `.` and `..`; what would lead out of the repository stays in it.
fn parts(path: &str) -> Vec<String> {
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

/// Whether a pattern says a whole path; its signs stand for parts of one name.
fn matches(pattern: &[String], path: &[String]) -> bool {
    pattern.len() == path.len() && pattern.iter().zip(path).all(|(pattern, name)| says(pattern, name))
}

/// `*`, `?`, `[a-z]`, `[^a]` and `\` as Go's `path.Match` has them. A pattern that is none matches nothing.
pub(crate) fn says(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // Where to go on when what follows the last star does not fit: one sign further.
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
            (Some(_), Some(sign)) => match one(rest, *sign) {
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

/// Whether the beginning of a pattern says this sign, and how long that beginning is; nothing if it is no pattern.
fn one(pattern: &[char], sign: char) -> Option<(bool, usize)> {
    let mut signs = pattern.iter().copied().peekable();
    match signs.next()? {
        '?' => Some((true, 1)),
        '\\' => Some((signs.next()? == sign, 2)),
        '[' => {
            let is_not = signs.next_if_eq(&'^').is_some();
            let (mut length, mut is_in) = (1 + usize::from(is_not), false);
            let mut ranges = 0;
            while ranges == 0 || signs.peek() != Some(&']') {
                let (low, taken) = bound(&mut signs)?;
                let (high, more) = match signs.next_if_eq(&'-') {
                    Some(_) => bound(&mut signs).map(|(high, more)| (high, more + 1))?,
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

fn bound(signs: &mut Peekable<impl Iterator<Item = char>>) -> Option<(char, usize)> {
    match signs.next()? {
        '-' | ']' => None,
        '\\' => Some((signs.next()?, 2)),
        sign => Some((sign, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by wrong input: a class of many signs behind a star took a step for each of them at each place of a name.
    #[test]
    fn what_would_take_long_to_look_at_touches() {
        let class = format!("*[{}]", "a-b".repeat(20_000));
        let name = "c".repeat(20_000);
        assert!(is_touched(&class, "app", ["other/a"]) && is_touched("*d", "app", [name.as_str()]));
        assert!(!is_touched("*d", "app", ["c".repeat(1024).as_str()]));
    }

    #[test]
    fn which_changes_touch_an_application() {
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
                is_touched(paths, folder, changed.clone()),
                expected,
                "{paths:?} in {folder}: {changed:?}"
            );
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_longer_than_its_length() {
        let pattern = format!("/{}b", "*a".repeat(500));
        assert!(!is_touched(&pattern, "app", [&*"a".repeat(500)]));
    }
}
