//! Calls to a cluster that are made before there is an operation to ask: while one has no answer, why is said.

use std::convert::Infallible;
use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_executor::{Clock as _, SystemClock};

use crate::notices::Notices;

/// How often the cluster is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A long wait is explained this often.
const REMIND_EVERY: Duration = Duration::from_secs(15);

/// Does some work with a cluster, and says what keeps it waiting.
pub async fn explained<T>(cluster: &dyn Cluster, notices: &dyn Notices, work: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        done = work => done,
        never = tell(cluster, notices) => match never {},
    }
}

async fn tell(cluster: &dyn Cluster, notices: &dyn Notices) -> Infallible {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if let Some(strain) = cluster.strain() {
            notices.note(&strain.words(SystemClock.now()));
            tokio::time::sleep(REMIND_EVERY).await;
        }
    }
}
