//! Streams of a log in PostgreSQL as images, for copies of a log.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tidegate_model::{Digest, StreamId, Timestamp};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use super::append::{decode_inventory, digest, fence_statement, kind, signed, unsigned};
use super::connection::{Parameter, call_error, within};
use super::writer::Writer;
use super::{Inner, LeadAttempt, PostgresLog, Replica, schema};
use crate::frame;
use crate::image::{ImageStore, SnapshotImage, StreamImage};
use crate::inventory::update_to;
use crate::{
    ApplicationInventory, Codecs, Epoch, ImpairedStream, Inventories as _, LogError, OperationLog as _,
    Record, Summary,
};

/// Interval between the checks for other replicas. The heartbeats of dead replicas are watched at this interval.
const CLAIM_INTERVAL: Duration = Duration::from_secs(1);
/// Size in bytes of the events in a row.
const BATCH_BYTES: usize = 1 << 20;
/// Size in bytes of the rows in a statement, so that it takes less than the time limit of a call.
const STATEMENT_BYTES: usize = 4 << 20;

/// Events in one row.
struct BatchRow {
    stream: Uuid,
    first: i64,
    last: i64,
    frames: Vec<u8>,
}

impl PostgresLog {
    /// Makes sure that no other replica uses the log, and becomes the leader. Waits for up to about ten seconds to
    /// find out whether other replicas are alive, and calls `report` for each wait.
    ///
    /// # Errors
    ///
    /// Returns [`LogError::ReplicaJoined`] if another replica is alive.
    pub fn claim_alone(&self, mut report: impl FnMut(&Replica)) -> Result<(), LogError> {
        loop {
            let attempt = self.try_lead()?;
            let others = self.other_replicas()?;
            let alive = self.find_alive(others.clone())?;
            if let Some(replica) = alive {
                return Err(self.joined_error(replica));
            }
            match (attempt, others.first()) {
                (LeadAttempt::Leading, None) => return Ok(()),
                (LeadAttempt::Held { replica, .. }, None) => report(&replica),
                (_, Some(other)) => report(other),
            }
            std::thread::park_timeout(CLAIM_INTERVAL);
        }
    }

    fn other_replicas(&self) -> Result<Vec<Replica>, LogError> {
        let mut others = self.replicas()?;
        others.retain(|replica| replica.incarnation != self.incarnation());
        Ok(others)
    }

    fn joined_error(&self, replica: Replica) -> LogError {
        LogError::ReplicaJoined { target: self.inner.target.to_string(), replica: replica.name }
    }

    /// Returns the first of the replicas with a heartbeat since this one started to watch it.
    fn find_alive(&self, replicas: Vec<Replica>) -> Result<Option<Replica>, LogError> {
        self.wait(|inner| {
            async move {
                let writer = inner.writer.lock().await;
                replicas.into_iter().find(|replica| writer.watch.has_seen_heartbeat(replica.incarnation))
            }
            .boxed()
        })
    }

    fn set_incomplete(&self, source_log: Option<String>) -> Result<(), LogError> {
        const QUERY: &str = "UPDATE meta SET incomplete_copy = $1";
        self.wait(|inner| {
            async move {
                let mut writer = inner.writer.lock().await;
                let client = inner.writer_client(&mut writer).await?;
                let statement =
                    async { client.execute_typed(QUERY, &[(&source_log, Type::TEXT)]).await.map(drop) };
                let result = inner.in_fence(&client, &writer, statement).await;
                writer.client = Some(client);
                result
            }
            .boxed()
        })?
    }

    /// Returns the location of the log of which this one is an incomplete copy, if it is.
    pub fn incomplete_copy(&self) -> Result<Option<String>, LogError> {
        self.read(|_, client| schema::read_incomplete_copy(client).boxed())
    }
}

