//! Git LFS pointers: <https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md>.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// Maximum size of a pointer, in bytes.
const BYTES_MAX: usize = 1024;
/// The only supported version of the format.
const VERSION: &str = "https://git-lfs.github.com/spec/v1";

/// ID of an object, the SHA-256 digest of its content.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Oid([u8; 32]);

impl Oid {
    /// Parses 64 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != bytes.len().saturating_mul(2) {
            return None;
        }
        let digit = |sign: &u8| match sign {
            b'0'..=b'9' => sign.checked_sub(b'0'),
            b'a'..=b'f' => sign.checked_sub(b'a')?.checked_add(10),
            _ => None,
        };
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let [high, low] = pair else { return None };
            *byte = digit(high)?.checked_mul(16)?.checked_add(digit(low)?)?;
        }
        Some(Self(bytes))
    }

    /// Returns the ID of an object with this content.
    pub fn hash_content(content: &[u8]) -> Self {
        Self(Sha256::digest(content).into())
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Pointer to the object that holds a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    pub oid: Oid,
    /// Size of the content in bytes.
    pub size: u64,
    /// True if Git LFS extensions transformed the content.
    pub is_extended: bool,
}

impl Pointer {
    /// Parses a pointer. Returns `None` for any other file.
    pub fn parse(content: &[u8]) -> Option<Self> {
        if content.len() >= BYTES_MAX {
            return None;
        }
        let text = std::str::from_utf8(content).ok()?.strip_suffix('\n')?;
        let mut lines =
            text.split('\n').map(|line| line.split_once(' ').filter(|(key, value)| is_line(key, value)));
        if lines.next()?? != ("version", VERSION) {
            return None;
        }
        let (mut oid, mut size, mut is_extended, mut last) = (None, None, false, "");
        for line in lines {
            let (key, value) = line?;
            // Keys must be unique and sorted.
            if key <= last {
                return None;
            }
            last = key;
            match key {
                "oid" => oid = Some(Oid::parse(value.strip_prefix("sha256:")?)?),
                "size" => size = Some(number(value)?),
                _ if key.starts_with("ext-") => is_extended = true,
                _ => return None,
            }
        }
        Some(Self { oid: oid?, size: size?, is_extended })
    }
}

fn is_line(key: &str, value: &str) -> bool {
    let is_key = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
    !key.is_empty() && key.chars().all(is_key) && !value.is_empty() && !value.contains('\r')
}

/// Parses a number without a sign or leading zeros.
fn number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|sign| sign.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    is_plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use super::*;

    const OID: &str = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";

    fn pointer_text(size: &str) -> String {
        format!("version {VERSION}\noid sha256:{OID}\nsize {size}\n")
    }

    #[test]
    fn valid_pointers() {
        let oid = Oid::parse(OID).unwrap();
        assert_eq!(oid.to_string(), OID);
        for (size, number) in [("0", 0), ("12345", 12345), ("18446744073709551615", u64::MAX)] {
            let expected = Pointer { oid, size: number, is_extended: false };
            assert_eq!(Pointer::parse(pointer_text(size).as_bytes()), Some(expected), "{size}");
        }
        let extended =
            format!("version {VERSION}\next-0-foo sha256:{OID}\next-1-bar x\noid sha256:{OID}\nsize 1\n");
        assert_eq!(Pointer::parse(extended.as_bytes()), Some(Pointer { oid, size: 1, is_extended: true }));
        assert_eq!(
            Oid::hash_content(b"").to_string(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
    }

    #[test]
    fn non_pointers() {
        let (upper, good) = (OID.to_uppercase(), pointer_text("1"));
        let (cut, long) = (OID.get(1..).unwrap(), format!("{good}{}", "a".repeat(1024)));
        let with = |oid: &str, size: &str| format!("version {VERSION}\noid {oid}\nsize {size}\n");
        let whole = format!("sha256:{OID}");
        for text in [
            String::new(),
            "kind: ConfigMap\n".to_owned(),
            good.trim_end().to_owned(),
            format!("{good}\n"),
            format!("\n{good}"),
            format!("{good} "),
            format!("\u{feff}{good}"),
            good.replace('\n', "\r\n"),
            good.replace("version ", "version  "),
            good.replace("version ", "version\t"),
            good.replace("spec/v1", "spec/v2"),
            good.replace(VERSION, "https://hawser.github.com/spec/v1"),
            format!("{good}size 1\n"),
            format!("{good}zeal 1\n"),
            format!("version {VERSION}\nsize 1\noid sha256:{OID}\n"),
            format!("oid sha256:{OID}\nsize 1\nversion {VERSION}\n"),
            format!("version {VERSION}\noid sha256:{OID}\n"),
            format!("version {VERSION}\nsize 1\n"),
            format!("version {VERSION}\next-0-é x\noid sha256:{OID}\nsize 1\n"),
            with(&format!("sha256:{upper}"), "1"),
            with(&format!("sha256:{cut}"), "1"),
            with(&format!("sha256:{OID}0"), "1"),
            with(&format!("sha256:{cut}g"), "1"),
            with(&format!("sha1:{OID}"), "1"),
            with(OID, "1"),
            with(&whole, ""),
            with(&whole, "-1"),
            with(&whole, "+1"),
            with(&whole, "01"),
            with(&whole, "1 "),
            with(&whole, "1e3"),
            with(&whole, "18446744073709551616"),
            long,
        ] {
            assert_eq!(Pointer::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(Pointer::parse(&[good.as_bytes(), b"\xff"].concat()), None);
    }

    /// Pointers have a canonical form, so any modification results in a different pointer or an invalid one.
    #[test]
    fn every_changed_byte_invalidates_a_pointer() {
        let good = pointer_text("12345");
        for at in 0..good.len() {
            for byte in 0..=u8::MAX {
                let mut changed = good.clone().into_bytes();
                if let Some(there) = changed.get_mut(at) {
                    *there = byte;
                }
                if let Some(Pointer { oid, size, is_extended }) = Pointer::parse(&changed) {
                    let written = format!("version {VERSION}\noid sha256:{oid}\nsize {size}\n");
                    assert!(!is_extended && written.as_bytes() == changed, "{at}: {byte}");
                }
            }
            assert_eq!(Pointer::parse(good.as_bytes().get(..at).unwrap()), None, "cut at {at}");
        }
    }

    #[test]
    fn truncated_pointers() {
        for (length, expected) in [(1023, true), (1024, false)] {
            let before = format!("version {VERSION}\next-0-a ");
            let after = format!("\noid sha256:{OID}\nsize 1\n");
            let fill = "x".repeat(length - before.len() - after.len());
            assert_eq!(Pointer::parse(format!("{before}{fill}{after}").as_bytes()).is_some(), expected);
        }
    }
}
