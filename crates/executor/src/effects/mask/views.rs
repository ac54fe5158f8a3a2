//! Decoded views of a text. Each byte of a view remembers its position in the original. The mask can
//! therefore search the decoded text instead of searching for every possible encoding.
//!
//! ```text
//! text ─▶ without whitespace ─▶ without percent signs, backslashes ─▶ without whitespace ─▶ base64 decoded
//!           (escapes may span lines)                                    (encoded line breaks)
//! ```
//!
//! Each decoding step is optional. The size of each view is proportional to that of the text, and the number
//! of views is bounded.

use std::ops::Range;

/// Minimum length of a base64 run worth decoding.
const BASE64_CHARS_MIN: usize = 6;

/// A decoded view of a text.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub bytes: Vec<u8>,
    /// Source range of each byte in the original text.
    origins: Vec<Range<usize>>,
    /// True if lines were joined, so that adjacent bytes of the view may not be adjacent in the original.
    pub has_joined_lines: bool,
}

/// Calls `show` with each distinct view of a text. Only one view exists at a time, because each takes as much
/// memory as several copies of the text.
pub(super) fn for_each_view(text: &str, show: &mut dyn FnMut(&View)) {
    let plain = View::from_text(text);
    if let Some(joined) = plain.without_whitespace() {
        show_decoded(&joined, show);
    }
    show_decoded(&plain, show);
}

/// Calls `show` with a view, and with its percent and backslash escapes decoded.
fn show_decoded(view: &View, show: &mut dyn FnMut(&View)) {
    show_joined(view, true, show);
    if view.bytes.contains(&b'%') {
        show_joined(&view.decode(decode_percent), true, show);
        // In form encoding, a plus sign is a space. Don't decode base64 afterwards: it uses the plus sign
        // too.
        let form = |rest: &[u8]| match rest.first() {
            Some(b'+') => Some((1, vec![b' '])),
            _ => decode_percent(rest),
        };
        show_joined(&view.decode(form), false, show);
    }
    if view.bytes.contains(&b'\\') {
        // Decode twice: quoted text may have been quoted again.
        let once = view.decode(decode_escape);
        show_joined(&once.decode(decode_escape), true, show);
        show_joined(&once, true, show);
    }
}

/// Calls `show` with a view, with and without whitespace, and with the decoded base64 content of both.
fn show_joined(view: &View, may_be_packed: bool, show: &mut dyn FnMut(&View)) {
    for view in [Some(view), view.without_whitespace().as_ref()].into_iter().flatten() {
        show(view);
        // A value can start at any offset of the encoded text, and the encoded text anywhere among other
        // letters.
        for skipped in (0..4).filter(|_| may_be_packed) {
            let unpacked = view.decode_base64(skipped);
            show(&unpacked);
            if unpacked.bytes.contains(&b'\\') {
                show(&unpacked.decode(decode_escape));
            }
        }
    }
}

impl View {
    fn from_text(text: &str) -> Self {
        let origins = (0..text.len()).map(|at| at..at.saturating_add(1)).collect();
        Self { bytes: text.as_bytes().to_vec(), origins, has_joined_lines: false }
    }

    /// Returns the source range of the view's `bytes` in the original text.
    pub fn original_range(&self, bytes: Range<usize>) -> Option<Range<usize>> {
        let last = bytes.end.checked_sub(1)?;
        Some(self.origins.get(bytes.start)?.start..self.origins.get(last)?.end)
    }

    /// Decodes a view character by character. For an encoded character, `sign` returns its length and decoded
    /// bytes.
    fn decode(&self, sign: impl Fn(&[u8]) -> Option<(usize, Vec<u8>)>) -> Self {
        let mut read = Self { has_joined_lines: self.has_joined_lines, ..Self::default() };
        let mut at = 0;
        while let Some(byte) = self.bytes.get(at) {
            let rest = self.bytes.get(at..).unwrap_or_default();
            let (length, means) = match sign(rest) {
                Some((length, means)) => (length.max(1), Some(means)),
                None => (1, None),
            };
            let end = at.saturating_add(length);
            if let Some(place) = self.original_range(at..end) {
                let means = means.as_deref().unwrap_or(std::slice::from_ref(byte));
                read.origins.extend(std::iter::repeat_n(place, means.len()));
                read.bytes.extend_from_slice(means);
            }
            at = end;
        }
        read
    }

