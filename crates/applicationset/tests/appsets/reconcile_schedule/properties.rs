//! Rules that hold for any sequence of inputs, failures and restarts.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_applicationset::reconcile_schedule::ScheduleInput;
use tidegate_applicationset::triggers::ReconcileTrigger;

use super::{Controller, PassResult};

#[derive(Clone, Copy, Debug)]
enum Action {
    Input(ScheduleInput),
    /// A user approves deletions.
    Approve,
    Complete(PassResult),
    /// The time advances to the next alarm.
    Wake,
    Elapse(u64),
    Log {
        is_readable: bool,
    },
    Usable(bool),
    Interval(Option<u64>),
    Delete,
    Restart,
}

fn action() -> impl Strategy<Value = Action> {
    let input = prop::sample::select(vec![
        ScheduleInput::Triggered(ReconcileTrigger::Ignore),
        ScheduleInput::Triggered(ReconcileTrigger::Status),
        ScheduleInput::Triggered(ReconcileTrigger::Reconcile),
        ScheduleInput::InputsChanged,
        ScheduleInput::Refresh,
        ScheduleInput::AppSetChanged,
        ScheduleInput::MachineLost,
    ]);
    let result = prop::sample::select(vec![
        PassResult::Complete,
        PassResult::Complete,
        PassResult::Failed,
        PassResult::Written,
        PassResult::Outdated,
        PassResult::Unresolved,
        PassResult::Invalid,
        PassResult::AwaitsComparison,
    ]);
    prop_oneof![
        12 => input.prop_map(Action::Input),
        2 => Just(Action::Approve),
        12 => result.prop_map(Action::Complete),
        8 => Just(Action::Wake),
        2 => (0..2000u64).prop_map(Action::Elapse),
        2 => any::<bool>().prop_map(|is_readable| Action::Log { is_readable }),
        1 => any::<bool>().prop_map(Action::Usable),
        1 => prop::option::of(1..120u64).prop_map(Action::Interval),
        1 => Just(Action::Delete),
        2 => Just(Action::Restart),
    ]
}

fn act(controller: &mut Controller, action: Action) {
    match action {
        Action::Input(input) => controller.deliver(input),
        Action::Approve => {
            controller.apply(ScheduleInput::Abort);
            controller.deliver(ScheduleInput::Triggered(ReconcileTrigger::Reconcile));
        }
        Action::Complete(result) => controller.complete(result),
        Action::Wake => drop(controller.wake()),
        Action::Elapse(millis) => controller.now = controller.now + Duration::from_millis(millis),
        Action::Log { is_readable } => controller.is_log_readable = is_readable,
        Action::Usable(is_usable) => {
            controller.phase.is_usable = is_usable;
            controller.deliver(ScheduleInput::AppSetChanged);
        }
        Action::Interval(seconds) => controller.interval = seconds.map(Duration::from_secs),
        Action::Delete => {
            controller.phase.is_deleting = true;
            controller.deliver(ScheduleInput::AppSetChanged);
        }
        Action::Restart => controller.restart(),
    }
}

/// Ends all failures, and checks that no change was lost.
fn check_end(controller: &mut Controller) -> Result<(), TestCaseError> {
    controller.is_log_readable = true;
    if !controller.phase.is_usable {
        controller.phase.is_usable = true;
        controller.deliver(ScheduleInput::AppSetChanged);
    }
    controller.settle();
    prop_assert!(!controller.schedule.is_recall_pending(), "all machines are known");
    if controller.phase.is_deleting {
        prop_assert!(controller.deletion_steps > 0, "the deletion progresses");
        return Ok(());
    }
    let (included, required) = (controller.included, controller.required);
    let is_included = included.compared >= required.compared
        && included.generated >= required.generated
        && included.fetched >= required.fetched;
    prop_assert!(is_included, "{included:?} lacks {required:?}");
    Ok(())
}

proptest! {
    /// At any time, at most one pass runs, and none during a deletion or while the ApplicationSet is invalid
    /// (`Controller::step`). Once failures end, the controller becomes quiet, and every change is included in
    /// a successful pass that started after it.
    #[test]
    fn any_sequence_includes_every_change(actions in prop::collection::vec(action(), 1..60)) {
        let mut controller = Controller::new();
        for action in actions {
            act(&mut controller, action);
        }
        check_end(&mut controller)?;
    }

    /// A process that stops after any number of inputs loses nothing.
    #[test]
    fn a_restart_at_any_point_loses_no_change(
        actions in prop::collection::vec(action(), 1..30),
        crash_at in 0..30usize,
    ) {
        let mut controller = Controller::new();
        for (index, action) in actions.into_iter().enumerate() {
            if index == crash_at {
                controller.restart();
                prop_assert_eq!(&controller.schedule.running_pass().is_some(), &can_run(&controller));
            }
            act(&mut controller, action);
        }
        check_end(&mut controller)?;
    }
}

fn can_run(controller: &Controller) -> bool {
    controller.phase.is_usable && !controller.phase.is_deleting
}
