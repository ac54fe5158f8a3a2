//! Next action, shown to users in explanations.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Next action for a user: run a command, change the specification, or wait for an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextAction {
    /// Command to run, if any.
    pub command: Option<String>,
    /// Complete action in words, with commands in backticks.
    pub text: String,
}

impl NextAction {
    /// Creates an action that runs a command, with the command's effect.
    pub fn run(command: impl Into<String>, effect: &str) -> Self {
        let command = command.into();
        Self { text: format!("`{command}` {effect}"), command: Some(command) }
    }

    /// Creates an action without a command, such as a change to the specification.
    pub fn change(text: impl Into<String>) -> Self {
        Self { command: None, text: text.into() }
    }

    /// Creates an action that waits for an event, after which the work continues.
    pub fn wait(event: &str) -> Self {
        Self::nothing(&format!("it continues when {event}"))
    }

    /// Creates an action for a user who only has to wait, with a description of the next event.
    pub fn nothing(course: &str) -> Self {
        Self::change(format!("nothing to do; {course}"))
    }

    /// Adds an alternative or a later action.
    #[must_use]
    pub fn or(mut self, alternative: &str) -> Self {
        self.text.push_str("; ");
        self.text.push_str(alternative);
        self
    }
}

impl fmt::Display for NextAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.text.is_empty() { "nothing to do" } else { &self.text })
    }
}
