//! Approval policy: decides which syncs need an approved plan before they write anything, and who may approve
//! it.
//!
//! The annotations are set on an Application, or on its AppProject for all of the project's Applications. An
//! invalid value requires an approval, to be on the safe side.

use std::collections::BTreeSet;

use tidegate_model::argo::{AppProject, Application, ConditionType, OperationRequest, SyncStatusCode};
use tidegate_model::{OperationPhase, PlanApproval, Timestamp};

use crate::controller_info::SUPERSEDES_INFO;
pub use crate::controller_info::{DRIFT_INFO, PLAN_INFO};
use crate::operation::{self, AUTOMATED_REQUESTER, EngineProgress};
use crate::{automated_sync, rollout_operation};

/// Requires an approval for each sync. The only valid value is `required`.
pub const APPROVAL_ANNOTATION: &str = "tidegate.dev/approval";
/// Lists the allowed approvers: comma-separated names, which may include [`OTHERS_APPROVER`].
pub const APPROVERS_ANNOTATION: &str = "tidegate.dev/approvers";
/// Special approver name: anyone but the requester of the sync.
pub const OTHERS_APPROVER: &str = "others";
/// Tidegate-specific condition type: a plan is waiting for approval.
pub const APPROVAL_CONDITION: &str = "ApprovalRequired";
/// Tidegate-specific condition type: an approval annotation is invalid.
pub const APPROVAL_WARNING_CONDITION: &str = "ApprovalWarning";
/// The only valid value of [`APPROVAL_ANNOTATION`].
const REQUIRED: &str = "required";

/// Approval rule of an Application or its project.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ApprovalRule {
    /// Location of the rule, for messages.
    origin: String,
    /// Names of the allowed approvers. If empty, any user may approve.
    approvers: BTreeSet<String>,
    /// True if the requesters of a sync must not approve it themselves.
    excludes_requesters: bool,
    /// True if the rule is invalid, so that no approval can satisfy it.
    is_invalid: bool,
}

/// Approval policy for an Application's syncs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalPolicy {
    is_required: bool,
    rules: Vec<ApprovalRule>,
    problems: Vec<String>,
}

/// Description of an approval that no one can give.
const IMPOSSIBLE_APPROVAL: &str = "an approval that no one can give";

/// Author of a plan, or requester of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanAuthor<'a> {
    /// The Application's sync policy or a progressive sync, rather than a user.
    Automated,
    /// Unknown author or requester.
    Unknown,
    /// User with this name.
    Person(&'a str),
}

impl<'a> PlanAuthor<'a> {
    /// Converts the name that [`plan_author`] stored with a plan.
    pub fn from_name(name: &'a str) -> Self {
        match name {
            AUTOMATED_REQUESTER => Self::Automated,
            "" => Self::Unknown,
            name => Self::Person(name),
        }
    }
}

/// The author of a plan and, once its execution has been requested, the requester of the execution. They are
/// usually the same user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanRequesters<'a> {
    author: PlanAuthor<'a>,
    /// The requester of the execution, or `None` if it hasn't been requested yet.
    requester: Option<PlanAuthor<'a>>,
}

impl<'a> From<PlanAuthor<'a>> for PlanRequesters<'a> {
    fn from(author: PlanAuthor<'a>) -> Self {
        Self { author, requester: None }
    }
}

impl<'a> PlanRequesters<'a> {
    /// Combines the stored author of a plan with the requester of the operation that executes it.
    pub fn for_execution(author: &'a str, asked: &'a OperationRequest) -> Self {
        Self {
            author: PlanAuthor::from_name(author),
            requester: Some(PlanAuthor::from_name(plan_author(asked))),
        }
    }

    /// Returns the requesters of a plan before it is executed. If the plan was created for a sync, its author
    /// also requested the sync.
    pub fn for_stored_plan(author: &'a str, is_for_sync: bool) -> Self {
        let author = PlanAuthor::from_name(author);
        Self { author, requester: is_for_sync.then_some(author) }
    }

    /// Returns true if a user is certainly neither the plan's author nor the requester of its execution;
    /// false if either is unknown.
    fn is_other_than(self, by: &str) -> bool {
        [Some(self.author), self.requester].into_iter().flatten().all(|one| match one {
            PlanAuthor::Automated => true,
            PlanAuthor::Unknown => false,
            PlanAuthor::Person(name) => name != by,
        })
    }

