//! Operations: shown, and steered.

use axum::body::Body;
use http::header::{CONTENT_DISPOSITION, HeaderValue};
use http::{Response, StatusCode};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_lifecycle::operation::{HookLogView, OperationView, Scope};
use tidegate_model::{OperationId, OperationPhase, Override, StreamKind, Timestamp};
use tidegate_oplog::{LogError, Lookup, StreamName};
use tidegate_service::control::protocol::Wish;
use tidegate_service::documents::events::{self, EventDocument};
use tidegate_service::documents::facts::{self, FactDocument};
use tidegate_service::documents::filter::Filter;
use tidegate_service::documents::record::{AttemptLog, Record, RecordDocument, attempt_logs};
use tidegate_service::documents::{ExplanationDocument, SummaryDocument};
use tidegate_service::error::ServiceError;
use tidegate_service::operations::instance;

use crate::pages::{self, Page};
use crate::problem::{Code, Problem};
use crate::question::Nothing;
use crate::route::{Answer, Call, Gives, Route, act, json, look, look_otherwise, text};

/// The rows of the table that are about operations.
pub(super) fn routes() -> Vec<Route> {
    vec![
        look(("/api/v1/operations", "listOperations", "Operations, the newest first"), list),
        look(
            (
                "/api/v1/operations/{id}",
                "getOperation",
                "How an operation stands: waves, objects, logs of failed hooks",
            ),
            get,
        ),
        look(
            ("/api/v1/operations/{id}/explain", "explainOperation", "Why an operation is where it is"),
            explain,
        ),
        look(("/api/v1/operations/{id}/events", "listEvents", "What happened to an operation"), events),
        look(
            (
                "/api/v1/operations/{id}/logs",
                "listLogs",
                "The end of what the containers of failed hooks wrote",
            ),
            logs,
        ),
        look_otherwise(
            ("/api/v1/operations/{id}/log", "listFacts", "Everything that was recorded about an operation"),
            Gives::Json(SchemaGenerator::subschema_for::<LogAnswer<'static>>),
            log,
        ),
        look_otherwise(
            (
                "/api/v1/operations/{id}/export",
                "exportOperation",
                "An operation and everything that was recorded about it, as one document",
            ),
            Gives::Json(SchemaGenerator::subschema_for::<RecordDocument<'static>>),
            export,
        ),
        look_otherwise(
            (
                "/api/v1/operations/{id}/export.html",
                "exportOperationPage",
                "The same as a page for people, which needs nothing else",
            ),
            Gives::Text("text/html; charset=utf-8"),
            export_page,
        ),
        act(("/api/v1/operations/{id}/terminate", "terminateOperation", "End an operation"), terminate),
        act(
            ("/api/v1/operations/{id}/pause", "pauseOperation", "Hold an operation at its next safe point"),
            pause,
        ),
        act(("/api/v1/operations/{id}/unpause", "unpauseOperation", "Let a held operation go on"), unpause),
        act(
            (
                "/api/v1/operations/{id}/confirm",
                "confirmOperation",
                "Approve prunes that wait for confirmation",
            ),
            confirm,
        ),
        act(
            ("/api/v1/operations/{id}/approve", "approveOperation", "Approve a wave that waits for it"),
            approve,
        ),
        act(
            (
                "/api/v1/operations/{id}/skip",
                "skipTasks",
                "Go on without an object, or without what is not done of a wave",
            ),
            skip,
        ),
        act(
            (
                "/api/v1/operations/{id}/mark-done",
                "markTasksDone",
                "Take an object, or what is not done of a wave, for done",
            ),
            mark_done,
        ),
        act(
            (
                "/api/v1/operations/{id}/retry",
                "retryTasks",
                "Try an object, or what has failed of a wave, again at once",
            ),
            retry,
        ),
    ]
}

/// Which operations.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct ListQuery {
    /// How many at once: 1 to 500, 100 if not said.
    limit: Option<u32>,
    /// The `next` of the page before.
    page: Option<String>,
    /// Only of this application: its name, or NAMESPACE/NAME.
    application: Option<String>,
    /// Only those that stand like this; may come several times.
    phase: Vec<OperationPhase>,
    /// Only those that began at this moment, or later.
    since: Option<Timestamp>,
    /// Only those that began before this moment.
    until: Option<Timestamp>,
    /// Only those whose revision begins like this.
    revision: Option<String>,
    /// Only those that this person, or program, has asked for.
    by: Option<String>,
    /// Only those that are not over, or only those that are.
    open: Option<bool>,
}

async fn list(call: Call<ListQuery>) -> Result<Page<SummaryDocument>, Problem> {
    let ListQuery { limit, page, application, phase, since, until, revision, by, open } = call.query;
    let filter = Filter { phases: phase, since, until, revision, by };
    let limit = pages::limit(limit)?;
    let of = "operations";
    let before: Option<OperationId> = page.map(|word| pages::place(&of, &word)).transpose()?;
    let application = application.as_deref().map(instance);
    let lookup = Lookup { application, open, ..Lookup::all() };
    let listed = call.site.queries()?.operations(lookup).await?;
    // Ids are in the order in which operations were begun.
    let mut items: Vec<SummaryDocument> = listed.iter().rev().map(SummaryDocument::from).collect();
    items.retain(|one| filter.takes(one));
    let matching = u64::try_from(items.len()).unwrap_or(u64::MAX);
    items.retain(|one| before.is_none_or(|before| one.id < before));
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| has_more).map(|last| pages::word(&of, &last.id));
    Ok(Page { items, next, matching })
}

