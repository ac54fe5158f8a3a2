//! Routes for operations: views and actions.

use std::cmp::Reverse;

use http::StatusCode;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use tidegate_daemon::queries::RecordedEvents;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_lifecycle::operation::{HookLogView, OperationView, Scope};
use tidegate_model::{OperationId, OperationOutcome, Override, StreamKind, Timestamp};
use tidegate_oplog::{LogError, Lookup, StreamName};
use tidegate_state::error::ServiceError;
use tidegate_state::operations::instance_name;
use tidegate_views::events::{self, EventDocument};
use tidegate_views::filter::Filter;
use tidegate_views::log_entries::{self, LogEntryDocument};
use tidegate_views::protocol::OperationAction;
use tidegate_views::record::{AttemptLog, Record, RecordDocument, attempt_logs};
use tidegate_views::{ExplanationDocument, SummaryDocument};

use crate::pagination::{self, Page, PageQuery};
use crate::problem::{Code, Problem};
use crate::query::{NoParameters, both_schema, exactly_one_schema};
use crate::route::{
    Call, HandlerResult, ResponseContent, Route, as_download, get_route, get_route_as, json_response,
    post_route, text_response,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        get_route("/api/v1/operations", "listOperations", "List operations, newest first", list),
        get_route(
            "/api/v1/operations/{id}",
            "getOperation",
            "Get an operation with its waves, its objects, and the logs of failed hooks",
            get,
        ),
        get_route(
            "/api/v1/operations/{id}/explain",
            "explainOperation",
            "Explain the state of an operation",
            explain,
        ),
        get_route("/api/v1/operations/{id}/events", "listEvents", "List the events of an operation", events),
        get_route("/api/v1/operations/{id}/logs", "listLogs", "Get the last log lines of failed hooks", logs),
        get_route_as(
            "/api/v1/operations/{id}/log",
            "listFacts",
            "List the recorded events of an operation",
            ResponseContent::Json(SchemaGenerator::subschema_for::<OperationLogPage<'static>>),
            log,
        ),
        get_route_as(
            "/api/v1/operations/{id}/export",
            "exportOperation",
            "Export an operation with its recorded events as JSON",
            ResponseContent::Json(SchemaGenerator::subschema_for::<RecordDocument<'static>>),
            export,
        ),
        get_route_as(
            "/api/v1/operations/{id}/export.html",
            "exportOperationPage",
            "Export an operation as a self-contained HTML page",
            ResponseContent::Text("text/html; charset=utf-8"),
            export_page,
        ),
        post_route(
            "/api/v1/operations/{id}/terminate",
            "terminateOperation",
            "Terminate an operation",
            terminate,
        ),
        post_route(
            "/api/v1/operations/{id}/pause",
            "pauseOperation",
            "Pause an operation at its next safe point",
            pause,
        ),
        post_route(
            "/api/v1/operations/{id}/unpause",
            "unpauseOperation",
            "Resume a paused operation",
            unpause,
        ),
        post_route(
            "/api/v1/operations/{id}/confirm",
            "confirmOperation",
            "Confirm pruning that requires confirmation",
            confirm,
        ),
        post_route(
            "/api/v1/operations/{id}/approve",
            "approveOperation",
            "Approve a wave that is waiting for approval",
            approve,
        ),
        post_route(
            "/api/v1/operations/{id}/skip",
            "skipTasks",
            "Skip an object, or the unfinished tasks in a wave",
            skip,
        ),
        post_route(
            "/api/v1/operations/{id}/mark-done",
            "markTasksDone",
            "Mark an object, or the unfinished tasks in a wave, as done",
            mark_done,
        ),
        post_route(
            "/api/v1/operations/{id}/retry",
            "retryTasks",
            "Retry an object, or the failed tasks in a wave, immediately",
            retry,
        ),
    ]
}

/// Filter for operations.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct ListQuery {
    #[serde(flatten)]
    page: PageQuery,
    /// Only operations for this application: its name, or NAMESPACE/NAME.
    application: Option<String>,
    /// Only operations with this outcome; repeatable.
    #[serde(rename = "outcome")]
    phase: Vec<OperationOutcome>,
    /// Only operations that started at this time or later.
    since: Option<Timestamp>,
    /// Only operations that started before this time.
    until: Option<Timestamp>,
    /// Only operations whose revision starts with this text.
    revision: Option<String>,
    /// Only operations requested by this user or program.
    #[serde(rename = "initiatedBy")]
    by: Option<String>,
    /// True selects unfinished operations; false selects finished operations.
    open: Option<bool>,
}

