//! Kept plans of applications: made, shown, approved, and carried out.

use std::sync::Arc;

use tidegate_application::approval::{Askers, plan_of, waiting_plan};
use tidegate_application::operation;
use tidegate_executor::effects::{Mask, ObjectDifference};
use tidegate_executor::{Clock as _, KeptPlan, SystemClock};
use tidegate_model::argo::{Application, OperationRequest, SyncOperation};
use tidegate_model::{Plan, PlanApproval, Warning, reason_line};
use tokio::sync::broadcast;

use super::Serving;
use crate::applications::approving::{self, with_plans};
use crate::applications::messages::{ByPlan, SupervisorMessage};
use crate::applications::store::AppKey;
use crate::error::ServiceError;
use crate::lines::{PlanLine, PlanState};
use crate::plans::{KeptLine, is_hash};

impl Serving {
    /// The plans that are kept: of all applications, or of the one that is meant. The newest first. Where it is said who asks, each
    /// says whether they may approve it.
    pub async fn plans(
        &self,
        text: Option<&str>,
        asker: Option<&str>,
    ) -> Result<Vec<PlanLine>, ServiceError> {
        let only = text.map(|text| self.one(text)).transpose()?.map(|key| key.instance());
        let mut all = with_plans(&self.shared, |plans| plans.list()).await?;
        all.retain(|line| only.as_ref().is_none_or(|only| line.application == *only));
        Ok(all.iter().map(|line| self.plan_line_for(line, asker)).collect())
    }

    /// The plans that are kept from now on, or about which something is decided; nothing where none can be kept.
    pub fn plan_changes(&self) -> Option<broadcast::Receiver<KeptLine>> {
        self.shared.plans.as_ref().map(|plans| plans.changes())
    }

    /// A kept plan by its hash, or by the beginning of it: of the application that is meant, if one is. The asker is as in
    /// [`Self::plans`].
    pub async fn kept_plan(
        &self,
        text: Option<&str>,
        hash: &str,
        asker: Option<&str>,
    ) -> Result<(PlanLine, Plan), ServiceError> {
        let (line, plan) = self.find_plan(text, hash).await?;
        Ok((self.plan_line_for(&line, asker), without_secrets(plan)))
    }

    /// What a kept plan would change, were it carried out now, and what has moved since it was made: of the application that is
    /// meant, if one is.
    pub async fn diff_plan(
        &self,
        text: Option<&str>,
        hash: &str,
    ) -> Result<(Vec<ObjectDifference>, Vec<Warning>), ServiceError> {
        let (line, plan) = self.find_plan(text, hash).await?;
        if let Some(operation) = line.operation {
            return Err(ServiceError::refused(format!(
                "plan {} was carried out by operation {operation}, and what it has changed does not differ any more; `tidegate ops show {operation}` says what was done",
                line.hash.short()
            )));
        }
        let application = self.of_plan(&line)?;
        approving::differences(&self.shared, &application, plan).await
    }

    /// Plans a sync of the application that is meant, and keeps the plan. Nothing is written to its cluster.
    pub async fn make_plan(
        &self,
        text: &str,
        mut asked: OperationRequest,
    ) -> Result<(PlanLine, Plan), ServiceError> {
        let application = self.as_written(text).await?;
        operation::disown(&mut asked);
        if asked.is_dry_run() {
            return Err(ServiceError::refused(
                "a dry run writes nothing, so there is nothing to plan; leave --dry-run out",
            ));
        }
        let line = approving::make(&self.shared, &application, asked).await?;
        let (plan, line) = approving::kept(&self.shared, line.hash).await?;
        Ok((self.plan_line(&line), without_secrets(plan)))
    }

    /// Approves a plan of the application that is meant, if one is. Returns when that is durable; an operation that waits for
    /// it begins then.
    pub async fn approve_plan(
        &self,
        text: Option<&str>,
        hash: &str,
        (by, reason): (String, String),
    ) -> Result<PlanLine, ServiceError> {
        let (line, plan) = self.find_plan(text, hash).await?;
        let application = self.of_plan(&line)?;
        let key = AppKey::of(&application);
        self.check_approval(&application, &line, &by).await?;
        if let Err(moved) = approving::check(&self.shared, &application, plan, true).await {
            // What has changed is seen by the next look, if not before.
            drop(self.supervisor.send_message(SupervisorMessage::Doubt { key }));
            return Err(moved);
        }
        let given = PlanApproval { by, reason: reason_line(&reason), at: SystemClock.now() };
        let hash = line.hash;
        self.request(|reply| SupervisorMessage::Approve { key, hash, given, reply }).await?;
        let (_, line) = approving::kept(&self.shared, hash).await?;
        Ok(self.plan_line(&line))
    }

