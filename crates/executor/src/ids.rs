//! Operation IDs. They sort in log order even if the clock is set back.

use std::sync::Arc;
use std::time::Duration;

use tidegate_model::{OperationId, Timestamp};
use tidegate_oplog::LogError;
use tokio::sync::Mutex;
use uuid::{NoContext, Uuid};

use crate::log::Log;
use crate::log::run_blocking;

/// Minimum time between two IDs. IDs from the same millisecond have no defined order.
const ID_DISTANCE_MIN: Duration = Duration::from_millis(1);

/// Creates the ID of a new operation. Each call receives a later time than the previous one.
pub type IdSource = Arc<dyn Fn(Timestamp) -> OperationId + Send + Sync>;

/// Returns a source of random UUIDv7 IDs.
pub(crate) fn random_ids() -> IdSource {
    Arc::new(|now| {
        let since_epoch = Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or(0));
        let time = uuid::Timestamp::from_unix(NoContext, since_epoch.as_secs(), since_epoch.subsec_nanos());
        OperationId(Uuid::new_v7(time))
    })
}

/// Returns the creation time in an operation's ID, or `None` if it has none. It may be ahead of the clock,
/// because it is always later than the preceding operation's.
pub fn creation_time(operation: OperationId) -> Option<Timestamp> {
    let (seconds, nanoseconds) = operation.0.get_timestamp()?.to_unix();
    let millis = seconds.saturating_mul(1000).saturating_add(u64::from(nanoseconds / 1_000_000));
    Some(Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX)))
}

/// IDs of one engine.
pub(crate) struct Ids {
    source: IdSource,
    /// Creation time in the newest operation's ID, or `None` before the first request.
    newest: Mutex<Option<Timestamp>>,
}

impl Ids {
    pub(crate) fn new(source: IdSource) -> Self {
        Self { source, newest: Mutex::default() }
    }

    /// Returns an ID that sorts after all IDs in the log, whatever the clock.
    pub(crate) async fn next(&self, log: &Log, now: Timestamp) -> Result<OperationId, LogError> {
        let mut newest = self.newest.lock().await;
        let before = match *newest {
            Some(before) => before,
            None => run_blocking(log, newest_in_log).await?,
        };
        let at = now.max(before + ID_DISTANCE_MIN);
        *newest = Some(at);
        Ok((self.source)(at))
    }
}

fn newest_in_log(log: &Log) -> Result<Timestamp, LogError> {
    let impaired = log.impaired_streams().into_iter().map(|impaired| impaired.stream);
    let all = log.ids()?.into_iter().chain(impaired).map(OperationId::from);
    Ok(all.filter_map(creation_time).max().unwrap_or_default())
}
