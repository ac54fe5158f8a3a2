//! Must somebody approve the plan of a sync before anything of it is written, and who may?
//!
//! The annotations are on an Application, or on its AppProject for all of its Applications. What cannot be understood is on
//! the safe side: it asks for an approval.

use std::collections::BTreeSet;

use tidegate_model::argo::{AppProject, Application, ConditionType, OperationRequest, SyncStatusCode};
use tidegate_model::{OperationPhase, PlanApproval, Timestamp};

use crate::operation::{self, AUTOMATED, Progress};
use crate::superseding::SUPERSEDES_REMARK;
use crate::{automation, running};

/// Asks for an approval of each sync: `required`.
pub const APPROVAL: &str = "tidegate.dev/approval";
/// Who may approve: names with commas between them, and [`OTHERS`].
pub const APPROVERS: &str = "tidegate.dev/approvers";
/// Among the approvers: whoever approves must not be who has asked for the sync.
pub const OTHERS: &str = "others";
/// The remark of an operation: the kept plan that it carries out, or that waits for an approval.
pub const PLAN_REMARK: &str = "tidegate.dev/plan";
/// The remark of an operation: unrelated fields may have changed since its plan was made.
pub const DRIFT_REMARK: &str = "tidegate.dev/plan-allows-drift";
/// A condition of our own: a plan waits for an approval.
pub const WAITING: &str = "ApprovalRequired";
/// A condition of our own: an annotation makes no sense.
pub const WRONG: &str = "ApprovalWarning";
/// The only word that asks for approvals.
const REQUIRED: &str = "required";

/// What is asked of approvals by an Application or by its project.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// Who says so, in words.
    of: String,
    /// One of these; anybody where there are none.
    names: BTreeSet<String>,
    /// Nobody who has asked for the sync.
    others: bool,
    /// It cannot be understood, so nobody meets it.
    is_wrong: bool,
}

/// Whether syncs of an Application need an approval, and whose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    is_required: bool,
    rules: Vec<Rule>,
    problems: Vec<String>,
}

/// How an approval is told that cannot be had.
const BY_NOBODY: &str = "an approval that nobody may give";

/// Who has asked for a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author<'a> {
    /// Nobody: it is the policy of the Application, or a progressive sync.
    Nobody,
    /// It does not say who.
    Unknown,
    /// This person.
    Person(&'a str),
}

impl<'a> Author<'a> {
    /// By what is kept of a plan: [`author_of`].
    pub fn named(name: &'a str) -> Self {
        match name {
            AUTOMATED => Self::Nobody,
            "" => Self::Unknown,
            name => Self::Person(name),
        }
    }
}

/// Who is behind a plan: who has made it, and who asks that it be carried out, where somebody does. Mostly that is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Askers<'a> {
    author: Author<'a>,
    /// Nobody has asked yet for what is only planned.
    asker: Option<Author<'a>>,
}

impl<'a> From<Author<'a>> for Askers<'a> {
    fn from(author: Author<'a>) -> Self {
        Self { author, asker: None }
    }
}

impl<'a> Askers<'a> {
    /// Who has asked for a plan, by what is kept of that, and who for the operation that carries it out.
    pub fn of(author: &'a str, asked: &'a OperationRequest) -> Self {
        Self { author: Author::named(author), asker: Some(Author::named(author_of(asked))) }
    }

    /// Who is behind a plan before it is carried out, by what is kept of it: one that was made for a sync was made by who has
    /// asked for that.
    pub fn of_kept(author: &'a str, is_for_sync: bool) -> Self {
        let author = Author::named(author);
        Self { author, asker: is_for_sync.then_some(author) }
    }

    /// Whether somebody is none of them; nobody is where one of them is not known.
    fn are_others(self, by: &str) -> bool {
        [Some(self.author), self.asker].into_iter().flatten().all(|one| match one {
            Author::Nobody => true,
            Author::Unknown => false,
            Author::Person(name) => name != by,
        })
    }

