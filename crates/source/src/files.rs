//! Files that a source names by their paths, wherever they are.

use std::cmp::Ordering;

use crate::SourceError;
use crate::touched::says;
use crate::tree::{Reader, join, parts};

/// Files under plain paths.
pub(crate) trait Files {
    /// What a file holds; nothing where none is there.
    fn file(&self, path: &str) -> Result<Option<Vec<u8>>, SourceError>;

    /// The plain paths of all files below a folder; none where there is no folder.
    fn below(&self, folder: &str) -> Result<Vec<String>, SourceError>;

    /// What the content of a folder is known by, where it can be copied as a whole; nothing where there is none.
    fn content_of(&self, _folder: &str) -> Result<Option<String>, SourceError> {
        Ok(None)
    }

    /// Where they are, for people.
    fn place(&self) -> String;
}

impl Files for Reader<'_> {
    fn file(&self, path: &str) -> Result<Option<Vec<u8>>, SourceError> {
        match self.lookup(path)? {
            Some(entry) => self.content(path, &entry),
            None => Ok(None),
        }
    }

    fn below(&self, folder: &str) -> Result<Vec<String>, SourceError> {
        let Some(tree) = self.find_folder(folder)? else { return Ok(Vec::new()) };
        let listed = self.list(tree, folder, true)?;
        Ok(listed.into_iter().map(|entry| crate::tree::full(folder, &entry.path)).collect())
    }

    fn content_of(&self, folder: &str) -> Result<Option<String>, SourceError> {
        let Some(tree) = self.find_folder(folder)? else { return Ok(None) };
        Ok(Some(self.content_id(tree, folder)?.to_string()))
    }

    fn place(&self) -> String {
        format!("commit {} of {}", self.commit, self.repository)
    }
}

/// Whether a path is a pattern of several.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// The plain path that is meant in a folder; one that begins with a slash is that of the root.
pub(crate) fn meant(folder: &str, path: &str) -> Result<String, SourceError> {
    let base = if path.starts_with('/') { "" } else { folder };
    join(base, path).ok_or_else(|| SourceError::Outside { path: path.to_owned() })
}

/// The files that a plain pattern means: those of a folder before those of the folders in it, each by name. `**` stands for
/// any number of folders, the other signs for parts of one name.
pub(crate) fn matching(files: &dyn Files, pattern: &str) -> Result<Vec<String>, SourceError> {
    let pattern: Vec<&str> = parts(pattern).collect();
    let plain = pattern.iter().take_while(|part| !is_pattern(part)).count();
    let base = pattern.get(..plain).unwrap_or_default().join("/");
    let mut found = files.below(&base)?;
    found.retain(|path| matches(&pattern, &parts(path).collect::<Vec<_>>()));
    found.sort_by(|one, other| order(one, other));
    Ok(found)
}

fn matches(pattern: &[&str], path: &[&str]) -> bool {
    // Each sign of the pattern is looked at once for each part of the path, however many `**` there are.
    let mut reached = vec![false; path.len().saturating_add(1)];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    for part in pattern {
        let mut next = vec![false; reached.len()];
        let mut open = false;
        for (at, slot) in next.iter_mut().enumerate() {
            let was = reached.get(at).copied().unwrap_or_default();
            *slot = if *part == "**" {
                open |= was;
                open
            } else {
                let before = at.checked_sub(1);
                before.is_some_and(|before| {
                    reached.get(before).copied().unwrap_or_default()
                        && path.get(before).is_some_and(|name| says(part, name))
                })
            };
        }
        reached = next;
    }
    reached.last().copied().unwrap_or_default()
}

fn order(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (parts(one).peekable(), parts(other).peekable());
    loop {
        match (one.next(), other.next()) {
            (Some(a), Some(b)) if a == b => {}
            (Some(a), Some(b)) => {
                let is_folder = |rest: Option<&&str>| rest.is_some();
                return is_folder(one.peek()).cmp(&is_folder(other.peek())).then(a.cmp(b));
            }
            (a, b) => return a.is_some().cmp(&b.is_some()),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    struct Some<'f>(&'f [&'f str]);

    impl Files for Some<'_> {
        fn file(&self, _: &str) -> Result<Option<Vec<u8>>, SourceError> {
            Ok(None)
        }

        fn below(&self, folder: &str) -> Result<Vec<String>, SourceError> {
            let inside = |path: &&&str| folder.is_empty() || path.starts_with(&format!("{folder}/"));
            Ok(self.0.iter().filter(inside).map(|path| (*path).to_owned()).collect())
        }

        fn place(&self) -> String {
            String::new()
        }
    }

    /// The examples of Argo CD's manual.
    #[test]
    fn patterns_and_their_order() {
        let files = Some(&[
            "envs/nested/c.yaml",
            "envs/z.yaml",
            "envs/a.yaml",
            "envs/b.txt",
            "envs/deep/er/d.yaml",
            "other/a.yaml",
            "values-10.yaml",
            "values-9.yaml",
        ]);
        for (pattern, expected) in [
            ("envs/*.yaml", &["envs/a.yaml", "envs/z.yaml"][..]),
            ("envs/**/*.yaml", &["envs/a.yaml", "envs/z.yaml", "envs/deep/er/d.yaml", "envs/nested/c.yaml"]),
            ("envs/*/*.yaml", &["envs/nested/c.yaml"]),
            ("*/a.yaml", &["envs/a.yaml", "other/a.yaml"]),
            ("**/d.yaml", &["envs/deep/er/d.yaml"]),
            ("values-*.yaml", &["values-10.yaml", "values-9.yaml"]),
            ("envs/[ab].*", &["envs/a.yaml", "envs/b.txt"]),
            ("envs/?.yaml", &["envs/a.yaml", "envs/z.yaml"]),
            ("none/*.yaml", &[]),
        ] {
            assert_eq!(matching(&files, pattern).unwrap(), expected, "{pattern}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let (pattern, path) = (vec!["**"; 2_000], vec!["a"; 60]);
        assert!(matches(&pattern, &path));
        assert!(!matches(&[pattern.as_slice(), &["b"]].concat(), &path));
    }

    #[test]
    fn nothing_outside_is_meant() {
        for (folder, path, expected) in [
            ("app", "a.yaml", Ok("app/a.yaml")),
            ("app", "../a.yaml", Ok("a.yaml")),
            ("app", "/a.yaml", Ok("a.yaml")),
            ("app", "/../a.yaml", Err(())),
            ("app", "../../a.yaml", Err(())),
        ] {
            assert_eq!(
                meant(folder, path).map_err(drop).as_deref(),
                expected.as_ref().map(|path| *path).map_err(|()| &()),
                "{path}"
            );
        }
    }
}
