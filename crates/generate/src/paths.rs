//! Patterns of folders and files in a repository.

use regex::Regex;

use crate::error::Problem;

/// What patterns mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Of folders: `*` and `?` stay between two slashes.
    Shell,
    /// Of files, as `git ls-files` has them: `*` and `?` match slashes too, and a folder means all that is in it.
    Git,
    /// Of files: as those of folders, `**` matches any number of folders, and `{a,b}` is one of several.
    DoubleStar,
}

/// A pattern of paths.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    regex: Regex,
    /// The folder it means all files of.
    folder: Option<String>,
}

impl Pattern {
    pub(crate) fn new(pattern: &str, dialect: Dialect) -> Result<Self, Problem> {
        let wrong = |reason: String| Problem::Pattern { pattern: pattern.to_owned(), reason };
        let mut path = pattern;
        while let Some(rest) = path.strip_prefix("./") {
            path = rest;
        }
        if path.is_empty() {
            return Err(wrong("it is empty; write * for everything".to_owned()));
        }
        if path.starts_with('/') || path.split('/').any(|part| part == "..") {
            return Err(wrong("paths are relative to the root of the repository, and stay in it".to_owned()));
        }
        if dialect == Dialect::Git && path.starts_with(':') {
            return Err(wrong(
                "words of Git that begin with ':' are not supported; use exclude: true".to_owned(),
            ));
        }
        let regex = translate(path, dialect).map_err(|reason| wrong(reason.to_owned()))?;
        let regex = Regex::new(&regex).map_err(|error| wrong(error.to_string()))?;
        let folder = (dialect == Dialect::Git).then(|| match path.trim_end_matches('/') {
            "." => String::new(),
            folder => format!("{folder}/"),
        });
        Ok(Self { regex, folder })
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        self.regex.is_match(path) || self.folder.as_ref().is_some_and(|folder| path.starts_with(folder))
    }
}

/// A pattern as a regular expression: what matches is found in time that grows with the path alone.
fn translate(pattern: &str, dialect: Dialect) -> Result<String, &'static str> {
    let (one, any) = if dialect == Dialect::Git { (".", ".*") } else { ("[^/]", "[^/]*") };
    let mut regex = "(?s)^".to_owned();
    let mut braces = 0_usize;
    let mut rest = pattern.chars().peekable();
    let mut before = '/';
    while let Some(c) = rest.next() {
        match c {
            '*' if dialect == Dialect::DoubleStar && before == '/' && rest.peek() == Some(&'*') => {
                rest.next();
                match rest.next() {
                    None => regex.push_str(".*"),
                    Some('/') => regex.push_str("(?:.*/)?"),
                    Some(_) => return Err("** stands alone between two slashes"),
                }
                before = '/';
                continue;
            }
            '*' => regex.push_str(any),
            '?' => regex.push_str(one),
            '[' => class(&mut rest, &mut regex)?,
            '\\' => push_char(&mut regex, rest.next().ok_or("nothing stands after the last \\")?),
            '{' if dialect == Dialect::DoubleStar => {
                braces += 1;
                regex.push_str("(?:");
            }
            '}' if braces > 0 => {
                braces -= 1;
                regex.push(')');
            }
            ',' if braces > 0 => regex.push('|'),
            c => push_char(&mut regex, c),
        }
        before = c;
    }
    if braces > 0 {
        return Err("a { has no }");
    }
    regex.push('$');
    Ok(regex)
}

fn class(rest: &mut impl Iterator<Item = char>, regex: &mut String) -> Result<(), &'static str> {
    const UNCLOSED: &str = "a [ has no ]";
    regex.push('[');
    let mut is_first = true;
    loop {
        match rest.next().ok_or(UNCLOSED)? {
            '^' | '!' if is_first && regex.ends_with('[') => regex.push('^'),
            ']' if !is_first => break,
            '-' if !is_first => {
                regex.push('-');
            }
            '\\' => {
                push_char(regex, rest.next().ok_or(UNCLOSED)?);
                is_first = false;
            }
            c => {
                push_char(regex, c);
                is_first = false;
            }
        }
    }
    regex.push(']');
    Ok(())
}

fn push_char(regex: &mut String, c: char) {
    let mut bytes = [0; 4];
    regex.push_str(&regex::escape(c.encode_utf8(&mut bytes)));
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [&str; 9] = [
        "apps",
        "apps/web",
        "apps/web/base",
        "apps/db",
        "apps/web/config.json",
        "apps/config.json",
        "config.json",
        "a[b]/c",
        "x.json",
    ];

    fn matching(pattern: &str, dialect: Dialect) -> Vec<&'static str> {
        let pattern = Pattern::new(pattern, dialect).unwrap();
        PATHS.into_iter().filter(|path| pattern.matches(path)).collect()
    }

    #[test]
    fn patterns_of_folders_stay_between_slashes() {
        for (pattern, expected) in [
            ("apps/*", &["apps/web", "apps/db", "apps/config.json"][..]),
            ("apps", &["apps"]),
            ("*/web", &["apps/web"]),
            ("apps/**", &["apps/web", "apps/db", "apps/config.json"]),
            ("apps/[a-e]?", &["apps/db"]),
            ("apps/[^a-e]*", &["apps/web"]),
            ("a\\[b\\]/*", &["a[b]/c"]),
            ("./apps/db", &["apps/db"]),
            ("apps/{web,db}", &[]),
            ("*.json", &["config.json", "x.json"]),
        ] {
            assert_eq!(matching(pattern, Dialect::Shell), expected, "{pattern}");
        }
    }

    #[test]
    fn patterns_of_git_cross_slashes() {
        for (pattern, expected) in [
            ("apps/*.json", &["apps/web/config.json", "apps/config.json"][..]),
            ("**/config.json", &["apps/web/config.json", "apps/config.json"]),
            ("*config.json", &["apps/web/config.json", "apps/config.json", "config.json"]),
            ("apps/web", &["apps/web", "apps/web/base", "apps/web/config.json"]),
            ("apps/db/", &[]),
            ("a[b]", &["a[b]/c"]),
        ] {
            assert_eq!(matching(pattern, Dialect::Git), expected, "{pattern}");
        }
        assert_eq!(matching(".", Dialect::Git), PATHS);
    }

    #[test]
    fn two_stars_stand_for_folders() {
        for (pattern, expected) in [
            ("**/config.json", &["apps/web/config.json", "apps/config.json", "config.json"][..]),
            ("apps/*.json", &["apps/config.json"]),
            (
                "apps/**",
                &["apps/web", "apps/web/base", "apps/db", "apps/web/config.json", "apps/config.json"],
            ),
            ("apps/{web,db}", &["apps/web", "apps/db"]),
            ("{config,x}.json", &["config.json", "x.json"]),
        ] {
            assert_eq!(matching(pattern, Dialect::DoubleStar), expected, "{pattern}");
        }
    }

    #[test]
    fn patterns_that_mean_nothing_are_errors() {
        for pattern in ["", "./", "/apps", "../a", "a/../b", "a[", "a[]", "a\\", "[z-a]"] {
            assert!(Pattern::new(pattern, Dialect::Shell).is_err(), "{pattern}");
        }
        assert!(Pattern::new(":(exclude)a", Dialect::Git).is_err());
        for pattern in ["{a", "a/**b"] {
            assert!(Pattern::new(pattern, Dialect::DoubleStar).is_err(), "{pattern}");
        }
    }
}
