//! Lua 5.1 patterns, matched with a step limit.

use super::budget::Budget;

/// Maximum number of captures in a pattern.
const CAPTURES_MAX: usize = 32;
/// Maximum nesting of matches, where each optional item and each capture is a level. This bounds the stack.
const DEPTH_MAX: usize = 200;

/// Range of text, or just a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    /// True for `()`, which captures a position instead of text.
    pub(super) is_position_capture: bool,
}

impl Span {
    /// Returns the text in the range.
    pub(super) fn text_in(self, text: &[u8]) -> &[u8] {
        text.get(self.start..self.end).unwrap_or_default()
    }
}

/// A match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PatternMatch {
    pub(super) whole: Span,
    /// Captured ranges. `None` for a capture that the pattern opens but doesn't close, an error only if it is
    /// used.
    pub(super) captures: Vec<Option<Span>>,
}

/// A pattern, as written in the script.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern<'a> {
    items: &'a [u8],
    is_anchored: bool,
    is_literal: bool,
}

impl<'a> Pattern<'a> {
    /// Creates a pattern. A leading `^` anchors it to the start of the text.
    pub(super) fn new(pattern: &'a [u8]) -> Self {
        match pattern.split_first() {
            Some((b'^', items)) => Self { items, is_anchored: true, is_literal: false },
            _ => Self { items: pattern, is_anchored: false, is_literal: false },
        }
    }

    /// Creates a pattern in which a leading `^` is an ordinary character.
    pub(super) fn unanchored(items: &'a [u8]) -> Self {
        Self { items, is_anchored: false, is_literal: false }
    }

    /// Creates a literal pattern.
    pub(super) fn literal(items: &'a [u8]) -> Self {
        Self { items, is_anchored: false, is_literal: true }
    }

    pub(super) fn is_anchored(&self) -> bool {
        self.is_anchored
    }

    /// Returns the first match at or after a position.
    pub(super) fn find(
        &self,
        text: &[u8],
        from: usize,
        budget: &Budget,
    ) -> mlua::Result<Option<PatternMatch>> {
        for at in from..=text.len() {
            if let Some(found) = self.match_at(text, at, budget)? {
                return Ok(Some(found));
            }
            if self.is_anchored {
                break;
            }
        }
        Ok(None)
    }

    /// Returns the match that starts at a position.
    pub(super) fn match_at(
        &self,
        text: &[u8],
        at: usize,
        budget: &Budget,
    ) -> mlua::Result<Option<PatternMatch>> {
        budget.take_steps(1)?;
        if self.is_literal {
            let rest = text.get(at..).unwrap_or_default();
            let whole = Span { start: at, end: at + self.items.len(), is_position_capture: false };
            return Ok(rest.starts_with(self.items).then(|| PatternMatch { whole, captures: Vec::new() }));
        }
        let mut search =
            Matcher { text, items: self.items, captures: Vec::new(), count: 0, depth: 0, budget };
        let Some(end) = search.match_rest(at, 0)? else { return Ok(None) };
        let captures = search.captures.iter().take(search.count).map(|capture| capture.span()).collect();
        Ok(Some(PatternMatch { whole: Span { start: at, end, is_position_capture: false }, captures }))
    }
}

/// Capture of a match in progress.
#[derive(Clone, Copy)]
struct Capture {
    start: usize,
    end: Option<usize>,
    is_position: bool,
}

impl Capture {
    fn span(self) -> Option<Span> {
        self.end.map(|end| Span { start: self.start, end, is_position_capture: self.is_position })
    }
}

struct Matcher<'a> {
    text: &'a [u8],
    items: &'a [u8],
    /// Captures. The first `count` belong to the current attempt.
    captures: Vec<Capture>,
    count: usize,
    depth: usize,
    budget: &'a Budget,
}

type MatchResult = mlua::Result<Option<usize>>;

