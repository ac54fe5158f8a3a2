//! Waiting: gates, confirmation, definitions, evidence, delays, deadlines.

use tidegate_lifecycle::operation::{Fact, Input, Verdict, explain, view};
use tidegate_model::{
    Action, HealthStatus, Observation, Observed, OperationPhase, Phase, ResultCode, SyncRequest, WaitFor,
};

use crate::build::*;
use crate::traces::trace;
use crate::world::{Proof, Reply, World, seen};

fn closed(reason: &str, ask_again_after: u64) -> Verdict {
    Verdict::Closed { reason: reason.into(), ask_again_after: seconds(ask_again_after) }
}

#[test]
fn a_wave_is_held_until_every_gate_opens() {
    let plan = plan([resource(0, "ConfigMap/c")]).gated(0, "night").gated(0, "office");
    let mut world = World::new(plan, request());
    world.gates.insert("night".into(), [closed("it is day", 30), closed("still day", 0)].into());
    world.gates.insert("office".into(), [closed("nobody is there", 10)].into());
    trace(
        world,
        "
            plan
            check ConfigMap/c
            ask night
            ask office
            # gate night is closed: it is day
            # gate night is closed: still day
            apply ConfigMap/c
            # successfully synced (all tasks run)
            = 1 ConfigMap/c Synced Running: c applied
            ",
    );
}

/// Between the look at a hook's place and its creation somebody else's hook comes: it is awaited, and only then makes room.
#[test]
fn a_hook_whose_place_is_lost_at_the_last_moment_waits_for_it() {
    let mut world = World::new(plan([hook(Phase::Sync, 0, "Job/h"), resource(0, "Widget/w")]), request());
    world.fate("Job/h", |fate| {
        fate.rivals = [5000, 500].into();
        fate.lingers = 700;
    });
    trace(
        world,
        "
            plan
            check Job/h
            check Widget/w
            clear Job/h
            apply Job/h
            # waiting for completion of hook batch/Job/h of operation another
            clear Job/h
            # waiting for deletion of hook batch/Job/h
            clear Job/h
            apply Job/h
            # waiting for completion of hook batch/Job/h of operation another
            clear Job/h
            # waiting for deletion of hook batch/Job/h
            clear Job/h
            apply Job/h
            apply Widget/w
            # waiting for completion of hook batch/Job/h
            release Job/h
            # successfully synced (no more tasks)
            = 1 Job/h Synced Succeeded: starting
            = 2 Widget/w Synced Succeeded: w applied
            ",
    );
}

/// The wave has failed by its deadline, and another is open, when what kept the place of its hook ends.
#[test]
fn a_place_that_becomes_free_too_late_is_of_no_interest() {
    let alert = hook(Phase::SyncFail, 0, "Job/alert");
    let plan = plan([hook(Phase::Sync, 0, "Job/h"), alert]).wave_timeout(0, 5).gated(1, "g");
    let mut world = World::new(plan, request());
    world.fate("Job/h", |fate| fate.rivals = [6000].into());
    world.gates.insert("g".into(), [closed("not yet", 5)].into());
    let task = world.find("Job/h");
    let observation = Observation { at: at(7000), seen: Observed::Gone { uid: None } };
    world.at(7000, Input::Observed { task, observation });
    world.run_until(7000);
    assert_eq!(world.driver().state().name(), "Wave 2 Held");
    world.run();
    assert_eq!(
        world.driver().state().message(),
        "wave 0 of Sync did not pass within 5 s: waiting for completion of hook batch/Job/h of operation another"
    );
}

/// However often a gate says why it is closed, only another reason is a fact.
#[test]
fn a_repeated_answer_of_a_gate_is_no_fact() {
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]).gated(0, "g"), request());
    let answers = std::iter::repeat_n(closed("no", 5), 500).chain([closed("not even now", 7)]);
    world
        .gates
        .insert("g".into(), answers.chain(std::iter::repeat_n(closed("not even now", 3), 500)).collect());
    world.run_until(1000);
    let facts = world.durable.len();
    world.run_until(2_400_000);
    assert_eq!(world.durable.len(), facts, "the same answer, 480 times");
    world.run_until(3_600_000);
    assert_eq!(world.durable.len(), facts + 1, "another reason, once");
    assert!(
        world.driver().state().message().ends_with("not even now"),
        "{}",
        world.driver().state().message()
    );
    world.run();
    assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)");
}

