//! Every state combined with every input, and every state combined with every event.

use tidegate_lifecycle::fleet::{Assignment, MaxUpdate, Scope};
use tidegate_lifecycle::teardown::{
    Approval, End, Event, Input, MemberObservation, MemberRecord, ObjectPresence, Options, Order,
    OrderedDeletion, Rejection, Request, Stage, State, UserRequest, advance, apply, decide, outstanding,
};
use tidegate_model::LogRecord as _;

use super::order::selection_of;
use super::world::{member_spec, uid_of};
use crate::build::*;
use crate::common::variant_name;
use crate::machines::decide_legally;

/// Names of the Applications. Each Application is in the state it is named after.
pub const MEMBER_NAMES: [&str; 7] = ["condemned", "confirming", "going", "gone", "left", "next", "waiting"];

fn sample_request() -> Request {
    let mut first = selection_of("env in dev");
    first.max_update = MaxUpdate::Count(0);
    let of = |name: &&str| member_spec(name, if *name == "next" { "" } else { "env=dev" });
    Request {
        set: "argocd/fleet".into(),
        uid: "uid-1".into(),
        by: "ann".into(),
        order: Order::Custom { steps: vec![first] },
        members: MEMBER_NAMES.iter().map(of).collect(),
        options: Options { deadline: Some(seconds(60)), ..Options::default() },
        kept_members: std::collections::BTreeMap::new(),
        approved: None,
    }
}

fn begun_event() -> Event {
    decide(&State::New, &Input::Begin(Box::new(sample_request())), at(0)).unwrap().remove(0)
}

/// Returns the first event of a witnessed deletion.
fn witnessed_begun_event(order: Order) -> Event {
    let request = Request { order, members: vec![member_spec("waiting", "")], ..sample_request() };
    decide(&State::New, &Input::Begin(Box::new(request)), at(0)).unwrap().remove(0)
}

/// Returns states of witnessed deletions. Running deletions have an Application in every state.
pub fn witnessed_states() -> Vec<(&'static str, State)> {
    let members = ["going", "gone", "released", "waiting"].map(|name| member_spec(name, ""));
    let started = |order| {
        let request = Request { order, members: members.to_vec(), ..sample_request() };
        decide(&State::New, &Input::Begin(Box::new(request)), at(0)).unwrap().remove(0)
    };
    let at_work = |order| {
        vec![
            started(order),
            moved_event(0),
            Event::DeletionStarted { member: "going".into(), at: at(3) },
            Event::Deleted { member: "gone".into(), at: at(3) },
            Event::Released { member: "released".into(), at: at(4) },
        ]
    };
    let finished = Event::Finished { end: End::Error, message: "over".into(), at: at(9) };
    vec![
        ("Begun", fold_events([started(Order::Collected)])),
        ("Collected", fold_events(at_work(Order::Collected))),
        ("Orphaned", fold_events(at_work(Order::Orphaned))),
        ("Finished", fold_events([at_work(Order::Orphaned), vec![finished]].concat())),
    ]
}

/// A witnessed deletion only records observations, and never sends requests.
#[test]
fn a_witnessed_deletion_only_records_observations() {
    for (name, state) in witnessed_states() {
        for member in ["going", "gone", "released", "waiting"] {
            for (event, _) in member_events(member)
                .into_iter()
                .chain([(Event::Released { member: member.into(), at: at(9) }, "")])
            {
                let may_be = matches!(name, "Collected" | "Orphaned")
                    && matches!(
                        (&event, member),
                        (
                            Event::DeletionStarted { .. } | Event::Deleted { .. } | Event::Released { .. },
                            "waiting"
                        ) | (
                            Event::DeletionBlocked { .. } | Event::Deleted { .. } | Event::Released { .. },
                            "going"
                        )
                    );
                assert_eq!(
                    apply(state.clone(), &event).is_ok(),
                    may_be,
                    "{} in {name}: {event:?}",
                    event_name(&event)
                );
            }
        }
        let outstanding = outstanding(&state, at(10)).commands;
        let is_watch = |one: &tidegate_lifecycle::teardown::Command| one.is_subscription();
        let watched = if matches!(name, "Collected" | "Orphaned") { 2 } else { 0 };
        assert!(outstanding.iter().all(is_watch) && outstanding.len() == watched, "{name}: {outstanding:?}");
        if state.is_finished() {
            continue;
        }
        for request in [
            UserRequest::Pause,
            UserRequest::Resume,
            UserRequest::Terminate,
            UserRequest::Skip(Scope::Member("waiting".into())),
        ] {
            let input = Input::UserRequest { request, by: "ann".into(), reason: String::new() };
            assert_eq!(decide(&state, &input, at(10)), Err(Rejection::Witnessed), "{name}");
        }
    }
}

