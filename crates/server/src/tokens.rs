//! The tokens of those who may ask: a file with a line for each.
//!
//! ```text
//! # NAME   ROLE       the token, or its SHA-256
//! ann      operator   sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//! grafana  read-only  sha256:…
//! ```
//!
//! It is read again when it changes, so that a token can be taken back.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tidegate_application::{approval, running};
use tidegate_model::Digest;
use tokio::time::Instant;

use crate::access::{Caller, Role};
use crate::error::ServerError;
use crate::sessions::Open;

/// The shortest token that is taken in clear, in bytes: nobody guesses one of random letters.
const TOKEN_MIN: usize = 24;
/// The longest token that is looked at.
const TOKEN_MAX: usize = 1024;
/// The longest name.
const NAME_MAX: usize = 64;
/// Words that stand for something else where people are named: whoever approves and has not asked, what is synced by itself, and
/// the progressive syncs of ApplicationSets.
const NOBODYS: [&str; 3] = [approval::OTHERS, "automated", running::BY];
/// The largest file.
const FILE_MAX: u64 = 1 << 20;
/// How often it is looked whether the file has changed, while somebody asks or is still being answered.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The rights of others: to write, and of everybody: to read.
const OTHERS_WRITE: u32 = 0o022;
const ALL_READ: u32 = 0o004;
const RIGHTS: u32 = 0o777;

/// The tokens of a file, or the one that this process has made for who started it.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// `None` for the token of this process.
    path: Option<PathBuf>,
    read: Mutex<Read>,
}

#[derive(Debug)]
struct Read {
    known: Arc<[Known]>,
    from: Option<Version>,
    /// The state of the file that could not be read, and of which that was said.
    failed: Option<Option<Version>>,
    looked_at: Instant,
}

/// What tells one state of a file from another.
type Version = (u64, u64, (i64, i64), (i64, i64), u64);

struct Known {
    caller: Caller,
    digest: [u8; 32],
}

impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.caller.fmt(f)
    }
}

impl Tokens {
    /// Reads the file.
    pub fn open(path: &Path) -> Result<Self, ServerError> {
        let (known, version) = read(path)?;
        let read = Read { known: known.into(), from: Some(version), failed: None, looked_at: Instant::now() };
        Ok(Self { path: Some(path.to_owned()), read: Mutex::new(read) })
    }

    /// The one token of who has started this process, an operator.
    pub fn of_owner(name: &str, token: &str) -> Self {
        let caller = Caller { name: name.to_owned(), role: Role::Operator };
        let known = Known { caller, digest: Sha256::digest(token.as_bytes()).into() };
        let read = Read { known: Arc::new([known]), from: None, failed: None, looked_at: Instant::now() };
        Self { path: None, read: Mutex::new(read) }
    }

    /// Whose token it is, and what tells later whether it still counts.
    pub fn caller(self: &Arc<Self>, token: &str, now: Instant) -> Option<(Caller, Pass)> {
        if token.len() > TOKEN_MAX {
            return None;
        }
        let digest = Sha256::digest(token.as_bytes()).into();
        let caller = self.of(&digest, now)?;
        Some((caller, Pass { token: Some((Arc::clone(self), digest)), session: None }))
    }

    /// Whose token it is that has this digest.
    pub fn of(&self, digest: &[u8; 32], now: Instant) -> Option<Caller> {
        // All are looked at, and all of each, so that time tells nothing.
        let mut found = None;
        for known in self.current(now).iter() {
            if same(&known.digest, digest) {
                found = Some(&known.caller).cloned();
            }
        }
        found
    }

    /// The tokens as the file has them. Where it cannot be read any more, those it had count; where it is gone, none.
    fn current(&self, now: Instant) -> Arc<[Known]> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = &self.path else { return Arc::clone(&read.known) };
        if now.saturating_duration_since(read.looked_at) >= LOOK_EVERY {
            read.looked_at = now;
            let version = fs::metadata(path).map(|found| version(&found));
            let is_gone = version.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
            let version = version.ok();
            if is_gone {
                (read.known, read.from) = (Arc::new([]), None);
            } else if version.is_none() || version != read.from {
                match self::read(path) {
                    Ok((known, version)) => {
                        (read.known, read.from, read.failed) = (known.into(), Some(version), None);
                    }
                    // It is tried again until it can be read, and said once.
                    Err(_) if read.failed == Some(version) => {}
                    Err(error) => {
                        tracing::warn!(%error, "the tokens cannot be read; those that were there count");
                        read.failed = Some(version);
                    }
                }
            }
        }
        Arc::clone(&read.known)
    }
}

/// Whether two texts are the same. That takes the same time whatever is in them.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    let [one, other] = [one, other].map(|text| Sha256::digest(text.as_bytes()).into());
    same(&one, &other)
}

