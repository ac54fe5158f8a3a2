//! A text as those read it who take an encoding off: each byte with the place it comes from. A value is searched for in
//! what a text says, and not in every form in which it could be written.

use std::ops::Range;

/// A reading of a text.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub bytes: Vec<u8>,
    /// Where in the text each byte stands.
    places: Vec<Range<usize>>,
    /// Lines were put together, so neighbours need not have been any.
    pub joined: bool,
}

/// How lines are put together.
const SEAMS: [&[u8]; 2] = [b"", b" "];

/// All readings of a text that differ from each other.
pub(super) fn views(text: &str) -> Vec<View> {
    let plain = View::plain(text);
    let mut all = vec![plain.clone()];
    if text.contains('%') {
        all.push(plain.read(percent));
        // As forms are encoded.
        all.push(
            plain
                .read(|rest| if rest.first() == Some(&b'+') { Some((1, vec![b' '])) } else { percent(rest) }),
        );
    }
    if text.contains('\\') {
        // A quoted text may be quoted once more.
        let once = plain.read(escape);
        all.extend([once.read(escape), once]);
    }
    let broken: Vec<View> = all.iter().filter(|view| view.bytes.contains(&b'\n')).cloned().collect();
    for view in broken {
        all.extend(SEAMS.map(|seam| View { joined: true, ..view.read(|rest| line_break(rest, seam)) }));
    }
    all
}

impl View {
    fn plain(text: &str) -> Self {
        let places = (0..text.len()).map(|at| at..at.saturating_add(1)).collect();
        Self { bytes: text.as_bytes().to_vec(), places, joined: false }
    }

    /// Where in the text some of the bytes stand.
    pub fn place(&self, bytes: Range<usize>) -> Option<Range<usize>> {
        let last = bytes.end.checked_sub(1)?;
        Some(self.places.get(bytes.start)?.start..self.places.get(last)?.end)
    }

    /// Reads one sign after the other: how many bytes a sign has, and what it stands for.
    fn read(&self, sign: impl Fn(&[u8]) -> Option<(usize, Vec<u8>)>) -> Self {
        let mut read = Self { joined: self.joined, ..Self::default() };
        let mut at = 0;
        while let Some(byte) = self.bytes.get(at) {
            let rest = self.bytes.get(at..).unwrap_or_default();
            let (length, means) = sign(rest).unwrap_or_else(|| (1, vec![*byte]));
            let end = at.saturating_add(length.max(1));
            if let Some(place) = self.place(at..end) {
                read.places.extend(std::iter::repeat_n(place, means.len()));
                read.bytes.extend(means);
            }
            at = end;
        }
        read
    }
}

fn hex(digits: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit))?;
    u32::from_str_radix(digits, 16).ok()
}

fn byte(code: u32) -> Option<Vec<u8>> {
    u8::try_from(code).ok().map(|byte| vec![byte])
}

fn character(code: u32) -> Option<Vec<u8>> {
    char::from_u32(code).map(|character| character.to_string().into_bytes())
}

/// `%20`
fn percent(rest: &[u8]) -> Option<(usize, Vec<u8>)> {
    if rest.first() != Some(&b'%') {
        return None;
    }
    Some((3, byte(hex(rest.get(1..3)?)?)?))
}

/// What JSON and Go write behind a backslash.
fn escape(rest: &[u8]) -> Option<(usize, Vec<u8>)> {
    if rest.first() != Some(&b'\\') {
        return None;
    }
    let simple = |byte: u8| Some((2, vec![byte]));
    match rest.get(1)? {
        sign @ (b'"' | b'\'' | b'\\' | b'/') => simple(*sign),
        b'n' => simple(b'\n'),
        b'r' => simple(b'\r'),
        b't' => simple(b'\t'),
        b'a' => simple(7),
        b'b' => simple(8),
        b'f' => simple(12),
        b'v' => simple(11),
        b'x' => Some((4, byte(hex(rest.get(2..4)?)?)?)),
        b'u' => surrogates(rest).or_else(|| Some((6, character(hex(rest.get(2..6)?)?)?))),
        b'U' => Some((10, character(hex(rest.get(2..10)?)?)?)),
        b'0'..=b'3' => {
            let digits = std::str::from_utf8(rest.get(1..4)?).ok()?;
            Some((4, byte(u32::from_str_radix(digits, 8).ok()?)?))
        }
        _ => None,
    }
}

/// A character that JSON writes as two.
fn surrogates(rest: &[u8]) -> Option<(usize, Vec<u8>)> {
    let (high, low) = (hex(rest.get(2..6)?)?, hex(rest.get(8..12)?)?);
    let is_pair =
        rest.get(6..8) == Some(b"\\u") && (0xd800..0xdc00).contains(&high) && (0xdc00..0xe000).contains(&low);
    let code =
        0x10000_u32.checked_add((high.checked_sub(0xd800)?) << 10)?.checked_add(low.checked_sub(0xdc00)?)?;
    if is_pair { Some((12, character(code)?)) } else { None }
}

/// A line break with the spaces around it.
fn line_break(rest: &[u8], seam: &[u8]) -> Option<(usize, Vec<u8>)> {
    let length = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let breaks = rest.iter().take(length).any(|byte| *byte == b'\n');
    breaks.then(|| (length, seam.to_vec()))
}