    /// Whoever names a plan that is not there means the one that waits, if one does.
    fn with_what_waits(&self, text: Option<&str>, error: ServiceError) -> ServiceError {
        let ServiceError::UnknownPlan { text: hash, .. } = &error else { return error };
        let is_hash = is_hash(&hash.to_ascii_lowercase());
        let key = text.filter(|_| is_hash).and_then(|text| self.one(text).ok());
        let waits =
            key.and_then(|key| Some((waiting_plan(self.application(&key)?.as_ref())?.to_owned(), key)));
        let Some((waits, key)) = waits else { return error };
        let waits = waits.get(..12).unwrap_or(&waits);
        let why = format!("what waits for an approval is plan {waits}: `tidegate app approve {key} {waits}`");
        ServiceError::UnknownPlan { text: hash.clone(), why }
    }

    /// Whether somebody may approve a plan, which has to be one that counts.
    async fn check_approval(
        &self,
        application: &Application,
        line: &KeptLine,
        by: &str,
    ) -> Result<(), ServiceError> {
        let key = AppKey::of(application);
        let policy = self.shared.approvals(application).map_err(ServiceError::refused)?;
        let short = line.hash.short();
        if !policy.is_required() {
            return Err(ServiceError::refused(format!(
                "application {key} needs no approval; `tidegate app sync {key} --plan {short}` carries the plan out"
            )));
        }
        if let Some(operation) = line.operation {
            return Err(ServiceError::refused(format!(
                "plan {short} was carried out by operation {operation}, and needs no approval any more"
            )));
        }
        if let Some(withdrawn) = withdrawn(line, &key) {
            return Err(ServiceError::refused(withdrawn));
        }
        let waiting = waiting_plan(application).map(str::to_owned);
        if line.is_by_itself && waiting.as_deref() != Some(line.hash.to_string().as_str()) {
            let newest = match waiting {
                Some(hash) => Some(hash),
                None => self.plans(Some(&meant(&key)), None).await?.first().map(|newest| newest.hash.clone()),
            };
            let newest = newest.filter(|newest| *newest != line.hash.to_string());
            return Err(ServiceError::refused(match newest {
                Some(newest) => format!(
                    "plan {short} is not the newest of application {key}; the newest is {}",
                    newest.get(..12).unwrap_or(&newest)
                ),
                None => format!("nothing waits for plan {short} of application {key} any more"),
            }));
        }
        let checked = policy.check(Askers::of_kept(&line.by, line.is_by_itself), &line.approvals, by);
        checked.map_err(|error| ServiceError::NotAllowed { message: error.to_string() })
    }

    /// Has the application that is meant carry out a kept plan, and nothing else. Returns when that is durable.
    pub async fn sync_plan(
        &self,
        text: Option<&str>,
        hash: &str,
        (allow_drift, by, reason): (bool, String, String),
    ) -> Result<PlanLine, ServiceError> {
        let (line, plan) = self.find_plan(text, hash).await?;
        let application = self.of_plan(&line)?;
        let key = AppKey::of(&application);
        let policy = self.shared.approvals(&application).map_err(ServiceError::refused)?;
        let short = line.hash.short();
        if let Some(operation) = line.operation {
            return Err(ServiceError::refused(format!(
                "plan {short} was carried out by operation {operation}, and a plan is carried out once; make a new plan with `tidegate app plan {key}`"
            )));
        }
        if let Some(withdrawn) = withdrawn(&line, &key) {
            return Err(ServiceError::refused(withdrawn));
        }
        let mut asked = asked_by(&application, &plan, by);
        if let Some(who) = policy.missing(Askers::of(&line.by, &asked), &line.approvals) {
            return Err(ServiceError::refused(format!(
                "plan {short} of application {key} needs {who}: `tidegate app approve {key} {short}`"
            )));
        }
        // What would be refused is not taken for carried out, so that it can be asked for in another way.
        approving::check(&self.shared, &application, plan, allow_drift).await?;
        operation::give_reason(&mut asked, &reason);
        let plan = Some(ByPlan { hash: line.hash, allow_drift });
        let name = line.hash;
        self.request(|reply| SupervisorMessage::Sync { key, asked: Box::new(asked), plan, reply }).await?;
        let (_, line) = approving::kept(&self.shared, name).await?;
        Ok(self.plan_line(&line))
    }

    /// A plan that is meant, with what is known of it.
    async fn find_plan(&self, text: Option<&str>, hash: &str) -> Result<(KeptLine, KeptPlan), ServiceError> {
        let found = self.find_kept(text, hash).await;
        found.map_err(|error| self.with_what_waits(text, error))
    }

    async fn find_kept(&self, text: Option<&str>, hash: &str) -> Result<(KeptLine, KeptPlan), ServiceError> {
        let key = text.map(|text| self.one(text)).transpose()?;
        let wanted = hash.to_ascii_lowercase();
        if !is_hash(&wanted) {
            return Err(ServiceError::UnknownPlan {
                text: hash.to_owned(),
                why: "a hash has 64 hexadecimal digits, of which the first 6 may be enough".to_owned(),
            });
        }
        let mut found = with_plans(&self.shared, |plans| plans.list()).await?;
        let is_of = |line: &KeptLine| key.as_ref().is_none_or(|key| line.application == key.instance());
        found.retain(is_of);
        let newest = found.first().map(|newest| newest.hash.short());
        found.retain(|line| line.hash.to_string().starts_with(&wanted));
        let unknown = |why: String| ServiceError::UnknownPlan { text: hash.to_owned(), why };
        match (found.pop(), found.len()) {
            (Some(line), 0) => {
                let (plan, line) = approving::kept(&self.shared, line.hash).await?;
                Ok((line, plan))
            }
            (Some(_), more) => Err(unknown(format!(
                "it is the beginning of {} plans; write more of it",
                more.saturating_add(1)
            ))),
            (None, _) => Err(unknown(match (newest, &key) {
                (Some(newest), Some(key)) => {
                    format!(
                        "the newest of application {key} is {newest}; `tidegate app plans {key}` shows those there are"
                    )
                }
                (None, Some(key)) => {
                    format!("none of application {key} is kept; `tidegate app plan {key}` makes one")
                }
                (_, None) => "no plan begins like this".to_owned(),
            })),
        }
    }

