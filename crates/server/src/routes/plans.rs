//! Routes for stored plans: creation, views, approval and execution.

use std::cmp::Reverse;

use http::StatusCode;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use tidegate_app_controller::ApplicationService;
use tidegate_app_controller::sync_request::{SyncParameters, sync_operation};
use tidegate_application::operation;
use tidegate_model::{Plan, ResourceSelector};
use tidegate_state::summaries::PlanSummary;
use tidegate_views::differences::{self, Differences};
use tidegate_views::plan::{self, StoredPlanDocument};

use super::applications::{FullDifferences, ObjectReference, check_revisions};
use crate::access::Role;
use crate::pagination::{Page, PageQuery};
use crate::problem::{Code, Problem};
use crate::query::{NoParameters, both_schema};
use crate::route::{
    Call, HandlerResult, ResponseContent, Route, get_route, get_route_as, json_response, post_route,
    post_route_as,
};

const PLANS: &str = "/api/v1/plans";
const PLAN: &str = "/api/v1/plans/{hash}";
const FULL_PLAN: &str = "/api/v1/plans/{hash}/whole";
const DIFF: &str = "/api/v1/plans/{hash}/diff";
const OBJECTS: &str = "/api/v1/plans/{hash}/diff/objects";
const APPROVE: &str = "/api/v1/plans/{hash}/approve";
const SYNC: &str = "/api/v1/plans/{hash}/sync";

pub(super) fn routes() -> Vec<Route> {
    let plan = ResponseContent::Json(SchemaGenerator::subschema_for::<StoredPlanDocument<'static>>);
    vec![
        get_route(PLANS, "listPlans", "List stored plans, newest first", list),
        post_route_as(
            PLANS,
            "makePlan",
            "Plan a sync of an application and store the plan; nothing is written to the cluster",
            Role::Operator,
            StatusCode::CREATED,
            plan,
            create,
        ),
        get_route_as(PLAN, "getPlan", "Get a stored plan, wave by wave", plan, get),
        get_route(
            FULL_PLAN,
            "getWholePlan",
            "Get a stored plan in the format that the command line prints",
            get_full,
        ),
        get_route(
            DIFF,
            "diffPlan",
            "Get the changes that a stored plan would make now; values of Secrets are masked",
            diff,
        ),
        get_route(
            OBJECTS,
            "diffPlanObjects",
            "Get the changes that a stored plan would make now, with the live and target objects",
            diff_objects,
        ),
        post_route(
            APPROVE,
            "approvePlan",
            "Approve a plan so that the operation waiting for it continues",
            approve,
        ),
        post_route(SYNC, "syncPlan", "Execute exactly the stored plan", execute),
    ]
}

/// Filter for plans.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct ListQuery {
    /// Only plans of this application: its name, or NAMESPACE/NAME.
    application: Option<String>,
    #[serde(flatten)]
    page: PageQuery,
}

/// Sort key for plans: creation time (newest first), then hash.
type Position = (Reverse<i64>, String);

fn position(line: &PlanSummary) -> Position {
    (Reverse(line.created_at.as_millis()), line.hash.clone())
}

async fn list(call: Call<ListQuery>) -> Result<Page<PlanSummary>, Problem> {
    let ListQuery { application, page } = call.query;
    let request = page.parse(("plans", &application))?;
    let service = call.state.queries()?.applications().await?;
    application.as_deref().map_or(Ok(()), |application| check_application(&service, application))?;
    let mut items = service.plans(application.as_deref(), Some(&call.caller.name)).await?;
    items.sort_by_cached_key(position);
    Ok(request.select(items, position))
}

fn plan_response(status: StatusCode, (line, plan): &(PlanSummary, Plan)) -> HandlerResult {
    json_response(status, &plan::stored_plan_document(line, plan))
}

async fn application_service<Q, B>(call: &Call<Q, B>) -> Result<ApplicationService, Problem> {
    Ok(call.state.queries()?.applications().await?)
}

/// Checks that the application exists.
fn check_application(service: &ApplicationService, application: &str) -> Result<(), Problem> {
    let is_there = !service.find(Some(application)).applications.is_empty();
    let none = || Problem::new(Code::NotFound, format!("application {application:?} not found"));
    is_there.then_some(()).ok_or_else(none)
}

