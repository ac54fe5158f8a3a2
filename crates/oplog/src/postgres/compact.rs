//! Compactions: the retention rules as set statements, in short fenced transactions.

use std::sync::atomic::Ordering;

use tidegate_model::{StreamId, Timestamp};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Inner;
use super::append::{digest, fence_statement, signed, unsigned};
use super::connection::{Parameter, call_error, within};
use super::writer::Writer;
use crate::frame;
use crate::retention::Growth;
use crate::store::chain_digest;
use crate::{CompactionResult, LogError, Retention};

/// Maximum number of streams in one step.
const STEP_STREAMS: i64 = 500;

/// Next step of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Reduce older finished streams to their summaries.
    #[default]
    Reduce,
    /// Remove the summaries of the oldest streams.
    Forget,
    /// Trim long open streams, starting after this stream.
    Cut(Uuid),
    /// Remove unreferenced blobs.
    Blobs,
    /// All stages are done.
    Done,
}

/// Progress of a compaction, and the growth since the last one.
#[derive(Default)]
pub(super) struct Compaction {
    pub(super) stage: Stage,
    pub(super) is_scheduled: bool,
    pub(super) growth: Growth,
}

/// Finished streams from the newest in each history line, numbered from 0. The order is the order of IDs, because
/// the clocks may have been wrong.
const LINES: &str = "SELECT id, shard, reduced, finished_at, last - base AS events, row_number() OVER (PARTITION BY \
     kind, application, CASE WHEN application IS NULL THEN appset END ORDER BY id DESC) - 1 AS older \
     FROM stream WHERE finished_at IS NOT NULL AND kind = ANY($1) AND shard = ANY($2)";

