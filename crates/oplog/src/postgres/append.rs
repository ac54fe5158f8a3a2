//! Appends: one fenced transaction per group.
//!
//! The transaction first locks the rows of its shards, which must still belong to this replica, and then moves the
//! head of each stream from exactly the expected sequence number and digest to the next. If anything differs, the
//! statement fails and nothing is written. All statements are sent at once, so the transaction never waits for
//! this process.
//!
//! If the connection fails before the answer arrives, the outcome is unknown. The writer then raises the epochs of
//! its shards, which waits for the transaction in doubt and prevents it from committing later. After that, the
//! digests of the heads show the outcome.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use sha2::{Digest as _, Sha256};
use tidegate_model::{Digest, StreamId, StreamKind};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Inner;
use super::connection::{Parameter, call_error, within};
use crate::append_checks::{self, AppendState};
use crate::frame::{self, Address, Family};
use crate::inventory::{InventoryRow, inventory_id};
use crate::store::chain_digest;
use crate::{
    ApplicationInventory, Epoch, InventoryUpdate, LogError, RawAppend, Record, Shard, StreamName, Summary,
};

/// Class of the errors about exhausted resources.
const RESOURCES_CLASS: &str = "53";
/// Maximum number of statements that [`join_all`] polls in order.
const IN_ORDER_MAX: usize = 30;

/// Stream state that the next append is checked against.
#[derive(Clone, Debug)]
pub(super) struct StreamHead {
    pub(super) state: AppendState,
    pub(super) shard: i16,
    /// Chain digest of the events up to the last.
    pub(super) digest: Digest,
    pub(super) is_reduced: bool,
    /// Digest of the stored details, if known.
    details: Option<[u8; 32]>,
}

/// Changes of one group to a stream.
pub(super) struct StreamChange {
    pub(super) before: Option<StreamHead>,
    pub(super) after: StreamHead,
    summary: Summary<Record>,
    /// Framed events, and the sequence number of the first.
    frames: Vec<u8>,
    events: u64,
    snapshot: Option<(u64, Digest, Vec<u8>)>,
    references: BTreeSet<Digest>,
}

/// Rows to be written by a group.
#[derive(Default)]
pub(super) struct GroupRows {
    pub(super) streams: BTreeMap<StreamId, StreamChange>,
    inventories: BTreeMap<(String, String), (i16, ApplicationInventory)>,
    /// Blobs that the group refers to, once per reference.
    pub(super) claimed: Vec<Digest>,
    /// Blobs that this replica no longer has to protect.
    released: BTreeSet<Digest>,
    pub(super) events: u64,
    pub(super) bytes: u64,
}

/// Reason why a group was not written, or may not have been.
pub(super) enum CommitError {
    /// A shard no longer belongs to this replica, or has another epoch.
    Fence,
    /// A stream has another head than expected.
    Heads,
    /// A referenced blob is missing.
    Blob,
    /// The database aborted the transaction and it can be repeated.
    Retry(LogError),
    /// The outcome is unknown.
    Unknown(LogError),
    /// The database rejected the group.
    Rejected(LogError),
}

impl StreamChange {
    pub(super) fn is_open(&self) -> bool {
        self.summary.is_open()
    }
}