    /// Describes the requesters that a rule may bar from approving the plan, as a suffix such as
    /// ` other than ann, who created the plan`.
    fn describe_excluded(self) -> String {
        let Self { author, requester: asker } = self;
        match (author, asker) {
            (PlanAuthor::Unknown, None) => {
                " other than the author of the plan, but the plan does not record its author: create another plan with `tidegate app plan`".to_owned()
            }
            (PlanAuthor::Unknown, _) | (_, Some(PlanAuthor::Unknown)) => {
                " other than the requester of the sync, but the request does not record its requester: \
                 terminate the sync, and sync again with `tidegate app sync`".to_owned()
            }
            (PlanAuthor::Person(author), Some(PlanAuthor::Person(asker))) if author != asker => {
                format!(" other than {author}, who created the plan, and {asker}, who requested the sync")
            }
            (_, Some(PlanAuthor::Person(name))) => format!(" other than {name}, who requested the sync"),
            (PlanAuthor::Person(name), _) => format!(" other than {name}, who created the plan"),
            (PlanAuthor::Automated, None | Some(PlanAuthor::Automated)) => String::new(),
        }
    }
}

/// Returns an operation's requester in the form stored with its plan. Empty for a user whose name is reserved
/// for automated requests.
pub fn plan_author(asked: &OperationRequest) -> &str {
    match asked.initiated_by.username.as_str() {
        _ if asked.initiated_by.automated => AUTOMATED_REQUESTER,
        AUTOMATED_REQUESTER => "",
        name => name,
    }
}

/// Reason why an approval doesn't count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalRefusal {
    /// The name of the approver is unknown.
    #[error(
        "an approval needs the name of the approver: use a token, or run the command on the service's machine"
    )]
    UnknownApprover,
    /// The same user has already approved the plan.
    #[error("{by} has already approved the plan; it still needs {still}")]
    AlreadyApproved {
        /// Name of the approver.
        by: String,
        /// Description of the missing approvals.
        still: String,
    },
    /// The user is not an allowed approver.
    #[error("{by} may not approve the plan: it needs {who}")]
    NotAnApprover {
        /// Name of the user.
        by: String,
        /// Description of the missing approvals.
        who: String,
    },
}

impl ApprovalRule {
    fn from_annotation(said: Option<&str>, of: String) -> Option<(Self, Option<String>)> {
        let text = said?;
        let mut names: BTreeSet<String> =
            text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let others = names.remove(OTHERS_APPROVER);
        let is_wrong = names.is_empty() && !others;
        let problem = is_wrong.then(|| {
            format!(
                "the {APPROVERS_ANNOTATION} annotation of {of} does not contain any names, so no one can \
                 approve the plan; list names separated by commas, use `{OTHERS_APPROVER}`, or remove the \
                 annotation"
            )
        });
        Some((
            Self { origin: of, approvers: names, excludes_requesters: others, is_invalid: is_wrong },
            problem,
        ))
    }

    fn allows_approver(&self, askers: PlanRequesters<'_>, by: &str) -> bool {
        let is_named = self.approvers.is_empty() || self.approvers.contains(by);
        !self.is_invalid && is_named && (!self.excludes_requesters || askers.is_other_than(by))
    }

    /// Describes the approval that the rule requires.
    fn describe(&self, askers: PlanRequesters<'_>) -> String {
        let Self { origin: of, approvers: names, excludes_requesters: others, is_invalid: is_wrong } = self;
        if *is_wrong {
            return format!(
                "{IMPOSSIBLE_APPROVAL}: the {APPROVERS_ANNOTATION} annotation of {of} does not contain any \
                 names"
            );
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let who = match names.as_slice() {
            [] => "someone".to_owned(),
            [one] => (*one).to_owned(),
            [all @ .., last] => format!("{} or {last}", all.join(", ")),
        };
        let but = if *others { askers.describe_excluded() } else { String::new() };
        let is_for_nobody = !self.approvers.is_empty()
            && !self.approvers.iter().any(|name| self.allows_approver(askers, name));
        match is_for_nobody {
            true => format!("{IMPOSSIBLE_APPROVAL}: {of} requires an approval by {who}{but}"),
            false => format!("an approval by {who}{but} (required by {of})"),
        }
    }
}

impl ApprovalPolicy {
    /// Reads the policy from the annotations of an Application and its project.
    pub fn from_annotations(application: &Application, project: &AppProject) -> Self {
        let of_project = |name: &str| project.metadata.annotations.get(name).map(String::as_str);
        let of_application = |name: &str| application.annotation(name);
        let named = [
            format!("project {}", project.metadata.name),
            format!("application {}", application.metadata.name),
        ];
        let said = [
            (of_project(APPROVAL_ANNOTATION), of_project(APPROVERS_ANNOTATION)),
            (of_application(APPROVAL_ANNOTATION), of_application(APPROVERS_ANNOTATION)),
        ];
        let mut policy = Self::default();
        for ((approval, approvers), of) in said.into_iter().zip(named) {
            policy.is_required |= approval.is_some();
            policy.problems.extend(invalid_annotation(approval, &of));
            let Some((rule, problem)) = ApprovalRule::from_annotation(approvers, of) else { continue };
            policy.rules.push(rule);
            policy.problems.extend(problem);
        }
        if !policy.is_required {
            // Only the Application's annotation is reported: a project may restrict the approvers even if
            // only some of its Applications require approvals.
            policy.problems.clear();
            let idle = application.annotation(APPROVERS_ANNOTATION).map(|_| {
                format!(
                    "the {APPROVERS_ANNOTATION} annotation has no effect: neither the application nor its \
                     project requires approval ({APPROVAL_ANNOTATION}: {REQUIRED})"
                )
            });
            policy.problems.extend(idle);
            policy.rules.clear();
        }
        policy
    }

