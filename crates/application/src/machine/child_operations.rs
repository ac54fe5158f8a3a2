//! Operations requested by progressive syncs. Each starts at most once, under an ID persisted beforehand, and
//! reports its progress back.

use std::collections::BTreeMap;

use tidegate_model::argo::{OperationRequest, SyncStatus, SyncStatusCode};
use tidegate_model::{OperationId, Timestamp};

use super::{AdmissionError, ApplicationMachine, ChildReport, Deployments, Effect, Phase, World};
use crate::refresh::{self, RefreshLevel};
use crate::rollout_operation::{self, AdoptableOperations, Deployment, StartDecision};
use crate::sources::revisions_of_fields;
use crate::{approval, operation};

/// Operations requested by progressive syncs.
#[derive(Default)]
pub(super) struct ChildOperations {
    requested: BTreeMap<OperationId, TrackedChild>,
    /// The current operation, once the engine has received it.
    current: Option<OperationId>,
}

struct TrackedChild {
    request: OperationRequest,
    /// Operations whose work doesn't have to be repeated. `None` if the operation must always run.
    adoption: Option<AdoptableOperations>,
    last_report: Option<ChildReport>,
    revision_comparison: Option<RevisionComparison>,
}

/// Comparison of a child operation's manifests with the manifests at deployed revisions.
struct RevisionComparison {
    deployed: Vec<String>,
    /// True if the manifests are the same. `None` until the comparison has finished.
    result: Option<Result<bool, String>>,
}

/// Evidence that the requested state was already deployed.
enum DeployedEvidence {
    /// This operation deployed the state.
    Deployed(OperationId),
    /// Only a comparison can confirm the deployment.
    Unconfirmed,
}

/// Step that withdraws a child operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildWithdrawal {
    /// The operation was withdrawn, or it has started.
    Done,
    /// The engine may be receiving the operation. Stop the handover, and call
    /// [`ApplicationMachine::finish_child_withdrawal`].
    StopHandover,
}

impl ApplicationMachine {
    /// Returns the current operation if it belongs to a progressive sync, started or not.
    pub fn child_operation(&self) -> Option<OperationId> {
        rollout_operation::current_rollout_operation(&self.application)
    }

    /// Returns true if the status has the child operation or its result.
    pub fn knows_child(&self, operation: OperationId) -> bool {
        self.child_operation() == Some(operation)
            || rollout_operation::operation_result(&self.application, operation).is_some()
    }

    /// Returns true if reports about a child operation may follow.
    pub fn tracks_child(&self, operation: OperationId) -> bool {
        self.children.requested.contains_key(&operation)
    }

    /// Accepts a requested operation and starts reporting its progress.
    pub fn request_child(
        &mut self,
        operation: OperationId,
        request: OperationRequest,
        adoption: Option<AdoptableOperations>,
    ) {
        let is_unknown = |sync: &SyncStatus| sync.status == SyncStatusCode::Unknown && adoption.is_some();
        if self.application.status.sync.as_ref().is_some_and(is_unknown) {
            // The last comparison couldn't determine if the state was already deployed.
            self.request_comparison(RefreshLevel::Latest);
        }
        let child = TrackedChild { request, adoption, last_report: None, revision_comparison: None };
        self.children.requested.insert(operation, child);
    }

    /// Reports progress if it has changed.
    fn report(&mut self, operation: OperationId, report: ChildReport) {
        if let Some(child) = self.children.requested.get_mut(&operation)
            && child.last_report.as_ref() != Some(&report)
        {
            child.last_report = Some(report.clone());
            self.effects.push(Effect::Report { operation, report });
        }
    }

    /// Sends the last report about an operation.
    fn report_last(&mut self, operation: OperationId, report: ChildReport) {
        self.report(operation, report);
        self.children.requested.remove(&operation);
    }

