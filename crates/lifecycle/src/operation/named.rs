//! Which tasks of an operation a person means.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidegate_model::{Phase, Task, TaskId, WaveNumbers};

use super::event::WaveName;
use super::state::Operation;

/// What a wish about part of an operation is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// One task.
    Task(TaskName),
    /// Those of a wave that are not done.
    Wave(WaveChoice),
}

/// A task by the name of its object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskName {
    /// Its kind, in whatever case.
    pub kind: String,
    /// Its API group; any if not said.
    pub group: Option<String>,
    /// `metadata.name`.
    pub name: String,
    /// Its namespace; any if not said.
    pub namespace: Option<String>,
    /// The phase of the task, for a hook that runs in several; any if not said.
    pub phase: Option<Phase>,
}

/// A wave, by its number in the plan or by its phase and number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WaveChoice {
    /// Its number in the plan, from 1, as explanations count.
    Number(u32),
    /// `Sync/1`.
    Named(WaveName),
}

/// A text that names no task, or no wave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScope {
    /// No task can have this name.
    #[error("{0:?} names no object; write KIND/NAME or KIND.GROUP/NAME, such as Deployment/api")]
    Task(String),
    /// No wave can have this name.
    #[error("{0:?} names no wave; write PHASE/NUMBER, such as Sync/1, or its number in the plan, from 1")]
    Wave(String),
    /// Both, or neither.
    #[error("say one of the two: a task, or a wave")]
    Neither,
    /// There is no such phase.
    #[error("{0:?} is no phase; there are PreSync, Sync, PostSync, SyncFail, PreDelete and PostDelete")]
    Phase(String),
}

impl Scope {
    /// What people say: `Deployment/api` (with its namespace and phase where that is not enough), or `Sync/1`.
    pub fn of_words(
        task: Option<&str>,
        namespace: Option<&str>,
        phase: Option<&str>,
        wave: Option<&str>,
    ) -> Result<Self, InvalidScope> {
        match (task, wave) {
            (Some(task), None) => {
                let phase = phase.map(phase_named).transpose()?;
                Ok(Self::Task(TaskName { namespace: namespace.map(str::to_owned), phase, ..task.parse()? }))
            }
            (None, Some(wave)) if namespace.is_none() && phase.is_none() => Ok(Self::Wave(wave.parse()?)),
            _ => Err(InvalidScope::Neither),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(name) => name.fmt(f),
            Self::Wave(choice) => choice.fmt(f),
        }
    }
}

/// `Deployment/api`, or `Deployment.apps/api`, in any namespace and phase.
impl FromStr for TaskName {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        let parts = text.split_once('/').filter(|(kind, name)| !kind.is_empty() && !name.is_empty());
        let (kind, name) = parts.ok_or_else(|| InvalidScope::Task(text.to_owned()))?;
        let (kind, group) = match kind.split_once('.') {
            Some((kind, group)) => (kind, Some(group.to_owned())),
            None => (kind, None),
        };
        Ok(Self { kind: kind.to_owned(), group, name: name.to_owned(), namespace: None, phase: None })
    }
}

impl FromStr for WaveChoice {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        let invalid = || InvalidScope::Wave(text.to_owned());
        match text.split_once('/') {
            None => text.parse().ok().filter(|number| *number > 0).map(Self::Number).ok_or_else(invalid),
            Some((phase, wave)) => {
                let wave = wave.parse().map_err(|_| invalid())?;
                Ok(Self::Named(WaveName { phase: phase_named(phase)?, wave }))
            }
        }
    }
}

/// The phase with this name, in whatever case.
fn phase_named(text: &str) -> Result<Phase, InvalidScope> {
    use Phase::{PostDelete, PostSync, PreDelete, PreSync, Sync, SyncFail};
    [PreSync, Sync, PostSync, SyncFail, PreDelete, PostDelete]
        .into_iter()
        .find(|phase| phase.to_string().eq_ignore_ascii_case(text))
        .ok_or_else(|| InvalidScope::Phase(text.to_owned()))
}

impl fmt::Display for TaskName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if let Some(group) = &self.group {
            write!(f, ".{group}")?;
        }
        write!(f, "/{}", self.name)?;
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for WaveChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "wave {number}"),
            Self::Named(WaveName { phase, wave }) => write!(f, "wave {phase}/{wave}"),
        }
    }
}

impl TaskName {
    fn is_of(&self, task: &Task) -> bool {
        let is_any =
            |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|wanted| wanted == found);
        self.kind.eq_ignore_ascii_case(&task.gvk.kind)
            && self.name == task.name
            && is_any(&self.group, &task.gvk.group)
            && is_any(&self.namespace, &task.namespace)
            && self.phase.is_none_or(|phase| phase == task.phase)
    }
}

impl WaveChoice {
    fn is_of(self, index: u32, name: WaveName) -> bool {
        match self {
            Self::Number(number) => number.checked_sub(1) == Some(index),
            Self::Named(named) => named == name,
        }
    }
}

impl Operation {
    /// The tasks with this name: more than one where the name says too little.
    pub(super) fn tasks_named(&self, name: &TaskName) -> Vec<TaskId> {
        self.plan.enumerate().filter(|(_, task)| name.is_of(task)).map(|(id, _)| id).collect()
    }

    /// The tasks of the wave with this name; `None` where there is no such wave.
    pub(super) fn wave_named(&self, choice: WaveChoice) -> Option<Vec<TaskId>> {
        let names = (0..).zip(self.wave_names());
        let waves = names.zip(&self.plan.waves).filter(|((index, name), _)| choice.is_of(*index, *name));
        let mut waves = waves.peekable();
        waves.peek()?;
        Some(waves.flat_map(|(_, wave)| wave.task_ids()).collect())
    }

    /// By which numbers people know its waves.
    pub(super) fn wave_numbers(&self) -> WaveNumbers {
        self.plan.wave_numbers(self.header.request.deletion.is_some())
    }

    /// The names of all its waves, in their order.
    pub(super) fn wave_names(&self) -> impl Iterator<Item = WaveName> {
        let numbers = self.wave_numbers();
        self.plan.waves.iter().map(move |wave| WaveName::of(wave, &numbers))
    }

    /// The name of a wave, by its place in the plan.
    pub(super) fn wave_name(&self, index: u32) -> Option<WaveName> {
        Some(WaveName::of(self.wave(index)?, &self.wave_numbers()))
    }

    /// Position of the wave that a task belongs to.
    pub(super) fn wave_of(&self, id: TaskId) -> Option<u32> {
        let waves = (0..).zip(&self.plan.waves);
        let mut found =
            waves.filter(|(_, wave)| (wave.first..wave.first.saturating_add(wave.count)).contains(&id.0));
        found.next().map(|(index, _)| index)
    }
}
