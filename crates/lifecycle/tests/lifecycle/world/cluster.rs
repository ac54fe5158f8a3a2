//! Simulated cluster with one object per task, and the effects of commands on it.

use std::collections::BTreeMap;

use tidegate_lifecycle::operation::{
    Answer, ApplyResponse, CallError, ClearingResult, DryRunResponse, HookLog, PruneResult, StopResult,
    SuspendedHook, TaskCommand,
};
use tidegate_model::{DeletePolicy, Evidence, HealthStatus, ObservedState, OperationPhase, Task, TaskId};

use super::behavior::{Behavior, EvidenceKind, Reply, health_of};

/// Object in the simulated cluster.
#[derive(Clone, Debug)]
pub struct Object {
    pub uid: String,
    pub version: u64,
    pub generation: i64,
    /// Time of the last write.
    pub written_at: i64,
    /// Attempt of this operation that created the object.
    pub created_in_attempt: Option<u32>,
    pub has_finalizer: bool,
    /// True for a hook's Job that hasn't been started.
    pub is_suspended: bool,
    /// Removal time of the object.
    pub removed_at: Option<i64>,
    /// End time of another operation's hook.
    pub rival_until: Option<i64>,
}

impl Object {
    fn is_rival_running(&self, now: i64) -> bool {
        self.rival_until.is_some_and(|until| until > now)
    }
}

/// Change to the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    pub task: TaskId,
    pub change: Change,
    pub attempt: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Created,
    Updated,
    Started,
    Deleted(String),
}

#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub objects: BTreeMap<TaskId, Object>,
    /// Earlier observations of the objects, to simulate old observations.
    pub history: BTreeMap<TaskId, Vec<ObservedState>>,
    pub writes: Vec<Write>,
    pub behaviors: BTreeMap<TaskId, Behavior>,
    last_version: u64,
}

impl Cluster {
    pub fn add_live_objects(&mut self, tasks: impl Iterator<Item = (TaskId, Task)>) {
        self.last_version = 10;
        for (id, task) in tasks {
            self.behaviors.entry(id).or_insert_with(|| Behavior::default_for(&task));
            if let Some(live) = &task.live {
                let object = Object {
                    uid: live.uid.clone(),
                    version: 1,
                    generation: 1,
                    written_at: i64::MIN / 2,
                    created_in_attempt: None,
                    has_finalizer: false,
                    is_suspended: false,
                    removed_at: None,
                    rival_until: None,
                };
                self.objects.insert(id, object);
            }
        }
    }

    /// Removes the objects whose removal is due.
    fn remove_expired_objects(&mut self, now: i64) {
        for (id, object) in &mut self.objects {
            let vanishes =
                self.behaviors[id].deleted_after.map(|after| object.written_at.saturating_add(after));
            if vanishes.is_some_and(|at| object.created_in_attempt.is_some() && at <= now) {
                object.removed_at = object.removed_at.or(Some(now));
                object.has_finalizer = false;
            }
        }
        self.objects.retain(|_, object| {
            object.has_finalizer || object.removed_at.is_none_or(|goes_at| goes_at > now)
        });
    }

    /// Returns the current observation of an object.
    pub fn observe(&mut self, id: TaskId, now: i64) -> ObservedState {
        self.remove_expired_objects(now);
        let Some(object) = self.objects.get(&id) else { return ObservedState::Gone { uid: None } };
        let observed = observed_state(object, &self.behaviors[&id], now);
        let history = self.history.entry(id).or_default();
        if history.last() != Some(&observed) {
            history.push(observed.clone());
        }
        observed
    }

    fn next_reply(
        &mut self,
        id: TaskId,
        queue: impl Fn(&mut Behavior) -> &mut std::collections::VecDeque<Reply>,
    ) -> Reply {
        self.behaviors.get_mut(&id).and_then(|fate| queue(fate).pop_front()).unwrap_or(Reply::Success)
    }

    /// Removes the operation's mark from an object of an earlier attempt.
    pub fn disown_leftover(&mut self, id: TaskId, leftover: Option<&str>) {
        let is_it = |object: &&mut Object| leftover == Some(object.uid.as_str());
        if let Some(object) = self.objects.get_mut(&id).filter(is_it) {
            object.created_in_attempt = Some(0);
        }
    }

