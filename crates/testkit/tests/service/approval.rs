//! Applications that need approvals, and their approvers. Approvals can be valid, late or unauthorized.

use serde_json::{Value, json};
use tidegate_app_controller::ApplicationService;
use tidegate_application::AppKey;
use tidegate_application::approval::{
    APPROVAL_ANNOTATION, APPROVERS_ANNOTATION, requested_plan, waiting_plan,
};
use tidegate_model::Requester;
use tidegate_state::summaries::{PlanState, PlanSummary};
use tidegate_testkit::simulate::Rng;

use crate::faulty_cluster::Write;
use crate::invariants;
use crate::random_life::QUIET_TIME;
use crate::user_documents::{APPROVAL_APP, STANDALONE_APP};
use crate::world::{Life, World, enable_tracing};

/// Possible approver settings of an Application.
const APPROVER_SETTINGS: [Option<&str>; 4] = [None, Some("others"), Some("ben, others"), Some("ben, cid")];
const PEOPLE: [&str; 3] = ["ann", "ben", "cid"];
/// Maximum number of rounds of approvals. No plan may still be waiting afterwards.
const MAX_APPROVALS: usize = 5;

/// Application that needs approvals.
#[derive(Clone, Copy, Debug)]
pub struct ApprovalApp {
    pub name: &'static str,
    /// Approver setting of the Application, if any.
    pub approvers: Option<&'static str>,
}

impl ApprovalApp {
    /// Returns true if a user may approve another user's request.
    pub fn can_approve(self, author: &str, by: &str) -> bool {
        let Some(approvers) = self.approvers else { return true };
        let (others, names): (Vec<&str>, Vec<&str>) =
            approvers.split(", ").partition(|name| *name == "others");
        let is_other = others.is_empty() || (author != by && !author.is_empty());
        is_other && (names.is_empty() || names.contains(&by))
    }

    fn waiting_plan(self, service: &ApplicationService) -> Option<String> {
        let application = service.application(&AppKey::parse(self.name))?;
        waiting_plan(&application).map(str::to_owned)
    }

    /// Chooses the waiting plan or another plan of the Application, and a possibly unauthorized approver.
    async fn choose_plan_and_approver(
        self,
        rng: &mut Rng,
        service: &ApplicationService,
    ) -> Option<(PlanSummary, &'static str)> {
        let waiting = self.waiting_plan(service);
        let all = service.plans(Some(self.name), None).await.ok()?;
        let is_late = waiting.is_none() || rng.percent(25);
        let mut found: Vec<PlanSummary> =
            all.into_iter().filter(|plan| is_late != (Some(&plan.hash) == waiting.as_ref())).collect();
        let chosen = (!found.is_empty()).then(|| rng.below(found.len() as u64))?;
        let plan = found.swap_remove(usize::try_from(chosen).unwrap());
        let right: Vec<&str> =
            PEOPLE.into_iter().filter(|by| self.can_approve(&plan.initiated_by, by)).collect();
        let is_right = rng.percent(70) && !right.is_empty();
        let by = rng.pick(if is_right { &right } else { &PEOPLE });
        Some((plan, by))
    }
}

/// Returns the Applications that need approvals in a random life.
pub fn random_approval_apps(rng: &mut Rng) -> Vec<ApprovalApp> {
    let mut all = vec![ApprovalApp { name: APPROVAL_APP, approvers: rng.pick(&APPROVER_SETTINGS) }];
    if rng.percent(30) {
        all.push(ApprovalApp { name: STANDALONE_APP, approvers: rng.pick(&APPROVER_SETTINGS) });
    }
    all
}

/// Returns the document of an Application that needs an approval, with its approver setting.
pub fn with_approval(mut document: Value, approvers: Option<&str>) -> Value {
    let annotations = &mut document["metadata"]["annotations"];
    annotations[APPROVAL_ANNOTATION] = json!("required");
    if let Some(approvers) = approvers {
        annotations[APPROVERS_ANNOTATION] = json!(approvers);
    }
    document
}

/// Approves the waiting plan, if any. The approval may be rejected if the plan is outdated.
pub async fn approve_waiting(_: &World, life: &Life) {
    let service = life.applications();
    let application = service.application(&AppKey::parse(STANDALONE_APP));
    if let Some(hash) = application.as_deref().and_then(waiting_plan) {
        let requester = Requester { name: "ben", reason: "looked at it" };
        drop(service.approve_plan(Some(STANDALONE_APP), hash, requester).await);
    }
}

