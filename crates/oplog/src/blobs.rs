//! Content beside the log: compressed and sealed files, named by a keyed digest of what is in them.
//!
//! ```text
//! blobs/ab/cdef…      magic 4 | version 1 | length 8 LE | key 8 | nonce 24 | crc32 4 LE | sealed lz4 block …
//! ```
//!
//! All content is sealed, not only that of Secrets: passwords also stand in ConfigMaps, environments and arguments, and
//! a rule without exceptions cannot be got wrong. The name is keyed as well, because a plain digest of a guessed password
//! would confirm the guess.
//!
//! The checksum covers the file, so that opening the log can check a blob without unsealing it, and without the right
//! key: a wrong one is not damage. Reading checks the seal, which binds the content to its name. A file is put in place
//! whole, and durable before its name is handed out.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};
use tidegate_model::Digest;

use crate::key::{Fingerprint, LogKey};
use crate::rules::{MAX_BLOB_BYTES, check_blob};
use crate::{LogError, files};

const MAGIC: [u8; 4] = *b"TGBL";
const VERSION: u8 = 2;
const HEADER_BYTES: usize = 49;
const TAG_BYTES: usize = 16;

/// Largest file: content that does not compress grows by a 255th and a little.
const MAX_FILE_BYTES: usize = MAX_BLOB_BYTES + MAX_BLOB_BYTES / 128 + 1024 + TAG_BYTES;

/// The blobs of a state directory.
pub(crate) struct BlobStore {
    folder: PathBuf,
    /// `None` for a reader without the key, who can tell whole blobs from damaged ones and no more.
    sealing: Option<Sealing>,
    written: AtomicU64,
}

struct Sealing {
    key: LogKey,
    cipher: XChaCha20Poly1305,
}

impl Sealing {
    fn new(key: LogKey) -> Self {
        let cipher = XChaCha20Poly1305::new(&key.seal.into());
        Self { key, cipher }
    }
}

impl BlobStore {
    pub(crate) fn open(folder: PathBuf, key: LogKey) -> Result<Self, LogError> {
        files::create_folder(&folder)?;
        Ok(Self { folder, sealing: Some(Sealing::new(key)), written: AtomicU64::new(0) })
    }

    /// The blobs of a state directory that is only read, perhaps without its key.
    pub(crate) fn open_to_read(folder: PathBuf, key: Option<LogKey>) -> Self {
        Self { folder, sealing: key.map(Sealing::new), written: AtomicU64::new(0) }
    }

    fn sealing(&self) -> Result<&Sealing, LogError> {
        self.sealing.as_ref().ok_or_else(|| LogError::OpenedToRead { path: self.folder.clone() })
    }

    /// The name that content gets.
    pub(crate) fn digest_of(&self, content: &[u8]) -> Result<Digest, LogError> {
        Ok(self.sealing()?.key.name(content))
    }

