//! One representative of every stage, with an Application in every state. The states are reached by events.

use tidegate_lifecycle::fleet::MaxUpdate;
use tidegate_lifecycle::operation::Verdict;
use tidegate_lifecycle::rollout::{
    DeployedState, End, Event, Input, MemberSpec, MemberStatus, OnFailure, Options, Request, Stage, State,
    Step, StopOutcome, apply, decide,
};
use tidegate_model::{HealthStatus, OperationPhase};

use crate::build::*;

/// Names of the Applications. Each Application is in the state it is named after.
pub const MEMBER_NAMES: [&str; 13] = [
    "adopted", "assumed", "failed", "gone", "healthy", "named", "next", "promoted", "running", "settling",
    "skipped", "stopping", "waiting",
];

pub fn sample_request() -> Request {
    let dev = Step {
        deadline: Some(seconds(600)),
        on_failure: OnFailure::RollBack,
        max_update: MaxUpdate::Count(20),
        ..step("env in dev")
    };
    let prod = Step { gates: vec!["approval".into(), "gate".into()], ..step("env in prod") };
    let of = |name: &&str| member(name, if *name == "next" { "env=prod" } else { "env=dev" });
    let mut members: Vec<MemberSpec> = MEMBER_NAMES.iter().map(of).collect();
    members.push(member("outside", "env=test"));
    let at_work = |member: &mut MemberSpec| member.done_by = Some(id(1));
    members.iter_mut().filter(|member| member.name == "healthy").for_each(at_work);
    let options = Options { pending_timeout: Some(seconds(300)), ..Options::default() };
    Request { options, ..request(vec![dev, prod], members) }
}

pub fn begun_event() -> Event {
    decide(&State::New, &Input::Begin(Box::new(sample_request())), at(0)).unwrap().remove(0)
}

pub fn moved_event(to: Stage) -> Event {
    Event::Moved { to, at: at(1) }
}

pub fn ending_stage() -> Stage {
    Stage::Ending { end: End::Failed, message: "failed".into(), stops: false }
}

/// Returns the number of an Application's operation, based on the Application's position in the list.
pub fn operation_number(member: &str) -> u128 {
    100 + u128::try_from(MEMBER_NAMES.iter().position(|name| *name == member).unwrap()).unwrap()
}

fn promoted_events(member: &str) -> Vec<Event> {
    vec![Event::Promoted { member: member.into(), at: at(2) }]
}

fn named_events(member: &str) -> Vec<Event> {
    let event = Event::OperationAssigned { member: member.into(), operation: id(operation_number(member)) };
    [promoted_events(member), vec![event]].concat()
}

fn ended_events(member: &str, phase: OperationPhase) -> Vec<Event> {
    let event = Event::OperationEnded { member: member.into(), phase, message: "over".into(), at: at(3) };
    [named_events(member), vec![event]].concat()
}

fn stop_event(member: &str, then: StopOutcome) -> Event {
    Event::StopRequested { member: member.into(), then, at: at(3) }
}

/// Returns the events that bring each Application to the state it is named after.
fn member_setup_events() -> Vec<Event> {
    let started = Event::OperationStarted { member: "running".into(), at: at(3) };
    let stopped = Event::Stopped { member: "assumed".into(), at: at(4) };
    [
        promoted_events("promoted"),
        named_events("named"),
        named_events("running"),
        vec![started],
        ended_events("settling", OperationPhase::Succeeded),
        ended_events("failed", OperationPhase::Failed),
        named_events("stopping"),
        vec![stop_event("stopping", StopOutcome::Wait)],
        named_events("assumed"),
        vec![stop_event("assumed", StopOutcome::Assume), stopped],
        vec![Event::Skipped { member: "skipped".into(), said: attribution("ann") }],
        vec![Event::Removed { member: "gone".into(), at: at(3) }],
        vec![Event::OperationAdopted { member: "adopted".into(), operation: id(90), at: at(3) }],
    ]
    .concat()
}

pub fn fold_events(events: impl IntoIterator<Item = Event>) -> State {
    events.into_iter().fold(State::New, |state, event| {
        apply(state, &event).unwrap_or_else(|illegal| panic!("{illegal}: {event:?}"))
    })
}

#[test]
fn abandoned_members_are_distinguished_from_healthy_ones() {
    let state = fold_events(rolling_events());
    let healthy = tidegate_lifecycle::rollout::view(&state).unwrap().members;
    let healthy = healthy.iter().filter(|one| one.status == MemberStatus::Healthy);
    assert!(healthy.count() > 1);
    assert_eq!(tidegate_lifecycle::rollout::skipped_members(&state).collect::<Vec<_>>(), ["skipped"]);
    assert_eq!(tidegate_lifecycle::rollout::skipped_members(&State::New).count(), 0);
}

fn pause_after(events: Vec<Event>) -> Vec<Event> {
    [events, vec![Event::Paused(attribution("bob"))]].concat()
}

fn rolling_events() -> Vec<Event> {
    let stages = [moved_event(Stage::Held { step: 0 }), moved_event(Stage::Rolling { step: 0 })];
    [vec![begun_event()], stages.into(), member_setup_events()].concat()
}

/// Returns the events that lead to a held second step, after the first step has passed.
fn held_events() -> Vec<Event> {
    let late = Event::Added { member: Box::new(member_record("late-comer")), at: at(5) };
    let answered = Event::GateAnswered { gate: "gate".into(), verdict: Verdict::Open, at: at(5) };
    [rolling_events(), vec![moved_event(Stage::Held { step: 1 }), late, answered]].concat()
}

pub fn member_record(name: &str) -> tidegate_lifecycle::rollout::MemberRecord {
    tidegate_lifecycle::rollout::MemberRecord {
        name: name.into(),
        place: tidegate_lifecycle::fleet::Assignment { step: Some(0), also: vec![] },
        target: target("new"),
        before: None::<DeployedState>,
        done_by: None,
    }
}

/// Returns every state with its name. States that can be paused are also included as paused.
pub fn representatives() -> Vec<(String, State)> {
    let rolling_back = [rolling_events(), vec![moved_event(Stage::RollingBack { step: 0 })]].concat();
    let finished = Event::Finished { end: End::Failed, message: "over".into(), at: at(9) };
    let mut all = vec![("New".to_owned(), State::New)];
    for (name, events) in [
        ("Begun", vec![begun_event()]),
        ("Held", held_events()),
        ("Rolling", rolling_events()),
        ("RollingBack", rolling_back),
    ] {
        all.push((name.to_owned(), fold_events(events.clone())));
        all.push((format!("{name} paused"), fold_events(pause_after(events))));
    }
    let ending = [rolling_events(), vec![moved_event(ending_stage())]].concat();
    all.push(("Ending".to_owned(), fold_events(ending.clone())));
    all.push(("Finished".to_owned(), fold_events([ending, vec![finished]].concat())));
    all
}

/// Returns the observation of an Application after its own operation succeeded.
pub fn healthy_observation(member: &str) -> tidegate_lifecycle::rollout::MemberObservation {
    observation_after(operation_number(member), "new", HealthStatus::Healthy)
}
