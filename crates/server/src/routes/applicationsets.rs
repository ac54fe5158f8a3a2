//! ApplicationSets: shown, and steered.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate_model::argo::ApplicationSet;
use tidegate_model::{HealthStatus, StreamId, reason_line};
use tidegate_service::sets::{
    PolicyOptions, RolloutPreview, SetDeletion, SetExplanation, SetLine, SetServing, SetWish, shown,
};

use crate::pages::{self, Page};
use crate::problem::{Code, Problem};
use crate::question::Nothing;
use crate::route::{Call, Route, act, delete, look};

/// The rows of the table that are about ApplicationSets.
pub(super) fn routes() -> Vec<Route> {
    vec![
        look(
            (ALL, "listApplicationSets", "ApplicationSets as the resources they are, without credentials"),
            list,
        ),
        look((LINES, "listApplicationSetLines", "ApplicationSets, a line for each"), list_lines),
        look((ONE, "getApplicationSet", "An ApplicationSet as the resource it is, without credentials"), get),
        look(
            (EXPLAIN, "explainApplicationSet", "Where an ApplicationSet stands, step by step, and why"),
            explain,
        ),
        look(
            (PLAN, "planRollout", "What its progressive sync would do, step by step, were it begun now"),
            plan_rollout,
        ),
        look(
            (
                DELETION,
                "planApplicationSetDeletion",
                "In which order its Applications would be deleted with it, and what would stay",
            ),
            deletion,
        ),
        delete(
            (ONE, "deleteApplicationSet", "Delete an ApplicationSet, and its Applications in order"),
            remove,
        ),
        act(
            (
                APPROVE,
                "approveStep",
                "Let a step begin that waits for approval, or deletions be done that are held",
            ),
            approve,
        ),
        act((SKIP, "skipMembers", "Go on without an Application, or all of a step that are not done"), skip),
        act((RETRY, "retryMembers", "Bring Applications to their target once more"), retry),
        act((PAUSE, "pauseApplicationSet", "Begin nothing more; what is at work goes on"), |call| {
            simply(call, SetWish::Pause)
        }),
        act((RESUME, "resumeApplicationSet", "Let it go on"), |call| simply(call, SetWish::Resume)),
        act(
            (TERMINATE, "terminateRollout", "Stop what is at work, and end the rollout or deletion"),
            |call| simply(call, SetWish::Terminate),
        ),
        act((REFRESH, "refreshApplicationSet", "Ask its generators now"), refresh),
    ]
}

const ALL: &str = "/api/v1/argoproj.io/applicationsets";
const LINES: &str = "/api/v1/applicationsets";
const ONE: &str = "/api/v1/applicationsets/{namespace}/{name}";
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

/// Which page.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct ListQuery {
    /// How many at once: 1 to 500, 100 if not said.
    limit: Option<u32>,
    /// The `next` of the page before.
    page: Option<String>,
}

/// Some ApplicationSets.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct SetPage {
    #[serde(flatten)]
    page: Page<ApplicationSet>,
    /// What cannot be read and belongs to no ApplicationSet.
    problems: Vec<String>,
    /// What is decided for all of them.
    options: PolicyOptions,
}

/// What they are ordered by: namespace and name.
type Place = (String, String);

fn place(set: &ApplicationSet) -> Place {
    (set.metadata.home().to_owned(), set.metadata.name.clone())
}

async fn list(call: Call<ListQuery>) -> Result<SetPage, Problem> {
    const OF: &str = "applicationsets";
    let limit = pages::limit(call.query.limit)?;
    let after: Option<Place> = call.query.page.map(|word| pages::place(&OF, &word)).transpose()?;
    let serving = call.site.queries()?.sets().await?;
    let found = serving.find(None);
    let matching = u64::try_from(found.sets.len()).unwrap_or(u64::MAX);
    let mut rest = found.sets.iter().filter(|one| after.as_ref().is_none_or(|after| place(one) > *after));
    let items: Vec<ApplicationSet> = rest.by_ref().take(limit).map(|one| shown(one)).collect();
    let next = rest.next().and(items.last()).map(|last| pages::word(&OF, &place(last)));
    let options = serving.options().clone();
    Ok(SetPage { page: Page { items, next, matching }, problems: found.problems, options })
}

