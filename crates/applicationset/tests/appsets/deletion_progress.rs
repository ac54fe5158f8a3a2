//! Progress of an ApplicationSet's deletion: its actions, and its end after any sequence of events.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;
use tidegate_applicationset::deletion::{AppSetDeletionStep, MemberDeletion};
use tidegate_applicationset::deletion_progress::{DeletionAction, DeletionState, next_deletion_action};
use tidegate_applicationset::ownership::{Owner, owner_of};
use tidegate_applicationset::retry::RetryAnnotation;
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_applicationset::teardown_steps::TeardownStepDue;
use tidegate_lifecycle::fleet::Scope;
use tidegate_lifecycle::teardown::{Input, MemberObservation, ObjectPresence, Progress, State, UserRequest};
use tidegate_model::argo::{Application, ApplicationSet};

use crate::deletion::{appset_with_order, deleted_appset};
use crate::teardown_steps::{after_input, member_of, newest, step_due, user_request};
use crate::{FINALIZER, OneCluster, at};

/// A controller that deletes an ApplicationSet.
struct Controller {
    set: ApplicationSet,
    /// Applications that the ApplicationSet owns.
    existing: Vec<Application>,
    teardown: State,
    is_rollout_running: bool,
    /// True if Kubernetes deletes the remaining Applications after the ApplicationSet.
    collects: bool,
    retry: Option<RetryAnnotation>,
    released: BTreeSet<String>,
    deleted: BTreeSet<String>,
    is_finished: bool,
}

impl Controller {
    fn new(order: &str, collects: bool) -> Self {
        Self {
            set: deleted_appset(appset_with_order(order, &json!({})), &[FINALIZER]),
            existing: vec![member_of("a", "dev"), member_of("b", "prod"), member_of("c", "prod")],
            teardown: State::New,
            is_rollout_running: false,
            collects,
            retry: None,
            released: BTreeSet::new(),
            deleted: BTreeSet::new(),
            is_finished: false,
        }
    }

    fn action(&self) -> DeletionAction {
        let state = DeletionState {
            is_rollout_running: self.is_rollout_running,
            newest: newest(&self.teardown),
            existing: &self.existing,
            is_waiting: &|_| true,
            exists: &|name, uid| {
                self.existing.iter().any(|one| one.metadata.name == name && one.metadata.uid == uid)
            },
        };
        next_deletion_action(&self.set, &state, &OneCluster, &AppSetRuleOptions::default())
    }

    /// Executes the next action. Returns false if the deletion waits for something else.
    fn step(&mut self) -> bool {
        match self.action() {
            DeletionAction::EndRollout => self.is_rollout_running = false,
            DeletionAction::ReleaseSkipped(free)
            | DeletionAction::Step(AppSetDeletionStep::Release(free)) => {
                let names = free.iter().map(|one| one.metadata.name.clone());
                self.released.extend(names);
                self.existing.retain(|one| !self.released.contains(&one.metadata.name));
            }
            DeletionAction::Step(AppSetDeletionStep::TearDown { members, .. }) => {
                let all: Vec<_> = members.into_iter().map(|one| one.application).collect();
                match step_due(&self.set, &all, &self.teardown, self.retry.as_ref()) {
                    TeardownStepDue::Nothing => return false,
                    TeardownStepDue::Start(request) => {
                        self.teardown = after_input(State::New, &Input::Begin(request));
                        self.retry = None;
                    }
                    TeardownStepDue::SendInputs(inputs) => {
                        for input in &inputs {
                            self.teardown = after_input(std::mem::take(&mut self.teardown), input);
                        }
                    }
                }
            }
            DeletionAction::Step(AppSetDeletionStep::Finish { members }) => self.finish(&members),
            DeletionAction::AwaitTeardown | DeletionAction::Step(AppSetDeletionStep::InvalidOrder(_)) => {
                return false;
            }
        }
        true
    }

    fn finish(&mut self, members: &[MemberDeletion]) {
        if self.collects {
            self.deleted.extend(self.existing.iter().map(|one| one.metadata.name.clone()));
            self.is_finished = true;
            return;
        }
        for deletion in members {
            self.delete(&deletion.application.metadata.name);
        }
        self.is_finished = self.existing.iter().all(|one| owner_of(&self.set, one) != Owner::AppSet);
    }