    /// Makes the next requested operation the current one, or reports why it has to wait.
    pub(super) fn schedule_child(&mut self, world: &dyn World, now: Timestamp) {
        if self.application.is_deleting()
            && let Some(placed) = self.child_operation().filter(|_| !self.is_child_in_engine())
        {
            rollout_operation::withdraw_operation(&mut self.application, placed, now);
        }
        let placed = self.child_operation();
        let waiting: Vec<OperationId> = self
            .children
            .requested
            .keys()
            .copied()
            .filter(|one| Some(*one) != placed && !self.knows_child(*one))
            .collect();
        for operation in waiting {
            let next = self.next_child(world, now);
            if matches!(next, Ok(StartDecision::Start | StartDecision::Blocked(_))) {
                match self.deployed_evidence(operation) {
                    Ok(None) => {}
                    Ok(Some(DeployedEvidence::Deployed(by))) => {
                        self.report_last(operation, ChildReport::Deployed { operation: by });
                        continue;
                    }
                    Ok(Some(DeployedEvidence::Unconfirmed)) => continue,
                    Err(reason) => {
                        self.report_last(operation, ChildReport::Unavailable(reason));
                        continue;
                    }
                }
            }
            match next {
                Ok(StartDecision::Wait) => {}
                Ok(StartDecision::Start) => {
                    let Some(child) = self.children.requested.get(&operation) else { continue };
                    let request = child.request.clone();
                    rollout_operation::assign_operation(&mut self.application, operation, request);
                }
                Ok(StartDecision::Blocked(hold)) => {
                    self.wake(hold.next_check);
                    self.report(operation, ChildReport::Delayed { window: hold.reason });
                }
                Ok(StartDecision::Unavailable(reason)) => {
                    self.report_last(operation, ChildReport::Unavailable(reason));
                }
                Err(report) => self.report_last(operation, report),
            }
        }
    }

    /// Returns evidence that the requested state is already deployed, so that no hook runs twice. `None`
    /// means that it must be deployed. Only a comparison that started after the earlier operation finished
    /// counts; it is requested if missing.
    fn deployed_evidence(&mut self, operation: OperationId) -> Result<Option<DeployedEvidence>, String> {
        let Some(TrackedChild { request, adoption: Some(adoption), .. }) =
            self.children.requested.get(&operation)
        else {
            return Ok(None);
        };
        let Some(Deployment { operation: by, revisions }) =
            rollout_operation::adoption_candidate(&self.application, request, adoption)
        else {
            return Ok(None);
        };
        let accepts_health =
            adoption.accepts_health(self.application.status.health.as_ref().map(|health| health.status));
        let is_it = |known: &Option<Deployment>| known.as_ref().is_some_and(|one| one.operation == by);
        if !is_it(&self.deployments.newest) {
            return Ok(None);
        }
        match self.has_child_manifests(operation, &revisions).transpose()? {
            Some(true) => {}
            Some(false) => return Ok(None),
            None => return Ok(Some(DeployedEvidence::Unconfirmed)),
        }
        let Deployments { newest, evidence, is_compared } = &self.deployments;
        let sync = self.application.status.sync.as_ref();
        let with = sync.and_then(|sync| sync.compared_to.as_ref());
        let is_current = with == Some(&refresh::compared_to(&self.application));
        if !is_compared || !is_it(evidence) || !is_current {
            if !self.comparison.is_running {
                self.request_comparison(RefreshLevel::Latest);
            }
            return Ok(Some(DeployedEvidence::Unconfirmed));
        }
        if !accepts_health {
            return Ok(None);
        }
        let compared = sync.map(|sync| revisions_of_fields(&sync.revision, &sync.revisions));
        let is_of_other_revisions = newest.as_ref().map(|one| &one.revisions) != compared.as_ref();
        let is_comparison_due = self.comparison.is_running || self.comparison.requested_level.is_some();
        match sync.map(|sync| sync.status) {
            Some(SyncStatusCode::Synced) => Ok(Some(DeployedEvidence::Deployed(by))),
            // The application is only out of sync with newer revisions, which doesn't contradict the
            // deployment.
            Some(SyncStatusCode::OutOfSync) if is_of_other_revisions => {
                Ok(Some(DeployedEvidence::Deployed(by)))
            }
            Some(SyncStatusCode::OutOfSync) => Ok(None),
            Some(SyncStatusCode::Unknown) | None if is_comparison_due => {
                Ok(Some(DeployedEvidence::Unconfirmed))
            }
            Some(SyncStatusCode::Unknown) | None => Err(format!(
                "operation {by} deployed this target, but the comparison that should confirm the deployment failed; see the conditions of application {}",
                self.key
            )),
        }
    }

    /// Returns true if these revisions have the same manifests as a requested operation. The first call
    /// starts the comparison, and the result is `None` until it has finished.
    fn has_child_manifests(
        &mut self,
        operation: OperationId,
        deployed: &[String],
    ) -> Option<Result<bool, String>> {
        let child = self.children.requested.get_mut(&operation)?;
        if child.adoption.as_ref()?.revisions.iter().any(|known| known == deployed) {
            return Some(Ok(true));
        }
        if let Some(known) = child.revision_comparison.as_ref().filter(|known| known.deployed == deployed) {
            return known.result.clone();
        }
        let deployed = deployed.to_vec();
        child.revision_comparison = Some(RevisionComparison { deployed: deployed.clone(), result: None });
        let target = child.request.sync.as_ref()?;
        let target = revisions_of_fields(&target.revision, &target.revisions);
        self.effects.push(Effect::CompareRevisions { operation, target, deployed });
        None
    }

