//! Content alongside the log: compressed, sealed files named after a keyed digest of their content.
//!
//! ```text
//! blobs/ab/cdef…      magic 4 | version 1 | length 8 LE | key 8 | nonce 24 | crc32 4 LE | sealed lz4 block …
//! ```
//!
//! Everything is sealed, not only Secrets: ConfigMaps, environment variables and arguments contain passwords
//! too, and a rule without exceptions is harder to break. The name is keyed because a plain digest would
//! confirm a guessed password.
//!
//! The checksum covers the whole file, so opening the log can check a blob without unsealing it. This works
//! even without the right key, so a wrong key isn't mistaken for damage. Reads also check the seal, which
//! binds the content to its name. Files appear only when complete, and are durable before their name is
//! returned.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};
use tidegate_model::Digest;

use crate::append_checks::{MAX_BLOB_BYTES, check_blob_size};
use crate::key::{Fingerprint, LogKey};
use crate::{LogError, files};

const MAGIC: [u8; 4] = *b"TGBL";
const VERSION: u8 = 2;
const HEADER_BYTES: usize = 49;
const TAG_BYTES: usize = 16;

/// Maximum file size in bytes. Incompressible content grows by 1/255 plus a few bytes.
const MAX_FILE_BYTES: usize = MAX_BLOB_BYTES + MAX_BLOB_BYTES / 128 + 1024 + TAG_BYTES;

/// The blobs in a state directory.
pub(crate) struct BlobStore {
    folder: PathBuf,
    /// `None` for a reader without the key, which can detect damaged blobs but can't read intact ones.
    sealing: Option<Sealing>,
    files_written: AtomicU64,
    /// Number of bytes written to files.
    bytes_written: AtomicU64,
}

/// Encryption of blobs, independent of their storage.
pub(crate) struct Sealing {
    key: LogKey,
    cipher: XChaCha20Poly1305,
}

impl Sealing {
    pub(crate) fn new(key: LogKey) -> Self {
        let cipher = XChaCha20Poly1305::new(&key.seal_key.into());
        Self { key, cipher }
    }

    /// Returns the digest under which content is stored.
    pub(crate) fn name_of(&self, content: &[u8]) -> Digest {
        self.key.content_name(content)
    }

    /// Compresses and encrypts content. Returns the reason if this fails.
    pub(crate) fn pack(&self, digest: Digest, content: &[u8]) -> Result<Vec<u8>, String> {
        // A random nonce rather than a counter: 24 random bytes don't collide.
        let mut nonce = [0; 24];
        getrandom::fill(&mut nonce).map_err(|error| error.to_string())?;
        let packed = lz4_flex::block::compress(content);
        let payload = Payload { msg: &packed, aad: &associated_data(digest, content.len()) };
        let sealed =
            self.cipher.encrypt(&nonce.into(), payload).map_err(|_| "too large to encrypt".to_owned())?;
        let mut file = Vec::with_capacity(HEADER_BYTES + sealed.len());
        file.extend_from_slice(&MAGIC);
        file.push(VERSION);
        file.extend_from_slice(&u64::try_from(content.len()).unwrap_or(u64::MAX).to_le_bytes());
        file.extend_from_slice(&self.key.fingerprint().0);
        file.extend_from_slice(&nonce);
        file.extend_from_slice(&checksum(&file, &sealed).to_le_bytes());
        file.extend_from_slice(&sealed);
        Ok(file)
    }

    /// Decrypts stored content and verifies it against its name. `location` is for the error about a wrong key.
    pub(crate) fn unpack(
        &self,
        digest: Digest,
        file: &[u8],
        location: impl FnOnce() -> PathBuf,
    ) -> Result<Vec<u8>, LogError> {
        let damaged = |reason: String| LogError::BlobDamaged { digest, reason };
        let FramedBlob { length, key, nonce, sealed } =
            unframe(file).map_err(|reason| damaged(reason.to_owned()))?;
        let ours = self.key.fingerprint();
        if key != ours {
            let (path, wanted, found) = (location(), key.to_string(), ours.to_string());
            return Err(LogError::WrongKey { path, wanted, found });
        }
        let packed = self
            .cipher
            .decrypt(&nonce.into(), Payload { msg: sealed, aad: &associated_data(digest, length) })
            .map_err(|_| damaged("its decryption failed".to_owned()))?;
        let mut content = vec![0; length];
        let unpacked = lz4_flex::block::decompress_into(&packed, &mut content)
            .map_err(|error| damaged(error.to_string()))?;
        if unpacked != length {
            return Err(damaged(format!("it decompresses to {unpacked} bytes instead of {length}")));
        }
        Ok(content)
    }
}