    /// Executes a command and returns its answer.
    pub fn execute(
        &mut self,
        id: TaskId,
        task: &Task,
        attempt: u32,
        command: &TaskCommand,
        now: i64,
    ) -> Answer {
        self.remove_expired_objects(now);
        match command {
            TaskCommand::Check => {
                let warnings = self.behaviors.get(&id).map(|fate| fate.warnings.clone()).unwrap_or_default();
                let trial = DryRunResponse { message: format!("{} checked", task.name), warnings };
                Answer::Checked(self.next_reply(id, |fate| &mut fate.check).into_result(trial))
            }
            TaskCommand::Prune { uid } => {
                let reply = self.next_reply(id, |fate| &mut fate.write);
                if let Reply::LeftAlone(reason) = reply {
                    return Answer::Pruned(Ok(PruneResult::LeftAlone { reason }));
                }
                let gone = reply == Reply::Success && self.delete_object(id, uid, attempt, now);
                Answer::Pruned(reply.into_result(if gone {
                    PruneResult::Gone
                } else {
                    PruneResult::DeletionStarted
                }))
            }
            TaskCommand::ClearHook => match self.next_reply(id, |fate| &mut fate.write) {
                Reply::Success => Answer::Cleared(Ok(self.clear_place(id, task, attempt, now))),
                reply => Answer::Cleared(reply.into_result(ClearingResult::Clear)),
            },
            TaskCommand::Apply => match self.next_reply(id, |fate| &mut fate.write) {
                Reply::Success if self.is_recreation_blocked(id, attempt, now) => {
                    let uid = self.objects[&id].uid.clone();
                    Answer::Cleared(Ok(ClearingResult::Deleting { uid }))
                }
                Reply::Success => match self.check_taken_place(id, task, attempt, now) {
                    Some(clearing) => Answer::Cleared(Ok(clearing)),
                    None => {
                        let applied = self.apply_object(id, task, attempt, now);
                        match self.suspended_hook(id, &applied) {
                            Some(hook) => Answer::Suspended(hook),
                            None => Answer::Applied(Ok(Box::new(applied))),
                        }
                    }
                },
                reply => Answer::Applied(reply.into_result(()).map(|()| unreachable!())),
            },
            TaskCommand::StartHook { uid } => match self.next_reply(id, |fate| &mut fate.write) {
                Reply::Success => Answer::Started(self.start_hook(id, task, attempt, uid, now)),
                reply => Answer::Started(reply.into_result(()).map(|()| unreachable!())),
            },
            TaskCommand::RunHook { .. } => {
                Answer::Ran { success: self.behaviors[&id].runner_succeeds, message: "ran".into() }
            }
            TaskCommand::ReleaseHook { uid } => {
                let reply = self.next_reply(id, |fate| &mut fate.end);
                if let (Reply::Success, Some(object)) = (&reply, self.objects.get_mut(&id)) {
                    object.has_finalizer &= object.uid != *uid;
                }
                Answer::Released(reply.into_result(()))
            }
            TaskCommand::DeleteHook { uid } => {
                let reply = self.next_reply(id, |fate| &mut fate.end);
                if reply == Reply::Success {
                    self.delete_object(id, uid, attempt, now);
                }
                Answer::Deleted(reply.into_result(()))
            }
            TaskCommand::StopHook => match self.next_reply(id, |fate| &mut fate.end) {
                Reply::Success => Answer::Stopped(Ok(self.stop_hook(id, task, attempt, now))),
                reply => Answer::Stopped(reply.into_result(()).map(|()| unreachable!())),
            },
            TaskCommand::ReadLogs => {
                let text = self.behaviors[&id].log.clone().filter(|_| self.objects.contains_key(&id));
                let log = |text| HookLog { pod: format!("{}-x", task.name), container: "main".into(), text };
                Answer::LogsRead { reason: String::new(), logs: text.map(log).into_iter().collect() }
            }
        }
    }

    /// Returns true if an object that will be recreated is being deleted and still exists.
    fn is_recreation_blocked(&mut self, id: TaskId, attempt: u32, now: i64) -> bool {
        let old = |object: &&Object| object.created_in_attempt.is_none();
        let uid = self.objects.get(&id).filter(old).map(|object| object.uid.clone());
        match uid.filter(|_| self.behaviors[&id].is_recreated) {
            Some(uid) => !self.delete_object(id, &uid, attempt, now),
            None => false,
        }
    }

