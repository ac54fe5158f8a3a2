//! Status of an ApplicationSet and its transition times.

use serde_json::{Value, json};
use tidegate_applicationset::status::{
    ConditionReason, ReconcileFailure, ReconciledState, RolloutStatus, new_status,
};
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_model::argo::{
    Application, ApplicationSet, ApplicationSetApplicationStatus, ApplicationSetStatus, MemberStatus,
};

use crate::{appset, at, live_application};

const ALL_GENERATED: &str = "All applications have been generated successfully";
const GENERATED: &str = "Successfully generated parameters for all Applications";

fn appset_with_steps() -> ApplicationSet {
    appset(&json!({"strategy": {"type": "RollingSync", "rollingSync": {"steps": [{}, {}]}}}))
}

fn reconciled_state<'a>(
    failure: Option<(ConditionReason, &str)>,
    members: &'a [Application],
) -> ReconciledState<'a> {
    let failure = failure.map(|(reason, message)| ReconcileFailure { reason, message: message.to_owned() });
    let is_generated = !failure.as_ref().is_some_and(|failure| {
        matches!(
            failure.reason,
            ConditionReason::ApplicationGenerationFromParamsError
                | ConditionReason::RenderTemplateParamsError
        )
    });
    ReconciledState {
        is_generated,
        failure,
        members: members.iter().collect(),
        rollout: RolloutStatus::Unknown,
        warning: None,
        output_warnings: &[],
    }
}

fn member(name: &str, status: MemberStatus, step: &str) -> ApplicationSetApplicationStatus {
    ApplicationSetApplicationStatus {
        application: name.to_owned(),
        status,
        message: "m".to_owned(),
        step: step.to_owned(),
        last_transition_time: Some(at(0).into()),
        ..ApplicationSetApplicationStatus::default()
    }
}

/// Returns each condition as type, status, reason, message, and seconds of its last transition.
fn conditions(status: &ApplicationSetStatus) -> Vec<[String; 5]> {
    let since = |one: &tidegate_model::argo::ApplicationSetCondition| {
        one.last_transition_time.unwrap().timestamp().since(at(0)).as_secs().to_string()
    };
    let all = status.conditions.iter();
    all.map(|one| [one.kind.clone(), one.status.clone(), one.reason.clone(), one.message.clone(), since(one)])
        .collect()
}

#[track_caller]
fn assert_conditions(status: &ApplicationSetStatus, expected: &[[&str; 5]]) {
    let expected: Vec<[String; 5]> = expected.iter().map(|row| row.map(str::to_owned)).collect();
    assert_eq!(conditions(status), expected);
}

fn health(status: &ApplicationSetStatus) -> (String, String, u64) {
    let health = status.health.as_ref().unwrap();
    let since = health.last_transition_time.unwrap().timestamp().since(at(0)).as_secs();
    (format!("{:?}", health.status), health.message.clone(), since)
}

#[test]
fn one_condition_summarizes_the_others() {
    let mut set = appset(&json!({}));
    let mut look = |failure, seconds| {
        let status =
            new_status(&set, &reconciled_state(failure, &[]), &AppSetRuleOptions::default(), at(seconds));
        if let Some(status) = &status {
            set.status = status.clone();
        }
        status
    };
    let first = look(None, 1).unwrap();
    let up_to_date = "ApplicationSetUpToDate";
    assert_conditions(
        &first,
        &[
            ["ErrorOccurred", "False", up_to_date, ALL_GENERATED, "1"],
            ["ParametersGenerated", "True", "ParametersGenerated", GENERATED, "1"],
            ["ResourcesUpToDate", "True", up_to_date, ALL_GENERATED, "1"],
        ],
    );
    assert_eq!(health(&first), ("Healthy".to_owned(), ALL_GENERATED.to_owned(), 1));
    assert_eq!(look(None, 2), None, "nothing has changed, so nothing is written");
    // An error with existing Applications.
    let failed = look(Some((ConditionReason::UpdateApplicationError, "no")), 3).unwrap();
    assert_conditions(
        &failed,
        &[
            ["ErrorOccurred", "True", "UpdateApplicationError", "no", "3"],
            ["ParametersGenerated", "True", "ParametersGenerated", GENERATED, "1"],
            ["ResourcesUpToDate", "False", "ErrorOccurred", "no", "3"],
        ],
    );
    assert_eq!(health(&failed), ("Degraded".to_owned(), "no".to_owned(), 3));
    // A different error changes the transition times, but not the health.
    let generating = look(Some((ConditionReason::ApplicationGenerationFromParamsError, "git")), 4).unwrap();
    assert_conditions(
        &generating,
        &[
            ["ErrorOccurred", "True", "ApplicationGenerationFromParamsError", "git", "4"],
            ["ParametersGenerated", "False", "ErrorOccurred", "git", "4"],
            ["ResourcesUpToDate", "False", "ErrorOccurred", "git", "4"],
        ],
    );
    assert_eq!(health(&generating), ("Degraded".to_owned(), "git".to_owned(), 3));
    assert_eq!(look(Some((ConditionReason::ApplicationGenerationFromParamsError, "git")), 5), None);
    assert_conditions(
        &look(None, 6).unwrap(),
        &[
            ["ErrorOccurred", "False", up_to_date, ALL_GENERATED, "6"],
            ["ParametersGenerated", "True", "ParametersGenerated", GENERATED, "6"],
            ["ResourcesUpToDate", "True", up_to_date, ALL_GENERATED, "6"],
        ],
    );
}