impl Inner {
    /// Checks a group and computes its rows.
    pub(super) async fn prepare(
        &self,
        client: &Client,
        tenure: &BTreeMap<i16, i64>,
        heads: &mut HashMap<StreamId, StreamHead>,
        group: &[RawAppend],
        fresh: bool,
    ) -> Result<GroupRows, LogError> {
        for append in group {
            if !self.codecs.has_kind(&append.kind) {
                return Err(LogError::UnknownKind { stream: append.stream, kind: append.kind.clone() });
            }
            append_checks::check_append_size(append)?;
        }
        // A first event most likely begins a new stream. If the stream exists, the group is rejected, and prepared
        // again with its head.
        let unknown: Vec<Uuid> = group
            .iter()
            .filter(|append| !heads.contains_key(&append.stream) && (fresh || append.first_sequence != 1))
            .map(|append| append.stream.0)
            .collect();
        if !unknown.is_empty() {
            heads.extend(self.read_heads(client, &unknown).await?);
        }
        self.check_blobs(client, group).await?;
        let mut rows = GroupRows::default();
        for append in group {
            self.add_append(&mut rows, heads, append)?;
            let shard = rows.streams.get(&append.stream).map(|change| change.after.shard);
            let other = shard.filter(|shard| !tenure.contains_key(shard));
            if let Some(shard) = other.and_then(Shard::from_row) {
                let stream = StreamName::with_kind(append.kind.clone(), append.stream);
                return Err(LogError::OtherReplica { stream, shard });
            }
            if let Some(update) = &append.inventory {
                let shard = rows.streams.get(&append.stream).map_or(0, |change| change.after.shard);
                self.add_inventory(client, &mut rows, update, shard).await?;
            }
        }
        rows.claimed = group.iter().flat_map(|append| append.blobs.iter().copied()).collect();
        rows.released = self.released_holds(&rows.claimed);
        Ok(rows)
    }

    fn add_append(
        &self,
        rows: &mut GroupRows,
        heads: &HashMap<StreamId, StreamHead>,
        append: &RawAppend,
    ) -> Result<(), LogError> {
        let stream = append.stream;
        let change = rows.streams.entry(stream).or_insert_with(|| {
            let before = heads.get(&stream).cloned();
            let after = before.clone().unwrap_or_else(|| StreamHead {
                state: AppendState::new(append.kind.clone()),
                shard: append.shard.unwrap_or_else(|| append.summary.default_shard(stream)).number(),
                digest: Digest([0; 32]),
                is_reduced: false,
                details: None,
            });
            StreamChange {
                before,
                after,
                summary: append.summary.clone(),
                frames: Vec::new(),
                events: 0,
                snapshot: None,
                references: BTreeSet::new(),
            }
        });
        let head = &mut change.after;
        if head.is_reduced {
            return Err(LogError::Compacted { stream: StreamName::with_kind(append.kind.clone(), stream) });
        }
        head.state.check_append(append)?;
        for (number, event) in (append.first_sequence..).zip(&append.events) {
            let address = Address { family: Family::Event, stream, number };
            let record = frame::frame_record(address, event.kind, false, &event.content)?;
            head.digest = chain_digest(head.digest, &record);
            rows.bytes = rows.bytes.saturating_add(length(&record));
            change.frames.extend_from_slice(&record);
        }
        head.state.advance(append, &self.name);
        if let Some(snapshot) = &append.snapshot {
            let number = head.state.last;
            let address = Address { family: Family::Snapshot, stream, number };
            let record = frame::frame_record(address, snapshot.kind, false, &snapshot.content)?;
            rows.bytes = rows.bytes.saturating_add(length(&record));
            change.snapshot = Some((number, head.digest, record));
        }
        change.events = change.events.saturating_add(count(append.events.len()));
        rows.events = rows.events.saturating_add(count(append.events.len()));
        change.references.extend(append.blobs.iter().copied());
        change.summary.clone_from(&append.summary);
        Ok(())
    }

    /// Rejects references to blobs that don't exist. Blobs that this replica has stored and not referred to yet
    /// can't have been removed.
    async fn check_blobs(&self, client: &Client, group: &[RawAppend]) -> Result<(), LogError> {
        let wanted: BTreeSet<Digest> = {
            let holds = self.lock_holds();
            group
                .iter()
                .flat_map(|append| &append.blobs)
                .copied()
                .filter(|digest| !holds.contains_key(digest))
                .collect()
        };
        if wanted.is_empty() {
            return Ok(());
        }
        let digests: Vec<&[u8]> = wanted.iter().map(|digest| digest.0.as_slice()).collect();
        let found = within("look up blobs", async {
            client
                .query_typed(
                    "SELECT digest FROM blob WHERE digest = ANY($1)",
                    &[(&digests, Type::BYTEA_ARRAY)],
                )
                .await?
                .iter()
                .map(|row| row.try_get::<_, Vec<u8>>(0))
                .collect::<Result<BTreeSet<_>, _>>()
        })
        .await?;
        match wanted.into_iter().find(|digest| !found.contains(digest.0.as_slice())) {
            Some(digest) => Err(LogError::BlobMissing { digest }),
            None => Ok(()),
        }
    }

