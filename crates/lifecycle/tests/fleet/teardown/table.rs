//! Every state with every input, and every state with every fact.

use tidegate_lifecycle::fleet::{Assignment, MaxUpdate, Scope};
use tidegate_lifecycle::teardown::{
    Approval, End, Fact, Found, Input, Listed, Options, Order, Rejection, Request, Sight, Stage, State, Wish,
    decide, evolve, follow, pending,
};
use tidegate_model::LogRecord as _;

use super::order::selection;
use super::world::{spec, uid};
use crate::build::*;

/// Names say how the member is.
pub const MEMBERS: [&str; 7] = ["condemned", "confirming", "going", "gone", "left", "next", "waiting"];

fn the_request() -> Request {
    let mut first = selection("env in dev");
    first.max_update = MaxUpdate::Count(0);
    let of = |name: &&str| spec(name, if *name == "next" { "" } else { "env=dev" });
    Request {
        set: "argocd/fleet".into(),
        uid: "uid-1".into(),
        by: "ann".into(),
        order: Order::Custom { steps: vec![first] },
        members: MEMBERS.iter().map(of).collect(),
        options: Options { deadline: Some(seconds(60)), ..Options::default() },
        kept: std::collections::BTreeMap::new(),
        approved: None,
    }
}

fn begun() -> Fact {
    decide(&State::New, &Input::Begin(Box::new(the_request())), at(0)).unwrap().remove(0)
}

/// The same, where others are at work.
fn witnessed(order: Order) -> Fact {
    let request = Request { order, members: vec![spec("waiting", "")], ..the_request() };
    decide(&State::New, &Input::Begin(Box::new(request)), at(0)).unwrap().remove(0)
}

/// States of what is only recorded; in those at work there is a member of every kind.
pub fn witnessed_states() -> Vec<(&'static str, State)> {
    let members = ["going", "gone", "released", "waiting"].map(|name| spec(name, ""));
    let begun = |order| {
        let request = Request { order, members: members.to_vec(), ..the_request() };
        decide(&State::New, &Input::Begin(Box::new(request)), at(0)).unwrap().remove(0)
    };
    let at_work = |order| {
        vec![
            begun(order),
            moved(0),
            Fact::Going { member: "going".into(), at: at(3) },
            Fact::Gone { member: "gone".into(), at: at(3) },
            Fact::Released { member: "released".into(), at: at(4) },
        ]
    };
    let finished = Fact::Finished { end: End::Error, message: "over".into(), at: at(9) };
    vec![
        ("Begun", fold([begun(Order::Collected)])),
        ("Collected", fold(at_work(Order::Collected))),
        ("Orphaned", fold(at_work(Order::Orphaned))),
        ("Finished", fold([at_work(Order::Orphaned), vec![finished]].concat())),
    ]
}

/// What others do is seen, and nothing is asked for; what an earlier program cannot read has a number that it does not know.
#[test]
fn what_is_only_recorded_follows_what_is_seen() {
    for (name, state) in witnessed_states() {
        assert_eq!(state.kind(), 3, "{name}");
        for member in ["going", "gone", "released", "waiting"] {
            for (fact, _) in about_members(member)
                .into_iter()
                .chain([(Fact::Released { member: member.into(), at: at(9) }, "")])
            {
                let may_be = matches!(name, "Collected" | "Orphaned")
                    && matches!(
                        (&fact, member),
                        (Fact::Going { .. } | Fact::Gone { .. } | Fact::Released { .. }, "waiting")
                            | (Fact::KeptBy { .. } | Fact::Gone { .. } | Fact::Released { .. }, "going")
                    );
                assert_eq!(
                    evolve(state.clone(), &fact).is_ok(),
                    may_be,
                    "{} in {name}: {fact:?}",
                    kind(&fact)
                );
            }
        }
        let owed = pending(&state, at(10)).commands;
        let is_watch = |one: &tidegate_lifecycle::teardown::Command| one.is_standing();
        let watched = if matches!(name, "Collected" | "Orphaned") { 2 } else { 0 };
        assert!(owed.iter().all(is_watch) && owed.len() == watched, "{name}: {owed:?}");
        if state.is_finished() {
            continue;
        }
        for wish in [Wish::Pause, Wish::Resume, Wish::Terminate, Wish::Skip(Scope::Member("waiting".into()))]
        {
            let wish = Input::Wish { wish, by: "ann".into(), why: String::new() };
            assert_eq!(decide(&state, &wish, at(10)), Err(Rejection::Witnessed), "{name}");
        }
    }
    assert_eq!((witnessed(Order::Collected).kind(), begun().kind()), (19, 1));
}

