//! Patterns for folders and files in a repository.

use regex::Regex;

use crate::error::Problem;

/// Pattern syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternSyntax {
    /// For folders: `*` and `?` don't match slashes.
    Shell,
    /// For files, as in `git ls-files`: `*` and `?` also match slashes, and a folder matches everything in
    /// it.
    Git,
    /// For files: like `Shell`, but `**` matches any number of folders, and `{a,b}` matches alternatives.
    DoubleStar,
}

/// A path pattern.
#[derive(Clone, Debug)]
pub(crate) struct PathPattern {
    regex: Regex,
    /// Folder named by the pattern, if the syntax is `Git`. Everything in it matches.
    folder: Option<String>,
}

impl PathPattern {
    pub(crate) fn new(pattern: &str, dialect: PatternSyntax) -> Result<Self, Problem> {
        let wrong = |reason: String| Problem::Pattern { pattern: pattern.to_owned(), reason };
        let path = strip_leading_dots(pattern);
        if path.is_empty() {
            return Err(wrong("the pattern is empty; use * for everything".to_owned()));
        }
        if path.starts_with('/') || path.split('/').any(|part| part == "..") {
            return Err(wrong(
                "use a path relative to the root of the repository, without \"..\"".to_owned(),
            ));
        }
        if dialect == PatternSyntax::Git && path.starts_with(':') {
            return Err(wrong(
                "Git pathspecs that begin with ':' are not supported; use exclude: true".to_owned(),
            ));
        }
        let regex = to_regex(path, dialect).map_err(|reason| wrong(reason.to_owned()))?;
        let regex = Regex::new(&regex).map_err(|error| wrong(error.to_string()))?;
        let folder = (dialect == PatternSyntax::Git).then(|| match path.trim_end_matches('/') {
            "." => String::new(),
            folder => format!("{folder}/"),
        });
        Ok(Self { regex, folder })
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        self.regex.is_match(path) || self.folder.as_ref().is_some_and(|folder| path.starts_with(folder))
    }
}

/// Removes `./` from the start of a pattern, even if repeated.
pub(crate) fn strip_leading_dots(pattern: &str) -> &str {
    let mut path = pattern;
    while let Some(rest) = path.strip_prefix("./") {
        path = rest;
    }
    path
}

/// Returns the reason a pattern is probably a mistake, along with a suggestion: it matches only names with
/// leading or trailing spaces or with braces. Returns `None` for any other pattern.
pub(crate) fn misleading_pattern_reason(pattern: &str, dialect: PatternSyntax) -> Option<String> {
    let trimmed = pattern.trim();
    if trimmed != pattern {
        let instead = if trimmed.is_empty() { "*" } else { trimmed };
        return Some(format!(
            "the pattern begins or ends with a space; use {instead}, or [ ] for a space in a name"
        ));
    }
    let unescaped = pattern.replace("\\{", "").replace("[{]", "");
    let has_braces = unescaped.split_once('{').is_some_and(|(_, rest)| rest.contains('}'));
    (has_braces && dialect != PatternSyntax::DoubleStar).then(|| {
        "braces have no special meaning here; use one entry for each alternative, or [{] for a brace in a name"
            .to_owned()
    })
}

/// Returns the reason a pattern can't match any path in any repository, along with a suggestion, or `None` if
/// it can. Exclusions of hidden folders are accepted: these are never selected anyway, but the exclusion
/// documents the intent.
pub(crate) fn impossible_pattern_reason(
    pattern: &str,
    dialect: PatternSyntax,
    is_exclusion: bool,
) -> Option<String> {
    let path = strip_leading_dots(pattern);
    // Git accepts a trailing slash after a folder, and `.` for the whole repository.
    let is_git = dialect == PatternSyntax::Git;
    let path = if is_git { path.trim_end_matches('/') } else { path };
    let parts = split_parts(path, dialect)?;
    if is_git && parts == ["."] {
        return None;
    }
    let named: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty() && *part != ".").collect();
    if named.is_empty() {
        let instead = if is_exclusion { "remove this exclusion" } else { "use *" };
        return Some(format!("the root of the repository cannot be selected; {instead}"));
    }
    if named.len() < parts.len() {
        let problem = match (parts.first(), parts.last()) {
            (Some(&""), _) => "paths must not begin with a slash",
            (_, Some(&"")) => "paths must not end with a slash",
            _ => "paths must not contain an empty segment or the segment \".\"",
        };
        return Some(format!("{problem}; use {}", named.join("/")));
    }
    let is_hidden = |part: &&str| part.starts_with('.') && *part != "..";
    let never_listed = dialect == PatternSyntax::Shell && !is_exclusion;
    let hidden = named.into_iter().find(is_hidden).filter(|_| never_listed)?;
    Some(format!(
        "folders whose name begins with a dot, such as {hidden:?}, are never selected; rename the folder or use files"
    ))
}