/// What somebody was let in by.
#[derive(Clone)]
pub(crate) struct Pass {
    token: Option<(Arc<Tokens>, [u8; 32])>,
    session: Option<Open>,
}

impl Pass {
    /// That of those who need none.
    pub fn open() -> Self {
        Self { token: None, session: None }
    }

    /// That of a session, which a token has opened.
    pub fn of_token(tokens: &Arc<Tokens>, digest: [u8; 32], session: Open) -> Self {
        Self { token: Some((Arc::clone(tokens), digest)), session: Some(session) }
    }

    /// That of a session, which somebody has opened for whom a provider has vouched.
    pub fn of_person(session: Open) -> Self {
        Self { token: None, session: Some(session) }
    }

    /// The session, where they came by one.
    pub fn session(&self) -> Option<&Open> {
        self.session.as_ref()
    }

    /// The digest of the token, where there is one.
    pub fn digest(&self) -> Option<[u8; 32]> {
        self.token.as_ref().map(|(_, digest)| *digest)
    }

    /// Whether it would let them in now.
    pub fn counts(&self, now: Instant) -> bool {
        self.token.as_ref().is_none_or(|(tokens, digest)| tokens.of(digest, now).is_some())
            && self.session.as_ref().is_none_or(|session| session.counts(now))
    }
}

/// Takes the same time whatever they are.
fn same(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let differing = one.iter().zip(other).fold(0_u8, |differing, (one, other)| differing | (one ^ other));
    std::hint::black_box(differing) == 0
}

fn version(found: &Metadata) -> Version {
    let changed = (found.ctime(), found.ctime_nsec());
    (found.dev(), found.ino(), (found.mtime(), found.mtime_nsec()), changed, found.len())
}

fn read(path: &Path) -> Result<(Vec<Known>, Version), ServerError> {
    let wrong = |source| ServerError::File { path: path.to_owned(), source };
    let found = fs::metadata(path).map_err(wrong)?;
    if found.len() > FILE_MAX {
        return Err(wrong(io::ErrorKind::FileTooLarge.into()));
    }
    let mode = found.permissions().mode() & RIGHTS;
    let exposed = |why, advice| ServerError::Exposed { path: path.to_owned(), mode, why, advice };
    if mode & OTHERS_WRITE != 0 {
        return Err(exposed("they could give themselves a token", "its owner can close it: chmod go-w"));
    }
    let text = fs::read_to_string(path).map_err(wrong)?;
    let (known, is_clear) = parse(path, &text)?;
    if is_clear && mode & ALL_READ != 0 {
        let advice =
            "its owner can close it (chmod o-r), or it can hold the SHA-256 of the tokens: sha256:HEX";
        return Err(exposed("it holds tokens that everybody here can read", advice));
    }
    if known.is_empty() {
        return Err(ServerError::NoToken { path: path.to_owned() });
    }
    Ok((known, version(&found)))
}