    /// Files written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Keeps `content`; durable when it returns. What is already there in good order stays.
    pub(crate) fn put(&self, content: &[u8]) -> Result<Digest, LogError> {
        check_blob(content)?;
        let digest = self.digest_of(content)?;
        let path = self.path(digest);
        let folder = files::parent(&path).to_path_buf();
        files::create_folder(&folder)?;
        match self.check(digest) {
            // It may have been put by a process that was killed before the folder was synced.
            Ok(()) => files::sync_folder(&folder)?,
            Err(LogError::BlobMissing { .. } | LogError::BlobDamaged { .. }) => {
                files::write_durably(&path, &self.pack(digest, content)?)?;
                self.written.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => return Err(error),
        }
        Ok(digest)
    }

    /// Reads a blob back and checks that it is what was put under its name.
    pub(crate) fn get(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        let damaged = |reason: String| LogError::BlobDamaged { digest, reason };
        let file = self.read(digest)?;
        let Framed { length, key, nonce, sealed } =
            unframe(&file).map_err(|reason| damaged(reason.to_owned()))?;
        let Some(sealing) = &self.sealing else {
            return Err(LogError::KeyUnreadable { path: self.path(digest), wanted: key.to_string() });
        };
        let ours = sealing.key.fingerprint();
        if key != ours {
            let (path, wanted, found) = (self.path(digest), key.to_string(), ours.to_string());
            return Err(LogError::WrongKey { path, wanted, found });
        }
        let packed = sealing
            .cipher
            .decrypt(&nonce.into(), Payload { msg: sealed, aad: &bound(digest, length) })
            .map_err(|_| damaged("its seal is broken".to_owned()))?;
        let mut content = vec![0; length];
        let unpacked = lz4_flex::block::decompress_into(&packed, &mut content)
            .map_err(|error| damaged(error.to_string()))?;
        if unpacked != length {
            return Err(damaged(format!("it holds {unpacked} bytes, not {length}")));
        }
        Ok(content)
    }

    /// Checks that a blob is there and that its file is whole.
    pub(crate) fn check(&self, digest: Digest) -> Result<(), LogError> {
        let file = self.read(digest)?;
        unframe(&file).map_err(|reason| LogError::BlobDamaged { digest, reason: reason.to_owned() })?;
        Ok(())
    }

    /// Whether a blob is there, without reading it.
    pub(crate) fn contains(&self, digest: Digest) -> Result<bool, LogError> {
        files::exists(&self.path(digest))
    }

    /// Removes all blobs but those in `keep`, and what killed processes left half written; returns how many blobs.
    pub(crate) fn retain(&self, keep: &BTreeSet<Digest>) -> Result<usize, LogError> {
        let mut removed = 0;
        for folder in files::list(&self.folder)? {
            let start = files::name(&folder).to_owned();
            for path in files::list(&folder)? {
                let name = format!("{start}{}", files::name(&path));
                let digest = name.parse::<Digest>().ok();
                // Whatever else lies there is not ours.
                let unwanted = digest.map_or(name.ends_with(".tmp"), |digest| !keep.contains(&digest));
                if unwanted {
                    std::fs::remove_file(&path).map_err(|error| LogError::io(&path, "remove", error))?;
                    removed += usize::from(digest.is_some());
                }
            }
        }
        Ok(removed)
    }

    /// Where a blob is kept.
    pub(crate) fn path(&self, digest: Digest) -> PathBuf {
        let name = digest.to_string();
        let (start, rest) = name.split_at_checked(2).unwrap_or(("", &name));
        self.folder.join(start).join(rest)
    }

    fn pack(&self, digest: Digest, content: &[u8]) -> Result<Vec<u8>, LogError> {
        let failed =
            |what: &str| LogError::io(&self.path(digest), "seal", std::io::Error::other(what.to_owned()));
        // Drawn, not counted: with 24 bytes no two are ever the same.
        let mut nonce = [0; 24];
        getrandom::fill(&mut nonce).map_err(|error| failed(&error.to_string()))?;
        let packed = lz4_flex::block::compress(content);
        let payload = Payload { msg: &packed, aad: &bound(digest, content.len()) };
        let sealing = self.sealing()?;
        let sealed =
            sealing.cipher.encrypt(&nonce.into(), payload).map_err(|_| failed("too large to seal"))?;
        let mut file = Vec::with_capacity(HEADER_BYTES + sealed.len());
        file.extend_from_slice(&MAGIC);
        file.push(VERSION);
        file.extend_from_slice(&u64::try_from(content.len()).unwrap_or(u64::MAX).to_le_bytes());
        file.extend_from_slice(&sealing.key.fingerprint().0);
        file.extend_from_slice(&nonce);
        file.extend_from_slice(&checksum(&file, &sealed).to_le_bytes());
        file.extend_from_slice(&sealed);
        Ok(file)
    }

    fn read(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        match files::read(&self.path(digest), MAX_FILE_BYTES) {
            Ok(Some(file)) => Ok(file),
            Ok(None) => Err(LogError::BlobMissing { digest }),
            Err(LogError::TooLarge { bytes, .. }) => {
                Err(LogError::BlobDamaged { digest, reason: format!("its file has {bytes} bytes or more") })
            }
            Err(error) => Err(error),
        }
    }
}

/// What the seal vouches for besides the content: its name and its length.
fn bound(digest: Digest, length: usize) -> [u8; 40] {
    let mut bound = [0; 40];
    let length = u64::try_from(length).unwrap_or(u64::MAX).to_le_bytes();
    bound.iter_mut().zip(digest.0.into_iter().chain(length)).for_each(|(to, from)| *to = from);
    bound
}

/// The parts of a blob's file.
struct Framed<'a> {
    /// Of the content; within the limit.
    length: usize,
    key: Fingerprint,
    nonce: [u8; 24],
    sealed: &'a [u8],
}

fn unframe(file: &[u8]) -> Result<Framed<'_>, &'static str> {
    const SHORT: &str = "its file is too short";
    let (magic, rest) = file.split_first_chunk::<4>().ok_or(SHORT)?;
    let (&[version], rest) = rest.split_first_chunk::<1>().ok_or(SHORT)?;
    let (length, rest) = rest.split_first_chunk::<8>().ok_or(SHORT)?;
    let (key, rest) = rest.split_first_chunk::<8>().ok_or(SHORT)?;
    let (nonce, rest) = rest.split_first_chunk::<24>().ok_or(SHORT)?;
    let (stored, sealed) = rest.split_first_chunk::<4>().ok_or(SHORT)?;
    if *magic != MAGIC {
        return Err("its file does not begin like a blob");
    }
    if version != VERSION {
        return Err("its format is not the one this program writes");
    }
    let header = file.get(..HEADER_BYTES - 4).ok_or(SHORT)?;
    if checksum(header, sealed) != u32::from_le_bytes(*stored) {
        return Err("its checksum does not match");
    }
    match usize::try_from(u64::from_le_bytes(*length)) {
        Ok(length) if length <= MAX_BLOB_BYTES => {
            Ok(Framed { length, key: Fingerprint(*key), nonce: *nonce, sealed })
        }
        _ => Err("it says it is larger than any blob may be"),
    }
}