impl Inner {
    async fn read_stream_image(&self, client: &Client, stream: StreamId) -> Result<StreamImage, LogError> {
        const QUERY: &str = "SELECT s.kind, s.kind_name, s.application, s.appset, s.started_at, s.finished_at, s.epoch, \
             s.taken_by, s.base, s.base_digest, s.last, s.digest, s.reduced, d.kind, d.content, n.sequence, n.digest, \
             n.frame, ARRAY(SELECT b.frames FROM batch b WHERE b.stream = s.id AND b.last > s.base ORDER BY b.first), \
             ARRAY(SELECT r.digest FROM reference r WHERE r.stream = s.id) \
             FROM stream s LEFT JOIN details d ON d.stream = s.id LEFT JOIN snapshot n ON n.stream = s.id \
             WHERE s.id = $1";
        let row = within("read a stream", client.query_typed_opt(QUERY, &[(&stream.0, Type::UUID)]))
            .await?
            .ok_or(LogError::UnknownStream { stream: stream.into() })?;
        let mut image = image_of(stream, &row).map_err(|error| call_error("read a stream", &error))?;
        let batches: Vec<&[u8]> = row.try_get(18).map_err(|error| call_error("read a stream", &error))?;
        for batch in batches {
            let mut rest = batch;
            while !rest.is_empty() {
                let (framed, after) = frame::parse_frame(rest).map_err(|error| LogError::DamagedRows {
                    stream: stream.into(),
                    reason: format!("an event: {error}"),
                })?;
                let record = rest.get(..rest.len().saturating_sub(after.len())).unwrap_or_default();
                if framed.address.number > image.base {
                    image.events.push(record.to_vec());
                }
                rest = after;
            }
        }
        Ok(image)
    }

    /// Adds streams in one transaction.
    async fn write_stream_images(&self, images: &[StreamImage]) -> Result<(), LogError> {
        let mut writer = self.writer.lock().await;
        let client = self.writer_client(&mut writer).await?;
        let result = self.add_images(&client, &writer, images).await;
        if result.is_err() {
            // If this fails too, the connection is closed, which has the same effect.
            let _ = within("cancel", client.batch_execute("ROLLBACK")).await;
        }
        writer.client = Some(client);
        result
    }