/// Approves a plan, usually the waiting one. Returns true if the approval was accepted, or `None` without a
/// plan. Only an authorized user's approval of a waiting plan may be accepted.
pub async fn approve_random(rng: &mut Rng, needing: &[ApprovalApp], life: &Life) -> Option<bool> {
    let (one, service) = (rng.pick(needing), life.applications());
    let before = one.waiting_plan(&service);
    let (plan, by) = one.choose_plan_and_approver(rng, &service).await?;
    let (name, hash) = (one.name, plan.hash.as_str());
    let answer = service.approve_plan(Some(name), hash, Requester { name: by, reason: "" }).await;
    let shown = answer.as_ref().map(|plan| plan.state.to_string()).map_err(ToString::to_string);
    enable_tracing(&format!(
        "{by} approves plan {hash} of {name}, requested by {}: {shown:?}",
        plan.initiated_by
    ));
    let Ok(approved) = answer else { return Some(false) };
    assert_ne!(approved.state, PlanState::Replaced, "the approver of a replaced plan is notified");
    let application = service.application(&AppKey::parse(name));
    let now = application.as_deref().and_then(|one| one.operation.as_ref()).and_then(requested_plan);
    assert!(
        before.as_deref() == Some(hash) || now == Some(hash),
        "plan {hash} of {name} was approved while {before:?} waited, then {now:?}"
    );
    // After the requirement is met, anyone may add another approval.
    let is_met = plan.approvals.iter().any(|given| one.can_approve(&plan.initiated_by, &given.by));
    assert!(
        is_met || one.can_approve(&plan.initiated_by, by),
        "{by} has approved plan {hash} of {one:?}, requested by {}",
        plan.initiated_by
    );
    Some(true)
}

/// Approves all waiting plans as authorized users, and waits until they have been executed. Performs no other
/// actions.
pub async fn approve_all(needing: &[ApprovalApp], world: &World, life: &Life) {
    let service = life.applications();
    for _ in 0..MAX_APPROVALS {
        let mut given = Vec::new();
        for one in needing {
            let Some(hash) = one.waiting_plan(&service) else { continue };
            let plans = service.plans(Some(one.name), None).await.unwrap();
            let plan = plans.iter().find(|plan| plan.hash == hash).expect("waiting plans are kept");
            let by = PEOPLE.into_iter().find(|by| one.can_approve(&plan.initiated_by, by)).unwrap();
            let requester = Requester { name: by, reason: "" };
            let answer = service.approve_plan(Some(one.name), &hash, requester).await;
            enable_tracing(&format!("{by} approves plan {hash} of {} at the end: {answer:?}", one.name));
            given.push((one.name, hash, answer));
        }
        if given.is_empty() {
            return;
        }
        world.wait_for_quiet(QUIET_TIME).await;
        for (name, hash, answer) in given {
            // After an unobserved change, a different plan may be waiting, and the approval was rejected.
            if answer.is_err() {
                continue;
            }
            let plans = service.plans(Some(name), None).await.unwrap();
            let plan = plans.iter().find(|plan| plan.hash == hash).expect("approved plans are kept");
            assert_eq!(
                plan.state,
                PlanState::Executed,
                "the approved plan of {name} was not executed: {plan:?}"
            );
        }
    }
    panic!("waiting plans are approved repeatedly, and some still wait");
}

/// Checks that authorized users approved all writes to Applications that need approvals. Returns the number
/// of executed plans.
pub fn assert_only_approved_writes(world: &World, writes: &[Write], needing: &[ApprovalApp]) -> usize {
    let stored_plans = world.stored_plans();
    let plans: Vec<_> = stored_plans
        .list()
        .unwrap()
        .into_iter()
        .map(|line| {
            let plan = stored_plans.read_plan(&line).unwrap();
            (line, plan)
        })
        .collect();
    for one in needing {
        invariants::check_approved_writes(&world.sim, writes, &plans, one.name).unwrap();
        invariants::check_approvers(&plans, *one).unwrap();
    }
    plans.iter().filter(|(line, _)| line.operation.is_some()).count()
}