/// Application that the plan is expected to be for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct GetQuery {
    /// Name or NAMESPACE/NAME of the application. If the plan is for a different application, the response is
    /// 404.
    application: Option<String>,
}

async fn get(call: Call<GetQuery>) -> HandlerResult {
    let of = call.query.application.as_deref();
    let found = application_service(&call)
        .await?
        .stored_plan(of, call.path_parameter("hash"), Some(&call.caller.name))
        .await?;
    plan_response(StatusCode::OK, &found)
}

/// A stored plan, with its full content.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "StoredPlan")]
struct FullPlan {
    /// Summary of the plan.
    summary: PlanSummary,
    /// The plan, as recorded in the log. Secret values are masked.
    plan: serde_json::Value,
}

async fn get_full(call: Call) -> Result<FullPlan, Problem> {
    let (summary, plan) = application_service(&call)
        .await?
        .stored_plan(None, call.path_parameter("hash"), Some(&call.caller.name))
        .await?;
    let unwritten = |error| Problem::new(Code::Internal, format!("cannot serialize the response: {error}"));
    Ok(FullPlan { summary, plan: serde_json::to_value(plan).map_err(unwritten)? })
}

async fn diff(call: Call) -> Result<Differences, Problem> {
    let (objects, findings) =
        application_service(&call).await?.diff_plan(None, call.path_parameter("hash")).await?;
    Ok(differences::build_document(&objects, &findings))
}

async fn diff_objects(call: Call) -> Result<FullDifferences, Problem> {
    let (objects, findings) =
        application_service(&call).await?.diff_plan(None, call.path_parameter("hash")).await?;
    FullDifferences::new(&objects, findings)
}

/// Options for a new plan.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("not" = both_schema("revision", "revisions")))]
#[schemars(rename = "PlanBody")]
struct CreateBody {
    /// Name or NAMESPACE/NAME of the application.
    application: String,
    /// Branch, tag or commit to use instead of the application's revision.
    #[serde(default)]
    revision: Option<String>,
    /// For an application with several sources, instead of `revision`: one revision per source, in order. An
    /// empty entry selects the source's own revision.
    #[serde(default)]
    revisions: Vec<String>,
    /// Deletes objects that are no longer in the manifests.
    #[serde(default)]
    prune: bool,
    /// Objects to include, without hooks; empty to include all objects.
    #[serde(default)]
    resources: Vec<ObjectReference>,
}

async fn create(call: Call<NoParameters, CreateBody>) -> HandlerResult {
    let CreateBody { application, revision, revisions, prune, resources } = &call.body;
    check_revisions(revision.as_ref(), revisions)?;
    let service = application_service(&call).await?;
    check_application(&service, application)?;
    let found = service.find_only(application)?;
    let resources = resources.iter().map(|one| operation::from_selector(&ResourceSelector::from(one)));
    let request = SyncParameters {
        revision: revision.clone().unwrap_or_default(),
        revisions: revisions.clone(),
        prune: *prune,
        resources: resources.collect(),
        ..SyncParameters::default()
    };
    let mut operation_request = sync_operation(&found, request);
    operation_request.initiated_by.username.clone_from(&call.caller.name);
    plan_response(StatusCode::CREATED, &service.make_plan(application, operation_request).await?)
}

/// Reason for an approval.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "ApprovePlanBody")]
struct ApproveBody {
    /// Reason to record; may be empty.
    reason: String,
}

async fn approve(call: Call<NoParameters, ApproveBody>) -> Result<PlanSummary, Problem> {
    let requester = call.caller.requester(&call.body.reason);
    Ok(application_service(&call).await?.approve_plan(None, call.path_parameter("hash"), requester).await?)
}

/// Options for executing a plan.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "SyncPlanBody")]
struct ExecuteBody {
    /// Executes the plan even if fields that it does not set have changed on its objects.
    allow_drift: bool,
    /// Reason to record; may be empty.
    reason: String,
}

async fn execute(call: Call<NoParameters, ExecuteBody>) -> Result<PlanSummary, Problem> {
    let ExecuteBody { allow_drift, reason } = &call.body;
    let requester = call.caller.requester(reason);
    let service = application_service(&call).await?;
    Ok(service.sync_plan(None, call.path_parameter("hash"), *allow_drift, requester).await?)
}
