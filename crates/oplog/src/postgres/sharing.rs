//! Shards of replicas that share the work: taking free ones, asking for others, and handing over.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::FutureExt as _;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::connection::{Parameter, within};
use super::distribution::{Candidate, FreeShards, Shard, ShardRow, plan_distribution};
use super::watch::ReplicaWatch;
use super::writer::Writer;
use super::{Inner, PostgresLog};
use crate::LogError;

/// Shards of a replica that shares the work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// Shards that this replica owns.
    pub owned: BTreeSet<Shard>,
    /// Shards among them that another replica has asked for. They are handed over with [`PostgresLog::hand_over`],
    /// once this replica has stopped working on them.
    pub requested: BTreeSet<Shard>,
    /// Number of shards that no replica owns.
    pub unowned: usize,
}

/// State of a replica that shares the work.
#[derive(Default)]
pub(super) struct Sharing {
    client: Option<Client>,
    watch: ReplicaWatch,
    free: FreeShards,
    /// Shards of a handover whose outcome is unknown.
    doubtful: Vec<i16>,
}

impl PostgresLog {
    /// Takes part in the distribution of the shards, and returns the shards that this replica owns. Must be called
    /// about once a second, so that the replica can tell which other ones are dead. Only for a replica that joined
    /// with [`PostgresOptions::shares`](super::PostgresOptions::shares).
    ///
    /// Like every write, waits while an append waits for the database.
    ///
    /// # Errors
    ///
    /// Returns an error if the database is unavailable, or if this replica can never write again.
    pub fn share_shards(&self) -> Result<Ownership, LogError> {
        self.wait(|inner| async move { inner.share_shards().await }.boxed())?
    }

    /// Hands over shards that other replicas have asked for. This replica keeps the other shards, and the shards of
    /// requests that were withdrawn. It must have stopped working on all of them.
    ///
    /// # Errors
    ///
    /// Returns an error if the database is unavailable. The next [`share_shards`](Self::share_shards) returns the
    /// actual owner.
    pub fn hand_over(&self, shards: BTreeSet<Shard>) -> Result<(), LogError> {
        self.wait(|inner| async move { inner.hand_over(shards).await }.boxed())?
    }
}

impl Inner {
    async fn share_shards(&self) -> Result<Ownership, LogError> {
        let mut sharing = self.sharing.lock().await;
        self.check_usable()?;
        let client = self.sharing_client(&mut sharing).await?;
        self.settle_handover(&client, &mut sharing.doubtful).await?;
        self.withdraw_requests(&client).await?;
        let observed = self.observe_replicas(&client, &mut sharing.watch).await?;
        let evicted = self.evict(&client, &observed.dead).await?;
        let candidates: Vec<Candidate> = observed
            .replicas
            .iter()
            .filter(|replica| !evicted.contains(&replica.incarnation))
            .filter_map(|replica| replica.candidate)
            .collect();
        let rows = read_shards(&client).await?;
        let overdue = sharing.free.observe(&rows, self.started_at.elapsed());
        let plan = plan_distribution(self.incarnation, &candidates, &rows, &overdue);
        if !plan.take.is_empty() && self.take_free(&client, &plan.take).await?.is_none() {
            // The transaction of a dead replica still holds a lock.
            self.end_evicted_sessions(&client).await?;
        }
        if !plan.request.is_empty() {
            self.request_shards(&client, &plan.request).await?;
        }
        let owned: BTreeSet<Shard> = {
            let mut writer = self.writer.lock().await;
            self.check_usable()?;
            self.update_tenure(&client, &mut writer).await?;
            writer.tenure.keys().filter_map(|shard| Shard::from_row(*shard)).collect()
        };
        let rows = read_shards(&client).await?;
        if !evicted.is_empty()
            && let Err(error) = self.remove_dead(&client).await
        {
            tracing::warn!(%error, "failed to remove dead replicas");
        }
        sharing.client = Some(client);
        let is_requested = |row: &&ShardRow| owned.contains(&row.shard) && row.requested_by.is_some();
        let requested = rows.iter().filter(is_requested).map(|row| row.shard).collect();
        let unowned = rows.iter().filter(|row| row.owner.is_none()).count();
        Ok(Ownership { owned, requested, unowned })
    }

