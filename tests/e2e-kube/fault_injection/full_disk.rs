//! A full disk of the database.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::database::Database;
use super::{FaultInjection, SEED, fleet};
use crate::leadership::probe;
use crate::postgres_server::SmallDisk;

/// Number of writes before the disk is full.
const WRITES: usize = 4;
/// Time during which the disk stays full.
const OUTAGE: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const READINESS_TIMEOUT: Duration = Duration::from_secs(300);
const REASON: &str = "waiting for the operation log's database";

pub async fn a_full_disk_of_the_database_pauses_operations() {
    for disk in [SmallDisk::Tables, SmallDisk::WriteAheadLog] {
        let Some(database) = Database::start_on_small_disk(disk) else { return };
        let mut run = FaultInjection::start(SEED, database).await;
        run.fill_disk(disk).await;
        run.finish(1);
    }
}

impl FaultInjection {
    async fn fill_disk(&mut self, disk: SmallDisk) {
        self.story.faults.push(format!("full disk of the {disk:?}"));
        let pushed = self.bench.control.audit_mark();
        let version = format!("{disk:?}");
        let commit = fleet::commit(&self.bench, &version);
        for number in fleet::numbers() {
            fleet::refresh(&self.bench, number).await;
        }
        self.wait_for_writes(pushed, WRITES).await;
        let database = self.services.database.as_ref().unwrap();
        database.fill_disk(disk);
        let url = self.services.active().url.clone();
        let body = wait_for_readiness(&url, 503).await;
        assert!(body.contains(REASON), "{body}");
        println!("{disk:?}: {}", body.lines().last().unwrap_or_default());
        let full = Instant::now();
        while full.elapsed() < OUTAGE {
            let (code, body) = probe(host(&url), "/readyz");
            assert!(code == 503 && body.contains(REASON), "after {:?}: {code} {body}", full.elapsed());
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let database = self.services.database.as_mut().unwrap();
        database.primary().free_disk();
        if disk == SmallDisk::WriteAheadLog {
            // The server has stopped.
            database.restart_with_new_standby(&self.services.replicas);
        }
        wait_for_readiness(&url, 200).await;
        self.wait_until_synced(&commit, &version).await;
        self.services.check_active(&self.bench).await;
        let operations = self.check(&BTreeSet::new(), &commit, &version).await;
        println!("{disk:?}: {operations} operations");
    }
}

fn host(url: &str) -> &str {
    url.strip_prefix("http://").unwrap()
}

async fn wait_for_readiness(url: &str, code: u16) -> String {
    let started = Instant::now();
    loop {
        let (found, body) = probe(host(url), "/readyz");
        if found == code {
            return body;
        }
        assert!(
            started.elapsed() < READINESS_TIMEOUT,
            "expected {code}, but {url}/readyz is {found}: {body}"
        );
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
