//! Inventories in the database: one row per application and cluster. Large inventories are stored in blobs.

use std::collections::BTreeMap;

use tidegate_model::{Digest, StreamId};

use super::database::Database;
use super::record::{self, ContentLocation, INLINE_MAX_BYTES};
use super::{SledLog, State, keys};
use crate::blobs::BlobStore;
use crate::frame::{self, Address, Family, FrameError};
use crate::inventory::{self, InventoryRow};
use crate::{ApplicationInventory, InventoryUpdate, LogError};

/// Record kind of these rows.
const KIND: u16 = 1;

/// Changed inventories of a group, as of the appends processed so far.
#[derive(Default)]
pub(super) struct InventoryChanges {
    rows: BTreeMap<StreamId, (u64, Option<InventoryRow>, bool)>,
}

impl SledLog {
    pub(super) fn find_inventory(
        &self,
        cluster: &str,
        application: &str,
    ) -> Result<Option<ApplicationInventory>, LogError> {
        let _state = self.lock();
        let (_, row) = self.read_inventory(inventory::inventory_id(cluster, application))?;
        Ok(row.filter(|row| is_inventory_of(row, cluster, application)).map(|row| row.known))
    }

    /// Returns an inventory and its revision. A damaged inventory counts as missing, so that the cluster is
    /// searched.
    fn read_inventory(&self, id: StreamId) -> Result<(u64, Option<InventoryRow>), LogError> {
        let Some(row) = self.database.get(&keys::prefix(keys::INVENTORY, id))? else { return Ok((0, None)) };
        let read = || -> Result<(u64, Option<InventoryRow>), record::ReadError> {
            let framed = open_row(id, &row)?;
            let number = framed.address.number;
            let stored = match record::content_location(&framed)? {
                ContentLocation::Inline(content) => frame::decode_content(content)?,
                ContentLocation::Blob(digest) => frame::decode_content(&self.blobs.get(digest)?)?,
            };
            Ok((number, Some(stored)))
        };
        match read() {
            Ok(found) => Ok(found),
            Err(record::ReadError::Log(error))
                if !matches!(error, LogError::BlobMissing { .. } | LogError::BlobDamaged { .. }) =>
            {
                Err(error)
            }
            Err(error) => {
                tracing::warn!(%error, "an inventory is damaged; searching the cluster instead");
                // The next revision must exceed that of the damaged inventory.
                let number = frame::parse_frame(&row).map_or(0, |(framed, _)| framed.address.number);
                Ok((number, None))
            }
        }
    }

    /// Returns all intact inventories, each with its cluster and application.
    pub(super) fn list_inventories(&self) -> Result<Vec<(String, String, ApplicationInventory)>, LogError> {
        let _state = self.lock();
        let mut found = Vec::new();
        for (key, _) in self.database.rows(&[keys::INVENTORY])? {
            if let Some(keys::Key::Inventory(id)) = keys::parse(&key)
                && let (_, Some(row)) = self.read_inventory(id)?
            {
                found.push((row.cluster, row.application, row.known));
            }
        }
        Ok(found)
    }

    pub(super) fn write_inventory_change(&self, update: &InventoryUpdate) -> Result<(), LogError> {
        let mut state = self.lock_to_write()?;
        let (mut changed, mut batch) = (InventoryChanges::default(), sled::Batch::default());
        self.add_inventory(&mut changed, update)?;
        let places = self.write_or_poison(|| {
            let places = self.inventory_rows(changed, &mut batch)?;
            self.database.commit(batch)?;
            Ok(places)
        })?;
        state.stats.flushes += 1;
        state.place_inventories(places);
        Ok(())
    }

    /// Applies an update to the inventories of a group.
    pub(super) fn add_inventory(
        &self,
        changed: &mut InventoryChanges,
        InventoryUpdate { application, cluster, changes }: &InventoryUpdate,
    ) -> Result<(), LogError> {
        let id = inventory::inventory_id(cluster, application);
        let (_, row, dirty) = match changed.rows.entry(id) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let (revision, row) = self.read_inventory(id)?;
                entry.insert((revision, row, false))
            }
        };
        for change in changes {
            let before = row.as_ref().filter(|row| is_inventory_of(row, cluster, application));
            if let Some(known) = change.apply(before.map(|row| &row.known)) {
                let (cluster, application) = (cluster.clone(), application.clone());
                *row = Some(InventoryRow { cluster, application, known });
                *dirty = true;
            }
        }
        Ok(())
    }

    /// Adds the changed rows to the batch. Returns the ID of each inventory, with its blob if it is large.
    pub(super) fn inventory_rows(
        &self,
        changed: InventoryChanges,
        batch: &mut sled::Batch,
    ) -> Result<Vec<(StreamId, Option<Digest>)>, LogError> {
        let mut places = Vec::new();
        for (id, (revision, row, dirty)) in changed.rows {
            let Some(row) = row.filter(|_| dirty) else { continue };
            let address =
                Address { family: Family::Inventory, stream: id, number: revision.saturating_add(1) };
            let content = frame::encode_content(Family::Inventory.name(), &row)?;
            let blob = match content.len() <= INLINE_MAX_BYTES {
                true => None,
                false => Some(self.blobs.put(&content)?),
            };
            let row = match &blob {
                None => frame::frame_record(address, KIND, false, &content)?,
                Some(digest) => frame::frame_record(address, KIND, true, &digest.0)?,
            };
            batch.insert(keys::prefix(keys::INVENTORY, id), row);
            places.push((id, blob));
        }
        Ok(places)
    }

    /// Returns the blobs of large inventories.
    pub(super) fn inventory_blobs(&self) -> Result<Vec<(StreamId, Digest)>, LogError> {
        let mut blobs = Vec::new();
        for (key, row) in self.database.rows(&[keys::INVENTORY])? {
            if let Some(keys::Key::Inventory(id)) = keys::parse(&key)
                && let Ok(framed) = open_row(id, &row)
                && let Ok(ContentLocation::Blob(digest)) = record::content_location(&framed)
            {
                blobs.push((id, digest));
            }
        }
        Ok(blobs)
    }
}

impl State {
    /// Records the current blob of each changed inventory, if any.
    pub(super) fn place_inventories(&mut self, places: Vec<(StreamId, Option<Digest>)>) {
        for (id, blob) in places {
            self.agenda.blobs.extend(self.ledger.blobs().set_inventory(id, blob));
        }
    }
}

fn is_inventory_of(row: &InventoryRow, cluster: &str, application: &str) -> bool {
    row.cluster == cluster && row.application == application
}

fn open_row(id: StreamId, row: &[u8]) -> Result<frame::FramedRecord<'_>, FrameError> {
    let framed = frame::open_frame(Family::Inventory, id, None, row)?;
    if framed.kind > KIND {
        return Err(FrameError::NewerKind { kind: framed.kind, highest: KIND });
    }
    Ok(framed)
}

/// Describes the damage to an inventory row, or returns `None` if it is intact.
pub(super) fn check_row(
    database: &Database,
    blobs: &BlobStore,
    id: StreamId,
) -> Result<Option<String>, LogError> {
    let Some(row) = database.get(&keys::prefix(keys::INVENTORY, id))? else { return Ok(None) };
    let checked = open_row(id, &row).and_then(|framed| match record::content_location(&framed)? {
        ContentLocation::Inline(content) => frame::decode_content::<InventoryRow>(content).map(drop),
        ContentLocation::Blob(digest) => {
            blobs.check(digest).map_err(|error| FrameError::InvalidContent(error.to_string()))
        }
    });
    Ok(checked.err().map(|error| error.to_string()))
}