    fn delete(&mut self, name: &str) {
        self.existing.retain(|one| one.metadata.name != name);
        self.deleted.insert(name.to_owned());
    }

    fn input(&mut self, input: &Input) {
        self.teardown = after_input(std::mem::take(&mut self.teardown), input);
    }

    fn request(&mut self, request: UserRequest) {
        self.input(&user_request(request, "ann"));
    }

    /// Returns the names of the Applications that a user has skipped.
    fn skipped(&self) -> BTreeSet<String> {
        let all = self.teardown.teardown().into_iter().flat_map(|teardown| &teardown.members);
        let skipped = all.filter(|(_, member)| matches!(member.progress, Progress::Left(_)));
        skipped.map(|(name, _)| name.clone()).collect()
    }

    /// Completes the deletion of an Application whose turn it is. Returns false if there is none.
    fn complete_one(&mut self) -> bool {
        let State::Running(teardown) = &self.teardown else { return false };
        let mut due = teardown.members.iter().filter(|(_, one)| {
            matches!(one.progress, Progress::Condemned | Progress::Going | Progress::Confirming { .. })
        });
        let Some((name, uid)) = due.next().map(|(name, one)| (name.clone(), one.uid.clone())) else {
            return false;
        };
        self.delete(&name);
        let observation = MemberObservation::Gone;
        self.input(&Input::Observed { member: name.clone(), uid: uid.clone(), observation });
        self.input(&Input::Answered { member: name, uid, presence: Ok(ObjectPresence::Gone) });
        true
    }
}

fn describe(action: &DeletionAction) -> String {
    let names =
        |all: &[Application]| all.iter().map(|one| one.metadata.name.as_str()).collect::<Vec<_>>().join(" ");
    let deletions =
        |all: &[MemberDeletion]| names(&all.iter().map(|one| one.application.clone()).collect::<Vec<_>>());
    match action {
        DeletionAction::EndRollout => "end the rollout".to_owned(),
        DeletionAction::ReleaseSkipped(free) => format!("release skipped {}", names(free)),
        DeletionAction::AwaitTeardown => "await the teardown".to_owned(),
        DeletionAction::Step(AppSetDeletionStep::Release(free)) => format!("release {}", names(free)),
        DeletionAction::Step(AppSetDeletionStep::TearDown { members, .. }) => {
            format!("tear down {}", deletions(members))
        }
        DeletionAction::Step(AppSetDeletionStep::Finish { members }) => {
            format!("finish {}", deletions(members)).trim_end().to_owned()
        }
        DeletionAction::Step(AppSetDeletionStep::InvalidOrder(_)) => "invalid order".to_owned(),
    }
}

fn skip(controller: &mut Controller, name: &str) {
    controller.request(UserRequest::Skip(Scope::Member(name.to_owned())));
}

#[test]
fn every_state_leads_to_the_expected_action() {
    type Prepare = fn(&mut Controller);
    let rows: &[(&str, Prepare, &str)] = &[
        ("a rollout is running", |one| one.is_rollout_running = true, "end the rollout"),
        ("no ordered deletion yet", |_| {}, "tear down a b c"),
        (
            "a running deletion",
            |one| {
                one.step();
            },
            "tear down a b c",
        ),
        (
            "a skipped Application during the deletion",
            |one| {
                one.step();
                skip(one, "a");
            },
            "tear down b c",
        ),
        (
            "a skipped Application after the deletion",
            |one| {
                one.step();
                skip(one, "a");
                while one.complete_one() {}
            },
            "release skipped a",
        ),
        (
            "a terminated deletion",
            |one| {
                one.step();
                one.request(UserRequest::Terminate);
            },
            "tear down a b c",
        ),
        (
            "the Applications are gone, but the deletion has not recorded it",
            |one| {
                one.step();
                one.existing.clear();
            },
            "await the teardown",
        ),
        (
            "the Applications are gone, but the deletion is paused",
            |one| {
                one.step();
                one.request(UserRequest::Pause);
                one.existing.clear();
            },
            "finish",
        ),
        (
            "a paused deletion with a skipped Application",
            |one| {
                one.step();
                one.request(UserRequest::Pause);
                skip(one, "a");
                skip(one, "c");
                while one.complete_one() {}
            },
            "release skipped a c",
        ),
        (
            "the deletion has ended",
            |one| {
                one.step();
                while one.complete_one() {}
            },
            "finish",
        ),
        (
            "the deletion of another ApplicationSet of this name",
            |one| {
                one.step();
                skip(one, "a");
                one.request(UserRequest::Terminate);
                if let State::Finished(teardown) = &mut one.teardown {
                    teardown.uid = "u-before".to_owned();
                }
            },
            "tear down a b c",
        ),
    ];
    for (name, prepare, expected) in rows {
        let mut controller = Controller::new("Reverse", true);
        prepare(&mut controller);
        assert_eq!(describe(&controller.action()), *expected, "{name}");
    }
    assert_eq!(describe(&Controller::new("AllAtOnce", true).action()), "finish a b c");
    assert_eq!(describe(&Controller::new("Backwards", true).action()), "invalid order");
}