async fn list(call: Call<ListQuery>) -> Result<Page<SummaryDocument>, Problem> {
    let ListQuery { page, application, phase, since, until, revision, by, open } = call.query;
    let filter = Filter { outcomes: phase, since, until, revision, requester: by };
    let request = page.parse("operations")?;
    let application = application.as_deref().map(instance_name);
    let lookup = Lookup { application, open, ..Lookup::all() };
    let listed = call.state.queries()?.list_operations(lookup).await?;
    // IDs sort by start time.
    let mut items: Vec<SummaryDocument> = listed.iter().rev().map(SummaryDocument::from).collect();
    items.retain(|one| filter.matches(one));
    Ok(request.select(items, |one| Reverse(one.id)))
}

/// Returns the operation ID in the path.
pub(super) fn operation_id<Q, B>(call: &Call<Q, B>) -> Result<OperationId, Problem> {
    let text = call.path_parameter("id");
    text.parse().map_err(|_| Problem::new(Code::NotFound, format!("{text:?} is not an operation ID")))
}

/// An operation's state.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OperationResponse {
    #[serde(flatten)]
    operation: OperationView,
    /// Last log lines of failed hooks, for each attempt; absent if there was only one attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    logs: Option<Vec<AttemptLog>>,
    /// True if the server's process is running the operation; absent if unknown.
    is_running: Option<bool>,
    /// Summary of an operation whose events were compacted. Its waves and objects are no longer available.
    #[serde(skip_serializing_if = "Option::is_none")]
    summary: Option<SummaryDocument>,
}

async fn get(call: Call) -> Result<OperationResponse, Problem> {
    let queries = call.state.queries()?;
    let found = queries.inspect(operation_id(&call)?).await?;
    let (operation, is_running) = (found.operation, found.explanation.is_running);
    let logs = match operation.retry_count {
        0 => None,
        // A damaged log is reported together with the operation's warnings.
        _ => Some(
            queries
                .recorded_events(operation.id)
                .await
                .map_or_else(|_| Vec::new(), |found| attempt_logs(&found.events)),
        ),
    };
    Ok(OperationResponse { operation, logs, is_running, summary: found.summary })
}

async fn explain(call: Call) -> Result<ExplanationDocument, Problem> {
    Ok(call.state.queries()?.inspect(operation_id(&call)?).await?.explanation)
}

/// Logs of failed hooks.
#[derive(Debug, Serialize, JsonSchema)]
struct HookLogs {
    /// Logs, in plan order.
    items: Vec<HookLogView>,
}

async fn logs(call: Call) -> Result<HookLogs, Problem> {
    Ok(HookLogs { items: call.state.queries()?.inspect(operation_id(&call)?).await?.operation.hook_logs })
}

/// Filter for events.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct EventsQuery {
    /// Only events with a number greater than this number.
    after: u64,
    /// If there are no events after `after` yet, the server waits for new events for a limited time.
    wait: bool,
}

/// Events of an operation.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OperationEvents {
    /// Events, in order.
    items: Vec<EventDocument>,
    /// Explanation, if some events are missing because they are no longer available.
    missed: Option<String>,
    /// Value of `after` for the next request.
    next: u64,
    /// True if there will be no more events.
    is_over: bool,
}