/// Splits a pattern at its literal slashes, i.e. those outside of `[a/b]` and not after `\`. Returns `None`
/// for a slash inside braces, because alternatives such as `{a/b,c}` differ in their number of segments.
fn split_parts(pattern: &str, dialect: PatternSyntax) -> Option<Vec<&str>> {
    let (mut parts, mut start) = (Vec::new(), 0);
    let (mut braces, mut is_in_class) = (0_usize, false);
    let mut rest = pattern.char_indices();
    while let Some((at, c)) = rest.next() {
        match c {
            '\\' => {
                rest.next();
            }
            ']' => is_in_class = false,
            _ if is_in_class => {}
            '[' => is_in_class = true,
            '{' if dialect == PatternSyntax::DoubleStar => braces += 1,
            '}' => braces = braces.saturating_sub(1),
            '/' if braces > 0 => return None,
            '/' => {
                parts.push(pattern.get(start..at)?);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(pattern.get(start..)?);
    Some(parts)
}

/// Translates a pattern to a regular expression, because the `regex` crate matches in linear time.
fn to_regex(pattern: &str, dialect: PatternSyntax) -> Result<String, &'static str> {
    let (one, any) = if dialect == PatternSyntax::Git { (".", ".*") } else { ("[^/]", "[^/]*") };
    let mut regex = "(?s)^".to_owned();
    let mut braces = 0_usize;
    let mut rest = pattern.chars().peekable();
    let mut before = '/';
    while let Some(c) = rest.next() {
        match c {
            '*' if dialect == PatternSyntax::DoubleStar && before == '/' && rest.peek() == Some(&'*') => {
                rest.next();
                match rest.next() {
                    None => regex.push_str(".*"),
                    Some('/') => regex.push_str("(?:.*/)?"),
                    Some(_) => return Err("** must be a whole path segment"),
                }
                before = '/';
                continue;
            }
            '*' => regex.push_str(any),
            '?' => regex.push_str(one),
            '[' => push_class(&mut rest, &mut regex)?,
            '\\' => push_char(&mut regex, rest.next().ok_or("the pattern ends with a \\")?),
            '{' if dialect == PatternSyntax::DoubleStar => {
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
        return Err("a { has no matching }");
    }
    regex.push('$');
    Ok(regex)
}

fn push_class(rest: &mut impl Iterator<Item = char>, regex: &mut String) -> Result<(), &'static str> {
    const UNCLOSED: &str = "a [ has no matching ]";
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

    fn matching(pattern: &str, dialect: PatternSyntax) -> Vec<&'static str> {
        let pattern = PathPattern::new(pattern, dialect).unwrap();
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
            assert_eq!(matching(pattern, PatternSyntax::Shell), expected, "{pattern}");
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
            assert_eq!(matching(pattern, PatternSyntax::Git), expected, "{pattern}");
        }
        assert_eq!(matching(".", PatternSyntax::Git), PATHS);
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
            assert_eq!(matching(pattern, PatternSyntax::DoubleStar), expected, "{pattern}");
        }
    }

    #[test]
    fn patterns_that_can_never_match_are_found() {
        for (pattern, dialect, said) in [
            ("apps/*/", PatternSyntax::Shell, Some("paths must not end with a slash; use apps/*")),
            ("apps//*/", PatternSyntax::Shell, Some("use apps/*")),
            ("/apps/*", PatternSyntax::Shell, Some("paths must not begin with a slash; use apps/*")),
            (".//apps", PatternSyntax::Shell, Some("use apps")),
            ("/", PatternSyntax::Shell, Some("use *")),
            ("", PatternSyntax::Shell, Some("use *")),
            ("apps/{a,b}/", PatternSyntax::Shell, Some("use apps/{a,b}")),
            ("apps/\\[x\\]/", PatternSyntax::Shell, Some("use apps/\\[x\\]")),
            ("./apps//web", PatternSyntax::Shell, Some("use apps/web")),
            ("apps/./*", PatternSyntax::Shell, Some("use apps/*")),
            ("apps/.", PatternSyntax::Shell, Some("use apps")),
            (".", PatternSyntax::Shell, Some("use *")),
            (".github/*", PatternSyntax::Shell, Some("\".github\", are never selected")),
            ("apps/*", PatternSyntax::Shell, None),
            ("*", PatternSyntax::Shell, None),
            ("apps/[.]x/", PatternSyntax::Shell, Some("use apps/[.]x")),
            ("apps/[.]x", PatternSyntax::Shell, None),
            ("apps[/]", PatternSyntax::Shell, None),
            ("a/../b", PatternSyntax::Shell, None),
            ("apps/", PatternSyntax::Git, None),
            ("/apps/*.yaml", PatternSyntax::Git, Some("use apps/*.yaml")),
            (".", PatternSyntax::Git, None),
            (".github/*.yaml", PatternSyntax::Git, None),
            ("apps//*.yaml", PatternSyntax::Git, Some("use apps/*.yaml")),
            ("apps/", PatternSyntax::DoubleStar, Some("use apps")),
            ("{a,b}/", PatternSyntax::DoubleStar, Some("use {a,b}")),
            ("{a/,b}", PatternSyntax::DoubleStar, None),
            ("**/config.json", PatternSyntax::DoubleStar, None),
        ] {
            let found = impossible_pattern_reason(pattern, dialect, false);
            let is_right = match (&found, said) {
                (Some(found), Some(said)) => found.ends_with(said) || found.contains(&format!("{said}; ")),
                (found, said) => found.is_none() && said.is_none(),
            };
            assert!(is_right, "{pattern} {dialect:?}: {found:?}");
        }
        for (pattern, said) in [
            ("apps/web/", Some("paths must not end with a slash; use apps/web")),
            ("./", Some("the root of the repository cannot be selected; remove this exclusion")),
            (".github", None),
        ] {
            let found = impossible_pattern_reason(pattern, PatternSyntax::Shell, true);
            assert_eq!(found.as_deref(), said, "{pattern}");
        }
    }

    #[test]
    fn patterns_with_blanks_or_literal_braces_are_found() {
        for (pattern, dialect, said) in [
            (" apps/*", PatternSyntax::Shell, Some("use apps/*, or [ ]")),
            ("apps/*\t", PatternSyntax::DoubleStar, Some("use apps/*, or [ ]")),
            (" ", PatternSyntax::Git, Some("use *, or [ ]")),
            ("apps/{web,db}", PatternSyntax::Shell, Some("use one entry for each alternative, or [{]")),
            ("apps/{web,db}/*.yaml", PatternSyntax::Git, Some("use one entry for each alternative")),
            ("apps/{web,db}/*.yaml", PatternSyntax::DoubleStar, None),
            ("apps/[{]web}", PatternSyntax::Shell, None),
            ("apps/\\{web}", PatternSyntax::Shell, None),
            ("my apps/web[ ]", PatternSyntax::Shell, None),
            ("}{", PatternSyntax::Shell, None),
        ] {
            let found = misleading_pattern_reason(pattern, dialect);
            let is_right = match (&found, said) {
                (Some(found), Some(said)) => found.contains(said),
                (found, said) => found.is_none() && said.is_none(),
            };
            assert!(is_right, "{pattern:?} {dialect:?}: {found:?}");
        }
    }

    #[test]
    fn patterns_that_mean_nothing_are_errors() {
        for pattern in ["", "./", "/apps", "../a", "a/../b", "a[", "a[]", "a\\", "[z-a]"] {
            assert!(PathPattern::new(pattern, PatternSyntax::Shell).is_err(), "{pattern}");
        }
        assert!(PathPattern::new(":(exclude)a", PatternSyntax::Git).is_err());
        for pattern in ["{a", "a/**b"] {
            assert!(PathPattern::new(pattern, PatternSyntax::DoubleStar).is_err(), "{pattern}");
        }
    }
}