#[derive(Clone, Debug)]
enum Event {
    Step,
    CompleteOne,
    Skip(&'static str),
    Pause,
    Resume,
    Terminate,
    Retry,
    /// Another client deletes an Application, and its finalizers are still being handled.
    DeleteElsewhere(&'static str),
    Rollout,
}

fn event() -> impl Strategy<Value = Event> {
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    prop_oneof![
        6 => Just(Event::Step),
        4 => Just(Event::CompleteOne),
        2 => name().prop_map(Event::Skip),
        1 => Just(Event::Pause),
        1 => Just(Event::Resume),
        1 => Just(Event::Terminate),
        1 => Just(Event::Retry),
        1 => name().prop_map(Event::DeleteElsewhere),
        1 => Just(Event::Rollout),
    ]
}

impl Controller {
    fn act(&mut self, event: Event) {
        match event {
            Event::Step => drop(self.step()),
            Event::CompleteOne => drop(self.complete_one()),
            Event::Skip(name) => skip(self, name),
            Event::Pause => self.request(UserRequest::Pause),
            Event::Resume => self.request(UserRequest::Resume),
            Event::Terminate => self.request(UserRequest::Terminate),
            Event::Retry => self.retry(),
            Event::DeleteElsewhere(name) => {
                let one = self.existing.iter_mut().find(|one| one.metadata.name == name);
                if let Some(one) = one {
                    one.metadata.deletion_timestamp = Some(at(61).into());
                }
            }
            Event::Rollout => self.is_rollout_running = true,
        }
    }

    fn complete_foreign_deletions(&mut self) {
        let deleting: Vec<_> = self.existing.iter().filter(|one| one.is_deleting()).cloned().collect();
        deleting.iter().for_each(|one| self.delete(&one.metadata.name));
    }

    fn retry(&mut self) {
        self.retry = Some(RetryAnnotation::new("ann", "", at(0).into(), None));
    }
}

proptest! {
    /// A deletion ends once it is resumed or retried, and never deletes an Application that a user skipped.
    #[test]
    fn any_deletion_ends_and_keeps_the_skipped_applications(
        is_ordered in any::<bool>(),
        collects in any::<bool>(),
        events in prop::collection::vec(event(), 0..40),
    ) {
        let mut controller = Controller::new(if is_ordered { "Reverse" } else { "AllAtOnce" }, collects);
        let mut skipped = BTreeSet::new();
        for event in events {
            if !controller.is_finished {
                controller.act(event);
                skipped.extend(controller.skipped());
            }
        }
        let mut steps = 0;
        while !controller.is_finished {
            steps += 1;
            prop_assert!(steps < 40, "{:?} {:?}", controller.action(), controller.teardown.teardown());
            controller.request(UserRequest::Resume);
            if !is_ordered {
                controller.complete_foreign_deletions();
            }
            if !controller.step() && !controller.complete_one() {
                controller.retry();
            } else {
                controller.complete_one();
            }
        }
        prop_assert!(skipped.is_disjoint(&controller.deleted), "{skipped:?} {:?}", controller.deleted);
        let all = skipped.is_subset(&controller.released) && controller.released.is_subset(&skipped);
        prop_assert!(all, "{skipped:?} {:?}", controller.released);
        prop_assert_eq!(controller.deleted.len() + controller.released.len(), 3);
    }
}