    /// Applies an update to the inventories of a group.
    pub(super) async fn add_inventory(
        &self,
        client: &Client,
        rows: &mut GroupRows,
        InventoryUpdate { application, cluster, changes }: &InventoryUpdate,
        shard: i16,
    ) -> Result<(), LogError> {
        let key = (cluster.clone(), application.clone());
        let mut known = match rows.inventories.get(&key) {
            Some((_, known)) => Some(known.clone()),
            None => read_inventory(client, cluster, application).await?,
        };
        for change in changes {
            if let Some(after) = change.apply(known.as_ref()) {
                rows.inventories.insert(key.clone(), (shard, after.clone()));
                known = Some(after);
            }
        }
        Ok(())
    }

    /// Reads the heads of streams. Streams that don't exist are missing from the result.
    pub(super) async fn read_heads(
        &self,
        client: &Client,
        streams: &[Uuid],
    ) -> Result<HashMap<StreamId, StreamHead>, LogError> {
        const QUERY: &str = "SELECT id, kind, kind_name, shard, last, digest, epoch, taken_by, reduced FROM stream \
             WHERE id = ANY($1)";
        within("read streams", async {
            let rows = client.query_typed(QUERY, &[(&streams, Type::UUID_ARRAY)]).await?;
            rows.iter()
                .map(|row| {
                    let kind = kind(row.try_get(1)?, row.try_get(2)?);
                    let mut state = AppendState::new(kind);
                    state.last = unsigned(row.try_get(4)?);
                    state.epoch = Epoch::new(unsigned(row.try_get(6)?)).unwrap_or(Epoch::FIRST);
                    state.taken_by = row.try_get(7)?;
                    let head = StreamHead {
                        state,
                        shard: row.try_get(3)?,
                        digest: digest(row.try_get(5)?),
                        is_reduced: row.try_get(8)?,
                        details: None,
                    };
                    Ok((StreamId(row.try_get(0)?), head))
                })
                .collect()
        })
        .await
    }

    /// Writes the rows in one transaction under the fence.
    pub(super) async fn commit(
        &self,
        client: &Client,
        tenure: &BTreeMap<i16, i64>,
        rows: &mut GroupRows,
    ) -> Result<(), CommitError> {
        let mut shards: BTreeSet<i16> = rows.streams.values().map(|change| change.after.shard).collect();
        shards.extend(rows.inventories.values().map(|(shard, _)| *shard));
        let Some(fence) = fence_statement(&shards, tenure, self.incarnation) else {
            return Err(CommitError::Fence);
        };
        let statements = Statements::new(rows)?;
        let begin = format!("BEGIN; {fence}");
        let mut calls: Vec<BoxFuture<'_, Result<(), (Step, tokio_postgres::Error)>>> = Vec::new();
        calls
            .push(async { client.batch_execute(&begin).await.map_err(|error| (Step::Fence, error)) }.boxed());
        for (step, sql, parameters) in statements.parameters(&self.incarnation) {
            calls.push(
                async move {
                    client.query_typed(sql, &parameters).await.map(drop).map_err(|error| (step, error))
                }
                .boxed(),
            );
        }
        calls.push(
            async { client.batch_execute("COMMIT").await.map_err(|error| (Step::Commit, error)) }.boxed(),
        );
        // `join_all` sends the statements in this order, before the first answer.
        debug_assert!(calls.len() <= IN_ORDER_MAX, "join_all would not poll these in order");
        let results = tokio::time::timeout(super::connection::CALL_TIMEOUT, join_all(calls)).await;
        let Ok(results) = results else {
            return Err(CommitError::Unknown(LogError::Unavailable {
                target: self.target.to_string(),
                reason: "the database did not confirm a write in time".to_owned(),
            }));
        };
        // Later statements fail only because the transaction was aborted.
        match results.into_iter().find_map(Result::err) {
            None => Ok(()),
            Some((step, error)) => Err(commit_error(step, &error)),
        }
    }
}

