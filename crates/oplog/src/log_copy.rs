//! Copies of a whole log between a state directory and a database.
//!
//! ```text
//! read      the source: counts, damage, and a digest of each stream
//! compare   the target: anything in it must be equal in the source
//! copy      blobs, streams, inventories: whatever the target lacks
//! verify    the target: every record, the chain of digests, and the digest of each stream
//! ```
//!
//! The callers hold the locks of both logs. Records are copied byte by byte. An interrupted copy can be repeated,
//! because each stream is either complete or absent. Nothing in the target is ever overwritten.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_model::{Digest, StreamId, StreamKind};

use crate::image::{ImageStore, StreamImage};
use crate::{ApplicationInventory, ImpairedStream, LogError, PostgresLog, SledLog, StreamName};

/// Number of record bytes written to the target at a time. A larger stream is written alone.
const GROUP_BYTES: u64 = 1 << 20;
/// Number of streams written to the target at a time.
const GROUP_STREAMS: usize = 128;

/// Source or target of a copy.
#[derive(Clone)]
pub struct CopyEnd(Arc<dyn ImageStore>);

impl CopyEnd {
    /// Creates the end for a log in a state directory.
    pub fn directory(log: Arc<SledLog>) -> Self {
        Self(log)
    }

    /// Creates the end for a log in a database.
    pub fn database(log: Arc<PostgresLog>) -> Self {
        Self(log)
    }

    /// Returns the location of the log for messages.
    pub fn location(&self) -> String {
        self.0.location()
    }
}

impl std::fmt::Debug for CopyEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CopyEnd").field(&self.location()).finish()
    }
}

/// Amount of content in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyCounts {
    /// Number of streams.
    pub streams: usize,
    /// Number of streams that haven't finished.
    pub open: usize,
    /// Number of events.
    pub events: u64,
    /// Size of the events and snapshots in bytes.
    pub record_bytes: u64,
    /// Number of blobs that the streams refer to.
    pub blobs: usize,
    /// Size of these blobs in bytes, compressed and encrypted.
    pub blob_bytes: u64,
    /// Number of inventories.
    pub inventories: usize,
}

/// Reason why a log can't be copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// Two operations of one application are open.
    #[error(
        "the application {application} has two open operations, {first} and {second}; end one of them with `tidegate \
         ops terminate {first}`, and try again; nothing was copied"
    )]
    TwoOpenOperations {
        /// Name of the application.
        application: String,
        /// ID of the earlier operation.
        first: StreamId,
        /// ID of the later operation.
        second: StreamId,
    },
    /// The source contains damaged streams.
    #[error(
        "{}; repeat `tidegate log copy` with --skip-damaged to copy everything else; nothing was copied",
        describe_damaged(streams)
    )]
    Damaged {
        /// Damaged streams.
        streams: Vec<ImpairedStream>,
    },
    /// The target contains a stream of the source with other content.
    #[error(
        "{stream} in {target} differs from the one in the source; choose an empty target; nothing in the target was \
         overwritten"
    )]
    Different {
        /// Location of the target.
        target: String,
        /// The stream.
        stream: StreamName,
    },
    /// The target contains a stream that isn't in the source.
    #[error(
        "{target} already contains {stream}, which is not in the source; choose an empty target; nothing was copied"
    )]
    Unrelated {
        /// Location of the target.
        target: String,
        /// The stream.
        stream: StreamName,
    },
    /// The target contains another inventory.
    #[error(
        "the inventory of the application {application} in {target} differs from the one in the source; choose an \
         empty target; nothing in the target was overwritten"
    )]
    DifferentInventory {
        /// Location of the target.
        target: String,
        /// Name of the application.
        application: String,
    },
    /// A copied stream can't be read back.
    #[error(
        "the copy of {stream} in {target} is not intact: {reason}; the source is unchanged and can still be used; \
         repeat the copy to an empty target"
    )]
    Unverified {
        /// Location of the target.
        target: String,
        /// The stream.
        stream: StreamName,
        /// Description of the problem.
        reason: String,
    },
    /// A log returned an error.
    #[error(transparent)]
    Log(#[from] LogError),
}

fn describe_damaged(streams: &[ImpairedStream]) -> String {
    let each: Vec<String> =
        streams.iter().map(|damaged| format!("{}: {}", name_of(damaged), damaged.reason)).collect();
    let verb = if each.len() == 1 { "operation is" } else { "operations are" };
    format!("{} {verb} damaged and cannot be copied ({})", each.len(), each.join("; "))
}

fn name_of(damaged: &ImpairedStream) -> StreamName {
    match &damaged.entry {
        Some(entry) => StreamName::with_kind(entry.kind.clone(), damaged.stream),
        None => damaged.stream.into(),
    }
}

/// Content of the source of a copy.
#[derive(Debug)]
pub struct CopyScan {
    /// Digest of the image of each intact stream.
    streams: BTreeMap<StreamId, Digest>,
    /// Blobs of these streams, with their sizes.
    blobs: BTreeMap<Digest, u64>,
    inventories: BTreeMap<(String, String), ApplicationInventory>,
    damaged: Vec<ImpairedStream>,
    counts: CopyCounts,
}