    /// Simulates and handles an object that another operation creates under a hook's name after the name was
    /// checked.
    fn check_taken_place(
        &mut self,
        id: TaskId,
        task: &Task,
        attempt: u32,
        now: i64,
    ) -> Option<ClearingResult> {
        if !task.is_hook() {
            return None;
        }
        if !self.objects.contains_key(&id)
            && let Some(runs) = self.behaviors.get_mut(&id).and_then(|fate| fate.rivals.pop_front())
        {
            self.last_version += 1;
            let object = Object {
                uid: format!("rival-{}", self.last_version),
                version: self.last_version,
                generation: 1,
                written_at: now,
                created_in_attempt: None,
                has_finalizer: false,
                is_suspended: false,
                removed_at: None,
                rival_until: Some(now + runs),
            };
            self.objects.insert(id, object);
        }
        let is_other = |object: &Object| object.rival_until.is_some() && object.created_in_attempt.is_none();
        self.objects.get(&id).filter(|object| is_other(object))?;
        match self.clear_place(id, task, attempt, now) {
            ClearingResult::Clear if self.objects.contains_key(&id) => None,
            clearing => Some(clearing),
        }
    }

    fn apply_object(&mut self, id: TaskId, task: &Task, attempt: u32, now: i64) -> ApplyResponse {
        let version = self.last_version + 1;
        match self.objects.get_mut(&id) {
            // The operation created this hook before a crash, so the hook is adopted.
            Some(object) if task.is_hook() && object.created_in_attempt == Some(attempt) => {}
            // Applying the same manifest has no effect.
            Some(object) if !task.is_hook() && object.created_in_attempt.is_some() => {}
            Some(object) => {
                assert!(
                    !object.is_rival_running(now),
                    "another operation's running hook must not be overwritten"
                );
                self.last_version = version;
                object.version = version;
                object.generation += 1;
                object.written_at = now;
                object.created_in_attempt = Some(attempt);
                self.writes.push(Write { task: id, change: Change::Updated, attempt });
            }
            None => {
                let object = Object {
                    uid: format!("{}-{version}", task.name),
                    version,
                    generation: 1,
                    written_at: now,
                    created_in_attempt: Some(attempt),
                    has_finalizer: task.is_hook(),
                    is_suspended: task.is_hook() && self.behaviors[&id].starts_suspended,
                    removed_at: None,
                    rival_until: None,
                };
                self.last_version = version;
                self.objects.insert(id, object);
                self.writes.push(Write { task: id, change: Change::Created, attempt });
            }
        }
        let observed = self.observe(id, now);
        let object = &self.objects[&id];
        ApplyResponse {
            uid: object.uid.clone(),
            resource_version: object.version.to_string(),
            generation: object.generation,
            message: format!("{} applied", task.name),
            observed,
            warnings: self.behaviors[&id].warnings.clone(),
        }
    }

    /// Returns a written hook if its Job is suspended.
    fn suspended_hook(&self, id: TaskId, applied: &ApplyResponse) -> Option<SuspendedHook> {
        let ApplyResponse { uid, message, warnings, .. } = applied.clone();
        self.objects[&id].is_suspended.then_some(SuspendedHook { uid, message, warnings })
    }

    /// Starts a suspended Job. Starting it again has no effect.
    fn start_hook(
        &mut self,
        id: TaskId,
        task: &Task,
        attempt: u32,
        uid: &str,
        now: i64,
    ) -> Result<Box<ApplyResponse>, CallError> {
        let version = self.last_version + 1;
        let Some(object) = self.objects.get_mut(&id).filter(|object| object.uid == uid) else {
            return Err(CallError::permanent(format!("{} no longer exists", task.name)));
        };
        if std::mem::take(&mut object.is_suspended) {
            (object.version, object.written_at, self.last_version) = (version, now, version);
            object.generation += 1;
            self.writes.push(Write { task: id, change: Change::Started, attempt });
        }
        let applied = self.apply_object(id, task, attempt, now);
        Ok(Box::new(ApplyResponse { message: String::new(), warnings: Vec::new(), ..applied }))
    }

