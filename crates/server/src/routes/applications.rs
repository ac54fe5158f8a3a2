//! Routes for applications: views and actions.

use http::StatusCode;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_app_controller::listing::{ApplicationFilter, LabelTerm, OrderBy, PageStart, SortOrder};
use tidegate_app_controller::sync_request::{SyncParameters, sync_operation};
use tidegate_app_controller::{ApplicationService, DeletionOptions};
use tidegate_application::AppKey;
use tidegate_application::credentials;
use tidegate_application::operation::{from_selector, set_reason};
use tidegate_appset_controller::summarize_application;
use tidegate_executor::effects::ObjectDifference;
use tidegate_model::argo::{Application, ResourceStatus, SyncStatusCode};
use tidegate_model::{
    Cascade, ClaimConflictPolicy, HealthStatus, OperationId, OperationOutcome, ResourceSelector, Warning,
    WaveNumbers,
};
use tidegate_state::summaries::{ApplicationSummary, SyncWindowSummary};
use tidegate_views::deletion::DeletionPlan;
use tidegate_views::differences::{self, Differences};
use tidegate_views::plan::{self, PlanDocument};

use crate::pagination::{self, Page, PageQuery, PageRequest};
use crate::problem::{Code, Problem};
use crate::query::{NoParameters, both_schema};
use crate::route::{
    Call, HandlerResult, ResponseContent, Route, delete_route, get_route, get_route_as, json_response,
    post_route,
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        get_route(
            "/api/v1/applications",
            "listApplications",
            "List applications with a summary of each",
            list,
        ),
        get_route(
            FULL_APPLICATIONS,
            "listApplicationResources",
            "List applications as Kubernetes resources; credentials are removed",
            list_full,
        ),
        get_route(
            APPLICATION,
            "getApplication",
            "Get an application as a Kubernetes resource; credentials are removed",
            get,
        ),
        get_route(RESOURCES, "listResources", "List the objects of an application in wave order", resources),
        get_route(
            DIFF,
            "diffApplication",
            "Get the changes that a sync would make; values of Secrets are masked",
            diff,
        ),
        get_route_as(
            PLAN,
            "planApplication",
            "Plan a sync, wave by wave, including hooks",
            ResponseContent::Json(SchemaGenerator::subschema_for::<PlanDocument<'static>>),
            plan_next,
        ),
        get_route(
            DELETION,
            "planDeletion",
            "Preview the deletion of an application: the objects to delete, in order, and the objects \
                 to keep",
            plan_deletion,
        ),
        get_route(WINDOW, "getSyncWindow", "Get the state of an application's sync windows", window),
        get_route(
            OBJECTS,
            "diffObjects",
            "Get the changes that a sync would make, with the live and target objects",
            diff_objects,
        ),
        delete_route(
            APPLICATION,
            "deleteApplication",
            "Delete an application and its objects, in reverse wave order",
            delete_application,
        ),
        post_route(SYNC, "syncApplication", "Sync an application", start_sync),
        post_route(
            ROLLBACK,
            "rollbackApplication",
            "Roll back an application to an earlier sync, without hooks",
            rollback,
        ),
        post_route(
            TERMINATE,
            "terminateApplication",
            "Terminate an application's current operation",
            terminate,
        ),
        post_route(
            REFRESH,
            "refreshApplication",
            "Refresh an application: fetch its repository and compare its objects with the manifests",
            refresh,
        ),
    ]
}

const FULL_APPLICATIONS: &str = "/api/v1/argoproj.io/applications";
const APPLICATION: &str = "/api/v1/applications/{namespace}/{name}";
const RESOURCES: &str = "/api/v1/applications/{namespace}/{name}/resources";
const DIFF: &str = "/api/v1/applications/{namespace}/{name}/diff";
const OBJECTS: &str = "/api/v1/applications/{namespace}/{name}/diff/objects";
const PLAN: &str = "/api/v1/applications/{namespace}/{name}/plan";
const DELETION: &str = "/api/v1/applications/{namespace}/{name}/deletion";
const WINDOW: &str = "/api/v1/applications/{namespace}/{name}/window";
const SYNC: &str = "/api/v1/applications/{namespace}/{name}/sync";
const ROLLBACK: &str = "/api/v1/applications/{namespace}/{name}/rollback";
const TERMINATE: &str = "/api/v1/applications/{namespace}/{name}/terminate";
const REFRESH: &str = "/api/v1/applications/{namespace}/{name}/refresh";