    /// Returns the view without whitespace if it has several lines: programs can break and indent lines
    /// anywhere.
    fn without_whitespace(&self) -> Option<Self> {
        let blank = |rest: &[u8]| rest.first()?.is_ascii_whitespace().then(|| (1, Vec::new()));
        self.bytes.contains(&b'\n').then(|| Self { has_joined_lines: true, ..self.decode(blank) })
    }

    /// Decodes all base64 runs of either alphabet, skipping the first `skipped` characters of each run.
    fn decode_base64(&self, skipped: usize) -> Self {
        let mut unpacked = Self { has_joined_lines: self.has_joined_lines, ..Self::default() };
        let mut at = 0;
        while at < self.bytes.len() {
            let rest = self.bytes.get(at..).unwrap_or_default();
            let length = rest.iter().take_while(|byte| decode_sextet(**byte).is_some()).count();
            let end = at.saturating_add(length);
            if length >= BASE64_CHARS_MIN {
                self.decode_base64_run(at.saturating_add(skipped)..end, &mut unpacked);
            }
            at = end.saturating_add(1);
        }
        unpacked
    }

    /// Decodes one run, followed by a byte that doesn't occur in any value.
    fn decode_base64_run(&self, run: Range<usize>, into: &mut Self) {
        let chars = self.bytes.get(run.clone()).unwrap_or_default();
        let (mut held, mut bits) = (0_u32, 0_u32);
        for (at, value) in (run.start..).zip(chars.iter().filter_map(|byte| decode_sextet(*byte))) {
            (held, bits) = ((held << 6) | u32::from(value), bits.saturating_add(6));
            let Some(left) = bits.checked_sub(8) else { continue };
            let byte = u8::try_from((held >> left) & 0xff).unwrap_or_default();
            // The first bits of the byte come from the preceding character.
            into.push(byte, self.original_range(at.saturating_sub(1)..at.saturating_add(1)));
            (held, bits) = (held & ((1 << left) - 1), left);
        }
        into.push(0, run.end.checked_sub(1).and_then(|last| self.original_range(last..run.end)));
    }

    fn push(&mut self, byte: u8, place: Option<Range<usize>>) {
        if let Some(place) = place {
            self.bytes.push(byte);
            self.origins.push(place);
        }
    }
}

fn decode_sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

fn parse_hex(digits: &[u8]) -> Option<u32> {
    let digits = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_hexdigit))?;
    u32::from_str_radix(digits, 16).ok()
}

fn byte_from_code(code: u32) -> Option<Vec<u8>> {
    u8::try_from(code).ok().map(|byte| vec![byte])
}

fn character_from_code(code: u32) -> Option<Vec<u8>> {
    char::from_u32(code).map(|character| character.to_string().into_bytes())
}

/// Decodes a percent escape, such as `%20`.
fn decode_percent(rest: &[u8]) -> Option<(usize, Vec<u8>)> {
    if rest.first() != Some(&b'%') {
        return None;
    }
    Some((3, byte_from_code(parse_hex(rest.get(1..3)?)?)?))
}

/// Decodes a backslash escape of JSON or Go.
fn decode_escape(rest: &[u8]) -> Option<(usize, Vec<u8>)> {
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
        b'x' => Some((4, byte_from_code(parse_hex(rest.get(2..4)?)?)?)),
        b'u' => {
            decode_surrogates(rest).or_else(|| Some((6, character_from_code(parse_hex(rest.get(2..6)?)?)?)))
        }
        b'U' => Some((10, character_from_code(parse_hex(rest.get(2..10)?)?)?)),
        b'0'..=b'3' => {
            let digits = std::str::from_utf8(rest.get(1..4)?).ok()?;
            Some((4, byte_from_code(u32::from_str_radix(digits, 8).ok()?)?))
        }
        _ => None,
    }
}

/// Decodes a character that JSON writes as a surrogate pair.
fn decode_surrogates(rest: &[u8]) -> Option<(usize, Vec<u8>)> {
    let (high, low) = (parse_hex(rest.get(2..6)?)?, parse_hex(rest.get(8..12)?)?);
    let is_pair =
        rest.get(6..8) == Some(b"\\u") && (0xd800..0xdc00).contains(&high) && (0xdc00..0xe000).contains(&low);
    let code =
        0x10000_u32.checked_add((high.checked_sub(0xd800)?) << 10)?.checked_add(low.checked_sub(0xdc00)?)?;
    if is_pair { Some((12, character_from_code(code)?)) } else { None }
}