impl CopyScan {
    /// Reads and checks the whole source.
    ///
    /// # Errors
    ///
    /// Returns an error if two operations of one application are open, or if there are damaged streams and
    /// `skip_damaged` is false.
    pub fn read(source: &CopyEnd, skip_damaged: bool) -> Result<Self, CopyError> {
        let source = source.0.as_ref();
        let mut damaged: BTreeMap<StreamId, ImpairedStream> =
            source.damaged_streams().into_iter().map(|one| (one.stream, one)).collect();
        let (mut streams, mut counts) = (BTreeMap::new(), CopyCounts::default());
        let mut blobs = CheckedBlobs::new(source);
        let mut open = BTreeMap::new();
        let mut referenced = BTreeSet::new();
        for stream in source.stream_ids()? {
            if damaged.contains_key(&stream) {
                continue;
            }
            let image = match read_checked(source, stream, &mut blobs) {
                Ok(image) => image,
                Err(error) => {
                    let Some(reason) = damage_reason(&error) else { return Err(error.into()) };
                    damaged.insert(stream, ImpairedStream { stream, entry: None, reason });
                    continue;
                }
            };
            if image.summary.is_open() {
                counts.open += 1;
                if let Some(application) =
                    image.summary.application.clone().filter(|_| image.kind == StreamKind::OPERATION)
                    && let Some(first) = open.insert(application.clone(), stream)
                {
                    return Err(CopyError::TwoOpenOperations { application, first, second: stream });
                }
            }
            counts.streams += 1;
            counts.events = counts.events.saturating_add(image.last.saturating_sub(image.base));
            counts.record_bytes = counts.record_bytes.saturating_add(image.record_bytes());
            referenced.extend(image.references.iter().copied());
            streams.insert(stream, image.fingerprint());
        }
        let damaged: Vec<ImpairedStream> = damaged.into_values().collect();
        if !damaged.is_empty() && !skip_damaged {
            return Err(CopyError::Damaged { streams: damaged });
        }
        let mut blobs = blobs.sizes;
        blobs.retain(|digest, _| referenced.contains(digest));
        let inventories = read_inventories(source)?;
        counts.blobs = blobs.len();
        counts.blob_bytes = blobs.values().sum();
        counts.inventories = inventories.len();
        Ok(Self { streams, blobs, inventories, damaged, counts })
    }

    /// Returns the amount of content to copy.
    pub fn counts(&self) -> CopyCounts {
        self.counts
    }

    /// Returns the damaged streams, which aren't copied.
    pub fn damaged(&self) -> &[ImpairedStream] {
        &self.damaged
    }

    /// Compares the content of the target, which may be the result of an interrupted copy. Returns the number of
    /// streams that it already contains.
    ///
    /// # Errors
    ///
    /// Returns an error if the target contains anything that isn't in the source, or differs from it.
    pub fn compare(&self, target: &CopyEnd) -> Result<usize, CopyError> {
        let target = target.0.as_ref();
        let location = || target.location();
        if let Some(damaged) = target.damaged_streams().first() {
            let (stream, reason) = (name_of(damaged), damaged.reason.clone());
            return Err(CopyError::Unverified { target: location(), stream, reason });
        }
        let existing = target.stream_ids()?;
        for &stream in &existing {
            let Some(expected) = self.streams.get(&stream) else {
                return Err(CopyError::Unrelated { target: location(), stream: stream.into() });
            };
            let image = target.read_image(stream)?;
            if image.fingerprint() != *expected {
                let stream = StreamName::with_kind(image.kind, stream);
                return Err(CopyError::Different { target: location(), stream });
            }
        }
        for (key, inventory) in read_inventories(target)? {
            if self.inventories.get(&key) != Some(&inventory) {
                return Err(CopyError::DifferentInventory { target: location(), application: key.1 });
            }
        }
        Ok(existing.len())
    }

    /// Compares the content of the target, copies everything that it lacks, and verifies the result. From the first
    /// change until [`CopyScan::finish`], the target is marked as incomplete. Returns the number of streams that the
    /// target already contained.
    pub fn run(&self, source: &CopyEnd, target: &CopyEnd) -> Result<usize, CopyError> {
        let existing = self.compare(target)?;
        target.0.mark_incomplete(&source.location())?;
        self.copy(source, target)?;
        self.verify(target)?;
        Ok(existing)
    }

    /// Completes a verified copy: marks the source as moved if it is in a state directory, and then the target as
    /// complete. At no time can both be used.
    pub fn finish(&self, source: &CopyEnd, target: &CopyEnd) -> Result<(), CopyError> {
        source.0.mark_moved(&target.location())?;
        target.0.mark_complete()?;
        Ok(())
    }

