//! IDs of OpenPGP keys.

use std::fmt;

use pgp::types::{Fingerprint, KeyDetails, KeyId as Id};

/// Long key ID: the last 16 hexadecimal digits of the fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyId([u8; 8]);

impl KeyId {
    /// Parses a long key ID or a fingerprint. Returns `None` for short IDs, which aren't unique.
    pub fn parse(text: &str) -> Option<Self> {
        let digits: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let digits = digits.strip_prefix("0x").unwrap_or(&digits);
        let all_are = digits.chars().all(|c| c.is_ascii_hexdigit());
        let begin = digits.len().checked_sub(16).filter(|_| all_are)?;
        u64::from_str_radix(digits.get(begin..)?, 16).ok().map(|id| Self(id.to_be_bytes()))
    }

    /// Returns the ID of a key.
    pub fn from_key(key: &impl KeyDetails) -> Self {
        Self::from(&key.legacy_key_id())
    }

    /// Returns the ID of the key with this fingerprint, or `None` if the key version isn't supported.
    pub fn from_fingerprint(fingerprint: &Fingerprint) -> Option<Self> {
        let bytes = fingerprint.as_bytes();
        let id = match fingerprint {
            Fingerprint::V4(_) => bytes.last_chunk()?,
            Fingerprint::V5(_) | Fingerprint::V6(_) => bytes.first_chunk()?,
            _ => return None,
        };
        Some(Self(*id))
    }
}

impl From<&Id> for KeyId {
    fn from(id: &Id) -> Self {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(id.as_ref()).for_each(|(to, from)| *to = *from);
        Self(bytes)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_id_is_the_last_sixteen_digits() {
        for (text, expected) in [
            ("4AEE18F83AFDEB23", Some("4AEE18F83AFDEB23")),
            ("4aee18f83afdeb23", Some("4AEE18F83AFDEB23")),
            ("0x4AEE18F83AFDEB23", Some("4AEE18F83AFDEB23")),
            ("5DE3 E050 9C47 EA3C F04A  42D3 4AEE 18F8 3AFD EB23", Some("4AEE18F83AFDEB23")),
            ("3AFDEB23", None),
            ("", None),
            ("github", None),
            ("4AEE18F83AFDEB2é", None),
            ("+AEE18F83AFDEB23", None),
        ] {
            assert_eq!(KeyId::parse(text).map(|id| id.to_string()).as_deref(), expected, "{text}");
        }
    }
}
