use std::cell::Cell;
use std::thread;

use serde_json::json;
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_executor::Targets;
use tidegate_model::{Destination, SyncRequest};
use tidegate_planner::manifests::{Limits, parse_each};
use uuid::Uuid;

use super::*;
use crate::applications::testing::Quiet;

struct Bench {
    _folder: tempfile::TempDir,
    state: StateDir,
    sim: SimCluster,
    /// When the next plan is made: each has its own moment.
    moment: Cell<Timestamp>,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::resolve(Some(&folder.path().join("state"))).unwrap();
        drop(now(Plans::open(&state, &Quiet)).unwrap());
        let clock = Clock::wall(|| SystemClock.now());
        let sim = SimCluster::in_memory(SimConfig::default(), clock);
        let moment = Cell::new(SystemClock.now() - Duration::from_secs(3600));
        Self { _folder: folder, state, sim, moment }
    }

    fn plans(&self) -> Plans {
        Plans::look(&self.state).unwrap().unwrap()
    }

    /// A plan of an application with one ConfigMap.
    fn plan(&self, application: &str, value: usize) -> KeptPlan {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": application}, "data": {"v": value.to_string()},
        });
        let (targets, _) = parse_each("all.yaml", map.to_string().as_bytes(), &Limits::default());
        let request = SyncRequest::new(application, "home", Destination::Simulated);
        let targets = Targets { targets, ..Targets::default() };
        let made_at = self.moment.get() + Duration::from_secs(1);
        self.moment.set(made_at);
        now(KeptPlan::make(&self.sim, request, targets, made_at, None)).unwrap().0
    }
}

fn now<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(work)
}

#[test]
fn plans_that_are_kept_at_once_are_all_there() {
    let bench = Bench::new();
    let plans: Vec<KeptPlan> =
        (0..40).map(|number| bench.plan(&format!("a{}", number % 10), number)).collect();
    let all = Arc::new(bench.plans());
    // Half of them as another process does it, with nothing in common but the folder.
    let kept: Vec<KeptLine> = thread::scope(|scope| {
        let keep = |(number, plan)| {
            let shared = Arc::clone(&all);
            let other = bench.plans();
            scope.spawn(move || if number % 2 == 0 { shared.keep_by_itself(plan) } else { other.keep(plan) })
        };
        let begun: Vec<_> = plans.iter().enumerate().map(keep).collect();
        begun.into_iter().map(|one| one.join().unwrap().unwrap()).collect()
    });
    assert_eq!(all.list().unwrap().len(), plans.len());
    for (line, plan) in kept.iter().zip(&plans) {
        assert_eq!(all.get(line).unwrap().hash(), plan.hash());
    }
}

/// Each approval counts, whoever else approves at that moment.
#[test]
fn approvals_that_are_given_at_once_are_all_kept() {
    let bench = Bench::new();
    let plan = bench.plan("web", 0);
    let plans = bench.plans();
    let hash = plans.keep(&plan).unwrap().hash;
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

/// Only the operation that had it gives it back.
#[test]
fn a_plan_that_an_operation_gives_back_can_be_taken_by_another() {
    let bench = Bench::new();
    let plans = bench.plans();
    let hash = plans.keep(&bench.plan("web", 0)).unwrap().hash;
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
fn what_is_awaited_is_not_too_much() {
    let bench = Bench::new();
    let plans = bench.plans();
    let replaced = plans.keep_by_itself(&bench.plan("web", 2000)).unwrap();
    let waiting = plans.keep_by_itself(&bench.plan("web", 0)).unwrap();
    let approved = plans.keep(&bench.plan("web", 1)).unwrap();
    let approval = PlanApproval { by: "ben".to_owned(), reason: String::new(), at: SystemClock.now() };
    plans.approve(approved.hash, approval).unwrap();
    let plain = plans.keep(&bench.plan("web", 2)).unwrap();
    let many: Vec<KeptPlan> = (3..3 + EACH_MAX).map(|number| bench.plan("web", number)).collect();
    many.iter().for_each(|plan| drop(plans.keep(plan).unwrap()));
    let find = |line: &KeptLine| plans.find(&line.hash.to_string());
    for line in [&waiting, &approved] {
        assert!(plans.get(&find(line).unwrap()).is_ok());
    }
    for line in [&plain, &replaced] {
        assert!(matches!(find(line), Err(ServiceError::UnknownPlan { .. })), "the oldest of the others go");
    }
    // Nobody waits for it any more.
    plans.withdraw(waiting.hash, None).unwrap();
    plans.keep(&bench.plan("web", 1000)).unwrap();
    assert!(matches!(find(&waiting), Err(ServiceError::UnknownPlan { .. })));
}
