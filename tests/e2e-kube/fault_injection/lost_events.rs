//! Failovers to a standby of the database that lacks the newest commits.

use std::collections::BTreeSet;
use std::time::Duration;

use tidegate_testkit::tcp_proxy::{Direction, TcpProxy};

use super::database::{Database, Replication};
use super::faults::{Fault, REPLICAS};
use super::{FaultInjection, SEED, fleet};

/// Number of writes before the standby of the database stops replicating.
const WRITES: usize = 4;
/// Minimum number of lost heartbeats.
const LOST_HEARTBEATS_MIN: i64 = 3;
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Beginning of the error with the IDs of the operations.
const LOST: &str = "lost acknowledged events of ";
/// Part of the warning of a standby.
const HEARTBEATS_LOST: &str = "lost its newest transactions";

/// Service that reports the lost events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reporter {
    /// The leader, which knows the affected operations.
    Leader,
    /// A standby, because the leader is killed together with the database's primary.
    Standby,
}

pub async fn lost_events_are_reported_after_an_asynchronous_failover() {
    let Some(database) = Database::start(Replication::Asynchronous) else { return };
    let mut run = FaultInjection::start(SEED, database).await;
    for replica in &mut run.services.replicas {
        assert!(replica.count_lines("replicate asynchronously") > 0, "no warning from {}", replica.directory);
    }
    let reporters = [Reporter::Leader, Reporter::Standby];
    for reporter in reporters {
        run.lose_events(reporter).await;
    }
    println!("{} hooks started again", run.witness.count_repeated());
    run.finish(reporters.len() as u64);
}

impl FaultInjection {
    async fn lose_events(&mut self, reporter: Reporter) {
        self.story.faults.push(format!("lost events, reported by the {reporter:?}"));
        let warnings_before = self.count_warnings();
        let pushed = self.bench.control.audit_mark();
        let version = format!("{reporter:?}");
        let commit = fleet::commit(&self.bench, &version);
        for number in fleet::numbers() {
            fleet::refresh(&self.bench, number).await;
        }
        self.wait_for_writes(pushed, WRITES).await;
        let database = self.services.database.take().unwrap();
        database.stop_replication();
        let lost = lost_operations(&database, &self.services.active().databases);
        // The services can't know that these operations have ended.
        self.ended.retain(|operation| !lost.contains(operation));
        self.lost.extend(lost.iter().cloned());
        if reporter == Reporter::Standby {
            self.services.active().signal("KILL");
            self.services.active().finish();
        }
        let leader = &self.services.replicas[self.services.active];
        // Otherwise, a standby could take over before the leader finds the lost events.
        let release = || {
            if reporter == Reporter::Leader {
                leader.release_database();
            }
        };
        self.services.database = Some(database.fail_over(&self.services.replicas, release));
        if reporter == Reporter::Leader {
            let ran = self.services.active().finish().expect_code(1);
            let named = ran.err.lines().find_map(|line| line.split_once(LOST)?.1.split_once(", probably"));
            let named = named.unwrap_or_else(|| panic!("no lost operation is named in:\n{}", ran.err)).0;
            let named: BTreeSet<String> = named.split(", ").map(str::to_owned).collect();
            assert_eq!(named, lost, "{}", ran.err);
        }
        self.services.wait_for_takeover(Fault::LostEvents);
        let warnings = self.count_warnings();
        let former = self.services.former;
        let has_warned = |index: usize| index != former && warnings[index] > warnings_before[index];
        assert!((0..REPLICAS).any(has_warned), "no standby has warned: {warnings:?}");
        self.services.start_former(&self.bench);
        self.wait_until_synced(&commit, &version).await;
        self.services.check_active(&self.bench).await;
        let operations = self.check(&BTreeSet::new(), &commit, &version).await;
        let (_, time) = self.services.takeovers.last().unwrap();
        println!(
            "reported by the {reporter:?}: lost events of {} operations, takeover in {time:.1?}; {operations} operations",
            lost.len()
        );
    }

    /// Returns the number of warnings about lost heartbeats from each service. A service that has ended has none.
    fn count_warnings(&mut self) -> [usize; REPLICAS] {
        self.services.replicas.each_mut().map(|replica| match replica.is_running() {
            true => replica.count_lines(HEARTBEATS_LOST),
            false => 0,
        })
    }
}

/// Waits until the standby of the database lacks enough commits. Holds back the requests of the active service to the
/// database, and returns the operations with lost events.
fn lost_operations(database: &Database, proxies: &[TcpProxy; 2]) -> BTreeSet<String> {
    let beats = || database.query("SELECT max(beat) FROM replica").parse::<i64>().unwrap();
    let first = beats();
    while beats() < first + LOST_HEARTBEATS_MIN {
        std::thread::park_timeout(POLL_INTERVAL);
    }
    for proxy in proxies {
        proxy.hold(Direction::ToServer);
    }
    let [primary, standby] = database.read_streams();
    let lost: BTreeSet<String> =
        primary.into_iter().filter(|(id, last)| standby.get(id) != Some(last)).map(|(id, _)| id).collect();
    assert!(!lost.is_empty(), "no event is lost");
    lost
}
