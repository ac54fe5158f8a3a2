//! Explains slow calls to a cluster before an operation exists.

use std::convert::Infallible;
use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_executor::{Clock as _, SystemClock};

use crate::notices::Notices;

/// Interval between checks of the cluster.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between explanations during a long wait.
const REMINDER_INTERVAL: Duration = Duration::from_secs(15);

/// Runs work that uses a cluster, and reports the cause of any delay.
pub async fn with_delay_notices<T>(
    cluster: &dyn Cluster,
    notices: &dyn Notices,
    work: impl Future<Output = T>,
) -> T {
    tokio::select! {
        biased;
        done = work => done,
        never = report_delays(cluster, notices) => match never {},
    }
}

async fn report_delays(cluster: &dyn Cluster, notices: &dyn Notices) -> Infallible {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        if let Some(strain) = cluster.backpressure() {
            notices.note(&strain.describe(SystemClock.now()));
            tokio::time::sleep(REMINDER_INTERVAL).await;
        }
    }
}
