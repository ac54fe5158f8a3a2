//! Calls to a cluster that are made before there is an operation to ask: while one has no answer, why is said.

use std::convert::Infallible;
use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_executor::{Clock as _, SystemClock};

use crate::output::Printer;

/// How often the cluster is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A long wait is explained this often.
const REMIND_EVERY: Duration = Duration::from_secs(15);

/// Does some work with a cluster, and says what keeps it waiting.
pub async fn explained<T>(cluster: &dyn Cluster, printer: &Printer, work: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        done = work => done,
        never = tell(cluster, printer) => match never {},
    }
}

async fn tell(cluster: &dyn Cluster, printer: &Printer) -> Infallible {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if let Some(strain) = cluster.strain() {
            printer.note(&strain.words(SystemClock.now()));
            tokio::time::sleep(REMIND_EVERY).await;
        }
    }
}