/// Filter and sort order for applications.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct ListQuery {
    #[serde(flatten)]
    page: PageQuery,
    /// Number of items to skip. Use it instead of `page` to jump to a part of a long list.
    offset: Option<u32>,
    /// Sort key (default: name).
    sort: OrderBy,
    /// Reverses the order.
    reverse: bool,
    /// Only applications in this project; repeatable.
    project: Vec<String>,
    /// Only applications with this sync status; repeatable.
    sync: Vec<SyncStatusCode>,
    /// Only applications with this health; repeatable.
    health: Vec<HealthStatus>,
    /// Only applications whose operation has this outcome; repeatable.
    operation: Vec<OperationOutcome>,
    /// Only applications whose NAMESPACE/NAME contains this text, case-insensitively.
    name: Option<String>,
    /// Only applications with these labels: KEY, !KEY, KEY=VALUE or KEY!=VALUE, separated by commas.
    label: Option<String>,
}

async fn list(call: Call<ListQuery>) -> Result<ApplicationPage<ApplicationSummary>, Problem> {
    let appsets = call.state.queries()?.appsets_if_ready().cloned();
    list_page(call, "applications", |one| summarize_application(one, appsets.as_ref())).await
}

async fn list_full(call: Call<ListQuery>) -> Result<ApplicationPage<Application>, Problem> {
    list_page(call, "application-resources", credentials::application_without_credentials).await
}

/// Returns a page of the selected applications, each converted with the given function.
async fn list_page<T>(
    call: Call<ListQuery>,
    called: &str,
    show: impl Fn(&Application) -> T,
) -> Result<ApplicationPage<T>, Problem> {
    let ListQuery { page, offset, sort, reverse, project, sync, health, operation, name, label } = call.query;
    let PageRequest { list, limit, after } = page.parse((called, sort, reverse))?;
    let labels = label
        .map(|text| LabelTerm::parse(&text))
        .transpose()
        .map_err(|error| Problem::bad_request(error.to_string()))?;
    let wanted = ApplicationFilter {
        projects: project,
        sync,
        health,
        operation,
        name: name.unwrap_or_default(),
        labels: labels.unwrap_or_default(),
    };
    let begins = match (after, offset) {
        (Some(_), Some(_)) => {
            return Err(Problem::bad_request("page and offset cannot be combined: use one of them"));
        }
        (Some(place), None) => PageStart::After(place),
        (None, offset) => {
            PageStart::Offset(usize::try_from(offset.unwrap_or_default()).unwrap_or(usize::MAX))
        }
    };
    let service = call.state.queries()?.applications().await?;
    let found = service.page(&wanted, SortOrder { by: sort, is_reversed: reverse }, &begins, limit);
    let page = Page {
        items: found.applications.iter().map(|one| show(one)).collect(),
        next: found.next.map(|place| pagination::encode_position(&list, &place)),
        matching: u64::try_from(found.matching).unwrap_or(u64::MAX),
    };
    Ok(ApplicationPage { page, problems: service.problems() })
}

/// A page of applications.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "{T}Page")]
struct ApplicationPage<T> {
    #[serde(flatten)]
    page: Page<T>,
    /// Errors in files that cannot be attributed to an application.
    problems: Vec<String>,
}

/// Returns the name of the application in the path, in the format used for lookups.
pub(super) fn application_name<Q, B>(call: &Call<Q, B>) -> String {
    format!("{}/{}", call.path_parameter("namespace"), call.path_parameter("name"))
}

/// Returns the application in the path and the service that manages it.
pub(super) async fn find_application<Q, B>(
    call: &Call<Q, B>,
) -> Result<(ApplicationService, Application), Problem> {
    let service = call.state.queries()?.applications().await?;
    let name = application_name(call);
    let found = service
        .masked_application(&name)
        .ok_or_else(|| Problem::new(Code::NotFound, format!("application {name:?} not found")))?;
    Ok((service, found))
}

async fn get(call: Call) -> Result<Application, Problem> {
    Ok(find_application(&call).await?.1)
}

/// Sort key of an application's objects: wave, group, kind, namespace and name.
type ResourcePosition = (i64, String, String, String, String);

fn resource_position(one: &ResourceStatus) -> ResourcePosition {
    (one.sync_wave, one.group.clone(), one.kind.clone(), one.namespace.clone(), one.name.clone())
}

/// An object of an application.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ResourceSummary {
    /// Status of the object, as in the application's status.
    #[serde(flatten)]
    resource: ResourceStatus,
    /// Description of the health rule that applies to the object. Absent if there is no rule. Syncs don't
    /// wait for an object without a health rule.
    health_rule: Option<String>,
}

async fn resources(call: Call<PageQuery>) -> Result<Page<ResourceSummary>, Problem> {
    let list = ("resources", call.path_parameter("namespace"), call.path_parameter("name"));
    let request = call.query.parse(list)?;
    let (service, application) = find_application(&call).await?;
    let key = AppKey::of(&application);
    let mut items = application.status.resources;
    items.sort_by_cached_key(resource_position);
    let Page { items, next, matching } = request.select(items, resource_position);
    let rules = service.health_rules(&key, &items);
    let line = |(resource, health_rule)| ResourceSummary { resource, health_rule };
    Ok(Page { items: items.into_iter().zip(rules).map(line).collect(), next, matching })
}