    /// Copies everything that the target lacks.
    fn copy(&self, source: &CopyEnd, target: &CopyEnd) -> Result<(), CopyError> {
        let (source, target) = (source.0.as_ref(), target.0.as_ref());
        for &digest in self.blobs.keys() {
            if !target.has_blob(digest)? {
                target.write_sealed_blob(digest, &source.sealed_blob(digest)?)?;
            }
        }
        let existing: BTreeSet<StreamId> = target.stream_ids()?.into_iter().collect();
        let (mut group, mut bytes) = (Vec::new(), 0_u64);
        for &stream in self.streams.keys().filter(|stream| !existing.contains(stream)) {
            let image = source.read_image(stream)?;
            bytes = bytes.saturating_add(image.record_bytes());
            group.push(image);
            if bytes > GROUP_BYTES || group.len() >= GROUP_STREAMS {
                target.write_images(std::mem::take(&mut group))?;
                bytes = 0;
            }
        }
        if !group.is_empty() {
            target.write_images(group)?;
        }
        let existing = read_inventories(target)?;
        for ((cluster, application), inventory) in &self.inventories {
            if !existing.contains_key(&(cluster.clone(), application.clone())) {
                target.write_inventory(cluster, application, inventory)?;
            }
        }
        Ok(())
    }

    /// Reads everything back from the target, and compares it with the source.
    ///
    /// # Errors
    ///
    /// Returns an error that names the first stream that is missing, damaged or different.
    fn verify(&self, target: &CopyEnd) -> Result<(), CopyError> {
        let target = target.0.as_ref();
        let unverified = |stream: StreamId, reason: String| CopyError::Unverified {
            target: target.location(),
            stream: stream.into(),
            reason,
        };
        let found: BTreeSet<StreamId> = target.stream_ids()?.into_iter().collect();
        if let Some(&stream) = found.iter().find(|stream| !self.streams.contains_key(stream)) {
            return Err(CopyError::Unrelated { target: target.location(), stream: stream.into() });
        }
        let mut blobs = CheckedBlobs::new(target);
        for (&stream, expected) in &self.streams {
            if !found.contains(&stream) {
                return Err(unverified(stream, "it is missing".to_owned()));
            }
            let image = match read_checked(target, stream, &mut blobs) {
                Ok(image) => image,
                Err(error) => {
                    return Err(match damage_reason(&error) {
                        Some(reason) => unverified(stream, reason),
                        None => error.into(),
                    });
                }
            };
            if image.fingerprint() != *expected {
                return Err(unverified(stream, "it differs from the source".to_owned()));
            }
        }
        let inventories = read_inventories(target)?;
        let differs = |key: &&(String, String)| inventories.get(*key) != self.inventories.get(*key);
        if let Some((_, application)) = self.inventories.keys().chain(inventories.keys()).find(differs) {
            let (target, application) = (target.location(), application.clone());
            return Err(CopyError::DifferentInventory { target, application });
        }
        Ok(())
    }
}

/// Blobs of a log that were decrypted and checked.
struct CheckedBlobs<'a> {
    log: &'a dyn ImageStore,
    /// Sizes of the sealed blobs.
    sizes: BTreeMap<Digest, u64>,
}

impl<'a> CheckedBlobs<'a> {
    fn new(log: &'a dyn ImageStore) -> Self {
        Self { log, sizes: BTreeMap::new() }
    }

    fn read(&mut self, digest: Digest) -> Result<Vec<u8>, LogError> {
        let sealed = self.log.sealed_blob(digest)?;
        let content = self.log.unseal_blob(digest, &sealed)?;
        self.sizes.insert(digest, u64::try_from(sealed.len()).unwrap_or(u64::MAX));
        Ok(content)
    }
}

/// Reads a stream, and checks its records and blobs.
fn read_checked(
    log: &dyn ImageStore,
    stream: StreamId,
    blobs: &mut CheckedBlobs<'_>,
) -> Result<StreamImage, LogError> {
    let image = log.read_image(stream)?;
    image.check(log.codecs(), |digest| blobs.read(digest))?;
    for digest in &image.references {
        if !blobs.sizes.contains_key(digest) {
            blobs.read(*digest)?;
        }
    }
    Ok(image)
}

/// Returns the description of damage to a stream, or `None` if the error has another cause.
fn damage_reason(error: &LogError) -> Option<String> {
    match error {
        LogError::Damaged { reason, .. } | LogError::DamagedRows { reason, .. } => Some(reason.clone()),
        LogError::BlobMissing { digest } => Some(format!("blob {digest} is missing")),
        LogError::BlobDamaged { digest, reason } => Some(format!("blob {digest} is damaged: {reason}")),
        LogError::NewerRecord { .. } => Some(error.to_string()),
        _ => None,
    }
}

fn read_inventories(
    log: &dyn ImageStore,
) -> Result<BTreeMap<(String, String), ApplicationInventory>, LogError> {
    let all = log.read_inventories()?.into_iter();
    Ok(all.map(|(cluster, application, inventory)| ((cluster, application), inventory)).collect())
}