    fn of_plan(&self, line: &KeptLine) -> Result<Arc<Application>, ServiceError> {
        let key = AppKey::named(&line.application);
        self.application(&key).ok_or_else(|| {
            ServiceError::refused(format!(
                "plan {} is of application {key}, which is not there any more",
                line.hash.short()
            ))
        })
    }

    fn plan_line(&self, line: &KeptLine) -> PlanLine {
        self.plan_line_for(line, None)
    }

    /// The line of a plan; where it is said who asks, with whether they may approve it.
    fn plan_line_for(&self, line: &KeptLine, asker: Option<&str>) -> PlanLine {
        let application = self.application(&AppKey::named(&line.application));
        let hash = line.hash.to_string();
        let waiting = application.as_deref().and_then(waiting_plan);
        let own = application.as_deref().and_then(|one| one.operation.as_ref());
        let own = own.filter(|own| plan_of(own) == Some(hash.as_str()));
        let reason = own.map(operation::reason).unwrap_or_default().to_owned();
        let policy = application.as_deref().and_then(|one| self.shared.approvals(one).ok());
        let askers = Askers::of_kept(&line.by, line.is_by_itself);
        let missing = || policy.as_ref()?.missing(askers, &line.approvals);
        let state = match line.operation {
            Some(_) => PlanState::Taken,
            None if line.is_by_itself && line.is_withdrawn => PlanState::Withdrawn,
            None if waiting == Some(hash.as_str()) => PlanState::Waiting,
            // All is approved that has to be, and its operation is about to begin.
            None if own.is_some() && missing().is_none() => PlanState::Taken,
            None if line.is_by_itself => PlanState::Replaced,
            None => PlanState::Kept,
        };
        let is_open = matches!(state, PlanState::Waiting | PlanState::Kept);
        let needs = is_open.then(missing).flatten();
        let not_yours = || policy.as_ref()?.check(askers, &line.approvals, asker?).err();
        let not_yours = needs.as_ref().and_then(|_| not_yours()).map(|error| error.to_string());
        PlanLine { not_yours, ..PlanLine::new(line, state, (needs, reason)) }
    }
}

/// What is said of a plan whose operation was taken back; nothing of any other.
fn withdrawn(line: &KeptLine, key: &AppKey) -> Option<String> {
    if !(line.is_by_itself && line.is_withdrawn && line.operation.is_none()) {
        return None;
    }
    let by = line.withdrawn_by.as_ref().map(|by| format!(" by {}", by.who())).unwrap_or_default();
    Some(format!(
        "plan {} was withdrawn{by}: the sync that it was made for is ended; sync application {key} again, or make a plan with `tidegate app plan {key}`",
        line.hash.short()
    ))
}

/// An application as people name it without doubt.
fn meant(key: &AppKey) -> String {
    format!("{}/{}", key.namespace, key.name)
}

/// What is shown of a plan: no value of a Secret is in its words.
fn without_secrets(kept: KeptPlan) -> Plan {
    let mask = Mask::of(kept.targets.targets.iter().map(|target| &target.object));
    let mut plan = kept.plan;
    plan.warnings.iter_mut().for_each(|warning| mask.hide(&mut warning.message));
    for task in &mut plan.tasks {
        mask.hide(&mut task.reason);
        task.error.iter_mut().for_each(|error| mask.hide(error));
    }
    plan
}

/// The operation that carries out a kept plan, as whoever asks for it would have asked for the same without one.
fn asked_by(application: &Application, plan: &KeptPlan, by: String) -> OperationRequest {
    let request = &plan.request;
    let policy = application.spec.sync_policy.clone().unwrap_or_default();
    let of = operation::sources(
        application,
        &OperationRequest { sync: Some(SyncOperation::default()), ..OperationRequest::default() },
    );
    let (revision, revisions) = of.unwrap_or_default().revisions(&operation::revisions_of(request));
    let mut asked = OperationRequest {
        sync: Some(SyncOperation {
            revision,
            revisions,
            prune: request.options.prune,
            resources: request.selection.iter().map(operation::resource).collect(),
            sync_options: policy.sync_options,
            ..SyncOperation::default()
        }),
        retry: policy.retry,
        ..OperationRequest::default()
    };
    asked.initiated_by.username = by;
    asked
}
