//! Applications: shown, and steered.

use http::StatusCode;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidegate_application::credentials;
use tidegate_application::operation::{give_reason, resource};
use tidegate_executor::effects::ObjectDifference;
use tidegate_model::argo::{Application, ResourceStatus, SyncStatusCode};
use tidegate_model::{
    Cascade, HealthStatus, IfTaken, OperationId, OperationPhase, ResourceSelector, Warning, WaveNumbers,
};
use tidegate_service::applications::Serving;
use tidegate_service::applications::asking::{SyncWish, sync};
use tidegate_service::applications::listing::{Begins, LabelTerm, OrderBy, Wanted};
use tidegate_service::applications::store::AppKey;
use tidegate_service::documents::deletion::DeletionPlan;
use tidegate_service::documents::differences::{self, Differences};
use tidegate_service::documents::plan::{self, PlanDocument};
use tidegate_service::lines::{ApplicationLine, WindowLine};

use crate::pages::{self, Page};
use crate::problem::{Code, Problem};
use crate::question::Nothing;
use crate::route::{Answer, Call, Gives, Route, act, delete, json, look, look_otherwise};

/// The rows of the table that are about applications.
pub(super) fn routes() -> Vec<Route> {
    vec![
        look(("/api/v1/applications", "listApplications", "Applications, a line for each"), list),
        look(
            (
                WHOLE,
                "listApplicationResources",
                "Applications as the resources they are, without credentials",
            ),
            list_whole,
        ),
        look((ONE, "getApplication", "An application as the resource it is, without credentials"), get),
        look(
            (RESOURCES, "listResources", "The objects of an application, in the order of their waves"),
            resources,
        ),
        look((DIFF, "diffApplication", "What a sync would change; values of Secrets are masked"), diff),
        look_otherwise(
            (PLAN, "planApplication", "What a sync would do, wave by wave, hooks included"),
            Gives::Json(SchemaGenerator::subschema_for::<PlanDocument<'static>>),
            plan_next,
        ),
        look(
            (
                DELETION,
                "planDeletion",
                "What goes when an application is deleted, in its order, and what stays",
            ),
            plan_deletion,
        ),
        look((WINDOW, "getSyncWindow", "Whether sync windows let an application be synced now"), window),
        look(
            (OBJECTS, "diffObjects", "The same, with the objects as they are and as they would be"),
            diff_objects,
        ),
        delete((ONE, "deleteApplication", "Delete an application, and its objects in reverse waves"), remove),
        act((SYNC, "syncApplication", "Sync an application"), begin_sync),
        act((ROLLBACK, "rollbackApplication", "Go back to an earlier sync, without hooks"), rollback),
        act((TERMINATE, "terminateApplication", "End the operation that is under way"), terminate),
        act((REFRESH, "refreshApplication", "Look at the repository, and compare"), refresh),
    ]
}

const WHOLE: &str = "/api/v1/argoproj.io/applications";
const ONE: &str = "/api/v1/applications/{namespace}/{name}";
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

/// Which applications, and in which order.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct ListQuery {
    /// How many at once: 1 to 500, 100 if not said.
    limit: Option<u32>,
    /// The `next` of the page before.
    page: Option<String>,
    /// Leave out so many of the first, instead of `page`: for whoever looks at a part of a list, which may move meanwhile.
    offset: Option<u32>,
    /// What they are ordered by; by name if not said.
    sort: OrderBy,
    /// The other way round.
    reverse: bool,
    /// Only of this project; may come several times.
    project: Vec<String>,
    /// Only those that stand like this to their manifests; may come several times.
    sync: Vec<SyncStatusCode>,
    /// Only those that do like this; may come several times.
    health: Vec<HealthStatus>,
    /// Only those whose operation stands like this; may come several times.
    operation: Vec<OperationPhase>,
    /// Only those with this in NAMESPACE/NAME, in letters of either case.
    name: Option<String>,
    /// Only those with these labels: KEY, !KEY, KEY=VALUE or KEY!=VALUE; several with commas between them.
    label: Option<String>,
}