    /// Returns true if syncs need an approval before they write anything.
    pub fn is_required(&self) -> bool {
        self.is_required
    }

    /// Returns the problems in the annotations.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns true if all required approvals have been granted.
    pub fn is_met<'a>(&self, askers: impl Into<PlanRequesters<'a>>, approvals: &[PlanApproval]) -> bool {
        !self.is_required
            || (!approvals.is_empty() && self.unmet_rules(askers.into(), approvals).next().is_none())
    }

    /// Returns the rules that the approvals don't satisfy.
    fn unmet_rules<'p>(
        &'p self,
        askers: PlanRequesters<'p>,
        approvals: &'p [PlanApproval],
    ) -> impl Iterator<Item = &'p ApprovalRule> {
        self.rules
            .iter()
            .filter(move |rule| !approvals.iter().any(|one| rule.allows_approver(askers, &one.by)))
    }

    /// Describes the missing approvals. Returns `None` if there are none.
    pub fn describe_missing<'a>(
        &self,
        askers: impl Into<PlanRequesters<'a>>,
        approvals: &[PlanApproval],
    ) -> Option<String> {
        let askers = askers.into();
        if self.is_met(askers, approvals) {
            return None;
        }
        let open: Vec<String> =
            self.unmet_rules(askers, approvals).map(|rule| rule.describe(askers)).collect();
        Some(if open.is_empty() { "an approval".to_owned() } else { open.join(", and ") })
    }

    /// Checks that this user's approval would count.
    ///
    /// # Errors
    ///
    /// Fails if the user can't approve the plan. The error lists the approvals that are missing.
    pub fn check_approval<'a>(
        &self,
        askers: impl Into<PlanRequesters<'a>>,
        approvals: &[PlanApproval],
        by: &str,
    ) -> Result<(), ApprovalRefusal> {
        let askers = askers.into();
        if by.is_empty() {
            return Err(ApprovalRefusal::UnknownApprover);
        }
        let Some(who) = self.describe_missing(askers, approvals) else { return Ok(()) };
        let mut open = self.unmet_rules(askers, approvals).peekable();
        if open.peek().is_none() || open.any(|rule| rule.allows_approver(askers, by)) {
            return Ok(());
        }
        let by = by.to_owned();
        Err(match approvals.iter().any(|one| one.by == by) {
            true => ApprovalRefusal::AlreadyApproved { by, still: who },
            false => ApprovalRefusal::NotAnApprover { by, who },
        })
    }
}

fn invalid_annotation(approval: Option<&str>, of: &str) -> Option<String> {
    let said = approval.filter(|said| said.trim() != REQUIRED)?;
    Some(format!(
        "the {APPROVAL_ANNOTATION} annotation of {of} is {said:?}, but its only valid value is {REQUIRED}; \
         invalid values are treated as {REQUIRED}; remove the annotation if no approval is required"
    ))
}

/// Returns true if an operation writes an Application's objects. Dry runs and deletions of the Application
/// don't need an approval.
pub fn requires_plan(asked: &OperationRequest) -> bool {
    operation::deletion_cascade(asked).is_none() && !asked.is_dry_run()
}

/// Returns the hash of the stored plan that an operation executes.
pub fn requested_plan(asked: &OperationRequest) -> Option<&str> {
    asked.info_value(PLAN_INFO)
}

/// Returns true if an operation may execute its stored plan even though unrelated fields have changed.
pub fn allows_drift(asked: &OperationRequest) -> bool {
    asked.info_value(DRIFT_INFO).is_some()
}

/// Rejects an operation that requires approval but hasn't been approved, no matter who requested it.
pub fn refuse_unapproved(policy: &ApprovalPolicy, request: &OperationRequest) -> Result<(), String> {
    if policy.is_required() && requires_plan(request) && requested_plan(request).is_none() {
        return Err(UNAPPROVED_RESULT.to_owned());
    }
    Ok(())
}

/// Message of an operation that finished without writing anything, because it turned out to require approval.
pub const UNAPPROVED_RESULT: &str =
    "the operation's plan requires an approval and has not been approved; nothing was written";

/// Restricts an operation to a stored plan.
pub fn set_plan(asked: &mut OperationRequest, hash: &str, allow_drift: bool) {
    remove_plan(asked);
    asked.set_info(PLAN_INFO, hash);
    if allow_drift {
        asked.set_info(DRIFT_INFO, "true");
    }
}

