//! The only writer in this process. It appends one group at a time, and waits while the database is unavailable.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::Ordering;

use tidegate_model::{Digest, StreamId};
use tokio_postgres::Client;
use uuid::Uuid;

use super::append::{CommitError, GroupRows, StreamHead};
use super::connection::within;
use super::replicas::Claim;
use super::watch::ReplicaWatch;
use super::{Inner, LeadAttempt, Loss, RECENT_MAX, RETRY_DELAY};
use crate::retention::Growth;
use crate::{InventoryUpdate, LogError, RawAppend};

/// State of the only writer in this process.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) client: Option<Client>,
    /// Shards that this replica owns, with their epochs.
    pub(super) tenure: BTreeMap<i16, i64>,
    /// Heads of the open streams that this replica has written to.
    pub(super) heads: HashMap<StreamId, StreamHead>,
    /// Ends of the streams in the newest groups, to detect a database that lost its end.
    pub(super) recent: VecDeque<RecentEnd>,
    pub(super) watch: ReplicaWatch,
}

impl Writer {
    pub(super) fn shards(&self) -> Vec<i16> {
        self.tenure.keys().copied().collect()
    }

    /// Forgets the streams in shards that this replica doesn't own.
    pub(super) fn forget_unowned(&mut self) {
        let Self { tenure, heads, recent, .. } = self;
        heads.retain(|_, head| tenure.contains_key(&head.shard));
        recent.retain(|end| tenure.contains_key(&end.shard));
    }
}

/// End of a stream after an acknowledged group.
#[derive(Clone, Debug)]
pub(super) struct RecentEnd {
    pub(super) stream: StreamId,
    pub(super) shard: i16,
    pub(super) last: u64,
    pub(super) digest: Digest,
}

/// Outcome of a group whose transaction was in doubt.
enum GroupOutcome {
    Written,
    NotWritten,
}

