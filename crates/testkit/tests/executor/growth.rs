//! The log grows with the amount of retained data, not with the number of operations. The log, its files, its
//! bookkeeping in memory and the engine's entries exceed their retention limits by at most a tenth.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::sim::{Clock as SimClock, SimCluster, SimConfig};
use tidegate_executor::{Engine, RuntimeClock, codecs};
use tidegate_model::{Destination, OperationPhase};
use tidegate_oplog::{Holder, LogEntries, OpenOptions, OperationLog as _, Retention, SledLog};
use tidegate_testkit::effort;
use tidegate_testkit::process::START;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{config, submit, wait_for_end, with_time_limit};

const APPLICATIONS: usize = 20;
const HISTORY: usize = 5;
const SUMMARIES: usize = 20;
/// Number of rounds until the log is full and has been compacted a few times.
const FULL_AFTER: usize = SUMMARIES * 3 / 2;
/// Allowance in bytes for free database segments that aren't reused yet.
const SLACK: u64 = 16 * (512 << 10);

/// Disk usage of the log, and entries in memory.
#[derive(Clone, Copy, Debug, Default)]
struct DiskUsage {
    database: u64,
    blob_bytes: u64,
    blobs: usize,
    witness: u64,
    log: LogEntries,
    /// Number of the engine's entries: actors, stored results, subscribers and others.
    engine: usize,
}

impl DiskUsage {
    fn measure(folder: &Path, log: LogEntries, engine: usize) -> Self {
        let (blob_bytes, blobs) = size(&folder.join("blobs"));
        let witness = std::fs::metadata(folder.join("witness")).unwrap().len();
        Self { database: size(&folder.join("log")).0, blob_bytes, blobs, witness, log, engine }
    }

    fn max(self, other: Self) -> Self {
        Self {
            database: self.database.max(other.database),
            blob_bytes: self.blob_bytes.max(other.blob_bytes),
            blobs: self.blobs.max(other.blobs),
            witness: self.witness.max(other.witness),
            log: LogEntries {
                streams: self.log.streams.max(other.log.streams),
                bookkeeping: self.log.bookkeeping.max(other.log.bookkeeping),
                blobs: self.log.blobs.max(other.log.blobs),
            },
            engine: self.engine.max(other.engine),
        }
    }
}

fn open(folder: &Path) -> Arc<SledLog> {
    let holder = Holder { pid: std::process::id(), command: "test".into(), since: START };
    Arc::new(SledLog::open(folder, OpenOptions { holder, key: None, codecs: codecs() }).unwrap())
}

/// Returns the total size and number of the files below a folder.
fn size(folder: &Path) -> (u64, usize) {
    let mut sum = (0, 0);
    for entry in std::fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        // A file that is missing is being removed.
        let Ok(found) = entry.metadata() else { continue };
        let (bytes, files) = if found.is_dir() { size(&entry.path()) } else { (found.len(), 1) };
        sum = (sum.0 + bytes, sum.1 + files);
    }
    sum
}

/// Returns the resident memory of this process, if the system reports it. It includes the simulated cluster
/// with its audit log.
fn resident_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the number of listed streams, and the number of streams with events.
fn count_streams(log: &SledLog) -> (usize, usize) {
    let ids = log.ids().unwrap();
    (ids.len(), ids.iter().filter(|id| log.events(**id).is_ok()).count())
}

#[tokio::test(start_paused = true)]
async fn a_log_exceeds_its_retention_by_a_tenth_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    let keep = Retention { history: HISTORY, summaries: SUMMARIES, ..Retention::default() };
    let cluster = Arc::new(SimCluster::in_memory(SimConfig::without_delays(), SimClock::tokio(START)));
    let engine = Engine::builder(Arc::clone(&log) as tidegate_oplog::Log)
        .cluster(Destination::Simulated, cluster)
        .clock(Arc::new(RuntimeClock::starting_at(START)))
        // Disable periodic compaction with a very long interval.
        .compact_every(Duration::from_secs(1_000_000_000), keep)
        .start()
        .await
        .unwrap();
    let operations = effort::rounds("TIDEGATE_GROWTH_OPERATIONS", 1_000, 6_000);
    let rounds = usize::try_from(operations).unwrap() / APPLICATIONS;
    // Maximum usage before and after the log was full.
    let (mut full, mut later) = (DiskUsage::default(), DiskUsage::default());
    for round in 0..rounds {
        let mut started = Vec::new();
        for number in 0..APPLICATIONS {
            let name = format!("application-{number}");
            // Every round changes the manifests, like a new commit.
            let commit = format!("{round:05}");
            let text = config(&format!("{name}-{}", round % 3), 0, &[("commit", &commit)]);
            let sync =
                SyncSpec::new(&text).with_request(|request| request.application = name.as_str().into());
            started.push(submit(&engine, &sync).await);
        }
        for id in started {
            assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
        }
        let settled = async {
            while log.is_compaction_due() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        with_time_limit(settled).await;
        let (listed, whole) = count_streams(&log);
        assert!(listed <= APPLICATIONS * SUMMARIES * 11 / 10, "{listed} listed in round {round}");
        assert!(whole <= APPLICATIONS * HISTORY * 11 / 10, "{whole} with events in round {round}");
        let (log, of_engine) = (log.entries_in_memory(), engine.entries_in_memory().await.unwrap());
        assert!(log.streams <= APPLICATIONS * SUMMARIES * 11 / 10, "{log:?} in round {round}");
        let at_work = engine.running_operations().await.unwrap();
        assert!(at_work.is_empty(), "{} actors of finished operations in round {round}", at_work.len());
        let found = DiskUsage::measure(folder.path(), log, of_engine);
        if round % (rounds / 20).max(1) == 0 {
            let resident = resident_kib();
            eprintln!("round {round}: {listed} listed, {whole} with events, {resident:?} KiB, {found:?}");
        }
        let measures = if round <= FULL_AFTER { &mut full } else { &mut later };
        *measures = measures.max(found);
    }
    engine.shutdown().await;
    assert!(later.blobs <= full.blobs * 11 / 10, "blobs: {full:?}, later {later:?}");
    assert!(later.blob_bytes <= full.blob_bytes * 11 / 10, "blobs: {full:?}, later {later:?}");
    assert!(later.witness <= full.witness * 11 / 10, "the witness: {full:?}, later {later:?}");
    let (streams, limit) = (later.log.bookkeeping, full.log.bookkeeping * 11 / 10);
    assert!(streams <= limit, "the bookkeeping in memory: {full:?}, later {later:?}");
    assert!(later.log.blobs <= full.log.blobs * 11 / 10, "blobs in memory: {full:?}, later {later:?}");
    assert!(later.engine <= full.engine * 11 / 10, "entries of the engine: {full:?}, later {later:?}");
    // The timing of sled's garbage collection varies, so allow some slack.
    assert!(later.database <= full.database * 11 / 10 + SLACK, "the database: {full:?}, later {later:?}");
}
