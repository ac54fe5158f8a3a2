//! The key that content beside the log is sealed with, and where it comes from.
//!
//! ```text
//! <dir>/key       the key, 64 hexadecimal digits; readable by its owner only; made when it is needed first
//! <dir>/key-id    the fingerprint of the key in use, so that another one is noticed before anything is read or written
//! ```
//!
//! From the one key three are derived: one to seal, one to name content, one for the fingerprint. None of them tells
//! anything about the others.

use std::fmt;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tidegate_model::Digest;

use crate::{LogError, files};

/// The key file of a state directory.
const KEY: &str = "key";
/// The file with the fingerprint.
const KEY_ID: &str = "key-id";
/// Nobody but the owner may read a key.
const OWNER_ONLY: u32 = 0o600;
/// A key is 64 characters; more is not looked at.
const MAX_KEY_FILE_BYTES: usize = 4096;

/// The key that content beside the log is sealed with: 32 bytes nobody else knows.
#[derive(Clone, PartialEq, Eq)]
pub struct LogKey {
    pub(crate) seal: [u8; 32],
    name: [u8; 32],
    fingerprint: Fingerprint,
}

/// Tells keys apart without telling what they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint(pub(crate) [u8; 8]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for LogKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogKey").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

impl LogKey {
    /// A key from its 32 bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        let derive = |purpose: &str| keyed(bytes, purpose.as_bytes());
        let [a, b, c, d, e, f, g, h, ..] = derive("tidegate log: fingerprint");
        Self {
            seal: derive("tidegate log: seal"),
            name: derive("tidegate log: name"),
            fingerprint: Fingerprint([a, b, c, d, e, f, g, h]),
        }
    }

    /// A key as people write it: 64 hexadecimal digits, or the base64 of 32 bytes. The error says what is wrong with
    /// the text, and never what is in it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Ok(Digest(bytes)) = text.parse::<Digest>() {
            return Ok(Self::new(&bytes));
        }
        let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let decoded = [STANDARD, URL_SAFE]
            .iter()
            .find_map(|alphabet| GeneralPurpose::new(alphabet, lenient).decode(text).ok());
        let wanted = "64 hexadecimal digits or the base64 of 32 bytes are wanted";
        match decoded.map(<[u8; 32]>::try_from) {
            Some(Ok(bytes)) => Ok(Self::new(&bytes)),
            Some(Err(bytes)) => Err(format!("it is the base64 of {} bytes; {wanted}", bytes.len())),
            None => Err(format!("its {} characters are neither; {wanted}", text.chars().count())),
        }
    }

    /// What tells it apart from others.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The name of some content: the same for the same content, and not to be guessed from it without the key.
    pub(crate) fn name(&self, content: &[u8]) -> Digest {
        Digest(keyed(&self.name, content))
    }
}

