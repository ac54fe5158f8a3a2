//! Patterns of paths, as `include` and `exclude` have them: `*`, `**`, `?`, `[a-z]`, `{a,b}`, and `\` before a character
//! that means itself. As in Argo CD, `*` and `?` match a slash too.

use crate::SourceError;

/// How many patterns the braces of one may stand for.
const ALTERNATIVES_MAX: usize = 256;

/// A pattern of paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Vec<Vec<Token>>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Char(char),
    One,
    Any,
    Class { not: bool, ranges: Vec<(char, char)> },
}

impl Glob {
    /// Reads a pattern.
    pub fn parse(pattern: &str) -> Result<Self, SourceError> {
        let wrong = |reason| SourceError::Pattern { pattern: pattern.to_owned(), reason };
        let chars: Vec<char> = pattern.chars().collect();
        let mut rest = chars.as_slice();
        let read = alternatives(&mut rest, 0).map_err(wrong)?;
        if rest.is_empty() { Ok(Self(read)) } else { Err(wrong("a } has no {")) }
    }

    /// Whether a whole path matches.
    pub fn matches(&self, path: &str) -> bool {
        let chars: Vec<char> = path.chars().collect();
        self.0.iter().any(|tokens| matches(tokens, &chars))
    }
}

/// Reads up to the end, or to what ends an alternative.
fn alternatives(rest: &mut &[char], depth: usize) -> Result<Vec<Vec<Token>>, &'static str> {
    let mut read = vec![Vec::new()];
    while let Some((first, after)) = rest.split_first() {
        match first {
            '{' => {
                *rest = after;
                let inside = braces(rest, depth.saturating_add(1))?;
                if read.len().saturating_mul(inside.len()) > ALTERNATIVES_MAX {
                    return Err("its braces stand for too many patterns");
                }
                let join = |before: &Vec<Token>| {
                    let before = before.clone();
                    inside
                        .iter()
                        .map(move |one| [before.as_slice(), one.as_slice()].concat())
                        .collect::<Vec<_>>()
                };
                read = read.iter().flat_map(join).collect();
            }
            '}' | ',' if depth > 0 => break,
            '}' => break,
            _ => {
                let token = token(rest)?;
                read.iter_mut().for_each(|one| one.push(token.clone()));
            }
        }
    }
    Ok(read)
}

fn braces(rest: &mut &[char], depth: usize) -> Result<Vec<Vec<Token>>, &'static str> {
    const UNCLOSED: &str = "a { has no }";
    if depth > 8 {
        return Err("its braces are too deep inside each other");
    }
    let mut inside = Vec::new();
    loop {
        inside.extend(alternatives(rest, depth)?);
        if inside.len() > ALTERNATIVES_MAX {
            return Err("its braces stand for too many patterns");
        }
        let (end, after) = rest.split_first().ok_or(UNCLOSED)?;
        *rest = after;
        if *end == '}' {
            return Ok(inside);
        }
    }
}

fn token(rest: &mut &[char]) -> Result<Token, &'static str> {
    let (first, after) = rest.split_first().ok_or("it ends too early")?;
    *rest = after;
    Ok(match first {
        '*' => Token::Any,
        '?' => Token::One,
        '\\' => {
            let (meant, after) = rest.split_first().ok_or("it ends with a \\")?;
            *rest = after;
            Token::Char(*meant)
        }
        '[' => class(rest)?,
        other => Token::Char(*other),
    })
}

fn class(rest: &mut &[char]) -> Result<Token, &'static str> {
    const UNCLOSED: &str = "a [ has no ]";
    let not = matches!(rest.first(), Some('!' | '^'));
    if not {
        *rest = rest.get(1..).unwrap_or_default();
    }
    let mut ranges = Vec::new();
    loop {
        match *rest {
            [']', after @ ..] if !ranges.is_empty() => {
                *rest = after;
                return Ok(Token::Class { not, ranges });
            }
            [from, '-', to, after @ ..] if *to != ']' => {
                ranges.push((*from, *to));
                *rest = after;
            }
            [one, after @ ..] => {
                ranges.push((*one, *one));
                *rest = after;
            }
            [] => return Err(UNCLOSED),
        }
    }
}

/// Goes back to the last star only, so that the work is at most pattern times path.
fn matches(tokens: &[Token], path: &[char]) -> bool {
    let (mut token, mut at) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let matched = match (tokens.get(token), path.get(at)) {
            (None, None) => return true,
            (Some(Token::Any), _) => {
                star = Some((token, at));
                token = token.saturating_add(1);
                continue;
            }
            (Some(token), Some(found)) => is_one(token, *found),
            _ => false,
        };
        if matched {
            (token, at) = (token.saturating_add(1), at.saturating_add(1));
            continue;
        }
        match star {
            Some((of, from)) if from < path.len() => {
                star = Some((of, from.saturating_add(1)));
                (token, at) = (of.saturating_add(1), from.saturating_add(1));
            }
            _ => return false,
        }
    }
}

fn is_one(token: &Token, found: char) -> bool {
    match token {
        Token::Char(wanted) => *wanted == found,
        Token::One | Token::Any => true,
        Token::Class { not, ranges } => {
            ranges.iter().any(|(from, to)| (*from..=*to).contains(&found)) != *not
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, yes, no) in [
            ("*.yaml", vec!["a.yaml", "sub/a.yaml", ".yaml"], vec!["a.yml", "a.yaml.bak"]),
            ("sub/*", vec!["sub/a", "sub/deep/a"], vec!["a", "other/a"]),
            ("{*.yml,*.yaml}", vec!["a.yml", "b.yaml"], vec!["c.json"]),
            ("{a,b{c,d}}.json", vec!["a.json", "bc.json", "bd.json"], vec!["b.json", "cd.json"]),
            ("?.yaml", vec!["a.yaml", "/.yaml"], vec!["ab.yaml", ".yaml"]),
            ("[a-c]*[!0-9]", vec!["ax", "b1x"], vec!["dx", "a1"]),
            ("**/a", vec!["x/a", "x/y/a"], vec!["a"]),
            ("a\\*b", vec!["a*b"], vec!["axb"]),
            ("*a*b*c*", vec!["abc", "xaybzc"], vec!["acb"]),
            ("", vec![""], vec!["a"]),
            ("ü?", vec!["üb"], vec!["u"]),
            ("a,b", vec!["a,b"], vec!["a"]),
        ] {
            let glob = Glob::parse(pattern).unwrap();
            yes.iter().for_each(|path| assert!(glob.matches(path), "{pattern} on {path}"));
            no.iter().for_each(|path| assert!(!glob.matches(path), "{pattern} on {path}"));
        }
    }

    #[test]
    fn wrong_patterns_are_refused() {
        let many = "{a,b}".repeat(9);
        for pattern in ["{a", "a}", "[a", "[]", "a\\", "{a,{b}", many.as_str()] {
            let error = Glob::parse(pattern).unwrap_err();
            assert!(matches!(error, SourceError::Pattern { .. }), "{pattern}");
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        let glob = Glob::parse(&"*a".repeat(100)).unwrap();
        assert!(!glob.matches(&"a".repeat(5_000).replace("aaaa", "aaab").replace('a', "b")));
    }
}