/// Part of the transaction, for its errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Fence,
    Heads,
    Rows,
    References,
    Commit,
}

fn commit_error(step: Step, error: &tokio_postgres::Error) -> CommitError {
    let mapped = call_error("write", error);
    match error.code() {
        None => CommitError::Unknown(mapped),
        Some(code) if *code == SqlState::DIVISION_BY_ZERO && step == Step::Fence => CommitError::Fence,
        Some(code) if *code == SqlState::DIVISION_BY_ZERO && step == Step::Heads => CommitError::Heads,
        Some(code) if *code == SqlState::FOREIGN_KEY_VIOLATION && step == Step::References => {
            CommitError::Blob
        }
        Some(code)
            if *code == SqlState::T_R_DEADLOCK_DETECTED
                || *code == SqlState::T_R_SERIALIZATION_FAILURE
                || *code == SqlState::LOCK_NOT_AVAILABLE =>
        {
            CommitError::Retry(mapped)
        }
        // The statement was rejected, for example because the disk is full.
        Some(code) if code.code().starts_with(RESOURCES_CLASS) && step != Step::Commit => {
            CommitError::Retry(mapped)
        }
        // The session ended, possibly after the commit.
        Some(_) if matches!(mapped, LogError::Unavailable { .. }) => CommitError::Unknown(mapped),
        Some(_) => CommitError::Rejected(mapped),
    }
}

/// Returns the statement that locks the shards, and fails unless all of them belong to this replica in the known
/// epochs. Returns `None` if this replica doesn't own one of them.
pub(super) fn fence_statement(
    shards: &BTreeSet<i16>,
    tenure: &BTreeMap<i16, i64>,
    incarnation: Uuid,
) -> Option<String> {
    let pairs: Option<Vec<String>> =
        shards.iter().map(|shard| tenure.get(shard).map(|epoch| format!("({shard},{epoch})"))).collect();
    let (pairs, count) = (pairs?.join(","), shards.len());
    if count == 0 {
        return Some("SELECT 1".to_owned());
    }
    // Ordered by ID, as a takeover locks them.
    Some(format!(
        "SELECT 1/(count(*) = {count})::int FROM (SELECT 1 FROM shard WHERE (id, epoch) IN ({pairs}) AND owner = \
         '{incarnation}' ORDER BY id FOR SHARE) locked"
    ))
}

/// Columns of the rows in a group.
#[derive(Default)]
struct Statements<'a> {
    new: StreamColumns<'a>,
    old: StreamColumns<'a>,
    batches: BatchColumns<'a>,
    details: DetailColumns<'a>,
    snapshots: SnapshotColumns<'a>,
    references: ReferenceColumns<'a>,
    released: Vec<&'a [u8]>,
    inventories: InventoryColumns<'a>,
}

#[derive(Default)]
struct StreamColumns<'a> {
    id: Vec<Uuid>,
    shard: Vec<i16>,
    kind: Vec<i32>,
    kind_name: Vec<&'a str>,
    application: Vec<Option<&'a str>>,
    appset: Vec<Option<&'a str>>,
    started_at: Vec<i64>,
    finished_at: Vec<Option<i64>>,
    epoch: Vec<i64>,
    taken_by: Vec<&'a str>,
    last: Vec<i64>,
    digest: Vec<&'a [u8]>,
    snapshot: Vec<Option<i64>>,
    previous: Vec<i64>,
    previous_digest: Vec<&'a [u8]>,
}