fn approval(token: &str) -> Approval {
    Approval { token: token.into(), said: said("cia") }
}

fn moved(step: u32) -> Fact {
    Fact::Moved { to: Stage::Deleting { step }, at: at(1) }
}

fn condemned(name: &str) -> Fact {
    Fact::Condemned { member: name.into(), at: at(2) }
}

fn fold(facts: impl IntoIterator<Item = Fact>) -> State {
    facts.into_iter().fold(State::New, |state, fact| evolve(state, &fact).unwrap())
}

/// Every state by its name; each with a member of every kind once its step is at work.
pub fn representatives() -> Vec<(&'static str, State)> {
    let deleting = vec![
        begun(),
        moved(0),
        condemned("condemned"),
        condemned("going"),
        Fact::Going { member: "going".into(), at: at(3) },
        condemned("confirming"),
        Fact::SeenGone { member: "confirming".into(), at: at(3) },
        condemned("gone"),
        Fact::Gone { member: "gone".into(), at: at(3) },
        Fact::Left { member: "left".into(), said: said("ann") },
        Fact::Approved(approval("known")),
    ];
    let paused = [deleting.clone(), vec![Fact::Paused(said("bob"))]].concat();
    let finished = Fact::Finished { end: End::Failed, message: "over".into(), at: at(9) };
    vec![
        ("New", State::New),
        ("Begun", fold([begun()])),
        ("Begun paused", fold([begun(), Fact::Paused(said("bob"))])),
        ("Deleting", fold(deleting.clone())),
        ("Deleting paused", fold(paused)),
        ("Finished", fold([deleting, vec![finished]].concat())),
    ]
}

/// The name of a fact. A new one does not compile until it is here, and then needs a column.
fn kind(fact: &Fact) -> &'static str {
    match fact {
        Fact::Begun { .. } => "Begun",
        Fact::Moved { .. } => "Moved",
        Fact::Condemned { .. } => "Condemned",
        Fact::Going { .. } => "Going",
        Fact::KeptBy { .. } => "KeptBy",
        Fact::SeenGone { .. } => "SeenGone",
        Fact::StillThere { .. } => "StillThere",
        Fact::Gone { .. } => "Gone",
        Fact::CallFailed { .. } => "CallFailed",
        Fact::Left { .. } => "Left",
        Fact::Joined { .. } => "Joined",
        Fact::DeadlinePassed { .. } => "DeadlinePassed",
        Fact::Paused(_) => "Paused",
        Fact::Resumed(_) => "Resumed",
        Fact::TerminateRequested(_) => "TerminateRequested",
        Fact::Finished { .. } => "Finished",
        Fact::Approved(_) => "Approved",
        Fact::Released { .. } => "Released",
    }
}

/// Facts about a member, and which members they can be about while their step is at work.
fn about_members(name: &str) -> Vec<(Fact, &'static str)> {
    let member = || name.to_owned();
    let at = at(9);
    vec![
        (Fact::Condemned { member: member(), at }, "waiting"),
        (Fact::Going { member: member(), at }, "condemned"),
        (Fact::KeptBy { member: member(), kept_by: "its finalizer".into(), at: Some(at) }, "going"),
        (Fact::SeenGone { member: member(), at }, "condemned going waiting"),
        (Fact::StillThere { member: member(), at }, "confirming"),
        (Fact::Gone { member: member(), at }, "condemned confirming"),
        (Fact::CallFailed { member: member(), message: "busy".into(), retry_at: at }, "condemned confirming"),
        (Fact::Left { member: member(), said: said("ann") }, "condemned confirming going next waiting"),
    ]
}

