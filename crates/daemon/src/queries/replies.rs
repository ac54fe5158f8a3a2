//! Replies to requests from other processes.

use tidegate_app_controller::DeletionOptions;
use tidegate_application::credentials;
use tidegate_appset_controller::redact_appset;
use tidegate_executor::EngineError;
use tidegate_model::{Plan, Requester};
use tidegate_oplog::Lookup;
use tidegate_state::error::{ErrorCategory, ServiceError};
use tidegate_state::operations;
use tidegate_state::summaries::PlanSummary;
use tidegate_views::protocol::{Reply, Request};

use super::{Queries, RecordedEvents};

impl Queries {
    /// Returns the reply to another process's request.
    pub async fn reply(&self, request: Request) -> Reply {
        self.handle_request(request).await.unwrap_or_else(|error| refusal_reply(&error))
    }

    /// Executes a request and returns the reply.
    pub async fn handle_request(&self, request: Request) -> Result<Reply, ServiceError> {
        match request {
            Request::List { app, open } => {
                let application = app.as_deref().map(operations::instance_name);
                let lookup = Lookup { application, open: open.then_some(true), ..Lookup::all() };
                self.list_operations(lookup).await.map(Reply::Operations)
            }
            Request::Find { text } => self
                .list_entries(move |log| operations::find_candidates(log, &text))
                .await
                .map(Reply::Operations),
            Request::Inspect { operation } => {
                self.inspect(operation).await.map(|inspected| Reply::Operation(Box::new(inspected)))
            }
            Request::Facts { operation } => {
                let found = self.recorded_events(operation).await?;
                let RecordedEvents { events: facts, first_sequence: first, damage } = found;
                Ok(Reply::Facts { facts, first, damage })
            }
            Request::Events { operation, after, wait } => {
                self.events(operation, after, wait).await.map(Reply::Events)
            }
            Request::Runs { set } => self.list_runs(set).await.map(Reply::Runs),
            Request::FindRuns { text } => self.find_runs(text).await.map(Reply::Runs),
            Request::Run { id } => self.read_run(id).await.map(|run| Reply::Run(Box::new(run))),
            Request::Output { .. } => Err(ServiceError::refused(
                "hook output is available only as a stream; use `tidegate ops output`",
            )),
            Request::RequestOperationAction { operation, by, action } => {
                let at_work = self.send_action(operation, &by, action).await?;
                Ok(if at_work { Reply::Done } else { Reply::Recorded })
            }
            Request::Applications { name } => {
                let found = self.applications().await?.find(name.as_deref());
                let applications = found
                    .applications
                    .iter()
                    .map(|one| credentials::application_without_credentials(one))
                    .collect();
                Ok(Reply::Applications { applications, problems: found.problems })
            }
            Request::SyncApplication { name, operation } => {
                self.applications().await?.sync(&name, *operation).await.map(|()| Reply::Done)
            }
            Request::TerminateApplication { name, by, reason } => {
                let requester = Requester { name: &by, reason: &reason };
                self.applications().await?.terminate(&name, None, requester).await.map(|()| Reply::Done)
            }
            Request::DeleteApplication { name, cascade, no_hooks, by, reason } => {
                let options = DeletionOptions { cascade, no_hooks };
                let requester = Requester { name: &by, reason: &reason };
                self.applications().await?.delete(&name, options, requester).await.map(|()| Reply::Done)
            }
            Request::PlanDeletion { name, cascade, no_hooks } => {
                let options = DeletionOptions { cascade, no_hooks };
                let plan = self.applications().await?.plan_deletion(&name, options).await?;
                Ok(Reply::DeletionPlan(Box::new(plan)))
            }
            Request::RollbackApplication { name, id, prune, by, reason } => {
                let requester = Requester { name: &by, reason: &reason };
                self.applications().await?.rollback(&name, id, prune, requester).await.map(|()| Reply::Done)
            }
            Request::DiffApplication { name, revision, mut revisions } => {
                revisions.extend(revision);
                let (objects, findings) = self.applications().await?.diff(&name, revisions).await?;
                Ok(Reply::Differences { objects, findings })
            }
            Request::ApplicationSets { name } => {
                let serving = self.appsets().await?;
                let found = serving.find_matching(name.as_deref());
                let sets = found.appsets.iter().map(|one| redact_appset(one)).collect();
                let options = serving.options().clone();
                Ok(Reply::ApplicationSets { sets, problems: found.problems, options })
            }
            Request::ExplainApplicationSet { name } => {
                let explanation = self.appsets().await?.explain(&name).await?;
                Ok(Reply::ApplicationSet(Box::new(explanation)))
            }
            Request::PlanApplicationSetDeletion { name } => {
                self.appsets().await?.plan_deletion(&name).await.map(|found| Reply::Deletion(Box::new(found)))
            }
            Request::RequestAppSetAction { name, action, by, reason } => {
                let requester = Requester { name: &by, reason: &reason };
                self.appsets().await?.send_action(&name, None, action, requester).await.map(|()| Reply::Done)
            }
            Request::RefreshApplicationSet { name } => {
                self.appsets().await?.refresh(&name).await.map(|()| Reply::Done)
            }
            Request::DeleteApplicationSet { name, orphan, by, reason } => {
                let requester = Requester { name: &by, reason: &reason };
                self.appsets().await?.delete(&name, orphan, requester).await.map(|()| Reply::Done)
            }
            Request::SyncWindow { name } => {
                self.applications().await?.window_status(&name).map(Reply::SyncWindow)
            }
            Request::Plans { name, by } => {
                self.applications().await?.plans(name.as_deref(), Some(&by)).await.map(Reply::Plans)
            }
            Request::StoredPlan { name, hash, by } => {
                self.applications().await?.stored_plan(Some(&name), &hash, Some(&by)).await.map(plan_reply)
            }
            Request::DiffPlan { name, hash } => {
                let (objects, findings) = self.applications().await?.diff_plan(Some(&name), &hash).await?;
                Ok(Reply::Differences { objects, findings })
            }
            Request::PlanApplication { name, operation } => {
                self.applications().await?.make_plan(&name, *operation).await.map(plan_reply)
            }
            Request::ApprovePlan { name, hash, by, reason } => {
                let serving = self.applications().await?;
                let requester = Requester { name: &by, reason: &reason };
                let line = serving.approve_plan(Some(&name), &hash, requester).await?;
                Ok(Reply::Plans(vec![line]))
            }
            Request::SyncPlan { name, hash, allow_drift, by, reason } => {
                let serving = self.applications().await?;
                let requester = Requester { name: &by, reason: &reason };
                let line = serving.sync_plan(Some(&name), &hash, allow_drift, requester).await?;
                Ok(Reply::Plans(vec![line]))
            }
            Request::DeleteSimulated { object } => {
                self.applications().await?.delete_simulated(&object).await.map(|()| Reply::Done)
            }
            Request::RefreshApplication { name, hard } => {
                self.applications().await?.refresh(&name, hard).await.map(|()| Reply::Done)
            }
        }
    }
}

fn plan_reply((line, plan): (PlanSummary, Plan)) -> Reply {
    Reply::Plan { line: Box::new(line), plan: Box::new(plan) }
}

pub(crate) fn refusal_reply(error: &ServiceError) -> Reply {
    match error {
        ServiceError::Engine(EngineError::ShuttingDown | EngineError::Stopped) => Reply::Stopping,
        error if error.category() == ErrorCategory::Refused => Reply::Refused(error.to_string()),
        // These errors concern the running process, not the request.
        ServiceError::Connect { .. }
        | ServiceError::InvalidUrl { .. }
        | ServiceError::LogKey { .. }
        | ServiceError::NoStateDirectory => Reply::Failed(error.to_string()),
        error if error.category() == ErrorCategory::BadInput => Reply::BadInput(error.to_string()),
        error => Reply::Failed(error.to_string()),
    }
}