async fn events(call: Call<EventsQuery>) -> Result<OperationEvents, Problem> {
    let EventsQuery { after, wait } = call.query;
    let page = call.state.queries()?.events(operation_id(&call)?, after, wait).await?;
    let (missed, next, is_over) = (page.missed, page.last, page.is_over);
    Ok(OperationEvents { items: events::documents(&page.events), missed, next, is_over })
}

/// Filter for recorded events.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(super) struct LogQuery {
    /// Only events with a number greater than this number.
    pub after: u64,
    /// Maximum number of items, from 1 to 500 (default: 100).
    #[schemars(with = "Option<u32>", transform = pagination::add_limit_bounds)]
    pub limit: Option<i64>,
}

/// Recorded events.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "OperationLog")]
struct OperationLogPage<'a> {
    /// Events, in order.
    items: Vec<LogEntryDocument<'a>>,
    /// Value of `after` for the next request; absent on the last page.
    next: Option<u64>,
    /// Description of the damage to the operation's log, if any.
    damage: Option<String>,
}

async fn log(call: Call<LogQuery>) -> HandlerResult {
    let (after, limit) = (call.query.after, pagination::parse_limit(call.query.limit)?);
    let id = operation_id(&call)?;
    let RecordedEvents { events, first_sequence, damage } = call.state.queries()?.recorded_events(id).await?;
    if events.is_empty() && first_sequence > 1 {
        let stream = StreamName::with_kind(StreamKind::OPERATION, id);
        return Err(ServiceError::Log(LogError::Compacted { stream }).into());
    }
    // Object names come from the plan, which an earlier event recorded.
    let mut items = log_entries::documents(first_sequence, &events);
    items.retain(|event| event.sequence > after);
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| has_more).map(|last| last.sequence);
    json_response(StatusCode::OK, &OperationLogPage { items, next, damage })
}

async fn load_record(call: &Call) -> Result<Record, Problem> {
    let (queries, id) = (call.state.queries()?, operation_id(call)?);
    let details = queries.inspect(id).await?;
    let RecordedEvents { events, first_sequence, damage } = queries.recorded_events(id).await?;
    Ok(Record { details, events, first_sequence, damage, read_at: SystemClock.now() })
}

async fn export(call: Call) -> HandlerResult {
    let record = load_record(&call).await?;
    let answer = json_response(StatusCode::OK, &record.document())?;
    Ok(as_download(answer, &format!("operation-{}.json", record.details.operation.id)))
}

async fn export_page(call: Call) -> HandlerResult {
    let record = load_record(&call).await?;
    let answer = text_response(StatusCode::OK, "text/html; charset=utf-8", record.render_page());
    Ok(as_download(answer, &format!("operation-{}.html", record.details.operation.id)))
}

/// Result of a request.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RequestResult")]
struct AcceptedRequest {
    /// Operation that the request applies to.
    id: OperationId,
    /// True if the server's process is running the operation and receives the request immediately. If false,
    /// the next process that resumes the operation receives the request.
    is_running: bool,
}

async fn send_request<B>(
    call: &Call<NoParameters, B>,
    request: OperationAction,
) -> Result<AcceptedRequest, Problem> {
    let id = operation_id(call)?;
    let is_running = call.state.queries()?.send_action(id, &call.caller.name, request).await?;
    Ok(AcceptedRequest { id, is_running })
}

/// Reason for a request; optional.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ReasonBody {
    /// Human-readable reason to record.
    reason: String,
}

async fn terminate(call: Call<NoParameters, ReasonBody>) -> Result<AcceptedRequest, Problem> {
    let reason = call.body.reason.clone();
    send_request(&call, OperationAction::Terminate { reason }).await
}

async fn pause(call: Call<NoParameters, ReasonBody>) -> Result<AcceptedRequest, Problem> {
    let reason = call.body.reason.clone();
    send_request(&call, OperationAction::Pause { reason }).await
}

async fn unpause(call: Call<NoParameters, ReasonBody>) -> Result<AcceptedRequest, Problem> {
    let reason = call.body.reason.clone();
    send_request(&call, OperationAction::Unpause { reason }).await
}

