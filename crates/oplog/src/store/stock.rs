//! Inventories in the database: one row per application and cluster, in a blob when it is large.

use std::collections::BTreeMap;

use tidegate_model::{Digest, StreamId};

use super::database::Database;
use super::record::{self, Held, INLINE_MAX_BYTES};
use super::{SledLog, keys};
use crate::blobs::BlobStore;
use crate::frame::{self, Address, Family, FrameError};
use crate::inventory::{self, Kept};
use crate::{InventoryUpdate, Known, LogError};

/// Earlier programs wrote kind 1, with all that a search of the cluster had found. What of it is another's cannot be told,
/// so such an inventory is as good as none.
const KIND: u16 = 2;

/// The inventories a group changes, as they are after the appends so far.
#[derive(Default)]
pub(super) struct Changed {
    rows: BTreeMap<StreamId, (u64, Option<Kept>, bool)>,
}

impl SledLog {
    pub(super) fn inventory_of(&self, cluster: &str, application: &str) -> Result<Option<Known>, LogError> {
        let _state = self.lock();
        let (_, kept) = self.read_inventory(inventory::id(cluster, application))?;
        Ok(kept.filter(|kept| is_of(kept, cluster, application)).map(|kept| kept.known))
    }

    /// An inventory and its revision. One that is damaged is as good as none: the cluster is then searched.
    fn read_inventory(&self, id: StreamId) -> Result<(u64, Option<Kept>), LogError> {
        let Some(row) = self.database.get(&keys::of(keys::INVENTORY, id))? else { return Ok((0, None)) };
        let read = || -> Result<(u64, Option<Kept>), record::ReadError> {
            let framed = open(id, &row)?;
            let number = framed.address.number;
            if framed.kind < KIND {
                return Ok((number, None));
            }
            let kept = match record::held(&framed)? {
                Held::Inline(content) => frame::decode(content)?,
                Held::Blob(digest) => frame::decode(&self.blobs.get(digest)?)?,
            };
            Ok((number, Some(kept)))
        };
        match read() {
            Ok(found) => Ok(found),
            Err(record::ReadError::Log(error))
                if !matches!(error, LogError::BlobMissing { .. } | LogError::BlobDamaged { .. }) =>
            {
                Err(error)
            }
            Err(error) => {
                tracing::warn!(%error, "an inventory is damaged; the cluster is searched instead");
                // Whatever number it had, the next one is higher.
                let number = frame::parse(&row).map_or(0, |(framed, _)| framed.address.number);
                Ok((number, None))
            }
        }
    }

    /// Changes an inventory without an append.
    pub(super) fn change_inventory_alone(&self, update: &InventoryUpdate) -> Result<(), LogError> {
        let mut state = self.lock_to_write()?;
        let (mut changed, mut batch) = (Changed::default(), sled::Batch::default());
        self.add_inventory(&mut changed, update)?;
        self.poisoning(|| {
            self.inventory_rows(changed, &mut batch)?;
            self.database.commit(batch)
        })?;
        state.stats.flushes += 1;
        Ok(())
    }

    /// Takes in what an update changes.
    pub(super) fn add_inventory(
        &self,
        changed: &mut Changed,
        InventoryUpdate { application, cluster, changes }: &InventoryUpdate,
    ) -> Result<(), LogError> {
        let id = inventory::id(cluster, application);
        let (_, kept, dirty) = match changed.rows.entry(id) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let (revision, kept) = self.read_inventory(id)?;
                entry.insert((revision, kept, false))
            }
        };
        for change in changes {
            let before = kept.as_ref().filter(|kept| is_of(kept, cluster, application));
            if let Some(known) = change.apply(before.map(|kept| &kept.known)) {
                let (cluster, application) = (cluster.clone(), application.clone());
                *kept = Some(Kept { cluster, application, known });
                *dirty = true;
            }
        }
        Ok(())
    }

    /// The rows to write.
    pub(super) fn inventory_rows(&self, changed: Changed, batch: &mut sled::Batch) -> Result<(), LogError> {
        for (id, (revision, kept, dirty)) in changed.rows {
            let Some(kept) = kept.filter(|_| dirty) else { continue };
            let address =
                Address { family: Family::Inventory, stream: id, number: revision.saturating_add(1) };
            let content = frame::encode(Family::Inventory.name(), &kept)?;
            let row = if content.len() <= INLINE_MAX_BYTES {
                frame::seal(address, KIND, false, &content)?
            } else {
                frame::seal(address, KIND, true, &self.blobs.put(&content)?.0)?
            };
            batch.insert(keys::of(keys::INVENTORY, id), row);
        }
        Ok(())
    }

    /// The blobs that hold inventories.
    pub(super) fn inventory_blobs(&self) -> Result<Vec<Digest>, LogError> {
        let mut blobs = Vec::new();
        for (key, row) in self.database.rows(&[keys::INVENTORY])? {
            if let Some(keys::Key::Inventory(id)) = keys::parse(&key)
                && let Ok(framed) = open(id, &row)
                && let Ok(Held::Blob(digest)) = record::held(&framed)
            {
                blobs.push(digest);
            }
        }
        Ok(blobs)
    }
}

fn is_of(kept: &Kept, cluster: &str, application: &str) -> bool {
    kept.cluster == cluster && kept.application == application
}

fn open(id: StreamId, row: &[u8]) -> Result<frame::Framed<'_>, FrameError> {
    let framed = frame::open(Family::Inventory, id, None, row)?;
    if framed.kind > KIND {
        return Err(FrameError::NewerKind { kind: framed.kind, highest: KIND });
    }
    Ok(framed)
}

/// What is wrong with the row of an inventory, if anything is.
pub(super) fn check(
    database: &Database,
    blobs: &BlobStore,
    id: StreamId,
) -> Result<Option<String>, LogError> {
    let Some(row) = database.get(&keys::of(keys::INVENTORY, id))? else { return Ok(None) };
    let checked = open(id, &row).and_then(|framed| match record::held(&framed)? {
        Held::Inline(_) if framed.kind < KIND => Ok(()),
        Held::Inline(content) => frame::decode::<Kept>(content).map(drop),
        Held::Blob(digest) => blobs.check(digest).map_err(|error| FrameError::Content(error.to_string())),
    });
    Ok(checked.err().map(|error| error.to_string()))
}
