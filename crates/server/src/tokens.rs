//! Callers' tokens, from a file with one line per token.
//!
//! ```text
//! # NAME   ROLE       the token, or its SHA-256
//! ann      operator   sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//! grafana  read-only  sha256:…
//! ```
//!
//! The file is reloaded when it changes, so that tokens can be revoked.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tidegate_application::{approval, rollout_operation};
use tidegate_model::Digest;
use tokio::time::Instant;

use crate::access::{Caller, Role};
use crate::error::ServerError;
use crate::sessions::OpenSession;

/// Minimum length of a plain-text token in bytes, enough that random text can't be guessed.
const TOKEN_MIN: usize = 24;
/// Maximum length of a token in bytes.
const TOKEN_MAX: usize = 1024;
/// Maximum length of a name in bytes.
const NAME_MAX: usize = 64;
/// Reserved names. In records and lists of approvers, they stand for any approver other than the requester,
/// automated syncs, and the progressive syncs of ApplicationSets.
const RESERVED_NAMES: [&str; 3] =
    [approval::OTHERS_APPROVER, "automated", rollout_operation::ROLLOUT_REQUESTER];
/// Maximum size of the file in bytes.
const FILE_MAX: u64 = 1 << 20;
/// Minimum interval between checks of the file, triggered by requests and open responses.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Permission bits that allow other users to write, or everyone to read.
const OTHERS_WRITE: u32 = 0o022;
const ALL_READ: u32 = 0o004;
const PERMISSION_BITS: u32 = 0o777;

/// Tokens from a file, or the token generated for this process.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// Path of the file, or `None` for the generated token.
    path: Option<PathBuf>,
    loaded: Mutex<LoadedTokens>,
}

#[derive(Debug)]
struct LoadedTokens {
    tokens: Arc<[TokenEntry]>,
    version: Option<FileVersion>,
    /// Version of the file with an already reported read failure.
    failed_version: Option<Option<FileVersion>>,
    checked_at: Instant,
}

/// Version of a file, used to detect changes.
type FileVersion = (u64, u64, (i64, i64), (i64, i64), u64);

struct TokenEntry {
    caller: Caller,
    digest: [u8; 32],
}

impl std::fmt::Debug for TokenEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.caller.fmt(f)
    }
}

impl Tokens {
    /// Reads the file.
    pub fn open(path: &Path) -> Result<Self, ServerError> {
        let (known, version) = read_tokens(path)?;
        let read = LoadedTokens {
            tokens: known.into(),
            version: Some(version),
            failed_version: None,
            checked_at: Instant::now(),
        };
        Ok(Self { path: Some(path.to_owned()), loaded: Mutex::new(read) })
    }

    /// Creates a set with a single operator token, for the user who started this process.
    pub fn for_owner(name: &str, token: &str) -> Self {
        let caller = Caller { name: name.to_owned(), role: Role::Operator };
        let known = TokenEntry { caller, digest: Sha256::digest(token.as_bytes()).into() };
        let read = LoadedTokens {
            tokens: Arc::new([known]),
            version: None,
            failed_version: None,
            checked_at: Instant::now(),
        };
        Self { path: None, loaded: Mutex::new(read) }
    }

    /// Returns the token's owner, and a context for checking later that the token is still valid.
    pub fn authenticate(self: &Arc<Self>, token: &str, now: Instant) -> Option<(Caller, AuthContext)> {
        if token.len() > TOKEN_MAX {
            return None;
        }
        let digest = Sha256::digest(token.as_bytes()).into();
        let caller = self.find_caller(&digest, now)?;
        Some((caller, AuthContext { token: Some((Arc::clone(self), digest)), session: None }))
    }

    /// Returns the owner of the token with this digest.
    pub fn find_caller(&self, digest: &[u8; 32], now: Instant) -> Option<Caller> {
        // Compare all tokens, even after a match, so that timing reveals nothing about them.
        let mut found = None;
        for known in self.current(now).iter() {
            if is_same_digest(&known.digest, digest) {
                found = Some(&known.caller).cloned();
            }
        }
        found
    }

