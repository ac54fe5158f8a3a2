//! Faults, and their recovery.

use std::time::{Duration, Instant};

use tidegate_testkit::kube::{AuditEvent, Mark};
use tidegate_testkit::tcp_proxy::{Direction, TcpProxy};
use tokio::time::sleep;

use super::database::Database;
use super::replica::{Replica, fake_clock_library};
use crate::kube_bench::KubeBench;
use crate::thirty_applications::Dice;

/// Time in which requests accumulate before the active process dies.
const ACCUMULATION: Duration = Duration::from_millis(1500);
/// Maximum duration of a fault that doesn't cause a takeover, in milliseconds.
const SHORT_FAULT_MILLIS: u64 = 4000;
/// Time after which a standby must have taken over, even on a busy machine.
const TAKEOVER_TIMEOUT: Duration = Duration::from_secs(600);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Offsets of the wall clocks. The certificate of the API server is valid since an hour before the test.
const AHEAD: &str = "+61m";
const BEHIND: &str = "-55m";
/// Number of times that a standby joins and leaves in a round.
const JOINS: usize = 10;
/// Query for the process IDs of the leaders.
const OWNERS: &str =
    "SELECT DISTINCT split_part(name, ' ', 2) FROM shard JOIN replica ON owner = incarnation";
/// First minor version of Kubernetes that can create a Job suspended.
const FIRST_WITH_SUSPENDED_JOBS: u32 = 22;

/// A fault of the active service, of its connections, or of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The requests to the API server are held and the process is killed. The requests arrive after another
    /// process has finished the operations.
    LateRequests,
    /// The responses of the API server are held, and the process is killed without having received them.
    LostResponses,
    /// The process is killed.
    Kill,
    /// The process is suspended for longer than the takeover.
    Suspend,
    /// The process loses the API server and the database for longer than the takeover. Its requests then arrive
    /// late.
    Partition,
    /// The process loses the database for longer than the takeover.
    DatabaseHold,
    /// All connections of the process to the database are closed for a moment.
    DatabaseCut,
    /// The process loses the API server for a moment.
    ApiHold,
    /// The database restarts in immediate mode.
    DatabaseRestart,
    /// The primary of the database is destroyed, and its synchronous standby promoted.
    DatabaseFailover,
    /// The primary of the database is destroyed, and a standby promoted that lacks the newest commits.
    LostEvents,
    /// The clock of one standby is ahead, and that of another behind. One of them takes over, and its clock jumps.
    ClockJump,
    /// A standby joins and leaves many times.
    JoinsAndLeaves,
    /// All processes restart, one after the other.
    RollingRestart,
}

const ALL: [Fault; 13] = [
    Fault::LateRequests,
    Fault::LostResponses,
    Fault::Kill,
    Fault::Suspend,
    Fault::Partition,
    Fault::DatabaseHold,
    Fault::DatabaseCut,
    Fault::ApiHold,
    Fault::DatabaseRestart,
    Fault::DatabaseFailover,
    Fault::ClockJump,
    Fault::JoinsAndLeaves,
    Fault::RollingRestart,
];

impl Fault {
    /// Returns the fault of a round. All faults occur in turn, in a different order each time, and the first
    /// one is [`Fault::LateRequests`].
    pub fn of_round(seed: u64, round: u64, minor: u32) -> Self {
        let mut faults: Vec<Self> = ALL.into_iter().filter(|fault| fault.is_supported(minor)).collect();
        let count = faults.len() as u64;
        let mut dice = Dice(seed.wrapping_add(round / count));
        let fixed = usize::from(round < count);
        for last in (fixed + 1..faults.len()).rev() {
            let other = fixed + usize::try_from(dice.roll((last - fixed) as u64 + 1)).unwrap();
            faults.swap(last, other);
        }
        faults[usize::try_from(round % count).unwrap()]
    }

    /// Returns false if the server can't create a Job suspended, and the fault delivers creations late. They
    /// would run the Job. The clock requires a library.
    fn is_supported(self, minor: u32) -> bool {
        match self {
            Self::LateRequests | Self::Partition => minor >= FIRST_WITH_SUSPENDED_JOBS,
            Self::ClockJump => fake_clock_library().is_some(),
            _ => true,
        }
    }

    /// Returns the number of writes before the fault.
    pub fn roll_writes(self, dice: &mut Dice) -> usize {
        let writes = match self {
            // Right after the first hook was created, the next requests create the other ones.
            Self::LateRequests | Self::LostResponses | Self::Partition => 1 + dice.roll(3),
            _ => dice.roll(36),
        };
        usize::try_from(writes).unwrap()
    }
}