impl BlobStore {
    pub(crate) fn open(folder: PathBuf, key: LogKey) -> Result<Self, LogError> {
        files::create_folder(&folder)?;
        Ok(Self { folder, sealing: Some(Sealing::new(key)), ..Self::empty() })
    }

    /// Opens the blobs in a state directory for reading, with or without the key.
    pub(crate) fn open_read_only(folder: PathBuf, key: Option<LogKey>) -> Self {
        Self { folder, sealing: key.map(Sealing::new), ..Self::empty() }
    }

    fn empty() -> Self {
        let (files_written, bytes_written) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { folder: PathBuf::new(), sealing: None, files_written, bytes_written }
    }

    /// Returns the key, if it is known.
    pub(crate) fn key(&self) -> Option<LogKey> {
        self.sealing.as_ref().map(|sealing| sealing.key.clone())
    }

    fn require_sealing(&self) -> Result<&Sealing, LogError> {
        self.sealing.as_ref().ok_or_else(|| LogError::OpenedReadOnly { path: self.folder.clone() })
    }

    /// Returns the digest under which content is stored.
    pub(crate) fn digest_of(&self, content: &[u8]) -> Result<Digest, LogError> {
        Ok(self.require_sealing()?.name_of(content))
    }

    pub(crate) fn files_written(&self) -> u64 {
        self.files_written.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// Stores `content` durably, and keeps the existing file if it is intact.
    pub(crate) fn put(&self, content: &[u8]) -> Result<Digest, LogError> {
        check_blob_size(content)?;
        let digest = self.digest_of(content)?;
        self.store(digest, || Ok(Cow::Owned(self.pack(digest, content)?)))?;
        Ok(digest)
    }

    /// Returns the sealed bytes of a blob, after checking that they are intact.
    pub(crate) fn sealed(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        let file = self.read(digest)?;
        unframe(&file).map_err(|reason| LogError::BlobDamaged { digest, reason: reason.to_owned() })?;
        Ok(file)
    }

    /// Stores sealed bytes from another log with the same key durably, and keeps the existing file if it is intact.
    pub(crate) fn put_sealed(&self, digest: Digest, file: &[u8]) -> Result<(), LogError> {
        self.require_sealing()?.unpack(digest, file, || self.path(digest))?;
        self.store(digest, || Ok(Cow::Borrowed(file)))
    }

    /// Writes a blob's file durably unless it is already intact.
    fn store<'a>(
        &self,
        digest: Digest,
        file: impl FnOnce() -> Result<Cow<'a, [u8]>, LogError>,
    ) -> Result<(), LogError> {
        let path = self.path(digest);
        let folder = files::parent_folder(&path);
        files::create_folder(folder)?;
        match self.check(digest) {
            // The process that wrote the file may have been killed before it synced the folder.
            Ok(()) => files::sync_folder(folder),
            Err(LogError::BlobMissing { .. } | LogError::BlobDamaged { .. }) => {
                let file = file()?;
                files::write_durably(&path, &file)?;
                self.files_written.fetch_add(1, Ordering::Relaxed);
                self.bytes_written
                    .fetch_add(u64::try_from(file.len()).unwrap_or(u64::MAX), Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the names of all blobs.
    pub(crate) fn names(&self) -> Result<BTreeSet<Digest>, LogError> {
        let mut names = BTreeSet::new();
        for folder in self.folders()? {
            let start = files::file_name(&folder).to_owned();
            let paths = files::list_folder(&folder)?;
            let digest = |path: &PathBuf| format!("{start}{}", files::file_name(path)).parse::<Digest>().ok();
            names.extend(paths.iter().filter_map(digest));
        }
        Ok(names)
    }

    /// Reads a blob and verifies its content against its name.
    pub(crate) fn get(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        self.unseal(digest, &self.read(digest)?)
    }

    /// Decrypts the sealed bytes of a blob, and verifies them against its name.
    pub(crate) fn unseal(&self, digest: Digest, file: &[u8]) -> Result<Vec<u8>, LogError> {
        let Some(sealing) = &self.sealing else {
            let framed = unframe(file)
                .map_err(|reason| LogError::BlobDamaged { digest, reason: reason.to_owned() })?;
            return Err(LogError::KeyUnreadable { path: self.path(digest), wanted: framed.key.to_string() });
        };
        sealing.unpack(digest, file, || self.path(digest))
    }

    /// Checks that a blob exists and its file is intact.
    pub(crate) fn check(&self, digest: Digest) -> Result<(), LogError> {
        self.sealed(digest).map(drop)
    }

    /// Returns true if a blob exists, without reading it.
    pub(crate) fn contains(&self, digest: Digest) -> Result<bool, LogError> {
        files::exists(&self.path(digest))
    }

    /// Returns the folders that contain blobs.
    pub(crate) fn folders(&self) -> Result<Vec<PathBuf>, LogError> {
        files::list_folder(&self.folder)
    }

    /// Removes all blobs that `keep` rejects from one of the [folders](Self::folders), along with partial
    /// files left by killed processes. Returns the number of removed blobs and the remaining bytes.
    pub(crate) fn sweep(
        &self,
        folder: &Path,
        keep: impl Fn(&Digest) -> bool,
    ) -> Result<(usize, u64), LogError> {
        let (mut removed, mut left) = (0, 0_u64);
        let start = files::file_name(folder).to_owned();
        for path in files::list_folder(folder)? {
            let name = format!("{start}{}", files::file_name(&path));
            let digest = name.parse::<Digest>().ok();
            // Keep files with other names: they weren't created by this store.
            if digest.map_or(name.ends_with(".tmp"), |digest| !keep(&digest)) {
                std::fs::remove_file(&path).map_err(|error| LogError::from_io(&path, "remove", error))?;
                removed += usize::from(digest.is_some());
            } else {
                left = left.saturating_add(std::fs::metadata(&path).map_or(0, |found| found.len()));
            }
        }
        Ok((removed, left))
    }

    /// Removes all blobs not in `keep`, along with partial files left by killed processes.
    pub(crate) fn retain(&self, keep: &BTreeSet<Digest>) -> Result<usize, LogError> {
        let mut removed = 0;
        for folder in self.folders()? {
            removed += self.sweep(&folder, |digest| keep.contains(digest))?.0;
        }
        Ok(removed)
    }

    /// Removes a blob. Returns false if it doesn't exist.
    pub(crate) fn remove(&self, digest: Digest) -> Result<bool, LogError> {
        let path = self.path(digest);
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(LogError::from_io(&path, "remove", error)),
        }
    }

    pub(crate) fn path(&self, digest: Digest) -> PathBuf {
        let name = digest.to_string();
        let (start, rest) = name.split_at_checked(2).unwrap_or(("", &name));
        self.folder.join(start).join(rest)
    }

    fn pack(&self, digest: Digest, content: &[u8]) -> Result<Vec<u8>, LogError> {
        self.require_sealing()?
            .pack(digest, content)
            .map_err(|reason| LogError::from_io(&self.path(digest), "encrypt", std::io::Error::other(reason)))
    }

    fn read(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        match files::read_limited(&self.path(digest), MAX_FILE_BYTES) {
            Ok(Some(file)) => Ok(file),
            Ok(None) => Err(LogError::BlobMissing { digest }),
            Err(LogError::TooLarge { bytes, .. }) => Err(LogError::BlobDamaged {
                digest,
                reason: format!("its file is too large ({bytes} bytes or more)"),
            }),
            Err(error) => Err(error),
        }
    }
}

/// Returns the data authenticated along with the content: the blob's name and length.
fn associated_data(digest: Digest, length: usize) -> [u8; 40] {
    let mut bound = [0; 40];
    let length = u64::try_from(length).unwrap_or(u64::MAX).to_le_bytes();
    bound.iter_mut().zip(digest.0.into_iter().chain(length)).for_each(|(to, from)| *to = from);
    bound
}

/// Parts of a blob file.
struct FramedBlob<'a> {
    /// Length of the content in bytes, never above the limit.
    length: usize,
    key: Fingerprint,
    nonce: [u8; 24],
    sealed: &'a [u8],
}

fn unframe(file: &[u8]) -> Result<FramedBlob<'_>, &'static str> {
    const TOO_SHORT: &str = "its file is too short";
    let (magic, rest) = file.split_first_chunk::<4>().ok_or(TOO_SHORT)?;
    let (&[version], rest) = rest.split_first_chunk::<1>().ok_or(TOO_SHORT)?;
    let (length, rest) = rest.split_first_chunk::<8>().ok_or(TOO_SHORT)?;
    let (key, rest) = rest.split_first_chunk::<8>().ok_or(TOO_SHORT)?;
    let (nonce, rest) = rest.split_first_chunk::<24>().ok_or(TOO_SHORT)?;
    let (stored, sealed) = rest.split_first_chunk::<4>().ok_or(TOO_SHORT)?;
    if *magic != MAGIC {
        return Err("its file has no blob header");
    }
    if version != VERSION {
        return Err("its format version is not supported");
    }
    let header = file.get(..HEADER_BYTES - 4).ok_or(TOO_SHORT)?;
    if checksum(header, sealed) != u32::from_le_bytes(*stored) {
        return Err("the checksum does not match");
    }
    match usize::try_from(u64::from_le_bytes(*length)) {
        Ok(length) if length <= MAX_BLOB_BYTES => {
            Ok(FramedBlob { length, key: Fingerprint(*key), nonce: *nonce, sealed })
        }
        _ => Err("the size in its header exceeds the maximum"),
    }
}

fn checksum(header: &[u8], sealed: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(sealed);
    hasher.finalize()
}

/// Copies a blob file to the quarantine unchanged. Does nothing if the file is missing.
pub(crate) fn copy_file(from: &Path, to: &Path) -> Result<(), LogError> {
    if files::check_regular(from).is_err() {
        return Ok(());
    }
    match std::fs::copy(from, to) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(LogError::from_io(from, "copy", error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn temp_store() -> (tempfile::TempDir, BlobStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = BlobStore::open(folder.path().join("blobs"), LogKey::new(&[7; 32])).unwrap();
        (folder, store)
    }

    #[test]
    fn content_is_stored_and_returned() {
        let (_folder, store) = temp_store();
        for content in [&b""[..], b"a", &[7; 100_000], &(0..=255).collect::<Vec<u8>>()] {
            let digest = store.put(content).unwrap();
            assert_eq!(store.get(digest).unwrap(), content);
            assert_eq!(store.put(content).unwrap(), digest);
        }
        assert_eq!(store.files_written(), 4, "existing content must not be written again");
    }

    #[test]
    fn every_flipped_bit_is_detected_and_repaired_by_a_new_put() {
        let (_folder, store) = temp_store();
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
    fn a_decompression_bomb_is_refused() {
        let (_folder, store) = temp_store();
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
    fn the_file_reveals_nothing_of_its_content() {
        let (_folder, store) = temp_store();
        let secret = b"password: hunter2, password: hunter2, password: hunter2";
        let digest = store.put(secret).unwrap();
        let file = std::fs::read(store.path(digest)).unwrap();
        assert!(!file.windows(4).any(|window| secret.windows(4).any(|part| part == window)));
        use sha2::{Digest as _, Sha256};
        assert_ne!(digest.0, <[u8; 32]>::from(Sha256::digest(secret)), "a guess must not be confirmed");
    }

    #[test]
    fn a_wrong_key_is_named_and_is_not_reported_as_damage() {
        let (folder, store) = temp_store();
        let digest = store.put(b"content").unwrap();
        let other = BlobStore::open(folder.path().join("blobs"), LogKey::new(&[8; 32])).unwrap();
        other.check(digest).unwrap();
        let error = other.get(digest).unwrap_err().to_string();
        assert!(error.contains(&LogKey::new(&[7; 32]).fingerprint().to_string()), "{error}");
        assert_eq!(store.get(digest).unwrap(), b"content");
    }

    #[test]
    fn a_blob_under_another_name_is_detected() {
        let (_folder, store) = temp_store();
        let (one, other) = (store.put(b"one").unwrap(), store.put(b"two").unwrap());
        std::fs::copy(store.path(one), store.path(other)).unwrap();
        assert!(matches!(store.get(other), Err(LogError::BlobDamaged { .. })));
    }

    #[test]
    fn unreferenced_blobs_and_partial_files_are_removed() {
        let (_folder, store) = temp_store();
        let (kept, gone) = (store.put(b"kept").unwrap(), store.put(b"gone").unwrap());
        let leftover = store.path(kept).with_extension("tmp");
        std::fs::write(&leftover, b"half").unwrap();
        assert_eq!(store.retain(&BTreeSet::from([kept])).unwrap(), 1);
        assert!(store.contains(kept).unwrap() && !store.contains(gone).unwrap());
        assert!(!leftover.exists());
    }
}
