//! One representative of every stage, and a member in every state in it; reached by facts.

use tidegate_lifecycle::fleet::MaxUpdate;
use tidegate_lifecycle::operation::Verdict;
use tidegate_lifecycle::rollout::{
    Deployed, End, Fact, Input, MemberSpec, MemberStatus, OnFailure, Options, Request, Stage, State, Step,
    Then, decide, evolve,
};
use tidegate_model::{HealthStatus, OperationPhase};

use crate::build::*;

/// Names say how the member is.
pub const MEMBERS: [&str; 13] = [
    "adopted", "assumed", "failed", "gone", "healthy", "named", "next", "promoted", "running", "settling",
    "skipped", "stopping", "waiting",
];

pub fn the_request() -> Request {
    let dev = Step {
        deadline: Some(seconds(600)),
        on_failure: OnFailure::RollBack,
        max_update: MaxUpdate::Count(20),
        ..step("env in dev")
    };
    let prod = Step { gates: vec!["approval".into(), "gate".into()], ..step("env in prod") };
    let of = |name: &&str| member(name, if *name == "next" { "env=prod" } else { "env=dev" });
    let mut members: Vec<MemberSpec> = MEMBERS.iter().map(of).collect();
    members.push(member("outside", "env=test"));
    let at_work = |member: &mut MemberSpec| member.done_by = Some(id(1));
    members.iter_mut().filter(|member| member.name == "healthy").for_each(at_work);
    let options = Options { pending_timeout: Some(seconds(300)), ..Options::default() };
    Request { options, ..request(vec![dev, prod], members) }
}

pub fn begun() -> Fact {
    decide(&State::New, &Input::Begin(Box::new(the_request())), at(0)).unwrap().remove(0)
}

pub fn moved(to: Stage) -> Fact {
    Fact::Moved { to, at: at(1) }
}

pub fn ending() -> Stage {
    Stage::Ending { end: End::Failed, message: "failed".into(), stops: false }
}

/// The operation of a member, by its place among them.
pub fn operation(member: &str) -> u128 {
    100 + u128::try_from(MEMBERS.iter().position(|name| *name == member).unwrap()).unwrap()
}

fn promoted(member: &str) -> Vec<Fact> {
    vec![Fact::Promoted { member: member.into(), at: at(2) }]
}

fn named(member: &str) -> Vec<Fact> {
    let fact = Fact::Named { member: member.into(), operation: id(operation(member)) };
    [promoted(member), vec![fact]].concat()
}

fn ended(member: &str, phase: OperationPhase) -> Vec<Fact> {
    let fact = Fact::Ended { member: member.into(), phase, message: "over".into(), at: at(3) };
    [named(member), vec![fact]].concat()
}

fn stop(member: &str, then: Then) -> Fact {
    Fact::StopBegun { member: member.into(), then, at: at(3) }
}

/// Each member comes to be what it is called.
fn members() -> Vec<Fact> {
    let started = Fact::Started { member: "running".into(), at: at(3) };
    let stopped = Fact::Stopped { member: "assumed".into(), at: at(4) };
    [
        promoted("promoted"),
        named("named"),
        named("running"),
        vec![started],
        ended("settling", OperationPhase::Succeeded),
        ended("failed", OperationPhase::Failed),
        named("stopping"),
        vec![stop("stopping", Then::Wait)],
        named("assumed"),
        vec![stop("assumed", Then::Assume), stopped],
        vec![Fact::Skipped { member: "skipped".into(), said: said("ann") }],
        vec![Fact::Gone { member: "gone".into(), at: at(3) }],
        vec![Fact::Adopted { member: "adopted".into(), operation: id(90), at: at(3) }],
    ]
    .concat()
}

pub fn fold(facts: impl IntoIterator<Item = Fact>) -> State {
    facts.into_iter().fold(State::New, |state, fact| {
        evolve(state, &fact).unwrap_or_else(|illegal| panic!("{illegal}: {fact:?}"))
    })
}

#[test]
fn who_was_gone_on_without_is_told_from_those_that_are_healthy() {
    let state = fold(rolling());
    let healthy = tidegate_lifecycle::rollout::view(&state).unwrap().members;
    let healthy = healthy.iter().filter(|one| one.status == MemberStatus::Healthy);
    assert!(healthy.count() > 1);
    assert_eq!(tidegate_lifecycle::rollout::skipped(&state).collect::<Vec<_>>(), ["skipped"]);
    assert_eq!(tidegate_lifecycle::rollout::skipped(&State::New).count(), 0);
}

fn paused(facts: Vec<Fact>) -> Vec<Fact> {
    [facts, vec![Fact::Paused(said("bob"))]].concat()
}

fn rolling() -> Vec<Fact> {
    let stages = [moved(Stage::Held { step: 0 }), moved(Stage::Rolling { step: 0 })];
    [vec![begun()], stages.into(), members()].concat()
}

/// The second step is held, which nothing but the end of the first leads to.
fn held() -> Vec<Fact> {
    let late = Fact::Joined { member: Box::new(listed("late-comer")), at: at(5) };
    let answered = Fact::GateAnswered { gate: "gate".into(), verdict: Verdict::Open, at: at(5) };
    [rolling(), vec![moved(Stage::Held { step: 1 }), late, answered]].concat()
}

pub fn listed(name: &str) -> tidegate_lifecycle::rollout::Listed {
    tidegate_lifecycle::rollout::Listed {
        name: name.into(),
        place: tidegate_lifecycle::fleet::Assignment { step: Some(0), also: vec![] },
        target: target("new"),
        before: None::<Deployed>,
        done_by: None,
    }
}

/// Every state by its name; those that can be held are there a second time.
pub fn representatives() -> Vec<(String, State)> {
    let rolling_back = [rolling(), vec![moved(Stage::RollingBack { step: 0 })]].concat();
    let finished = Fact::Finished { end: End::Failed, message: "over".into(), at: at(9) };
    let mut all = vec![("New".to_owned(), State::New)];
    for (name, facts) in
        [("Begun", vec![begun()]), ("Held", held()), ("Rolling", rolling()), ("RollingBack", rolling_back)]
    {
        all.push((name.to_owned(), fold(facts.clone())));
        all.push((format!("{name} paused"), fold(paused(facts))));
    }
    let ending = [rolling(), vec![moved(ending())]].concat();
    all.push(("Ending".to_owned(), fold(ending.clone())));
    all.push(("Finished".to_owned(), fold([ending, vec![finished]].concat())));
    all
}

/// What a watched member looks like when its own operation has done all.
pub fn well(member: &str) -> tidegate_lifecycle::rollout::Sight {
    sight(operation(member), "new", HealthStatus::Healthy)
}