impl Matcher<'_> {
    /// Matches the rest of the pattern from a position, and returns the end of the match.
    fn match_rest(&mut self, at: usize, item: usize) -> MatchResult {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(malformed_pattern("pattern too complex"));
        }
        let end = self.match_items(at, item);
        self.depth -= 1;
        end
    }

    fn match_items(&mut self, mut at: usize, mut item: usize) -> MatchResult {
        loop {
            self.budget.take_steps(1)?;
            match (self.item(item), self.item(item + 1)) {
                (None, _) => return Ok(Some(at)),
                (Some(b'('), Some(b')')) => return self.open_capture(at, item + 2, true),
                (Some(b'('), _) => return self.open_capture(at, item + 1, false),
                (Some(b')'), _) => return self.close_capture(at, item + 1),
                (Some(b'$'), None) => return Ok((at == self.text.len()).then_some(at)),
                (Some(b'%'), Some(b'b')) => match self.match_balanced(at, item + 2)? {
                    None => return Ok(None),
                    Some(end) => (at, item) = (end, item + 4),
                },
                (Some(b'%'), Some(b'f')) => match self.match_frontier(at, item + 2)? {
                    None => return Ok(None),
                    Some(next) => item = next,
                },
                (Some(b'%'), Some(digit)) if digit.is_ascii_digit() => {
                    match self.match_back_reference(at, digit)? {
                        None => return Ok(None),
                        Some(end) => (at, item) = (end, item + 2),
                    }
                }
                _ => {
                    let after = self.class_end(item)?;
                    match self.item(after) {
                        Some(b'?') => {
                            if self.matches_item(at, item, after)
                                && let Some(end) = self.match_rest(at + 1, after + 1)?
                            {
                                return Ok(Some(end));
                            }
                            item = after + 1;
                        }
                        Some(b'*') => return self.match_greedy(at, 0, item, after),
                        Some(b'+') => return self.match_greedy(at, 1, item, after),
                        Some(b'-') => return self.match_lazy(at, item, after),
                        _ if self.matches_item(at, item, after) => (at, item) = (at + 1, after),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    fn item(&self, index: usize) -> Option<u8> {
        self.items.get(index).copied()
    }

    fn open_capture(&mut self, at: usize, item: usize, is_position: bool) -> MatchResult {
        if self.count >= CAPTURES_MAX {
            return Err(malformed_pattern("too many captures"));
        }
        self.captures.truncate(self.count);
        self.captures.push(Capture { start: at, end: is_position.then_some(at), is_position });
        self.count += 1;
        let end = self.match_rest(at, item)?;
        if end.is_none() {
            self.count -= 1;
        }
        Ok(end)
    }

    fn close_capture(&mut self, at: usize, item: usize) -> MatchResult {
        let open = self.captures.iter().take(self.count).rposition(|capture| capture.end.is_none());
        let Some(index) = open else { return Err(malformed_pattern("invalid pattern capture")) };
        self.set_end(index, Some(at));
        let end = self.match_rest(at, item)?;
        if end.is_none() {
            self.set_end(index, None);
        }
        Ok(end)
    }

    fn set_end(&mut self, index: usize, end: Option<usize>) {
        if let Some(capture) = self.captures.get_mut(index) {
            capture.end = end;
        }
    }

    /// Matches `%bxy`: from an x to the matching y.
    fn match_balanced(&self, at: usize, item: usize) -> MatchResult {
        let (Some(opening), Some(closing)) = (self.item(item), self.item(item + 1)) else {
            return Err(malformed_pattern("unbalanced pattern"));
        };
        if self.text.get(at) != Some(&opening) {
            return Ok(None);
        }
        let mut depth = 1_usize;
        for (index, byte) in self.text.iter().enumerate().skip(at + 1) {
            self.budget.take_steps(1)?;
            if *byte == closing {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(index + 1));
                }
            } else if *byte == opening {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// Matches `%f[set]`: a transition from outside the set into it. Returns the next item.
    fn match_frontier(&self, at: usize, item: usize) -> MatchResult {
        if self.item(item) != Some(b'[') {
            return Err(malformed_pattern("missing '[' after '%f' in pattern"));
        }
        let after = self.class_end(item)?;
        let before = at.checked_sub(1).and_then(|at| self.text.get(at)).copied().unwrap_or(0);
        let here = self.text.get(at).copied().unwrap_or(0);
        Ok((!self.is_in_set(before, item, after) && self.is_in_set(here, item, after)).then_some(after))
    }

    /// Matches `%1`: the text of an earlier capture.
    fn match_back_reference(&self, at: usize, digit: u8) -> MatchResult {
        let index = usize::from(digit.wrapping_sub(b'1'));
        let span = self.captures.iter().take(self.count).nth(index).and_then(|capture| capture.span());
        let Some(span) = span else { return Err(malformed_pattern("invalid capture index")) };
        if span.is_position_capture {
            return Ok(None);
        }
        let wanted = span.text_in(self.text);
        self.budget.take_steps_for_bytes(wanted.len())?;
        let rest = self.text.get(at..).unwrap_or_default();
        Ok(rest.starts_with(wanted).then(|| at + wanted.len()))
    }

    /// Matches as many repetitions as possible, then fewer.
    fn match_greedy(&mut self, at: usize, least: usize, item: usize, after: usize) -> MatchResult {
        let mut count = 0;
        while self.matches_item(at + count, item, after) {
            self.budget.take_steps(1)?;
            count += 1;
        }
        while count >= least {
            if let Some(end) = self.match_rest(at + count, after + 1)? {
                return Ok(Some(end));
            }
            if count == 0 {
                break;
            }
            count -= 1;
        }
        Ok(None)
    }

    /// Matches zero repetitions, then more.
    fn match_lazy(&mut self, mut at: usize, item: usize, after: usize) -> MatchResult {
        loop {
            if let Some(end) = self.match_rest(at, after + 1)? {
                return Ok(Some(end));
            }
            if !self.matches_item(at, item, after) {
                return Ok(None);
            }
            at += 1;
        }
    }

    /// Returns the end of the single item that starts at a position.
    fn class_end(&self, item: usize) -> mlua::Result<usize> {
        match self.item(item) {
            Some(b'%') if self.item(item + 1).is_none() => {
                Err(malformed_pattern("malformed pattern (ends with '%')"))
            }
            Some(b'%') => Ok(item + 2),
            Some(b'[') => {
                let mut index = item + 1 + usize::from(self.item(item + 1) == Some(b'^'));
                // A bracket at the start is a member of the set.
                let mut is_first = true;
                loop {
                    match self.item(index) {
                        None => return Err(malformed_pattern("malformed pattern (missing ']')")),
                        Some(b']') if !is_first => return Ok(index + 1),
                        Some(b'%') => index += 2,
                        Some(_) => index += 1,
                    }
                    is_first = false;
                }
            }
            _ => Ok(item + 1),
        }
    }

    /// Returns true if the byte at a position matches the single item.
    fn matches_item(&self, at: usize, item: usize, after: usize) -> bool {
        let Some(byte) = self.text.get(at).copied() else { return false };
        match (self.item(item), self.item(item + 1)) {
            (Some(b'.'), _) => true,
            (Some(b'%'), Some(class)) => is_in_class(byte, class),
            (Some(b'['), _) => self.is_in_set(byte, item, after),
            (wanted, _) => wanted == Some(byte),
        }
    }

    fn is_in_set(&self, byte: u8, item: usize, after: usize) -> bool {
        let negated = self.item(item + 1) == Some(b'^');
        let mut index = item + 1 + usize::from(negated);
        let last = after.saturating_sub(1);
        while index < last {
            let (here, next) = (self.item(index), self.item(index + 1));
            match (here, next, self.item(index + 2)) {
                (Some(b'%'), Some(class), _) => {
                    if is_in_class(byte, class) {
                        return !negated;
                    }
                    index += 2;
                }
                (Some(low), Some(b'-'), Some(high)) if index + 2 < last => {
                    if (low..=high).contains(&byte) {
                        return !negated;
                    }
                    index += 3;
                }
                _ => {
                    if here == Some(byte) {
                        return !negated;
                    }
                    index += 1;
                }
            }
        }
        negated
    }
}

/// Returns true if the byte is in a class such as `%a`, `%D` or `%.`.
fn is_in_class(byte: u8, class: u8) -> bool {
    let is = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is != class.is_ascii_uppercase()
}

fn malformed_pattern(what: &str) -> mlua::Error {
    mlua::Error::runtime(what)
}