    /// Who may not approve where others have to.
    fn excluded(self) -> String {
        let Self { author, asker } = self;
        match (author, asker) {
            (Author::Unknown, None) => {
                " other than who has made the plan, which it does not say: make another by `tidegate app plan`".to_owned()
            }
            (Author::Unknown, _) | (_, Some(Author::Unknown)) => {
                " other than who has asked for the sync, which the request does not say: end it, and ask again by `tidegate app sync`".to_owned()
            }
            (Author::Person(author), Some(Author::Person(asker))) if author != asker => {
                format!(" other than {author}, who has made the plan, and {asker}, who asks for the sync")
            }
            (_, Some(Author::Person(name))) => format!(" other than {name}, who has asked for the sync"),
            (Author::Person(name), _) => format!(" other than {name}, who has made the plan"),
            (Author::Nobody, None | Some(Author::Nobody)) => String::new(),
        }
    }
}

/// Who has asked for an operation, as it is kept with its plan. Nobody's name is the words for nobody.
pub fn author_of(asked: &OperationRequest) -> &str {
    match asked.initiated_by.username.as_str() {
        _ if asked.initiated_by.automated => AUTOMATED,
        AUTOMATED => "",
        name => name,
    }
}

/// Why somebody's approval does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// Nobody knows who it is.
    #[error("whoever approves must have a name: ask with a token, or on the machine of the service")]
    Unnamed,
    /// It was approved by the same before.
    #[error("{by} has approved it already; it still needs {still}")]
    Again {
        /// Who.
        by: String,
        /// Who else has to.
        still: String,
    },
    /// It is for others.
    #[error("{by} may not approve it: it needs {who}")]
    NotYours {
        /// Who.
        by: String,
        /// Whose approval it needs.
        who: String,
    },
}

impl Rule {
    fn of(said: Option<&str>, of: String) -> Option<(Self, Option<String>)> {
        let text = said?;
        let mut names: BTreeSet<String> =
            text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let others = names.remove(OTHERS);
        let is_wrong = names.is_empty() && !others;
        let problem = is_wrong.then(|| {
            format!(
                "the annotation {APPROVERS} of {of} names nobody, so nobody may approve; write names with commas between them, `{OTHERS}`, or take it away"
            )
        });
        Some((Self { of, names, others, is_wrong }, problem))
    }

    fn allows(&self, askers: Askers<'_>, by: &str) -> bool {
        let is_named = self.names.is_empty() || self.names.contains(by);
        !self.is_wrong && is_named && (!self.others || askers.are_others(by))
    }

    /// Whose approval is asked for.
    fn words(&self, askers: Askers<'_>) -> String {
        let Self { of, names, others, is_wrong } = self;
        if *is_wrong {
            return format!("{BY_NOBODY}: {APPROVERS} of {of} names nobody");
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let who = match names.as_slice() {
            [] => "somebody".to_owned(),
            [one] => (*one).to_owned(),
            [all @ .., last] => format!("{} or {last}", all.join(", ")),
        };
        let but = if *others { askers.excluded() } else { String::new() };
        let is_for_nobody =
            !self.names.is_empty() && !self.names.iter().any(|name| self.allows(askers, name));
        match is_for_nobody {
            true => format!("{BY_NOBODY}: it is to be one by {who}{but} (says {of})"),
            false => format!("an approval by {who}{but} (says {of})"),
        }
    }
}

impl Policy {
    /// What the annotations of an Application and of its project say.
    pub fn of(application: &Application, project: &AppProject) -> Self {
        let of_project = |name: &str| project.metadata.annotations.get(name).map(String::as_str);
        let of_application = |name: &str| application.annotation(name);
        let named = [
            format!("project {}", project.metadata.name),
            format!("application {}", application.metadata.name),
        ];
        let said = [
            (of_project(APPROVAL), of_project(APPROVERS)),
            (of_application(APPROVAL), of_application(APPROVERS)),
        ];
        let mut policy = Self::default();
        for ((approval, approvers), of) in said.into_iter().zip(named) {
            policy.is_required |= approval.is_some();
            policy.problems.extend(wrong(approval, &of));
            let Some((rule, problem)) = Rule::of(approvers, of) else { continue };
            policy.rules.push(rule);
            policy.problems.extend(problem);
        }
        if !policy.is_required {
            // A project may say who approves where its Applications ask for it.
            policy.problems.clear();
            let idle = application.annotation(APPROVERS).map(|_| {
                format!("the annotation {APPROVERS} has no effect: no approval is asked for, by {APPROVAL}: {REQUIRED} on it or on its project")
            });
            policy.problems.extend(idle);
            policy.rules.clear();
        }
        policy
    }

