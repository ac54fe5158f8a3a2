//! Routes for ApplicationSets: views and actions.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidegate_appset_controller::{AppSetService, PolicyOptions, RolloutPreview, redact_appset};
use tidegate_model::argo::ApplicationSet;
use tidegate_model::{HealthStatus, StreamId, normalize_reason};
use tidegate_views::appset_actions::{AppSetAction, AppSetDeletionPreview, AppSetExplanation};
use tidegate_views::appset_summary::AppSetSummary;

use crate::pagination::{self, Page, PageQuery, PageRequest};
use crate::problem::{Code, Problem};
use crate::query::{NoParameters, both_schema, exactly_one_schema};
use crate::route::{Call, Route, delete_route, get_route, post_route};

pub(super) fn routes() -> Vec<Route> {
    vec![
        get_route(
            FULL_APPSETS,
            "listApplicationSets",
            "List ApplicationSets as Kubernetes resources; credentials are removed",
            list,
        ),
        get_route(
            APPSETS,
            "listApplicationSetLines",
            "List ApplicationSets with a summary of each",
            list_summaries,
        ),
        get_route(
            APPSET,
            "getApplicationSet",
            "Get an ApplicationSet as a Kubernetes resource; credentials are removed",
            get,
        ),
        get_route(
            EXPLAIN,
            "explainApplicationSet",
            "Explain the state of an ApplicationSet, step by step",
            explain,
        ),
        get_route(
            PLAN,
            "planRollout",
            "Preview the rollout of an ApplicationSet, step by step",
            plan_rollout,
        ),
        get_route(
            DELETION,
            "planApplicationSetDeletion",
            "Preview the deletion of an ApplicationSet: the Applications to delete, in order, \
                 and the Applications and objects to keep",
            plan_deletion,
        ),
        delete_route(
            APPSET,
            "deleteApplicationSet",
            "Delete an ApplicationSet and its Applications in the configured deletion order",
            delete_appset,
        ),
        post_route(APPROVE, "approveStep", "Approve a rollout step or blocked deletions", approve),
        post_route(
            SKIP,
            "skipMembers",
            "Skip an Application, or the unfinished Applications in a step",
            skip,
        ),
        post_route(RETRY, "retryMembers", "Retry Applications, or restart a run that has ended", retry),
        post_route(
            PAUSE,
            "pauseApplicationSet",
            "Pause a rollout or deletion; work in progress continues",
            |call| send_with_reason(call, AppSetAction::Pause),
        ),
        post_route(RESUME, "resumeApplicationSet", "Resume a rollout or deletion", |call| {
            send_with_reason(call, AppSetAction::Resume)
        }),
        post_route(TERMINATE, "terminateRollout", "Terminate a rollout or deletion", |call| {
            send_with_reason(call, AppSetAction::Terminate)
        }),
        post_route(REFRESH, "refreshApplicationSet", "Run an ApplicationSet's generators now", refresh),
    ]
}

const FULL_APPSETS: &str = "/api/v1/argoproj.io/applicationsets";
const APPSETS: &str = "/api/v1/applicationsets";
const APPSET: &str = "/api/v1/applicationsets/{namespace}/{name}";
const EXPLAIN: &str = "/api/v1/applicationsets/{namespace}/{name}/explain";
const PLAN: &str = "/api/v1/applicationsets/{namespace}/{name}/plan";
const DELETION: &str = "/api/v1/applicationsets/{namespace}/{name}/deletion";
const APPROVE: &str = "/api/v1/applicationsets/{namespace}/{name}/approve";
const SKIP: &str = "/api/v1/applicationsets/{namespace}/{name}/skip";
const RETRY: &str = "/api/v1/applicationsets/{namespace}/{name}/retry";
const PAUSE: &str = "/api/v1/applicationsets/{namespace}/{name}/pause";
const RESUME: &str = "/api/v1/applicationsets/{namespace}/{name}/resume";
const TERMINATE: &str = "/api/v1/applicationsets/{namespace}/{name}/terminate";
const REFRESH: &str = "/api/v1/applicationsets/{namespace}/{name}/refresh";

