//! The key that seals content alongside the log, and its source.
//!
//! ```text
//! <dir>/key       the key, 64 hexadecimal digits; readable only by its owner; created on first use
//! <dir>/key-id    fingerprint of the key in use; a different key is detected before any read or write
//! ```
//!
//! The log's key yields three derived keys: for sealing, for naming content, and for the fingerprint. None of
//! them reveals anything about the others.

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

/// Name of the key file in a state directory.
const KEY_FILE: &str = "key";
/// Name of the file with the key's fingerprint.
const FINGERPRINT_FILE: &str = "key-id";
/// Mode of a key file: readable only by its owner.
const OWNER_ONLY_MODE: u32 = 0o600;
/// Maximum number of bytes to read from a key file. A key has 64 characters.
const MAX_KEY_FILE_BYTES: usize = 4096;

/// The key that seals content alongside the log: 32 secret bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct LogKey {
    pub(crate) seal_key: [u8; 32],
    name_key: [u8; 32],
    fingerprint: Fingerprint,
}

/// Fingerprint of a key, which distinguishes keys without revealing them.
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
    /// Creates a key from its 32 bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        let derive = |purpose: &str| keyed_digest(bytes, purpose.as_bytes());
        let [a, b, c, d, e, f, g, h, ..] = derive("tidegate log: fingerprint");
        Self {
            seal_key: derive("tidegate log: seal"),
            name_key: derive("tidegate log: name"),
            fingerprint: Fingerprint([a, b, c, d, e, f, g, h]),
        }
    }

    /// Parses a key: 64 hexadecimal digits, or 32 bytes in base64. Errors never quote the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Ok(Digest(bytes)) = text.parse::<Digest>() {
            return Ok(Self::new(&bytes));
        }
        let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let decoded = [STANDARD, URL_SAFE]
            .iter()
            .find_map(|alphabet| GeneralPurpose::new(alphabet, lenient).decode(text).ok());
        let wanted = "use 64 hexadecimal digits or 32 bytes encoded as base64";
        match decoded.map(<[u8; 32]>::try_from) {
            Some(Ok(bytes)) => Ok(Self::new(&bytes)),
            Some(Err(bytes)) => Err(format!("it decodes to {} bytes; {wanted}", bytes.len())),
            None => Err(format!("its {} characters do not form a valid key; {wanted}", text.chars().count())),
        }
    }

    /// Returns the key's fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns the name that content is stored under: deterministic, but unpredictable without the key.
    pub(crate) fn content_name(&self, content: &[u8]) -> Digest {
        Digest(keyed_digest(&self.name_key, content))
    }
}

