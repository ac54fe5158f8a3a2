//! An Application that needs approvals, and somebody who gives them.

use serde_json::{Value, json};
use tidegate_application::approval::{APPROVAL, APPROVERS, waiting_plan};
use tidegate_service::applications::store::AppKey;

use crate::author::ALONE;
use crate::front::Write;
use crate::rules;
use crate::world::{Life, World};

/// The document of an Application, which needs an approval by somebody who is named.
pub fn needing(mut document: Value) -> Value {
    document["metadata"]["annotations"] = json!({APPROVAL: "required", APPROVERS: "ben, others"});
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

/// What was written for it is what was approved before, and each plan was carried out by one operation.
pub fn only_what_was_approved(world: &World, writes: &[Write]) {
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
    rules::only_what_was_approved(&world.sim, writes, &plans).unwrap();
    let taken = plans.iter().filter(|(line, _)| line.operation.is_some()).count();
    assert_eq!(taken, 2, "each commit has one plan that was carried out");
}
