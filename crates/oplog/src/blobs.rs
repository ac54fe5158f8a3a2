//! Content beside the log: compressed files named by the SHA-256 of what is in them.
//!
//! ```text
//! blobs/ab/cdef…      magic 4 | version 1 | length 8 LE | crc32 4 LE | lz4 block …
//! ```
//!
//! The checksum covers the file, so that opening the log can check a blob without unpacking it; reading checks the
//! SHA-256 of the content itself. A file is put in place whole, and durable before its digest is handed out.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};
use tidegate_model::Digest;

use crate::rules::{MAX_BLOB_BYTES, check_blob};
use crate::{LogError, files};

const MAGIC: [u8; 4] = *b"TGBL";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 17;

/// Largest file: content that does not compress grows by a 255th and a little.
const MAX_FILE_BYTES: usize = MAX_BLOB_BYTES + MAX_BLOB_BYTES / 128 + 1024;

/// The blobs of a state directory.
#[derive(Debug)]
pub(crate) struct BlobStore {
    folder: PathBuf,
    written: AtomicU64,
}

impl BlobStore {
    pub(crate) fn open(folder: PathBuf) -> Result<Self, LogError> {
        files::create_folder(&folder)?;
        Ok(Self { folder, written: AtomicU64::new(0) })
    }

    /// Files written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Keeps `content`; durable when it returns. What is already there in good order stays.
    pub(crate) fn put(&self, content: &[u8]) -> Result<Digest, LogError> {
        check_blob(content)?;
        let digest = digest_of(content);
        let path = self.path(digest);
        let folder = files::parent(&path).to_path_buf();
        files::create_folder(&folder)?;
        match self.check(digest) {
            // It may have been put by a process that was killed before the folder was synced.
            Ok(()) => files::sync_folder(&folder)?,
            Err(LogError::BlobMissing { .. } | LogError::BlobDamaged { .. }) => {
                files::write_durably(&path, &pack(content))?;
                self.written.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => return Err(error),
        }
        Ok(digest)
    }

    /// Reads a blob back and checks it against its digest.
    pub(crate) fn get(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        let damaged = |reason: String| LogError::BlobDamaged { digest, reason };
        let file = self.read(digest)?;
        let (length, packed) = unframe(&file).map_err(|reason| damaged(reason.to_owned()))?;
        let mut content = vec![0; length];
        let unpacked = lz4_flex::block::decompress_into(packed, &mut content)
            .map_err(|error| damaged(error.to_string()))?;
        if unpacked != length {
            return Err(damaged(format!("it holds {unpacked} bytes, not {length}")));
        }
        match digest_of(&content) {
            found if found == digest => Ok(content),
            found => Err(damaged(format!("its content has the digest {found}"))),
        }
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

pub(crate) fn digest_of(content: &[u8]) -> Digest {
    Digest(Sha256::digest(content).into())
}

fn pack(content: &[u8]) -> Vec<u8> {
    let packed = lz4_flex::block::compress(content);
    let length = u64::try_from(content.len()).unwrap_or(u64::MAX).to_le_bytes();
    let mut file = Vec::with_capacity(HEADER_BYTES + packed.len());
    file.extend_from_slice(&MAGIC);
    file.push(VERSION);
    file.extend_from_slice(&length);
    file.extend_from_slice(&checksum(length, &packed).to_le_bytes());
    file.extend_from_slice(&packed);
    file
}

/// The content's length, which is within the limit, and the packed bytes.
fn unframe(file: &[u8]) -> Result<(usize, &[u8]), &'static str> {
    const SHORT: &str = "its file is too short";
    let (magic, rest) = file.split_first_chunk::<4>().ok_or(SHORT)?;
    let (&[version], rest) = rest.split_first_chunk::<1>().ok_or(SHORT)?;
    let (length, rest) = rest.split_first_chunk::<8>().ok_or(SHORT)?;
    let (stored, packed) = rest.split_first_chunk::<4>().ok_or(SHORT)?;
    if *magic != MAGIC {
        return Err("its file does not begin like a blob");
    }
    if version != VERSION {
        return Err("its format is not known here: written by a newer program");
    }
    if checksum(*length, packed) != u32::from_le_bytes(*stored) {
        return Err("its checksum does not match");
    }
    match usize::try_from(u64::from_le_bytes(*length)) {
        Ok(length) if length <= MAX_BLOB_BYTES => Ok((length, packed)),
        _ => Err("it says it is larger than any blob may be"),
    }
}

fn checksum(length: [u8; 8], packed: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&length);
    hasher.update(packed);
    hasher.finalize()
}

/// Copies a blob's file as it is, for the quarantine; a missing one is left out.
pub(crate) fn copy_file(from: &Path, to: &Path) -> Result<(), LogError> {
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
        let store = BlobStore::open(folder.path().join("blobs")).unwrap();
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
        let length = (1_u64 << 40).to_le_bytes();
        let mut file = MAGIC.to_vec();
        file.push(VERSION);
        file.extend(length);
        file.extend(checksum(length, b"").to_le_bytes());
        std::fs::write(store.path(digest), file).unwrap();
        assert!(matches!(store.get(digest), Err(LogError::BlobDamaged { .. })));
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
