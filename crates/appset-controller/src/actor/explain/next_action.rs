//! Next action for an ApplicationSet, unless a rollout or deletion determines it.

use tidegate_applicationset::rollout::qualified_name;
use tidegate_lifecycle::NextAction;
use tidegate_lifecycle::fleet::Explanation;
use tidegate_views::appset_actions::HeldDeletions;

use super::ActorState;

/// Problems and pending work of an ApplicationSet, most urgent first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position<'a> {
    /// Full name of the ApplicationSet.
    pub appset: &'a str,
    /// Deletions that are waiting for approval.
    pub held: Option<&'a HeldDeletions>,
    /// True if the ApplicationSet is invalid, or its Applications couldn't be generated.
    pub is_invalid: bool,
    /// State of the rollout or deletion.
    pub run: Option<&'a Explanation>,
    /// Number of unchanged Applications.
    pub refused: usize,
}

impl ActorState {
    /// Returns the next action.
    pub(super) fn next_action(
        &self,
        held: Option<&HeldDeletions>,
        is_invalid: bool,
        run: Option<&Explanation>,
    ) -> NextAction {
        let set = qualified_name(&self.set);
        next_action(Position { appset: &set, held, is_invalid, run, refused: self.results.refused.len() })
    }

    /// Returns the next action for a finished rollout or deletion.
    pub(super) fn restart_action(&self, is_incomplete: bool) -> NextAction {
        let retry = format!("tidegate appset retry {}", qualified_name(&self.set));
        match self.describe_restart() {
            Some(attempt) => NextAction::nothing(&attempt),
            None if is_incomplete => NextAction::run(retry, "restarts the run once the cause is fixed"),
            None => NextAction::nothing("the next rollout starts when the targets change"),
        }
    }
}

fn next_action(position: Position<'_>) -> NextAction {
    let Position { appset: set, held, is_invalid, run, refused } = position;
    match (held, run) {
        (Some(held), _) => NextAction::run(
            format!("tidegate appset approve {set} --deletions {}", held.token),
            "permits the blocked deletions",
        ),
        (None, _) if is_invalid => {
            let refresh = format!("`tidegate appset refresh {set}` then runs its generators again");
            NextAction::change("fix the reported problem").or(&refresh)
        }
        (None, Some(run)) => run.action.clone(),
        (None, None) if refused > 0 => NextAction::run(
            format!("tidegate appset status {set}"),
            "lists the Applications that are left unchanged, with the reasons",
        ),
        (None, None) => NextAction::nothing("changes are applied when the generators detect them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_has_a_next_action() {
        let held = HeldDeletions { token: "3c1f".to_owned(), ..HeldDeletions::default() };
        let run: Explanation = serde_json::from_value(serde_json::json!({
            "position": "", "progress": "", "awaited": [], "warnings": [], "unselected": [], "at": "2026-01-01T00:00:00Z",
            "nextAction": {"command": "tidegate appset resume fleet", "text": "`tidegate appset resume fleet` continues the rollout"},
        }))
        .unwrap();
        let none = Position { appset: "fleet", held: None, is_invalid: false, run: None, refused: 0 };
        for (position, expected) in [
            (
                Position { held: Some(&held), is_invalid: true, ..none },
                "`tidegate appset approve fleet --deletions 3c1f` permits the blocked deletions",
            ),
            (
                Position { is_invalid: true, run: Some(&run), ..none },
                "fix the reported problem; `tidegate appset refresh fleet` then runs its generators again",
            ),
            (Position { run: Some(&run), ..none }, "`tidegate appset resume fleet` continues the rollout"),
            (
                Position { refused: 2, ..none },
                "`tidegate appset status fleet` lists the Applications that are left unchanged, with the reasons",
            ),
            (none, "nothing to do; changes are applied when the generators detect them"),
        ] {
            assert_eq!(next_action(position).to_string(), expected);
        }
    }
}
