use super::Problem;
use super::scanner::Scanner;
use super::token::Token;

impl<'t> Scanner<'t> {
    /// Scans an alias (`*name`) or an anchor (`&name`).
    pub(super) fn scan_anchor_or_alias(&mut self, token: fn(&'t str) -> Token<'t>) -> Result<(), Problem> {
        self.save_key()?;
        self.is_key_allowed = false;
        let line = self.cursor.line;
        self.cursor.skip(1);
        let name = self.word();
        let ends = self.cursor.is_separation(0)
            || matches!(
                self.cursor.peek_byte(0),
                Some(b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`')
            );
        if name.is_empty() || !ends {
            return Err(self.problem(
                "the name of an anchor or alias must consist of letters, digits, `_` and `-`; \
                 put quotes around a string that begins with `*` or `&`",
            ));
        }
        self.content(token(name), line);
        Ok(())
    }

    fn word(&mut self) -> &'t str {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        self.cursor.take_while(|cursor| cursor.peek_byte(0).is_some_and(letter))
    }

    /// Scans a tag, such as `!!str`, `!name` or `!<uri>`.
    pub(super) fn tag(&mut self) -> Result<(), Problem> {
        self.save_key()?;
        self.is_key_allowed = false;
        let line = self.cursor.line;
        let token = if self.cursor.has_byte(1, b'<') {
            self.cursor.skip(2);
            let uri = self.uri(true)?;
            if !self.cursor.has_byte(0, b'>') {
                return Err(self.problem("a tag that begins with `!<` must end with `>`"));
            }
            self.cursor.skip(1);
            Token::Tag("", uri)
        } else {
            let handle = self.tag_handle();
            let rest = self.uri(false)?;
            if handle.len() > 1 && handle.ends_with('!') {
                if rest.is_empty() {
                    return Err(self.problem(format!("a tag needs a name after {handle}")));
                }
                Token::Tag(handle, rest)
            } else {
                let suffix = format!("{}{rest}", handle.get(1..).unwrap_or_default());
                if suffix.is_empty() { Token::Tag("", "!".to_owned()) } else { Token::Tag("!", suffix) }
            }
        };
        if !(self.cursor.is_separation(0) || self.flow_level > 0 && self.cursor.has_byte(0, b',')) {
            return Err(self.problem(
                "a tag must be followed by a space; put quotes around a string that begins with `!`",
            ));
        }
        self.content(token, line);
        Ok(())
    }

    /// Reads a tag handle: `!`, `!!` or `!name!`. Returns `!name` if there is no closing `!`.
    fn tag_handle(&mut self) -> &'t str {
        let from = self.cursor.offset;
        self.cursor.skip(1);
        self.word();
        if self.cursor.has_byte(0, b'!') {
            self.cursor.skip(1);
        }
        self.cursor.slice(from, self.cursor.offset)
    }

    fn uri(&mut self, brackets: bool) -> Result<String, Problem> {
        let text = self.cursor.take_while(|cursor| {
            cursor.peek_byte(0).is_some_and(|byte| {
                byte.is_ascii_alphanumeric()
                    || b"_-;/?:@&=+$.%!~*'()".contains(&byte)
                    || (brackets && b",[]".contains(&byte))
            })
        });
        let mut bytes = Vec::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.bytes().next() {
            let escaped = rest.get(1..3).filter(|_| first == b'%').map(|code| u8::from_str_radix(code, 16));
            let taken = match (first, escaped) {
                (_, Some(Ok(byte))) => {
                    bytes.push(byte);
                    3
                }
                (b'%', _) => {
                    return Err(self.problem("a `%` in a tag must be followed by two hexadecimal digits"));
                }
                _ => {
                    bytes.push(first);
                    1
                }
            };
            rest = rest.get(taken..).unwrap_or_default();
        }
        String::from_utf8(bytes)
            .map_err(|_| self.problem("the escapes in a tag do not decode to valid UTF-8"))
    }

    /// Scans a directive, such as `%YAML 1.2` or `%TAG !name! prefix`.
    pub(super) fn directive(&mut self) -> Result<(), Problem> {
        self.before_directive()?;
        let line = self.cursor.line;
        self.cursor.skip(1);
        let name = self.word();
        self.cursor.take_while(|cursor| cursor.is_blank(0));
        let token = match name {
            "YAML" => {
                let version = self.cursor.take_while(|cursor| !cursor.is_separation(0));
                let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                if !version.split_once('.').is_some_and(|(major, minor)| major == "1" && digits(minor)) {
                    return Err(self.problem("unsupported YAML version; use 1.1 or 1.2"));
                }
                Token::VersionDirective
            }
            "TAG" if self.cursor.has_byte(0, b'!') => {
                let handle = self.tag_handle();
                if self.cursor.take_while(|cursor| cursor.is_blank(0)).is_empty() {
                    return Err(self.problem("a `%TAG` directive needs a space after the handle"));
                }
                Token::TagDirective(handle, self.uri(true)?)
            }
            _ => return Err(self.problem("unknown directive; use `%YAML` or `%TAG`")),
        };
        self.cursor.take_while(|cursor| cursor.is_blank(0));
        self.cursor.skip_comment();
        if !self.cursor.is_line_end(0) {
            return Err(self.problem("only a comment may follow on this line"));
        }
        self.content(token, line);
        Ok(())
    }
}
