//! Fault injection: three services share an operation log in PostgreSQL. In each round, a commit changes six
//! Applications, and a fault occurs while they are synced. According to the audit log, each hook must start
//! once in each operation, and each wave must follow the hook before it. Clients request syncs from any
//! service, and every accepted request must be in the log once and end. Tests of their own cover a full disk of the
//! database, and a failover that loses commits.
//!
//! `TIDEGATE_FAULT_ROUNDS=N` sets the number of rounds, and `TIDEGATE_FAULT_SEED=N` repeats an earlier run.
//! The seed determines the fault of each round, and the number of writes before the fault.
//! `TIDEGATE_FAULT_FIRST_ROUND=N` skips the rounds before a failed one.

mod database;
mod faults;
mod fleet;
pub mod full_disk;
mod invariants;
pub mod lost_events;
mod replica;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_testkit::effort;
use tidegate_testkit::kube::{Audit, AuditEvent, Mark, User};

use crate::applications::bench_with_crds;
use crate::bench::Running;
use crate::kube_bench::KubeBench;
use crate::shared_log::{KEY, TOKEN, write_tokens};
use crate::thirty_applications::Dice;

use self::database::{Database, Replication};
use self::faults::{Fault, REPLICAS, Services};
use self::invariants::{LoggedOperation, Witness};
use self::replica::{Replica, fake_clock_library};

const ROUNDS: u64 = 3;
/// Number of rounds in the long form, on each version of Kubernetes. `just nemesis` runs more.
const ROUNDS_LONG: u64 = 5;
/// Seed unless the environment sets the number of rounds or the seed.
const SEED: u64 = 99;

/// Seed, round and faults of a run, printed if the run fails.
struct Story {
    seed: u64,
    faults: Vec<String>,
}

impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Self { seed, faults } = self;
            eprintln!("fault injection failed with seed {seed} in the last of these rounds:");
            faults.iter().for_each(|fault| eprintln!("  {fault}"));
        }
    }
}

/// A run of several rounds.
struct FaultInjection {
    story: Story,
    bench: KubeBench,
    services: Services,
    witness: Witness,
    /// Operations that have ended.
    ended: BTreeSet<String>,
    /// Operations of which the database has lost events.
    lost: BTreeSet<String>,
    /// Start of the current section of the audit log.
    mark: Mark,
}

/// A request to sync an Application.
struct SyncRequest {
    reason: String,
    running: Running,
}

pub async fn services_with_a_shared_log_survive_faults() {
    let rounds = effort::rounds("TIDEGATE_FAULT_ROUNDS", ROUNDS, ROUNDS_LONG);
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let seed = match (number("TIDEGATE_FAULT_SEED"), number("TIDEGATE_FAULT_ROUNDS")) {
        (Some(seed), _) => seed,
        (None, Some(_)) => RandomState::new().build_hasher().finish() % 1_000_000,
        (None, None) => SEED,
    };
    let first = number("TIDEGATE_FAULT_FIRST_ROUND").unwrap_or(0);
    if fake_clock_library().is_none() {
        println!("skipped: clock jumps, because the package faketime is not installed");
    }
    println!("faults from seed {seed}; repeat them with TIDEGATE_FAULT_SEED={seed}");
    let Some(database) = Database::start(Replication::Synchronous) else { return };
    let mut run = FaultInjection::start(seed, database).await;
    for round in first..first + rounds {
        run.run_round(round).await;
    }
    run.finish(rounds);
}

