//! A cluster of one object per task, and what commands do to it.

use std::collections::BTreeMap;

use tidegate_lifecycle::operation::{
    Answer, Applied, Clearing, HookLog, Pruning, Stopped, TaskCommand, Trial,
};
use tidegate_model::{DeletePolicy, Evidence, HealthStatus, Observed, OperationPhase, Task, TaskId};

use super::fate::{Fate, Proof, Reply, seen};

/// An object in the cluster.
#[derive(Clone, Debug)]
pub struct Object {
    pub uid: String,
    pub version: u64,
    pub generation: i64,
    /// When it was written last.
    pub written_at: i64,
    /// The attempt of this operation that created it.
    pub mark: Option<u32>,
    pub finalizer: bool,
    /// When it goes.
    pub goes_at: Option<i64>,
    /// It is a hook of another operation, which runs until then.
    pub rival_until: Option<i64>,
}

impl Object {
    fn is_rival_at_work(&self, now: i64) -> bool {
        self.rival_until.is_some_and(|until| until > now)
    }
}

/// One change to the cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    pub task: TaskId,
    pub what: Change,
    pub attempt: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Created,
    Updated,
    Deleted(String),
}

#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub objects: BTreeMap<TaskId, Object>,
    /// What the objects looked like before, for old sights.
    pub history: BTreeMap<TaskId, Vec<Observed>>,
    pub audit: Vec<Write>,
    pub fates: BTreeMap<TaskId, Fate>,
    versions: u64,
}

impl Cluster {
    pub fn begin(&mut self, tasks: impl Iterator<Item = (TaskId, Task)>) {
        self.versions = 10;
        for (id, task) in tasks {
            self.fates.entry(id).or_insert_with(|| Fate::of(&task));
            if let Some(live) = &task.live {
                let object = Object {
                    uid: live.uid.clone(),
                    version: 1,
                    generation: 1,
                    written_at: i64::MIN / 2,
                    mark: None,
                    finalizer: false,
                    goes_at: None,
                    rival_until: None,
                };
                self.objects.insert(id, object);
            }
        }
    }

    /// Objects whose time has come go.
    fn tidy(&mut self, now: i64) {
        for (id, object) in &mut self.objects {
            let vanishes = self.fates[id].vanishes.map(|after| object.written_at.saturating_add(after));
            if vanishes.is_some_and(|at| object.mark.is_some() && at <= now) {
                object.goes_at = object.goes_at.or(Some(now));
                object.finalizer = false;
            }
        }
        self.objects
            .retain(|_, object| object.finalizer || object.goes_at.is_none_or(|goes_at| goes_at > now));
    }

    /// What a look shows now.
    pub fn look(&mut self, id: TaskId, now: i64) -> Observed {
        self.tidy(now);
        let Some(object) = self.objects.get(&id) else { return Observed::Gone { uid: None } };
        let observed = show(object, &self.fates[&id], now);
        let history = self.history.entry(id).or_default();
        if history.last() != Some(&observed) {
            history.push(observed.clone());
        }
        observed
    }

    fn reply(
        &mut self,
        id: TaskId,
        queue: impl Fn(&mut Fate) -> &mut std::collections::VecDeque<Reply>,
    ) -> Reply {
        self.fates.get_mut(&id).and_then(|fate| queue(fate).pop_front()).unwrap_or(Reply::Fine)
    }

    /// What an earlier try has left is none of this one.
    pub fn leave_behind(&mut self, id: TaskId, leftover: Option<&str>) {
        let is_it = |object: &&mut Object| leftover == Some(object.uid.as_str());
        if let Some(object) = self.objects.get_mut(&id).filter(is_it) {
            object.mark = Some(0);
        }
    }