    /// Whether nothing is written without an approval.
    pub fn is_required(&self) -> bool {
        self.is_required
    }

    /// What of the annotations makes no sense.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Whether all is approved that has to be.
    pub fn is_met<'a>(&self, askers: impl Into<Askers<'a>>, approvals: &[PlanApproval]) -> bool {
        !self.is_required || (!approvals.is_empty() && self.open(askers.into(), approvals).next().is_none())
    }

    /// The rules that no approval meets.
    fn open<'p>(
        &'p self,
        askers: Askers<'p>,
        approvals: &'p [PlanApproval],
    ) -> impl Iterator<Item = &'p Rule> {
        self.rules.iter().filter(move |rule| !approvals.iter().any(|one| rule.allows(askers, &one.by)))
    }

    /// Whose approvals are missing, in words; nothing where none is.
    pub fn missing<'a>(&self, askers: impl Into<Askers<'a>>, approvals: &[PlanApproval]) -> Option<String> {
        let askers = askers.into();
        if self.is_met(askers, approvals) {
            return None;
        }
        let open: Vec<String> = self.open(askers, approvals).map(|rule| rule.words(askers)).collect();
        Some(if open.is_empty() { "an approval by somebody".to_owned() } else { open.join(", and ") })
    }

    /// Whether an approval by somebody brings the beginning nearer.
    ///
    /// # Errors
    ///
    /// It is for others to approve; who they are.
    pub fn check<'a>(
        &self,
        askers: impl Into<Askers<'a>>,
        approvals: &[PlanApproval],
        by: &str,
    ) -> Result<(), NotAllowed> {
        let askers = askers.into();
        if by.is_empty() {
            return Err(NotAllowed::Unnamed);
        }
        let Some(who) = self.missing(askers, approvals) else { return Ok(()) };
        let mut open = self.open(askers, approvals).peekable();
        if open.peek().is_none() || open.any(|rule| rule.allows(askers, by)) {
            return Ok(());
        }
        let by = by.to_owned();
        Err(match approvals.iter().any(|one| one.by == by) {
            true => NotAllowed::Again { by, still: who },
            false => NotAllowed::NotYours { by, who },
        })
    }
}

fn wrong(approval: Option<&str>, of: &str) -> Option<String> {
    let said = approval.filter(|said| said.trim() != REQUIRED)?;
    Some(format!(
        "the annotation {APPROVAL} of {of} says {said:?}, and {REQUIRED} is the only word it knows; it counts as {REQUIRED}, take it away if no approval is wanted"
    ))
}

/// Whether an operation writes objects of an Application: what only asks, and what deletes the Application, needs no approval.
pub fn is_about(asked: &OperationRequest) -> bool {
    operation::cascade(asked).is_none() && !asked.is_dry_run()
}

/// The kept plan of an operation, by its hash.
pub fn plan_of(asked: &OperationRequest) -> Option<&str> {
    asked.remark(PLAN_REMARK)
}

/// Whether the kept plan of an operation may be carried out where unrelated fields have changed.
pub fn allows_drift(asked: &OperationRequest) -> bool {
    asked.remark(DRIFT_REMARK).is_some()
}

/// Has an operation carry out a kept plan.
pub fn set_plan(asked: &mut OperationRequest, hash: &str, allow_drift: bool) {
    forget_plan(asked);
    asked.set_remark(PLAN_REMARK, hash);
    if allow_drift {
        asked.set_remark(DRIFT_REMARK, "true");
    }
}

