//! Creates, shows, approves and executes the stored plans of Applications.

use std::sync::Arc;

use tidegate_application::AppKey;
use tidegate_application::approval::{PlanRequesters, requested_plan, waiting_plan};
use tidegate_application::machine::{Input, PlanReference};
use tidegate_application::operation;
use tidegate_executor::effects::{Mask, ObjectDifference};
use tidegate_executor::{Clock as _, StoredPlan, SystemClock};
use tidegate_model::argo::{Application, OperationRequest, SyncOperation};
use tidegate_model::{Plan, PlanApproval, Requester, Warning, normalize_reason};
use tidegate_state::error::ServiceError;
use tidegate_state::stored_plans::{StoredPlanMetadata, is_hash};
use tidegate_state::summaries::{PlanState, PlanSummary};
use tokio::sync::broadcast;

use super::ApplicationService;
use crate::messages::{AppMessage, SupervisorMessage};
use crate::plan_approval::{self, with_plans};

impl ApplicationService {
    /// Returns the stored plans of one Application, or of all Applications, newest first. If `requester` is
    /// set, each plan includes whether that user may approve it.
    pub async fn plans(
        &self,
        text: Option<&str>,
        requester: Option<&str>,
    ) -> Result<Vec<PlanSummary>, ServiceError> {
        let only = text.map(|text| self.find_key(text)).transpose()?.map(|key| key.instance_name());
        let mut all = with_plans(&self.shared, |plans| plans.list()).await?;
        all.retain(|line| only.as_ref().is_none_or(|only| line.application == *only));
        Ok(all.iter().map(|line| self.plan_line_for(line, requester)).collect())
    }

    /// Subscribes to new plans and to decisions about plans. Returns `None` if this service can't store
    /// plans.
    pub fn plan_changes(&self) -> Option<broadcast::Receiver<StoredPlanMetadata>> {
        self.shared.plans.as_ref().map(|plans| plans.subscribe())
    }

    /// Returns the stored plan with this hash or hash prefix. If `text` is set, the plan must be for the
    /// matching Application. See [`Self::plans`] for `requester`.
    pub async fn stored_plan(
        &self,
        text: Option<&str>,
        hash: &str,
        requester: Option<&str>,
    ) -> Result<(PlanSummary, Plan), ServiceError> {
        let (line, plan) = self.find_plan(text, hash).await?;
        Ok((self.plan_line_for(&line, requester), masked_plan(plan)))
    }