    async fn hand_over(&self, shards: BTreeSet<Shard>) -> Result<(), LogError> {
        // Locking the requesters prevents them from leaving. The epoch ensures that the statement has no effect if it
        // arrives late.
        const QUERY: &str = "WITH live AS (SELECT incarnation FROM replica WHERE evicted_by IS NULL AND drain_requested_at IS \
             NULL ORDER BY incarnation FOR KEY SHARE), mine AS (SELECT s.id FROM shard s JOIN unnest($2, $3) AS n(id, epoch) \
             ON s.id = n.id AND s.epoch = n.epoch WHERE s.owner = $1 AND s.requested_by IN (SELECT incarnation FROM live) \
             ORDER BY s.id FOR UPDATE OF s) UPDATE shard SET owner = requested_by, requested_by = NULL, epoch = epoch + 1 \
             WHERE id IN (SELECT id FROM mine)";
        // The next step must not add the shards to the tenure before they are handed over.
        let mut sharing = self.sharing.lock().await;
        self.check_usable()?;
        let client = self.sharing_client(&mut sharing).await?;
        self.settle_handover(&client, &mut sharing.doubtful).await?;
        let (ids, epochs): (Vec<i16>, Vec<i64>) = {
            let mut writer = self.writer.lock().await;
            let is_left = |shard: i16| Shard::from_row(shard).is_some_and(|shard| shards.contains(&shard));
            let (left, kept): (BTreeMap<_, _>, _) =
                std::mem::take(&mut writer.tenure).into_iter().partition(|(shard, _)| is_left(*shard));
            writer.tenure = kept;
            writer.forget_unowned();
            left.into_iter().unzip()
        };
        sharing.doubtful.extend(&ids);
        let parameters: [Parameter<'_>; 3] =
            [(&self.incarnation, Type::UUID), (&ids, Type::INT2_ARRAY), (&epochs, Type::INT8_ARRAY)];
        within("hand over shards", client.execute_typed(QUERY, &parameters)).await?;
        sharing.client = Some(client);
        sharing.doubtful.clear();
        Ok(())
    }

    /// Makes sure that a handover whose outcome is unknown can't take effect later. Waits for its transaction.
    async fn settle_handover(&self, client: &Client, doubtful: &mut Vec<i16>) -> Result<(), LogError> {
        if !doubtful.is_empty() {
            self.raise_epochs(client, doubtful).await?;
            doubtful.clear();
        }
        Ok(())
    }

    /// Removes requests for this replica's shards by replicas that stop or have stopped.
    async fn withdraw_requests(&self, client: &Client) -> Result<(), LogError> {
        const QUERY: &str = "WITH mine AS (SELECT id FROM shard WHERE owner = $1 AND requested_by IS NOT NULL AND requested_by \
             NOT IN (SELECT incarnation FROM replica WHERE evicted_by IS NULL AND drain_requested_at IS NULL) ORDER BY id FOR \
             UPDATE) UPDATE shard SET requested_by = NULL WHERE id IN (SELECT id FROM mine)";
        let parameters: [Parameter<'_>; 1] = [(&self.incarnation, Type::UUID)];
        within("withdraw requests", client.execute_typed(QUERY, &parameters)).await.map(drop)
    }

    async fn sharing_client(&self, sharing: &mut Sharing) -> Result<Client, LogError> {
        match sharing.client.take().filter(|client| !client.is_closed()) {
            Some(client) => Ok(client),
            None => self.target.connect(self.incarnation).await,
        }
    }

    /// Asks the owners of shards to hand them over, unless another replica was faster.
    async fn request_shards(&self, client: &Client, shards: &[Shard]) -> Result<(), LogError> {
        const QUERY: &str = "WITH open AS (SELECT s.id FROM shard s WHERE s.id = ANY($2) AND s.owner <> $1 AND \
             (s.requested_by IS NULL OR s.requested_by NOT IN (SELECT incarnation FROM replica WHERE evicted_by IS NULL)) \
             AND s.owner IN (SELECT incarnation FROM replica WHERE evicted_by IS NULL AND shares) ORDER BY s.id FOR UPDATE \
             SKIP LOCKED) UPDATE shard SET requested_by = $1 WHERE id IN (SELECT id FROM open)";
        let ids: Vec<i16> = shards.iter().map(|shard| shard.number()).collect();
        let parameters: [Parameter<'_>; 2] = [(&self.incarnation, Type::UUID), (&ids, Type::INT2_ARRAY)];
        within("ask for shards", client.execute_typed(QUERY, &parameters)).await.map(drop)
    }

    /// Updates the tenure with the shards that this replica owns.
    pub(super) async fn update_tenure(&self, client: &Client, writer: &mut Writer) -> Result<(), LogError> {
        const QUERY: &str = "SELECT id, epoch FROM shard WHERE owner = $1";
        let tenure: BTreeMap<i16, i64> = within("read the shards", async {
            let rows = client.query_typed(QUERY, &[(&self.incarnation, Type::UUID)]).await?;
            rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
        })
        .await?;
        // Another replica may have changed the streams of a shard with another epoch.
        writer.tenure.retain(|id, epoch| tenure.get(id) == Some(epoch));
        writer.forget_unowned();
        writer.tenure = tenure;
        Ok(())
    }
}

/// Returns the rows of all shards. Owners that were declared dead count as none.
async fn read_shards(client: &Client) -> Result<Vec<ShardRow>, LogError> {
    const QUERY: &str = "SELECT s.id, r.incarnation, q.incarnation FROM shard s LEFT JOIN replica r ON r.incarnation = \
         s.owner AND r.evicted_by IS NULL LEFT JOIN replica q ON q.incarnation = s.requested_by AND q.evicted_by IS NULL AND \
         q.drain_requested_at IS NULL ORDER BY s.id";
    within("read the shards", async {
        client
            .query_typed(QUERY, &[])
            .await?
            .iter()
            .map(|row| {
                let shard = Shard::from_row(row.try_get(0)?);
                let (owner, requested_by) = (row.try_get(1)?, row.try_get(2)?);
                Ok(shard.map(|shard| ShardRow { shard, owner, requested_by }))
            })
            .collect::<Result<Vec<_>, _>>()
    })
    .await
    .map(|rows| rows.into_iter().flatten().collect())
}
