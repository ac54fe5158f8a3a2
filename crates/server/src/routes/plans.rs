//! Kept plans: made, shown, approved, and carried out.

use std::cmp::Reverse;

use http::StatusCode;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use tidegate_application::operation;
use tidegate_model::{Plan, ResourceSelector};
use tidegate_service::applications::Serving;
use tidegate_service::applications::asking::{SyncWish, sync};
use tidegate_service::documents::differences::{self, Differences};
use tidegate_service::documents::plan::{self, KeptPlanDocument};
use tidegate_service::lines::PlanLine;

use super::applications::{Named, WholeDifferences, one_of};
use crate::access::Role;
use crate::pages::{self, Page};
use crate::problem::{Code, Problem};
use crate::question::Nothing;
use crate::route::{Answer, Call, Gives, Route, act, act_otherwise, json, look, look_otherwise};

const PLANS: &str = "/api/v1/plans";
const ONE: &str = "/api/v1/plans/{hash}";
const WHOLE: &str = "/api/v1/plans/{hash}/whole";
const DIFF: &str = "/api/v1/plans/{hash}/diff";
const OBJECTS: &str = "/api/v1/plans/{hash}/diff/objects";
const APPROVE: &str = "/api/v1/plans/{hash}/approve";
const SYNC: &str = "/api/v1/plans/{hash}/sync";

/// The rows of the table that are about kept plans.
pub(super) fn routes() -> Vec<Route> {
    let kept = Gives::Json(SchemaGenerator::subschema_for::<KeptPlanDocument<'static>>);
    vec![
        look((PLANS, "listPlans", "Kept plans, the newest first"), list),
        act_otherwise(
            (
                (PLANS, "makePlan", "Plan a sync of an application, and keep the plan; nothing is written"),
                Role::Operator,
            ),
            (StatusCode::CREATED, kept),
            make,
        ),
        look_otherwise((ONE, "getPlan", "A kept plan, wave by wave"), kept, get),
        look((WHOLE, "getWholePlan", "The same, as the command line reads it"), whole),
        look((DIFF, "diffPlan", "What a kept plan would change now; values of Secrets are masked"), diff),
        look(
            (OBJECTS, "diffPlanObjects", "The same, with the objects as they are and as they would be"),
            diff_objects,
        ),
        act((APPROVE, "approvePlan", "Approve a plan; the operation that waits for it begins"), approve),
        act((SYNC, "syncPlan", "Carry out a plan, and nothing else"), carry_out),
    ]
}

/// Which plans.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct ListQuery {
    /// How many at once: 1 to 500, 100 if not said.
    limit: Option<u32>,
    /// The `next` of the page before.
    page: Option<String>,
    /// Only those of this application: its name, or NAMESPACE/NAME.
    application: Option<String>,
}

/// What plans are ordered by: when they were made, the newest first, and their hash.
type Place = (Reverse<i64>, String);

fn place(line: &PlanLine) -> Place {
    (Reverse(line.made_at.as_millis()), line.hash.clone())
}

async fn list(call: Call<ListQuery>) -> Result<Page<PlanLine>, Problem> {
    let ListQuery { limit, page, application } = call.query;
    let limit = pages::limit(limit)?;
    let of = ("plans", &application);
    let after: Option<Place> = page.as_deref().map(|word| pages::place(&of, word)).transpose()?;
    let serving = call.site.queries()?.serving().await?;
    application.as_deref().map_or(Ok(()), |application| known(&serving, application))?;
    let mut items = serving.plans(application.as_deref(), Some(&call.by.name)).await?;
    let matching = u64::try_from(items.len()).unwrap_or(u64::MAX);
    items.sort_by_cached_key(place);
    items.retain(|one| after.as_ref().is_none_or(|after| place(one) > *after));
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| has_more).map(|last| pages::word(&of, &place(last)));
    Ok(Page { items, next, matching })
}

fn document(status: StatusCode, (line, plan): &(PlanLine, Plan)) -> Answer {
    json(status, &plan::kept(line, plan))
}

async fn serving<Q, B>(call: &Call<Q, B>) -> Result<Serving, Problem> {
    Ok(call.site.queries()?.serving().await?)
}

