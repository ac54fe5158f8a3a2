//! String literals.

/// Returns true if the string is raw, and the rest of the text after the prefix. Returns `None` if no string
/// literal starts here. JSON has no bytes, so `b'…'` is a string.
pub(super) fn string_prefix(rest: &str) -> Option<(bool, &str)> {
    let mark = rest.find(['"', '\'']).filter(|mark| *mark <= 2)?;
    let (letters, body) = rest.split_at(mark);
    match letters.to_ascii_lowercase().as_str() {
        "" | "b" => Some((false, body)),
        "r" | "rb" | "br" => Some((true, body)),
        _ => None,
    }
}

/// Parses the string that starts with a quotation mark. Returns it with the rest of the text.
pub(super) fn parse_string(text: &str, raw: bool) -> Result<(String, &str), &'static str> {
    const OPEN: &str = "unterminated string";
    let mark =
        if text.starts_with("\"\"\"") || text.starts_with("'''") { text.get(..3) } else { text.get(..1) };
    let mark = mark.ok_or(OPEN)?;
    let mut rest = text.get(mark.len()..).ok_or(OPEN)?;
    let mut value = String::new();
    loop {
        if let Some(after) = rest.strip_prefix(mark) {
            return Ok((value, after));
        }
        let mut characters = rest.chars();
        let character = match characters.next().ok_or(OPEN)? {
            '\\' if !raw => escaped(&mut characters)?,
            other => other,
        };
        value.push(character);
        rest = characters.as_str();
    }
}

fn escaped(rest: &mut std::str::Chars<'_>) -> Result<char, &'static str> {
    const UNKNOWN: &str = "invalid escape";
    let digits = match rest.next().ok_or(UNKNOWN)? {
        'n' => return Ok('\n'),
        't' => return Ok('\t'),
        'r' => return Ok('\r'),
        same @ ('\\' | '"' | '\'' | '`' | '?') => return Ok(same),
        'x' | 'X' => 2,
        'u' => 4,
        'U' => 8,
        _ => return Err(UNKNOWN),
    };
    let code = rest.as_str().get(..digits).ok_or(UNKNOWN)?;
    *rest = rest.as_str().get(digits..).unwrap_or_default().chars();
    u32::from_str_radix(code, 16).ok().and_then(char::from_u32).ok_or(UNKNOWN)
}