#[test]
fn foreign_conditions_stay_and_long_messages_are_truncated() {
    let mut set = appset(&json!({}));
    let other = json!([{"type": "Another", "status": "True", "reason": "R", "message": "m"}]);
    set.status.conditions = serde_json::from_value(other).unwrap();
    let long = "ä".repeat(10_000);
    let told = new_status(
        &set,
        &reconciled_state(Some((ConditionReason::CreateApplicationError, &long)), &[]),
        &AppSetRuleOptions::default(),
        at(0),
    );
    let told = told.unwrap();
    let kinds: Vec<&str> = told.conditions.iter().map(|one| one.kind.as_str()).collect();
    assert_eq!(kinds, ["Another", "ErrorOccurred", "ParametersGenerated", "ResourcesUpToDate"]);
    assert_eq!(told.conditions[1].message, "ä".repeat(4096));
}

#[test]
fn a_progressive_sync_is_in_the_status() {
    let known = |step: Option<u32>| RolloutStatus::Known {
        is_progressing: step.is_some(),
        reason: if step.is_some() { "ApplicationSetModified" } else { "ApplicationSetRolloutComplete" }
            .to_owned(),
        message: step.map_or_else(
            || "ApplicationSet Rollout has completed".to_owned(),
            |step| format!("ApplicationSet is performing rollout of step {step}"),
        ),
        warning: None,
        members: Vec::new(),
    };
    let of = |set: &ApplicationSet,
              rollout,
              failure: Option<(ConditionReason, &str)>,
              options: &AppSetRuleOptions| {
        let told =
            new_status(set, &ReconciledState { rollout, ..reconciled_state(failure, &[]) }, options, at(1))
                .unwrap();
        let condition = told.conditions.iter().find(|one| one.kind == "RolloutProgressing");
        let text = condition.map(|one| format!("{} {}: {}", one.status, one.reason, one.message));
        (text.unwrap_or_default(), health(&told).0)
    };
    let (on, off) = (
        AppSetRuleOptions::default(),
        AppSetRuleOptions { progressive_syncs: false, ..AppSetRuleOptions::default() },
    );
    let step_2 = "True ApplicationSetModified: ApplicationSet is performing rollout of step 2";
    let over = "False ApplicationSetRolloutComplete: ApplicationSet Rollout has completed";
    let failed = Some((ConditionReason::UpdateApplicationError, "no"));
    for (set, rollout, failure, options, condition, does) in [
        (appset_with_steps(), known(Some(2)), None, &on, step_2, "Progressing"),
        (appset_with_steps(), known(Some(2)), failed, &on, step_2, "Degraded"),
        (appset_with_steps(), known(None), None, &on, over, "Healthy"),
        (appset_with_steps(), RolloutStatus::Unknown, None, &on, "", "Healthy"),
        // No progressive sync.
        (appset(&json!({})), known(Some(2)), None, &on, "", "Healthy"),
        (appset_with_steps(), known(Some(2)), None, &off, "", "Healthy"),
    ] {
        let found = of(&set, rollout, failure, options);
        assert_eq!(found, (condition.to_owned(), does.to_owned()), "{:?} {options:?}", set.spec.strategy);
    }
    // A separate condition reports a delay until it ends.
    let held = |said: Option<&str>| {
        let mut rollout = known(Some(1));
        if let RolloutStatus::Known { warning, .. } = &mut rollout {
            *warning = said.map(str::to_owned);
        }
        rollout
    };
    let mut waiting = appset_with_steps();
    let mut is_told = |rollout| {
        let seen = ReconciledState { rollout, ..reconciled_state(None, &[]) };
        waiting.status = new_status(&waiting, &seen, &on, at(1)).unwrap_or_else(|| waiting.status.clone());
        let warning = waiting.status.conditions.iter().find(|one| one.kind == "RolloutHeldWarning");
        warning.map(|one| format!("{} {}: {}", one.status, one.reason, one.message))
    };
    let told = Some("True PendingTimeout: Pending for more than 5 min: a".to_owned());
    assert_eq!(is_told(held(Some("Pending for more than 5 min: a"))), told);
    assert_eq!(is_told(RolloutStatus::Unknown), told);
    assert_eq!(is_told(held(None)), None);
    // The status is kept until a new one is known or the strategy is removed.
    let mut set = appset_with_steps();
    let started = ReconciledState { rollout: known(Some(2)), ..reconciled_state(None, &[]) };
    set.status = new_status(&set, &started, &on, at(1)).unwrap();
    assert_eq!(new_status(&set, &reconciled_state(None, &[]), &on, at(2)), None);
    set.spec.strategy = None;
    assert_eq!(of(&set, RolloutStatus::Unknown, None, &on).0, "");
}