impl Inner {
    pub(super) async fn try_lead(&self) -> Result<LeadAttempt, LogError> {
        let mut writer = self.writer.lock().await;
        let writer = &mut *writer;
        self.check_usable()?;
        let client = match writer.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.target.connect(self.incarnation).await?,
        };
        let claim = self.claim_shards(&client, &mut writer.watch).await?;
        writer.client = Some(client);
        match claim {
            Claim::Owned(tenure) => {
                writer.tenure = tenure;
                writer.heads.clear();
                Ok(LeadAttempt::Leading)
            }
            Claim::Held(replica) => {
                let is_alive = writer.watch.has_seen_heartbeat(replica.incarnation);
                Ok(LeadAttempt::Held { replica, is_alive })
            }
        }
    }

    /// Appends a group. Waits while the database is unavailable.
    pub(super) async fn append(&self, group: &[RawAppend]) -> Result<(), LogError> {
        if group.is_empty() {
            return Ok(());
        }
        let mut writer = self.writer.lock().await;
        let writer = &mut *writer;
        // True once the heads were read again after a mismatch.
        let mut fresh = false;
        // True once the tenure was read again after a mismatch.
        let mut has_current_tenure = false;
        loop {
            let client = self.writer_client(writer).await?;
            let prepared = self.prepare(&client, &writer.tenure, &mut writer.heads, group, fresh).await;
            let mut rows = match prepared {
                Ok(rows) => rows,
                Err(error @ LogError::Unavailable { .. }) => {
                    self.wait_for_database(&error).await;
                    continue;
                }
                Err(error) => {
                    writer.client = Some(client);
                    return Err(error);
                }
            };
            let error = match self.commit(&client, &writer.tenure, &mut rows).await {
                Ok(()) => {
                    writer.client = Some(client);
                    self.record_group(writer, rows);
                    return Ok(());
                }
                Err(CommitError::Unknown(error)) => {
                    drop(client);
                    self.report_outage(Some(error.to_string()));
                    match self.settle(writer, &rows).await? {
                        GroupOutcome::Written => {
                            self.record_group(writer, rows);
                            return Ok(());
                        }
                        GroupOutcome::NotWritten => {
                            tokio::time::sleep(RETRY_DELAY).await;
                            continue;
                        }
                    }
                }
                Err(error) => error,
            };
            let _ = within("cancel", client.batch_execute("ROLLBACK")).await;
            writer.client = Some(client);
            match error {
                CommitError::Retry(error) => {
                    tracing::debug!(%error, "repeating a transaction");
                    if error.is_outage() {
                        self.report_outage(Some(error.to_string()));
                    }
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                CommitError::Fence if self.shares && !has_current_tenure => {
                    let client = self.writer_client(writer).await?;
                    if let Err(LogError::Evicted { .. }) = self.beat(&client).await {
                        return Err(self.not_owner(writer).await);
                    }
                    self.update_tenure(&client, writer).await?;
                    writer.client = Some(client);
                    has_current_tenure = true;
                }
                CommitError::Fence => return Err(self.not_owner(writer).await),
                CommitError::Heads | CommitError::Blob if fresh => {
                    return Err(LogError::Database {
                        action: "write",
                        reason: "another process keeps changing the same streams".to_owned(),
                    });
                }
                // The check of the next attempt finds the reason.
                CommitError::Heads => {
                    group.iter().for_each(|append| drop(writer.heads.remove(&append.stream)));
                    fresh = true;
                }
                CommitError::Blob => {
                    self.lock_holds().retain(|digest, _| !rows.claimed.contains(digest));
                    fresh = true;
                }
                CommitError::Unknown(error) | CommitError::Rejected(error) => return Err(error),
            }
        }
    }

    /// Returns the writer's connection, and waits for the database if it is unavailable.
    pub(super) async fn writer_client(&self, writer: &mut Writer) -> Result<Client, LogError> {
        loop {
            self.check_usable()?;
            if writer.tenure.is_empty() {
                return Err(LogError::NotOwner);
            }
            if let Some(client) = writer.client.take().filter(|client| !client.is_closed()) {
                return Ok(client);
            }
            match self.target.connect(self.incarnation).await {
                Ok(client) => match self.check_recent(&client, &writer.recent).await {
                    Ok(()) => return Ok(client),
                    Err(error @ LogError::LostEnd { .. }) => return Err(error),
                    Err(error) => self.wait_for_database(&error).await,
                },
                Err(error) => self.wait_for_database(&error).await,
            }
        }
    }

    /// Checks that the database still contains the newest acknowledged groups. It may have lost them in a failover.
    pub(super) async fn check_recent(
        &self,
        client: &Client,
        recent: &VecDeque<RecentEnd>,
    ) -> Result<(), LogError> {
        // The newest entry of each stream is the last one.
        let newest: BTreeMap<StreamId, (u64, Digest)> =
            recent.iter().map(|end| (end.stream, (end.last, end.digest))).collect();
        if newest.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = newest.keys().map(|stream| stream.0).collect();
        let heads = self.read_heads(client, &ids).await?;
        // A longer stream belongs to a group in doubt.
        let is_lost = |(stream, (last, digest)): &(&StreamId, &(u64, Digest))| {
            heads.get(stream).is_none_or(|head| {
                head.state.last < *last || (head.state.last == *last && head.digest != *digest)
            })
        };
        let lost: Vec<String> = newest.iter().filter(is_lost).map(|(stream, _)| stream.to_string()).collect();
        if lost.is_empty() { Ok(()) } else { Err(LogError::LostEnd { streams: lost.join(", ") }) }
    }

    pub(super) async fn wait_for_database(&self, error: &LogError) {
        self.report_outage(Some(error.to_string()));
        tokio::time::sleep(RETRY_DELAY).await;
    }

    /// Finds out whether a group in doubt was written. Waits while the database is unavailable.
    async fn settle(&self, writer: &mut Writer, rows: &GroupRows) -> Result<GroupOutcome, LogError> {
        loop {
            let client = self.writer_client(writer).await?;
            let result = async {
                self.end_own_transactions(&client).await?;
                let tenure = self.raise_epochs(&client, &writer.shards()).await?;
                let ids: Vec<Uuid> = rows.streams.keys().map(|stream| stream.0).collect();
                Ok((tenure, self.read_heads(&client, &ids).await?))
            };
            let (tenure, heads) = match result.await {
                Ok(found) => found,
                Err(error @ LogError::Unavailable { .. }) => {
                    self.wait_for_database(&error).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            writer.client = Some(client);
            let is_complete = tenure.len() == writer.tenure.len();
            writer.tenure = tenure;
            if !is_complete {
                return Err(self.not_owner(writer).await);
            }
            let has = |expected: Option<&StreamHead>, stream: &StreamId| match (expected, heads.get(stream)) {
                (None, None) => true,
                (Some(expected), Some(found)) => {
                    expected.digest == found.digest && expected.state.last == found.state.last
                }
                _ => false,
            };
            if rows.streams.iter().all(|(stream, change)| has(Some(&change.after), stream)) {
                return Ok(GroupOutcome::Written);
            }
            if rows.streams.iter().all(|(stream, change)| has(change.before.as_ref(), stream)) {
                return Ok(GroupOutcome::NotWritten);
            }
            let lost = rows.streams.keys().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(LogError::LostEnd { streams: lost });
        }
    }

    /// Returns the error for a shard that no longer belongs to this replica.
    async fn not_owner(&self, writer: &mut Writer) -> LogError {
        let by = match self.target.connect(self.incarnation).await {
            Ok(client) => match self.beat(&client).await {
                Err(LogError::Evicted { by }) => by,
                _ => "another process".to_owned(),
            },
            Err(_) => "another process".to_owned(),
        };
        writer.tenure.clear();
        let loss = Loss::Evicted(by);
        let error = loss.error();
        self.lose(loss);
        error
    }

    /// Updates the state of the writer after a group was written.
    fn record_group(&self, writer: &mut Writer, rows: GroupRows) {
        self.report_outage(None);
        {
            let mut holds = self.lock_holds();
            for digest in &rows.claimed {
                if let Some(times) = holds.get_mut(digest) {
                    *times = times.saturating_sub(1);
                    if *times == 0 {
                        holds.remove(digest);
                    }
                }
            }
        }
        let mut ended = 0;
        for (stream, change) in rows.streams {
            let StreamHead { state, shard, digest, .. } = &change.after;
            writer.recent.push_back(RecentEnd { stream, shard: *shard, last: state.last, digest: *digest });
            if change.is_open() {
                writer.heads.insert(stream, change.after);
            } else {
                writer.heads.remove(&stream);
                ended += 1;
            }
        }
        let excess = writer.recent.len().saturating_sub(RECENT_MAX);
        writer.recent.drain(..excess);
        let mut compaction = self.lock_compaction();
        compaction.growth.streams += ended;
        compaction.growth.events += rows.events;
        compaction.growth.bytes += rows.bytes;
        if compaction.growth.has_reached(&Growth::remote_limit()) {
            self.is_compaction_due.store(true, Ordering::SeqCst);
        }
    }

    /// Returns the result of a change that can be repeated safely, or `None` if it must be repeated because the
    /// database was unavailable.
    pub(super) async fn finish_change<T>(
        &self,
        writer: &mut Writer,
        client: Client,
        result: Result<T, LogError>,
    ) -> Option<Result<T, LogError>> {
        if let Err(error @ LogError::Unavailable { .. }) = &result {
            self.wait_for_database(error).await;
            return None;
        }
        self.report_outage(None);
        writer.client = Some(client);
        Some(result)
    }

    pub(super) async fn put_blob(&self, name: Digest, sealed: &[u8]) -> Result<(), LogError> {
        let mut writer = self.writer.lock().await;
        loop {
            let client = self.writer_client(&mut writer).await?;
            let result = self.write_blob(&client, name, sealed).await;
            if let Some(result) = self.finish_change(&mut writer, client, result).await {
                if result.is_ok() {
                    *self.lock_holds().entry(name).or_default() += 1;
                }
                return result;
            }
        }
    }

    pub(super) async fn change_inventory(&self, update: &InventoryUpdate) -> Result<(), LogError> {
        let mut writer = self.writer.lock().await;
        loop {
            let client = self.writer_client(&mut writer).await?;
            // Inventories don't belong to a shard. Any shard shows that this replica is alive.
            let shard = writer.tenure.keys().next().copied().unwrap_or_default();
            let mut rows = GroupRows::default();
            let written = async {
                self.add_inventory(&client, &mut rows, update, shard).await.map_err(CommitError::Unknown)?;
                self.commit(&client, &writer.tenure, &mut rows).await
            };
            let result = match written.await {
                Ok(()) => Ok(()),
                Err(CommitError::Fence) => return Err(self.not_owner(&mut writer).await),
                Err(
                    CommitError::Retry(error) | CommitError::Unknown(error) | CommitError::Rejected(error),
                ) => Err(error),
                Err(CommitError::Heads | CommitError::Blob) => Err(LogError::Poisoned),
            };
            if let Some(result) = self.finish_change(&mut writer, client, result).await {
                return result;
            }
        }
    }
}