/// A page of ApplicationSets.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ApplicationSetPage")]
struct AppSetPage {
    #[serde(flatten)]
    page: Page<ApplicationSet>,
    /// Errors in files that cannot be attributed to an ApplicationSet.
    problems: Vec<String>,
    /// Policy options that apply to all ApplicationSets.
    options: PolicyOptions,
}

/// Sort key: namespace and name.
type Position = (String, String);

fn position(set: &ApplicationSet) -> Position {
    (set.metadata.namespace_or_default().to_owned(), set.metadata.name.clone())
}

async fn list(call: Call<PageQuery>) -> Result<AppSetPage, Problem> {
    let request = call.query.parse("applicationsets")?;
    let service = call.state.queries()?.appsets().await?;
    let found = service.find_matching(None);
    let Page { items, next, matching } = request.select(found.appsets, |one| position(one));
    let items = items.iter().map(|one| redact_appset(one)).collect();
    let options = service.options().clone();
    Ok(AppSetPage { page: Page { items, next, matching }, problems: found.problems, options })
}

/// Filter and sort order for ApplicationSets.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct SummariesQuery {
    #[serde(flatten)]
    page: PageQuery,
    /// Number of items to skip. Use it instead of `page` to jump to a part of a long list.
    offset: Option<u32>,
    /// Sort key (default: name).
    sort: AppSetOrder,
    /// Reverses the order.
    reverse: bool,
    /// Only ApplicationSets with this health; repeatable.
    health: Vec<HealthStatus>,
    /// Only ApplicationSets whose NAMESPACE/NAME contains this text, case-insensitively.
    name: Option<String>,
    /// True selects ApplicationSets with a running progressive sync; false selects all other ApplicationSets.
    progressing: Option<bool>,
}

/// Sort key for ApplicationSets. ApplicationSets with the same value are sorted by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum AppSetOrder {
    /// Namespace and name.
    #[default]
    Name,
    /// Health, worst first.
    Health,
    /// Number of Applications, highest first.
    Applications,
}

/// A page with one summary for each selected ApplicationSet.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ApplicationSetLinePage")]
struct SummaryPage {
    #[serde(flatten)]
    page: Page<AppSetSummary>,
    /// Errors in files that cannot be attributed to an ApplicationSet.
    problems: Vec<String>,
}

/// Position of a summary: sort key, namespace and name.
type SummaryPosition = (u64, String, String);

fn summary_position(sort: AppSetOrder, line: &AppSetSummary) -> SummaryPosition {
    let value = match sort {
        AppSetOrder::Name => 0,
        AppSetOrder::Health => match line.health {
            HealthStatus::Degraded => 0,
            HealthStatus::Missing => 1,
            HealthStatus::Unknown => 2,
            HealthStatus::Progressing => 3,
            HealthStatus::Suspended => 4,
            HealthStatus::Healthy => 5,
        },
        AppSetOrder::Applications => u64::MAX.saturating_sub(line.applications),
    };
    (value, line.namespace.clone(), line.name.clone())
}

async fn list_summaries(call: Call<SummariesQuery>) -> Result<SummaryPage, Problem> {
    let SummariesQuery { page, offset, sort, reverse, health, name, progressing } = call.query;
    let PageRequest { list, limit, after } = page.parse(("applicationset-lines", sort, reverse))?;
    if after.is_some() && offset.is_some() {
        return Err(Problem::bad_request("page and offset cannot be combined: use one of them"));
    }
    let service = call.state.queries()?.appsets().await?;
    let found = service.find_matching(None);
    let part = name.unwrap_or_default().to_lowercase();
    let is_wanted = |line: &AppSetSummary| {
        let goes_on = line.rollout.as_ref().is_some_and(|rollout| rollout.progressing);
        (health.is_empty() || health.contains(&line.health))
            && format!("{}/{}", line.namespace, line.name).to_lowercase().contains(&part)
            && progressing.is_none_or(|wanted| wanted == goes_on)
    };
    let lines = found.appsets.iter().map(|set| service.summarize(set)).filter(is_wanted);
    let mut lines: Vec<(SummaryPosition, AppSetSummary)> =
        lines.map(|line| (summary_position(sort, &line), line)).collect();
    let matching = u64::try_from(lines.len()).unwrap_or(u64::MAX);
    lines.sort_by(|(one, _), (other, _)| if reverse { other.cmp(one) } else { one.cmp(other) });
    let is_behind = |place: &SummaryPosition, after: &SummaryPosition| {
        if reverse { place < after } else { place > after }
    };
    lines.retain(|(place, _)| after.as_ref().is_none_or(|after| is_behind(place, after)));
    let skip = usize::try_from(offset.unwrap_or_default()).unwrap_or(usize::MAX);
    let mut rest = lines.into_iter().skip(skip);
    let items: Vec<(SummaryPosition, AppSetSummary)> = rest.by_ref().take(limit).collect();
    let next = rest.next().and(items.last()).map(|(place, _)| pagination::encode_position(&list, place));
    let items = items.into_iter().map(|(_, line)| line).collect();
    Ok(SummaryPage { page: Page { items, next, matching }, problems: found.problems })
}