/// All gates must be open at once: one that was open may close while another is still closed.
#[test]
fn a_gate_may_close_again_before_the_others_open() {
    let plan = plan([resource(0, "ConfigMap/c")]).gated(0, "night").gated(0, "office");
    let mut world = World::new(plan, request());
    world.gates.insert("office".into(), [closed("nobody is there", 60)].into());
    let gate = |verdict| Input::Gate { wave: 0, gate: "night".into(), verdict };
    world.at(30_000, gate(closed("it is day", 600)));
    world.at(90_000, gate(Verdict::Open));
    world.run_until(89_000);
    assert_eq!(world.driver().state().message(), "gate night is closed: it is day");
    world.run();
    assert_eq!(world.now, 90_000);
}

/// What a gate said to an engine that is gone does not open anything.
#[test]
fn a_gate_that_was_open_before_a_restart_is_asked_again() {
    let plan = || plan([resource(0, "ConfigMap/c")]).gated(0, "night").gated(0, "office");
    let mut world = World::new(plan(), request());
    world.gates.insert("night".into(), [Verdict::Open, closed("it is day", 600)].into());
    world.gates.insert("office".into(), [closed("nobody is there", 60)].into());
    world.run_until(1000);
    world.crash_at_once();
    // The other one is open now.
    world.gates.remove("office");
    world.run_until(2000);
    assert_eq!(world.driver().state().name(), "Wave 1 Held");
    assert_eq!(world.driver().state().message(), "gate night is closed: it is day");
}

fn approve(wave: Option<u32>) -> Input {
    Input::Approve { wave, by: "ann".into(), reason: "looks good".into() }
}

#[test]
fn a_wave_waits_for_a_person_who_approves_it() {
    let plan = plan([resource(0, "ConfigMap/a"), resource(1, "ConfigMap/b"), resource(2, "ConfigMap/c")])
        .gated(1, "approval")
        .gated(2, "approval");
    let mut world = World::new(plan, request());
    // The last wave is approved before it is reached, and stays so over a crash.
    world.at(10_000, approve(Some(3)));
    world.at(11_000, approve(Some(3)));
    world.at(12_000, approve(Some(1)));
    world.at(13_000, approve(Some(9)));
    world.run_until(60_000);
    let said = explain(world.driver().state(), at(60_000)).to_string();
    assert!(
        said.contains("waiting 1 min for gate approval (wave 2 waits for a person: `tidegate ops approve "),
        "{said}"
    );
    world.crash_at_once();
    world.at(70_000, approve(None));
    world.at(80_000, approve(None));
    world.run();
    assert_eq!(world.now, 70_000);
    assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)");
    let refused: Vec<&String> = world.transcript.iter().filter(|line| line.starts_with('!')).collect();
    assert_eq!(
        refused,
        [
            "! wave 3 is approved already",
            "! wave 1 needs no approval; name one that will with --wave: 2",
            "! wave 9 needs no approval; name one that will with --wave: 2",
        ]
    );
    let approvals: Vec<&Fact> =
        world.durable.iter().filter(|fact| matches!(fact, Fact::Approved { .. })).collect();
    let approved =
        |wave, millis| Fact::Approved { wave, by: "ann".into(), reason: "looks good".into(), at: at(millis) };
    assert_eq!(approvals, [&approved(2, 10_000), &approved(1, 70_000)]);
}

/// A retry of a wave that was approved needs no second approval.
#[test]
fn an_approval_holds_for_every_attempt() {
    let plan = plan([hook(Phase::Sync, 0, "Job/a")]).gated(0, "approval");
    let retry = tidegate_model::RetryPolicy { limit: 1, ..Default::default() };
    let mut world = World::new(plan, SyncRequest { retry, ..request() });
    world.fate("Job/a", |fate| fate.degrades("bad"));
    world.at(1000, approve(None));
    world.run();
    assert!(
        world.driver().state().message().contains("(retried 1 times)"),
        "{}",
        world.driver().state().message()
    );
    assert!(world.now < 60_000);
}

#[test]
fn a_wave_soaks_after_the_one_before_it_has_passed() {
    let plan = plan([resource(0, "Deployment/a"), resource(1, "ConfigMap/b")])
        .gated(0, "soak:1h")
        .gated(1, "soak:10m")
        .gated(1, "soak:30s");
    let mut world = World::new(plan, request());
    world.run_until(100_000);
    let passed = world.operation().waves[0].passed_at.expect("the first wave soaks after nothing");
    let until = passed + seconds(600);
    assert_eq!(
        world.driver().state().message(),
        format!("gate soak:10m is closed: the wave before is watched until {until}")
    );
    let said = explain(world.driver().state(), at(100_000)).to_string();
    assert!(said.contains("gate soak:10m (the wave before is watched until"), "{said}");
    assert!(!said.contains("soak:30s"), "{said}");
    world.run_until(until.as_millis() - at(0).as_millis() - 1);
    assert_eq!(world.driver().state().name(), "Wave 2 Held");
    world.crash_at_once();
    world.run();
    assert_eq!(at(world.now), until, "a crash neither lengthens nor shortens it");
}

