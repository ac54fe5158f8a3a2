//! Streams of a log on disk as images, for copies of a log.

use std::collections::BTreeSet;

use tidegate_model::{Digest, StreamId};

use super::head::{Head, SnapshotMark};
use super::keys::{self, Key};
use super::listing::ListingRow;
use super::record::{encode_reference, encode_row};
use super::{LiveStream, SledLog};
use crate::image::{ImageStore, SnapshotImage, StreamImage, external_blob};
use crate::inventory::update_to;
use crate::{
    ApplicationInventory, Codecs, ImpairedStream, Inventories as _, LogError, LogKey, OperationLog as _,
    marks,
};

impl SledLog {
    /// Returns the key that encrypts the blobs, if it is known.
    pub fn key(&self) -> Option<LogKey> {
        self.blobs.key()
    }

    /// Returns true if the log is marked as moved to a database.
    pub fn is_moved(&self) -> Result<bool, LogError> {
        marks::is_moved(&self.directory)
    }

    /// Adds the rows of a stream to a batch. Returns the state of the stream.
    fn add_image(image: StreamImage, batch: &mut sled::Batch) -> Result<LiveStream, LogError> {
        let stream = image.stream;
        let blob = image.snapshot_blob();
        let mut head = Head {
            // The revision only has to be the same in the summary, and lower than that of later changes.
            revision: image.last.max(1),
            base: image.base,
            base_digest: image.base_digest,
            last: image.last,
            digest: image.digest,
            snapshot: None,
            references: 0,
            reduced: image.is_reduced,
            epoch: image.epoch,
            taken_by: image.taken_by,
        };
        for (number, event) in (image.base.saturating_add(1)..).zip(image.events) {
            batch.insert(keys::event(stream, number), event);
        }
        if let Some(SnapshotImage { sequence, digest, frame }) = image.snapshot {
            batch.insert(keys::snapshot(stream, sequence), frame);
            head.snapshot = Some(SnapshotMark { sequence, digest, blob });
        }
        for digest in image.references {
            batch.insert(keys::reference(stream, digest), encode_reference(stream, digest)?);
            head.references = head.references.saturating_add(1);
        }
        let line = ListingRow::new(&image.kind, &image.summary);
        batch.insert(keys::prefix(keys::SUMMARY, stream), encode_row(stream, head.revision, &line)?);
        batch.insert(keys::prefix(keys::HEAD, stream), encode_row(stream, head.revision, &head)?);
        let live = LiveStream::new(head, &line);
        live.index_keys(stream).for_each(|key| batch.insert(key, &[][..]));
        Ok(live)
    }
}

impl ImageStore for SledLog {
    fn location(&self) -> String {
        self.directory.display().to_string()
    }

    fn stream_ids(&self) -> Result<Vec<StreamId>, LogError> {
        self.ids()
    }

    fn damaged_streams(&self) -> Vec<ImpairedStream> {
        self.impaired_streams()
    }

    fn codecs(&self) -> &Codecs {
        &self.codecs
    }

    fn read_image(&self, stream: StreamId) -> Result<StreamImage, LogError> {
        let state = self.lock();
        let live = self.find_stream(&state, stream)?;
        let summary = self.read_entry(stream, live)?.summary;
        let head = &live.head;
        let (mut events, mut references, mut snapshot) = (Vec::new(), BTreeSet::new(), None);
        if !head.reduced {
            let first = keys::event(stream, head.base.saturating_add(1));
            let rows = self.database.rows_between(&first, &keys::event(stream, head.last))?;
            events.extend(rows.iter().map(|(_, row)| row.to_vec()));
            for (key, _) in self.database.rows(&keys::prefix(keys::REFERENCE, stream))? {
                if let Some(Key::Reference(_, digest)) = keys::parse(&key) {
                    references.insert(digest);
                }
            }
            if let Some(SnapshotMark { sequence, digest, .. }) = head.snapshot {
                let row = self.database.get(&keys::snapshot(stream, sequence))?;
                let frame = row.map(|row| row.to_vec()).ok_or_else(|| LogError::Damaged {
                    stream: stream.into(),
                    reason: "its snapshot is missing".to_owned(),
                })?;
                references.extend(external_blob(&frame));
                snapshot = Some(SnapshotImage { sequence, digest, frame });
            }
        }
        Ok(StreamImage {
            stream,
            kind: live.kind.clone(),
            summary,
            epoch: head.epoch,
            taken_by: head.taken_by.clone(),
            base: head.base,
            base_digest: head.base_digest,
            last: head.last,
            digest: head.digest,
            is_reduced: head.reduced,
            events,
            snapshot,
            references,
        })
    }

    fn write_images(&self, images: Vec<StreamImage>) -> Result<(), LogError> {
        let mut state = self.lock_to_write()?;
        let (mut batch, mut added) = (sled::Batch::default(), Vec::new());
        for image in images {
            added.push((image.stream, Self::add_image(image, &mut batch)?));
        }
        self.write_or_poison(|| {
            self.database.commit(batch)?;
            state.witness.add(added.iter().map(|(stream, live)| LiveStream::witness_note((stream, live))))?;
            self.check_in_place(&state)?;
            added.into_iter().for_each(|(stream, live)| state.put_stream(stream, live));
            if state.witness.is_full() { self.renew_witness(&mut state) } else { Ok(()) }
        })
    }

    fn sealed_blob(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        self.blobs.sealed(digest)
    }

    fn unseal_blob(&self, digest: Digest, sealed: &[u8]) -> Result<Vec<u8>, LogError> {
        self.blobs.unseal(digest, sealed)
    }

    fn has_blob(&self, digest: Digest) -> Result<bool, LogError> {
        match self.blobs.check(digest) {
            Ok(()) => Ok(true),
            Err(LogError::BlobMissing { .. } | LogError::BlobDamaged { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn write_sealed_blob(&self, digest: Digest, sealed: &[u8]) -> Result<(), LogError> {
        self.guard.check_writable(&self.directory)?;
        self.blobs.put_sealed(digest, sealed)
    }

    fn read_inventories(&self) -> Result<Vec<(String, String, ApplicationInventory)>, LogError> {
        self.list_inventories()
    }

    fn write_inventory(
        &self,
        cluster: &str,
        application: &str,
        inventory: &ApplicationInventory,
    ) -> Result<(), LogError> {
        self.change_inventory(&update_to(cluster, application, inventory))
    }

    fn mark_incomplete(&self, source_log: &str) -> Result<(), LogError> {
        let _state = self.lock_to_write()?;
        marks::set_incomplete(&self.directory, source_log)
    }

    fn mark_complete(&self) -> Result<(), LogError> {
        let _state = self.lock_to_write()?;
        marks::clear_incomplete(&self.directory)
    }

    fn mark_moved(&self, to: &str) -> Result<(), LogError> {
        let _state = self.lock_to_write()?;
        marks::set_moved(&self.directory, to)
    }
}