#[derive(Default)]
struct BatchColumns<'a> {
    stream: Vec<Uuid>,
    first: Vec<i64>,
    last: Vec<i64>,
    frames: Vec<&'a [u8]>,
}

#[derive(Default)]
struct DetailColumns<'a> {
    stream: Vec<Uuid>,
    kind: Vec<i32>,
    content: Vec<&'a [u8]>,
}

#[derive(Default)]
struct SnapshotColumns<'a> {
    stream: Vec<Uuid>,
    sequence: Vec<i64>,
    digest: Vec<&'a [u8]>,
    frame: Vec<&'a [u8]>,
}

#[derive(Default)]
struct ReferenceColumns<'a> {
    stream: Vec<Uuid>,
    digest: Vec<&'a [u8]>,
}

#[derive(Default)]
struct InventoryColumns<'a> {
    cluster: Vec<&'a str>,
    application: Vec<&'a str>,
    content: Vec<Vec<u8>>,
}

impl<'a> Statements<'a> {
    fn new(rows: &'a mut GroupRows) -> Result<Self, CommitError> {
        let mut all = Self::default();
        for change in rows.streams.values_mut() {
            let details = Sha256::digest(&change.summary.details.content).into();
            change.after.details = Some(details);
        }
        for (stream, change) in &rows.streams {
            let StreamChange { before, after, summary, frames, events, snapshot, references } = change;
            let columns = if before.is_some() { &mut all.old } else { &mut all.new };
            columns.id.push(stream.0);
            columns.shard.push(after.shard);
            columns.kind.push(after.state.kind.number().into());
            columns.kind_name.push(after.state.kind.name());
            columns.application.push(summary.application.as_deref());
            columns.appset.push(summary.set.as_deref());
            columns.started_at.push(summary.started_at.as_millis());
            columns.finished_at.push(summary.finished_at.map(|at| at.as_millis()));
            columns.epoch.push(signed(after.state.epoch.number()));
            columns.taken_by.push(&after.state.taken_by);
            columns.last.push(signed(after.state.last));
            columns.digest.push(&after.digest.0);
            columns.snapshot.push(snapshot.as_ref().map(|(sequence, ..)| signed(*sequence)));
            if let Some(before) = before {
                columns.previous.push(signed(before.state.last));
                columns.previous_digest.push(&before.digest.0);
            }
            if *events > 0 {
                all.batches.stream.push(stream.0);
                all.batches.first.push(signed(after.state.last.saturating_sub(*events).saturating_add(1)));
                all.batches.last.push(signed(after.state.last));
                all.batches.frames.push(frames);
            }
            if before.as_ref().is_none_or(|before| before.details != after.details) {
                all.details.stream.push(stream.0);
                all.details.kind.push(summary.details.kind.into());
                all.details.content.push(&summary.details.content);
            }
            if let Some((sequence, digest, frame)) = snapshot {
                all.snapshots.stream.push(stream.0);
                all.snapshots.sequence.push(signed(*sequence));
                all.snapshots.digest.push(&digest.0);
                all.snapshots.frame.push(frame);
            }
            for digest in references {
                all.references.stream.push(stream.0);
                all.references.digest.push(&digest.0);
            }
        }
        all.released.extend(rows.released.iter().map(|digest| digest.0.as_slice()));
        for ((cluster, application), (_, known)) in &rows.inventories {
            all.inventories.cluster.push(cluster);
            all.inventories.application.push(application);
            all.inventories
                .content
                .push(encode_inventory(cluster, application, known).map_err(CommitError::Rejected)?);
        }
        Ok(all)
    }