/// That there is an application which is meant.
fn known(serving: &Serving, application: &str) -> Result<(), Problem> {
    let is_there = !serving.find(Some(application)).applications.is_empty();
    let none = || Problem::new(Code::NotFound, format!("there is no application {application:?}"));
    is_there.then_some(()).ok_or_else(none)
}

/// Of which application it is to be.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct GetQuery {
    /// Its name, or NAMESPACE/NAME: a plan of another one is none.
    application: Option<String>,
}

async fn get(call: Call<GetQuery>) -> Answer {
    let of = call.query.application.as_deref();
    let found = serving(&call).await?.kept_plan(of, call.name("hash"), Some(&call.by.name)).await?;
    document(StatusCode::OK, &found)
}

/// A kept plan, whole.
#[derive(Debug, Serialize, JsonSchema)]
struct Whole {
    line: PlanLine,
    /// As the log has plans; values of Secrets are masked.
    plan: serde_json::Value,
}

async fn whole(call: Call) -> Result<Whole, Problem> {
    let (line, plan) = serving(&call).await?.kept_plan(None, call.name("hash"), Some(&call.by.name)).await?;
    let unwritten = |error| Problem::new(Code::Internal, format!("the answer cannot be written: {error}"));
    Ok(Whole { line, plan: serde_json::to_value(plan).map_err(unwritten)? })
}

async fn diff(call: Call) -> Result<Differences, Problem> {
    let (objects, findings) = serving(&call).await?.diff_plan(None, call.name("hash")).await?;
    Ok(differences::document(&objects, &findings))
}

async fn diff_objects(call: Call) -> Result<WholeDifferences, Problem> {
    let (objects, findings) = serving(&call).await?.diff_plan(None, call.name("hash")).await?;
    WholeDifferences::of(&objects, findings)
}

/// What is planned.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MakeBody {
    /// The application: its name, or NAMESPACE/NAME.
    application: String,
    /// Branch, tag or commit, instead of the application's.
    #[serde(default)]
    revision: Option<String>,
    /// The same of several sources, one for each, in their order; an empty one is that of its source. Instead of `revision`.
    #[serde(default)]
    revisions: Vec<String>,
    /// Delete objects that are no longer in the manifests.
    #[serde(default)]
    prune: bool,
    /// Only these objects, without hooks; empty for all.
    #[serde(default)]
    resources: Vec<Named>,
}

async fn make(call: Call<Nothing, MakeBody>) -> Answer {
    let MakeBody { application, revision, revisions, prune, resources } = &call.body;
    one_of(revision.as_ref(), revisions)?;
    let serving = serving(&call).await?;
    known(&serving, application)?;
    let found = serving.only(application)?;
    let resources = resources.iter().map(|one| operation::resource(&ResourceSelector::from(one)));
    let wish = SyncWish {
        revision: revision.clone().unwrap_or_default(),
        revisions: revisions.clone(),
        prune: *prune,
        resources: resources.collect(),
        ..SyncWish::default()
    };
    let mut asked = sync(&found, wish);
    asked.initiated_by.username.clone_from(&call.by.name);
    document(StatusCode::CREATED, &serving.make_plan(application, asked).await?)
}

/// Why it is approved.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ApproveBody {
    /// For the record; may be empty.
    reason: String,
}

async fn approve(call: Call<Nothing, ApproveBody>) -> Result<PlanLine, Problem> {
    let said = (call.by.name.clone(), call.body.reason.clone());
    Ok(serving(&call).await?.approve_plan(None, call.name("hash"), said).await?)
}

/// How a plan is carried out.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct CarryOutBody {
    /// Also where fields of its objects have changed since that it says nothing about.
    allow_drift: bool,
    /// For the record; may be empty.
    reason: String,
}

async fn carry_out(call: Call<Nothing, CarryOutBody>) -> Result<PlanLine, Problem> {
    let how = (call.body.allow_drift, call.by.name.clone(), call.body.reason.clone());
    Ok(serving(&call).await?.sync_plan(None, call.name("hash"), how).await?)
}