async fn list(call: Call<ListQuery>) -> Result<ApplicationPage<ApplicationLine>, Problem> {
    let sets = call.site.queries()?.sets_now().cloned();
    page(call, "applications", |one| ApplicationLine::with_sets(one, sets.as_ref())).await
}

async fn list_whole(call: Call<ListQuery>) -> Result<ApplicationPage<Application>, Problem> {
    page(call, "application-resources", credentials::shown).await
}

/// A page of the applications that are asked for, each shown in a way.
async fn page<T>(
    call: Call<ListQuery>,
    called: &str,
    show: impl Fn(&Application) -> T,
) -> Result<ApplicationPage<T>, Problem> {
    let ListQuery { limit, page, offset, sort, reverse, project, sync, health, operation, name, label } =
        call.query;
    let limit = pages::limit(limit)?;
    let labels = label
        .map(|text| LabelTerm::parse(&text))
        .transpose()
        .map_err(|error| Problem::bad(error.to_string()))?;
    let wanted = Wanted {
        projects: project,
        sync,
        health,
        operation,
        name: name.unwrap_or_default(),
        labels: labels.unwrap_or_default(),
    };
    let of = (called, sort, reverse);
    let begins = match (page, offset) {
        (Some(_), Some(_)) => return Err(Problem::bad("say one of the two: page, or offset")),
        (Some(word), None) => Begins::After(pages::place(&of, &word)?),
        (None, offset) => Begins::Behind(usize::try_from(offset.unwrap_or_default()).unwrap_or(usize::MAX)),
    };
    let serving = call.site.queries()?.serving().await?;
    let found = serving.page(&wanted, (sort, reverse), &begins, limit);
    let page = Page {
        items: found.applications.iter().map(|one| show(one)).collect(),
        next: found.next.map(|place| pages::word(&of, &place)),
        matching: u64::try_from(found.matching).unwrap_or(u64::MAX),
    };
    Ok(ApplicationPage { page, problems: serving.problems() })
}

/// Some applications.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ApplicationPage<T> {
    #[serde(flatten)]
    page: Page<T>,
    /// What cannot be read and belongs to no application.
    problems: Vec<String>,
}

/// The name of an application, as it is looked for.
pub(super) fn named<Q, B>(call: &Call<Q, B>) -> String {
    format!("{}/{}", call.name("namespace"), call.name("name"))
}

/// The application of the path, and who serves it.
pub(super) async fn one<Q, B>(call: &Call<Q, B>) -> Result<(Serving, Application), Problem> {
    let serving = call.site.queries()?.serving().await?;
    let name = named(call);
    let found = serving
        .shown(&name)
        .ok_or_else(|| Problem::new(Code::NotFound, format!("there is no application {name:?}")))?;
    Ok((serving, found))
}

async fn get(call: Call) -> Result<Application, Problem> {
    Ok(one(&call).await?.1)
}

/// Which objects.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct ResourcesQuery {
    /// How many at once: 1 to 500, 100 if not said.
    limit: Option<u32>,
    /// The `next` of the page before.
    page: Option<String>,
}

/// Wave, group, kind, namespace and name: what the objects of an application are ordered by.
type ResourcePlace = (i64, String, String, String, String);

fn resource_place(one: &ResourceStatus) -> ResourcePlace {
    (one.sync_wave, one.group.clone(), one.kind.clone(), one.namespace.clone(), one.name.clone())
}

/// An object of an application.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ResourceLine {
    /// As the status of the application has it.
    #[serde(flatten)]
    resource: ResourceStatus,
    /// The rule that its health follows from, in words; nothing where none judges it, so that nothing is waited for.
    health_rule: Option<String>,
}

async fn resources(call: Call<ResourcesQuery>) -> Result<Page<ResourceLine>, Problem> {
    let limit = pages::limit(call.query.limit)?;
    let of = ("resources", call.name("namespace"), call.name("name"));
    let after: Option<ResourcePlace> =
        call.query.page.as_deref().map(|word| pages::place(&of, word)).transpose()?;
    let (serving, application) = one(&call).await?;
    let key = AppKey::of(&application);
    let mut items = application.status.resources;
    let matching = u64::try_from(items.len()).unwrap_or(u64::MAX);
    items.sort_by_cached_key(resource_place);
    items.retain(|one| after.as_ref().is_none_or(|after| resource_place(one) > *after));
    let has_more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| has_more).map(|last| pages::word(&of, &resource_place(last)));
    let rules = serving.health_rules(&key, &items);
    let line = |(resource, health_rule)| ResourceLine { resource, health_rule };
    Ok(Page { items: items.into_iter().zip(rules).map(line).collect(), next, matching })
}