fn keyed_digest(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    // HMAC pads keys shorter than a block with zeros.
    let mut block = [0; 64];
    block.iter_mut().zip(key).for_each(|(to, from)| *to = *from);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// Returns the key for a state directory: the supplied key, or else the directory's key file, which is
/// created if nothing was ever sealed there. Rejects any key but the key in use, so that content sealed with
/// another key isn't mistaken for damage. The returned flag is true if the call wrote the fingerprint, which
/// is durable once the directory is synced. A new key is durable immediately.
pub(crate) fn load_or_create_key(
    directory: &Path,
    given: Option<LogKey>,
) -> Result<(LogKey, bool), LogError> {
    let id = directory.join(FINGERPRINT_FILE);
    let known = read_fingerprint(&id)?;
    let path = directory.join(KEY_FILE);
    let key = match given {
        Some(key) => key,
        None => match read_key_file(&path)? {
            Some(key) => key,
            None => match &known {
                Some(wanted) => return Err(LogError::KeyMissing { path, wanted: wanted.clone() }),
                None => create_key_file(&path)?,
            },
        },
    };
    let found = key.fingerprint.to_string();
    match known {
        Some(wanted) if wanted != found => {
            Err(LogError::WrongKey { path: directory.to_path_buf(), wanted, found })
        }
        Some(_) => Ok((key, false)),
        None => {
            files::write_atomically(&id, format!("{found}\n").as_bytes())?;
            Ok((key, true))
        }
    }
}

/// Returns a state directory's key for a reader. Returns `None` if the key file isn't readable, or if other
/// users can read it too.
pub(crate) fn load_key_for_reading(
    directory: &Path,
    given: Option<LogKey>,
) -> Result<Option<LogKey>, LogError> {
    let known = read_fingerprint(&directory.join(FINGERPRINT_FILE))?;
    let key = match given {
        Some(key) => Some(key),
        None => match read_key_file(&directory.join(KEY_FILE)) {
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

/// Returns the key in a state directory, if it contains one that this process may read.
pub fn existing_key(directory: &Path) -> Result<Option<LogKey>, LogError> {
    load_key_for_reading(directory, None)
}

/// Returns the fingerprint of the key in use. Ignores an invalid file, because every sealed file also
/// contains its key's fingerprint.
fn read_fingerprint(path: &Path) -> Result<Option<String>, LogError> {
    let text = match files::read_limited(path, MAX_KEY_FILE_BYTES) {
        Ok(text) => text.unwrap_or_default(),
        Err(LogError::TooLarge { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    Ok((text.len() == 16 && text.chars().all(|digit| digit.is_ascii_hexdigit())).then_some(text))
}

fn read_key_file(path: &Path) -> Result<Option<LogKey>, LogError> {
    let Some(text) = files::read_limited(path, MAX_KEY_FILE_BYTES)? else { return Ok(None) };
    let mode = fs::metadata(path).map_err(|error| LogError::from_io(path, "access", error))?.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(LogError::KeyExposed { path: path.to_path_buf(), mode });
    }
    let unusable = |reason: String| LogError::KeyInvalid { path: path.to_path_buf(), reason };
    let text = String::from_utf8(text).map_err(|_| unusable("the file is not UTF-8 text".to_owned()))?;
    LogKey::parse(&text).map(Some).map_err(unusable)
}

/// Creates a key file atomically. Other users can never read it. The lock on the state directory prevents
/// concurrent calls.
fn create_key_file(path: &Path) -> Result<LogKey, LogError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        LogError::from_io(path, "generate a key for", std::io::Error::other(error.to_string()))
    })?;
    let temporary: PathBuf = path.with_extension("tmp");
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(OWNER_ONLY_MODE)
        .open(&temporary)
        .and_then(|mut file| {
            // A file left by an interrupted attempt would otherwise keep its old mode.
            file.set_permissions(Permissions::from_mode(OWNER_ONLY_MODE))?;
            writeln!(file, "{}", Digest(bytes))?;
            file.sync_all()
        });
    written.map_err(|error| LogError::from_io(path, "write", error))?;
    files::rename(&temporary, path)?;
    Ok(LogKey::new(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_accepted_as_hexadecimal_and_base64() {
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
    fn an_invalid_key_is_described_and_never_displayed() {
        for text in ["", "hunter2hunter2!", &"a".repeat(65), "c2hvcnQ="] {
            let reason = LogKey::parse(text).unwrap_err();
            assert!(reason.contains("32 bytes") && !reason.contains("hunter"), "{reason}");
        }
        let shown = format!("{:?}", LogKey::new(&[7; 32]));
        assert!(shown.contains("fingerprint") && !shown.contains("seal"), "{shown}");
    }

    #[test]
    fn derived_keys_are_independent() {
        let key = LogKey::new(&[7; 32]);
        assert_ne!(key.seal_key, key.name_key);
        assert_ne!(key.seal_key, [7; 32]);
        assert_ne!(key.content_name(b"hunter2").0, LogKey::new(&[8; 32]).content_name(b"hunter2").0);
    }

    #[test]
    fn a_directory_keeps_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let (made, _) = load_or_create_key(folder.path(), None).unwrap();
        assert_eq!(load_or_create_key(folder.path(), None).unwrap(), (made.clone(), false));
        let path = folder.path().join(KEY_FILE);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);

        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let error = load_or_create_key(folder.path(), None).unwrap_err().to_string();
        assert!(error.contains("640") && error.contains("chmod 600"), "{error}");

        let other = LogKey::new(&[1; 32]);
        let error = load_or_create_key(folder.path(), Some(other.clone())).unwrap_err().to_string();
        let (wanted, found) = (made.fingerprint().to_string(), other.fingerprint().to_string());
        assert!(error.contains(&wanted) && error.contains(&found), "{error}");
        assert_eq!(
            load_or_create_key(folder.path(), Some(made)).unwrap().0.fingerprint().to_string(),
            wanted
        );

        fs::remove_file(&path).unwrap();
        let error = load_or_create_key(folder.path(), None).unwrap_err();
        assert!(matches!(&error, LogError::KeyMissing { wanted: named, .. } if *named == wanted), "{error}");
        assert!(!path.exists(), "a second key would lock out what was sealed with the first");
    }
}
