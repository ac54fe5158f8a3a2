//! Content of a stream in a form that doesn't depend on its storage, for copies of a log.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};
use tidegate_model::{Digest, StreamId, StreamKind};

use crate::codec::{Codecs, RecordType};
use crate::frame::{self, Address, Family};
use crate::store::{ContentLocation, chain_digest, content_location};
use crate::{ApplicationInventory, Epoch, ImpairedStream, LogError, Record, Summary};

/// Everything that a log stores about a stream. Events and snapshots are framed as they are stored.
#[derive(Clone, Debug)]
pub(crate) struct StreamImage {
    pub(crate) stream: StreamId,
    pub(crate) kind: StreamKind,
    pub(crate) summary: Summary<Record>,
    pub(crate) epoch: Epoch,
    pub(crate) taken_by: String,
    /// Sequence number of the last removed event, and the digest of the events up to it.
    pub(crate) base: u64,
    pub(crate) base_digest: Digest,
    /// Sequence number of the last event, and the digest of the events up to it.
    pub(crate) last: u64,
    pub(crate) digest: Digest,
    /// True if only the summary remains.
    pub(crate) is_reduced: bool,
    /// Framed events after `base`, in order.
    pub(crate) events: Vec<Vec<u8>>,
    pub(crate) snapshot: Option<SnapshotImage>,
    /// Blobs that the stream refers to, including the blob of its snapshot.
    pub(crate) references: BTreeSet<Digest>,
}

/// Snapshot in a stream's image.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotImage {
    /// Sequence number of the last event that the snapshot covers, and the digest of the events up to it.
    pub(crate) sequence: u64,
    pub(crate) digest: Digest,
    pub(crate) frame: Vec<u8>,
}

/// Storage that a log can be copied from or to.
pub(crate) trait ImageStore: Send + Sync {
    /// Returns the location of the log for messages.
    fn location(&self) -> String;

    /// Returns the IDs of all intact streams, oldest first.
    fn stream_ids(&self) -> Result<Vec<StreamId>, LogError>;

    /// Returns the streams that are known to be damaged.
    fn damaged_streams(&self) -> Vec<ImpairedStream>;

    /// Returns the stream kinds that the program knows.
    fn codecs(&self) -> &Codecs;

    /// Reads a stream.
    fn read_image(&self, stream: StreamId) -> Result<StreamImage, LogError>;

    /// Adds streams durably. Each is either complete or absent afterwards. None of them may exist, and their blobs
    /// must.
    fn write_images(&self, images: Vec<StreamImage>) -> Result<(), LogError>;

    /// Returns the sealed bytes of a blob.
    fn sealed_blob(&self, digest: Digest) -> Result<Vec<u8>, LogError>;

    /// Decrypts the sealed bytes of a blob, and verifies them against its name.
    fn unseal_blob(&self, digest: Digest, sealed: &[u8]) -> Result<Vec<u8>, LogError>;

    /// Returns true if a blob exists.
    fn has_blob(&self, digest: Digest) -> Result<bool, LogError>;

    /// Adds sealed bytes of a blob durably. An intact blob stays as it is.
    fn write_sealed_blob(&self, digest: Digest, sealed: &[u8]) -> Result<(), LogError>;

    /// Returns all intact inventories, each with its cluster and application.
    fn read_inventories(&self) -> Result<Vec<(String, String, ApplicationInventory)>, LogError>;

    /// Adds an inventory durably.
    fn write_inventory(
        &self,
        cluster: &str,
        application: &str,
        inventory: &ApplicationInventory,
    ) -> Result<(), LogError>;

    /// Marks the log as an incomplete copy of the log at another location, so that only another copy can use it.
    fn mark_incomplete(&self, source_log: &str) -> Result<(), LogError>;

    /// Removes the mark of an incomplete copy.
    fn mark_complete(&self) -> Result<(), LogError>;

    /// Marks a log in a state directory as moved, so that no program uses it. Does nothing for other logs.
    fn mark_moved(&self, to: &str) -> Result<(), LogError>;
}