/// Returns the ApplicationSet in the path, its lookup name, and the service that manages it.
async fn find_appset<Q, B>(
    call: &Call<Q, B>,
) -> Result<(AppSetService, String, Arc<ApplicationSet>), Problem> {
    let service = call.state.queries()?.appsets().await?.clone();
    let name = format!("{}/{}", call.path_parameter("namespace"), call.path_parameter("name"));
    let found = service.find_matching(Some(&name)).appsets.into_iter().next();
    let found =
        found.ok_or_else(|| Problem::new(Code::NotFound, format!("ApplicationSet {name:?} not found")))?;
    Ok((service, name, found))
}

async fn get(call: Call) -> Result<ApplicationSet, Problem> {
    Ok(redact_appset(find_appset(&call).await?.2.as_ref()))
}

async fn explain(call: Call) -> Result<AppSetExplanation, Problem> {
    let (service, name, _) = find_appset(&call).await?;
    Ok(service.explain(&name).await?)
}

async fn plan_rollout(call: Call) -> Result<RolloutPreview, Problem> {
    let (service, name, _) = find_appset(&call).await?;
    Ok(service.plan_rollout(&name).await?)
}

async fn plan_deletion(call: Call) -> Result<AppSetDeletionPreview, Problem> {
    let (service, name, _) = find_appset(&call).await?;
    Ok(service.plan_deletion(&name).await?)
}

/// Reason for a request, and the run that it applies to.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "RunReasonBody")]
struct ReasonBody {
    /// ID of the rollout or deletion that you expect to be in progress (default: the run in progress). If a
    /// different run is in progress, the request has no effect.
    run: Option<StreamId>,
    /// Reason to record; may be empty.
    reason: String,
}

/// Step to approve, or deletions to approve.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("not" = json!({"anyOf": [both_schema("step", "deletions"), both_schema("run", "deletions")]})))]
#[schemars(rename = "ApproveStepBody")]
struct ApproveBody {
    /// Number of the step, starting at 1 (default: the step that is waiting for approval).
    #[schemars(range(min = 1))]
    step: Option<u32>,
    /// Token that approves the deletion of Applications instead of a step. The message of the `ErrorOccurred`
    /// condition contains the token, which identifies the blocked deletions.
    deletions: Option<String>,
    /// ID of the rollout that you expect to be in progress, for the approval of a step. If a different
    /// rollout is in progress, the request has no effect.
    run: Option<StreamId>,
    /// Reason to record; may be empty.
    reason: String,
}

/// Applications that a rollout should skip: all Applications in a step, or a single Application.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("oneOf" = exactly_one_schema("step", "application")))]
struct SkipBody {
    /// Number of the step whose Applications the rollout should skip, starting at 1.
    #[schemars(range(min = 1))]
    step: Option<u32>,
    /// Name of the Application to skip.
    application: Option<String>,
    /// ID of the rollout or deletion that you expect to be in progress (default: the run in progress). If a
    /// different run is in progress, the request has no effect.
    run: Option<StreamId>,
    /// Reason to record; must not be empty.
    #[schemars(length(min = 1))]
    reason: String,
}