/// Revisions to compare with.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct DiffQuery {
    /// Branch, tag or commit to use instead of the application's revision.
    revision: Option<String>,
    /// For an application with several sources, instead of `revision`: one revision per source, in order. An
    /// empty entry selects the source's own revision.
    revisions: Vec<String>,
}

impl DiffQuery {
    /// Returns the requested revisions, one per source, or none to use the application's own revisions.
    fn into_revisions(self) -> Result<Vec<String>, Problem> {
        check_revisions(self.revision.as_ref(), &self.revisions)?;
        Ok(self.revision.into_iter().chain(self.revisions).collect())
    }
}

/// Rejects a request with both `revision` and `revisions`.
pub(super) fn check_revisions(revision: Option<&String>, revisions: &[String]) -> Result<(), Problem> {
    match revision {
        Some(_) if !revisions.is_empty() => {
            Err(Problem::bad_request("revision and revisions cannot be combined: use one of them"))
        }
        _ => Ok(()),
    }
}

async fn diff(call: Call<DiffQuery>) -> Result<Differences, Problem> {
    let (service, _) = find_application(&call).await?;
    let (objects, findings) = service.diff(&application_name(&call), call.query.into_revisions()?).await?;
    Ok(differences::build_document(&objects, &findings))
}

/// Differences, together with the objects that were compared.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct FullDifferences {
    /// Objects in sync order, in the same format as on the command line. Secret values are masked.
    objects: Vec<Value>,
    /// Warnings found during the comparison.
    warnings: Vec<Warning>,
}

async fn diff_objects(call: Call<DiffQuery>) -> Result<FullDifferences, Problem> {
    let (service, _) = find_application(&call).await?;
    let (objects, findings) = service.diff(&application_name(&call), call.query.into_revisions()?).await?;
    FullDifferences::new(&objects, findings)
}

impl FullDifferences {
    pub(super) fn new(objects: &[ObjectDifference], warnings: Vec<Warning>) -> Result<Self, Problem> {
        let unwritten =
            |error| Problem::new(Code::Internal, format!("cannot serialize the response: {error}"));
        let objects =
            objects.iter().map(serde_json::to_value).collect::<Result<_, _>>().map_err(unwritten)?;
        Ok(Self { objects, warnings })
    }
}

async fn plan_next(call: Call<DiffQuery>) -> HandlerResult {
    let (service, _) = find_application(&call).await?;
    let plan = service.plan(&application_name(&call), call.query.into_revisions()?).await?;
    json_response(StatusCode::OK, &plan::plan_document(&plan, &WaveNumbers::default(), &[]))
}

/// Options for previewing a deletion.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct DeletionQuery {
    /// Deletion policy for the application's objects: `foreground`, `background` or `orphan` (default: foreground).
    cascade: Cascade,
    /// Skips deletion hooks. `orphan` always skips them.
    #[serde(rename = "noHooks")]
    no_hooks: bool,
}

async fn plan_deletion(call: Call<DeletionQuery>) -> Result<DeletionPlan, Problem> {
    let (service, _) = find_application(&call).await?;
    let DeletionQuery { cascade, no_hooks } = call.query;
    Ok(service.plan_deletion(&application_name(&call), DeletionOptions { cascade, no_hooks }).await?)
}

async fn window(call: Call) -> Result<SyncWindowSummary, Problem> {
    let (service, _) = find_application(&call).await?;
    Ok(service.window_status(&application_name(&call))?)
}

/// Options for a sync.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("not" = both_schema("revision", "revisions")))]
struct SyncBody {
    /// Branch, tag or commit to use instead of the application's revision.
    revision: Option<String>,
    /// For an application with several sources, instead of `revision`: one revision per source, in order. An
    /// empty entry selects the source's own revision.
    revisions: Vec<String>,
    /// Deletes objects that are no longer in the manifests.
    prune: bool,
    /// Has the API server validate all objects without writing anything.
    dry_run: bool,
    /// Objects to sync, without running hooks; empty to sync all objects.
    resources: Vec<ObjectReference>,
    /// Action to take if another operation for the application is running.
    policy: ConcurrencyPolicy,
    /// Reason to record; may be empty.
    reason: String,
}

/// Action to take when a sync is requested while another operation is running.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum ConcurrencyPolicy {
    /// Rejects the request.
    #[default]
    Refuse,
    /// Starts the sync after the running operation has finished.
    Queue,
    /// Ends the running operation once it is waiting or an attempt fails, but never while a hook is running.
    Supersede,
}