/// Number of services. One of them is active, and the others are standbys.
pub const REPLICAS: usize = 3;

/// The services and the database.
pub struct Services {
    pub replicas: [Replica; REPLICAS],
    /// Index of the active service.
    pub active: usize,
    /// Index of the service that was active before the last takeover.
    pub former: usize,
    /// `None` only during a failover.
    pub database: Option<Database>,
    pub takeovers: Vec<(Fault, Duration)>,
}

impl Services {
    pub fn active(&mut self) -> &mut Replica {
        &mut self.replicas[self.active]
    }

    /// Returns the service that was active before the last takeover.
    pub fn former(&mut self) -> &mut Replica {
        &mut self.replicas[self.former]
    }

    /// Returns the indexes of all services but the active one.
    pub fn standbys(&self) -> impl Iterator<Item = usize> + use<> {
        let active = self.active;
        (0..REPLICAS).filter(move |index| *index != active)
    }

    /// Injects a fault.
    pub async fn inject(&mut self, fault: Fault, dice: &mut Dice, bench: &KubeBench) {
        let short = Duration::from_millis(500 + dice.roll(SHORT_FAULT_MILLIS));
        match fault {
            Fault::LateRequests | Fault::LostResponses => {
                let is_late = fault == Fault::LateRequests;
                let direction = if is_late { Direction::ToServer } else { Direction::ToClient };
                self.active().api.hold(direction);
                self.active().api.wait_for_held_bytes(direction, 1);
                sleep(ACCUMULATION).await;
                self.kill(fault);
                if !is_late {
                    self.start_former(bench);
                }
            }
            Fault::Kill => {
                self.kill(fault);
                self.start_former(bench);
            }
            Fault::Suspend => {
                // Requests that are on their way when the process is suspended are lost. Otherwise, they would look
                // like writes of the resumed process.
                self.active().api.hold(Direction::ToServer);
                sleep(ACCUMULATION).await;
                self.active().signal("STOP");
                self.wait_for_takeover(fault);
                let resumed = bench.control.audit_mark();
                self.former().api.disconnect();
                self.former().api.release();
                self.former().signal("CONT");
                self.end_replaced(bench, Some(resumed)).await;
            }
            Fault::Partition => {
                self.active().hold_api();
                self.active().hold_database();
                self.wait_for_takeover(fault);
            }
            Fault::DatabaseHold => {
                self.active().hold_database();
                self.wait_for_takeover(fault);
                let replaced = bench.control.audit_mark();
                self.former().release_database();
                self.end_replaced(bench, Some(replaced)).await;
            }
            Fault::DatabaseCut => {
                self.active().databases.iter().for_each(TcpProxy::cut);
                sleep(short).await;
                self.active().release_database();
            }
            Fault::ApiHold => {
                self.active().hold_api();
                sleep(short).await;
                self.active().api.release();
            }
            Fault::LostEvents => panic!("{fault:?} has its own test"),
            Fault::DatabaseRestart => self.database.as_mut().unwrap().restart(),
            Fault::DatabaseFailover => {
                let database = self.database.take().unwrap();
                self.database = Some(database.fail_over(&self.replicas, || ()));
            }
            Fault::ClockJump => {
                let is_first_ahead = dice.roll(2) == 0;
                for (index, is_first) in self.standbys().zip([true, false]) {
                    let standby = &mut self.replicas[index];
                    standby.stop();
                    standby.start_with_clock(bench, if is_first == is_first_ahead { AHEAD } else { BEHIND });
                    standby.wait_until_standby();
                }
                self.hand_over(fault, bench);
                self.active().set_clock("+0");
            }
            Fault::JoinsAndLeaves => {
                let index = self.standbys().next().unwrap();
                let standby = &mut self.replicas[index];
                for _ in 0..JOINS {
                    standby.stop();
                    standby.start(bench);
                    standby.wait_until_standby();
                }
            }
            Fault::RollingRestart => {
                self.restart_standbys(bench);
                self.hand_over(fault, bench);
            }
        }
    }

