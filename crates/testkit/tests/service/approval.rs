//! Applications that need approvals, and people who give them: rightly, too late, or of what they may not approve.

use serde_json::{Value, json};
use tidegate_application::approval::{APPROVAL, APPROVERS, plan_of, waiting_plan};
use tidegate_service::applications::Serving;
use tidegate_service::applications::store::AppKey;
use tidegate_service::lines::{PlanLine, PlanState};
use tidegate_testkit::simulate::Rng;

use crate::author::{ALONE, GUARDED};
use crate::front::Write;
use crate::play::REST;
use crate::rules;
use crate::world::{Life, World, tracing};

/// What an Application may say of who approves.
const SAID: [Option<&str>; 4] = [None, Some("others"), Some("ben, others"), Some("ben, cid")];
const PEOPLE: [&str; 3] = ["ann", "ben", "cid"];
/// What waits for approvals is carried out after so many of them, or never.
const ROUNDS: usize = 5;

/// An Application that needs approvals.
#[derive(Clone, Copy, Debug)]
pub struct Needing {
    pub name: &'static str,
    /// What it says of who approves, if anything.
    pub said: Option<&'static str>,
}

impl Needing {
    /// Whether somebody may approve what another one has asked for, or nobody.
    pub fn allows(self, author: &str, by: &str) -> bool {
        let Some(said) = self.said else { return true };
        let (others, names): (Vec<&str>, Vec<&str>) = said.split(", ").partition(|name| *name == "others");
        let is_other = others.is_empty() || (author != by && !author.is_empty());
        is_other && (names.is_empty() || names.contains(&by))
    }

    fn waits_for(self, serving: &Serving) -> Option<String> {
        let application = serving.application(&AppKey::named(self.name))?;
        waiting_plan(&application).map(str::to_owned)
    }

    /// Its plan that waits, or another one, and somebody to approve that, who may do so or not.
    async fn choose(self, rng: &mut Rng, serving: &Serving) -> Option<(PlanLine, &'static str)> {
        let waiting = self.waits_for(serving);
        let all = serving.plans(Some(self.name), None).await.ok()?;
        let is_late = waiting.is_none() || rng.percent(25);
        let mut found: Vec<PlanLine> =
            all.into_iter().filter(|plan| is_late != (Some(&plan.hash) == waiting.as_ref())).collect();
        let chosen = (!found.is_empty()).then(|| rng.below(found.len() as u64))?;
        let plan = found.swap_remove(usize::try_from(chosen).unwrap());
        let right: Vec<&str> = PEOPLE.into_iter().filter(|by| self.allows(&plan.by, by)).collect();
        let is_right = rng.percent(70) && !right.is_empty();
        let by = rng.pick(if is_right { &right } else { &PEOPLE });
        Some((plan, by))
    }
}

/// Those that need approvals in a random life.
pub fn some(rng: &mut Rng) -> Vec<Needing> {
    let mut all = vec![Needing { name: GUARDED, said: rng.pick(&SAID) }];
    if rng.percent(30) {
        all.push(Needing { name: ALONE, said: rng.pick(&SAID) });
    }
    all
}

/// The document of an Application, which needs an approval by somebody who is named.
pub fn needing(mut document: Value, said: Option<&str>) -> Value {
    let annotations = &mut document["metadata"]["annotations"];
    annotations[APPROVAL] = json!("required");
    if let Some(said) = said {
        annotations[APPROVERS] = json!(said);
    }
    document
}

/// Somebody approves the plan that waits, if one does. It may be refused: the world has moved.
pub async fn approve(_: &World, life: &Life) {
    let serving = life.applications();
    let application = serving.application(&AppKey::named(ALONE));
    if let Some(hash) = application.as_deref().and_then(waiting_plan) {
        let said = ("ben".to_owned(), "looked at it".to_owned());
        drop(serving.approve_plan(Some(ALONE), hash, said).await);
    }
}

/// Somebody approves a plan, most often one that waits. Says whether that was taken, if there was one to approve; only the plan
/// that waits may be, and only from somebody who may.
pub async fn approve_some(rng: &mut Rng, needing: &[Needing], life: &Life) -> Option<bool> {
    let (one, serving) = (rng.pick(needing), life.applications());
    let before = one.waits_for(&serving);
    let (plan, by) = one.choose(rng, &serving).await?;
    let (name, hash) = (one.name, plan.hash.as_str());
    let said = (by.to_owned(), String::new());
    let answer = serving.approve_plan(Some(name), hash, said).await;
    let shown = answer.as_ref().map(|plan| plan.state.to_string()).map_err(ToString::to_string);
    tracing(&format!("{by} approves plan {hash} of {name}, asked for by {}: {shown:?}", plan.by));
    let Ok(approved) = answer else { return Some(false) };
    assert_ne!(
        approved.state,
        PlanState::Replaced,
        "whoever has approved a plan is told that it is replaced"
    );
    let application = serving.application(&AppKey::named(name));
    let now = application.as_deref().and_then(|one| one.operation.as_ref()).and_then(plan_of);
    assert!(
        before.as_deref() == Some(hash) || now == Some(hash),
        "plan {hash} of {name} was approved, and {before:?} waited, then {now:?}"
    );
    // Whoever comes after one that has met the rule changes nothing.
    let is_met = plan.approvals.iter().any(|given| one.allows(&plan.by, &given.by));
    assert!(is_met || one.allows(&plan.by, by), "{by} has approved plan {hash} of {one:?}, by {}", plan.by);
    Some(true)
}

/// All that waits is approved by somebody who may, and is carried out then. Nobody does anything else.
pub async fn approve_all(needing: &[Needing], world: &World, life: &Life) {
    let serving = life.applications();
    for _ in 0..ROUNDS {
        let mut given = Vec::new();
        for one in needing {
            let Some(hash) = one.waits_for(&serving) else { continue };
            let plans = serving.plans(Some(one.name), None).await.unwrap();
            let plan = plans.iter().find(|plan| plan.hash == hash).expect("what waits is kept");
            let by = PEOPLE.into_iter().find(|by| one.allows(&plan.by, by)).unwrap();
            let said = (by.to_owned(), String::new());
            let answer = serving.approve_plan(Some(one.name), &hash, said).await;
            tracing(&format!("{by} approves plan {hash} of {} at last: {answer:?}", one.name));
            given.push((one.name, hash, answer));
        }
        if given.is_empty() {
            return;
        }
        world.quiet_for(REST).await;
        for (name, hash, answer) in given {
            // Where something has moved that nobody had seen, another plan waits.
            if answer.is_err() {
                continue;
            }
            let plans = serving.plans(Some(name), None).await.unwrap();
            let plan = plans.iter().find(|plan| plan.hash == hash).expect("what was approved is kept");
            assert_eq!(
                plan.state,
                PlanState::Taken,
                "what was approved of {name} is not carried out: {plan:?}"
            );
        }
    }
    panic!("what waits is approved again and again, and something waits still");
}

/// What was written for those that need approvals is what was approved before, by somebody who might. How many plans were
/// carried out.
pub fn only_what_was_approved(world: &World, writes: &[Write], needing: &[Needing]) -> usize {
    let kept = world.kept_plans();
    let plans: Vec<_> = kept
        .list()
        .unwrap()
        .into_iter()
        .map(|line| {
            let plan = kept.get(&line).unwrap();
            (line, plan)
        })
        .collect();
    for one in needing {
        rules::only_what_was_approved(&world.sim, writes, &plans, one.name).unwrap();
        rules::by_those_who_may(&plans, *one).unwrap();
    }
    plans.iter().filter(|(line, _)| line.operation.is_some()).count()
}
