//! What the status of a set says, and since when (specification, 8.1 to 8.3).

use serde_json::{Value, json};
use tidegate_applicationset::policy::Options;
use tidegate_applicationset::status::{Failure, Reason, Rollout, Seen, status};
use tidegate_model::argo::{
    Application, ApplicationSet, ApplicationSetApplicationStatus, ApplicationSetStatus, MemberStatus,
};

use crate::{at, live, set};

const WELL: &str = "All applications have been generated successfully";
const GENERATED: &str = "Successfully generated parameters for all Applications";

fn rolling() -> ApplicationSet {
    set(&json!({"strategy": {"type": "RollingSync", "rollingSync": {"steps": [{}, {}]}}}))
}

fn seen<'a>(failure: Option<(Reason, &str)>, members: &'a [Application]) -> Seen<'a> {
    let failure = failure.map(|(reason, message)| Failure { reason, message: message.to_owned() });
    let is_generated = !failure.as_ref().is_some_and(|failure| {
        matches!(
            failure.reason,
            Reason::ApplicationGenerationFromParamsError | Reason::RenderTemplateParamsError
        )
    });
    Seen {
        is_generated,
        failure,
        members: members.iter().collect(),
        rollout: Rollout::Unknown,
        warning: None,
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

/// The conditions, each as type, status, reason, message and seconds since it is so.
fn conditions(status: &ApplicationSetStatus) -> Vec<[String; 5]> {
    let since = |one: &tidegate_model::argo::ApplicationSetCondition| {
        one.last_transition_time.unwrap().moment().since(at(0)).as_secs().to_string()
    };
    let all = status.conditions.iter();
    all.map(|one| [one.kind.clone(), one.status.clone(), one.reason.clone(), one.message.clone(), since(one)])
        .collect()
}

#[track_caller]
fn says(status: &ApplicationSetStatus, expected: &[[&str; 5]]) {
    let expected: Vec<[String; 5]> = expected.iter().map(|row| row.map(str::to_owned)).collect();
    assert_eq!(conditions(status), expected);
}

fn health(status: &ApplicationSetStatus) -> (String, String, u64) {
    let health = status.health.as_ref().unwrap();
    let since = health.last_transition_time.unwrap().moment().since(at(0)).as_secs();
    (format!("{:?}", health.status), health.message.clone(), since)
}

#[test]
fn one_condition_says_what_the_others_are() {
    let mut set = set(&json!({}));
    let mut look = |failure, seconds| {
        let status = status(&set, &seen(failure, &[]), &Options::default(), at(seconds));
        if let Some(status) = &status {
            set.status = status.clone();
        }
        status
    };
    let first = look(None, 1).unwrap();
    let up_to_date = "ApplicationSetUpToDate";
    says(
        &first,
        &[
            ["ErrorOccurred", "False", up_to_date, WELL, "1"],
            ["ParametersGenerated", "True", "ParametersGenerated", GENERATED, "1"],
            ["ResourcesUpToDate", "True", up_to_date, WELL, "1"],
        ],
    );
    assert_eq!(health(&first), ("Healthy".to_owned(), WELL.to_owned(), 1));
    assert_eq!(look(None, 2), None, "nothing has changed, and nothing is written");
    // An error with Applications.
    let failed = look(Some((Reason::UpdateApplicationError, "no")), 3).unwrap();
    says(
        &failed,
        &[
            ["ErrorOccurred", "True", "UpdateApplicationError", "no", "3"],
            ["ParametersGenerated", "True", "ParametersGenerated", GENERATED, "1"],
            ["ResourcesUpToDate", "False", "ErrorOccurred", "no", "3"],
        ],
    );
    assert_eq!(health(&failed), ("Degraded".to_owned(), "no".to_owned(), 3));
    // Another one: its times are new, and the set does as badly as before.
    let generating = look(Some((Reason::ApplicationGenerationFromParamsError, "git")), 4).unwrap();
    says(
        &generating,
        &[
            ["ErrorOccurred", "True", "ApplicationGenerationFromParamsError", "git", "4"],
            ["ParametersGenerated", "False", "ErrorOccurred", "git", "4"],
            ["ResourcesUpToDate", "False", "ErrorOccurred", "git", "4"],
        ],
    );
    assert_eq!(health(&generating), ("Degraded".to_owned(), "git".to_owned(), 3));
    assert_eq!(look(Some((Reason::ApplicationGenerationFromParamsError, "git")), 5), None);
    says(
        &look(None, 6).unwrap(),
        &[
            ["ErrorOccurred", "False", up_to_date, WELL, "6"],
            ["ParametersGenerated", "True", "ParametersGenerated", GENERATED, "6"],
            ["ResourcesUpToDate", "True", up_to_date, WELL, "6"],
        ],
    );
}

#[test]
fn conditions_of_others_stay_and_long_messages_are_cut() {
    let mut set = set(&json!({}));
    let other = json!([{"type": "Another", "status": "True", "reason": "R", "message": "m"}]);
    set.status.conditions = serde_json::from_value(other).unwrap();
    let long = "ä".repeat(10_000);
    let told =
        status(&set, &seen(Some((Reason::CreateApplicationError, &long)), &[]), &Options::default(), at(0));
    let told = told.unwrap();
    let kinds: Vec<&str> = told.conditions.iter().map(|one| one.kind.as_str()).collect();
    assert_eq!(kinds, ["Another", "ErrorOccurred", "ParametersGenerated", "ResourcesUpToDate"]);
    assert_eq!(told.conditions[1].message, "ä".repeat(4096));
}

#[test]
fn a_progressive_sync_is_told() {
    let known = |step: Option<u32>| Rollout::Known {
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
    let of = |set: &ApplicationSet, rollout, failure: Option<(Reason, &str)>, options: &Options| {
        let told = status(set, &Seen { rollout, ..seen(failure, &[]) }, options, at(1)).unwrap();
        let condition = told.conditions.iter().find(|one| one.kind == "RolloutProgressing");
        let words = condition.map(|one| format!("{} {}: {}", one.status, one.reason, one.message));
        (words.unwrap_or_default(), health(&told).0)
    };
    let (on, off) = (Options::default(), Options { progressive_syncs: false, ..Options::default() });
    let step_2 = "True ApplicationSetModified: ApplicationSet is performing rollout of step 2";
    let over = "False ApplicationSetRolloutComplete: ApplicationSet Rollout has completed";
    let failed = Some((Reason::UpdateApplicationError, "no"));
    for (set, rollout, failure, options, condition, does) in [
        (rolling(), known(Some(2)), None, &on, step_2, "Progressing"),
        (rolling(), known(Some(2)), failed, &on, step_2, "Degraded"),
        (rolling(), known(None), None, &on, over, "Healthy"),
        (rolling(), Rollout::Unknown, None, &on, "", "Healthy"),
        // Not where there is none.
        (set(&json!({})), known(Some(2)), None, &on, "", "Healthy"),
        (rolling(), known(Some(2)), None, &off, "", "Healthy"),
    ] {
        let found = of(&set, rollout, failure, options);
        assert_eq!(found, (condition.to_owned(), does.to_owned()), "{:?} {options:?}", set.spec.strategy);
    }
    // What holds it back is a condition of its own, as long as it does.
    let held = |said: Option<&str>| {
        let mut rollout = known(Some(1));
        if let Rollout::Known { warning, .. } = &mut rollout {
            *warning = said.map(str::to_owned);
        }
        rollout
    };
    let mut waiting = rolling();
    let mut is_told = |rollout| {
        let seen = Seen { rollout, ..seen(None, &[]) };
        waiting.status = status(&waiting, &seen, &on, at(1)).unwrap_or_else(|| waiting.status.clone());
        let warning = waiting.status.conditions.iter().find(|one| one.kind == "RolloutHeldWarning");
        warning.map(|one| format!("{} {}: {}", one.status, one.reason, one.message))
    };
    let told = Some("True PendingTimeout: Pending for more than 5 min: a".to_owned());
    assert_eq!(is_told(held(Some("Pending for more than 5 min: a"))), told);
    assert_eq!(is_told(Rollout::Unknown), told);
    assert_eq!(is_told(held(None)), None);
    // What was said stays until something else is known, or the strategy goes.
    let mut set = rolling();
    let begun = Seen { rollout: known(Some(2)), ..seen(None, &[]) };
    set.status = status(&set, &begun, &on, at(1)).unwrap();
    assert_eq!(status(&set, &seen(None, &[]), &on, at(2)), None);
    set.spec.strategy = None;
    assert_eq!(of(&set, Rollout::Unknown, None, &on).0, "");
}

#[test]
fn members_are_told_by_name_as_long_as_they_are_there() {
    use MemberStatus::{Healthy, Pending, Waiting};
    let there = [live("b", &json!({})), live("a", &json!({}))];
    let known = |members| {
        let (reason, message) = ("ApplicationSetModified".to_owned(), "step 1".to_owned());
        let rollout = Rollout::Known { is_progressing: true, reason, message, warning: None, members };
        Seen { rollout, ..seen(None, &there) }
    };
    let told = |set: &ApplicationSet, seen: &Seen<'_>, options: &Options| -> Vec<String> {
        let told = status(set, seen, options, at(1)).unwrap_or_else(|| set.status.clone());
        let word = |one: &ApplicationSetApplicationStatus| {
            format!("{} {} {}", one.application, one.status, one.step)
        };
        told.application_status.iter().map(word).collect()
    };
    let options = Options::default();
    let mut set = rolling();
    let first =
        known(vec![member("b", Waiting, "2"), member("gone", Pending, "1"), member("a", Healthy, "1")]);
    assert_eq!(told(&set, &first, &options), ["a Healthy 1", "b Waiting 2"]);
    set.status = status(&set, &first, &options, at(1)).unwrap();
    assert_eq!(told(&set, &seen(None, &there), &options), ["a Healthy 1", "b Waiting 2"], "nothing new");
    assert_eq!(told(&set, &seen(None, &there[..1]), &options), ["b Waiting 2"]);
    assert_eq!(status(&set, &first, &options, at(5)), None, "the same again");
    let targets = {
        let mut member = member("a", Healthy, "1");
        member.target_revisions = vec!["c0ffee".to_owned()];
        known(vec![member, self::member("b", Waiting, "2")])
    };
    assert!(status(&set, &targets, &options, at(5)).is_some(), "other targets alone are written too");
    // No progressive sync, no statuses.
    let off = Options { progressive_syncs: false, ..Options::default() };
    assert_eq!(told(&set, &first, &off), Vec::<String>::new());
    set.spec.strategy.as_mut().unwrap().kind = "AllAtOnce".to_owned();
    assert_eq!(told(&set, &first, &options), Vec::<String>::new());
}

#[test]
fn resources_are_told_up_to_a_number() {
    let status_of = |sync: &str, health: &str| -> Value {
        json!({"status": {"sync": {"status": sync}, "health": {"status": health, "message": "m", "lastTransitionTime": "2026-11-21T09:30:00Z"}}})
    };
    let there = [
        live("c", &json!({})),
        live("a", &status_of("Synced", "Healthy")),
        live("b", &status_of("OutOfSync", "Degraded")),
    ];
    for (most, expected) in [(5000, 3), (0, 3), (3, 3), (2, 2)] {
        let options = Options { resources_max: most, ..Options::default() };
        let told = status(&set(&json!({})), &seen(None, &there), &options, at(1)).unwrap();
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
fn a_warning_is_told_as_long_as_there_is_one() {
    let own = set(&json!({}));
    let warned = Seen { warning: Some("in the foreground".to_owned()), ..seen(None, &[]) };
    let first = status(&own, &warned, &Options::default(), at(1)).unwrap();
    let found = first.conditions.iter().find(|one| one.kind == "DeletionOrderWarning").unwrap();
    assert_eq!(
        (found.status.as_str(), found.reason.as_str(), found.message.as_str()),
        ("True", "ForegroundDeletion", "in the foreground")
    );
    let own = ApplicationSet { status: first, ..own };
    assert_eq!(status(&own, &warned, &Options::default(), at(2)), None, "it is told once");
    let after = status(&own, &seen(None, &[]), &Options::default(), at(3)).unwrap();
    assert!(after.conditions.iter().all(|one| one.kind != "DeletionOrderWarning"));
}
