//! Replicas that share a log: joining, heartbeats, and ownership of the shards.
//!
//! A replica joins with a fresh incarnation, and counts its heartbeats. The owner of a shard is recorded in the
//! shard's row, together with an epoch that rises with every change. A replica takes over the shards of another
//! one only after it has watched that one's count stand still ([`ReplicaWatch`]); from then on, appends of the old
//! owner fail, because they lock the same rows. No clock of another machine is involved.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tidegate_model::Digest;
use tokio::time::Instant;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::connection::{CALL_TIMEOUT, Parameter, application_name, call_error, within};
use super::distribution::{Candidate, Shard};
use super::schema::newest_layout;
use super::watch::ReplicaWatch;
use super::{BEAT_INTERVAL, Inner, Loss, TENURE_COVERAGE};
use crate::LogError;

/// Number of shards in a log.
pub(super) const SHARDS: usize = 256;

/// Another process that uses the same log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replica {
    /// Unique ID of the process.
    pub incarnation: Uuid,
    /// Name for messages, such as `pid 41 on node-1`.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// Number of shards that it owns.
    pub shards: usize,
    /// URL of its API for the other replicas, if they can reach it. Written by a service with the key of the log.
    pub address: Option<String>,
    /// Number of its heartbeats.
    pub(super) beat: i64,
    /// Its part in the distribution of the shards, if it shares them.
    pub(super) candidate: Option<Candidate>,
}

/// Replicas in the database, and those whose heartbeats stand still.
pub(super) struct ObservedReplicas {
    /// All replicas that were not declared dead, including this one.
    pub(super) replicas: Vec<Replica>,
    /// Dead replicas with their last heartbeat count.
    pub(super) dead: Vec<(Uuid, i64)>,
}

impl Replica {
    /// Returns the description of a replica that has taken the shards since the replicas were read.
    fn unknown() -> Self {
        let (name, version) = ("another process".to_owned(), String::new());
        Self {
            incarnation: Uuid::nil(),
            name,
            version,
            shards: SHARDS,
            address: None,
            beat: 0,
            candidate: None,
        }
    }
}

impl fmt::Display for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Result of an attempt to own all shards.
pub(super) enum Claim {
    /// All shards belong to this replica, in these epochs.
    Owned(BTreeMap<i16, i64>),
    /// Another replica owns shards and may be alive, or one of its transactions still holds their locks.
    Held(Replica),
}

impl Inner {
    /// Adds this process to the replicas.
    pub(super) async fn join(&self, client: &Client) -> Result<(), LogError> {
        const QUERY: &str = "INSERT INTO replica (incarnation, name, version, layout, address, address_digest, shares) \
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING";
        let digest =
            self.address.as_ref().map(|address| self.address_digest(self.incarnation, address).0.to_vec());
        let parameters: [Parameter<'_>; 7] = [
            (&self.incarnation, Type::UUID),
            (&self.name, Type::TEXT),
            (&env!("CARGO_PKG_VERSION"), Type::TEXT),
            (&newest_layout(), Type::INT4),
            (&self.address, Type::TEXT),
            (&digest, Type::BYTEA),
            (&self.shares, Type::BOOL),
        ];
        within("join the log", client.execute_typed(QUERY, &parameters)).await.map(drop)
    }

    /// Returns the digest that proves that a service with the key of the log advertises an address.
    fn address_digest(&self, incarnation: Uuid, address: &str) -> Digest {
        self.sealing.name_of(format!("address of replica {incarnation}: {address}").as_bytes())
    }