/// A duration that cannot be read is no gate that is open.
#[test]
fn a_soak_without_a_duration_is_a_gate_that_is_asked() {
    let mut world = World::new(plan([resource(0, "ConfigMap/a")]).gated(0, "soak:long"), request());
    world.gates.insert("soak:long".into(), [closed("nobody knows it", 600)].into());
    world.run_until(5000);
    assert_eq!(world.driver().state().message(), "gate soak:long is closed: nobody knows it");
}

#[test]
fn a_late_answer_of_a_gate_is_dropped() {
    let mut world =
        World::new(plan([resource(0, "Deployment/a"), resource(1, "ConfigMap/c")]).gated(0, "g"), request());
    world.run_until(500);
    for wave in [0, 1, 7] {
        world.at(600, Input::Gate { wave, gate: "g".into(), verdict: closed("too late", 1) });
    }
    world.run_until(700);
    assert_eq!(world.driver().state().name(), "Wave 1 AwaitingHealth");
    assert!(world.operation().gates.iter().all(|answer| answer.verdict == Verdict::Open));
}

#[test]
fn confirmation_can_come_with_the_request_or_before_it_is_needed() {
    let old = || plan([resource(0, "Deployment/api"), prune(1, "Job/old").confirm()]);
    let mut with_request = request();
    with_request.options.prune_confirmed = true;
    let mut world = World::new(old(), with_request);
    world.run();
    assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)");

    let mut world = World::new(old(), request());
    world.at(500, Input::ConfirmPrune { by: "ann".into() });
    world.at(600, Input::ConfirmPrune { by: "ann".into() });
    trace(
        world,
        "
            plan
            check Deployment/api
            apply Deployment/api
            # waiting for healthy state of apps/Deployment/api
            ! no prune of this operation needs confirmation
            prune Job/old
            # successfully synced (all tasks run)
            = 1 Deployment/api Synced Succeeded: api applied
            = 2 Job/old Pruned Succeeded: pruned
            ",
    );
}

#[test]
fn hooks_and_resources_leave_together() {
    let mut world = World::new(
        plan([
            prune(0, "Deployment/old"),
            hook(Phase::Sync, 0, "Job/a").living(),
            hook(Phase::Sync, 0, "Job/b").living(),
            resource(1, "ConfigMap/c"),
        ]),
        request(),
    );
    for object in ["Deployment/old", "Job/a", "Job/b"] {
        world.fate(object, |fate| fate.lingers = 2000);
    }
    trace(
        world,
        "
            plan
            check Job/a
            check Job/b
            check ConfigMap/c
            prune Deployment/old
            # waiting for deletion of apps/Deployment/old
            clear Job/a
            clear Job/b
            # waiting for deletion of hook batch/Job/a and 1 more hooks
            clear Job/a
            clear Job/b
            apply Job/a
            apply Job/b
            # waiting for completion of hook batch/Job/a and 1 more hooks
            release Job/a
            release Job/b
            apply ConfigMap/c
            # successfully synced (all tasks run)
            = 1 Deployment/old Pruned Succeeded: pruned
            = 2 Job/a Synced Succeeded: starting
            = 3 Job/b Synced Succeeded: starting
            = 4 ConfigMap/c Synced Running: c applied
            ",
    );
}

/// Custom resources wait until their kind is served, even if nobody waits for the definition's health, and even if the
/// evidence is weak.
#[test]
fn a_definition_is_served_before_its_kind_is_used() {
    for proof in [Proof::Generation, Proof::Nothing] {
        let crd = || resource(0, "CustomResourceDefinition/widgets").acting(Action::Apply).living();
        let mut world = World::new(plan([crd(), resource(0, "Widget/w").checked_late()]), request());
        world.fate("CustomResourceDefinition/widgets", |fate| fate.proof = proof);
        trace(
            world,
            "
            plan
            check CustomResourceDefinition/widgets
            check Widget/w
            apply CustomResourceDefinition/widgets
            # one or more tasks are running
            apply Widget/w
            # successfully synced (all tasks run)
            = 1 CustomResourceDefinition/widgets Synced Running: widgets applied
            = 2 Widget/w Synced Running: w applied
            ",
        );
    }
}