fn keyed(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    // A key shorter than a block is filled up with zeros: that is how the function is defined.
    let mut block = [0; 64];
    block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// The key of a state directory: the given one, else the one in its file, which is made if nothing was ever sealed
/// here. Any other than the one in use is refused, so that nothing is taken for damaged that is only locked.
pub(crate) fn settle(directory: &Path, given: Option<LogKey>) -> Result<LogKey, LogError> {
    let id = directory.join(KEY_ID);
    let known = known(&id)?;
    let path = directory.join(KEY);
    let key = match given {
        Some(key) => key,
        None => match read(&path)? {
            Some(key) => key,
            None => match &known {
                Some(wanted) => return Err(LogError::KeyMissing { path, wanted: wanted.clone() }),
                None => make(&path)?,
            },
        },
    };
    let found = key.fingerprint.to_string();
    match known {
        Some(wanted) if wanted != found => {
            Err(LogError::WrongKey { path: directory.to_path_buf(), wanted, found })
        }
        Some(_) => Ok(key),
        None => {
            files::write_durably(&id, format!("{found}\n").as_bytes())?;
            Ok(key)
        }
    }
}

/// The key of a state directory for somebody who only reads it: `None` where the key may not be read, or must not be used
/// because others may read it too.
pub(crate) fn look(directory: &Path, given: Option<LogKey>) -> Result<Option<LogKey>, LogError> {
    let known = known(&directory.join(KEY_ID))?;
    let key = match given {
        Some(key) => Some(key),
        None => match read(&directory.join(KEY)) {
            Err(LogError::PermissionDenied { .. } | LogError::KeyExposed { .. }) => None,
            key => key?,
        },
    };
    let found = key.as_ref().map(|key| key.fingerprint.to_string());
    match (known, found) {
        (Some(wanted), Some(found)) if wanted != found => {
            Err(LogError::WrongKey { path: directory.to_path_buf(), wanted, found })
        }
        _ => Ok(key),
    }
}

/// The fingerprint of the key in use. A file that is no fingerprint is as good as none: what was sealed says itself
/// with which key.
fn known(path: &Path) -> Result<Option<String>, LogError> {
    let text = match files::read(path, MAX_KEY_FILE_BYTES) {
        Ok(text) => text.unwrap_or_default(),
        Err(LogError::TooLarge { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    Ok((text.len() == 16 && text.chars().all(|digit| digit.is_ascii_hexdigit())).then_some(text))
}

fn read(path: &Path) -> Result<Option<LogKey>, LogError> {
    let Some(text) = files::read(path, MAX_KEY_FILE_BYTES)? else { return Ok(None) };
    let mode = fs::metadata(path).map_err(|error| LogError::io(path, "look at", error))?.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(LogError::KeyExposed { path: path.to_path_buf(), mode });
    }
    let unusable = |reason: String| LogError::KeyUnusable { path: path.to_path_buf(), reason };
    let text = String::from_utf8(text).map_err(|_| unusable("it is not text".to_owned()))?;
    LogKey::parse(&text).map(Some).map_err(unusable)
}

/// Makes a key. It is in place whole or not at all, and never readable by others. Two processes do not come here at
/// once: the state directory is locked.
fn make(path: &Path) -> Result<LogKey, LogError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| LogError::io(path, "draw a key for", std::io::Error::other(error.to_string())))?;
    let temporary: PathBuf = path.with_extension("tmp");
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(OWNER_ONLY)
        .open(&temporary)
        .and_then(|mut file| {
            // One that an interrupted attempt left keeps the mode it has.
            file.set_permissions(Permissions::from_mode(OWNER_ONLY))?;
            writeln!(file, "{}", Digest(bytes))?;
            file.sync_all()
        });
    written.map_err(|error| LogError::io(path, "write", error))?;
    files::rename(&temporary, path)?;
    Ok(LogKey::new(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_people_write_it() {
        let bytes = [0xfb; 32];
        let wanted = LogKey::new(&bytes);
        let hex = Digest(bytes).to_string();
        let standard = base64::engine::general_purpose::STANDARD.encode(bytes);
        let url_safe = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
        assert!(standard.contains('+') && standard.ends_with('=') && url_safe.contains('-'));
        for text in [hex.clone(), hex.to_uppercase(), format!(" {hex}\n"), standard, url_safe] {
            assert_eq!(LogKey::parse(&text), Ok(wanted.clone()), "{text}");
        }
    }

    #[test]
    fn what_is_no_key_is_described_and_not_shown() {
        for text in ["", "hunter2hunter2!", &"a".repeat(65), "c2hvcnQ="] {
            let reason = LogKey::parse(text).unwrap_err();
            assert!(reason.contains("32 bytes") && !reason.contains("hunter"), "{reason}");
        }
        let shown = format!("{:?}", LogKey::new(&[7; 32]));
        assert!(shown.contains("fingerprint") && !shown.contains("seal"), "{shown}");
    }

    #[test]
    fn derived_keys_have_nothing_in_common() {
        let key = LogKey::new(&[7; 32]);
        assert_ne!(key.seal, key.name);
        assert_ne!(key.seal, [7; 32]);
        assert_ne!(key.name(b"hunter2").0, LogKey::new(&[8; 32]).name(b"hunter2").0);
    }

    #[test]
    fn a_directory_keeps_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let made = settle(folder.path(), None).unwrap();
        assert_eq!(settle(folder.path(), None).unwrap(), made);
        let path = folder.path().join(KEY);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);

        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let error = settle(folder.path(), None).unwrap_err().to_string();
        assert!(error.contains("640") && error.contains("chmod 600"), "{error}");

        let other = LogKey::new(&[1; 32]);
        let error = settle(folder.path(), Some(other.clone())).unwrap_err().to_string();
        let (wanted, found) = (made.fingerprint().to_string(), other.fingerprint().to_string());
        assert!(error.contains(&wanted) && error.contains(&found), "{error}");
        assert_eq!(settle(folder.path(), Some(made)).unwrap().fingerprint().to_string(), wanted);

        fs::remove_file(&path).unwrap();
        let error = settle(folder.path(), None).unwrap_err();
        assert!(matches!(&error, LogError::KeyMissing { wanted: named, .. } if *named == wanted), "{error}");
        assert!(!path.exists(), "a second key would lock out what was sealed with the first");
    }
}