impl FaultInjection {
    async fn start(seed: u64, database: Database) -> Self {
        let mut bench = bench_with_crds().await;
        bench.bench.set_variable("TIDEGATE_LOG_KEY", KEY);
        write_tokens(&bench);
        let all = json!([
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}, {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ]);
        let second = bench.control.create_limited_user(&[(None, all.clone())]).await.unwrap();
        let third = bench.control.create_limited_user(&[(None, all)]).await.unwrap();
        let replica = |directory, user: &User| Replica::new(&bench, &database, directory, user.clone());
        let mut replicas =
            [replica("first", User::ENGINE), replica("second", &second), replica("third", &third)];
        let mark = bench.control.audit_mark();
        let commit = fleet::commit(&bench, "0");
        fleet::create(&bench).await;
        replicas[0].start(&bench);
        replicas[0].wait_until_active();
        for standby in &mut replicas[1..] {
            standby.start(&bench);
            standby.wait_until_standby();
        }
        // Otherwise, the first commit would supersede the operations of this one.
        fleet::wait_until_synced(&bench, &commit, &mut BTreeSet::new()).await;
        Self {
            story: Story { seed, faults: Vec::new() },
            bench,
            services: Services {
                replicas,
                active: 0,
                former: 0,
                database: Some(database),
                takeovers: Vec::new(),
            },
            witness: Witness::default(),
            ended: BTreeSet::new(),
            lost: BTreeSet::new(),
            mark,
        }
    }

    async fn run_round(&mut self, round: u64) {
        let seed = self.story.seed;
        let fault = Fault::of_round(seed, round, self.bench.control.minor());
        let mut dice = Dice(seed.wrapping_mul(1_000_003).wrapping_add(round));
        let writes = fault.roll_writes(&mut dice);
        self.story.faults.push(format!("round {round}: {fault:?} after {writes} writes"));
        let before = self.services.takeovers.len();
        let pushed = self.bench.control.audit_mark();
        let version = format!("{seed}-{round}");
        let commit = fleet::commit(&self.bench, &version);
        let mut requests = vec![self.request_syncs(round, &mut dice).await];
        self.wait_for_writes(pushed, writes).await;
        requests.push(self.start_request(format!("round {round}, during the fault"), &mut dice, "queue"));
        self.services.inject(fault, &mut dice, &self.bench).await;
        self.wait_until_synced(&commit, &version).await;
        if self.services.end(fault, &self.bench).await {
            self.wait_until_synced(&commit, &version).await;
        }
        self.services.check_active(&self.bench).await;
        let accepted = requests.into_iter().filter_map(SyncRequest::finish).collect();
        self.wait_until_synced(&commit, &version).await;
        let operations = self.check(&accepted, &commit, &version).await;
        let takeover =
            self.services.takeovers[before..].iter().map(|(_, time)| format!(", takeover in {time:.1?}"));
        let line = self.story.faults.last().unwrap();
        println!(
            "{line}{}; {operations} operations, {} requests accepted",
            takeover.collect::<String>(),
            accepted.len()
        );
    }

    /// Waits until the services have changed a number of objects.
    async fn wait_for_writes(&self, since: Mark, number: usize) {
        let is_enough = |audit: &Audit| audit.0.iter().filter(|event| is_change(event)).count() >= number;
        self.bench.control.wait_for_audit(since, &self.bench.namespace, is_enough).await;
    }

    /// Requests a sync of one Application, and a comparison of the others.
    async fn request_syncs(&self, round: u64, dice: &mut Dice) -> SyncRequest {
        let chosen = usize::try_from(dice.roll(fleet::numbers().len() as u64)).unwrap();
        let request = self.start_request_of(chosen, format!("round {round}"), "refuse", dice);
        for number in fleet::numbers().filter(|number| *number != chosen) {
            fleet::refresh(&self.bench, number).await;
        }
        request
    }

    fn start_request(&self, reason: String, dice: &mut Dice, policy: &str) -> SyncRequest {
        let number = usize::try_from(dice.roll(fleet::numbers().len() as u64)).unwrap();
        self.start_request_of(number, reason, policy, dice)
    }

    /// Sends a request to one of the services. A standby forwards it to the active service.
    fn start_request_of(&self, number: usize, reason: String, policy: &str, dice: &mut Dice) -> SyncRequest {
        let name = format!("{}/{}", self.bench.namespace, fleet::name(number));
        let service = &self.services.replicas[usize::try_from(dice.roll(REPLICAS as u64)).unwrap()];
        let arguments = [
            ["app", "sync"],
            [name.as_str(), "--async"],
            ["--policy", policy],
            ["--reason", reason.as_str()],
            ["--server", service.url.as_str()],
            ["--token-file", TOKEN],
        ];
        let running = self.bench.start(&arguments.concat());
        SyncRequest { reason, running }
    }

