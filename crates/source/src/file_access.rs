//! Access to files by path, in a commit or in a chart archive.

use std::cmp::Ordering;

use crate::SourceError;
use crate::manifest_paths::matches_segment;
use crate::tree::{self, CommitReader, path_segments};

/// Files accessible by normalized path.
pub(crate) trait FileAccess {
    /// Returns the content of a file, or `None` if the file doesn't exist.
    fn read_file(&self, path: &str) -> Result<Option<Vec<u8>>, SourceError>;

    /// Returns the normalized paths of all files under a folder, or an empty list if it doesn't exist.
    fn list_files(&self, folder: &str) -> Result<Vec<String>, SourceError>;

    /// Returns an ID for the content of a folder, or `None` if it doesn't exist or can't be copied as a
    /// whole.
    fn folder_content_id(&self, _folder: &str) -> Result<Option<String>, SourceError> {
        Ok(None)
    }

    /// Describes the commit or chart, for messages.
    fn location_text(&self) -> String;
}

impl FileAccess for CommitReader<'_> {
    fn read_file(&self, path: &str) -> Result<Option<Vec<u8>>, SourceError> {
        match self.lookup(path)? {
            Some(entry) => self.content(path, &entry),
            None => Ok(None),
        }
    }

    fn list_files(&self, folder: &str) -> Result<Vec<String>, SourceError> {
        let Some(tree) = self.find_folder(folder)? else { return Ok(Vec::new()) };
        let listed = self.list(tree, folder, true)?;
        Ok(listed.into_iter().map(|entry| crate::tree::join_paths(folder, &entry.path)).collect())
    }

    fn folder_content_id(&self, folder: &str) -> Result<Option<String>, SourceError> {
        let Some(tree) = self.find_folder(folder)? else { return Ok(None) };
        Ok(Some(self.content_id(tree, folder)?.to_string()))
    }

    fn location_text(&self) -> String {
        format!("commit {} of {}", self.commit, self.repository)
    }
}

/// Returns true if a path is a glob pattern.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Resolves a path relative to a folder. A leading slash makes it relative to the root.
pub(crate) fn resolve_path(folder: &str, path: &str) -> Result<String, SourceError> {
    let base = if path.starts_with('/') { "" } else { folder };
    tree::resolve_path(base, path).ok_or_else(|| SourceError::Outside { path: path.to_owned() })
}

/// Returns the files that match a pattern. `**` matches any number of folders; other wildcards match within a
/// single name. Files in a folder come before those in its subfolders, both sorted by name.
pub(crate) fn matching_files(files: &dyn FileAccess, pattern: &str) -> Result<Vec<String>, SourceError> {
    let pattern: Vec<&str> = path_segments(pattern).collect();
    let plain = pattern.iter().take_while(|part| !is_pattern(part)).count();
    let base = pattern.get(..plain).unwrap_or_default().join("/");
    let mut found = files.list_files(&base)?;
    found.retain(|path| matches(&pattern, &path_segments(path).collect::<Vec<_>>()));
    found.sort_by(|one, other| glob_order(one, other));
    Ok(found)
}

fn matches(pattern: &[&str], path: &[&str]) -> bool {
    // Track the path segments that each pattern element can reach. The time is proportional to the product of
    // both lengths, however many `**` there are.
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
                        && path.get(before).is_some_and(|name| matches_segment(part, name))
                })
            };
        }
        reached = next;
    }
    reached.last().copied().unwrap_or_default()
}

fn glob_order(one: &str, other: &str) -> Ordering {
    let (mut one, mut other) = (path_segments(one).peekable(), path_segments(other).peekable());
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
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    struct TestFiles<'f>(&'f [&'f str]);

    impl FileAccess for TestFiles<'_> {
        fn read_file(&self, _: &str) -> Result<Option<Vec<u8>>, SourceError> {
            Ok(None)
        }

        fn list_files(&self, folder: &str) -> Result<Vec<String>, SourceError> {
            let inside = |path: &&&str| folder.is_empty() || path.starts_with(&format!("{folder}/"));
            Ok(self.0.iter().filter(inside).map(|path| (*path).to_owned()).collect())
        }

        fn location_text(&self) -> String {
            String::new()
        }
    }

    /// The examples come from Argo CD's documentation.
    #[test]
    fn patterns_and_their_order() {
        let files = TestFiles(&[
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
            assert_eq!(matching_files(&files, pattern).unwrap(), expected, "{pattern}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let (pattern, path) = (vec!["**"; 2_000], vec!["a"; 60]);
        assert!(matches(&pattern, &path));
        assert!(!matches(&[pattern.as_slice(), &["b"]].concat(), &path));
    }

    #[test]
    fn paths_stay_in_the_repository() {
        for (folder, path, expected) in [
            ("app", "a.yaml", Ok("app/a.yaml")),
            ("app", "../a.yaml", Ok("a.yaml")),
            ("app", "/a.yaml", Ok("a.yaml")),
            ("app", "/../a.yaml", Err(())),
            ("app", "../../a.yaml", Err(())),
        ] {
            assert_eq!(
                resolve_path(folder, path).map_err(drop).as_deref(),
                expected.as_ref().map(|path| *path).map_err(|()| &()),
                "{path}"
            );
        }
    }
}