/// The operation of the path.
pub(super) fn id<Q, B>(call: &Call<Q, B>) -> Result<OperationId, Problem> {
    let text = call.name("id");
    text.parse().map_err(|_| Problem::new(Code::NotFound, format!("{text:?} is not the id of an operation")))
}

/// How an operation stands.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OperationAnswer {
    #[serde(flatten)]
    operation: OperationView,
    /// What the containers of failed hooks wrote last, in every attempt; left out where there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    logs: Option<Vec<AttemptLog>>,
    /// Whether the process works on it; nothing where that cannot be told.
    at_work: Option<bool>,
    /// Of one whose facts were compacted, so that it has neither waves nor objects any more: its line, as in the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<SummaryDocument>,
}

async fn get(call: Call) -> Result<OperationAnswer, Problem> {
    let queries = call.site.queries()?;
    let found = queries.inspect(id(&call)?).await?;
    let (operation, at_work) = (found.operation, found.explanation.at_work);
    let logs = match operation.retry_count {
        0 => None,
        // What is damaged of it is told among its warnings.
        _ => Some(
            queries.facts(operation.id).await.map_or_else(|_| Vec::new(), |(facts, ..)| attempt_logs(&facts)),
        ),
    };
    Ok(OperationAnswer { operation, logs, at_work, kept: found.kept })
}

async fn explain(call: Call) -> Result<ExplanationDocument, Problem> {
    Ok(call.site.queries()?.inspect(id(&call)?).await?.explanation)
}

/// What the containers of failed hooks wrote.
#[derive(Debug, Serialize, JsonSchema)]
struct Logs {
    /// In the order of the plan.
    items: Vec<HookLogView>,
}

async fn logs(call: Call) -> Result<Logs, Problem> {
    Ok(Logs { items: call.site.queries()?.inspect(id(&call)?).await?.operation.hook_logs })
}

/// Which events.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct EventsQuery {
    /// Only those after this number.
    after: u64,
    /// Wait for a while, where there are none yet.
    wait: bool,
}

/// What happened to an operation.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EventsAnswer {
    /// In order.
    items: Vec<EventDocument>,
    /// What is not there any more.
    missed: Option<String>,
    /// To go on, ask for those after this number.
    last: u64,
    /// None will follow.
    is_over: bool,
}

async fn events(call: Call<EventsQuery>) -> Result<EventsAnswer, Problem> {
    let EventsQuery { after, wait } = call.query;
    let told = call.site.queries()?.events(id(&call)?, after, wait).await?;
    let (missed, last, is_over) = (told.missed, told.last, told.is_over);
    Ok(EventsAnswer { items: events::documents(&told.events), missed, last, is_over })
}

/// Which facts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct LogQuery {
    /// Only those after this number.
    pub after: u64,
    /// How many at once: 1 to 500, 100 if not said.
    pub limit: Option<u32>,
}

/// What was recorded.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct LogAnswer<'a> {
    /// In order.
    items: Vec<FactDocument<'a>>,
    /// To go on, ask for those after this number; nothing where these are the last.
    next: Option<u64>,
    /// What is damaged of the operation.
    damage: Option<String>,
}

async fn log(call: Call<LogQuery>) -> Answer {
    let (after, limit) = (call.query.after, pages::limit(call.query.limit)?);
    let id = id(&call)?;
    let (facts, first, damage) = call.site.queries()?.facts(id).await?;
    if facts.is_empty() && first > 1 {
        let stream = StreamName::of(StreamKind::OPERATION, id);
        return Err(ServiceError::Log(LogError::Compacted { stream }).into());
    }
    // What an object is called, the plan says, which is a fact before it.
    let mut items = facts::documents(first, &facts);
    items.retain(|fact| fact.sequence > after);
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| has_more).map(|last| last.sequence);
    json(StatusCode::OK, &LogAnswer { items, next, damage })
}

