//! Settings that have no effect. For example, the strategy type must match exactly, and any other type
//! behaves like AllAtOnce.

use serde_json::{Value, json};
use tidegate_applicationset::deletion_order::DELETION_SYNC_ANNOTATION;
use tidegate_applicationset::ignored::ignored_settings;
use tidegate_applicationset::rollout::ROLLOUT_ANNOTATION;
use tidegate_applicationset::status::{ReconciledState, RolloutStatus, new_status};
use tidegate_applicationset::strategy_problems;
use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_model::argo::ApplicationSet;

use crate::{appset, at};

fn appset_with_strategy(strategy: &Value, annotations: &[&str]) -> ApplicationSet {
    let mut set = appset(&json!({"strategy": strategy}));
    set.metadata.annotations =
        annotations.iter().map(|name| ((*name).to_owned(), "steps: []".to_owned())).collect();
    set
}

#[test]
fn ignored_settings_are_named_with_the_reason() {
    let steps = json!({"steps": [{"matchExpressions": []}]});
    let rolling = json!({"type": "RollingSync", "rollingSync": steps});
    let custom = json!({"deletionOrder": "Custom", "deletionSync": steps});
    let (rollout, deletion) = (ROLLOUT_ANNOTATION, DELETION_SYNC_ANNOTATION);
    let (on, off) = (
        AppSetRuleOptions::default(),
        AppSetRuleOptions { progressive_syncs: false, ..AppSetRuleOptions::default() },
    );
    let rows: [(Value, &[&str], &AppSetRuleOptions, &[&str]); 18] = [
        (json!({}), &[], &on, &[]),
        // Records the user who deleted the ApplicationSet.
        (json!({}), &["tidegate.dev/deletion-requested-by"], &on, &[]),
        // Records the user who requested a retry of the ApplicationSet's rollout.
        (json!({}), &["tidegate.dev/retry-requested-by"], &on, &[]),
        (json!({"type": "AllAtOnce"}), &[], &off, &[]),
        (rolling.clone(), &[rollout], &on, &[]),
        (rolling.clone(), &[rollout], &off, &["progressive syncs are disabled in this service"]),
        (
            json!({"type": "RolingSync", "rollingSync": steps}),
            &[],
            &on,
            &["spec.strategy.type \"RolingSync\" is unknown, so each Application is synced according to \
                 its own policy; use AllAtOnce or RollingSync"],
        ),
        (json!({"type": "rollingSync", "rollingSync": steps}), &[], &on, &["\"rollingSync\" is unknown"]),
        (json!({"type": "RollingSync"}), &[], &on, &["spec.strategy.rollingSync has no steps"]),
        (json!({"type": "RollingSync", "rollingSync": {"steps": []}}), &[], &on, &["has no steps"]),
        (json!({"rollingSync": steps}), &[], &on, &["without spec.strategy.type RollingSync"]),
        (json!({}), &[rollout], &on, &["the tidegate.dev/rollout annotation has no effect"]),
        (
            rolling.clone(),
            &[rollout, "tidegate.dev/rolout", "tidegate.dev/max-deletions", "example.com/mine"],
            &on,
            &["unknown annotation \"tidegate.dev/rolout\" has no effect; did you mean \
                 tidegate.dev/rollout?"],
        ),
        (custom.clone(), &[], &on, &[]),
        (json!({"deletionOrder": "custom"}), &[deletion], &on, &[]),
        (
            custom,
            &[deletion],
            &on,
            &[
                "the tidegate.dev/deletion-sync annotation has no effect because spec.strategy.deletionSync has steps",
            ],
        ),
        (
            json!({"deletionOrder": "AllAtOnce", "deletionSync": steps}),
            &[],
            &on,
            &["spec.strategy.deletionSync has no effect without spec.strategy.deletionOrder Custom"],
        ),
        (
            json!({"type": "Rolling", "stepps": []}),
            &[rollout, deletion],
            &on,
            &[
                "these fields have no effect: spec.strategy.stepps",
                "\"Rolling\"",
                "tidegate.dev/rollout",
                "tidegate.dev/deletion-sync",
            ],
        ),
    ];
    for (strategy, annotations, options, expected) in rows {
        let told = ignored_settings(&appset_with_strategy(&strategy, annotations), options);
        assert_eq!(told.len(), expected.len(), "{strategy} {annotations:?}: {told:?}");
        for (told, text) in told.iter().zip(expected) {
            assert!(told.contains(text), "{text}: {told}");
        }
    }
}