#[test]
fn existing_members_are_listed_by_name() {
    use MemberStatus::{Healthy, Pending, Waiting};
    let there = [live_application("b", &json!({})), live_application("a", &json!({}))];
    let known = |members| {
        let (reason, message) = ("ApplicationSetModified".to_owned(), "step 1".to_owned());
        let rollout = RolloutStatus::Known { is_progressing: true, reason, message, warning: None, members };
        ReconciledState { rollout, ..reconciled_state(None, &there) }
    };
    let told =
        |set: &ApplicationSet, seen: &ReconciledState<'_>, options: &AppSetRuleOptions| -> Vec<String> {
            let told = new_status(set, seen, options, at(1)).unwrap_or_else(|| set.status.clone());
            let word = |one: &ApplicationSetApplicationStatus| {
                format!("{} {} {}", one.application, one.status, one.step)
            };
            told.application_status.iter().map(word).collect()
        };
    let options = AppSetRuleOptions::default();
    let mut set = appset_with_steps();
    let first =
        known(vec![member("b", Waiting, "2"), member("gone", Pending, "1"), member("a", Healthy, "1")]);
    assert_eq!(told(&set, &first, &options), ["a Healthy 1", "b Waiting 2"]);
    set.status = new_status(&set, &first, &options, at(1)).unwrap();
    assert_eq!(
        told(&set, &reconciled_state(None, &there), &options),
        ["a Healthy 1", "b Waiting 2"],
        "nothing new"
    );
    assert_eq!(told(&set, &reconciled_state(None, &there[..1]), &options), ["b Waiting 2"]);
    assert_eq!(new_status(&set, &first, &options, at(5)), None, "an unchanged status is not written");
    let targets = {
        let mut member = member("a", Healthy, "1");
        member.target_revisions = vec!["c0ffee".to_owned()];
        known(vec![member, self::member("b", Waiting, "2")])
    };
    assert!(
        new_status(&set, &targets, &options, at(5)).is_some(),
        "a status in which only the targets have changed is written"
    );
    // No Application statuses if progressive syncs are disabled.
    let off = AppSetRuleOptions { progressive_syncs: false, ..AppSetRuleOptions::default() };
    assert_eq!(told(&set, &first, &off), Vec::<String>::new());
    set.spec.strategy.as_mut().unwrap().kind = "AllAtOnce".to_owned();
    assert_eq!(told(&set, &first, &options), Vec::<String>::new());
}

#[test]
fn resources_are_listed_up_to_the_limit() {
    let status_of = |sync: &str, health: &str| -> Value {
        json!({"status": {"sync": {"status": sync}, "health": {"status": health, "message": "m", "lastTransitionTime": "2026-11-21T09:30:00Z"}}})
    };
    let there = [
        live_application("c", &json!({})),
        live_application("a", &status_of("Synced", "Healthy")),
        live_application("b", &status_of("OutOfSync", "Degraded")),
    ];
    for (most, expected) in [(5000, 3), (0, 3), (3, 3), (2, 2)] {
        let options = AppSetRuleOptions { resources_max: most, ..AppSetRuleOptions::default() };
        let told = new_status(&appset(&json!({})), &reconciled_state(None, &there), &options, at(1)).unwrap();
        assert_eq!((told.resources.len(), told.resources_count), (expected, 3), "{most}");
        let entry = |name: &str, sync: &str, health: &str| {
            json!({
                "group": "argoproj.io", "version": "v1alpha1", "kind": "Application", "namespace": "argocd",
                "name": name, "status": sync, "health": {"status": health},
            })
        };
        assert_eq!(json!(told.resources[0]), entry("a", "Synced", "Healthy"));
        assert_eq!(json!(told.resources[1]), entry("b", "OutOfSync", "Degraded"));
    }
}

#[test]
fn a_warning_stays_while_it_applies() {
    let own = appset(&json!({}));
    let warned =
        ReconciledState { warning: Some("in the foreground".to_owned()), ..reconciled_state(None, &[]) };
    let first = new_status(&own, &warned, &AppSetRuleOptions::default(), at(1)).unwrap();
    let found = first.conditions.iter().find(|one| one.kind == "DeletionOrderWarning").unwrap();
    assert_eq!(
        (found.status.as_str(), found.reason.as_str(), found.message.as_str()),
        ("True", "ForegroundDeletion", "in the foreground")
    );
    let own = ApplicationSet { status: first, ..own };
    assert_eq!(
        new_status(&own, &warned, &AppSetRuleOptions::default(), at(2)),
        None,
        "the warning is reported once"
    );
    let after = new_status(&own, &reconciled_state(None, &[]), &AppSetRuleOptions::default(), at(3)).unwrap();
    assert!(after.conditions.iter().all(|one| one.kind != "DeletionOrderWarning"));
}