    /// Returns the changes that a stored plan would make now, and what has changed since it was created. If
    /// `text` is set, the plan must be for the matching Application.
    pub async fn diff_plan(
        &self,
        text: Option<&str>,
        hash: &str,
    ) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
        let (line, plan) = self.find_plan(text, hash).await?;
        if let Some(operation) = line.operation {
            return Err(ServiceError::refused(format!(
                "plan {} was already executed by operation {operation}, so there is nothing left to compare; `tidegate ops show {operation}` \
                 shows its changes",
                line.hash.short()
            )));
        }
        let application = self.application_of_plan(&line)?;
        plan_approval::plan_differences(&self.shared, &application, plan).await
    }

    /// Creates and stores a plan for syncing an Application, without writing to the cluster.
    pub async fn make_plan(
        &self,
        text: &str,
        mut request: OperationRequest,
    ) -> Result<(PlanSummary, Plan), ServiceError> {
        let application = self.current_application(text).await?;
        operation::remove_controller_infos(&mut request);
        if request.is_dry_run() {
            return Err(ServiceError::refused(
                "a dry run writes nothing, so there is nothing to plan; omit --dry-run",
            ));
        }
        let line = plan_approval::make_plan(&self.shared, &application, request).await?;
        let (plan, line) = plan_approval::find_stored_plan(&self.shared, line.hash).await?;
        Ok((self.plan_line(&line), masked_plan(plan)))
    }

    /// Approves a plan. If `text` is set, the plan must be for the matching Application. Returns once the
    /// approval is durable. An operation that is waiting for it then starts.
    pub async fn approve_plan(
        &self,
        text: Option<&str>,
        hash: &str,
        requester: Requester<'_>,
    ) -> Result<PlanSummary, ServiceError> {
        let (line, plan) = self.find_plan(text, hash).await?;
        let application = self.application_of_plan(&line)?;
        let key = AppKey::of(&application);
        self.check_approval(&application, &line, requester.name).await?;
        if let Err(moved) = plan_approval::check_plan(&self.shared, &application, plan, true).await {
            // Make the actor check the plan immediately instead of at its next regular check.
            drop(
                self.supervisor
                    .send_message(SupervisorMessage::Forward(key, AppMessage::Input(Input::PlanStale))),
            );
            return Err(moved);
        }
        let given = PlanApproval {
            by: requester.name.to_owned(),
            reason: normalize_reason(requester.reason),
            at: SystemClock.now(),
        };
        let hash = line.hash;
        self.send_request(|reply| {
            SupervisorMessage::Forward(key, AppMessage::Approve { hash, approval: given, reply })
        })
        .await?;
        let (_, line) = plan_approval::find_stored_plan(&self.shared, hash).await?;
        Ok(self.plan_line(&line))
    }

    /// Mentions the waiting plan, if any, in the error about an unknown plan.
    fn with_waiting_plan(&self, text: Option<&str>, error: ServiceError) -> ServiceError {
        let ServiceError::UnknownPlan { text: hash, .. } = &error else { return error };
        let is_hash = is_hash(&hash.to_ascii_lowercase());
        let key = text.filter(|_| is_hash).and_then(|text| self.find_key(text).ok());
        let waits =
            key.and_then(|key| Some((waiting_plan(self.application(&key)?.as_ref())?.to_owned(), key)));
        let Some((waits, key)) = waits else { return error };
        let waits = waits.get(..12).unwrap_or(&waits);
        let reason = format!(
            "the plan that is waiting for approval is {waits}; approve it with `tidegate app approve {key} {waits}`"
        );
        ServiceError::UnknownPlan { text: hash.clone(), why: reason }
    }

    /// Checks that the user may approve the plan and that the plan is still valid.
    async fn check_approval(
        &self,
        application: &Application,
        line: &StoredPlanMetadata,
        by: &str,
    ) -> Result<(), ServiceError> {
        let key = AppKey::of(application);
        let policy = self.shared.approval_policy(application).map_err(ServiceError::refused)?;
        let short = line.hash.short();
        if !policy.is_required() {
            return Err(ServiceError::refused(format!(
                "application {key} needs no approval; `tidegate app sync {key} --plan {short}` executes the plan"
            )));
        }
        if let Some(operation) = line.operation {
            return Err(ServiceError::refused(format!(
                "plan {short} was already executed by operation {operation} and no longer needs an approval"
            )));
        }
        if let Some(withdrawn) = withdrawn_error(line, &key) {
            return Err(ServiceError::refused(withdrawn));
        }
        let waiting = waiting_plan(application).map(str::to_owned);
        if line.is_by_itself && waiting.as_deref() != Some(line.hash.to_string().as_str()) {
            let newest = match waiting {
                Some(hash) => Some(hash),
                None => self
                    .plans(Some(&key.qualified_name()), None)
                    .await?
                    .first()
                    .map(|newest| newest.hash.clone()),
            };
            let newest = newest.filter(|newest| *newest != line.hash.to_string());
            return Err(ServiceError::refused(match newest {
                Some(newest) => format!(
                    "plan {short} is not the newest plan for application {key}; the newest is {}",
                    newest.get(..12).unwrap_or(&newest)
                ),
                None => format!("no sync of application {key} is waiting for plan {short} anymore"),
            }));
        }
        let checked = policy.check_approval(
            PlanRequesters::for_stored_plan(&line.by, line.is_by_itself),
            &line.approvals,
            by,
        );
        checked.map_err(|error| ServiceError::NotAllowed { message: error.to_string() })
    }

    /// Requests an operation that executes a plan exactly as it was stored. Returns once the request is
    /// durable.
    pub async fn sync_plan(
        &self,
        text: Option<&str>,
        hash: &str,
        allow_drift: bool,
        requester: Requester<'_>,
    ) -> Result<PlanSummary, ServiceError> {
        let (line, plan) = self.find_plan(text, hash).await?;
        let application = self.application_of_plan(&line)?;
        let key = AppKey::of(&application);
        let policy = self.shared.approval_policy(&application).map_err(ServiceError::refused)?;
        let short = line.hash.short();
        if let Some(operation) = line.operation {
            return Err(ServiceError::refused(format!(
                "plan {short} was already executed by operation {operation}, and a plan can be executed only once; create a new plan with \
                 `tidegate app plan {key}`"
            )));
        }
        if let Some(withdrawn) = withdrawn_error(&line, &key) {
            return Err(ServiceError::refused(withdrawn));
        }
        let mut request = plan_operation(&application, &plan, requester.name.to_owned());
        if let Some(who) =
            policy.describe_missing(PlanRequesters::for_execution(&line.by, &request), &line.approvals)
        {
            return Err(ServiceError::refused(format!(
                "plan {short} for application {key} needs {who}; approve it with `tidegate app approve {key} {short}`"
            )));
        }
        // Check the plan before it is marked as executed, so that it can be requested again after a
        // rejection.
        plan_approval::check_plan(&self.shared, &application, plan, allow_drift).await?;
        operation::set_reason(&mut request, requester.reason);
        let plan = Some(PlanReference { hash: line.hash, allow_drift });
        let name = line.hash;
        self.send_request(|reply| {
            SupervisorMessage::Forward(key, AppMessage::Sync { request: Box::new(request), plan, reply })
        })
        .await?;
        let (_, line) = plan_approval::find_stored_plan(&self.shared, name).await?;
        Ok(self.plan_line(&line))
    }

    /// Returns a plan and its list entry.
    async fn find_plan(
        &self,
        text: Option<&str>,
        hash: &str,
    ) -> Result<(StoredPlanMetadata, StoredPlan), ServiceError> {
        let found = self.find_stored(text, hash).await;
        found.map_err(|error| self.with_waiting_plan(text, error))
    }

    async fn find_stored(
        &self,
        text: Option<&str>,
        hash: &str,
    ) -> Result<(StoredPlanMetadata, StoredPlan), ServiceError> {
        let key = text.map(|text| self.find_key(text)).transpose()?;
        let prefix = hash.to_ascii_lowercase();
        if !is_hash(&prefix) {
            return Err(ServiceError::UnknownPlan {
                text: hash.to_owned(),
                why: "a hash has 64 hexadecimal digits; use at least the first 6".to_owned(),
            });
        }
        let mut found = with_plans(&self.shared, |plans| plans.list()).await?;
        let is_of = |line: &StoredPlanMetadata| {
            key.as_ref().is_none_or(|key| line.application == key.instance_name())
        };
        found.retain(is_of);
        let newest = found.first().map(|newest| newest.hash.short());
        found.retain(|line| line.hash.to_string().starts_with(&prefix));
        let unknown = |why: String| ServiceError::UnknownPlan { text: hash.to_owned(), why };
        match (found.pop(), found.len()) {
            (Some(line), 0) => {
                let (plan, line) = plan_approval::find_stored_plan(&self.shared, line.hash).await?;
                Ok((line, plan))
            }
            (Some(_), more) => {
                let plans = more.saturating_add(1);
                Err(unknown(format!("this prefix matches {plans} plans; use more digits")))
            }
            (None, _) => Err(unknown(match (newest, &key) {
                (Some(newest), Some(key)) => {
                    format!(
                        "the newest plan for application {key} is {newest}; `tidegate app plans {key}` \
                         lists all plans"
                    )
                }
                (None, Some(key)) => {
                    format!(
                        "application {key} has no stored plans; create one with `tidegate app plan {key}`"
                    )
                }
                (_, None) => "no plan has this prefix".to_owned(),
            })),
        }
    }

    /// Returns the Application of a plan, which this process must manage.
    fn application_of_plan(&self, line: &StoredPlanMetadata) -> Result<Arc<Application>, ServiceError> {
        let key = AppKey::parse(&line.application);
        self.check_managed(&key)?;
        self.application(&key).ok_or_else(|| {
            ServiceError::refused(format!(
                "plan {} belongs to application {key}, which no longer exists",
                line.hash.short()
            ))
        })
    }

    fn plan_line(&self, line: &StoredPlanMetadata) -> PlanSummary {
        self.plan_line_for(line, None)
    }

    /// Returns a plan's list entry. If `requester` is set, it says whether that user may approve the plan.
    fn plan_line_for(&self, line: &StoredPlanMetadata, requester: Option<&str>) -> PlanSummary {
        let application = self.application(&AppKey::parse(&line.application));
        let hash = line.hash.to_string();
        let waiting = application.as_deref().and_then(waiting_plan);
        let own = application.as_deref().and_then(|one| one.operation.as_ref());
        let own = own.filter(|own| requested_plan(own) == Some(hash.as_str()));
        let reason = own.map(operation::request_reason).unwrap_or_default().to_owned();
        let policy = application.as_deref().and_then(|one| self.shared.approval_policy(one).ok());
        let askers = PlanRequesters::for_stored_plan(&line.by, line.is_by_itself);
        let missing = || policy.as_ref()?.describe_missing(askers, &line.approvals);
        let state = match line.operation {
            Some(_) => PlanState::Executed,
            None if line.is_by_itself && line.is_withdrawn => PlanState::Withdrawn,
            None if waiting == Some(hash.as_str()) => PlanState::Waiting,
            // The plan has all approvals, and the operation is about to start.
            None if own.is_some() && missing().is_none() => PlanState::Executed,
            None if line.is_by_itself => PlanState::Replaced,
            None => PlanState::Stored,
        };
        let is_open = matches!(state, PlanState::Waiting | PlanState::Stored);
        let missing_approval = is_open.then(missing).flatten();
        let denied = || policy.as_ref()?.check_approval(askers, &line.approvals, requester?).err();
        let approval_denied_reason =
            missing_approval.as_ref().and_then(|_| denied()).map(|error| error.to_string());
        PlanSummary { approval_denied_reason, ..summarize_plan(line, state, missing_approval, reason) }
    }
}