/// The plan of an operation is not one any more.
pub fn forget_plan(asked: &mut OperationRequest) {
    asked.info.retain(|info| info.name != PLAN_REMARK && info.name != DRIFT_REMARK);
}

/// A plan that waits, in words.
#[derive(Clone, Copy, Debug)]
pub struct Told<'a> {
    /// The application, as people name it.
    pub application: &'a str,
    /// The plan, by enough of its hash.
    pub hash: &'a str,
    /// What it does, and with which revision.
    pub does: &'a str,
    /// Whose approval it needs: [`Policy::missing`].
    pub who: &'a str,
}

impl Told<'_> {
    /// As a condition says it.
    pub fn condition(&self) -> String {
        let Self { hash, does, who, .. } = self;
        format!("plan {hash} ({does}) waits for {who}: {}", self.next())
    }

    /// As what an operation waits for.
    pub fn awaited(&self) -> String {
        let Self { hash, does, who, .. } = self;
        format!("{who} of plan {hash} ({does}): {}", self.next())
    }

    /// What to do.
    fn next(&self) -> String {
        let Self { application, hash, who, .. } = self;
        match who.contains(BY_NOBODY) {
            true => format!("name others in {APPROVERS}, or end it: tidegate app terminate {application}"),
            false => format!("tidegate app approve {application} {hash}"),
        }
    }
}

/// What an operation asks for whose plan did not fit any more when it was begun: the same once more, without the plan. Nothing
/// for one that has an author of its own to ask again: who has chosen the plan by its hash, and the progressive sync of a set.
pub fn anew(
    application: &Application,
    ended: &OperationRequest,
    is_required: bool,
) -> Option<OperationRequest> {
    let waited = plan_of(ended).is_some() && allows_drift(ended) && is_about(ended);
    if !waited || running::is_of_rollout(ended) || !(is_required || ended.initiated_by.automated) {
        return None;
    }
    let names = operation::names(ended);
    let of = operation::sources(application, ended).ok()?;
    let mut again = ended.clone();
    operation::disown(&mut again);
    if let Some(sync) = again.sync.as_mut().filter(|_| !names.is_empty()) {
        (sync.revision, sync.revisions) = of.revisions(&names);
    }
    Some(again)
}

/// What waits for an approval, in words, as the conditions have it.
pub fn waiting(application: &Application) -> Option<&str> {
    let mut conditions = application.status.conditions.iter();
    let waiting = conditions.find(|one| matches!(&one.kind, ConditionType::Other(kind) if kind == WAITING));
    waiting.map(|one| one.message.as_str())
}

/// The plan that waits for an approval, by its hash.
pub fn waiting_plan(application: &Application) -> Option<&str> {
    waiting(application)?;
    application.operation.as_ref().and_then(plan_of)
}

/// An operation that nobody asked for and that waits for an approval is about what differs now. Where nothing does any more, it
/// is over.
pub fn renew(application: &mut Application, now: Timestamp) {
    let Some(asked) = application.operation.as_ref().filter(|asked| is_ours(asked)) else { return };
    let compared = application.status.sync.as_ref().map(|sync| sync.status);
    if compared == Some(SyncStatusCode::Synced) && asked.remark(SUPERSEDES_REMARK).is_none() {
        let message = "nothing is left to do: all is as it should be, before anybody has approved its plan";
        let over = Progress::refused(message.to_owned(), now);
        operation::take_in(application, Progress { phase: OperationPhase::Succeeded, ..over });
        return;
    }
    let heals = asked.sync.as_ref().is_some_and(|sync| !sync.resources.is_empty());
    let differing = automation::to_heal(application);
    if heals
        && !differing.is_empty()
        && let Some(sync) = application.operation.as_mut().and_then(|asked| asked.sync.as_mut())
    {
        sync.resources = differing;
    }
}

/// Whether it was decided on without anybody, may be decided on anew, and has not begun.
fn is_ours(asked: &OperationRequest) -> bool {
    asked.initiated_by.automated
        && operation::id(asked).is_none()
        && operation::cascade(asked).is_none()
        && !running::is_of_rollout(asked)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests;
