//! Rollouts and deletions of ApplicationSets, past and present: listed, shown, and passed on as files.

use axum::body::Body;
use http::header::{CONTENT_DISPOSITION, HeaderValue};
use http::{Response, StatusCode};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_model::StreamId;
use tidegate_service::documents::runs::{Run, RunDocument, RunFact, RunKind, RunLine, RunRecord};
use tidegate_service::error::ServiceError;
use tidegate_service::runs;

use super::operations::LogQuery;
use crate::pages::{self, Page};
use crate::problem::{Code, Problem};
use crate::route::{Answer, Call, Gives, Route, json, look, look_otherwise, text};

/// The rows of the table that are about rollouts and deletions of ApplicationSets.
pub(super) fn routes() -> Vec<Route> {
    vec![
        look(
            (
                "/api/v1/runs",
                "listRuns",
                "Rollouts and deletions of ApplicationSets, the newest first; also of sets that are gone",
            ),
            list,
        ),
        look(
            (
                "/api/v1/runs/{id}",
                "getRun",
                "A rollout or a deletion: steps, Applications, who decided what, and what it waited for",
            ),
            get,
        ),
        look(
            ("/api/v1/runs/{id}/log", "listRunFacts", "Everything that was recorded about it, in pages"),
            log,
        ),
        look_otherwise(
            (
                "/api/v1/runs/{id}/export",
                "exportRun",
                "A rollout or a deletion and everything that was recorded about it, as one document",
            ),
            Gives::Json(SchemaGenerator::subschema_for::<RunRecord<'static>>),
            export,
        ),
        look_otherwise(
            (
                "/api/v1/runs/{id}/export.html",
                "exportRunPage",
                "The same as a page for people, which needs nothing else",
            ),
            Gives::Text("text/html; charset=utf-8"),
            export_page,
        ),
    ]
}

/// Which of them.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
struct ListQuery {
    /// How many at once: 1 to 500, 100 if not said.
    limit: Option<u32>,
    /// The `next` of the page before.
    page: Option<String>,
    /// Only of this ApplicationSet: its name, or NAMESPACE/NAME. It may be gone.
    application_set: Option<String>,
    /// Only rollouts, or only deletions.
    kind: Option<RunKind>,
    /// Only those that this person, or program, has asked for.
    by: Option<String>,
    /// Only those that are not over, or only those that are.
    open: Option<bool>,
}

async fn list(call: Call<ListQuery>) -> Result<Page<RunLine>, Problem> {
    let ListQuery { limit, page, application_set, kind, by, open } = call.query;
    let limit = pages::limit(limit)?;
    let of = "runs";
    let before: Option<StreamId> = page.map(|word| pages::place(&of, &word)).transpose()?;
    let mut items = call.site.queries()?.runs(application_set).await?;
    // Ids are in the order in which they were begun.
    items.reverse();
    items.retain(|one| {
        kind.is_none_or(|kind| one.kind == kind)
            && by.as_ref().is_none_or(|by| one.by.as_ref() == Some(by))
            && open.is_none_or(|open| one.finished_at.is_none() == open)
    });
    let matching = u64::try_from(items.len()).unwrap_or(u64::MAX);
    items.retain(|one| before.is_none_or(|before| one.id < before));
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| has_more).map(|last| pages::word(&of, &last.id));
    Ok(Page { items, next, matching })
}

/// The rollout or deletion of the path.
async fn one<Q>(call: &Call<Q>) -> Result<Run, Problem> {
    let text = call.name("id");
    let none = || format!("{text:?} is not the id of a rollout or a deletion");
    let id: StreamId = text.parse().map_err(|_| Problem::new(Code::NotFound, none()))?;
    Ok(call.site.queries()?.run(id).await?)
}

async fn get(call: Call) -> Result<RunDocument, Problem> {
    Ok(one(&call).await?.run)
}

/// What was recorded.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RunLog")]
struct LogAnswer {
    /// In order.
    items: Vec<RunFact>,
    /// To go on, ask for those after this number; nothing where these are the last.
    next: Option<u64>,
    /// What is damaged of it.
    damage: Option<String>,
}

async fn log(call: Call<LogQuery>) -> Result<LogAnswer, Problem> {
    let (after, limit) = (call.query.after, pages::limit(call.query.limit)?);
    let found = one(&call).await?;
    if let Some(compacted) = runs::compacted(&found) {
        return Err(ServiceError::Log(compacted).into());
    }
    let mut items = found.facts;
    items.retain(|fact| fact.sequence > after);
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| has_more).map(|last| last.sequence);
    Ok(LogAnswer { items, next, damage: found.run.line.damage })
}

async fn export(call: Call) -> Answer {
    let run = one(&call).await?;
    Ok(as_file(json(StatusCode::OK, &run.record(SystemClock.now()))?, &run, "json"))
}

async fn export_page(call: Call) -> Answer {
    let run = one(&call).await?;
    let page = run.page(SystemClock.now());
    Ok(as_file(text(StatusCode::OK, "text/html; charset=utf-8", page), &run, "html"))
}

/// To be kept, and not to be shown in the place of our own page.
fn as_file(mut answer: Response<Body>, run: &Run, ending: &str) -> Response<Body> {
    let line = &run.run.line;
    let name = format!("attachment; filename=\"{}-{}.{ending}\"", line.kind.word(), line.id);
    answer.headers_mut().extend(HeaderValue::from_str(&name).ok().map(|name| (CONTENT_DISPOSITION, name)));
    answer
}