fn checksum(header: &[u8], sealed: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(sealed);
    hasher.finalize()
}

/// Copies a blob's file as it is, for the quarantine; a missing one is left out.
pub(crate) fn copy_file(from: &Path, to: &Path) -> Result<(), LogError> {
    if files::check_regular(from).is_err() {
        return Ok(());
    }
    match std::fs::copy(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(LogError::io(from, "copy", error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, BlobStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = BlobStore::open(folder.path().join("blobs"), LogKey::new(&[7; 32])).unwrap();
        (folder, store)
    }

    #[test]
    fn keeps_and_gives_back() {
        let (_folder, store) = store();
        for content in [&b""[..], b"a", &[7; 100_000], &(0..=255).collect::<Vec<u8>>()] {
            let digest = store.put(content).unwrap();
            assert_eq!(store.get(digest).unwrap(), content);
            assert_eq!(store.put(content).unwrap(), digest);
        }
        assert_eq!(store.written(), 4, "what is there already is not written again");
    }

    #[test]
    fn every_flipped_bit_is_noticed_and_mended_by_putting_again() {
        let (_folder, store) = store();
        let content = b"kind: ConfigMap, kind: ConfigMap, kind: ConfigMap";
        let digest = store.put(content).unwrap();
        let path = store.path(digest);
        let good = std::fs::read(&path).unwrap();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, &bad).unwrap();
            assert!(matches!(store.get(digest), Err(LogError::BlobDamaged { .. })), "bit {bit}");
            assert!(store.check(digest).is_err(), "bit {bit}");
        }
        store.put(content).unwrap();
        assert_eq!(store.get(digest).unwrap(), content);
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(store.get(digest), Err(LogError::BlobMissing { .. })));
    }

    #[test]
    fn a_bomb_is_refused() {
        let (_folder, store) = store();
        let digest = store.put(b"small").unwrap();
        let mut file = MAGIC.to_vec();
        file.push(VERSION);
        file.extend((1_u64 << 40).to_le_bytes());
        file.extend([0; 32]);
        file.extend(checksum(&file, b"").to_le_bytes());
        std::fs::write(store.path(digest), file).unwrap();
        assert!(matches!(store.get(digest), Err(LogError::BlobDamaged { .. })));
    }

    #[test]
    fn the_file_tells_nothing_of_its_content() {
        let (_folder, store) = store();
        let secret = b"password: hunter2, password: hunter2, password: hunter2";
        let digest = store.put(secret).unwrap();
        let file = std::fs::read(store.path(digest)).unwrap();
        assert!(!file.windows(4).any(|window| secret.windows(4).any(|part| part == window)));
        use sha2::{Digest as _, Sha256};
        assert_ne!(digest.0, <[u8; 32]>::from(Sha256::digest(secret)), "a guess must not be confirmed");
    }

    #[test]
    fn a_wrong_key_is_named_and_is_no_damage() {
        let (folder, store) = store();
        let digest = store.put(b"content").unwrap();
        let other = BlobStore::open(folder.path().join("blobs"), LogKey::new(&[8; 32])).unwrap();
        other.check(digest).unwrap();
        let error = other.get(digest).unwrap_err().to_string();
        assert!(error.contains(&LogKey::new(&[7; 32]).fingerprint().to_string()), "{error}");
        assert_eq!(store.get(digest).unwrap(), b"content");
    }

    #[test]
    fn a_blob_under_another_name_is_noticed() {
        let (_folder, store) = store();
        let (one, other) = (store.put(b"one").unwrap(), store.put(b"two").unwrap());
        std::fs::copy(store.path(one), store.path(other)).unwrap();
        assert!(matches!(store.get(other), Err(LogError::BlobDamaged { .. })));
    }

    #[test]
    fn what_nobody_keeps_goes_and_so_do_leftovers() {
        let (_folder, store) = store();
        let (kept, gone) = (store.put(b"kept").unwrap(), store.put(b"gone").unwrap());
        let leftover = store.path(kept).with_extension("tmp");
        std::fs::write(&leftover, b"half").unwrap();
        assert_eq!(store.retain(&BTreeSet::from([kept])).unwrap(), 1);
        assert!(store.contains(kept).unwrap() && !store.contains(gone).unwrap());
        assert!(!leftover.exists());
    }
}