/// Which ApplicationSets, and in which order.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct LinesQuery {
    /// How many at once: 1 to 500, 100 if not said.
    limit: Option<u32>,
    /// The `next` of the page before.
    page: Option<String>,
    /// Leave out so many of the first, instead of `page`: for whoever looks at a part of a list, which may move meanwhile.
    offset: Option<u32>,
    /// What they are ordered by; by name if not said.
    sort: SetOrder,
    /// The other way round.
    reverse: bool,
    /// Only those that do like this; may come several times.
    health: Vec<HealthStatus>,
    /// Only those with this in NAMESPACE/NAME, in letters of either case.
    name: Option<String>,
    /// Only those whose progressive sync is under way, or only those where none is.
    progressing: Option<bool>,
}

/// What ApplicationSets are ordered by; those that are the same in it, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum SetOrder {
    /// Namespace and name.
    #[default]
    Name,
    /// The worst first.
    Health,
    /// Those that have the most Applications first.
    Applications,
}

/// A line of each ApplicationSet that is wanted.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct LinePage {
    #[serde(flatten)]
    page: Page<SetLine>,
    /// What cannot be read and belongs to no ApplicationSet.
    problems: Vec<String>,
}

/// What a line is ordered by: the order that is asked for, and then its name.
type LinePlace = (u64, String, String);

fn line_place(sort: SetOrder, line: &SetLine) -> LinePlace {
    let value = match sort {
        SetOrder::Name => 0,
        SetOrder::Health => match line.health {
            HealthStatus::Degraded => 0,
            HealthStatus::Missing => 1,
            HealthStatus::Unknown => 2,
            HealthStatus::Progressing => 3,
            HealthStatus::Suspended => 4,
            HealthStatus::Healthy => 5,
        },
        SetOrder::Applications => u64::MAX.saturating_sub(line.applications),
    };
    (value, line.namespace.clone(), line.name.clone())
}

async fn list_lines(call: Call<LinesQuery>) -> Result<LinePage, Problem> {
    let LinesQuery { limit, page, offset, sort, reverse, health, name, progressing } = call.query;
    let limit = pages::limit(limit)?;
    let of = ("applicationset-lines", sort, reverse);
    let after: Option<LinePlace> = page.as_ref().map(|word| pages::place(&of, word)).transpose()?;
    if after.is_some() && offset.is_some() {
        return Err(Problem::bad("say one of the two: page, or offset"));
    }
    let serving = call.site.queries()?.sets().await?;
    let found = serving.find(None);
    let part = name.unwrap_or_default().to_lowercase();
    let is_wanted = |line: &SetLine| {
        let goes_on = line.rollout.as_ref().is_some_and(|rollout| rollout.progressing);
        (health.is_empty() || health.contains(&line.health))
            && format!("{}/{}", line.namespace, line.name).to_lowercase().contains(&part)
            && progressing.is_none_or(|wanted| wanted == goes_on)
    };
    let lines = found.sets.iter().map(|set| serving.line(set)).filter(is_wanted);
    let mut lines: Vec<(LinePlace, SetLine)> = lines.map(|line| (line_place(sort, &line), line)).collect();
    let matching = u64::try_from(lines.len()).unwrap_or(u64::MAX);
    lines.sort_by(|(one, _), (other, _)| if reverse { other.cmp(one) } else { one.cmp(other) });
    let is_behind =
        |place: &LinePlace, after: &LinePlace| if reverse { place < after } else { place > after };
    lines.retain(|(place, _)| after.as_ref().is_none_or(|after| is_behind(place, after)));
    let skip = usize::try_from(offset.unwrap_or_default()).unwrap_or(usize::MAX);
    let mut rest = lines.into_iter().skip(skip);
    let items: Vec<(LinePlace, SetLine)> = rest.by_ref().take(limit).collect();
    let next = rest.next().and(items.last()).map(|(place, _)| pages::word(&of, place));
    let items = items.into_iter().map(|(_, line)| line).collect();
    Ok(LinePage { page: Page { items, next, matching }, problems: found.problems })
}

/// The ApplicationSet of the path, its name as it is looked for, and who serves it.
async fn one<Q, B>(call: &Call<Q, B>) -> Result<(SetServing, String, Arc<ApplicationSet>), Problem> {
    let serving = call.site.queries()?.sets().await?.clone();
    let name = format!("{}/{}", call.name("namespace"), call.name("name"));
    let found = serving.find(Some(&name)).sets.into_iter().next();
    let found =
        found.ok_or_else(|| Problem::new(Code::NotFound, format!("there is no ApplicationSet {name:?}")))?;
    Ok((serving, name, found))
}

async fn get(call: Call) -> Result<ApplicationSet, Problem> {
    Ok(shown(one(&call).await?.2.as_ref()))
}

async fn explain(call: Call) -> Result<SetExplanation, Problem> {
    let (serving, name, _) = one(&call).await?;
    Ok(serving.explain(&name).await?)
}