/// The others, and the stages in which they can follow.
fn about_the_teardown() -> Vec<(Fact, &'static str)> {
    let place = Assignment { step: Some(0), also: vec![1] };
    let listed = Listed { name: "new".into(), uid: uid("new"), place };
    let running = "Begun Deleting";
    vec![
        (begun(), "New"),
        (Fact::Released { member: "waiting".into(), at: at(9) }, ""),
        (witnessed(Order::Orphaned), "New"),
        (moved(0), "Begun"),
        (moved(1), running),
        (moved(2), ""),
        (Fact::Moved { to: Stage::Begun, at: at(9) }, ""),
        (Fact::Joined { member: Box::new(listed), at: at(9) }, running),
        (Fact::DeadlinePassed { step: 0, message: "late".into(), at: at(9) }, "Deleting"),
        (Fact::DeadlinePassed { step: 1, message: "late".into(), at: at(9) }, ""),
        (Fact::Paused(said("ann")), running),
        (Fact::Resumed(said("ann")), "paused"),
        (Fact::TerminateRequested(said("ann")), running),
        (Fact::Finished { end: End::Error, message: "over".into(), at: at(9) }, running),
        (Fact::Approved(approval("new")), running),
    ]
}

/// One fact of every kind, with every field told from its default.
pub fn facts() -> Vec<Fact> {
    let all = about_members("waiting").into_iter().chain(about_the_teardown());
    all.map(|(fact, _)| fact).collect()
}