    async fn wait_until_synced(&mut self, commit: &str, version: &str) {
        fleet::wait_until_synced(&self.bench, commit, &mut self.witness.operations).await;
        fleet::wait_for_version(&self.bench, version).await;
    }

    /// Returns the operations in the log.
    fn operations(&mut self) -> Vec<LoggedOperation> {
        let directory = self.services.active().directory;
        let list = self.bench.json(&["ops", "list", "-o", "json", "--state-dir", directory]);
        list.as_array().unwrap().iter().filter_map(LoggedOperation::from_entry).collect()
    }

    /// Checks the operations that have ended since the last check. Returns their number.
    async fn check(&mut self, accepted: &BTreeSet<String>, commit: &str, version: &str) -> usize {
        let mut operations = self.operations();
        // An operation that corrects a late write may have just started.
        while operations.iter().any(|one| !one.is_finished) {
            self.wait_until_synced(commit, version).await;
            operations = self.operations();
        }
        let section = std::mem::replace(&mut self.mark, self.bench.control.audit_mark());
        let audit = self.bench.control.audit_in_namespace(section, &self.bench.namespace).await.unwrap();
        self.witness.add(&audit);
        self.witness.check_starts(&self.lost);
        let new: Vec<_> = operations.iter().filter(|one| !self.ended.contains(&one.id)).collect();
        for operation in &new {
            self.witness.check_operation(operation, self.has_hooks(&operation.id));
        }
        self.witness.check_id_order(&operations);
        self.ended.extend(new.iter().map(|one| one.id.clone()));
        for reason in accepted {
            let count = new.iter().filter(|one| one.reason == *reason).count();
            assert_eq!(count, 1, "the request {reason:?} was accepted");
        }
        let lost = self.witness.operations.difference(&self.ended);
        let lost: Vec<_> = lost.filter(|operation| !self.lost.contains(*operation)).collect();
        assert!(lost.is_empty(), "operations are missing in the log: {lost:?}");
        new.len()
    }

    /// Returns true if an operation has run hooks, according to the log.
    fn has_hooks(&self, id: &str) -> bool {
        let directory = self.services.replicas[self.services.active].directory;
        let shown = self.bench.json(&["ops", "show", id, "-o", "json", "--state-dir", directory]);
        shown["resources"].as_array().unwrap().iter().any(|one| one["hookType"] != Value::Null)
    }

    /// Stops all services, and prints a summary.
    fn finish(mut self, rounds: u64) {
        let order: Vec<usize> = self.services.standbys().chain([self.services.active]).collect();
        for index in order {
            self.services.replicas[index].stop();
        }
        let (starts, unknown) = self.witness.counts();
        println!(
            "{rounds} rounds, {} operations, {starts} hooks started, {unknown} with an unknown outcome",
            self.ended.len()
        );
        let mut times: BTreeMap<Fault, Vec<Duration>> = BTreeMap::new();
        for (fault, time) in &self.services.takeovers {
            times.entry(*fault).or_default().push(*time);
        }
        for (fault, mut times) in times {
            times.sort();
            let (min, median, max) = (times[0], times[times.len() / 2], times[times.len() - 1]);
            println!(
                "{fault:?}: takeover in {min:.1?} to {max:.1?}, median {median:.1?}, {} takeovers",
                times.len()
            );
        }
    }
}

impl SyncRequest {
    /// Returns the reason if the service accepted the request.
    fn finish(self) -> Option<String> {
        (self.running.finish().status.code() == Some(0)).then_some(self.reason)
    }
}

/// Returns true for a change of an object of the Applications by a service.
fn is_change(event: &AuditEvent) -> bool {
    let is_object = matches!(event.resource.as_str(), "jobs" | "configmaps") && event.subresource.is_empty();
    is_object
        && event.user != User::CONTROLLERS.name()
        && event.is_write()
        && event.has_succeeded()
        && !event.dry_run
}
