use std::cell::Cell;
use std::thread;

use futures_util::future::BoxFuture;
use serde_json::json;
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_executor::Targets;
use tidegate_model::{Destination, SyncRequest};
use tidegate_planner::manifests::{Limits, parse_each};
use uuid::Uuid;

use super::*;
use crate::notices::NoNotices;

fn no_process(_: &Path) -> BoxFuture<'_, Result<bool, ServiceError>> {
    Box::pin(async { Ok(false) })
}

struct Fixture {
    _folder: tempfile::TempDir,
    state: StateDir,
    sim: SimCluster,
    /// Creation time of the next plan. Each plan has a different one.
    next_time: Cell<Timestamp>,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::resolve(Some(&folder.path().join("state"))).unwrap();
        drop(block_on(StoredPlans::open(&state, &NoNotices, no_process)).unwrap());
        let clock = Clock::wall(|| SystemClock.now());
        let sim = SimCluster::in_memory(SimConfig::default(), clock);
        let next_time = Cell::new(SystemClock.now() - Duration::from_secs(3600));
        Self { _folder: folder, state, sim, next_time }
    }

    fn plans(&self) -> StoredPlans {
        StoredPlans::open_existing(&self.state).unwrap().unwrap()
    }

    /// Returns a plan with one ConfigMap for the given application.
    fn plan(&self, application: &str, value: usize) -> StoredPlan {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": application}, "data": {"v": value.to_string()},
        });
        let (targets, _) = parse_each("all.yaml", map.to_string().as_bytes(), &Limits::default());
        let request = SyncRequest::new(application, "home", Destination::Simulated);
        let targets = Targets { targets, ..Targets::default() };
        let made_at = self.next_time.get() + Duration::from_secs(1);
        self.next_time.set(made_at);
        block_on(StoredPlan::create(&self.sim, request, targets, made_at, None)).unwrap().0
    }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(work)
}

#[test]
fn concurrently_stored_plans_are_all_stored() {
    let bench = Fixture::new();
    let plans: Vec<StoredPlan> =
        (0..40).map(|number| bench.plan(&format!("a{}", number % 10), number)).collect();
    let all = Arc::new(bench.plans());
    // Half of the plans are stored as if by another process that shares only the folder.
    let stored: Vec<StoredPlanMetadata> = thread::scope(|scope| {
        let keep = |(number, plan)| {
            let shared = Arc::clone(&all);
            let other = bench.plans();
            scope
                .spawn(move || if number % 2 == 0 { shared.store_automatic(plan) } else { other.store(plan) })
        };
        let started: Vec<_> = plans.iter().enumerate().map(keep).collect();
        started.into_iter().map(|one| one.join().unwrap().unwrap()).collect()
    });
    assert_eq!(all.list().unwrap().len(), plans.len());
    for (line, plan) in stored.iter().zip(&plans) {
        assert_eq!(all.read_plan(line).unwrap().hash(), plan.hash());
    }
}

/// No concurrent approval is lost.
#[test]
fn concurrent_approvals_are_all_recorded() {
    let bench = Fixture::new();
    let plan = bench.plan("web", 0);
    let plans = bench.plans();
    let hash = plans.store(&plan).unwrap().hash;
    let people: Vec<String> = (0..20).map(|number| format!("p{number:02}")).collect();
    thread::scope(|scope| {
        for by in &people {
            let approval = PlanApproval { by: by.clone(), reason: String::new(), at: SystemClock.now() };
            let plans = bench.plans();
            scope.spawn(move || plans.approve(hash, approval).unwrap());
        }
    });
    let line = plans.find(&hash.to_string()).unwrap();
    let mut by: Vec<String> = line.approvals.into_iter().map(|approval| approval.by).collect();
    by.sort();
    assert_eq!(by, people);
}

/// Only the operation that took a plan can release it.
#[test]
fn a_released_plan_can_be_taken_by_another_operation() {
    let bench = Fixture::new();
    let plans = bench.plans();
    let hash = plans.store(&bench.plan("web", 0)).unwrap().hash;
    let [first, second] = [1, 2].map(|number| OperationId(Uuid::from_u128(number)));
    let taken_by = || plans.find(&hash.to_string()).unwrap().operation;
    plans.take(hash, first).unwrap();
    plans.release(hash, second).unwrap();
    assert_eq!(taken_by(), Some(first));
    plans.release(hash, first).unwrap();
    assert_eq!(taken_by(), None);
    plans.take(hash, second).unwrap();
    plans.release(hash, first).unwrap();
    assert_eq!(taken_by(), Some(second));
}

#[test]
fn awaited_plans_do_not_count_towards_the_maximum() {
    let bench = Fixture::new();
    let plans = bench.plans();
    let replaced = plans.store_automatic(&bench.plan("web", 2000)).unwrap();
    let waiting = plans.store_automatic(&bench.plan("web", 0)).unwrap();
    let approved = plans.store(&bench.plan("web", 1)).unwrap();
    let approval = PlanApproval { by: "ben".to_owned(), reason: String::new(), at: SystemClock.now() };
    plans.approve(approved.hash, approval).unwrap();
    let plain = plans.store(&bench.plan("web", 2)).unwrap();
    let many: Vec<StoredPlan> =
        (3..3 + PLANS_PER_APPLICATION_MAX).map(|number| bench.plan("web", number)).collect();
    many.iter().for_each(|plan| drop(plans.store(plan).unwrap()));
    let find = |line: &StoredPlanMetadata| plans.find(&line.hash.to_string());
    for line in [&waiting, &approved] {
        assert!(plans.read_plan(&find(line).unwrap()).is_ok());
    }
    for line in [&plain, &replaced] {
        assert!(matches!(find(line), Err(ServiceError::UnknownPlan { .. })), "the oldest of the others go");
    }
    // The operation has stopped waiting for the plan.
    plans.withdraw(waiting.hash, None).unwrap();
    plans.store(&bench.plan("web", 1000)).unwrap();
    assert!(matches!(find(&waiting), Err(ServiceError::UnknownPlan { .. })));
}