    /// Counts a heartbeat, and notices a request to hand over. Fails with [`LogError::Evicted`] if another replica
    /// has declared this one dead.
    pub(super) async fn beat(&self, client: &Client) -> Result<(), LogError> {
        const QUERY: &str = "UPDATE replica SET beat = beat + 1, beat_at = clock_timestamp() WHERE incarnation = $1 AND \
             evicted_by IS NULL RETURNING drain_requested_at IS NOT NULL";
        const REASON: &str = "SELECT evicted_by FROM replica WHERE incarnation = $1";
        let me: [Parameter<'_>; 1] = [(&self.incarnation, Type::UUID)];
        if let Some(row) = within("record a heartbeat", client.query_typed_opt(QUERY, &me)).await? {
            if row.try_get(0).unwrap_or(false) {
                self.drain_request.send_replace(true);
            }
            return Ok(());
        }
        let row = within("read the replicas", client.query_typed_opt(REASON, &me)).await?;
        let by = row.and_then(|row| row.try_get::<_, Option<String>>(0).ok().flatten());
        Err(LogError::Evicted { by: by.unwrap_or_else(|| "another process".to_owned()) })
    }

    /// Counts heartbeats until this replica leaves or is declared dead.
    pub(super) async fn keep_beating(self: Arc<Self>) {
        let mut connection: Option<Client> = None;
        while !self.is_closing.load(Ordering::SeqCst) {
            let client = match connection.take().filter(|client| !client.is_closed()) {
                Some(client) => client,
                None => match self.target.connect(self.incarnation).await {
                    Ok(client) => match self.check_idle_writer(&client).await {
                        Ok(()) => client,
                        Err(LogError::LostEnd { streams }) => {
                            self.lose(Loss::Events(streams));
                            return;
                        }
                        Err(error) => {
                            self.wait_for_database(&error).await;
                            continue;
                        }
                    },
                    Err(error) => {
                        self.wait_for_database(&error).await;
                        continue;
                    }
                },
            };
            let began = Instant::now();
            let succeeded = self.observer.as_ref().map(|observer| observer.begin());
            match self.beat_once(&client).await {
                Ok(()) => {
                    if let Some(succeeded) = succeeded {
                        succeeded();
                    }
                    self.report_heartbeat();
                    connection = Some(client);
                }
                Err(LogError::Evicted { by }) => {
                    self.lose(Loss::Evicted(by));
                    return;
                }
                Err(error) => self.report_outage(Some(error.to_string())),
            }
            tokio::time::sleep(BEAT_INTERVAL.saturating_sub(began.elapsed())).await;
        }
    }

    /// Checks on a new connection that the database still contains the newest events, unless the writer is busy and
    /// checks this itself. Otherwise, an idle replica would notice lost events only at its next append.
    async fn check_idle_writer(&self, client: &Client) -> Result<(), LogError> {
        match self.writer.try_lock() {
            Ok(writer) => self.check_recent(client, &writer.recent).await,
            Err(_) => Ok(()),
        }
    }

    /// Waits for a heartbeat without a time limit, and reports an outage while it takes too long. A heartbeat that
    /// was abandoned would still wait in the database, and the next one behind it.
    async fn beat_once(&self, client: &Client) -> Result<(), LogError> {
        let beat = self.beat(client);
        tokio::pin!(beat);
        loop {
            match tokio::time::timeout(TENURE_COVERAGE, &mut beat).await {
                Ok(result) => return result,
                Err(_) if client.is_closed() || self.is_closing.load(Ordering::SeqCst) => {
                    return Err(LogError::Unavailable {
                        target: self.target.to_string(),
                        reason: "the connection was closed".to_owned(),
                    });
                }
                Err(_) => self.report_outage(Some("the database does not confirm writes".to_owned())),
            }
        }
    }

    /// Returns all replicas that have joined and were not declared dead.
    pub(super) async fn read_replicas(&self, client: &Client) -> Result<Vec<Replica>, LogError> {
        const QUERY: &str = "SELECT incarnation, name, version, beat, (SELECT count(*) FROM shard WHERE owner = \
             incarnation), address, address_digest, shares, joined_at < now() - interval '30 s', drain_requested_at IS NOT \
             NULL FROM replica WHERE evicted_by IS NULL ORDER BY joined_at, incarnation";
        within("read the replicas", async {
            client
                .query_typed(QUERY, &[])
                .await?
                .iter()
                .map(|row| {
                    let incarnation = row.try_get(0)?;
                    let (address, digest): (Option<String>, Option<Vec<u8>>) =
                        (row.try_get(5)?, row.try_get(6)?);
                    let address = address.filter(|address| {
                        digest.is_some_and(|digest| {
                            self.address_digest(incarnation, address).0[..] == digest[..]
                        })
                    });
                    let candidate =
                        Candidate { incarnation, is_settled: row.try_get(8)?, is_draining: row.try_get(9)? };
                    Ok(Replica {
                        candidate: row.try_get::<_, bool>(7)?.then_some(candidate),
                        incarnation,
                        name: row.try_get(1)?,
                        version: row.try_get(2)?,
                        beat: row.try_get(3)?,
                        shards: usize::try_from(row.try_get::<_, i64>(4)?).unwrap_or_default(),
                        address,
                    })
                })
                .collect()
        })
        .await
    }

    /// Reads the replicas, and finds those whose heartbeats stand still.
    pub(super) async fn observe_replicas(
        &self,
        client: &Client,
        watch: &mut ReplicaWatch,
    ) -> Result<ObservedReplicas, LogError> {
        let before = self.started_at.elapsed();
        let replicas = self.read_replicas(client).await?;
        let after = self.started_at.elapsed();
        let others = replicas.iter().filter(|replica| replica.incarnation != self.incarnation);
        let beats = others.map(|replica| (replica.incarnation, replica.beat)).collect();
        let dead = watch.observe(&beats, before, after);
        let lost = watch.take_lost_heartbeats();
        if lost > 0 {
            tracing::warn!(
                "the operation log's database {} lost its newest transactions, at least {lost} s of them, probably in a \
                 failover to a standby without synchronous replication; operations continue from the remaining events, so \
                 commands whose events were lost can be executed again",
                self.target
            );
        }
        Ok(ObservedReplicas { replicas, dead })
    }

    /// Declares replicas dead. Returns those whose heartbeat count hasn't changed since the observation. The others
    /// are alive again.
    pub(super) async fn evict(
        &self,
        client: &Client,
        dead: &[(Uuid, i64)],
    ) -> Result<BTreeSet<Uuid>, LogError> {
        const QUERY: &str = "UPDATE replica SET evicted_by = $3, evicted_at = now() WHERE incarnation = $1 AND \
             beat = $2 AND evicted_by IS NULL";
        let mut evicted = BTreeSet::new();
        for (incarnation, beat) in dead {
            let parameters: [Parameter<'_>; 3] =
                [(incarnation, Type::UUID), (beat, Type::INT8), (&self.name, Type::TEXT)];
            let changed = within("declare a replica dead", client.execute_typed(QUERY, &parameters)).await?;
            if changed > 0 {
                evicted.insert(*incarnation);
            }
        }
        Ok(evicted)
    }

    /// Tries to own all shards, taking over those of dead replicas. Must be called about once a second, so that the
    /// watch can tell which replicas are dead.
    pub(super) async fn claim_shards(
        &self,
        client: &Client,
        watch: &mut ReplicaWatch,
    ) -> Result<Claim, LogError> {
        let ObservedReplicas { mut replicas, dead } = self.observe_replicas(client, watch).await?;
        replicas.retain(|replica| replica.incarnation != self.incarnation);
        let is_dead =
            |replica: &Replica| dead.iter().any(|(incarnation, _)| *incarnation == replica.incarnation);
        if let Some(holder) = replicas.iter().find(|replica| replica.shards > 0 && !is_dead(replica)) {
            return Ok(Claim::Held(holder.clone()));
        }
        let evicted = self.evict(client, &dead).await?;
        let is_alive = |replica: &&Replica| is_dead(replica) && !evicted.contains(&replica.incarnation);
        if let Some(holder) = replicas.iter().find(is_alive) {
            return Ok(Claim::Held(holder.clone()));
        }
        if let Some(tenure) = self.take_shards(client).await? {
            if let Err(error) = self.remove_dead(client).await {
                tracing::warn!(%error, "failed to remove dead replicas");
            }
            return Ok(Claim::Owned(tenure));
        }
        // Another standby was faster, or a transaction of a dead replica still holds the locks.
        self.end_evicted_sessions(client).await?;
        let holder = replicas.into_iter().find(|replica| replica.shards > 0);
        Ok(Claim::Held(holder.unwrap_or_else(Replica::unknown)))
    }

    /// Takes all shards, if they are free or belong to a dead replica. Returns `None` if a live replica owns one of
    /// them, or if a transaction still holds a lock.
    async fn take_shards(&self, client: &Client) -> Result<Option<BTreeMap<i16, i64>>, LogError> {
        let all: Vec<Shard> = Shard::all().collect();
        let taken = self.take_in_transaction(client, &all, "1/(count(*) OVER () = 256)::int").await?;
        Ok(taken.filter(|taken| taken.len() == SHARDS))
    }

    /// Takes those of the shards that are free or belong to a dead replica. Returns `None` if a transaction still holds
    /// a lock.
    pub(super) async fn take_free(&self, client: &Client, shards: &[Shard]) -> Result<Option<()>, LogError> {
        Ok(self.take_in_transaction(client, shards, "1").await?.map(drop))
    }

    /// Takes free shards in a transaction, which fails unless `condition` can be computed. Returns the epochs.
    async fn take_in_transaction(
        &self,
        client: &Client,
        shards: &[Shard],
        condition: &str,
    ) -> Result<Option<BTreeMap<i16, i64>>, LogError> {
        // The rows are locked in the same order as by an append.
        let take = format!(
            "WITH free AS (SELECT s.id FROM shard s WHERE s.id = ANY($2) AND (s.owner IS NULL OR s.owner = $1 OR s.owner IN \
             (SELECT incarnation FROM replica WHERE evicted_by IS NOT NULL)) ORDER BY s.id FOR UPDATE), \
             taken AS (UPDATE shard SET owner = $1, requested_by = NULL, epoch = epoch + 1 WHERE id IN (SELECT id FROM \
             free) RETURNING id, epoch) \
             SELECT id, epoch, {condition} FROM taken"
        );
        let ids: Vec<i16> = shards.iter().map(|shard| shard.number()).collect();
        let run = async {
            client.batch_execute("BEGIN; SET LOCAL lock_timeout = '1s'").await?;
            let parameters: [Parameter<'_>; 2] = [(&self.incarnation, Type::UUID), (&ids, Type::INT2_ARRAY)];
            let rows = client.query_typed(&take, &parameters).await?;
            client.batch_execute("COMMIT").await?;
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
        };
        let result: Result<BTreeMap<i16, i64>, tokio_postgres::Error> =
            match tokio::time::timeout(CALL_TIMEOUT, run).await {
                Ok(result) => result,
                Err(_) => {
                    return Err(LogError::Unavailable {
                        target: self.target.to_string(),
                        reason: "the database did not confirm the takeover in time".to_owned(),
                    });
                }
            };
        let error = match result {
            Ok(tenure) => return Ok(Some(tenure)),
            Err(error) => error,
        };
        let _ = within("cancel", client.batch_execute("ROLLBACK")).await;
        match error.code() {
            Some(code) if *code == SqlState::DIVISION_BY_ZERO || *code == SqlState::LOCK_NOT_AVAILABLE => {
                Ok(None)
            }
            _ => Err(call_error("take over shards", &error)),
        }
    }

    /// Ends the sessions of dead replicas that still own shards. Their transactions may still hold locks.
    pub(super) async fn end_evicted_sessions(&self, client: &Client) -> Result<(), LogError> {
        const QUERY: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND \
             application_name IN (SELECT 'tidegate ' || incarnation FROM replica WHERE evicted_by IS NOT NULL AND EXISTS \
             (SELECT 1 FROM shard WHERE owner = incarnation))";
        within("end the sessions of a dead replica", client.query_typed(QUERY, &[])).await.map(drop)
    }

    /// Removes replicas that own nothing and were declared dead, or sent their last heartbeat, an hour ago. A removed
    /// replica that is still running counts as declared dead.
    pub(super) async fn remove_dead(&self, client: &Client) -> Result<(), LogError> {
        const QUERY: &str = "DELETE FROM replica WHERE coalesce(evicted_at, beat_at, joined_at) < now() - interval '1 hour' \
             AND NOT EXISTS (SELECT 1 FROM shard WHERE owner = incarnation)";
        within("remove dead replicas", client.execute_typed(QUERY, &[])).await.map(drop)
    }

    /// Raises the epochs of shards, so that no earlier statement of this replica can change them anymore. Waits for
    /// their locks. Returns the new epochs, without the shards that belong to another replica.
    pub(super) async fn raise_epochs(
        &self,
        client: &Client,
        shards: &[i16],
    ) -> Result<BTreeMap<i16, i64>, LogError> {
        const QUERY: &str = "WITH mine AS (SELECT id FROM shard WHERE owner = $1 AND id = ANY($2) ORDER BY id FOR UPDATE) \
             UPDATE shard SET epoch = epoch + 1 WHERE id IN (SELECT id FROM mine) RETURNING id, epoch";
        within("raise the epochs", async {
            let rows = client
                .query_typed(QUERY, &[(&self.incarnation, Type::UUID), (&shards, Type::INT2_ARRAY)])
                .await?;
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
        })
        .await
    }

    /// Ends the other sessions of this replica that are in a transaction or execute a statement.
    pub(super) async fn end_own_transactions(&self, client: &Client) -> Result<(), LogError> {
        const QUERY: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 AND \
             pid <> pg_backend_pid() AND state IN ('active', 'idle in transaction', 'idle in transaction (aborted)')";
        let name = application_name(self.incarnation);
        within("end earlier sessions", client.query_typed(QUERY, &[(&name, Type::TEXT)])).await.map(drop)
    }

    /// Gives up all shards and leaves.
    pub(super) async fn leave(&self, client: &Client) -> Result<(), LogError> {
        const FREE: &str = "WITH mine AS (SELECT id FROM shard WHERE owner = $1 ORDER BY id FOR UPDATE) UPDATE shard SET owner \
             = NULL, requested_by = NULL, epoch = epoch + 1 WHERE id IN (SELECT id FROM mine)";
        const LEAVE: &str = "DELETE FROM replica WHERE incarnation = $1";
        let me: [Parameter<'_>; 1] = [(&self.incarnation, Type::UUID)];
        within("free the shards", client.execute_typed(FREE, &me)).await?;
        within("leave the log", client.execute_typed(LEAVE, &me)).await.map(drop)
    }
}