    /// Carries out a command, and answers it.
    pub fn carry_out(
        &mut self,
        id: TaskId,
        task: &Task,
        attempt: u32,
        command: &TaskCommand,
        now: i64,
    ) -> Answer {
        self.tidy(now);
        match command {
            TaskCommand::Check => {
                let warnings = self.fates.get(&id).map(|fate| fate.warnings.clone()).unwrap_or_default();
                let trial = Trial { message: format!("{} checked", task.name), warnings };
                Answer::Checked(self.reply(id, |fate| &mut fate.check).into_result(trial))
            }
            TaskCommand::Prune { uid } => {
                let reply = self.reply(id, |fate| &mut fate.write);
                let gone = reply == Reply::Fine && self.delete(id, uid, attempt, now);
                Answer::Pruned(reply.into_result(if gone { Pruning::Gone } else { Pruning::Begun }))
            }
            TaskCommand::ClearHook => match self.reply(id, |fate| &mut fate.write) {
                Reply::Fine => Answer::Cleared(Ok(self.clear(id, task, attempt, now))),
                reply => Answer::Cleared(reply.into_result(Clearing::Clear)),
            },
            TaskCommand::Apply => match self.reply(id, |fate| &mut fate.write) {
                Reply::Fine if self.is_kept(id, attempt, now) => {
                    let uid = self.objects[&id].uid.clone();
                    Answer::Cleared(Ok(Clearing::Deleting { uid }))
                }
                Reply::Fine => match self.lost_place(id, task, attempt, now) {
                    Some(clearing) => Answer::Cleared(Ok(clearing)),
                    None => Answer::Applied(Ok(Box::new(self.apply(id, task, attempt, now)))),
                },
                reply => Answer::Applied(reply.into_result(()).map(|()| unreachable!())),
            },
            TaskCommand::RunHook { .. } => {
                Answer::Ran { success: self.fates[&id].runs, message: "ran".into() }
            }
            TaskCommand::ReleaseHook { uid } => {
                let reply = self.reply(id, |fate| &mut fate.end);
                if let (Reply::Fine, Some(object)) = (&reply, self.objects.get_mut(&id)) {
                    object.finalizer &= object.uid != *uid;
                }
                Answer::Released(reply.into_result(()))
            }
            TaskCommand::DeleteHook { uid } => {
                let reply = self.reply(id, |fate| &mut fate.end);
                if reply == Reply::Fine {
                    self.delete(id, uid, attempt, now);
                }
                Answer::Deleted(reply.into_result(()))
            }
            TaskCommand::StopHook => match self.reply(id, |fate| &mut fate.end) {
                Reply::Fine => Answer::Stopped(Ok(self.stop(id, task, attempt, now))),
                reply => Answer::Stopped(reply.into_result(()).map(|()| unreachable!())),
            },
            TaskCommand::ReadLogs => {
                let text = self.fates[&id].log.clone().filter(|_| self.objects.contains_key(&id));
                let log = |text| HookLog { pod: format!("{}-x", task.name), container: "main".into(), text };
                Answer::LogsRead { reason: String::new(), logs: text.map(log).into_iter().collect() }
            }
        }
    }

    /// Whether an object that is to be created again was told to go, and is still there.
    fn is_kept(&mut self, id: TaskId, attempt: u32, now: i64) -> bool {
        let old = |object: &&Object| object.mark.is_none();
        let uid = self.objects.get(&id).filter(old).map(|object| object.uid.clone());
        match uid.filter(|_| self.fates[&id].recreated) {
            Some(uid) => !self.delete(id, &uid, attempt, now),
            None => false,
        }
    }

    /// What is to be done about an object that came into a hook's place after that was found clear.
    fn lost_place(&mut self, id: TaskId, task: &Task, attempt: u32, now: i64) -> Option<Clearing> {
        if !task.is_hook() {
            return None;
        }
        if !self.objects.contains_key(&id)
            && let Some(runs) = self.fates.get_mut(&id).and_then(|fate| fate.rivals.pop_front())
        {
            self.versions += 1;
            let object = Object {
                uid: format!("rival-{}", self.versions),
                version: self.versions,
                generation: 1,
                written_at: now,
                mark: None,
                finalizer: false,
                goes_at: None,
                rival_until: Some(now + runs),
            };
            self.objects.insert(id, object);
        }
        let is_other = |object: &Object| object.rival_until.is_some() && object.mark.is_none();
        self.objects.get(&id).filter(|object| is_other(object))?;
        match self.clear(id, task, attempt, now) {
            Clearing::Clear if self.objects.contains_key(&id) => None,
            clearing => Some(clearing),
        }
    }