async fn confirm(call: Call<NoParameters, ReasonBody>) -> Result<AcceptedRequest, Problem> {
    let reason = call.body.reason.clone();
    send_request(&call, OperationAction::Confirm { reason }).await
}

/// Wave to approve.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ApproveWaveBody")]
struct ApproveBody {
    /// Number of the wave in the plan, starting at 1 (default: the wave that is waiting for approval).
    #[schemars(range(min = 1))]
    wave: Option<u32>,
    /// Human-readable reason to record.
    reason: String,
}

async fn approve(call: Call<NoParameters, ApproveBody>) -> Result<AcceptedRequest, Problem> {
    let ApproveBody { wave, reason } = &call.body;
    send_request(&call, OperationAction::Approve { wave: *wave, reason: reason.clone() }).await
}

/// Part of the operation to skip or mark as done: an object or a wave.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend(
    "oneOf" = exactly_one_schema("task", "wave"),
    "not" = serde_json::json!({"anyOf": [both_schema("wave", "namespace"), both_schema("wave", "phase")]}),
))]
#[schemars(rename = "OverrideBody")]
struct OverrideBody {
    /// KIND/NAME or KIND.GROUP/NAME of an object.
    task: Option<String>,
    /// Namespace of the object, if its name is ambiguous.
    namespace: Option<String>,
    /// Phase of the hook, if the hook runs in more than one phase.
    phase: Option<String>,
    /// PHASE/NUMBER of a wave, or its number in the plan, starting at 1.
    wave: Option<String>,
    /// Reason to record; must not be empty.
    #[schemars(length(min = 1))]
    reason: String,
}

/// Part of the operation to retry: an object or a wave.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(extend(
    "oneOf" = exactly_one_schema("task", "wave"),
    "not" = serde_json::json!({"anyOf": [both_schema("wave", "namespace"), both_schema("wave", "phase")]}),
))]
struct RetryBody {
    /// KIND/NAME or KIND.GROUP/NAME of an object.
    task: Option<String>,
    /// Namespace of the object, if its name is ambiguous.
    namespace: Option<String>,
    /// Phase of the hook, if the hook runs in more than one phase.
    phase: Option<String>,
    /// PHASE/NUMBER of a wave, or its number in the plan, starting at 1.
    wave: Option<String>,
    /// Reason to record; may be empty.
    reason: String,
}

async fn send_override(
    call: Call<NoParameters, OverrideBody>,
    what: Override,
) -> Result<AcceptedRequest, Problem> {
    let OverrideBody { task, namespace, phase, wave, reason } = &call.body;
    let scope = Scope::parse(task.as_deref(), namespace.as_deref(), phase.as_deref(), wave.as_deref())
        .map_err(|error| Problem::bad_request(error.to_string()))?;
    if reason.trim().is_empty() {
        return Err(Problem::bad_request(
            "reason is empty: provide a reason for skipping or marking as done",
        ));
    }
    let reason = reason.clone();
    send_request(&call, OperationAction::Override { what, scope, reason }).await
}

async fn skip(call: Call<NoParameters, OverrideBody>) -> Result<AcceptedRequest, Problem> {
    send_override(call, Override::Skip).await
}

async fn mark_done(call: Call<NoParameters, OverrideBody>) -> Result<AcceptedRequest, Problem> {
    send_override(call, Override::MarkDone).await
}

async fn retry(call: Call<NoParameters, RetryBody>) -> Result<AcceptedRequest, Problem> {
    let RetryBody { task, namespace, phase, wave, reason } = &call.body;
    let scope = Scope::parse(task.as_deref(), namespace.as_deref(), phase.as_deref(), wave.as_deref())
        .map_err(|error| Problem::bad_request(error.to_string()))?;
    let (what, reason) = (Override::Retry, reason.clone());
    send_request(&call, OperationAction::Override { what, scope, reason }).await
}