    async fn add_images(
        &self,
        client: &Client,
        writer: &Writer,
        images: &[StreamImage],
    ) -> Result<(), LogError> {
        let shards = writer.tenure.keys().copied().collect();
        let fence = fence_statement(&shards, &writer.tenure, self.incarnation).ok_or(LogError::NotOwner)?;
        within("start to write", client.batch_execute(&format!("BEGIN; {fence}"))).await?;
        for image in images {
            self.add_stream_row(client, image).await?;
        }
        let batches: Vec<BatchRow> = images.iter().flat_map(batch_rows).collect();
        for batches in statement_groups(&batches) {
            const QUERY: &str =
                "INSERT INTO batch (stream, first, last, frames) SELECT * FROM unnest($1, $2, $3, $4)";
            let streams: Vec<Uuid> = batches.iter().map(|batch| batch.stream).collect();
            let first: Vec<i64> = batches.iter().map(|batch| batch.first).collect();
            let last: Vec<i64> = batches.iter().map(|batch| batch.last).collect();
            let frames: Vec<&[u8]> = batches.iter().map(|batch| batch.frames.as_slice()).collect();
            let parameters: [Parameter<'_>; 4] = [
                (&streams, Type::UUID_ARRAY),
                (&first, Type::INT8_ARRAY),
                (&last, Type::INT8_ARRAY),
                (&frames, Type::BYTEA_ARRAY),
            ];
            within("write events", client.execute_typed(QUERY, &parameters)).await?;
        }
        for image in images {
            if let Some(SnapshotImage { sequence, digest, frame }) = &image.snapshot {
                const QUERY: &str =
                    "INSERT INTO snapshot (stream, sequence, digest, frame) VALUES ($1, $2, $3, $4)";
                let parameters: [Parameter<'_>; 4] = [
                    (&image.stream.0, Type::UUID),
                    (&signed(*sequence), Type::INT8),
                    (&digest.0.as_slice(), Type::BYTEA),
                    (frame, Type::BYTEA),
                ];
                within("write a snapshot", client.execute_typed(QUERY, &parameters)).await?;
            }
            if !image.references.is_empty() {
                const QUERY: &str =
                    "INSERT INTO reference (stream, digest) SELECT $1, digest FROM unnest($2) AS r(digest)";
                let digests: Vec<&[u8]> = image.references.iter().map(|digest| digest.0.as_slice()).collect();
                let parameters: [Parameter<'_>; 2] =
                    [(&image.stream.0, Type::UUID), (&digests, Type::BYTEA_ARRAY)];
                within("write references", client.execute_typed(QUERY, &parameters)).await?;
            }
        }
        within("write", client.batch_execute("COMMIT")).await
    }

    async fn add_stream_row(&self, client: &Client, image: &StreamImage) -> Result<(), LogError> {
        const QUERY: &str = "WITH added AS (INSERT INTO stream (id, shard, kind, kind_name, application, appset, \
             started_at, finished_at, epoch, taken_by, base, base_digest, last, digest, snapshot, reduced) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) RETURNING id) \
             INSERT INTO details (stream, kind, content) SELECT id, $17, $18 FROM added";
        let Summary { application, set, started_at, finished_at, details } = &image.summary;
        let shard = image.summary.default_shard(image.stream).number();
        let snapshot = image.snapshot.as_ref().map(|snapshot| signed(snapshot.sequence));
        let finished_at = finished_at.map(|at| at.as_millis());
        let parameters: [Parameter<'_>; 18] = [
            (&image.stream.0, Type::UUID),
            (&shard, Type::INT2),
            (&i32::from(image.kind.number()), Type::INT4),
            (&image.kind.name(), Type::TEXT),
            (application, Type::TEXT),
            (set, Type::TEXT),
            (&started_at.as_millis(), Type::INT8),
            (&finished_at, Type::INT8),
            (&signed(image.epoch.number()), Type::INT8),
            (&image.taken_by, Type::TEXT),
            (&signed(image.base), Type::INT8),
            (&image.base_digest.0.as_slice(), Type::BYTEA),
            (&signed(image.last), Type::INT8),
            (&image.digest.0.as_slice(), Type::BYTEA),
            (&snapshot, Type::INT8),
            (&image.is_reduced, Type::BOOL),
            (&i32::from(details.kind), Type::INT4),
            (&details.content, Type::BYTEA),
        ];
        within("write a stream", client.execute_typed(QUERY, &parameters)).await.map(drop)
    }

    async fn read_all_inventories(
        &self,
        client: &Client,
    ) -> Result<Vec<(String, String, ApplicationInventory)>, LogError> {
        const QUERY: &str =
            "SELECT cluster, application, content FROM inventory ORDER BY cluster, application";
        let rows = within("read the inventories", async {
            let rows = client.query_typed(QUERY, &[]).await?;
            rows.iter()
                .map(|row| Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)))
                .collect::<Result<Vec<(String, String, Vec<u8>)>, tokio_postgres::Error>>()
        })
        .await?;
        Ok(rows
            .into_iter()
            .filter_map(|(cluster, application, content)| {
                let known = decode_inventory(&cluster, &application, &content)?;
                Some((cluster, application, known))
            })
            .collect())
    }
}

/// Returns the image of a stream without its events.
fn image_of(stream: StreamId, row: &Row) -> Result<StreamImage, tokio_postgres::Error> {
    let details: Option<i32> = row.try_get(13)?;
    let details = Record {
        kind: details.and_then(|kind| u16::try_from(kind).ok()).unwrap_or_default(),
        content: row.try_get::<_, Option<Vec<u8>>>(14)?.unwrap_or_default(),
    };
    let snapshot = match row.try_get::<_, Option<i64>>(15)? {
        None => None,
        Some(sequence) => Some(SnapshotImage {
            sequence: unsigned(sequence),
            digest: digest(row.try_get(16)?),
            frame: row.try_get(17)?,
        }),
    };
    Ok(StreamImage {
        stream,
        kind: kind(row.try_get(0)?, row.try_get(1)?),
        summary: Summary {
            application: row.try_get(2)?,
            set: row.try_get(3)?,
            started_at: Timestamp::from_millis(row.try_get(4)?),
            finished_at: row.try_get::<_, Option<i64>>(5)?.map(Timestamp::from_millis),
            details,
        },
        epoch: Epoch::new(unsigned(row.try_get(6)?)).unwrap_or(Epoch::FIRST),
        taken_by: row.try_get(7)?,
        base: unsigned(row.try_get(8)?),
        base_digest: digest(row.try_get(9)?),
        last: unsigned(row.try_get(10)?),
        digest: digest(row.try_get(11)?),
        is_reduced: row.try_get(12)?,
        events: Vec::new(),
        snapshot,
        references: row.try_get::<_, Vec<Vec<u8>>>(19)?.into_iter().map(digest).collect(),
    })
}