    fn apply(&mut self, id: TaskId, task: &Task, attempt: u32, now: i64) -> Applied {
        let version = self.versions + 1;
        match self.objects.get_mut(&id) {
            // Our own hook, from before a crash.
            Some(object) if task.is_hook() && object.mark == Some(attempt) => {}
            // The same manifest changes nothing.
            Some(object) if !task.is_hook() && object.mark.is_some() => {}
            Some(object) => {
                assert!(!object.is_rival_at_work(now), "the hook of another operation is written over");
                self.versions = version;
                object.version = version;
                object.generation += 1;
                object.written_at = now;
                object.mark = Some(attempt);
                self.audit.push(Write { task: id, what: Change::Updated, attempt });
            }
            None => {
                let object = Object {
                    uid: format!("{}-{version}", task.name),
                    version,
                    generation: 1,
                    written_at: now,
                    mark: Some(attempt),
                    finalizer: task.is_hook(),
                    goes_at: None,
                    rival_until: None,
                };
                self.versions = version;
                self.objects.insert(id, object);
                self.audit.push(Write { task: id, what: Change::Created, attempt });
            }
        }
        let observed = self.look(id, now);
        let object = &self.objects[&id];
        Applied {
            uid: object.uid.clone(),
            resource_version: object.version.to_string(),
            generation: object.generation,
            message: format!("{} applied", task.name),
            observed,
            warnings: self.fates[&id].warnings.clone(),
        }
    }

    /// Whether it is gone already.
    fn delete(&mut self, id: TaskId, uid: &str, attempt: u32, now: i64) -> bool {
        let lingers = self.fates[&id].lingers;
        let Some(object) = self.objects.get_mut(&id).filter(|object| object.uid == uid) else { return true };
        assert!(!object.is_rival_at_work(now), "the hook of another operation is cut off");
        object.finalizer = false;
        if object.goes_at.is_none() {
            object.goes_at = Some(now.saturating_add(lingers));
            self.audit.push(Write { task: id, what: Change::Deleted(uid.to_owned()), attempt });
        }
        self.tidy(now);
        !self.objects.contains_key(&id)
    }

    fn clear(&mut self, id: TaskId, task: &Task, attempt: u32, now: i64) -> Clearing {
        let Some(object) = self.objects.get(&id) else { return Clearing::Clear };
        let (uid, deleting, mark) = (object.uid.clone(), object.goes_at.is_some(), object.mark);
        if object.is_rival_at_work(now) {
            let (operation, resource_version) = ("another".to_owned(), object.version.to_string());
            return Clearing::Taken { operation, uid, resource_version };
        }
        if mark == Some(attempt) && !deleting {
            return Clearing::Adopted(Box::new(self.apply(id, task, attempt, now)));
        }
        let policy = task.hook.as_ref().is_some_and(|hook| hook.deletes(DeletePolicy::BeforeHookCreation));
        if !(policy || mark.is_some() || deleting) || self.delete(id, &uid, attempt, now) {
            return Clearing::Clear;
        }
        Clearing::Deleting { uid }
    }

    fn stop(&mut self, id: TaskId, task: &Task, attempt: u32, now: i64) -> Stopped {
        let absent = Stopped { phase: OperationPhase::Succeeded, message: "Terminated".into(), gone: true };
        let Some(object) = self.objects.get(&id).filter(|object| object.mark == Some(attempt)) else {
            return absent;
        };
        let uid = object.uid.clone();
        let health = self.fates[&id].health_at(now - object.written_at);
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
        let policy = task.hook.as_ref().is_some_and(|hook| hook.deletes(DeletePolicy::HookFailed));
        let gone = phase == OperationPhase::Running || policy;
        if gone {
            self.delete(id, &uid, attempt, now);
        } else if let Some(object) = self.objects.get_mut(&id) {
            object.finalizer = false;
        }
        Stopped { phase, message, gone }
    }
}

fn show(object: &Object, fate: &Fate, now: i64) -> Observed {
    let age = now - object.written_at;
    let evidence = match fate.proof {
        // The controller needs a moment to notice a new spec.
        Proof::Generation => Evidence::ObservedGeneration(object.generation - i64::from(age < 5)),
        Proof::Identity => Evidence::Identity,
        Proof::Nothing => Evidence::None,
    };
    let health = match object.rival_until {
        Some(until) if object.mark.is_none() => {
            let status = if until > now { HealthStatus::Progressing } else { HealthStatus::Healthy };
            Some(seen(status, ""))
        }
        _ => fate.health_at(age),
    };
    Observed::Present {
        unjudged: fate.broken && health.as_ref().is_some_and(|health| health.status == HealthStatus::Unknown),
        uid: object.uid.clone(),
        resource_version: object.version.to_string(),
        generation: object.generation,
        deleting: object.goes_at.is_some(),
        kept_by: object.goes_at.map_or_else(String::new, |_| fate.kept_by.clone()),
        health,
        evidence,
    }
}