/// Like 0, a negative `maxUpdate` never permits an update.
#[test]
fn a_negative_max_update_is_reported() {
    let steps = |count: Value| json!({"steps": [{}, {"matchExpressions": [], "maxUpdate": count}]});
    let rolling = |count: Value| json!({"type": "RollingSync", "rollingSync": steps(count)});
    let deletion = |count: Value| json!({"deletionOrder": "Custom", "deletionSync": steps(count)});
    for (strategy, expected) in [
        (rolling(json!(-1)), Some("spec.strategy.rollingSync.steps[1].maxUpdate is -1 and is treated as 0")),
        (
            deletion(json!(-3)),
            Some("spec.strategy.deletionSync.steps[1].maxUpdate is -3 and is treated as 0"),
        ),
        (rolling(json!(0)), None),
        (rolling(json!(2)), None),
        (rolling(json!("10%")), None),
    ] {
        let said = ignored_settings(&appset_with_strategy(&strategy, &[]), &AppSetRuleOptions::default());
        assert_eq!(said.len(), usize::from(expected.is_some()), "{strategy}: {said:?}");
        assert!(expected.is_none_or(|expected| said[0].contains(expected)), "{said:?}");
    }
}

#[test]
fn a_condition_reports_it_until_it_is_fixed() {
    let conditions = |set: &ApplicationSet, before: &ApplicationSet| {
        let seen = ReconciledState {
            is_generated: true,
            failure: None,
            members: Vec::new(),
            rollout: RolloutStatus::Unknown,
            warning: None,
            output_warnings: &[],
        };
        let mut set = set.clone();
        set.status = before.status.clone();
        let told = new_status(&set, &seen, &AppSetRuleOptions::default(), at(1)).unwrap();
        set.status = told;
        set
    };
    let misspelt = appset_with_strategy(&json!({"type": "RolingSync"}), &[]);
    let told = conditions(&misspelt, &misspelt);
    let warning = told.status.conditions.iter().find(|one| one.kind == "SpecWarning").unwrap();
    assert_eq!((warning.status.as_str(), warning.reason.as_str()), ("True", "NoEffect"));
    assert!(warning.message.contains("RolingSync"), "{}", warning.message);
    let mended = conditions(&appset_with_strategy(&json!({"type": "AllAtOnce"}), &[]), &told);
    assert!(mended.status.conditions.iter().all(|one| one.kind != "SpecWarning"));
}

#[test]
fn a_condition_reports_unknown_parameters_after_ignored_settings() {
    let warnings = ["Application a: spec.source.path contains {{pth}}".to_owned()];
    let condition = |set: &ApplicationSet, output_warnings| {
        let seen = ReconciledState {
            is_generated: true,
            failure: None,
            members: Vec::new(),
            rollout: RolloutStatus::Unknown,
            warning: None,
            output_warnings,
        };
        let status = new_status(set, &seen, &AppSetRuleOptions::default(), at(1)).unwrap();
        status.conditions.into_iter().find(|one| one.kind == "SpecWarning")
    };
    let plain = appset(&json!({}));
    assert_eq!(condition(&plain, &[]), None);
    let warning = condition(&plain, &warnings).unwrap();
    assert_eq!((warning.status.as_str(), warning.reason.as_str()), ("True", "UnknownParameter"));
    assert_eq!(warning.message, warnings[0]);
    let both = condition(&appset_with_strategy(&json!({"type": "RolingSync"}), &[]), &warnings).unwrap();
    assert_eq!(both.reason, "NoEffect");
    assert!(both.message.ends_with(&format!("; {}", warnings[0])), "{}", both.message);
}

/// Each problem would stop the syncs or the deletions.
#[test]
fn strategies_that_would_stop_syncs_or_deletions_are_invalid() {
    let step = |count: &str| json!({"steps": [{}, {"matchExpressions": [], "maxUpdate": count}]});
    let invalid = "step 2: invalid maxUpdate \"-10%\": use a whole number, or a percentage such as 10%";
    for (strategy, expected) in [
        (json!({}), vec![]),
        (json!({"type": "RollingSync", "rollingSync": step("10%")}), vec![]),
        // The steps have no effect.
        (json!({"type": "AllAtOnce", "rollingSync": step("-10%")}), vec![]),
        (
            json!({"type": "RollingSync", "rollingSync": step("-10%")}),
            vec![format!(
                "spec.strategy.rollingSync, {invalid}. No Applications will be synced until this is fixed"
            )],
        ),
        (
            json!({"deletionOrder": "Custom", "deletionSync": step("-10%")}),
            vec![format!(
                "spec.strategy.deletionSync, {invalid}. No Applications will be deleted until this is fixed"
            )],
        ),
    ] {
        let set = appset_with_strategy(&strategy, &[]);
        assert_eq!(strategy_problems(&set, &AppSetRuleOptions::default()), expected, "{strategy}");
    }
    let set = appset_with_strategy(&json!({}), &["tidegate.dev/max-deletions"]);
    let problems = strategy_problems(&set, &AppSetRuleOptions::default());
    assert!(problems[0].contains("invalid number of Applications"), "{problems:?}");
}
