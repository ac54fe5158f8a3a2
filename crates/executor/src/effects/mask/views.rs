//! A text as those read it who take an encoding off: each byte with the place it comes from. A value is searched for in
//! what a text says, and not in every form in which it could be written.
//!
//! ```text
//! text ─▶ without white space ─▶ without percent signs, backslashes ─▶ without white space ─▶ out of base64
//!           (a sign may be broken over lines)                           (an encoded line break)
//! ```
//!
//! Each step is left out as well. Every reading costs as much as the text is long, and there are at most so many.

use std::ops::Range;

/// Shorter runs of letters and digits hold no value worth looking for.
const PACKED_CHARS_MIN: usize = 6;

/// A reading of a text.
#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub bytes: Vec<u8>,
    /// Where in the text each byte stands.
    places: Vec<Range<usize>>,
    /// Lines were put together, so neighbours need not have been any.
    pub joined: bool,
}

/// Shows all readings of a text that differ from each other, one by one: each is as large as several texts.
pub(super) fn each_view(text: &str, show: &mut dyn FnMut(&View)) {
    let plain = View::plain(text);
    if let Some(joined) = plain.squeezed() {
        decoded(&joined, show);
    }
    decoded(&plain, show);
}

/// A reading, and those without percent signs and backslashes.
fn decoded(view: &View, show: &mut dyn FnMut(&View)) {
    unbroken(view, true, show);
    if view.bytes.contains(&b'%') {
        unbroken(&view.read(percent), true, show);
        // As forms are encoded. Base64 has a plus of its own.
        let form = |rest: &[u8]| match rest.first() {
            Some(b'+') => Some((1, vec![b' '])),
            _ => percent(rest),
        };
        unbroken(&view.read(form), false, show);
    }
    if view.bytes.contains(&b'\\') {
        // A quoted text may be quoted once more.
        let once = view.read(escape);
        unbroken(&once.read(escape), true, show);
        unbroken(&once, true, show);
    }
}

/// A reading, and that without line breaks; and what is in base64 in both.
fn unbroken(view: &View, may_be_packed: bool, show: &mut dyn FnMut(&View)) {
    for view in [Some(view), view.squeezed().as_ref()].into_iter().flatten() {
        show(view);
        // A value stands anywhere in what was packed, and that anywhere among other letters.
        for skipped in (0..4).filter(|_| may_be_packed) {
            let unpacked = view.unpacked(skipped);
            show(&unpacked);
            if unpacked.bytes.contains(&b'\\') {
                show(&unpacked.read(escape));
            }
        }
    }
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
            let (length, means) = match sign(rest) {
                Some((length, means)) => (length.max(1), Some(means)),
                None => (1, None),
            };
            let end = at.saturating_add(length);
            if let Some(place) = self.place(at..end) {
                let means = means.as_deref().unwrap_or(std::slice::from_ref(byte));
                read.places.extend(std::iter::repeat_n(place, means.len()));
                read.bytes.extend_from_slice(means);
            }
            at = end;
        }
        read
    }

    /// Without white space, where there are several lines: whoever breaks and indents lines may do so anywhere.
    fn squeezed(&self) -> Option<Self> {
        let blank = |rest: &[u8]| rest.first()?.is_ascii_whitespace().then(|| (1, Vec::new()));
        self.bytes.contains(&b'\n').then(|| Self { joined: true, ..self.read(blank) })
    }

    /// What the runs of base64 in it hold, in either alphabet, when the first letters are `skipped`.
    fn unpacked(&self, skipped: usize) -> Self {
        let mut unpacked = Self { joined: self.joined, ..Self::default() };
        let mut at = 0;
        while at < self.bytes.len() {
            let rest = self.bytes.get(at..).unwrap_or_default();
            let length = rest.iter().take_while(|byte| sextet(**byte).is_some()).count();
            let end = at.saturating_add(length);
            if length >= PACKED_CHARS_MIN {
                self.unpack(at.saturating_add(skipped)..end, &mut unpacked);
            }
            at = end.saturating_add(1);
        }
        unpacked
    }

    /// Unpacks one run, and ends it with a byte that belongs to no value.
    fn unpack(&self, run: Range<usize>, into: &mut Self) {
        let chars = self.bytes.get(run.clone()).unwrap_or_default();
        let (mut held, mut bits) = (0_u32, 0_u32);
        for (at, value) in (run.start..).zip(chars.iter().filter_map(|byte| sextet(*byte))) {
            (held, bits) = ((held << 6) | u32::from(value), bits.saturating_add(6));
            let Some(left) = bits.checked_sub(8) else { continue };
            let byte = u8::try_from((held >> left) & 0xff).unwrap_or_default();
            // Its first bits are in the letter before.
            into.take(byte, self.place(at.saturating_sub(1)..at.saturating_add(1)));
            (held, bits) = (held & ((1 << left) - 1), left);
        }
        into.take(0, run.end.checked_sub(1).and_then(|last| self.place(last..run.end)));
    }

    fn take(&mut self, byte: u8, place: Option<Range<usize>>) {
        if let Some(place) = place {
            self.bytes.push(byte);
            self.places.push(place);
        }
    }
}

/// What a letter of base64 stands for.
fn sextet(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
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
