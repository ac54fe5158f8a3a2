//! Rules that hold for any sequence of inputs, failures and restarts.

use proptest::prelude::*;
use serde_json::json;
use tidegate_application::machine::Input;
use tidegate_application::refresh::RefreshLevel;
use tidegate_model::argo::SyncStatusCode;

use super::{Controller, Task, commit_name};

#[derive(Clone, Debug)]
enum Action {
    Commit,
    ObjectChanged,
    Compare(RefreshLevel),
    Refresh(RefreshLevel),
    Sync,
    Delete,
    /// Completes one of the tasks.
    Complete(usize),
    /// Lets the running comparison fail.
    FailComparison,
    /// The time passes until the alarm goes off.
    Wake,
    Writes {
        fail: bool,
    },
    Cluster {
        is_unknown: bool,
    },
    DeletionOrder {
        holds: bool,
    },
    Restart,
}

fn action() -> impl Strategy<Value = Action> {
    let level = prop_oneof![
        Just(RefreshLevel::Recent),
        Just(RefreshLevel::Latest),
        Just(RefreshLevel::Forced),
        Just(RefreshLevel::Hard)
    ];
    prop_oneof![
        4 => Just(Action::Commit),
        2 => Just(Action::ObjectChanged),
        1 => level.clone().prop_map(Action::Compare),
        2 => level.prop_map(Action::Refresh),
        3 => Just(Action::Sync),
        1 => Just(Action::Delete),
        30 => (0..4usize).prop_map(Action::Complete),
        1 => Just(Action::FailComparison),
        5 => Just(Action::Wake),
        2 => any::<bool>().prop_map(|fail| Action::Writes { fail }),
        2 => any::<bool>().prop_map(|is_unknown| Action::Cluster { is_unknown }),
        1 => any::<bool>().prop_map(|holds| Action::DeletionOrder { holds }),
        3 => Just(Action::Restart),
    ]
}

fn act(controller: &mut Controller, action: Action) {
    match action {
        Action::Commit => {
            controller.commit += 1;
            controller.deliver(Input::Compare(RefreshLevel::Latest));
        }
        Action::ObjectChanged => {
            controller.surroundings.has_unread_changes = true;
            controller.deliver(Input::ObjectChanged);
        }
        Action::Compare(level) => controller.deliver(Input::Compare(level)),
        Action::Refresh(level) => controller.refresh(level),
        Action::Sync => drop(controller.sync()),
        Action::Delete => controller.delete(),
        Action::Complete(index) => {
            let count = controller.tasks.len();
            if count > 0 {
                controller.complete(index % count);
            }
        }
        Action::FailComparison => {
            let index = controller.tasks.iter().position(|task| matches!(task, Task::Comparison { .. }));
            if let Some(Task::Comparison { start, began_at }) =
                index.and_then(|index| controller.tasks.remove(index))
            {
                controller.finish_comparison(*start, began_at, true);
            }
        }
        Action::Wake => {
            if let Some(at) = controller.alarm.take() {
                controller.now = controller.now.max(at);
                controller.deliver(Input::Wake);
            }
        }
        Action::Writes { fail } => controller.are_writes_failing = fail,
        Action::Cluster { is_unknown } => {
            controller.surroundings.is_cluster_unknown = is_unknown;
            controller.deliver(Input::Step);
        }
        Action::DeletionOrder { holds } => {
            controller.surroundings.deletion_order = holds.then(|| "the Applications of step 1".to_owned());
            controller.deliver(Input::Step);
        }
        Action::Restart => controller.restart(),
    }
}

/// Ends all failures.
fn recover(controller: &mut Controller) {
    controller.are_writes_failing = false;
    controller.surroundings = Default::default();
    controller.deliver(Input::Step);
}

proptest! {
    /// At any time, at most one operation runs, none starts before it is durable, and automated sync runs one
    /// operation per commit (`Controller::check`). Once failures end, the controller becomes quiet, every
    /// client has an answer, and the Application is deleted or compared with the newest commit.
    #[test]
    fn any_sequence_ends_in_the_requested_state(
        is_automated in any::<bool>(),
        actions in prop::collection::vec(action(), 1..60),
    ) {
        let policy = if is_automated { json!({"automated": {}}) } else { json!({}) };
        let mut controller = Controller::new(policy);
        controller.deliver(Input::Step);
        for action in actions {
            act(&mut controller, action);
            if controller.is_released {
                break;
            }
        }
        recover(&mut controller);
        controller.settle();
        if !controller.is_released {
            // A client's comparison includes every commit, even if the last one failed.
            controller.refresh(RefreshLevel::Forced);
            controller.settle();
        }
        let is_deleting = controller.app().is_deleting();
        prop_assert_eq!(&controller.unhandled_effects, &Vec::<String>::new());
        prop_assert_eq!(controller.is_released, is_deleting, "a deletion ends");
        prop_assert!(controller.answers.values().all(Option::is_some), "every client has an answer");
        prop_assert_eq!(&controller.app().operation, &None, "every operation ends");
        prop_assert!(controller.log.iter().all(|one| one.finished_at.is_some()));
        if !is_deleting {
            let sync = controller.app().status.sync.clone().unwrap();
            prop_assert_eq!(&sync.revision, &commit_name(controller.commit));
            if is_automated {
                prop_assert_eq!(sync.status, SyncStatusCode::Synced, "automated sync deploys the commit");
                prop_assert_eq!(controller.deployed, controller.commit);
            }
        }
    }

    /// A process that stops after any number of inputs loses nothing: the next one ends in the same state.
    #[test]
    fn a_restart_at_any_point_runs_each_commit_once(commits in 1..4u32, crash_at in 0..40usize) {
        let mut controller = Controller::new(json!({"automated": {}}));
        controller.deliver(Input::Step);
        let mut inputs = 0;
        for number in 1..=commits {
            if number > 1 {
                controller.commit += 1;
                controller.deliver(Input::Compare(RefreshLevel::Latest));
            }
            while !controller.tasks.is_empty() || controller.alarm.is_some() {
                if inputs == crash_at {
                    controller.restart();
                }
                inputs += 1;
                match controller.tasks.is_empty() {
                    false => controller.complete(0),
                    true => act(&mut controller, Action::Wake),
                }
                prop_assert!(inputs < 500, "the controller does not become quiet");
            }
            prop_assert_eq!(controller.deployed, controller.commit);
        }
        prop_assert_eq!(&controller.unhandled_effects, &Vec::<String>::new());
        prop_assert_eq!(controller.log.len(), commits as usize, "each commit was deployed once");
    }
}