fn sample_approval(token: &str) -> Approval {
    Approval { token: token.into(), said: attribution("cia") }
}

fn moved_event(step: u32) -> Event {
    Event::Moved { to: Stage::Deleting { step }, at: at(1) }
}

fn condemned_event(name: &str) -> Event {
    Event::DeletionScheduled { member: name.into(), at: at(2) }
}

fn fold_events(events: impl IntoIterator<Item = Event>) -> State {
    events.into_iter().fold(State::New, |state, event| apply(state, &event).unwrap())
}

/// Returns every state with its name. A state with a running step has an Application in every possible state.
pub fn representatives() -> Vec<(&'static str, State)> {
    let deleting = vec![
        begun_event(),
        moved_event(0),
        condemned_event("condemned"),
        condemned_event("going"),
        Event::DeletionStarted { member: "going".into(), at: at(3) },
        condemned_event("confirming"),
        Event::AbsenceObserved { member: "confirming".into(), at: at(3) },
        condemned_event("gone"),
        Event::Deleted { member: "gone".into(), at: at(3) },
        Event::Skipped { member: "left".into(), said: attribution("ann") },
        Event::Approved(sample_approval("known")),
    ];
    let paused = [deleting.clone(), vec![Event::Paused(attribution("bob"))]].concat();
    let finished = Event::Finished { end: End::Failed, message: "over".into(), at: at(9) };
    vec![
        ("New", State::New),
        ("Begun", fold_events([begun_event()])),
        ("Begun paused", fold_events([begun_event(), Event::Paused(attribution("bob"))])),
        ("Deleting", fold_events(deleting.clone())),
        ("Deleting paused", fold_events(paused)),
        ("Finished", fold_events([deleting, vec![finished]].concat())),
    ]
}

/// Returns the name of an event. The match is exhaustive, as a reminder to add new events here and to the
/// table.
fn event_name(event: &Event) -> &'static str {
    match event {
        Event::Created { .. } => "Created",
        Event::Moved { .. } => "Moved",
        Event::DeletionScheduled { .. } => "DeletionScheduled",
        Event::DeletionStarted { .. } => "DeletionStarted",
        Event::DeletionBlocked { .. } => "DeletionBlocked",
        Event::AbsenceObserved { .. } => "AbsenceObserved",
        Event::PresenceConfirmed { .. } => "PresenceConfirmed",
        Event::Deleted { .. } => "Deleted",
        Event::CallFailed { .. } => "CallFailed",
        Event::Skipped { .. } => "Skipped",
        Event::Joined { .. } => "Joined",
        Event::DeadlinePassed { .. } => "DeadlinePassed",
        Event::Paused(_) => "Paused",
        Event::Resumed(_) => "Resumed",
        Event::TerminateRequested(_) => "TerminateRequested",
        Event::Finished { .. } => "Finished",
        Event::Approved(_) => "Approved",
        Event::Released { .. } => "Released",
    }
}

/// Returns events about an Application, with the Applications for which they are legal while their step is
/// running.
fn member_events(name: &str) -> Vec<(Event, &'static str)> {
    let member = || name.to_owned();
    let at = at(9);
    vec![
        (Event::DeletionScheduled { member: member(), at }, "waiting"),
        (Event::DeletionStarted { member: member(), at }, "condemned"),
        (Event::DeletionBlocked { member: member(), kept_by: "its finalizer".into(), at }, "going"),
        (Event::AbsenceObserved { member: member(), at }, "condemned going waiting"),
        (Event::PresenceConfirmed { member: member(), at }, "confirming"),
        (Event::Deleted { member: member(), at }, "condemned confirming"),
        (
            Event::CallFailed { member: member(), message: "busy".into(), retry_at: at },
            "condemned confirming",
        ),
        (
            Event::Skipped { member: member(), said: attribution("ann") },
            "condemned confirming going next waiting",
        ),
    ]
}

