//! The list of replicas, and requests to hand over. These calls require neither the key of the log nor joining it.

use std::fmt;
use std::time::Duration;

use tidegate_model::Timestamp;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use super::connection::{Parameter, within};
use super::schema::{DRAIN_LAYOUT, check_replica_list};
use super::watch::DEAD_AFTER;
use super::{PostgresTarget, random_id};
use crate::LogError;

/// A process that uses the log, as shown in lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedReplica {
    /// Unique ID of the process.
    pub incarnation: Uuid,
    /// Name for messages, such as `pid 41 on node-1`.
    pub name: String,
    /// Version of the program.
    pub version: String,
    /// State at the time of the list.
    pub state: ReplicaState,
    /// Number of shards that it owns.
    pub shards: usize,
    /// URL of its API for the other replicas, if they can reach it.
    pub address: Option<String>,
    /// Time since the newest heartbeat by the database's clock, or since it joined.
    pub last_heartbeat: Duration,
    /// False if its version is too old to notice a request to hand over.
    pub can_drain: bool,
    /// Time when it joined.
    pub joined_at: Timestamp,
}

/// State of a replica in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// Owns the shards.
    Leader,
    /// Waits to take over.
    Standby,
    /// Was asked to hand over and stop.
    Draining,
    /// Has sent no heartbeat for 8 s, so another replica may take over.
    Unresponsive,
    /// Was declared dead by another replica, and can never write again.
    Dead,
}

impl fmt::Display for ReplicaState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leader => "leader",
            Self::Standby => "standby",
            Self::Draining => "draining",
            Self::Unresponsive => "unresponsive",
            Self::Dead => "dead",
        })
    }
}

/// Result of a request to hand over and stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainRequest {
    /// The replica stops when it notices the request at its next heartbeat.
    Requested,
    /// No other replica could take over.
    NoSuccessor,
    /// The replica has left or was declared dead, or its version is too old to notice the request.
    Left,
}

impl PostgresTarget {
    /// Returns the replicas of the log, in the order in which they joined. Returns `None` if the log doesn't exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be read, or if the log has an unsupported layout.
    pub async fn list_replicas(&self) -> Result<Option<Vec<ListedReplica>>, LogError> {
        const QUERY: &str = "SELECT incarnation, name, version, (SELECT count(*) FROM shard WHERE owner = incarnation), \
             (extract(epoch FROM clock_timestamp() - coalesce(beat_at, joined_at)) * 1000)::bigint, (extract(epoch FROM \
             joined_at) * 1000)::bigint, evicted_by IS NOT NULL, drain_requested_at IS NOT NULL, layout, address FROM \
             replica ORDER BY joined_at, incarnation";
        let Some(client) = self.connect_to_list().await? else { return Ok(None) };
        within("read the replicas", async {
            client.query_typed(QUERY, &[]).await?.iter().map(read_replica).collect::<Result<_, _>>().map(Some)
        })
        .await
    }

    /// Asks a replica to hand over its shards and stop.
    ///
    /// # Errors
    ///
    /// Returns an error if the database cannot be written, or if the log has an unsupported layout.
    pub async fn request_drain(&self, incarnation: Uuid) -> Result<DrainRequest, LogError> {
        // Requests wait for each other. Otherwise, two of them could each count on the other's replica.
        const LOCK: &str = "BEGIN; SELECT FROM meta FOR UPDATE";
        const QUERY: &str = "UPDATE replica SET drain_requested_at = now() WHERE incarnation = $1 AND evicted_by IS NULL \
             AND layout >= $2 AND EXISTS (SELECT FROM replica other WHERE other.incarnation <> $1 AND other.evicted_by IS \
             NULL AND other.drain_requested_at IS NULL AND coalesce(other.beat_at, other.joined_at) > clock_timestamp() - \
             $3 * interval '1 ms')";
        const REASON: &str =
            "SELECT FROM replica WHERE incarnation = $1 AND evicted_by IS NULL AND layout >= $2";
        let Some(client) = self.connect_to_list().await? else { return Ok(DrainRequest::Left) };
        let dead_after = i64::try_from(DEAD_AFTER.as_millis()).unwrap_or(i64::MAX);
        let parameters: [Parameter<'_>; 3] =
            [(&incarnation, Type::UUID), (&DRAIN_LAYOUT, Type::INT4), (&dead_after, Type::INT8)];
        within("ask a replica to stop", async {
            client.batch_execute(LOCK).await?;
            let is_requested = client.execute_typed(QUERY, &parameters).await? > 0;
            let is_there = client.query_typed_opt(REASON, &parameters[..2]).await?.is_some();
            client.batch_execute("COMMIT").await?;
            Ok(match (is_requested, is_there) {
                (true, _) => DrainRequest::Requested,
                (false, true) => DrainRequest::NoSuccessor,
                (false, false) => DrainRequest::Left,
            })
        })
        .await
    }

    /// Connects to the log. Returns `None` if it doesn't exist.
    async fn connect_to_list(&self) -> Result<Option<Client>, LogError> {
        let client = self.connect(random_id()?).await?;
        Ok(check_replica_list(&client, self).await?.then_some(client))
    }
}

fn read_replica(row: &Row) -> Result<ListedReplica, tokio_postgres::Error> {
    let shards = usize::try_from(row.try_get::<_, i64>(3)?).unwrap_or_default();
    // The clock of the database may have been set back.
    let last_heartbeat = Duration::from_millis(u64::try_from(row.try_get::<_, i64>(4)?).unwrap_or_default());
    let (is_dead, is_draining): (bool, bool) = (row.try_get(6)?, row.try_get(7)?);
    let state = match shards {
        _ if is_dead => ReplicaState::Dead,
        _ if last_heartbeat >= DEAD_AFTER => ReplicaState::Unresponsive,
        _ if is_draining => ReplicaState::Draining,
        0 => ReplicaState::Standby,
        _ => ReplicaState::Leader,
    };
    Ok(ListedReplica {
        incarnation: row.try_get(0)?,
        name: row.try_get(1)?,
        version: row.try_get(2)?,
        state,
        shards,
        last_heartbeat,
        can_drain: row.try_get::<_, i32>(8)? >= DRAIN_LAYOUT,
        address: row.try_get(9)?,
        joined_at: Timestamp::from_millis(row.try_get(5)?),
    })
}
