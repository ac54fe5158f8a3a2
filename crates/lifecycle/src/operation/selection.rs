//! Selection of an operation's tasks by name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidegate_model::{Phase, Task, TaskId, WaveNumbers};

use super::event::WaveName;
use super::state::Operation;

/// Part of an operation that a request applies to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scope {
    /// One task.
    Task(TaskSelector),
    /// The unfinished tasks in a wave.
    Wave(WaveSelector),
}

/// A task, identified by its object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskSelector {
    /// Kind of the object, case-insensitive.
    pub kind: String,
    /// API group. `None` matches any group.
    pub group: Option<String>,
    /// `metadata.name` of the object.
    pub name: String,
    /// Namespace. `None` matches any namespace.
    pub namespace: Option<String>,
    /// Phase of the task, for a hook that runs in several phases. `None` matches any phase.
    pub phase: Option<Phase>,
}

/// A wave, identified by its number in the plan, or by its phase and its number within that phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WaveSelector {
    /// Number in the plan, starting at 1, as in explanations.
    Number(u32),
    /// Name, such as `Sync/1`.
    Named(WaveName),
}

/// Reason why a string doesn't identify a task or a wave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScope {
    /// The string is not a valid task name.
    #[error("invalid task {0:?}: use KIND/NAME or KIND.GROUP/NAME, such as Deployment/api")]
    Task(String),
    /// The string is not a valid wave name.
    #[error(
        "invalid wave {0:?}: use PHASE/NUMBER, such as Sync/1, or the wave's number in the plan, starting \
         at 1"
    )]
    Wave(String),
    /// Both a task and a wave are specified, or neither.
    #[error("name either a task or a wave")]
    Neither,
    /// The string is not a phase.
    #[error("invalid phase {0:?}: use PreSync, Sync, PostSync, SyncFail, PreDelete or PostDelete")]
    Phase(String),
}

impl Scope {
    /// Parses a user's input: either a task such as `Deployment/api`, optionally with a namespace and a
    /// phase, or a wave such as `Sync/1`.
    pub fn parse(
        task: Option<&str>,
        namespace: Option<&str>,
        phase: Option<&str>,
        wave: Option<&str>,
    ) -> Result<Self, InvalidScope> {
        match (task, wave) {
            (Some(task), None) => {
                let phase = phase.map(parse_phase).transpose()?;
                Ok(Self::Task(TaskSelector {
                    namespace: namespace.map(str::to_owned),
                    phase,
                    ..task.parse()?
                }))
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

/// Parses `Deployment/api` or `Deployment.apps/api`, in any namespace and phase.
impl FromStr for TaskSelector {
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

impl FromStr for WaveSelector {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        let invalid = || InvalidScope::Wave(text.to_owned());
        match text.split_once('/') {
            None => text.parse().ok().filter(|number| *number > 0).map(Self::Number).ok_or_else(invalid),
            Some((phase, wave)) => {
                let wave = wave.parse().map_err(|_| invalid())?;
                Ok(Self::Named(WaveName { phase: parse_phase(phase)?, wave }))
            }
        }
    }
}

/// Parses the name of a phase, ignoring case.
fn parse_phase(text: &str) -> Result<Phase, InvalidScope> {
    use Phase::{PostDelete, PostSync, PreDelete, PreSync, Sync, SyncFail};
    [PreSync, Sync, PostSync, SyncFail, PreDelete, PostDelete]
        .into_iter()
        .find(|phase| phase.to_string().eq_ignore_ascii_case(text))
        .ok_or_else(|| InvalidScope::Phase(text.to_owned()))
}

impl fmt::Display for TaskSelector {
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

impl fmt::Display for WaveSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "wave {number}"),
            Self::Named(WaveName { phase, wave }) => write!(f, "wave {phase}/{wave}"),
        }
    }
}

impl TaskSelector {
    fn matches(&self, task: &Task) -> bool {
        let is_any =
            |selected: &Option<String>, name: &str| selected.as_ref().is_none_or(|selected| selected == name);
        self.kind.eq_ignore_ascii_case(&task.gvk.kind)
            && self.name == task.name
            && is_any(&self.group, &task.gvk.group)
            && is_any(&self.namespace, &task.namespace)
            && self.phase.is_none_or(|phase| phase == task.phase)
    }
}

impl WaveSelector {
    fn matches(self, index: u32, name: WaveName) -> bool {
        match self {
            Self::Number(number) => number.checked_sub(1) == Some(index),
            Self::Named(named) => named == name,
        }
    }
}

impl Operation {
    /// Returns the tasks with the given name. An ambiguous name matches several tasks.
    pub(super) fn find_tasks(&self, name: &TaskSelector) -> Vec<TaskId> {
        self.plan.tasks_with_ids().filter(|(_, task)| name.matches(task)).map(|(id, _)| id).collect()
    }

    /// Returns the tasks in a wave, or `None` if the wave doesn't exist.
    pub(super) fn find_wave_tasks(&self, choice: WaveSelector) -> Option<Vec<TaskId>> {
        let names = (0..).zip(self.wave_names());
        let waves = names.zip(&self.plan.waves).filter(|((index, name), _)| choice.matches(*index, *name));
        let mut waves = waves.peekable();
        waves.peek()?;
        Some(waves.flat_map(|(_, wave)| wave.task_ids()).collect())
    }

    /// Returns the wave numbers to show to users.
    pub(super) fn wave_numbers(&self) -> WaveNumbers {
        self.plan.wave_numbers(self.header.request.deletion.is_some())
    }

    /// Returns the names of all waves, in plan order.
    pub(super) fn wave_names(&self) -> impl Iterator<Item = WaveName> {
        let numbers = self.wave_numbers();
        self.plan.waves.iter().map(move |wave| WaveName::from_planned(wave, &numbers))
    }

    /// Returns the name of a wave, given its position in the plan.
    pub(super) fn wave_name(&self, index: u32) -> Option<WaveName> {
        Some(WaveName::from_planned(self.wave(index)?, &self.wave_numbers()))
    }

    pub(super) fn wave_index_of(&self, id: TaskId) -> Option<u32> {
        let waves = (0..).zip(&self.plan.waves);
        let mut found =
            waves.filter(|(_, wave)| (wave.first..wave.first.saturating_add(wave.count)).contains(&id.0));
        found.next().map(|(index, _)| index)
    }
}