/// Removes an operation's restriction to a stored plan.
pub fn remove_plan(asked: &mut OperationRequest) {
    asked.info.retain(|info| info.name != PLAN_INFO && info.name != DRIFT_INFO);
}

/// Plan that is waiting for an approval, for use in messages.
#[derive(Clone, Copy, Debug)]
pub struct WaitingPlan<'a> {
    /// Display name of the application.
    pub application: &'a str,
    /// Abbreviated hash of the plan.
    pub hash: &'a str,
    /// Summary of the plan, including its revision.
    pub summary: &'a str,
    /// Description of the missing approvals, from [`ApprovalPolicy::describe_missing`].
    pub missing_approvals: &'a str,
}

impl WaitingPlan<'_> {
    /// Returns the message of the `ApprovalRequired` condition.
    pub fn condition_message(&self) -> String {
        let Self { hash, summary: does, missing_approvals: who, .. } = self;
        format!("plan {hash} ({does}) is waiting for {who}: {}", self.next_command())
    }

    /// Returns the message of the waiting operation.
    pub fn waiting_message(&self) -> String {
        let Self { hash, summary: does, missing_approvals: who, .. } = self;
        format!("{who} for plan {hash} ({does}): {}", self.next_command())
    }

    /// Returns the command that the messages suggest.
    fn next_command(&self) -> String {
        let Self { application, hash, missing_approvals: who, .. } = self;
        match who.contains(IMPOSSIBLE_APPROVAL) {
            true => format!(
                "set other approvers in {APPROVERS_ANNOTATION}, or terminate the operation: tidegate app terminate {application}"
            ),
            false => format!("tidegate app approve {application} {hash}"),
        }
    }
}

/// Returns a request that repeats an operation without its plan, which was outdated when the operation
/// started. Returns `None` if the original requester must repeat the request, such as a progressive sync or a
/// user who selected the plan by its hash.
pub fn request_to_repeat(
    application: &Application,
    ended: &OperationRequest,
    is_required: bool,
) -> Option<OperationRequest> {
    let waited = requested_plan(ended).is_some() && allows_drift(ended) && requires_plan(ended);
    if !waited || rollout_operation::is_of_rollout(ended) || !(is_required || ended.initiated_by.automated) {
        return None;
    }
    let names = operation::revision_names(ended);
    let of = operation::operation_sources(application, ended).ok()?;
    let mut again = ended.clone();
    operation::remove_controller_infos(&mut again);
    if let Some(sync) = again.sync.as_mut().filter(|_| !names.is_empty()) {
        (sync.revision, sync.revisions) = of.revision_fields(&names);
    }
    Some(again)
}

/// Returns the message of the `ApprovalRequired` condition if a plan is waiting for approval.
pub fn approval_condition_message(application: &Application) -> Option<&str> {
    let mut conditions = application.status.conditions.iter();
    let waiting =
        conditions.find(|one| matches!(&one.kind, ConditionType::Other(kind) if kind == APPROVAL_CONDITION));
    waiting.map(|one| one.message.as_str())
}

/// Returns the hash of the plan that is waiting for an approval.
pub fn waiting_plan(application: &Application) -> Option<&str> {
    approval_condition_message(application)?;
    application.operation.as_ref().and_then(requested_plan)
}

/// Updates an automated operation that is waiting for approval to cover the current differences, or ends it
/// if there are none left.
pub fn update_waiting_operation(application: &mut Application, now: Timestamp) {
    let Some(asked) = application.operation.as_ref().filter(|asked| can_be_redecided(asked)) else { return };
    let compared = application.status.sync.as_ref().map(|sync| sync.status);
    if compared == Some(SyncStatusCode::Synced) && asked.info_value(SUPERSEDES_INFO).is_none() {
        let message = "nothing to do: all objects were in sync before the plan was approved";
        let over = EngineProgress::rejected(message.to_owned(), now);
        operation::apply_progress(application, EngineProgress { phase: OperationPhase::Succeeded, ..over });
        return;
    }
    let heals = asked.sync.as_ref().is_some_and(|sync| !sync.resources.is_empty());
    let differing = automated_sync::objects_to_heal(application);
    if heals
        && !differing.is_empty()
        && let Some(sync) = application.operation.as_mut().and_then(|asked| asked.sync.as_mut())
    {
        sync.resources = differing;
    }
}

/// Returns true if the operation is automated and hasn't started, so that a new decision may replace it.
/// Deletions and progressive syncs are excluded.
fn can_be_redecided(asked: &OperationRequest) -> bool {
    asked.initiated_by.automated
        && operation::engine_id(asked).is_none()
        && operation::deletion_cascade(asked).is_none()
        && !rollout_operation::is_of_rollout(asked)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests;