    /// Returns the tokens in the file. If it can't be read, the previous tokens remain valid. If it was
    /// deleted, all tokens become invalid.
    fn current(&self, now: Instant) -> Arc<[TokenEntry]> {
        let mut read = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = &self.path else { return Arc::clone(&read.tokens) };
        if now.saturating_duration_since(read.checked_at) >= CHECK_INTERVAL {
            read.checked_at = now;
            let version = fs::metadata(path).map(|found| file_version(&found));
            let is_gone = version.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            let version = version.ok();
            if is_gone {
                (read.tokens, read.version) = (Arc::new([]), None);
            } else if version.is_none() || version != read.version {
                match self::read_tokens(path) {
                    Ok((known, version)) => {
                        (read.tokens, read.version, read.failed_version) =
                            (known.into(), Some(version), None);
                    }
                    // Keep trying to read the file, but report the failure only once.
                    Err(_) if read.failed_version == Some(version) => {}
                    Err(error) => {
                        tracing::warn!(%error, "failed to reload the tokens; the previous tokens remain valid");
                        read.failed_version = Some(version);
                    }
                }
            }
        }
        Arc::clone(&read.tokens)
    }
}

/// Compares two strings in constant time.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|text| Sha256::digest(text.as_bytes()).into());
    is_same_digest(&one, &other)
}

/// Credentials of an authenticated caller.
#[derive(Clone)]
pub(crate) struct AuthContext {
    token: Option<(Arc<Tokens>, [u8; 32])>,
    session: Option<OpenSession>,
}

impl AuthContext {
    /// Returns the context for callers who don't need credentials.
    pub fn anonymous() -> Self {
        Self { token: None, session: None }
    }

    /// Returns the context for a session opened with a token.
    pub fn for_token_session(tokens: &Arc<Tokens>, digest: [u8; 32], session: OpenSession) -> Self {
        Self { token: Some((Arc::clone(tokens), digest)), session: Some(session) }
    }

    /// Returns the context for the session of a user authenticated by a provider.
    pub fn for_person(session: OpenSession) -> Self {
        Self { token: None, session: Some(session) }
    }

    /// Returns the session, if the caller is using a session.
    pub fn session(&self) -> Option<&OpenSession> {
        self.session.as_ref()
    }

    /// Returns the digest of the token, if the caller is using a token.
    pub fn digest(&self) -> Option<[u8; 32]> {
        self.token.as_ref().map(|(_, digest)| *digest)
    }

    /// Returns true if the credentials are still valid.
    pub fn is_valid(&self, now: Instant) -> bool {
        self.token.as_ref().is_none_or(|(tokens, digest)| tokens.find_caller(digest, now).is_some())
            && self.session.as_ref().is_none_or(|session| session.is_active(now))
    }
}

/// Compares two digests in constant time.
fn is_same_digest(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let differing = one.iter().zip(other).fold(0_u8, |differing, (one, other)| differing | (one ^ other));
    std::hint::black_box(differing) == 0
}

fn file_version(found: &Metadata) -> FileVersion {
    let changed = (found.ctime(), found.ctime_nsec());
    (found.dev(), found.ino(), (found.mtime(), found.mtime_nsec()), changed, found.len())
}

fn read_tokens(path: &Path) -> Result<(Vec<TokenEntry>, FileVersion), ServerError> {
    let wrong = |source| ServerError::ReadFile { path: path.to_owned(), source };
    let found = fs::metadata(path).map_err(wrong)?;
    if found.len() > FILE_MAX {
        return Err(wrong(io::ErrorKind::FileTooLarge.into()));
    }
    let mode = found.permissions().mode() & PERMISSION_BITS;
    let exposed = |why, advice| ServerError::FilePermissions { path: path.to_owned(), mode, why, advice };
    if mode & OTHERS_WRITE != 0 {
        return Err(exposed("other users could add a token for themselves", "run chmod go-w"));
    }
    let text = fs::read_to_string(path).map_err(wrong)?;
    let (known, is_clear) = parse(path, &text)?;
    if is_clear && mode & ALL_READ != 0 {
        let advice = "run chmod o-r, or replace each token with its SHA-256 hash (sha256:HEX)";
        return Err(exposed("it contains plaintext tokens, which every user can read", advice));
    }
    if known.is_empty() {
        return Err(ServerError::EmptyTokenFile { path: path.to_owned() });
    }
    Ok((known, file_version(&found)))
}