#[test]
fn kinds_are_applied_group_by_group() {
    let tasks = [
        resource(0, "ConfigMap/a"),
        resource(0, "ConfigMap/b"),
        resource(0, "Deployment/a"),
        resource(0, "ConfigMap/z"),
    ];
    let mut world = World::new(plan(tasks), request());
    world.fate("ConfigMap/a", |fate| fate.write.push_back(Reply::No("no".into())));
    world.weather.slow = 50;
    world.run();
    let order: Vec<&str> = world.transcript.iter().filter_map(|line| line.strip_prefix("apply ")).collect();
    assert_eq!(order, ["ConfigMap/a", "ConfigMap/b", "Deployment/a", "ConfigMap/z"]);
    assert_eq!(world.results().len(), 4, "a failure does not keep later groups back");
}

#[test]
fn a_runner_carries_a_hook_out() {
    let mut world = World::new(
        plan([hook(Phase::PreSync, 0, "Job/a").runner("shell"), resource(0, "ConfigMap/c")]),
        request(),
    );
    trace(
        world,
        "
            plan
            check ConfigMap/c
            run Job/a
            apply ConfigMap/c
            # successfully synced (all tasks run)
            = 1 Job/a Synced Succeeded: ran
            = 2 ConfigMap/c Synced Running: c applied
            ",
    );
    world = World::new(plan([hook(Phase::PreSync, 0, "Job/a").runner("shell")]), request());
    world.fate("Job/a", |fate| fate.runs = false);
    trace(
        world,
        "
            plan
            run Job/a
            # one or more synchronization tasks completed unsuccessfully
            = 1 Job/a Synced Failed: ran
            ",
    );
}

#[test]
fn weak_evidence_settles_two_seconds_after_the_write() {
    let run = |delay: Option<u64>, proof: Proof, healthy_after: i64| {
        let request = SyncRequest { wave_delay: delay.map(seconds), ..request() };
        let mut world = World::new(plan([resource(0, "Widget/w"), resource(1, "ConfigMap/c")]), request);
        world.fate("Widget/w", |fate| {
            fate.proof = proof;
            fate.health[1].0 = healthy_after;
        });
        world.run();
        world.now
    };
    assert_eq!(run(None, Proof::Nothing, 1), 2000);
    assert_eq!(run(None, Proof::Nothing, 3000), 3000, "it has been long enough");
    assert_eq!(run(None, Proof::Identity, 1), 1);
    assert_eq!(run(Some(0), Proof::Nothing, 1), 1);
    // A fixed delay comes after every wave but the last, whatever the evidence.
    assert_eq!(run(Some(5), Proof::Nothing, 1), 5000);
    assert_eq!(run(Some(5), Proof::Identity, 1), 5000);
    assert_eq!(run(Some(5), Proof::Identity, 7000), 7000);
}

#[test]
fn weak_evidence_that_turns_bad_is_no_success() {
    let mut world = World::new(plan([resource(0, "Widget/w"), resource(1, "ConfigMap/c")]), request());
    world.fate("Widget/w", |fate| {
        fate.proof = Proof::Nothing;
        fate.health = vec![
            (0, seen(HealthStatus::Healthy, "looks good")),
            (500, seen(HealthStatus::Progressing, "hm")),
            (5000, seen(HealthStatus::Degraded, "bad")),
        ];
    });
    trace(
        world,
        "
            plan
            check Widget/w
            check ConfigMap/c
            apply Widget/w
            # waiting for healthy state of example.com/Widget/w
            # one or more synchronization tasks completed unsuccessfully
            = 1 Widget/w Synced Failed: bad
            ",
    );
}

#[test]
fn the_last_wave_is_gated_where_that_is_asked_for() {
    for (wait, ended) in [(WaitFor::Synced, 0), (WaitFor::Healthy, 1000)] {
        let request = SyncRequest { wait, ..request() };
        let mut world = World::new(plan([resource(0, "Deployment/api")]), request);
        assert_eq!(world.run().now, ended);
    }
    // An existing object that is not well does not matter where nobody waits for it.
    let degraded = || resource(0, "Deployment/api").acting(Action::Apply).living();
    let mut world = World::new(plan([degraded()]), request());
    world.fate("Deployment/api", |fate| fate.health = vec![(0, seen(HealthStatus::Degraded, "bad"))]);
    world.fate("Deployment/api", |fate| fate.proof = Proof::Identity);
    world.run();
    assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)");
    // It does where a hook keeps the wave open, even in an operation of one step.
    let mut world = World::new(plan([degraded(), hook(Phase::Sync, 0, "Job/j")]), request());
    world.fate("Deployment/api", |fate| fate.degrades("bad"));
    world.fate("Job/j", |fate| fate.health[1].0 = 2000);
    world.run();
    assert_eq!(
        world.driver().state().message(),
        "one or more synchronization tasks completed unsuccessfully"
    );
}