impl Inner {
    pub(super) async fn compact_step(
        &self,
        keep: &Retention,
        now: Timestamp,
    ) -> Result<Option<CompactionResult>, LogError> {
        if !self.is_compaction_due.load(Ordering::SeqCst) {
            return Ok(None);
        }
        let mut writer = self.writer.lock().await;
        let writer = &mut *writer;
        let (stage, keep) = {
            let compaction = self.lock_compaction();
            let keep = if compaction.is_scheduled { *keep } else { keep.for_growth() };
            (compaction.stage, keep)
        };
        let client = match writer.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            // Unlike an append, a compaction doesn't wait for the database.
            None => {
                let client = self.target.connect(self.incarnation).await?;
                self.check_recent(&client, &writer.recent).await?;
                client
            }
        };
        let result = self.compact_stage(&client, writer, stage, &keep, now).await;
        if !matches!(result, Err(LogError::Unavailable { .. })) {
            writer.client = Some(client);
        }
        let mut compaction = self.lock_compaction();
        let (done, next) = match result {
            Ok(found) => found,
            Err(error) => {
                if stage == Stage::Forget {
                    // The streams may have been removed nevertheless.
                    writer.recent.clear();
                }
                // The next growth or the next schedule starts over. An immediate repetition could slow down appends.
                *compaction = Compaction::default();
                self.is_compaction_due.store(false, Ordering::SeqCst);
                return Err(error);
            }
        };
        compaction.stage = next;
        if done.forgotten > 0 {
            writer.recent.clear();
        }
        if next == Stage::Done {
            *compaction = Compaction::default();
            self.is_compaction_due.store(false, Ordering::SeqCst);
        }
        Ok(Some(done))
    }

    /// Runs one step. Returns its result and the next stage.
    async fn compact_stage(
        &self,
        client: &Client,
        writer: &Writer,
        stage: Stage,
        keep: &Retention,
        now: Timestamp,
    ) -> Result<(CompactionResult, Stage), LogError> {
        let mut done = CompactionResult::default();
        let next = match stage {
            Stage::Reduce => {
                let reduced = self.reduce_streams(client, writer, keep).await?;
                (done.streams, done.events) = reduced;
                if reduced.0 == 0 { Stage::Forget } else { Stage::Reduce }
            }
            Stage::Forget => {
                done.forgotten = self.forget_streams(client, writer, keep, now).await?;
                if done.forgotten == 0 { Stage::Cut(Uuid::nil()) } else { Stage::Forget }
            }
            Stage::Cut(after) => {
                let (events, next) = self.cut_streams(client, writer, keep, after).await?;
                done.events = events;
                next.map_or(Stage::Blobs, Stage::Cut)
            }
            Stage::Blobs => {
                done.blobs = self.remove_blobs(client, writer).await?;
                if done.blobs == 0 { Stage::Done } else { Stage::Blobs }
            }
            Stage::Done => Stage::Done,
        };
        Ok((done, next))
    }

    async fn reduce_streams(
        &self,
        client: &Client,
        writer: &Writer,
        keep: &Retention,
    ) -> Result<(usize, usize), LogError> {
        let history = i64::try_from(keep.history).unwrap_or(i64::MAX);
        let query = format!(
            "SELECT id, events FROM ({LINES}) lines WHERE NOT reduced AND older >= $3 ORDER BY id LIMIT {STEP_STREAMS}"
        );
        let (kinds, shards) = (self.known_kinds(), writer.shards());
        let rows = within(
            "find finished streams",
            client.query_typed(
                &query,
                &[(&kinds, Type::INT4_ARRAY), (&shards, Type::INT2_ARRAY), (&history, Type::INT8)],
            ),
        )
        .await?;
        let ids: Vec<Uuid> = rows.iter().filter_map(|row| row.try_get(0).ok()).collect();
        let events: i64 = rows.iter().filter_map(|row| row.try_get::<_, i64>(1).ok()).sum();
        if ids.is_empty() {
            return Ok((0, 0));
        }
        self.in_fence(client, writer, async {
            let of: [Parameter<'_>; 1] = [(&ids, Type::UUID_ARRAY)];
            client
                .execute_typed(
                    "UPDATE stream SET reduced = true, base = last, base_digest = digest, snapshot = NULL WHERE id = \
                     ANY($1)",
                    &of,
                )
                .await?;
            for table in ["batch", "snapshot", "reference"] {
                client.execute_typed(&format!("DELETE FROM {table} WHERE stream = ANY($1)"), &of).await?;
            }
            Ok(())
        })
        .await?;
        Ok((ids.len(), usize::try_from(events).unwrap_or_default()))
    }

    async fn forget_streams(
        &self,
        client: &Client,
        writer: &Writer,
        keep: &Retention,
        now: Timestamp,
    ) -> Result<usize, LogError> {
        let number = |count| i64::try_from(count).unwrap_or(i64::MAX);
        let (history, summaries) = (number(keep.history), number(keep.summaries));
        let age = i64::try_from(keep.age.as_millis()).unwrap_or(i64::MAX);
        let ended_before = now.as_millis().saturating_sub(age);
        let query = format!(
            "SELECT id FROM ({LINES}) lines WHERE older >= $3 AND (older >= $4 OR finished_at < $5) ORDER BY id LIMIT \
             {STEP_STREAMS}"
        );
        let (kinds, shards) = (self.known_kinds(), writer.shards());
        let rows = within(
            "find old streams",
            client.query_typed(
                &query,
                &[
                    (&kinds, Type::INT4_ARRAY),
                    (&shards, Type::INT2_ARRAY),
                    (&history, Type::INT8),
                    (&summaries, Type::INT8),
                    (&ended_before, Type::INT8),
                ],
            ),
        )
        .await?;
        let ids: Vec<Uuid> = rows.iter().filter_map(|row| row.try_get(0).ok()).collect();
        if ids.is_empty() {
            return Ok(0);
        }
        self.in_fence(client, writer, async {
            client
                .execute_typed("DELETE FROM stream WHERE id = ANY($1)", &[(&ids, Type::UUID_ARRAY)])
                .await
                .map(drop)
        })
        .await?;
        Ok(ids.len())
    }

    /// Removes the oldest events of long open streams if a snapshot covers them. Returns the number of removed
    /// events, and the last stream of this step unless it was the final step.
    async fn cut_streams(
        &self,
        client: &Client,
        writer: &Writer,
        keep: &Retention,
        after: Uuid,
    ) -> Result<(usize, Option<Uuid>), LogError> {
        const QUERY: &str = "SELECT id, base, base_digest, last, snapshot FROM stream WHERE finished_at IS NULL AND \
             snapshot > base AND last - base > $1 AND kind = ANY($2) AND shard = ANY($3) AND id > $4 ORDER BY id \
             LIMIT 20";
        let (limit, kinds, shards) = (signed(keep.open_events), self.known_kinds(), writer.shards());
        let rows = within(
            "find long streams",
            client.query_typed(
                QUERY,
                &[
                    (&limit, Type::INT8),
                    (&kinds, Type::INT4_ARRAY),
                    (&shards, Type::INT2_ARRAY),
                    (&after, Type::UUID),
                ],
            ),
        )
        .await?;
        let (mut events, mut last_stream) = (0, None);
        for row in &rows {
            let read = || -> Result<_, tokio_postgres::Error> {
                Ok((
                    row.try_get::<_, Uuid>(0)?,
                    unsigned(row.try_get(1)?),
                    digest(row.try_get(2)?),
                    unsigned(row.try_get(3)?),
                    unsigned(row.try_get(4)?),
                ))
            };
            let (id, base, base_digest, last, snapshot) =
                read().map_err(|error| call_error("find long streams", &error))?;
            last_stream = Some(id);
            let Some(cut) = keep.cut_point(last, base, Some(snapshot)) else { continue };
            // Read the removed events for their digest.
            let batches = within(
                "read old events",
                client.query_typed(
                    "SELECT first, last, frames FROM batch WHERE stream = $1 AND first <= $2 ORDER BY first",
                    &[(&id, Type::UUID), (&signed(cut), Type::INT8)],
                ),
            )
            .await?;
            let (mut chain, mut rest_of_last) = (base_digest, None);
            for batch in &batches {
                let read = || -> Result<(i64, i64, &[u8]), tokio_postgres::Error> {
                    Ok((batch.try_get(0)?, batch.try_get(1)?, batch.try_get(2)?))
                };
                let (first, batch_last, frames) =
                    read().map_err(|error| call_error("read old events", &error))?;
                let (mut rest, mut number) = (frames, unsigned(first));
                while !rest.is_empty() && number <= cut {
                    let (_, after) = frame::parse_frame(rest).map_err(|error| LogError::DamagedRows {
                        stream: StreamId(id).into(),
                        reason: format!("event {number}: {error}"),
                    })?;
                    chain = chain_digest(
                        chain,
                        rest.get(..rest.len().saturating_sub(after.len())).unwrap_or_default(),
                    );
                    (rest, number) = (after, number.saturating_add(1));
                }
                if !rest.is_empty() {
                    rest_of_last = Some((batch_last, rest.to_vec()));
                }
            }
            self.in_fence(client, writer, async {
                client
                    .execute_typed(
                        "DELETE FROM batch WHERE stream = $1 AND first <= $2",
                        &[(&id, Type::UUID), (&signed(cut), Type::INT8)],
                    )
                    .await?;
                if let Some((batch_last, frames)) = &rest_of_last {
                    client
                        .execute_typed(
                            "INSERT INTO batch (stream, first, last, frames) VALUES ($1, $2, $3, $4)",
                            &[
                                (&id, Type::UUID),
                                (&signed(cut.saturating_add(1)), Type::INT8),
                                (batch_last, Type::INT8),
                                (frames, Type::BYTEA),
                            ],
                        )
                        .await?;
                }
                client
                    .execute_typed(
                        "UPDATE stream SET base = $2, base_digest = $3 WHERE id = $1",
                        &[(&id, Type::UUID), (&signed(cut), Type::INT8), (&chain.0.as_slice(), Type::BYTEA)],
                    )
                    .await
                    .map(drop)
            })
            .await?;
            events += usize::try_from(cut.saturating_sub(base)).unwrap_or(usize::MAX);
        }
        Ok((events, last_stream))
    }

    /// Removes blobs without a reference and without a replica that protects them.
    async fn remove_blobs(&self, client: &Client, writer: &Writer) -> Result<usize, LogError> {
        const FIND: &str = "SELECT digest FROM blob b WHERE NOT EXISTS (SELECT 1 FROM reference r WHERE r.digest = \
             b.digest) AND NOT EXISTS (SELECT 1 FROM blob_hold h WHERE h.digest = b.digest) LIMIT 500";
        // A blob that has been protected since then fails the statement, because the hold refers to it.
        const REMOVE: &str = "DELETE FROM blob WHERE digest = ANY($1)";
        let rows = within("find unreferenced blobs", client.query_typed(FIND, &[])).await?;
        let digests: Vec<Vec<u8>> = rows.iter().filter_map(|row| row.try_get(0).ok()).collect();
        if !digests.is_empty() {
            self.in_fence(client, writer, async {
                client.execute_typed(REMOVE, &[(&digests, Type::BYTEA_ARRAY)]).await.map(drop)
            })
            .await?;
        }
        Ok(digests.len())
    }

    /// Runs statements in a transaction under the fence.
    pub(super) async fn in_fence(
        &self,
        client: &Client,
        writer: &Writer,
        statements: impl Future<Output = Result<(), tokio_postgres::Error>>,
    ) -> Result<(), LogError> {
        let shards = writer.tenure.keys().copied().collect();
        let Some(fence) = fence_statement(&shards, &writer.tenure, self.incarnation) else { return Ok(()) };
        let mut is_fenced = false;
        let run = async {
            client.batch_execute(&format!("BEGIN; {fence}")).await.inspect_err(|error| {
                is_fenced = error.code() == Some(&SqlState::DIVISION_BY_ZERO);
            })?;
            statements.await?;
            client.batch_execute("COMMIT").await
        };
        let mut result = within("change the log", run).await;
        if is_fenced {
            result = Err(LogError::NotOwner);
        }
        if result.is_err() {
            let _ = within("cancel", client.batch_execute("ROLLBACK")).await;
        }
        result
    }
}