    /// Deletes an object. Returns true if the object no longer exists.
    fn delete_object(&mut self, id: TaskId, uid: &str, attempt: u32, now: i64) -> bool {
        let lingers = self.behaviors[&id].deletion_delay;
        let Some(object) = self.objects.get_mut(&id).filter(|object| object.uid == uid) else { return true };
        assert!(!object.is_rival_running(now), "another operation's running hook must not be deleted");
        object.has_finalizer = false;
        if object.removed_at.is_none() {
            object.removed_at = Some(now.saturating_add(lingers));
            self.writes.push(Write { task: id, change: Change::Deleted(uid.to_owned()), attempt });
        }
        self.remove_expired_objects(now);
        !self.objects.contains_key(&id)
    }

    fn clear_place(&mut self, id: TaskId, task: &Task, attempt: u32, now: i64) -> ClearingResult {
        let Some(object) = self.objects.get(&id) else { return ClearingResult::Clear };
        let (uid, deleting, mark) =
            (object.uid.clone(), object.removed_at.is_some(), object.created_in_attempt);
        if object.is_rival_running(now) {
            let (operation, resource_version) = ("another".to_owned(), object.version.to_string());
            return ClearingResult::Occupied { operation, uid, resource_version };
        }
        if mark == Some(attempt) && !deleting {
            let applied = self.apply_object(id, task, attempt, now);
            return match self.suspended_hook(id, &applied) {
                Some(hook) => ClearingResult::Suspended(hook),
                None => ClearingResult::Adopted(Box::new(applied)),
            };
        }
        let policy =
            task.hook.as_ref().is_some_and(|hook| hook.has_delete_policy(DeletePolicy::BeforeHookCreation));
        if !(policy || mark.is_some() || deleting) || self.delete_object(id, &uid, attempt, now) {
            return ClearingResult::Clear;
        }
        ClearingResult::Deleting { uid }
    }

    fn stop_hook(&mut self, id: TaskId, task: &Task, attempt: u32, now: i64) -> StopResult {
        let absent =
            StopResult { phase: OperationPhase::Succeeded, message: "Terminated".into(), is_gone: true };
        let Some(object) = self.objects.get(&id).filter(|object| object.created_in_attempt == Some(attempt))
        else {
            return absent;
        };
        let uid = object.uid.clone();
        let health = match object.is_suspended {
            true => Some(health_of(HealthStatus::Suspended, "Job is suspended")),
            false => self.behaviors[&id].health_at(now - object.written_at),
        };
        let (phase, message) = match health {
            None => (OperationPhase::Succeeded, String::new()),
            Some(health) => match health.status {
                HealthStatus::Healthy | HealthStatus::Missing => (OperationPhase::Succeeded, health.message),
                HealthStatus::Degraded | HealthStatus::Unknown => (OperationPhase::Failed, health.message),
                HealthStatus::Progressing | HealthStatus::Suspended => {
                    (OperationPhase::Running, health.message)
                }
            },
        };
        let policy = task.hook.as_ref().is_some_and(|hook| hook.has_delete_policy(DeletePolicy::HookFailed));
        let is_gone = phase == OperationPhase::Running || policy;
        if is_gone {
            self.delete_object(id, &uid, attempt, now);
        } else if let Some(object) = self.objects.get_mut(&id) {
            object.has_finalizer = false;
        }
        StopResult { phase, message, is_gone }
    }
}

fn observed_state(object: &Object, fate: &Behavior, now: i64) -> ObservedState {
    let age = now - object.written_at;
    let evidence = match fate.evidence {
        // The controller needs a moment to observe a new spec.
        EvidenceKind::Generation => Evidence::ObservedGeneration(object.generation - i64::from(age < 5)),
        EvidenceKind::Identity => Evidence::Identity,
        EvidenceKind::Nothing => Evidence::None,
    };
    let health = match object.rival_until {
        Some(until) if object.created_in_attempt.is_none() => {
            let status = if until > now { HealthStatus::Progressing } else { HealthStatus::Healthy };
            Some(health_of(status, ""))
        }
        _ if object.is_suspended => Some(health_of(HealthStatus::Suspended, "Job is suspended")),
        _ => fate.health_at(age),
    };
    ObservedState::Present {
        unjudged: fate.has_broken_health_rule
            && health.as_ref().is_some_and(|health| health.status == HealthStatus::Unknown),
        uid: object.uid.clone(),
        resource_version: object.version.to_string(),
        generation: object.generation,
        deleting: object.removed_at.is_some(),
        kept_by: object.removed_at.map_or_else(String::new, |_| fate.kept_by.clone()),
        health,
        evidence,
    }
}