/// Splits the events of a stream into rows.
fn batch_rows(image: &StreamImage) -> Vec<BatchRow> {
    let mut rows: Vec<BatchRow> = Vec::new();
    for (number, event) in (image.base.saturating_add(1)..).zip(&image.events) {
        let number = signed(number);
        match rows.last_mut() {
            Some(row) if row.frames.len().saturating_add(event.len()) <= BATCH_BYTES => {
                row.last = number;
                row.frames.extend_from_slice(event);
            }
            _ => rows.push(BatchRow {
                stream: image.stream.0,
                first: number,
                last: number,
                frames: event.clone(),
            }),
        }
    }
    rows
}

/// Splits rows into groups for one statement each.
fn statement_groups(rows: &[BatchRow]) -> Vec<&[BatchRow]> {
    let (mut groups, mut rest) = (Vec::new(), rows);
    while !rest.is_empty() {
        let mut bytes = 0_usize;
        let fitting = rest.iter().take_while(|row| {
            bytes = bytes.saturating_add(row.frames.len());
            bytes <= STATEMENT_BYTES
        });
        let (group, after) = rest.split_at(fitting.count().max(1).min(rest.len()));
        groups.push(group);
        rest = after;
    }
    groups
}

impl ImageStore for PostgresLog {
    fn location(&self) -> String {
        self.inner.target.to_string()
    }

    fn stream_ids(&self) -> Result<Vec<StreamId>, LogError> {
        self.ids()
    }

    fn damaged_streams(&self) -> Vec<ImpairedStream> {
        Vec::new()
    }

    fn codecs(&self) -> &Codecs {
        &self.inner.codecs
    }

    fn read_image(&self, stream: StreamId) -> Result<StreamImage, LogError> {
        self.read(move |inner, client| inner.read_stream_image(client, stream).boxed())
    }

    fn write_images(&self, images: Vec<StreamImage>) -> Result<(), LogError> {
        self.wait(move |inner| async move { inner.write_stream_images(&images).await }.boxed())?
    }

    fn sealed_blob(&self, digest: Digest) -> Result<Vec<u8>, LogError> {
        self.read(move |inner, client| inner.read_blob(client, digest).boxed())
    }

    fn unseal_blob(&self, digest: Digest, sealed: &[u8]) -> Result<Vec<u8>, LogError> {
        self.inner.unseal(digest, sealed)
    }

    fn has_blob(&self, digest: Digest) -> Result<bool, LogError> {
        const QUERY: &str = "SELECT 1 FROM blob WHERE digest = $1";
        self.read(move |_, client| {
            async move {
                let name = digest.0.as_slice();
                let of: [Parameter<'_>; 1] = [(&name, Type::BYTEA)];
                Ok(within("look up blobs", client.query_typed_opt(QUERY, &of)).await?.is_some())
            }
            .boxed()
        })
    }

    fn write_sealed_blob(&self, digest: Digest, sealed: &[u8]) -> Result<(), LogError> {
        let sealed: Arc<[u8]> = sealed.into();
        self.wait(move |inner| async move { inner.put_blob(digest, &sealed).await }.boxed())?
    }

    fn read_inventories(&self) -> Result<Vec<(String, String, ApplicationInventory)>, LogError> {
        self.read(|inner, client| inner.read_all_inventories(client).boxed())
    }

    fn write_inventory(
        &self,
        cluster: &str,
        application: &str,
        inventory: &ApplicationInventory,
    ) -> Result<(), LogError> {
        self.change_inventory(&update_to(cluster, application, inventory))
    }

    /// Fails if a replica joined in the meantime. Later ones see the mark.
    fn mark_incomplete(&self, source_log: &str) -> Result<(), LogError> {
        self.set_incomplete(Some(source_log.to_owned()))?;
        match self.other_replicas()?.into_iter().next() {
            None => Ok(()),
            Some(replica) => Err(self.joined_error(replica)),
        }
    }

    fn mark_complete(&self) -> Result<(), LogError> {
        self.set_incomplete(None)
    }

    fn mark_moved(&self, _to: &str) -> Result<(), LogError> {
        Ok(())
    }
}
