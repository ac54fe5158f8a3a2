//! Waits for gates, confirmations, definitions, evidence, delays and deadlines.

use tidegate_lifecycle::operation::{Input, OperationEvent, Verdict, explain, view};
use tidegate_model::{
    Action, HealthStatus, Observation, ObservedState, OperationPhase, Phase, ResultCode, SyncRequest, WaitFor,
};

use crate::build::*;
use crate::traces::assert_trace;
use crate::world::{EvidenceKind, Reply, World, health_of};

fn closed_verdict(reason: &str, ask_again_after: u64) -> Verdict {
    Verdict::Closed { reason: reason.into(), ask_again_after: seconds(ask_again_after) }
}

#[test]
fn a_wave_is_held_until_every_gate_opens() {
    let plan = plan([resource(0, "ConfigMap/c")]).with_gate(0, "night").with_gate(0, "office");
    let mut world = World::new(plan, request());
    world
        .gates
        .insert("night".into(), [closed_verdict("it is day", 30), closed_verdict("still day", 0)].into());
    world.gates.insert("office".into(), [closed_verdict("nobody is there", 10)].into());
    assert_trace(
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

/// Another operation's hook appears after a hook's name was checked but before the hook is created. The
/// operation waits until that hook has ended, and only then deletes it.
#[test]
fn a_hook_whose_place_is_taken_before_creation_waits() {
    let mut world =
        World::new(plan([hook_task(Phase::Sync, 0, "Job/h"), resource(0, "Widget/w")]), request());
    world.configure("Job/h", |fate| {
        fate.rivals = [5000, 500].into();
        fate.deletion_delay = 700;
    });
    assert_trace(
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

/// When the other operation's hook ends, the wave has already failed because of its deadline, and another
/// wave is open.
#[test]
fn a_place_that_becomes_free_too_late_is_ignored() {
    let alert = hook_task(Phase::SyncFail, 0, "Job/alert");
    let plan = plan([hook_task(Phase::Sync, 0, "Job/h"), alert]).with_wave_timeout(0, 5).with_gate(1, "g");
    let mut world = World::new(plan, request());
    world.configure("Job/h", |fate| fate.rivals = [6000].into());
    world.gates.insert("g".into(), [closed_verdict("not yet", 5)].into());
    let task = world.task_id("Job/h");
    let observation = Observation { at: at(7000), seen: ObservedState::Gone { uid: None } };
    world.schedule_input(7000, Input::Observed { task, observation });
    world.run_until(7000);
    assert_eq!(world.driver().state().name(), "Wave 2 Held");
    world.run();
    assert_eq!(
        world.driver().state().message(),
        "wave 0 of Sync did not complete within 5 s: waiting for completion of hook batch/Job/h of operation another"
    );
}

/// A closed gate may repeat its verdict any number of times, but only a verdict with a new reason is
/// recorded.
#[test]
fn a_repeated_gate_verdict_is_not_recorded() {
    let mut world = World::new(plan([resource(0, "ConfigMap/c")]).with_gate(0, "g"), request());
    let answers =
        std::iter::repeat_n(closed_verdict("no", 5), 500).chain([closed_verdict("not even now", 7)]);
    world.gates.insert(
        "g".into(),
        answers.chain(std::iter::repeat_n(closed_verdict("not even now", 3), 500)).collect(),
    );
    world.run_until(1000);
    let events = world.durable.len();
    world.run_until(2_400_000);
    assert_eq!(world.durable.len(), events, "repeated verdicts must not be recorded");
    world.run_until(3_600_000);
    assert_eq!(world.durable.len(), events + 1, "a new reason must be recorded once");
    assert!(
        world.driver().state().message().ends_with("not even now"),
        "{}",
        world.driver().state().message()
    );
    world.run();
    assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)");
}

/// All gates must be open at the same time, because an open gate may close again while another gate is still
/// closed.
#[test]
fn a_gate_may_close_again_before_the_others_open() {
    let plan = plan([resource(0, "ConfigMap/c")]).with_gate(0, "night").with_gate(0, "office");
    let mut world = World::new(plan, request());
    world.gates.insert("office".into(), [closed_verdict("nobody is there", 60)].into());
    let gate = |verdict| Input::Gate { wave: 0, gate: "night".into(), verdict };
    world.schedule_input(30_000, gate(closed_verdict("it is day", 600)));
    world.schedule_input(90_000, gate(Verdict::Open));
    world.run_until(89_000);
    assert_eq!(world.driver().state().message(), "gate night is closed: it is day");
    world.run();
    assert_eq!(world.now, 90_000);
}

/// After a restart, an open verdict from before the restart doesn't count.
#[test]
fn a_gate_that_was_open_before_a_restart_is_asked_again() {
    let plan = || plan([resource(0, "ConfigMap/c")]).with_gate(0, "night").with_gate(0, "office");
    let mut world = World::new(plan(), request());
    world.gates.insert("night".into(), [Verdict::Open, closed_verdict("it is day", 600)].into());
    world.gates.insert("office".into(), [closed_verdict("nobody is there", 60)].into());
    world.run_until(1000);
    world.crash_now();
    // The other gate is open now.
    world.gates.remove("office");
    world.run_until(2000);
    assert_eq!(world.driver().state().name(), "Wave 1 Held");
    assert_eq!(world.driver().state().message(), "gate night is closed: it is day");
}

fn approve_input(wave: Option<u32>) -> Input {
    Input::Approve { wave, by: "ann".into(), reason: "looks good".into() }
}

#[test]
fn a_wave_waits_for_approval() {
    let plan = plan([resource(0, "ConfigMap/a"), resource(1, "ConfigMap/b"), resource(2, "ConfigMap/c")])
        .with_gate(1, "approval")
        .with_gate(2, "approval");
    let mut world = World::new(plan, request());
    // The last wave is approved before it is reached, and remains approved after a crash.
    world.schedule_input(10_000, approve_input(Some(3)));
    world.schedule_input(11_000, approve_input(Some(3)));
    world.schedule_input(12_000, approve_input(Some(1)));
    world.schedule_input(13_000, approve_input(Some(9)));
    world.run_until(60_000);
    let explanation = explain(world.driver().state(), at(60_000)).to_string();
    assert!(
        explanation
            .contains("waiting 1 min for gate approval (wave 2 needs approval: `tidegate ops approve "),
        "{explanation}"
    );
    world.crash_now();
    world.schedule_input(70_000, approve_input(None));
    world.schedule_input(80_000, approve_input(None));
    world.run();
    assert_eq!(world.now, 70_000);
    assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)");
    let refused: Vec<&String> = world.transcript.iter().filter(|line| line.starts_with('!')).collect();
    assert_eq!(
        refused,
        [
            "! wave 3 is already approved",
            "! wave 1 needs no approval; approve one of these with `tidegate ops approve --wave`: 2",
            "! wave 9 needs no approval; approve one of these with `tidegate ops approve --wave`: 2",
        ]
    );
    let approvals: Vec<&OperationEvent> =
        world.durable.iter().filter(|event| matches!(event, OperationEvent::Approved { .. })).collect();
    let approved = |wave, millis| OperationEvent::Approved {
        wave,
        by: "ann".into(),
        reason: "looks good".into(),
        at: at(millis),
    };
    assert_eq!(approvals, [&approved(2, 10_000), &approved(1, 70_000)]);
}

/// Later attempts of an approved wave don't need another approval.
#[test]
fn an_approval_holds_for_every_attempt() {
    let plan = plan([hook_task(Phase::Sync, 0, "Job/a")]).with_gate(0, "approval");
    let retry = tidegate_model::RetryPolicy { limit: 1, ..Default::default() };
    let mut world = World::new(plan, SyncRequest { retry, ..request() });
    world.configure("Job/a", |fate| fate.degrade("bad"));
    world.schedule_input(1000, approve_input(None));
    world.run();
    assert!(
        world.driver().state().message().contains("(retried 1 times)"),
        "{}",
        world.driver().state().message()
    );
    assert!(world.now < 60_000);
}

#[test]
fn a_wave_soaks_after_the_previous_one_passed() {
    let plan = plan([resource(0, "Deployment/a"), resource(1, "ConfigMap/b")])
        .with_gate(0, "soak:1h")
        .with_gate(1, "soak:10m")
        .with_gate(1, "soak:30s");
    let mut world = World::new(plan, request());
    world.run_until(100_000);
    let passed = world.operation().waves[0].passed_at.expect("the first wave must not soak");
    let until = passed + seconds(600);
    assert_eq!(
        world.driver().state().message(),
        format!("gate soak:10m is closed: the previous wave is soaking until {until}")
    );
    let explanation = explain(world.driver().state(), at(100_000)).to_string();
    assert!(explanation.contains("gate soak:10m (the previous wave is soaking until"), "{explanation}");
    assert!(!explanation.contains("soak:30s"), "{explanation}");
    world.run_until(until.as_millis() - at(0).as_millis() - 1);
    assert_eq!(world.driver().state().name(), "Wave 2 Held");
    world.crash_now();
    world.run();
    assert_eq!(at(world.now), until, "a crash must not change the soak time");
}

/// A soak gate with an invalid duration is queried like any other gate.
#[test]
fn a_soak_gate_without_a_duration_is_asked() {
    let mut world = World::new(plan([resource(0, "ConfigMap/a")]).with_gate(0, "soak:long"), request());
    world.gates.insert("soak:long".into(), [closed_verdict("nobody knows it", 600)].into());
    world.run_until(5000);
    assert_eq!(world.driver().state().message(), "gate soak:long is closed: nobody knows it");
}

#[test]
fn a_late_gate_verdict_is_dropped() {
    let mut world = World::new(
        plan([resource(0, "Deployment/a"), resource(1, "ConfigMap/c")]).with_gate(0, "g"),
        request(),
    );
    world.run_until(500);
    for wave in [0, 1, 7] {
        world.schedule_input(
            600,
            Input::Gate { wave, gate: "g".into(), verdict: closed_verdict("too late", 1) },
        );
    }
    world.run_until(700);
    assert_eq!(world.driver().state().name(), "Wave 1 AwaitingHealth");
    assert!(world.operation().gates.iter().all(|answer| answer.verdict == Verdict::Open));
}

#[test]
fn confirmation_can_come_with_the_request_or_in_advance() {
    let old = || plan([resource(0, "Deployment/api"), prune_task(1, "Job/old").with_confirmation()]);
    let mut with_request = request();
    with_request.options.prune_confirmed = true;
    let mut world = World::new(old(), with_request);
    world.run();
    assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)");

    let mut world = World::new(old(), request());
    world.schedule_input(500, Input::ConfirmPrune { by: "ann".into() });
    world.schedule_input(600, Input::ConfirmPrune { by: "ann".into() });
    assert_trace(
        world,
        "
            plan
            check Deployment/api
            apply Deployment/api
            # waiting for healthy state of apps/Deployment/api
            ! no prune in this operation needs confirmation
            prune Job/old
            # successfully synced (all tasks run)
            = 1 Deployment/api Synced Succeeded: api applied
            = 2 Job/old Pruned Succeeded: pruned
            ",
    );
}

#[test]
fn hooks_and_resources_start_together() {
    let mut world = World::new(
        plan([
            prune_task(0, "Deployment/old"),
            hook_task(Phase::Sync, 0, "Job/a").with_live_object(),
            hook_task(Phase::Sync, 0, "Job/b").with_live_object(),
            resource(1, "ConfigMap/c"),
        ]),
        request(),
    );
    for object in ["Deployment/old", "Job/a", "Job/b"] {
        world.configure(object, |fate| fate.deletion_delay = 2000);
    }
    assert_trace(
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

/// Custom resources wait until their definition is established, even if the operation doesn't wait for the
/// definition's health. Weak evidence is sufficient.
#[test]
fn a_custom_resource_waits_until_its_kind_is_served() {
    for proof in [EvidenceKind::Generation, EvidenceKind::Nothing] {
        let crd =
            || resource(0, "CustomResourceDefinition/widgets").with_action(Action::Apply).with_live_object();
        let mut world = World::new(plan([crd(), resource(0, "Widget/w").with_late_check()]), request());
        world.configure("CustomResourceDefinition/widgets", |fate| fate.evidence = proof);
        assert_trace(
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
    world.configure("ConfigMap/a", |fate| fate.write.push_back(Reply::Rejected("no".into())));
    world.disturbances.max_delay = 50;
    world.run();
    let order: Vec<&str> = world.transcript.iter().filter_map(|line| line.strip_prefix("apply ")).collect();
    assert_eq!(order, ["ConfigMap/a", "ConfigMap/b", "Deployment/a", "ConfigMap/z"]);
    assert_eq!(world.results().len(), 4, "a failure must not block later groups");
}

#[test]
fn a_runner_executes_a_hook() {
    let mut world = World::new(
        plan([hook_task(Phase::PreSync, 0, "Job/a").with_runner("shell"), resource(0, "ConfigMap/c")]),
        request(),
    );
    assert_trace(
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
    world = World::new(plan([hook_task(Phase::PreSync, 0, "Job/a").with_runner("shell")]), request());
    world.configure("Job/a", |fate| fate.runner_succeeds = false);
    assert_trace(
        world,
        "
            plan
            run Job/a
            # one or more synchronization tasks completed unsuccessfully, reason: hook Job shop/a: ran
            = 1 Job/a Synced Failed: ran
            ",
    );
}

#[test]
fn weak_evidence_settles_two_seconds_after_the_write() {
    let run = |delay: Option<u64>, proof: EvidenceKind, healthy_after: i64| {
        let request = SyncRequest { wave_delay: delay.map(seconds), ..request() };
        let mut world = World::new(plan([resource(0, "Widget/w"), resource(1, "ConfigMap/c")]), request);
        world.configure("Widget/w", |fate| {
            fate.evidence = proof;
            fate.health[1].0 = healthy_after;
        });
        world.run();
        world.now
    };
    assert_eq!(run(None, EvidenceKind::Nothing, 1), 2000);
    assert_eq!(run(None, EvidenceKind::Nothing, 3000), 3000, "the settle time has already passed");
    assert_eq!(run(None, EvidenceKind::Identity, 1), 1);
    assert_eq!(run(Some(0), EvidenceKind::Nothing, 1), 1);
    // A fixed delay follows every wave except the last, whatever the evidence.
    assert_eq!(run(Some(5), EvidenceKind::Nothing, 1), 5000);
    assert_eq!(run(Some(5), EvidenceKind::Identity, 1), 5000);
    assert_eq!(run(Some(5), EvidenceKind::Identity, 7000), 7000);
}

#[test]
fn weak_evidence_that_degrades_is_not_a_success() {
    let mut world = World::new(plan([resource(0, "Widget/w"), resource(1, "ConfigMap/c")]), request());
    world.configure("Widget/w", |fate| {
        fate.evidence = EvidenceKind::Nothing;
        fate.health = vec![
            (0, health_of(HealthStatus::Healthy, "looks good")),
            (500, health_of(HealthStatus::Progressing, "hm")),
            (5000, health_of(HealthStatus::Degraded, "bad")),
        ];
    });
    assert_trace(
        world,
        "
            plan
            check Widget/w
            check ConfigMap/c
            apply Widget/w
            # waiting for healthy state of example.com/Widget/w
            # one or more synchronization tasks completed unsuccessfully, reason: Widget shop/w: bad
            = 1 Widget/w Synced Failed: bad
            ",
    );
}

#[test]
fn the_last_wave_is_health_gated_on_request() {
    for (wait, ended) in [(WaitFor::Synced, 0), (WaitFor::Healthy, 1000)] {
        let request = SyncRequest { wait, ..request() };
        let mut world = World::new(plan([resource(0, "Deployment/api")]), request);
        assert_eq!(world.run().now, ended);
    }
    // The health of an unhealthy object is ignored if the operation doesn't wait for health.
    let degraded = || resource(0, "Deployment/api").with_action(Action::Apply).with_live_object();
    let mut world = World::new(plan([degraded()]), request());
    world.configure("Deployment/api", |fate| {
        fate.health = vec![(0, health_of(HealthStatus::Degraded, "bad"))]
    });
    world.configure("Deployment/api", |fate| fate.evidence = EvidenceKind::Identity);
    world.run();
    assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)");
    // If a hook keeps the wave open, the object's health affects the outcome, even in an operation with a
    // single wave.
    let mut world = World::new(plan([degraded(), hook_task(Phase::Sync, 0, "Job/j")]), request());
    world.configure("Deployment/api", |fate| fate.degrade("bad"));
    world.configure("Job/j", |fate| fate.health[1].0 = 2000);
    world.run();
    assert_eq!(
        world.driver().state().message(),
        "one or more synchronization tasks completed unsuccessfully, reason: Deployment shop/api: bad"
    );
}

#[test]
fn ignored_health_holds_back_waves_but_not_the_application() {
    let healthy = || SyncRequest { wait: WaitFor::Healthy, ..request() };
    let ignoring = |wave, object| resource(wave, object).with(|task| task.options.ignores_health = true);
    let run = |tasks: Vec<tidegate_model::Task>, request, degrades| {
        let mut world = World::new(plan(tasks), request);
        world.configure("Deployment/api", |fate| fate.health.truncate(1));
        if degrades {
            world.configure("Deployment/api", |fate| fate.degrade("bad"));
        }
        world.run();
        (world.driver().state().message().to_owned(), world.now)
    };
    let done = || "successfully synced (all tasks run)".to_owned();
    // In the last wave, the operation waits only for the application's health.
    assert_eq!(run(vec![ignoring(0, "Deployment/api")], healthy(), false), (done(), 0));
    assert_eq!(run(vec![ignoring(0, "Deployment/api")], healthy(), true), (done(), 0));
    let beside = vec![ignoring(0, "Deployment/api"), resource(0, "Deployment/web")];
    assert_eq!(run(beside, healthy(), true), (done(), 1000));
    // A wave that is followed by other waves waits for all of its resources.
    let gated = || vec![ignoring(0, "Deployment/api"), resource(1, "ConfigMap/c")];
    for request in [request(), healthy()] {
        let (message, _) = run(gated(), request, true);
        assert_eq!(
            message,
            "one or more synchronization tasks completed unsuccessfully, reason: Deployment shop/api: bad"
        );
    }
}

#[test]
fn unjudged_health_fails_a_hook_and_keeps_a_resource_waiting() {
    let unknown = |from| (from, health_of(HealthStatus::Unknown, "field status must be a map"));
    for broken in [true, false] {
        let mut world =
            World::new(plan([hook_task(Phase::PreSync, 0, "Job/j"), resource(0, "ConfigMap/c")]), request());
        world.configure("Job/j", |fate| {
            fate.has_broken_health_rule = broken;
            fate.health = vec![(0, health_of(HealthStatus::Progressing, "starting")), unknown(1000)];
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
    world.configure("Deployment/api", |fate| {
        fate.has_broken_health_rule = true;
        fate.health = vec![unknown(0), (1000, health_of(HealthStatus::Healthy, ""))];
    });
    world.run();
    assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)");
    assert_eq!(world.now, 1000);
}

#[test]
fn a_child_application_without_health_does_not_affect_its_parent() {
    let mut child = resource(0, "Deployment/child");
    child.gvk = tidegate_model::Gvk::new("argoproj.io", "v1alpha1", "Application");
    let request = SyncRequest { wait: WaitFor::Healthy, ..request() };
    let mut world = World::new(plan([child]), request);
    world
        .configure("Application/child", |fate| fate.health = vec![(0, health_of(HealthStatus::Unknown, ""))]);
    world.configure("Application/child", |fate| fate.evidence = EvidenceKind::Identity);
    world.run();
    assert_eq!(world.driver().state().message(), "successfully synced (all tasks run)");
}

/// An operation with a single wave waits only for the wave's hooks, not for its resources.
#[test]
fn a_single_step_waits_only_for_hooks() {
    let mut world =
        World::new(plan([resource(0, "Deployment/api"), hook_task(Phase::Sync, 0, "Job/j")]), request());
    world.configure("Deployment/api", |fate| fate.health.truncate(1));
    assert_trace(
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