/// What is compared with.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct DiffQuery {
    /// Branch, tag or commit, instead of the application's.
    revision: Option<String>,
    /// The same of several sources, once for each, in their order; an empty one is that of its source. Instead of `revision`.
    revisions: Vec<String>,
}

impl DiffQuery {
    /// What is named, one for each source; nothing where its own are meant.
    fn named(self) -> Result<Vec<String>, Problem> {
        one_of(self.revision.as_ref(), &self.revisions)?;
        Ok(self.revision.into_iter().chain(self.revisions).collect())
    }
}

/// That one revision is named or several, and not both.
pub(super) fn one_of(revision: Option<&String>, revisions: &[String]) -> Result<(), Problem> {
    match revision {
        Some(_) if !revisions.is_empty() => Err(Problem::bad("say revision or revisions, and not both")),
        _ => Ok(()),
    }
}

async fn diff(call: Call<DiffQuery>) -> Result<Differences, Problem> {
    let (serving, _) = one(&call).await?;
    let (objects, findings) = serving.diff(&named(&call), call.query.named()?).await?;
    Ok(differences::document(&objects, &findings))
}

/// Differences, and the objects between which they are.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct WholeDifferences {
    /// In the order of a sync, as the command line reads them; values of Secrets are masked.
    objects: Vec<Value>,
    /// What was found beside.
    findings: Vec<Warning>,
}

async fn diff_objects(call: Call<DiffQuery>) -> Result<WholeDifferences, Problem> {
    let (serving, _) = one(&call).await?;
    let (objects, findings) = serving.diff(&named(&call), call.query.named()?).await?;
    WholeDifferences::of(&objects, findings)
}

impl WholeDifferences {
    pub(super) fn of(objects: &[ObjectDifference], findings: Vec<Warning>) -> Result<Self, Problem> {
        let unwritten =
            |error| Problem::new(Code::Internal, format!("the answer cannot be written: {error}"));
        let objects =
            objects.iter().map(serde_json::to_value).collect::<Result<_, _>>().map_err(unwritten)?;
        Ok(Self { objects, findings })
    }
}

async fn plan_next(call: Call<DiffQuery>) -> Answer {
    let (serving, _) = one(&call).await?;
    let plan = serving.plan(&named(&call), call.query.named()?).await?;
    json(StatusCode::OK, &plan::of(&plan, &WaveNumbers::default(), &[]))
}

/// How it would be deleted.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct DeletionQuery {
    /// What would become of its objects: `foreground`, the default, `background` or `orphan`.
    cascade: Cascade,
}

async fn plan_deletion(call: Call<DeletionQuery>) -> Result<DeletionPlan, Problem> {
    let (serving, _) = one(&call).await?;
    Ok(serving.plan_deletion(&named(&call), call.query.cascade).await?)
}

async fn window(call: Call) -> Result<WindowLine, Problem> {
    let (serving, _) = one(&call).await?;
    Ok(serving.window(&named(&call))?)
}

/// What is to be synced.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct SyncBody {
    /// Branch, tag or commit, instead of the application's.
    revision: Option<String>,
    /// The same of several sources, one for each, in their order; an empty one is that of its source. Instead of `revision`.
    revisions: Vec<String>,
    /// Delete objects that are no longer in the manifests.
    prune: bool,
    /// Write nothing; the cluster judges everything.
    dry_run: bool,
    /// Only these objects, without hooks; empty for all.
    resources: Vec<Named>,
    /// What happens while another operation of the application is under way.
    policy: Policy,
    /// For the record; may be empty.
    reason: String,
}

/// What becomes of a sync that is asked for while another operation is under way.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Policy {
    /// It is refused.
    #[default]
    Refuse,
    /// It begins when that one is over.
    Queue,
    /// That one is ended where it waits or has failed, once its running hooks have ended.
    Supersede,
}