async fn plan_rollout(call: Call) -> Result<RolloutPreview, Problem> {
    let (serving, name, _) = one(&call).await?;
    Ok(serving.plan_rollout(&name).await?)
}

async fn deletion(call: Call) -> Result<SetDeletion, Problem> {
    let (serving, name, _) = one(&call).await?;
    Ok(serving.plan(&name).await?)
}

/// Why somebody wants something.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ReasonBody {
    /// The id of the rollout or deletion that is meant: nothing is done where another one is at work by now. Whichever is at
    /// work, if not said.
    run: Option<StreamId>,
    /// For the record; may be empty.
    reason: String,
}

/// Which step may begin, or which deletions may be done.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ApproveBody {
    /// Its number, from 1; the one that waits for it if not said.
    step: Option<u32>,
    /// Instead of a step: the Applications whose deletion is held, by the word that stands for them in the message of the
    /// condition `ErrorOccurred`.
    deletions: Option<String>,
    /// Of a step: the id of the rollout that is meant, as when it is paused.
    run: Option<StreamId>,
    /// For the record; may be empty.
    reason: String,
}

/// Which Applications are meant: those of a step, or one; a retry without either begins what has ended again.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct MembersBody {
    /// All of this step, from 1.
    step: Option<u32>,
    /// This one.
    application: Option<String>,
    /// The id of the rollout or deletion that is meant, as when it is paused.
    run: Option<StreamId>,
    /// For the record; who goes on without Applications has to say it.
    reason: String,
}

impl MembersBody {
    /// Says whom they mean, by one of the two.
    fn checked(self, may_be_all: bool) -> Result<Self, Problem> {
        match (self.step, &self.application) {
            (Some(_), None) | (None, Some(_)) => Ok(self),
            (None, None) if may_be_all => Ok(self),
            _ => Err(Problem::bad("say one of the two: step, or application")),
        }
    }
}

async fn wish<B>(
    call: &Call<Nothing, B>,
    run: Option<StreamId>,
    wish: SetWish,
    why: String,
) -> Result<SetExplanation, Problem> {
    let (serving, name, _) = one(call).await?;
    serving.wish(&name, run, wish, (call.by.name.clone(), why)).await?;
    Ok(serving.explain(&name).await?)
}

async fn simply(call: Call<Nothing, ReasonBody>, asked: SetWish) -> Result<SetExplanation, Problem> {
    let ReasonBody { run, reason } = &call.body;
    wish(&call, *run, asked, reason.clone()).await
}

async fn approve(mut call: Call<Nothing, ApproveBody>) -> Result<SetExplanation, Problem> {
    let ApproveBody { step, deletions, run, reason } = std::mem::take(&mut call.body);
    let asked = match (step, deletions) {
        (Some(_), Some(_)) => return Err(Problem::bad("say one of the two: step, or deletions")),
        (None, Some(_)) if run.is_some() => {
            return Err(Problem::bad("run is about a rollout; deletions are those of that token"));
        }
        (None, Some(token)) => SetWish::ApproveDeletions { token },
        (step, None) => SetWish::Approve { step },
    };
    wish(&call, run, asked, reason).await
}

async fn skip(mut call: Call<Nothing, MembersBody>) -> Result<SetExplanation, Problem> {
    let MembersBody { step, application, run, reason } = std::mem::take(&mut call.body).checked(false)?;
    if reason_line(&reason).is_empty() {
        return Err(Problem::bad("reason is empty; say why it is gone on without them"));
    }
    wish(&call, run, SetWish::Skip { step, member: application }, reason).await
}

async fn retry(mut call: Call<Nothing, MembersBody>) -> Result<SetExplanation, Problem> {
    let MembersBody { step, application, run, reason } = std::mem::take(&mut call.body).checked(true)?;
    wish(&call, run, SetWish::Retry { step, member: application }, reason).await
}

/// Nothing more has to be said.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct EmptyBody {}

async fn refresh(call: Call<Nothing, EmptyBody>) -> Result<SetExplanation, Problem> {
    let (serving, name, _) = one(&call).await?;
    serving.refresh(&name).await?;
    Ok(serving.explain(&name).await?)
}

/// What becomes of the Applications.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
struct DeleteQuery {
    /// They outlive it.
    orphan: bool,
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
    let (serving, name, _) = one(&call).await?;
    let DeleteQuery { orphan, reason } = &call.query;
    serving.delete(&name, *orphan, call.by.name.clone(), reason.clone()).await?;
    Ok(Deleted { namespace: call.name("namespace").to_owned(), name: call.name("name").to_owned() })
}
