//! Patterns of Lua 5.1, with every step counted.

use super::budget::Budget;

/// Captures of one pattern.
const CAPTURES_MAX: usize = 32;
/// Matches inside each other: each optional item and each capture is one. Keeps our own stack small.
const DEPTH_MAX: usize = 200;

/// A stretch of the text, or only a position in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    /// `()` captures where it is and no text.
    pub(super) is_position: bool,
}

impl Span {
    /// The text it covers.
    pub(super) fn of(self, text: &[u8]) -> &[u8] {
        text.get(self.start..self.end).unwrap_or_default()
    }
}

/// A match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) whole: Span,
    /// Nothing for one that the pattern opens and does not close: an error only where it is used.
    pub(super) captures: Vec<Option<Span>>,
}

/// A pattern, as written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern<'a> {
    items: &'a [u8],
    anchored: bool,
    plain: bool,
}

impl<'a> Pattern<'a> {
    /// A pattern that `^` may bind to the beginning.
    pub(super) fn new(pattern: &'a [u8]) -> Self {
        match pattern.split_first() {
            Some((b'^', items)) => Self { items, anchored: true, plain: false },
            _ => Self { items: pattern, anchored: false, plain: false },
        }
    }

    /// A pattern in which a leading `^` is a character like any other.
    pub(super) fn unanchored(items: &'a [u8]) -> Self {
        Self { items, anchored: false, plain: false }
    }

    /// A text to be found as it is.
    pub(super) fn plain(items: &'a [u8]) -> Self {
        Self { items, anchored: false, plain: true }
    }

    pub(super) fn is_anchored(&self) -> bool {
        self.anchored
    }

    /// The first match at or after a place.
    pub(super) fn find(&self, text: &[u8], from: usize, budget: &Budget) -> mlua::Result<Option<Found>> {
        for at in from..=text.len() {
            if let Some(found) = self.at(text, at, budget)? {
                return Ok(Some(found));
            }
            if self.anchored {
                break;
            }
        }
        Ok(None)
    }

    /// The match that begins at a place.
    pub(super) fn at(&self, text: &[u8], at: usize, budget: &Budget) -> mlua::Result<Option<Found>> {
        budget.charge(1)?;
        if self.plain {
            let rest = text.get(at..).unwrap_or_default();
            let whole = Span { start: at, end: at + self.items.len(), is_position: false };
            return Ok(rest.starts_with(self.items).then(|| Found { whole, captures: Vec::new() }));
        }
        let mut search = Search { text, items: self.items, captures: Vec::new(), count: 0, depth: 0, budget };
        let Some(end) = search.run(at, 0)? else { return Ok(None) };
        let captures = search.captures.iter().take(search.count).map(|capture| capture.closed()).collect();
        Ok(Some(Found { whole: Span { start: at, end, is_position: false }, captures }))
    }
}

/// A capture of a match in the making.
#[derive(Clone, Copy)]
struct Capture {
    start: usize,
    end: Option<usize>,
    is_position: bool,
}

impl Capture {
    fn closed(self) -> Option<Span> {
        self.end.map(|end| Span { start: self.start, end, is_position: self.is_position })
    }
}

struct Search<'a> {
    text: &'a [u8],
    items: &'a [u8],
    /// The first `count` of them belong to the way that is tried now.
    captures: Vec<Capture>,
    count: usize,
    depth: usize,
    budget: &'a Budget,
}

type Step = mlua::Result<Option<usize>>;

