//! Routes for past and current rollouts and deletions of ApplicationSets: lists, views and downloads.

use std::cmp::Reverse;

use http::StatusCode;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use tidegate_daemon::runs;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::StreamId;
use tidegate_state::error::ServiceError;
use tidegate_views::runs::{RunDetails, RunEvent, RunKind, RunRecord, RunSummary, RunWithEvents};

use super::operations::LogQuery;
use crate::pagination::{self, Page, PageQuery};
use crate::problem::{Code, Problem};
use crate::route::{
    Call, HandlerResult, ResponseContent, Route, as_download, get_route, get_route_as, json_response,
    text_response,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        get_route(
            "/api/v1/runs",
            "listRuns",
            "List rollouts and deletions of ApplicationSets, newest first, including those of deleted ApplicationSets",
            list,
        ),
        get_route(
            "/api/v1/runs/{id}",
            "getRun",
            "Get a rollout or deletion with its steps, Applications, decisions and waits",
            get,
        ),
        get_route(
            "/api/v1/runs/{id}/log",
            "listRunFacts",
            "List the recorded events of a rollout or deletion",
            log,
        ),
        get_route_as(
            "/api/v1/runs/{id}/export",
            "exportRun",
            "Export a rollout or deletion with its recorded events as JSON",
            ResponseContent::Json(SchemaGenerator::subschema_for::<RunRecord<'static>>),
            export,
        ),
        get_route_as(
            "/api/v1/runs/{id}/export.html",
            "exportRunPage",
            "Export a rollout or deletion as a self-contained HTML page",
            ResponseContent::Text("text/html; charset=utf-8"),
            export_page,
        ),
    ]
}

/// Filter for rollouts and deletions.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
struct ListQuery {
    #[serde(flatten)]
    page: PageQuery,
    /// Only rollouts and deletions of this ApplicationSet: its name, or NAMESPACE/NAME. The ApplicationSet may have been deleted.
    application_set: Option<String>,
    /// Only rollouts, or only deletions.
    kind: Option<RunKind>,
    /// Only rollouts and deletions requested by this user or program.
    #[serde(rename = "initiatedBy")]
    by: Option<String>,
    /// True selects unfinished rollouts and deletions; false selects finished ones.
    open: Option<bool>,
}

async fn list(call: Call<ListQuery>) -> Result<Page<RunSummary>, Problem> {
    let ListQuery { page, application_set, kind, by, open } = call.query;
    let request = page.parse("runs")?;
    let mut items = call.state.queries()?.list_runs(application_set).await?;
    // IDs sort by start time.
    items.reverse();
    items.retain(|one| {
        kind.is_none_or(|kind| one.kind == kind)
            && by.as_ref().is_none_or(|by| one.by.as_ref() == Some(by))
            && open.is_none_or(|open| one.finished_at.is_none() == open)
    });
    Ok(request.select(items, |one| Reverse(one.id)))
}

/// Returns the rollout or deletion in the path.
async fn find_run<Q>(call: &Call<Q>) -> Result<RunWithEvents, Problem> {
    let text = call.path_parameter("id");
    let none = || format!("{text:?} is not the ID of a rollout or deletion");
    let id: StreamId = text.parse().map_err(|_| Problem::new(Code::NotFound, none()))?;
    Ok(call.state.queries()?.read_run(id).await?)
}

async fn get(call: Call) -> Result<RunDetails, Problem> {
    Ok(find_run(&call).await?.run)
}

/// Recorded events.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunLog")]
struct RunLogPage {
    /// Events, in order.
    items: Vec<RunEvent>,
    /// Value of `after` for the next request; absent on the last page.
    next: Option<u64>,
    /// Description of the damage to the run's log, if any.
    damage: Option<String>,
}

async fn log(call: Call<LogQuery>) -> Result<RunLogPage, Problem> {
    let (after, limit) = (call.query.after, pagination::parse_limit(call.query.limit)?);
    let found = find_run(&call).await?;
    if let Some(compacted) = runs::compacted_error(&found) {
        return Err(ServiceError::Log(compacted).into());
    }
    let mut items = found.facts;
    items.retain(|event| event.sequence > after);
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| has_more).map(|last| last.sequence);
    Ok(RunLogPage { items, next, damage: found.run.line.damage })
}

async fn export(call: Call) -> HandlerResult {
    let run = find_run(&call).await?;
    let answer = json_response(StatusCode::OK, &run.record(SystemClock.now()))?;
    Ok(as_download(answer, &file_name(&run, "json")))
}

async fn export_page(call: Call) -> HandlerResult {
    let run = find_run(&call).await?;
    let page = run.render_page(SystemClock.now());
    let answer = text_response(StatusCode::OK, "text/html; charset=utf-8", page);
    Ok(as_download(answer, &file_name(&run, "html")))
}

/// Returns the name of an exported file.
fn file_name(run: &RunWithEvents, extension: &str) -> String {
    let line = &run.run.line;
    format!("{}-{}.{extension}", line.kind.word(), line.id)
}