    /// Ends a fault that lasts until the other service has finished the operations. Returns false if there is
    /// nothing to end.
    pub async fn end(&mut self, fault: Fault, bench: &KubeBench) -> bool {
        match fault {
            Fault::LateRequests => {
                let late = bench.control.audit_mark();
                assert!(self.former().api.release() > 0, "no request was late");
                // The responses show that the server has processed the requests.
                self.wait_for_late_requests(late, bench).await;
                self.start_former(bench);
            }
            Fault::Partition => {
                self.former().api.release();
                self.former().release_database();
                self.end_replaced(bench, None).await;
            }
            Fault::ClockJump | Fault::JoinsAndLeaves => {
                assert_eq!(self.query(OWNERS), self.active().pid().to_string(), "a standby has taken over");
                return false;
            }
            _ => return false,
        }
        true
    }

    /// Restarts the active process, so that a standby takes over.
    fn hand_over(&mut self, fault: Fault, bench: &KubeBench) {
        let stopped = Instant::now();
        self.active().stop();
        self.become_active(fault, stopped);
        self.start_former(bench);
    }

    fn kill(&mut self, fault: Fault) {
        self.active().signal("KILL");
        self.active().finish();
        self.wait_for_takeover(fault);
    }

    pub fn wait_for_takeover(&mut self, fault: Fault) {
        self.become_active(fault, Instant::now());
    }

    /// Waits until one of the standbys is active.
    fn become_active(&mut self, fault: Fault, since: Instant) {
        let active = loop {
            if let Some(index) = self.standbys().find(|index| self.replicas[*index].has_become_active()) {
                break index;
            }
            assert!(since.elapsed() < TAKEOVER_TIMEOUT, "no standby has taken over after {fault:?}");
            std::thread::park_timeout(POLL_INTERVAL);
        };
        self.takeovers.push((fault, since.elapsed()));
        self.former = std::mem::replace(&mut self.active, active);
    }

    /// Waits until a service that was replaced has exited, and starts a new one. The service must not have
    /// written anything since `mark`.
    async fn end_replaced(&mut self, bench: &KubeBench, mark: Option<Mark>) {
        let replaced = self.former();
        let ran = replaced.finish().expect_code(1);
        assert!(
            ran.err.contains("taken over the operation log") || ran.err.contains("no longer the leader"),
            "{}",
            ran.err
        );
        if let Some(mark) = mark {
            let audit = bench.control.audit_in_namespace(mark, &bench.namespace).await.unwrap();
            let writes = audit.by_user(&replaced.user).successful_writes().summaries();
            assert!(writes.is_empty(), "a replaced service has written: {writes:#?}");
        }
        self.start_former(bench);
    }

    pub fn start_former(&mut self, bench: &KubeBench) {
        self.start(self.former, bench);
    }

    /// Starts a service as a standby.
    fn start(&mut self, index: usize, bench: &KubeBench) {
        self.replicas[index].start(bench);
        self.replicas[index].wait_until_standby();
    }

    fn restart_standbys(&mut self, bench: &KubeBench) {
        for index in self.standbys() {
            self.replicas[index].stop();
            self.start(index, bench);
        }
    }

    async fn wait_for_late_requests(&mut self, late: Mark, bench: &KubeBench) {
        let user = self.former().user.clone();
        let is_late = |event: &AuditEvent| event.user == user.name() && event.verb != "watch";
        let has_late = |audit: &tidegate_testkit::kube::Audit| audit.0.iter().any(is_late);
        bench.control.wait_for_audit(late, &bench.namespace, has_late).await;
    }

    pub fn query(&self, sql: &str) -> String {
        self.database.as_ref().unwrap().query(sql)
    }

    /// Checks that exactly one process is active, according to the database, to the Lease and to the processes. After
    /// a short fault, a busy machine may have caused a takeover.
    pub async fn check_active(&mut self, bench: &KubeBench) {
        let owner = self.query(OWNERS);
        let pids = self.replicas.each_ref().map(|replica| replica.pid().to_string());
        let active = pids.iter().position(|pid| *pid == owner).expect("another process owns the log");
        if active != self.active {
            self.replicas[active].wait_until_active();
            self.former = std::mem::replace(&mut self.active, active);
            self.end_replaced(bench, None).await;
        }
        assert_eq!(self.query("SELECT count(*) FROM shard WHERE owner IS NULL"), "0");
        let lease = bench.object("/apis/coordination.k8s.io/v1", "leases", "tidegate").await.unwrap();
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap().to_owned();
        assert_eq!(holder.rsplit('_').nth(1), Some(self.active().pid().to_string().as_str()), "{holder}");
        for index in self.standbys() {
            let standby = &mut self.replicas[index];
            assert!(!standby.has_become_active(), "the standby in {} is active, too", standby.directory);
        }
    }
}
