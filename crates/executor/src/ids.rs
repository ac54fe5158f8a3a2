//! The ids of operations. They are in the order of the log, also where the clock is not.

use std::sync::Arc;
use std::time::Duration;

use tidegate_model::{OperationId, Timestamp};
use tidegate_oplog::LogError;
use tokio::sync::Mutex;
use uuid::{NoContext, Uuid};

use crate::log::Log;
use crate::log::blocking;

/// Two ids of the same millisecond would be in any order.
const STEP: Duration = Duration::from_millis(1);

/// Gives each new operation its id. It is asked with a later time for each.
pub type IdSource = Arc<dyn Fn(Timestamp) -> OperationId + Send + Sync>;

/// Random UUIDv7 ids.
pub(crate) fn random_ids() -> IdSource {
    Arc::new(|now| {
        let since_epoch = Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or(0));
        let time = uuid::Timestamp::from_unix(NoContext, since_epoch.as_secs(), since_epoch.subsec_nanos());
        OperationId(Uuid::new_v7(time))
    })
}

/// When an operation was made, as its id says; `None` where the id says nothing of the kind. It may be later than the
/// clock was, and is never earlier than that of an operation before it.
pub fn made_at(operation: OperationId) -> Option<Timestamp> {
    let (seconds, nanoseconds) = operation.0.get_timestamp()?.to_unix();
    let millis = seconds.saturating_mul(1000).saturating_add(u64::from(nanoseconds / 1_000_000));
    Some(Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX)))
}

/// The ids of one engine.
pub(crate) struct Ids {
    source: IdSource,
    /// When the newest operation was made, as its id says; unknown before the first is asked for.
    newest: Mutex<Option<Timestamp>>,
}

impl Ids {
    pub(crate) fn new(source: IdSource) -> Self {
        Self { source, newest: Mutex::default() }
    }

    /// An id after all that are in the log, whatever the clock says.
    pub(crate) async fn next(&self, log: &Log, now: Timestamp) -> Result<OperationId, LogError> {
        let mut newest = self.newest.lock().await;
        let before = match *newest {
            Some(before) => before,
            None => blocking(log, |log| Ok(newest_in(log))).await?,
        };
        let at = now.max(before + STEP);
        *newest = Some(at);
        Ok((self.source)(at))
    }
}

fn newest_in(log: &Log) -> Timestamp {
    let impaired = log.impaired().into_iter().map(|impaired| impaired.stream);
    let all = log.ids().into_iter().chain(impaired).map(OperationId::from);
    all.filter_map(made_at).max().unwrap_or_default()
}