/// Returns the events that aren't about a single Application, with the stages in which they are legal.
fn teardown_events() -> Vec<(Event, &'static str)> {
    let place = Assignment { step: Some(0), also: vec![1] };
    let listed = MemberRecord { name: "new".into(), uid: uid_of("new"), place };
    let running = "Begun Deleting";
    vec![
        (begun_event(), "New"),
        (Event::Released { member: "waiting".into(), at: at(9) }, ""),
        (witnessed_begun_event(Order::Orphaned), "New"),
        (moved_event(0), "Begun"),
        (moved_event(1), running),
        (moved_event(2), ""),
        (Event::Moved { to: Stage::Begun, at: at(9) }, ""),
        (Event::Joined { member: Box::new(listed), at: at(9) }, running),
        (Event::DeadlinePassed { step: 0, message: "late".into(), at: at(9) }, "Deleting"),
        (Event::DeadlinePassed { step: 1, message: "late".into(), at: at(9) }, ""),
        (Event::Paused(attribution("ann")), running),
        (Event::Resumed(attribution("ann")), "paused"),
        (Event::TerminateRequested(attribution("ann")), running),
        (Event::Finished { end: End::Error, message: "over".into(), at: at(9) }, running),
        (Event::Approved(sample_approval("new")), running),
    ]
}

/// Returns one event of every kind, without default values in its fields.
pub fn all_events() -> Vec<Event> {
    let all = member_events("waiting").into_iter().chain(teardown_events());
    all.map(|(event, _)| event).collect()
}