    /// Returns the statements that have rows, in order.
    fn parameters<'b>(&'b self, incarnation: &'b Uuid) -> Vec<(Step, &'static str, Vec<Parameter<'b>>)> {
        let mut statements: Vec<(Step, &'static str, Vec<Parameter<'b>>)> = Vec::new();
        let Self { new, old, batches, details, snapshots, references, inventories, .. } = self;
        if !new.id.is_empty() {
            statements.push((
                Step::Heads,
                "WITH added AS (INSERT INTO stream (id, shard, kind, kind_name, application, appset, started_at, \
                 finished_at, epoch, taken_by, base_digest, last, digest, snapshot) \
                 SELECT id, shard, kind, kind_name, application, appset, started_at, finished_at, epoch, taken_by, \
                 decode(repeat('00', 32), 'hex'), last, digest, snapshot \
                 FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) AS n(id, shard, kind, kind_name, \
                 application, appset, started_at, finished_at, epoch, taken_by, last, digest, snapshot) \
                 ON CONFLICT DO NOTHING RETURNING 1) \
                 SELECT 1/(count(*) = cardinality($1))::int FROM added",
                new.parameters(),
            ));
        }
        if !old.id.is_empty() {
            let mut parameters = old.parameters();
            parameters.push((&old.previous, Type::INT8_ARRAY));
            parameters.push((&old.previous_digest, Type::BYTEA_ARRAY));
            statements.push((
                Step::Heads,
                "WITH moved AS (UPDATE stream s SET application = n.application, appset = n.appset, started_at = \
                 n.started_at, finished_at = n.finished_at, epoch = n.epoch, taken_by = n.taken_by, last = n.last, \
                 digest = n.digest, snapshot = coalesce(n.snapshot, s.snapshot) \
                 FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) AS n(id, shard, kind, \
                 kind_name, application, appset, started_at, finished_at, epoch, taken_by, last, digest, snapshot, \
                 previous, previous_digest) \
                 WHERE s.id = n.id AND s.shard = n.shard AND s.kind = n.kind AND s.kind_name = n.kind_name \
                 AND s.last = n.previous AND s.digest = n.previous_digest AND NOT s.reduced RETURNING 1) \
                 SELECT 1/(count(*) = cardinality($1))::int FROM moved",
                parameters,
            ));
        }
        if !batches.stream.is_empty() {
            statements.push((
                Step::Rows,
                "INSERT INTO batch (stream, first, last, frames) SELECT * FROM unnest($1, $2, $3, $4)",
                vec![
                    (&batches.stream, Type::UUID_ARRAY),
                    (&batches.first, Type::INT8_ARRAY),
                    (&batches.last, Type::INT8_ARRAY),
                    (&batches.frames, Type::BYTEA_ARRAY),
                ],
            ));
        }
        if !details.stream.is_empty() {
            statements.push((
                Step::Rows,
                "INSERT INTO details (stream, kind, content) SELECT * FROM unnest($1, $2, $3) \
                 ON CONFLICT (stream) DO UPDATE SET kind = excluded.kind, content = excluded.content",
                vec![
                    (&details.stream, Type::UUID_ARRAY),
                    (&details.kind, Type::INT4_ARRAY),
                    (&details.content, Type::BYTEA_ARRAY),
                ],
            ));
        }
        if !snapshots.stream.is_empty() {
            statements.push((
                Step::Rows,
                "INSERT INTO snapshot (stream, sequence, digest, frame) SELECT * FROM unnest($1, $2, $3, $4) \
                 ON CONFLICT (stream) DO UPDATE SET sequence = excluded.sequence, digest = excluded.digest, frame = \
                 excluded.frame",
                vec![
                    (&snapshots.stream, Type::UUID_ARRAY),
                    (&snapshots.sequence, Type::INT8_ARRAY),
                    (&snapshots.digest, Type::BYTEA_ARRAY),
                    (&snapshots.frame, Type::BYTEA_ARRAY),
                ],
            ));
        }
        if !references.stream.is_empty() {
            statements.push((
                Step::References,
                "INSERT INTO reference (stream, digest) SELECT * FROM unnest($1, $2) ON CONFLICT DO NOTHING",
                vec![(&references.stream, Type::UUID_ARRAY), (&references.digest, Type::BYTEA_ARRAY)],
            ));
        }
        if !self.released.is_empty() {
            statements.push((
                Step::Rows,
                "DELETE FROM blob_hold WHERE digest = ANY($1) AND incarnation = $2",
                vec![(&self.released, Type::BYTEA_ARRAY), (incarnation, Type::UUID)],
            ));
        }
        if !inventories.cluster.is_empty() {
            statements.push((
                Step::Rows,
                "INSERT INTO inventory (cluster, application, content) SELECT * FROM unnest($1, $2, $3) \
                 ON CONFLICT (cluster, application) DO UPDATE SET content = excluded.content",
                vec![
                    (&inventories.cluster, Type::TEXT_ARRAY),
                    (&inventories.application, Type::TEXT_ARRAY),
                    (&inventories.content, Type::BYTEA_ARRAY),
                ],
            ));
        }
        statements
    }
}