#[test]
fn every_state_with_every_fact() {
    let mut kinds: Vec<u16> = facts().iter().map(tidegate_model::LogRecord::kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let today = (1..=Fact::HIGHEST_KIND).filter(|kind| !Fact::is_earlier(*kind));
    assert_eq!(kinds, today.collect::<Vec<_>>(), "one fact of every kind");
    for (name, state) in representatives() {
        let (stage, is_paused) = name.strip_suffix(" paused").map_or((name, false), |stage| (stage, true));
        let check = |fact: &Fact, may_be: bool| {
            let what = format!("{} in {name}: {fact:?}", kind(fact));
            match evolve(state.clone(), fact) {
                Ok(_) => assert!(may_be, "{what} should not follow"),
                Err(illegal) => {
                    assert!(!may_be, "{what} should follow");
                    assert_eq!(illegal.state, state.name(), "{what}");
                    assert!(illegal.fact.starts_with(kind(fact)), "{what}: {}", illegal.fact);
                }
            }
        };
        for (fact, legal) in about_the_teardown() {
            check(
                &fact,
                match fact {
                    Fact::Paused(_) if is_paused => false,
                    Fact::Resumed(_) => is_paused,
                    _ => legal.split_whitespace().any(|word| word == stage),
                },
            );
        }
        for member in MEMBERS {
            for (fact, legal) in about_members(member) {
                // Before its step is at work a member waits, and can only be left.
                let may_be = match stage {
                    "Deleting" => legal.split_whitespace().any(|word| word == member),
                    "Begun" => matches!(fact, Fact::Left { .. }),
                    _ => false,
                };
                check(&fact, may_be);
            }
        }
        for (fact, _) in about_members("nobody") {
            check(&fact, false);
        }
    }
}

/// The facts by kind, or the rejection. `-`: nothing follows.
fn outcome(result: &Result<Vec<Fact>, Rejection>) -> String {
    match result {
        Ok(facts) if facts.is_empty() => "-".into(),
        Ok(facts) => facts.iter().map(kind).collect::<Vec<_>>().join("+"),
        Err(Rejection::Stale { .. }) => "Stale".into(),
        Err(Rejection::NotStarted) => "NotStarted".into(),
        Err(Rejection::AlreadyStarted { .. }) => "AlreadyStarted".into(),
        Err(Rejection::NamedTwice { .. }) => "NamedTwice".into(),
        Err(Rejection::AlreadyFinished { .. }) => "AlreadyFinished".into(),
        Err(Rejection::AlreadyPaused { .. }) => "AlreadyPaused".into(),
        Err(Rejection::NotPaused) => "NotPaused".into(),
        Err(Rejection::Witnessed) => "Witnessed".into(),
        Err(Rejection::NothingToSkip(_)) => "NothingToSkip".into(),
    }
}

fn check(state: &State, input: &Input, expected: &str, what: &str) {
    let result = decide(state, input, at(10_000));
    assert_eq!(outcome(&result), expected, "{what}: {result:?}");
    let mut next = state.clone();
    for fact in result.unwrap_or_default() {
        next = evolve(next, &fact).unwrap_or_else(|illegal| panic!("{what}: {illegal}"));
    }
}

fn wish(wish: Wish) -> Input {
    Input::Wish { wish, by: "ann".into(), why: String::new() }
}

#[test]
fn every_state_with_every_input_about_the_teardown() {
    let joined = |name: &str, of: &str| Input::Joined {
        member: Box::new(tidegate_lifecycle::teardown::MemberSpec { uid: uid(of), ..spec(name, "") }),
    };
    let (new, started, over, stale) = ("NotStarted", "AlreadyStarted", "AlreadyFinished", "Stale");
    // New, Begun, Deleting, Finished; where a person holds the teardown, the second word of a cell.
    let table: [(Input, [&str; 4]); 11] = [
        (Input::Begin(Box::new(the_request())), ["Begun", started, started, started]),
        (Input::Abort { reason: "engine".into() }, [new, "Finished", "Finished", stale]),
        (joined("new", "new"), [new, "Joined", "Joined", stale]),
        (joined("waiting", "waiting"), [new, stale, stale, stale]),
        // Another one of the name of one that is gone.
        (joined("gone", "another"), [new, stale, "Joined", stale]),
        (Input::Approved(approval("new")), [new, "Approved", "Approved", stale]),
        (Input::Approved(approval("known")), [new, "Approved", "-", stale]),
        (wish(Wish::Pause), [new, "Paused AlreadyPaused", "Paused AlreadyPaused", over]),
        (wish(Wish::Resume), [new, "NotPaused Resumed", "NotPaused Resumed", over]),
        (wish(Wish::Terminate), [new, "TerminateRequested", "TerminateRequested", over]),
        (wish(Wish::Skip(Scope::Step(7))), [new, "NothingToSkip", "NothingToSkip", over]),
    ];
    let stages = ["New", "Begun", "Deleting", "Finished"];
    for (name, state) in representatives() {
        let (stage, is_paused) = name.strip_suffix(" paused").map_or((name, false), |stage| (stage, true));
        let column = stages.iter().position(|known| *known == stage).unwrap();
        for (input, cells) in &table {
            let mut words = cells[column].split(' ');
            let plain = words.next().unwrap();
            check(
                &state,
                input,
                words.next().filter(|_| is_paused).unwrap_or(plain),
                &format!("{input:?} in {name}"),
            );
        }
    }
    let mut twice = the_request();
    twice.members.push(spec("next", ""));
    assert_eq!(outcome(&decide(&State::New, &Input::Begin(Box::new(twice)), at(0))), "NamedTwice");
}

/// What reaches a member while its step is at work, by what the member is.
fn about(name: &str) -> Vec<(Input, &'static str)> {
    let member = || name.to_owned();
    let answered = |uid: String, found| Input::Answered { member: member(), uid, found };
    let sighted = |uid: String, sight| Input::Sighted { member: member(), uid, sight };
    let there = || Sight::There { kept_by: "its finalizer".into() };
    vec![
        (answered(uid(name), Ok(Found::There)), "condemned=Going confirming=StillThere"),
        (answered(uid(name), Ok(Found::Gone)), "condemned=Gone confirming=Gone"),
        (answered(uid(name), Err(busy())), "condemned=CallFailed confirming=CallFailed"),
        (answered(uid("another"), Ok(Found::Gone)), ""),
        (sighted(uid(name), Sight::Gone), "going=SeenGone waiting=SeenGone"),
        (sighted(uid(name), there()), "going=KeptBy waiting=-"),
        (sighted(uid("another"), Sight::Gone), ""),
        (wish(Wish::Skip(Scope::Member(member()))), "gone=NothingToSkip left=NothingToSkip *=Left"),
    ]
}

#[test]
fn every_member_with_every_input() {
    for (name, state) in representatives().into_iter().filter(|(name, _)| name.starts_with("Deleting")) {
        for member in MEMBERS {
            for (input, row) in about(member) {
                let cell = |name: &str| {
                    row.split_whitespace().find_map(|cell| cell.strip_prefix(name)?.strip_prefix('='))
                };
                let expected = cell(member).or_else(|| cell("*")).unwrap_or("Stale");
                check(&state, &input, expected, &format!("{input:?} in {name}"));
            }
        }
    }
}

/// Recovery may find any of them: what follows fits, and ends.
#[test]
fn what_follows_in_any_state_fits_it() {
    for (name, mut state) in representatives() {
        for _ in 0..20 {
            pending(&state, at(100_000));
            for fact in follow(&state, at(100_000)) {
                state = evolve(state, &fact).unwrap_or_else(|illegal| panic!("{name}: {illegal}"));
            }
        }
        assert_eq!(follow(&state, at(100_000)), [], "{name} goes round in circles");
    }
}