/// Summarizes a plan's metadata, state, missing approval, and the reason for the request.
fn summarize_plan(
    line: &StoredPlanMetadata,
    state: PlanState,
    missing_approval: Option<String>,
    reason: String,
) -> PlanSummary {
    let AppKey { namespace, name } = AppKey::parse(&line.application);
    let number = |count: &usize| u64::try_from(*count).unwrap_or(u64::MAX);
    PlanSummary {
        hash: line.hash.to_string(),
        namespace,
        name,
        revision: line.revision.clone(),
        created_at: line.made_at,
        initiated_by: line.by.clone(),
        reason,
        actions: line.actions.iter().map(|(action, count)| (action.clone(), number(count))).collect(),
        approvals: line.approvals.clone(),
        withdrawn_by: line.withdrawn_by.clone(),
        state,
        missing_approval,
        approval_denied_reason: None,
        operation: line.operation,
    }
}

/// Returns the error for a plan whose operation was withdrawn, or `None` for any other plan.
fn withdrawn_error(line: &StoredPlanMetadata, key: &AppKey) -> Option<String> {
    if !(line.is_by_itself && line.is_withdrawn && line.operation.is_none()) {
        return None;
    }
    let by = line.withdrawn_by.as_ref().map(|by| format!(" by {}", by.approver_text())).unwrap_or_default();
    Some(format!(
        "plan {} was withdrawn{by}: the sync that it was created for has ended; sync application {key} again, or create a plan with \
         `tidegate app plan {key}`",
        line.hash.short()
    ))
}

