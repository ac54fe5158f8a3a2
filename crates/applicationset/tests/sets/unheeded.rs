//! What a set says that has no effect (specification, 7: the type of a strategy is matched exactly, and any other behaves as
//! AllAtOnce).

use serde_json::{Value, json};
use tidegate_applicationset::order::DELETION_SYNC_ANNOTATION;
use tidegate_applicationset::policy::Options;
use tidegate_applicationset::rollout::ROLLOUT_ANNOTATION;
use tidegate_applicationset::status::{Rollout, Seen, status};
use tidegate_applicationset::unheeded::unheeded;
use tidegate_model::argo::ApplicationSet;

use crate::{at, set};

fn of(strategy: &Value, annotations: &[&str]) -> ApplicationSet {
    let mut set = set(&json!({"strategy": strategy}));
    set.metadata.annotations =
        annotations.iter().map(|name| ((*name).to_owned(), "steps: []".to_owned())).collect();
    set
}

#[test]
fn what_nobody_looks_at_is_named_with_what_it_lacks() {
    let steps = json!({"steps": [{"matchExpressions": []}]});
    let rolling = json!({"type": "RollingSync", "rollingSync": steps});
    let custom = json!({"deletionOrder": "Custom", "deletionSync": steps});
    let (rollout, deletion) = (ROLLOUT_ANNOTATION, DELETION_SYNC_ANNOTATION);
    let (on, off) = (Options::default(), Options { progressive_syncs: false, ..Options::default() });
    let rows: [(Value, &[&str], &Options, &[&str]); 18] = [
        (json!({}), &[], &on, &[]),
        // It says who has deleted the set.
        (json!({}), &["tidegate.dev/deletion-requested-by"], &on, &[]),
        // And who wants its rollout to be begun again.
        (json!({}), &["tidegate.dev/retry-requested-by"], &on, &[]),
        (json!({"type": "AllAtOnce"}), &[], &off, &[]),
        (rolling.clone(), &[rollout], &on, &[]),
        (rolling.clone(), &[rollout], &off, &["progressive syncs are switched off in this service"]),
        (
            json!({"type": "RolingSync", "rollingSync": steps}),
            &[],
            &on,
            &[
                "spec.strategy.type \"RolingSync\" is not known, so each Application is synced by its own policy; write AllAtOnce or RollingSync",
            ],
        ),
        (json!({"type": "rollingSync", "rollingSync": steps}), &[], &on, &["\"rollingSync\" is not known"]),
        (json!({"type": "RollingSync"}), &[], &on, &["spec.strategy.rollingSync has no steps"]),
        (json!({"type": "RollingSync", "rollingSync": {"steps": []}}), &[], &on, &["has no steps"]),
        (json!({"rollingSync": steps}), &[], &on, &["without spec.strategy.type RollingSync"]),
        (json!({}), &[rollout], &on, &["annotation tidegate.dev/rollout has no effect"]),
        (
            rolling.clone(),
            &[rollout, "tidegate.dev/rolout", "tidegate.dev/max-deletions", "example.com/mine"],
            &on,
            &[
                "these annotations of an ApplicationSet have no effect: tidegate.dev/rolout; known are tidegate.dev/rollout, ",
            ],
        ),
        (custom.clone(), &[], &on, &[]),
        (json!({"deletionOrder": "custom"}), &[deletion], &on, &[]),
        (custom, &[deletion], &on, &["tidegate.dev/deletion-sync has no effect beside the steps"]),
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
        let told = unheeded(&of(&strategy, annotations), options);
        assert_eq!(told.len(), expected.len(), "{strategy} {annotations:?}: {told:?}");
        for (told, words) in told.iter().zip(expected) {
            assert!(told.contains(words), "{words}: {told}");
        }
    }
}

#[test]
fn a_condition_says_it_until_it_is_mended() {
    let conditions = |set: &ApplicationSet, before: &ApplicationSet| {
        let seen = Seen {
            is_generated: true,
            failure: None,
            members: Vec::new(),
            rollout: Rollout::Unknown,
            warning: None,
        };
        let mut set = set.clone();
        set.status = before.status.clone();
        let told = status(&set, &seen, &Options::default(), at(1)).unwrap();
        set.status = told;
        set
    };
    let misspelt = of(&json!({"type": "RolingSync"}), &[]);
    let told = conditions(&misspelt, &misspelt);
    let warning = told.status.conditions.iter().find(|one| one.kind == "SpecWarning").unwrap();
    assert_eq!((warning.status.as_str(), warning.reason.as_str()), ("True", "NoEffect"));
    assert!(warning.message.contains("RolingSync"), "{}", warning.message);
    let mended = conditions(&of(&json!({"type": "AllAtOnce"}), &[]), &told);
    assert!(mended.status.conditions.iter().all(|one| one.kind != "SpecWarning"));
}