/// Parses the tokens. The flag is true if at least one token is in plain text.
fn parse(path: &Path, text: &str) -> Result<(Vec<TokenEntry>, bool), ServerError> {
    let mut known: Vec<TokenEntry> = Vec::new();
    let mut is_clear = false;
    for (line, content) in (1..).zip(text.lines()) {
        let wrong = |why| ServerError::InvalidToken { path: path.to_owned(), line, why };
        let words: Vec<&str> = content.split_whitespace().collect();
        let (name, role, token) = match words.as_slice() {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            [name, role, token] => (*name, *role, *token),
            _ => return Err(wrong("expected three words")),
        };
        let role = match role {
            "read-only" => Role::ReadOnly,
            "operator" => Role::Operator,
            _ => return Err(wrong("unknown role")),
        };
        if name.len() > NAME_MAX || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.@".contains(c)) {
            return Err(wrong("invalid or overlong name: use letters, digits and -_.@"));
        }
        if RESERVED_NAMES.contains(&name) {
            return Err(wrong(
                "reserved name: this name has a special meaning in records and approver lists",
            ));
        }
        let digest = match token.split_once(':') {
            Some(("sha256", hex)) => {
                let Digest(digest) = hex.parse().map_err(|_| {
                    wrong("invalid hash: `sha256:` must be followed by 64 hexadecimal digits")
                })?;
                digest
            }
            _ if token.len() < TOKEN_MIN => return Err(wrong("the token is too short")),
            _ => {
                is_clear = true;
                Sha256::digest(token.as_bytes()).into()
            }
        };
        if known.iter().any(|other| other.digest == digest || other.caller.name == name) {
            return Err(wrong("duplicate name or token"));
        }
        known.push(TokenEntry { caller: Caller { name: name.to_owned(), role }, digest });
    }
    Ok((known, is_clear))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::fs::Permissions;

    use super::*;

    const TOKEN: &str = "correct-horse-battery-staple";

    fn sha256(token: &str) -> String {
        format!("sha256:{}", Digest(Sha256::digest(token.as_bytes()).into()))
    }

    fn write_token_file(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (dir, path)
    }

    #[test]
    fn a_token_is_accepted_in_clear_text_and_by_its_digest() {
        let text = format!(
            "# those who may ask\n\nann operator {TOKEN}\nben read-only {}\n",
            sha256("something else")
        );
        let (_dir, path) = write_token_file(&text, 0o600);
        let tokens = Arc::new(Tokens::open(&path).unwrap());
        let now = Instant::now();
        let (ann, _) = tokens.authenticate(TOKEN, now).unwrap();
        assert_eq!((ann.name.as_str(), ann.role), ("ann", Role::Operator));
        assert_eq!(tokens.authenticate("something else", now).unwrap().0.role, Role::ReadOnly);
        for wrong in ["", "ann", "something", &sha256("something else"), &"x".repeat(1 << 20)] {
            assert!(tokens.authenticate(wrong, now).is_none(), "{wrong:.20}");
        }
        assert!(!format!("{tokens:?}").contains(TOKEN));
    }

    #[test]
    fn errors_name_the_line_and_never_quote_it() {
        for (text, part) in [
            (format!("ann operator {TOKEN}\nben operator\n"), "line 2: expected three words"),
            (format!("ann admin {TOKEN}"), "line 1: unknown role"),
            (format!("a/b operator {TOKEN}"), "line 1: invalid or overlong name"),
            ("ann operator short".to_owned(), "line 1: the token is too short"),
            (format!("others operator {TOKEN}"), "line 1: reserved name"),
            (format!("ann operator {TOKEN}\nautomated read-only {TOKEN}x"), "line 2: reserved name"),
            (format!("applicationset-controller operator {TOKEN}"), "line 1: reserved name"),
            (format!("ann operator sha256:{TOKEN}"), "line 1: invalid hash"),
            (format!("ann operator {TOKEN}\nann read-only {TOKEN}x"), "line 2: duplicate name or token"),
            (format!("ann operator {TOKEN}\nben read-only {TOKEN}"), "line 2: duplicate name or token"),
            ("# nobody\n".to_owned(), "contains no token"),
        ] {
            let (_dir, path) = write_token_file(&text, 0o600);
            let message = Tokens::open(&path).unwrap_err().to_string();
            assert!(message.contains(part) && !message.contains(TOKEN), "{message}");
        }
    }

    #[test]
    fn a_file_that_others_can_access_is_rejected() {
        let (clear, hashed) = (format!("ann operator {TOKEN}"), format!("ann operator {}", sha256(TOKEN)));
        for (text, mode, is_taken) in [
            (&clear, 0o600, true),
            (&clear, 0o640, true),
            (&clear, 0o644, false),
            (&clear, 0o620, false),
            (&hashed, 0o644, true),
            (&hashed, 0o664, false),
            (&hashed, 0o606, false),
        ] {
            let (_dir, path) = write_token_file(text, mode);
            let opened = Tokens::open(&path);
            assert_eq!(opened.is_ok(), is_taken, "{mode:o}: {opened:?}");
            assert!(opened.is_ok() || opened.unwrap_err().to_string().contains("chmod"));
        }
    }

    #[test]
    fn a_revoked_token_is_no_longer_accepted() {
        let (_dir, path) =
            write_token_file(&format!("ann operator {TOKEN}\nben read-only {TOKEN}-too"), 0o600);
        let tokens = Arc::new(Tokens::open(&path).unwrap());
        let mut now = Instant::now();
        let (_, pass) = tokens.authenticate(TOKEN, now).unwrap();
        fs::write(&path, format!("ben read-only {TOKEN}-too\n")).unwrap();
        assert!(
            tokens.authenticate(TOKEN, now).is_some() && pass.is_valid(now),
            "the file is not read on every request"
        );
        now += CHECK_INTERVAL;
        assert!(
            tokens.authenticate(TOKEN, now).is_none()
                && tokens.authenticate(&format!("{TOKEN}-too"), now).is_some()
        );
        assert!(!pass.is_valid(now), "open event streams end as well");
        // A file that cannot be parsed neither revokes nor adds tokens.
        fs::write(&path, "ann boss\n").unwrap();
        now += CHECK_INTERVAL;
        assert!(
            tokens.authenticate(TOKEN, now).is_none()
                && tokens.authenticate(&format!("{TOKEN}-too"), now).is_some()
        );
        fs::remove_file(&path).unwrap();
        now += CHECK_INTERVAL;
        assert!(tokens.authenticate(&format!("{TOKEN}-too"), now).is_none(), "a missing file has no users");
    }

    /// A request that arrives while other users have access to the file is checked against the old tokens.
    /// The file's content is used once its permissions are fixed.
    #[test]
    fn a_file_is_read_once_its_permissions_are_fixed() {
        let (_dir, path) =
            write_token_file(&format!("ann operator {TOKEN}\nben read-only {TOKEN}-too"), 0o600);
        let tokens = Arc::new(Tokens::open(&path).unwrap());
        let mut now = Instant::now();
        fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        fs::write(&path, format!("ann operator {TOKEN}\n")).unwrap();
        for _ in 0..2 {
            now += CHECK_INTERVAL;
            assert!(
                tokens.authenticate(&format!("{TOKEN}-too"), now).is_some(),
                "the previous tokens remain valid"
            );
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        now += CHECK_INTERVAL;
        assert!(
            tokens.authenticate(TOKEN, now).is_some()
                && tokens.authenticate(&format!("{TOKEN}-too"), now).is_none()
        );
    }
}
