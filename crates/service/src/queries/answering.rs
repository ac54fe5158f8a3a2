//! The answers to what another process asks.

use tidegate_application::credentials;
use tidegate_executor::EngineError;
use tidegate_model::Plan;
use tidegate_oplog::Lookup;

use super::Queries;
use crate::control::protocol::{Reply, Request};
use crate::error::{Kind, ServiceError};
use crate::lines::PlanLine;
use crate::operations;
use crate::sets::shown;

impl Queries {
    /// The answer for another process.
    pub async fn reply(&self, request: Request) -> Reply {
        self.answer(request).await.unwrap_or_else(|error| refusal(&error))
    }

    /// The answer to a request.
    pub async fn answer(&self, request: Request) -> Result<Reply, ServiceError> {
        match request {
            Request::List { app, open } => {
                let application = app.as_deref().map(operations::instance);
                let lookup = Lookup { application, open: open.then_some(true), ..Lookup::all() };
                self.operations(lookup).await.map(Reply::Operations)
            }
            Request::Find { text } => {
                self.list(move |log| operations::candidates(log, &text)).await.map(Reply::Operations)
            }
            Request::Inspect { operation } => {
                self.inspect(operation).await.map(|inspected| Reply::Operation(Box::new(inspected)))
            }
            Request::Facts { operation } => {
                let (facts, first, damage) = self.facts(operation).await?;
                Ok(Reply::Facts { facts, first, damage })
            }
            Request::Events { operation, after, wait } => {
                self.events(operation, after, wait).await.map(Reply::Events)
            }
            Request::Runs { set } => self.runs(set).await.map(Reply::Runs),
            Request::FindRuns { text } => self.find_runs(text).await.map(Reply::Runs),
            Request::Run { id } => self.run(id).await.map(|run| Reply::Run(Box::new(run))),
            Request::Output { .. } => {
                Err(ServiceError::refused("the output of hooks is told to those who go on listening"))
            }
            Request::Wish { operation, by, wish } => {
                let at_work = self.wish(operation, &by, wish).await?;
                Ok(if at_work { Reply::Done } else { Reply::Recorded })
            }
            Request::Applications { name } => {
                let found = self.serving().await?.find(name.as_deref());
                let applications = found.applications.iter().map(|one| credentials::shown(one)).collect();
                Ok(Reply::Applications { applications, problems: found.problems })
            }
            Request::SyncApplication { name, operation } => {
                self.serving().await?.sync(&name, *operation).await.map(|()| Reply::Done)
            }
            Request::TerminateApplication { name, by, reason } => {
                self.serving().await?.terminate(&name, None, (by, reason)).await.map(|()| Reply::Done)
            }
            Request::DeleteApplication { name, cascade, by, reason } => {
                self.serving().await?.delete(&name, cascade, by, reason).await.map(|()| Reply::Done)
            }
            Request::PlanDeletion { name, cascade } => {
                let plan = self.serving().await?.plan_deletion(&name, cascade).await?;
                Ok(Reply::DeletionPlan(Box::new(plan)))
            }
            Request::RollbackApplication { name, id, prune, by, reason } => {
                self.serving().await?.rollback(&name, id, prune, (by, reason)).await.map(|()| Reply::Done)
            }
            Request::DiffApplication { name, revision, mut revisions } => {
                revisions.extend(revision);
                let (objects, findings) = self.serving().await?.diff(&name, revisions).await?;
                Ok(Reply::Differences { objects, findings })
            }
            Request::ApplicationSets { name } => {
                let serving = self.sets().await?;
                let found = serving.find(name.as_deref());
                let sets = found.sets.iter().map(|one| shown(one)).collect();
                let options = serving.options().clone();
                Ok(Reply::ApplicationSets { sets, problems: found.problems, options })
            }
            Request::ExplainApplicationSet { name } => {
                let explanation = self.sets().await?.explain(&name).await?;
                Ok(Reply::ApplicationSet(Box::new(explanation)))
            }
            Request::PlanApplicationSetDeletion { name } => {
                self.sets().await?.plan(&name).await.map(|found| Reply::Deletion(Box::new(found)))
            }
            Request::WishApplicationSet { name, wish, by, reason } => {
                self.sets().await?.wish(&name, None, wish, (by, reason)).await.map(|()| Reply::Done)
            }
            Request::RefreshApplicationSet { name } => {
                self.sets().await?.refresh(&name).await.map(|()| Reply::Done)
            }
            Request::DeleteApplicationSet { name, orphan, by, reason } => {
                self.sets().await?.delete(&name, orphan, by, reason).await.map(|()| Reply::Done)
            }
            Request::SyncWindow { name } => self.serving().await?.window(&name).map(Reply::SyncWindow),
            Request::Plans { name, by } => {
                self.serving().await?.plans(name.as_deref(), Some(&by)).await.map(Reply::Plans)
            }
            Request::KeptPlan { name, hash, by } => {
                self.serving().await?.kept_plan(Some(&name), &hash, Some(&by)).await.map(plan_reply)
            }
            Request::DiffPlan { name, hash } => {
                let (objects, findings) = self.serving().await?.diff_plan(Some(&name), &hash).await?;
                Ok(Reply::Differences { objects, findings })
            }
            Request::PlanApplication { name, operation } => {
                self.serving().await?.make_plan(&name, *operation).await.map(plan_reply)
            }
            Request::ApprovePlan { name, hash, by, reason } => {
                let serving = self.serving().await?;
                let line = serving.approve_plan(Some(&name), &hash, (by, reason)).await?;
                Ok(Reply::Plans(vec![line]))
            }
            Request::SyncPlan { name, hash, allow_drift, by, reason } => {
                let serving = self.serving().await?;
                let line = serving.sync_plan(Some(&name), &hash, (allow_drift, by, reason)).await?;
                Ok(Reply::Plans(vec![line]))
            }
            Request::DeleteSimulated { object } => {
                self.serving().await?.delete_simulated(&object).await.map(|()| Reply::Done)
            }
            Request::RefreshApplication { name, hard } => {
                self.serving().await?.refresh(&name, hard).await.map(|()| Reply::Done)
            }
        }
    }
}

fn plan_reply((line, plan): (PlanLine, Plan)) -> Reply {
    Reply::Plan { line: Box::new(line), plan: Box::new(plan) }
}

pub(crate) fn refusal(error: &ServiceError) -> Reply {
    match error {
        ServiceError::Engine(EngineError::ShuttingDown | EngineError::Stopped) => Reply::Leaving,
        error if error.kind() == Kind::Refusal => Reply::Refused(error.to_string()),
        // Of the process at work itself.
        ServiceError::Connect { .. }
        | ServiceError::Address { .. }
        | ServiceError::LogKey { .. }
        | ServiceError::NoStateDirectory => Reply::Failed(error.to_string()),
        error if error.kind() == Kind::BadInput => Reply::BadInput(error.to_string()),
        error => Reply::Failed(error.to_string()),
    }
}