impl Search<'_> {
    /// Matches the rest of the pattern from a place; the answer is where the match ends.
    fn run(&mut self, at: usize, item: usize) -> Step {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(malformed("pattern too complex"));
        }
        let end = self.rest(at, item);
        self.depth -= 1;
        end
    }

    fn rest(&mut self, mut at: usize, mut item: usize) -> Step {
        loop {
            self.budget.charge(1)?;
            match (self.item(item), self.item(item + 1)) {
                (None, _) => return Ok(Some(at)),
                (Some(b'('), Some(b')')) => return self.open(at, item + 2, true),
                (Some(b'('), _) => return self.open(at, item + 1, false),
                (Some(b')'), _) => return self.close(at, item + 1),
                (Some(b'$'), None) => return Ok((at == self.text.len()).then_some(at)),
                (Some(b'%'), Some(b'b')) => match self.balanced(at, item + 2)? {
                    None => return Ok(None),
                    Some(end) => (at, item) = (end, item + 4),
                },
                (Some(b'%'), Some(b'f')) => match self.frontier(at, item + 2)? {
                    None => return Ok(None),
                    Some(next) => item = next,
                },
                (Some(b'%'), Some(digit)) if digit.is_ascii_digit() => match self.again(at, digit)? {
                    None => return Ok(None),
                    Some(end) => (at, item) = (end, item + 2),
                },
                _ => {
                    let after = self.class_end(item)?;
                    match self.item(after) {
                        Some(b'?') => {
                            if self.fits(at, item, after)
                                && let Some(end) = self.run(at + 1, after + 1)?
                            {
                                return Ok(Some(end));
                            }
                            item = after + 1;
                        }
                        Some(b'*') => return self.greedy(at, 0, item, after),
                        Some(b'+') => return self.greedy(at, 1, item, after),
                        Some(b'-') => return self.lazy(at, item, after),
                        _ if self.fits(at, item, after) => (at, item) = (at + 1, after),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    fn item(&self, index: usize) -> Option<u8> {
        self.items.get(index).copied()
    }

    fn open(&mut self, at: usize, item: usize, is_position: bool) -> Step {
        if self.count >= CAPTURES_MAX {
            return Err(malformed("too many captures"));
        }
        self.captures.truncate(self.count);
        self.captures.push(Capture { start: at, end: is_position.then_some(at), is_position });
        self.count += 1;
        let end = self.run(at, item)?;
        if end.is_none() {
            self.count -= 1;
        }
        Ok(end)
    }

    fn close(&mut self, at: usize, item: usize) -> Step {
        let open = self.captures.iter().take(self.count).rposition(|capture| capture.end.is_none());
        let Some(index) = open else { return Err(malformed("invalid pattern capture")) };
        self.set_end(index, Some(at));
        let end = self.run(at, item)?;
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

    /// `%bxy`: from an x to the y that closes it.
    fn balanced(&self, at: usize, item: usize) -> Step {
        let (Some(opening), Some(closing)) = (self.item(item), self.item(item + 1)) else {
            return Err(malformed("unbalanced pattern"));
        };
        if self.text.get(at) != Some(&opening) {
            return Ok(None);
        }
        let mut depth = 1_usize;
        for (index, byte) in self.text.iter().enumerate().skip(at + 1) {
            self.budget.charge(1)?;
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

    /// `%f[set]`: between what is not in the set and what is. The answer is the item after it.
    fn frontier(&self, at: usize, item: usize) -> Step {
        if self.item(item) != Some(b'[') {
            return Err(malformed("missing '[' after '%f' in pattern"));
        }
        let after = self.class_end(item)?;
        let before = at.checked_sub(1).and_then(|at| self.text.get(at)).copied().unwrap_or(0);
        let here = self.text.get(at).copied().unwrap_or(0);
        Ok((!self.in_set(before, item, after) && self.in_set(here, item, after)).then_some(after))
    }

    /// `%1`: the text of an earlier capture.
    fn again(&self, at: usize, digit: u8) -> Step {
        let index = usize::from(digit.wrapping_sub(b'1'));
        let span = self.captures.iter().take(self.count).nth(index).and_then(|capture| capture.closed());
        let Some(span) = span else { return Err(malformed("invalid capture index")) };
        if span.is_position {
            return Ok(None);
        }
        let wanted = span.of(self.text);
        self.budget.charge_bytes(wanted.len())?;
        let rest = self.text.get(at..).unwrap_or_default();
        Ok(rest.starts_with(wanted).then(|| at + wanted.len()))
    }

    /// As many as there are, then fewer and fewer.
    fn greedy(&mut self, at: usize, least: usize, item: usize, after: usize) -> Step {
        let mut count = 0;
        while self.fits(at + count, item, after) {
            self.budget.charge(1)?;
            count += 1;
        }
        while count >= least {
            if let Some(end) = self.run(at + count, after + 1)? {
                return Ok(Some(end));
            }
            if count == 0 {
                break;
            }
            count -= 1;
        }
        Ok(None)
    }

    /// None, then more and more.
    fn lazy(&mut self, mut at: usize, item: usize, after: usize) -> Step {
        loop {
            if let Some(end) = self.run(at, after + 1)? {
                return Ok(Some(end));
            }
            if !self.fits(at, item, after) {
                return Ok(None);
            }
            at += 1;
        }
    }

    /// Where the single item that begins here ends.
    fn class_end(&self, item: usize) -> mlua::Result<usize> {
        match self.item(item) {
            Some(b'%') if self.item(item + 1).is_none() => {
                Err(malformed("malformed pattern (ends with '%')"))
            }
            Some(b'%') => Ok(item + 2),
            Some(b'[') => {
                let mut index = item + 1 + usize::from(self.item(item + 1) == Some(b'^'));
                // A bracket right at the beginning is a member of the set.
                let mut is_first = true;
                loop {
                    match self.item(index) {
                        None => return Err(malformed("malformed pattern (missing ']')")),
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

    /// Whether the byte at a place is one the single item means.
    fn fits(&self, at: usize, item: usize, after: usize) -> bool {
        let Some(byte) = self.text.get(at).copied() else { return false };
        match (self.item(item), self.item(item + 1)) {
            (Some(b'.'), _) => true,
            (Some(b'%'), Some(class)) => in_class(byte, class),
            (Some(b'['), _) => self.in_set(byte, item, after),
            (wanted, _) => wanted == Some(byte),
        }
    }

    fn in_set(&self, byte: u8, item: usize, after: usize) -> bool {
        let negated = self.item(item + 1) == Some(b'^');
        let mut index = item + 1 + usize::from(negated);
        let last = after.saturating_sub(1);
        while index < last {
            let (here, next) = (self.item(index), self.item(index + 1));
            match (here, next, self.item(index + 2)) {
                (Some(b'%'), Some(class), _) => {
                    if in_class(byte, class) {
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

/// `%a`, `%D`, `%.` and so on.
fn in_class(byte: u8, class: u8) -> bool {
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

fn malformed(what: &str) -> mlua::Error {
    mlua::Error::runtime(what)
}