/// The tokens, and whether one of them is there in clear.
fn parse(path: &Path, text: &str) -> Result<(Vec<Known>, bool), ServerError> {
    let mut known: Vec<Known> = Vec::new();
    let mut is_clear = false;
    for (line, content) in (1..).zip(text.lines()) {
        let wrong = |why| ServerError::Token { path: path.to_owned(), line, why };
        let words: Vec<&str> = content.split_whitespace().collect();
        let (name, role, token) = match words.as_slice() {
            [] => continue,
            [first, ..] if first.starts_with('#') => continue,
            [name, role, token] => (*name, *role, *token),
            _ => return Err(wrong("it does not have three words")),
        };
        let role = match role {
            "read-only" => Role::ReadOnly,
            "operator" => Role::Operator,
            _ => return Err(wrong("its second word is no role")),
        };
        if name.len() > NAME_MAX || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.@".contains(c)) {
            return Err(wrong("its name has other characters than letters, digits and -_.@, or too many"));
        }
        if NOBODYS.contains(&name) {
            return Err(wrong(
                "its name is a word that records and lists of approvers use for something else",
            ));
        }
        let digest = match token.split_once(':') {
            Some(("sha256", hex)) => {
                let Digest(digest) =
                    hex.parse().map_err(|_| wrong("what follows sha256: is not 64 digits"))?;
                digest
            }
            _ if token.len() < TOKEN_MIN => return Err(wrong("its token is too short to be safe")),
            _ => {
                is_clear = true;
                Sha256::digest(token.as_bytes()).into()
            }
        };
        if known.iter().any(|other| other.digest == digest || other.caller.name == name) {
            return Err(wrong("its name or its token was there before"));
        }
        known.push(Known { caller: Caller { name: name.to_owned(), role }, digest });
    }
    Ok((known, is_clear))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use std::fs::Permissions;

    use super::*;

    const TOKEN: &str = "correct-horse-battery-staple";

    fn sha256(token: &str) -> String {
        format!("sha256:{}", Digest(Sha256::digest(token.as_bytes()).into()))
    }

    fn written(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (dir, path)
    }

    #[test]
    fn a_token_is_known_in_clear_and_by_its_digest() {
        let text = format!(
            "# those who may ask\n\nann operator {TOKEN}\nben read-only {}\n",
            sha256("something else")
        );
        let (_dir, path) = written(&text, 0o600);
        let tokens = Arc::new(Tokens::open(&path).unwrap());
        let now = Instant::now();
        let (ann, _) = tokens.caller(TOKEN, now).unwrap();
        assert_eq!((ann.name.as_str(), ann.role), ("ann", Role::Operator));
        assert_eq!(tokens.caller("something else", now).unwrap().0.role, Role::ReadOnly);
        for wrong in ["", "ann", "something", &sha256("something else"), &"x".repeat(1 << 20)] {
            assert!(tokens.caller(wrong, now).is_none(), "{wrong:.20}");
        }
        assert!(!format!("{tokens:?}").contains(TOKEN));
    }

    #[test]
    fn mistakes_are_named_by_line_and_never_repeated() {
        for (text, part) in [
            (format!("ann operator {TOKEN}\nben operator\n"), "line 2: it does not have three words"),
            (format!("ann admin {TOKEN}"), "line 1: its second word"),
            (format!("a/b operator {TOKEN}"), "line 1: its name"),
            ("ann operator short".to_owned(), "line 1: its token is too short"),
            (format!("others operator {TOKEN}"), "line 1: its name is a word that"),
            (
                format!("ann operator {TOKEN}\nautomated read-only {TOKEN}x"),
                "line 2: its name is a word that",
            ),
            (format!("applicationset-controller operator {TOKEN}"), "line 1: its name is a word that"),
            (format!("ann operator sha256:{TOKEN}"), "line 1: what follows sha256:"),
            (format!("ann operator {TOKEN}\nann read-only {TOKEN}x"), "line 2: its name or its token"),
            (format!("ann operator {TOKEN}\nben read-only {TOKEN}"), "line 2: its name or its token"),
            ("# nobody\n".to_owned(), "has no token"),
        ] {
            let (_dir, path) = written(&text, 0o600);
            let message = Tokens::open(&path).unwrap_err().to_string();
            assert!(message.contains(part) && !message.contains(TOKEN), "{message}");
        }
    }

    #[test]
    fn a_file_that_is_open_to_others_is_refused() {
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
            let (_dir, path) = written(text, mode);
            let opened = Tokens::open(&path);
            assert_eq!(opened.is_ok(), is_taken, "{mode:o}: {opened:?}");
            assert!(opened.is_ok() || opened.unwrap_err().to_string().contains("chmod"));
        }
    }

    #[test]
    fn a_token_that_is_taken_back_counts_no_more() {
        let (_dir, path) = written(&format!("ann operator {TOKEN}\nben read-only {TOKEN}-too"), 0o600);
        let tokens = Arc::new(Tokens::open(&path).unwrap());
        let mut now = Instant::now();
        let (_, pass) = tokens.caller(TOKEN, now).unwrap();
        fs::write(&path, format!("ben read-only {TOKEN}-too\n")).unwrap();
        assert!(tokens.caller(TOKEN, now).is_some() && pass.counts(now), "not looked at every time");
        now += LOOK_EVERY;
        assert!(tokens.caller(TOKEN, now).is_none() && tokens.caller(&format!("{TOKEN}-too"), now).is_some());
        assert!(!pass.counts(now), "nor for what somebody is still being told");
        // What cannot be read takes nobody's token, and gives nobody one.
        fs::write(&path, "ann boss\n").unwrap();
        now += LOOK_EVERY;
        assert!(tokens.caller(TOKEN, now).is_none() && tokens.caller(&format!("{TOKEN}-too"), now).is_some());
        fs::remove_file(&path).unwrap();
        now += LOOK_EVERY;
        assert!(tokens.caller(&format!("{TOKEN}-too"), now).is_none(), "nobody is in a file that is gone");
    }

    /// Somebody asks while the file is open to others: what was written into it then counts once it is closed again.
    #[test]
    fn a_file_that_was_open_to_others_is_read_once_it_is_closed() {
        let (_dir, path) = written(&format!("ann operator {TOKEN}\nben read-only {TOKEN}-too"), 0o600);
        let tokens = Arc::new(Tokens::open(&path).unwrap());
        let mut now = Instant::now();
        fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        fs::write(&path, format!("ann operator {TOKEN}\n")).unwrap();
        for _ in 0..2 {
            now += LOOK_EVERY;
            assert!(tokens.caller(&format!("{TOKEN}-too"), now).is_some(), "those that were there count");
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        now += LOOK_EVERY;
        assert!(tokens.caller(TOKEN, now).is_some() && tokens.caller(&format!("{TOKEN}-too"), now).is_none());
    }
}