#[test]
fn health_that_is_ignored_holds_back_waves_but_not_the_wait_for_the_application() {
    let healthy = || SyncRequest { wait: WaitFor::Healthy, ..request() };
    let ignoring = |wave, object| resource(wave, object).with(|task| task.options.ignores_health = true);
    let run = |tasks: Vec<tidegate_model::Task>, request, degrades| {
        let mut world = World::new(plan(tasks), request);
        world.fate("Deployment/api", |fate| fate.health.truncate(1));
        if degrades {
            world.fate("Deployment/api", |fate| fate.degrades("bad"));
        }
        world.run();
        (world.driver().state().message().to_owned(), world.now)
    };
    let done = || "successfully synced (all tasks run)".to_owned();
    // In the last wave nothing but the application's health waits for it.
    assert_eq!(run(vec![ignoring(0, "Deployment/api")], healthy(), false), (done(), 0));
    assert_eq!(run(vec![ignoring(0, "Deployment/api")], healthy(), true), (done(), 0));
    let beside = vec![ignoring(0, "Deployment/api"), resource(0, "Deployment/web")];
    assert_eq!(run(beside, healthy(), true), (done(), 1000));
    // A wave that others follow waits for all of its resources.
    let gated = || vec![ignoring(0, "Deployment/api"), resource(1, "ConfigMap/c")];
    for request in [request(), healthy()] {
        let (message, _) = run(gated(), request, true);
        assert_eq!(message, "one or more synchronization tasks completed unsuccessfully");
    }
}

#[test]
fn what_cannot_be_judged_ends_a_hook_in_error_and_leaves_a_resource_waiting() {
    let unknown = |from| (from, seen(HealthStatus::Unknown, "field status must be a map"));
    for broken in [true, false] {
        let mut world =
            World::new(plan([hook(Phase::PreSync, 0, "Job/j"), resource(0, "ConfigMap/c")]), request());
        world.fate("Job/j", |fate| {
            fate.broken = broken;
            fate.health = vec![(0, seen(HealthStatus::Progressing, "starting")), unknown(1000)];
        });
        world.run();
        let resources = view(world.driver().state()).unwrap().resources;
        let job = resources.iter().find(|resource| resource.name == "j").unwrap();
        let ended = (job.status, job.hook_phase, job.message.as_str());
        let expected = if broken {
            (OperationPhase::Error, "failed to get resource health: field status must be a map")
        } else {
            (OperationPhase::Failed, "field status must be a map")
        };
        assert_eq!(ended, (Some(ResultCode::Synced), Some(expected.0), expected.1));
    }
    let mut world = World::new(plan([resource(0, "Deployment/api"), resource(1, "ConfigMap/c")]), request());
    world.fate("Deployment/api", |fate| {
        fate.broken = true;
        fate.health = vec![unknown(0), (1000, seen(HealthStatus::Healthy, ""))];
    });
    world.run();
    assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)");
    assert_eq!(world.now, 1000);
}

#[test]
fn a_child_application_that_tells_nothing_makes_its_parent_no_worse() {
    let mut child = resource(0, "Deployment/child");
    child.gvk = tidegate_model::Gvk::new("argoproj.io", "v1alpha1", "Application");
    let request = SyncRequest { wait: WaitFor::Healthy, ..request() };
    let mut world = World::new(plan([child]), request);
    world.fate("Application/child", |fate| fate.health = vec![(0, seen(HealthStatus::Unknown, ""))]);
    world.fate("Application/child", |fate| fate.proof = Proof::Identity);
    world.run();
    assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)");
}

/// One step with a hook: its resources are not awaited.
#[test]
fn a_single_step_waits_for_hooks_only() {
    let mut world =
        World::new(plan([resource(0, "Deployment/api"), hook(Phase::Sync, 0, "Job/j")]), request());
    world.fate("Deployment/api", |fate| fate.health.truncate(1));
    trace(
        world,
        "
            plan
            check Deployment/api
            check Job/j
            clear Job/j
            apply Deployment/api
            apply Job/j
            # waiting for completion of hook batch/Job/j
            release Job/j
            # successfully synced (no more tasks)
            = 1 Deployment/api Synced Running: api applied
            = 2 Job/j Synced Succeeded: starting
            ",
    );
}