async fn record(call: &Call) -> Result<Record, Problem> {
    let (queries, id) = (call.site.queries()?, id(call)?);
    let inspected = queries.inspect(id).await?;
    let (facts, first, damage) = queries.facts(id).await?;
    Ok(Record { inspected, facts, first, damage, at: SystemClock.now() })
}

async fn export(call: Call) -> Answer {
    let record = record(&call).await?;
    Ok(as_file(json(StatusCode::OK, &record.document())?, &record, "json"))
}

async fn export_page(call: Call) -> Answer {
    let record = record(&call).await?;
    Ok(as_file(text(StatusCode::OK, "text/html; charset=utf-8", record.page()), &record, "html"))
}

/// To be kept, and not to be shown in the place of our own page.
fn as_file(mut answer: Response<Body>, record: &Record, ending: &str) -> Response<Body> {
    let name = format!("attachment; filename=\"operation-{}.{ending}\"", record.inspected.operation.id);
    answer.headers_mut().extend(HeaderValue::from_str(&name).ok().map(|name| (CONTENT_DISPOSITION, name)));
    answer
}

/// What became of a wish.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Wished {
    /// The operation.
    id: OperationId,
    /// Whether the process works on it, and so hears of the wish at once; otherwise whoever goes on with it does.
    at_work: bool,
}

async fn wish<B>(call: &Call<Nothing, B>, wish: Wish) -> Result<Wished, Problem> {
    let id = id(call)?;
    let at_work = call.site.queries()?.wish(id, &call.by.name, wish).await?;
    Ok(Wished { id, at_work })
}

/// Why; may be left out.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ReasonBody {
    /// For people.
    reason: String,
}

async fn terminate(call: Call<Nothing, ReasonBody>) -> Result<Wished, Problem> {
    let reason = call.body.reason.clone();
    wish(&call, Wish::Terminate { reason }).await
}

async fn pause(call: Call<Nothing, ReasonBody>) -> Result<Wished, Problem> {
    let reason = call.body.reason.clone();
    wish(&call, Wish::Pause { reason }).await
}

async fn unpause(call: Call<Nothing, ReasonBody>) -> Result<Wished, Problem> {
    let reason = call.body.reason.clone();
    wish(&call, Wish::Unpause { reason }).await
}

async fn confirm(call: Call<Nothing, ReasonBody>) -> Result<Wished, Problem> {
    let reason = call.body.reason.clone();
    wish(&call, Wish::Confirm { reason }).await
}

/// Which wave.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ApproveBody {
    /// Its number in the plan, from 1; the one that waits for it if not said.
    wave: Option<u32>,
    /// For people.
    reason: String,
}

async fn approve(call: Call<Nothing, ApproveBody>) -> Result<Wished, Problem> {
    let ApproveBody { wave, reason } = &call.body;
    wish(&call, Wish::Approve { wave: *wave, reason: reason.clone() }).await
}

/// Which part of the operation: an object, or a wave.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct OverrideBody {
    /// KIND/NAME or KIND.GROUP/NAME of an object.
    task: Option<String>,
    /// The object's namespace, where several have its name.
    namespace: Option<String>,
    /// Phase of the hook, where it runs in several.
    phase: Option<String>,
    /// PHASE/NUMBER of a wave, or its number in the plan, from 1.
    wave: Option<String>,
    /// For the record; who skips something or marks it as done has to say it.
    reason: String,
}

async fn decide(call: Call<Nothing, OverrideBody>, what: Override) -> Result<Wished, Problem> {
    let OverrideBody { task, namespace, phase, wave, reason } = &call.body;
    let scope = Scope::of_words(task.as_deref(), namespace.as_deref(), phase.as_deref(), wave.as_deref())
        .map_err(|error| Problem::bad(error.to_string()))?;
    if what.passes_over() && reason.trim().is_empty() {
        return Err(Problem::bad("reason is empty; say why it is gone on without them"));
    }
    let reason = reason.clone();
    wish(&call, Wish::Override { what, scope, reason }).await
}

async fn skip(call: Call<Nothing, OverrideBody>) -> Result<Wished, Problem> {
    decide(call, Override::Skip).await
}

async fn mark_done(call: Call<Nothing, OverrideBody>) -> Result<Wished, Problem> {
    decide(call, Override::MarkDone).await
}

async fn retry(call: Call<Nothing, OverrideBody>) -> Result<Wished, Problem> {
    decide(call, Override::Retry).await
}