#[test]
fn every_event_is_applied_or_illegal_in_every_state() {
    let mut kinds: Vec<u16> = all_events().iter().map(tidegate_model::LogRecord::kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let today = (1..=Event::HIGHEST_KIND).filter(|kind| !Event::is_earlier(*kind));
    assert_eq!(kinds, today.collect::<Vec<_>>(), "one event of every kind");
    for (name, state) in representatives() {
        let (stage, is_paused) = name.strip_suffix(" paused").map_or((name, false), |stage| (stage, true));
        let check = |event: &Event, may_be: bool| {
            let what = format!("{} in {name}: {event:?}", event_name(event));
            match apply(state.clone(), event) {
                Ok(_) => assert!(may_be, "{what} must be illegal"),
                Err(illegal) => {
                    assert!(!may_be, "{what} must be legal");
                    assert_eq!(illegal.state, state.name(), "{what}");
                    assert!(illegal.event.starts_with(event_name(event)), "{what}: {}", illegal.event);
                }
            }
        };
        for (event, legal) in teardown_events() {
            check(
                &event,
                match event {
                    Event::Paused(_) if is_paused => false,
                    Event::Resumed(_) => is_paused,
                    _ => legal.split_whitespace().any(|word| word == stage),
                },
            );
        }
        for member in MEMBER_NAMES {
            for (event, legal) in member_events(member) {
                // Before its step is running, an Application is waiting and can only be skipped.
                let may_be = match stage {
                    "Deleting" => legal.split_whitespace().any(|word| word == member),
                    "Begun" => matches!(event, Event::Skipped { .. }),
                    _ => false,
                };
                check(&event, may_be);
            }
        }
        for (event, _) in member_events("nobody") {
            check(&event, false);
        }
    }
}

/// Formats the kinds of the events, or the rejection. `-` means that no events follow.
fn format_outcome(result: &Result<Vec<Event>, Rejection>) -> String {
    match result {
        Ok(events) if events.is_empty() => "-".into(),
        Ok(events) => events.iter().map(event_name).collect::<Vec<_>>().join("+"),
        Err(rejection) => variant_name(rejection),
    }
}

fn check_decision(state: &State, input: &Input, expected: &str, what: &str) {
    let result = decide_legally::<OrderedDeletion>(state, input, what);
    assert_eq!(format_outcome(&result), expected, "{what}: {result:?}");
}

fn user_request(request: UserRequest) -> Input {
    Input::UserRequest { request, by: "ann".into(), reason: String::new() }
}

#[test]
fn every_state_handles_every_input_about_the_teardown() {
    let joined = |name: &str, of: &str| Input::Joined {
        member: Box::new(tidegate_lifecycle::teardown::MemberSpec {
            uid: uid_of(of),
            ..member_spec(name, "")
        }),
    };
    let (new, started, over, stale) = ("NotStarted", "AlreadyStarted", "AlreadyFinished", "Stale");
    // The columns are New, Begun, Deleting and Finished. The second word of a cell applies to paused
    // teardowns.
    let table: [(Input, [&str; 4]); 11] = [
        (Input::Begin(Box::new(sample_request())), ["Created", started, started, started]),
        (Input::Abort { reason: "engine".into() }, [new, "Finished", "Finished", stale]),
        (joined("new", "new"), [new, "Joined", "Joined", stale]),
        (joined("waiting", "waiting"), [new, stale, stale, stale]),
        // The new Application has the same name as a deleted Application.
        (joined("gone", "another"), [new, stale, "Joined", stale]),
        (Input::Approved(sample_approval("new")), [new, "Approved", "Approved", stale]),
        (Input::Approved(sample_approval("known")), [new, "Approved", "-", stale]),
        (user_request(UserRequest::Pause), [new, "Paused AlreadyPaused", "Paused AlreadyPaused", over]),
        (user_request(UserRequest::Resume), [new, "NotPaused Resumed", "NotPaused Resumed", over]),
        (user_request(UserRequest::Terminate), [new, "TerminateRequested", "TerminateRequested", over]),
        (user_request(UserRequest::Skip(Scope::Step(7))), [new, "NothingToSkip", "NothingToSkip", over]),
    ];
    let stages = ["New", "Begun", "Deleting", "Finished"];
    for (name, state) in representatives() {
        let (stage, is_paused) = name.strip_suffix(" paused").map_or((name, false), |stage| (stage, true));
        let column = stages.iter().position(|known| *known == stage).unwrap();
        for (input, cells) in &table {
            let mut text = cells[column].split(' ');
            let plain = text.next().unwrap();
            check_decision(
                &state,
                input,
                text.next().filter(|_| is_paused).unwrap_or(plain),
                &format!("{input:?} in {name}"),
            );
        }
    }
    let mut twice = sample_request();
    twice.members.push(member_spec("next", ""));
    assert_eq!(format_outcome(&decide(&State::New, &Input::Begin(Box::new(twice)), at(0))), "DuplicateName");
}

/// Returns the inputs about an Application while its step is running, with the outcome for each state of the
/// Application.
fn member_inputs(name: &str) -> Vec<(Input, &'static str)> {
    let member = || name.to_owned();
    let answered = |uid: String, presence| Input::Answered { member: member(), uid, presence };
    let sighted = |uid: String, observation| Input::Observed { member: member(), uid, observation };
    let there = || MemberObservation::Exists { kept_by: "its finalizer".into() };
    vec![
        (
            answered(uid_of(name), Ok(ObjectPresence::Exists)),
            "condemned=DeletionStarted confirming=PresenceConfirmed",
        ),
        (answered(uid_of(name), Ok(ObjectPresence::Gone)), "condemned=Deleted confirming=Deleted"),
        (answered(uid_of(name), Err(busy_error())), "condemned=CallFailed confirming=CallFailed"),
        (answered(uid_of("another"), Ok(ObjectPresence::Gone)), ""),
        (sighted(uid_of(name), MemberObservation::Gone), "going=AbsenceObserved waiting=AbsenceObserved"),
        (sighted(uid_of(name), there()), "going=DeletionBlocked waiting=-"),
        (sighted(uid_of("another"), MemberObservation::Gone), ""),
        (
            user_request(UserRequest::Skip(Scope::Member(member()))),
            "gone=NothingToSkip left=NothingToSkip *=Skipped",
        ),
    ]
}

#[test]
fn every_member_state_handles_every_input() {
    for (name, state) in representatives().into_iter().filter(|(name, _)| name.starts_with("Deleting")) {
        for member in MEMBER_NAMES {
            for (input, row) in member_inputs(member) {
                let cell = |name: &str| {
                    row.split_whitespace().find_map(|cell| cell.strip_prefix(name)?.strip_prefix('='))
                };
                let expected = cell(member).or_else(|| cell("*")).unwrap_or("Stale");
                check_decision(&state, &input, expected, &format!("{input:?} in {name}"));
            }
        }
    }
}

/// A recovered teardown may be in any of these states. Its automatic transitions must be legal and terminate.
#[test]
fn events_that_follow_in_any_state_are_legal() {
    for (name, mut state) in representatives() {
        for _ in 0..20 {
            outstanding(&state, at(100_000));
            for event in advance(&state, at(100_000)) {
                state = apply(state, &event).unwrap_or_else(|illegal| panic!("{name}: {illegal}"));
            }
        }
        assert_eq!(advance(&state, at(100_000)), [], "{name} never stops making transitions");
    }
}