impl From<ConcurrencyPolicy> for ClaimConflictPolicy {
    fn from(given: ConcurrencyPolicy) -> Self {
        match given {
            ConcurrencyPolicy::Refuse => Self::Refuse,
            ConcurrencyPolicy::Queue => Self::Queue,
            ConcurrencyPolicy::Supersede => Self::Supersede,
        }
    }
}

/// Reference to an object.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ObjectReference {
    /// API group; empty for the core API.
    #[serde(default)]
    group: String,
    /// Kind.
    kind: String,
    /// Namespace; empty for any namespace.
    #[serde(default)]
    namespace: String,
    /// Name.
    name: String,
}

impl From<&ObjectReference> for ResourceSelector {
    fn from(one: &ObjectReference) -> Self {
        let ObjectReference { group, kind, namespace, name } = one;
        Self { group: group.clone(), kind: kind.clone(), namespace: namespace.clone(), name: name.clone() }
    }
}

async fn start_sync(call: Call<NoParameters, SyncBody>) -> Result<ApplicationSummary, Problem> {
    let (service, application) = find_application(&call).await?;
    let SyncBody { revision, revisions, prune, dry_run, resources, policy, reason } = &call.body;
    check_revisions(revision.as_ref(), revisions)?;
    let resource = |one: &ObjectReference| from_selector(&one.into());
    let request = SyncParameters {
        revision: revision.clone().unwrap_or_default(),
        revisions: revisions.clone(),
        prune: *prune,
        dry_run: *dry_run,
        resources: resources.iter().map(resource).collect(),
        policy: (*policy).into(),
    };
    let mut operation_request = sync_operation(&application, request);
    operation_request.initiated_by.username.clone_from(&call.caller.name);
    set_reason(&mut operation_request, reason);
    service.sync(&application_name(&call), operation_request).await?;
    Ok((&find_application(&call).await?.1).into())
}

/// Target of a rollback.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct RollbackBody {
    /// `id` of a sync in the history (default: the sync before the most recent one).
    id: Option<i64>,
    /// Deletes objects that are not in that sync's manifests.
    prune: bool,
    /// Reason to record; may be empty.
    reason: String,
}

async fn rollback(call: Call<NoParameters, RollbackBody>) -> Result<ApplicationSummary, Problem> {
    let (service, _) = find_application(&call).await?;
    let RollbackBody { id, prune, reason } = &call.body;
    service.rollback(&application_name(&call), *id, *prune, call.caller.requester(reason)).await?;
    Ok((&find_application(&call).await?.1).into())
}

/// Operation to terminate, and the reason. Both are optional.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TerminateBody {
    /// ID of the operation that you expect to be running (default: the running operation). If a different
    /// operation is running, the request has no effect.
    operation: Option<OperationId>,
    /// Reason to record; may be empty.
    reason: String,
}

async fn terminate(call: Call<NoParameters, TerminateBody>) -> Result<ApplicationSummary, Problem> {
    let (service, _) = find_application(&call).await?;
    let requester = call.caller.requester(&call.body.reason);
    service.terminate(&application_name(&call), call.body.operation, requester).await?;
    Ok((&find_application(&call).await?.1).into())
}

/// Options for a comparison.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct RefreshBody {
    /// Renders the manifests again instead of using cached manifests.
    hard: bool,
}

async fn refresh(call: Call<NoParameters, RefreshBody>) -> Result<ApplicationSummary, Problem> {
    let (service, application) = find_application(&call).await?;
    service.refresh(&application_name(&call), call.body.hard).await?;
    Ok((&application).into())
}

/// Options for a deletion.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct DeleteQuery {
    /// Deletion policy for the application's objects (default: foreground). `foreground` deletes each object
    /// after its dependents, `background` deletes it before its dependents, and `orphan` keeps all objects.
    cascade: Cascade,
    /// Skips deletion hooks. `orphan` always skips them.
    #[serde(rename = "noHooks")]
    no_hooks: bool,
    /// Reason to record with the requester; may be empty.
    reason: String,
}

/// An application that is being deleted or has been deleted.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeletedApplication")]
struct DeletedApplication {
    /// Namespace of the application.
    namespace: String,
    /// Name of the application.
    name: String,
}

async fn delete_application(call: Call<DeleteQuery>) -> Result<DeletedApplication, Problem> {
    let (service, _) = find_application(&call).await?;
    let DeleteQuery { cascade, no_hooks, reason } = &call.query;
    let options = DeletionOptions { cascade: *cascade, no_hooks: *no_hooks };
    service.delete(&application_name(&call), options, call.caller.requester(reason)).await?;
    Ok(DeletedApplication {
        namespace: call.path_parameter("namespace").to_owned(),
        name: call.path_parameter("name").to_owned(),
    })
}