    /// Records whether deployed revisions have the manifests of a requested operation.
    pub(super) fn handle_compared_revisions(
        &mut self,
        operation: OperationId,
        deployed: Vec<String>,
        result: Result<bool, String>,
    ) {
        let Some(child) = self.children.requested.get_mut(&operation) else { return };
        if child.revision_comparison.as_ref().is_some_and(|awaited| awaited.deployed == deployed) {
            child.revision_comparison = Some(RevisionComparison { deployed, result: Some(result) });
        }
    }

    fn next_child(&self, world: &dyn World, now: Timestamp) -> Result<StartDecision, ChildReport> {
        let windows = world.sync_windows(&self.application);
        let next = rollout_operation::decide_start(&self.application, &windows, now);
        if !matches!(next, StartDecision::Start | StartDecision::Blocked(_)) {
            return Ok(next);
        }
        if let Some(problem) = &self.problem {
            let reason = format!("application {} cannot be synced: {problem}", self.key);
            return Err(ChildReport::Refused(reason));
        }
        match world.check_admission(&self.application) {
            Ok(()) => Ok(next),
            Err(AdmissionError::Invalid(problem)) => Err(ChildReport::Refused(problem)),
            Err(AdmissionError::Unreachable(problem)) => Err(ChildReport::Unreachable(problem)),
            // Check again once the cluster has responded or failed to respond.
            Err(AdmissionError::Unchecked(_)) => Ok(StartDecision::Wait),
        }
    }

    /// Reports progress that has been persisted.
    pub(super) fn report_children(&mut self) {
        let (placed, started) = (self.child_operation(), self.children.current);
        let unapproved = approval::approval_condition_message(&self.application)
            .filter(|_| placed != started)
            .map(str::to_owned);
        for operation in self.children.requested.keys().copied().collect::<Vec<_>>() {
            if let Some((phase, message)) = rollout_operation::operation_result(&self.application, operation)
            {
                self.report_last(operation, ChildReport::Ended { phase, message });
            } else if placed == Some(operation) && started == placed {
                self.report(operation, ChildReport::Started);
            } else if placed == Some(operation)
                && let Some(plan) = unapproved.clone()
            {
                self.report(operation, ChildReport::Unapproved { plan });
            }
        }
    }

    /// Records that the engine has received the current operation.
    pub(super) fn record_child_begin(&mut self, operation: OperationId) {
        self.children.current = Some(operation);
    }

    /// Returns true if the progressive sync's operation has reached the engine or is about to.
    fn is_child_in_engine(&self) -> bool {
        self.child_operation().is_some_and(|placed| {
            self.phase == Phase::Running(placed) || self.children.current == Some(placed)
        })
    }

    /// Returns true if the requested operation can still be kept from starting.
    pub(super) fn can_be_withheld(&self, request: &OperationRequest) -> bool {
        operation::engine_id(request).is_none()
            || rollout_operation::is_of_rollout(request) && !self.is_child_in_engine()
    }

    /// Withdraws an operation. Unless it has already started, it never will.
    pub fn withdraw_child(&mut self, operation: OperationId, now: Timestamp) -> ChildWithdrawal {
        self.children.requested.remove(&operation);
        if self.child_operation() != Some(operation) || self.children.current == Some(operation) {
            return ChildWithdrawal::Done;
        }
        if self.is_child_in_engine() {
            return ChildWithdrawal::StopHandover;
        }
        rollout_operation::withdraw_operation(&mut self.application, operation, now);
        ChildWithdrawal::Done
    }

    /// Withdraws an operation whose handover was stopped, or continues it if the engine has it.
    pub fn finish_child_withdrawal(&mut self, operation: OperationId, is_begun: bool, now: Timestamp) {
        self.phase = Phase::Idle;
        self.restore_child(operation, is_begun, now);
    }

    /// Restores the child operation that this application's previous actor accepted. Withdraws it if the
    /// engine never received it.
    pub fn restore_child(&mut self, operation: OperationId, is_begun: bool, now: Timestamp) {
        if is_begun {
            self.record_child_begin(operation);
        } else {
            rollout_operation::withdraw_operation(&mut self.application, operation, now);
        }
    }

    /// Stores the next state without delay, because a caller relies on it.
    pub fn set_urgent(&mut self) {
        self.writes.set_urgent();
    }
}