impl From<Policy> for IfTaken {
    fn from(given: Policy) -> Self {
        match given {
            Policy::Refuse => Self::Refuse,
            Policy::Queue => Self::Queue,
            Policy::Supersede => Self::Supersede,
        }
    }
}

/// An object.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Named {
    /// API group, empty for the core API.
    #[serde(default)]
    group: String,
    /// Kind.
    kind: String,
    /// Namespace; empty for any.
    #[serde(default)]
    namespace: String,
    /// Name.
    name: String,
}

impl From<&Named> for ResourceSelector {
    fn from(one: &Named) -> Self {
        let Named { group, kind, namespace, name } = one;
        Self { group: group.clone(), kind: kind.clone(), namespace: namespace.clone(), name: name.clone() }
    }
}

async fn begin_sync(call: Call<Nothing, SyncBody>) -> Result<ApplicationLine, Problem> {
    let (serving, application) = one(&call).await?;
    let SyncBody { revision, revisions, prune, dry_run, resources, policy, reason } = &call.body;
    one_of(revision.as_ref(), revisions)?;
    let resource = |one: &Named| resource(&one.into());
    let wish = SyncWish {
        revision: revision.clone().unwrap_or_default(),
        revisions: revisions.clone(),
        prune: *prune,
        dry_run: *dry_run,
        resources: resources.iter().map(resource).collect(),
        policy: (*policy).into(),
    };
    let mut asked = sync(&application, wish);
    asked.initiated_by.username.clone_from(&call.by.name);
    give_reason(&mut asked, reason);
    serving.sync(&named(&call), asked).await?;
    Ok((&one(&call).await?.1).into())
}

/// Where to go back to.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct RollbackBody {
    /// Which sync, by its `id` in the history; the one before the last if not said.
    id: Option<i64>,
    /// Delete objects that were not there then.
    prune: bool,
    /// For the record; may be empty.
    reason: String,
}

async fn rollback(call: Call<Nothing, RollbackBody>) -> Result<ApplicationLine, Problem> {
    let (serving, _) = one(&call).await?;
    let RollbackBody { id, prune, reason } = &call.body;
    serving.rollback(&named(&call), *id, *prune, (call.by.name.clone(), reason.clone())).await?;
    Ok((&one(&call).await?.1).into())
}

/// Which operation, and why; both may be left out.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TerminateBody {
    /// The id of the one that is meant: nothing is ended where another one is at work by now. Whichever is at work, if not said.
    operation: Option<OperationId>,
    /// For the record; may be empty.
    reason: String,
}

async fn terminate(call: Call<Nothing, TerminateBody>) -> Result<ApplicationLine, Problem> {
    let (serving, _) = one(&call).await?;
    let (by, reason) = (call.by.name.clone(), call.body.reason.clone());
    serving.terminate(&named(&call), call.body.operation, (by, reason)).await?;
    Ok((&one(&call).await?.1).into())
}

/// How it is compared.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct RefreshBody {
    /// With manifests that are read anew.
    hard: bool,
}

async fn refresh(call: Call<Nothing, RefreshBody>) -> Result<ApplicationLine, Problem> {
    let (serving, application) = one(&call).await?;
    serving.refresh(&named(&call), call.body.hard).await?;
    Ok((&application).into())
}

/// What becomes of the objects.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct DeleteQuery {
    /// They go after what they own (`foreground`, if not said), before what they own (`background`), or stay (`orphan`).
    cascade: Cascade,
    /// Why; may be empty. It is recorded, with who asks.
    reason: String,
}

/// What is being deleted, or gone.
#[derive(Debug, Serialize, JsonSchema)]
struct Deleted {
    /// Its namespace.
    namespace: String,
    /// Its name.
    name: String,
}

async fn remove(call: Call<DeleteQuery>) -> Result<Deleted, Problem> {
    let (serving, _) = one(&call).await?;
    let DeleteQuery { cascade, reason } = &call.query;
    serving.delete(&named(&call), *cascade, call.by.name.clone(), reason.clone()).await?;
    Ok(Deleted { namespace: call.name("namespace").to_owned(), name: call.name("name").to_owned() })
}