impl StreamImage {
    /// Returns the number of bytes in framed records.
    pub(crate) fn record_bytes(&self) -> u64 {
        let events: usize = self.events.iter().map(Vec::len).sum();
        let snapshot = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.frame.len());
        u64::try_from(events.saturating_add(snapshot)).unwrap_or(u64::MAX)
    }

    /// Returns the blob of the snapshot, if it has one.
    pub(crate) fn snapshot_blob(&self) -> Option<Digest> {
        let snapshot = self.snapshot.as_ref()?;
        external_blob(&snapshot.frame)
    }

    /// Returns a digest of the whole image.
    pub(crate) fn fingerprint(&self) -> Digest {
        let mut hasher = Sha256::new();
        let mut add = |part: &[u8]| {
            hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hasher.update(part);
        };
        let Summary { application, set, started_at, finished_at, details } = &self.summary;
        add(self.stream.0.as_bytes());
        add(&self.kind.number().to_le_bytes());
        add(self.kind.name().as_bytes());
        for text in [application, set] {
            add(&[u8::from(text.is_some())]);
            add(text.as_deref().unwrap_or_default().as_bytes());
        }
        add(&started_at.as_millis().to_le_bytes());
        add(&[u8::from(finished_at.is_some())]);
        add(&finished_at.map_or(0, |at| at.as_millis()).to_le_bytes());
        add(&details.kind.to_le_bytes());
        add(&details.content);
        add(&self.epoch.number().to_le_bytes());
        add(self.taken_by.as_bytes());
        add(&self.base.to_le_bytes());
        add(&self.base_digest.0);
        add(&self.last.to_le_bytes());
        add(&self.digest.0);
        add(&[u8::from(self.is_reduced)]);
        add(&self.events.len().to_le_bytes());
        self.events.iter().for_each(|event| add(event));
        if let Some(SnapshotImage { sequence, digest, frame }) = &self.snapshot {
            add(&sequence.to_le_bytes());
            add(&digest.0);
            add(frame);
        }
        self.references.iter().for_each(|digest| add(&digest.0));
        Digest(hasher.finalize().into())
    }

    /// Checks every record and the chain of digests. `blob` returns the content of a blob. Blobs that the stream
    /// refers to without storing a record in them aren't read.
    pub(crate) fn check(
        &self,
        codecs: &Codecs,
        mut blob: impl FnMut(Digest) -> Result<Vec<u8>, LogError>,
    ) -> Result<(), LogError> {
        let damaged = |reason: String| LogError::Damaged { stream: self.stream.into(), reason };
        let details = &self.summary.details;
        codecs
            .check(&self.kind, RecordType::Details, details.kind, &details.content)
            .map_err(|error| damaged(format!("its summary: {error}")))?;
        let (mut number, mut chain) = (self.base, self.base_digest);
        let mut snapshot_chain =
            (self.snapshot.as_ref().map(|snapshot| snapshot.sequence) == Some(number)).then_some(chain);
        for event in &self.events {
            number = number.saturating_add(1);
            chain = chain_digest(chain, event);
            if self.snapshot.as_ref().is_some_and(|snapshot| snapshot.sequence == number) {
                snapshot_chain = Some(chain);
            }
            self.check_record(codecs, Family::Event, RecordType::Event, number, event, &mut blob)?;
        }
        if number != self.last || chain != self.digest {
            return Err(damaged(format!(
                "its {number} events do not match the recorded end (event {}) and digest",
                self.last
            )));
        }
        if let Some(snapshot) = &self.snapshot {
            let (sequence, frame) = (snapshot.sequence, &snapshot.frame);
            self.check_record(codecs, Family::Snapshot, RecordType::Snapshot, sequence, frame, &mut blob)?;
            if snapshot_chain != Some(snapshot.digest) {
                return Err(damaged("its snapshot does not match its events".to_owned()));
            }
        }
        Ok(())
    }

    fn check_record(
        &self,
        codecs: &Codecs,
        family: Family,
        part: RecordType,
        number: u64,
        record: &[u8],
        blob: &mut impl FnMut(Digest) -> Result<Vec<u8>, LogError>,
    ) -> Result<(), LogError> {
        let damaged = |error: frame::FrameError| match error {
            frame::FrameError::NewerKind { kind, highest } => LogError::NewerRecord { kind, highest },
            error => LogError::Damaged {
                stream: self.stream.into(),
                reason: format!("{} {number}: {error}", family.name()),
            },
        };
        let address = Address { family, stream: self.stream, number };
        let framed = frame::open_frame(family, address.stream, Some(number), record).map_err(damaged)?;
        let checked = match content_location(&framed).map_err(damaged)? {
            ContentLocation::Inline(content) => codecs.check(&self.kind, part, framed.kind, content),
            ContentLocation::Blob(digest) => codecs.check(&self.kind, part, framed.kind, &blob(digest)?),
        };
        checked.map_err(damaged)
    }
}

/// Returns the blob with the content of a framed record, if the content isn't in the record itself.
pub(crate) fn external_blob(record: &[u8]) -> Option<Digest> {
    let (framed, _) = frame::parse_frame(record).ok()?;
    match content_location(&framed).ok()? {
        ContentLocation::Blob(digest) => Some(digest),
        ContentLocation::Inline(_) => None,
    }
}