impl StreamColumns<'_> {
    fn parameters(&self) -> Vec<Parameter<'_>> {
        vec![
            (&self.id, Type::UUID_ARRAY),
            (&self.shard, Type::INT2_ARRAY),
            (&self.kind, Type::INT4_ARRAY),
            (&self.kind_name, Type::TEXT_ARRAY),
            (&self.application, Type::TEXT_ARRAY),
            (&self.appset, Type::TEXT_ARRAY),
            (&self.started_at, Type::INT8_ARRAY),
            (&self.finished_at, Type::INT8_ARRAY),
            (&self.epoch, Type::INT8_ARRAY),
            (&self.taken_by, Type::TEXT_ARRAY),
            (&self.last, Type::INT8_ARRAY),
            (&self.digest, Type::BYTEA_ARRAY),
            (&self.snapshot, Type::INT8_ARRAY),
        ]
    }
}

/// Returns an application's inventory in a cluster. A damaged inventory counts as missing, so that the cluster is
/// searched.
pub(super) async fn read_inventory(
    client: &Client,
    cluster: &str,
    application: &str,
) -> Result<Option<ApplicationInventory>, LogError> {
    const QUERY: &str = "SELECT content FROM inventory WHERE cluster = $1 AND application = $2";
    let row = within("read an inventory", async {
        let row =
            client.query_typed_opt(QUERY, &[(&cluster, Type::TEXT), (&application, Type::TEXT)]).await?;
        row.map(|row| row.try_get::<_, Vec<u8>>(0)).transpose()
    })
    .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(decode_inventory(cluster, application, &row))
}

/// Returns the inventory in a row, or `None` if it is damaged.
pub(super) fn decode_inventory(cluster: &str, application: &str, row: &[u8]) -> Option<ApplicationInventory> {
    let decoded = frame::open_frame(Family::Inventory, inventory_id(cluster, application), Some(0), row)
        .and_then(|framed| frame::decode_content::<InventoryRow>(framed.payload));
    match decoded {
        Ok(stored) => Some(stored.known),
        Err(error) => {
            tracing::warn!(%error, cluster, application, "an inventory is damaged; searching the cluster instead");
            None
        }
    }
}

fn encode_inventory(
    cluster: &str,
    application: &str,
    known: &ApplicationInventory,
) -> Result<Vec<u8>, LogError> {
    let row = InventoryRow {
        cluster: cluster.to_owned(),
        application: application.to_owned(),
        known: known.clone(),
    };
    let address =
        Address { family: Family::Inventory, stream: inventory_id(cluster, application), number: 0 };
    frame::frame_record(address, 1, false, &frame::encode_content("inventory", &row)?)
}

/// Returns the kind of a stream from its columns.
pub(super) fn kind(number: i32, name: String) -> StreamKind {
    StreamKind::from_record(u16::try_from(number).unwrap_or_default(), name)
}

/// Converts a digest column. Another length can't match any computed digest, so it shows as damage.
pub(super) fn digest(bytes: Vec<u8>) -> Digest {
    Digest(bytes.try_into().unwrap_or([0; 32]))
}

pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

fn length(bytes: &[u8]) -> u64 {
    count(bytes.len())
}