/// Applications to retry: all Applications in a step, or a single Application. If neither is specified, a
/// finished run is restarted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("not" = both_schema("step", "application")))]
struct MembersBody {
    /// Number of the step whose Applications to retry, starting at 1.
    #[schemars(range(min = 1))]
    step: Option<u32>,
    /// Name of the Application.
    application: Option<String>,
    /// ID of the rollout or deletion that you expect to be in progress (default: the run in progress). If a
    /// different run is in progress, the request has no effect.
    run: Option<StreamId>,
    /// Reason to record; may be empty.
    reason: String,
}

/// Rejects a body that contains both a step and an Application. Unless `may_be_all` is true, also rejects a
/// body that contains neither.
fn check_target(step: Option<u32>, application: Option<&String>, may_be_all: bool) -> Result<(), Problem> {
    match (step, application) {
        (Some(_), None) | (None, Some(_)) => Ok(()),
        (None, None) if may_be_all => Ok(()),
        _ => Err(Problem::bad_request("invalid body: use either step or application")),
    }
}

async fn send_request<B>(
    call: &Call<NoParameters, B>,
    run: Option<StreamId>,
    request: AppSetAction,
    reason: &str,
) -> Result<AppSetExplanation, Problem> {
    let (service, name, _) = find_appset(call).await?;
    service.send_action(&name, run, request, call.caller.requester(reason)).await?;
    Ok(service.explain(&name).await?)
}

async fn send_with_reason(
    call: Call<NoParameters, ReasonBody>,
    action: AppSetAction,
) -> Result<AppSetExplanation, Problem> {
    let ReasonBody { run, reason } = &call.body;
    send_request(&call, *run, action, reason).await
}

async fn approve(mut call: Call<NoParameters, ApproveBody>) -> Result<AppSetExplanation, Problem> {
    let ApproveBody { step, deletions, run, reason } = std::mem::take(&mut call.body);
    let action = match (step, deletions) {
        (Some(_), Some(_)) => {
            return Err(Problem::bad_request("step and deletions cannot be combined: use one of them"));
        }
        (None, Some(_)) if run.is_some() => {
            return Err(Problem::bad_request(
                "run cannot be combined with deletions: run applies only to rollouts",
            ));
        }
        (None, Some(token)) => AppSetAction::ApproveDeletions { token },
        (step, None) => AppSetAction::Approve { step },
    };
    send_request(&call, run, action, &reason).await
}

async fn skip(mut call: Call<NoParameters, SkipBody>) -> Result<AppSetExplanation, Problem> {
    let SkipBody { step, application, run, reason } = std::mem::take(&mut call.body);
    check_target(step, application.as_ref(), false)?;
    if normalize_reason(&reason).is_empty() {
        return Err(Problem::bad_request("reason is empty: provide a reason for skipping"));
    }
    send_request(&call, run, AppSetAction::Skip { step, member: application }, &reason).await
}

async fn retry(mut call: Call<NoParameters, MembersBody>) -> Result<AppSetExplanation, Problem> {
    let MembersBody { step, application, run, reason } = std::mem::take(&mut call.body);
    check_target(step, application.as_ref(), true)?;
    send_request(&call, run, AppSetAction::Retry { step, member: application }, &reason).await
}

/// An empty body.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct EmptyBody {}

async fn refresh(call: Call<NoParameters, EmptyBody>) -> Result<AppSetExplanation, Problem> {
    let (service, name, _) = find_appset(&call).await?;
    service.refresh(&name).await?;
    Ok(service.explain(&name).await?)
}

/// Options for a deletion.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct DeleteQuery {
    /// Keeps the Applications.
    orphan: bool,
    /// Reason to record with the requester; may be empty.
    reason: String,
}

/// An ApplicationSet that is being deleted or has been deleted.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeletedApplicationSet")]
struct DeletedAppSet {
    /// Namespace of the ApplicationSet.
    namespace: String,
    /// Name of the ApplicationSet.
    name: String,
}

async fn delete_appset(call: Call<DeleteQuery>) -> Result<DeletedAppSet, Problem> {
    let (service, name, _) = find_appset(&call).await?;
    let DeleteQuery { orphan, reason } = &call.query;
    service.delete(&name, *orphan, call.caller.requester(reason)).await?;
    Ok(DeletedAppSet {
        namespace: call.path_parameter("namespace").to_owned(),
        name: call.path_parameter("name").to_owned(),
    })
}