/// Returns the plan with secret values in its messages masked.
fn masked_plan(kept: StoredPlan) -> Plan {
    let mask = Mask::from_objects(kept.targets.targets.iter().map(|target| &target.object));
    let mut plan = kept.plan;
    plan.warnings.iter_mut().for_each(|warning| mask.apply(&mut warning.message));
    for task in &mut plan.tasks {
        mask.apply(&mut task.reason);
        task.error.iter_mut().for_each(|error| mask.apply(error));
    }
    plan
}

/// Returns the operation that executes a stored plan, with the same options as a sync without a plan.
fn plan_operation(application: &Application, plan: &StoredPlan, by: String) -> OperationRequest {
    let request = &plan.request;
    let policy = application.spec.sync_policy.clone().unwrap_or_default();
    let of = operation::operation_sources(
        application,
        &OperationRequest { sync: Some(SyncOperation::default()), ..OperationRequest::default() },
    );
    let (revision, revisions) =
        of.unwrap_or_default().revision_fields(&operation::deployed_revisions(request));
    let mut operation = OperationRequest {
        sync: Some(SyncOperation {
            revision,
            revisions,
            prune: request.options.prune,
            resources: request.selection.iter().map(operation::from_selector).collect(),
            sync_options: policy.sync_options,
            ..SyncOperation::default()
        }),
        retry: policy.retry,
        ..OperationRequest::default()
    };
    operation.initiated_by.username = by;
    operation
}
