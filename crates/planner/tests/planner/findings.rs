//! Surprising input is noticed, with object, origin and advice.

use tidegate_model::Severity;

use crate::support::{case, object, objects};

#[test]
fn findings_of_one_object() {
    for (annotations, code, words) in [
        (
            "hook=PreSink",
            "unknown-hook-type",
            "\"PreSink\" in annotation argocd.argoproj.io/hook is not a hook type, so the object is left out",
        ),
        ("hook=", "empty-hook", "is empty, so the object is left out"),
        ("hook=Skip", "skipped", "neither applied nor pruned"),
        ("hook=Sync; helm.sh/hook=pre-install", "mixed-hook-annotations", "the second is ignored"),
        ("hook=Sync; hook-delete-policy=Never", "unknown-delete-policy", "\"Never\""),
        ("hook-delete-policy=HookFailed", "annotation-without-effect", "not a hook"),
        (
            "sync-wave=one",
            "invalid-wave",
            "\"one\" in annotation argocd.argoproj.io/sync-wave is not a whole number",
        ),
        ("helm.sh/hook-weight=1.5", "invalid-wave", "helm.sh/hook-weight"),
        ("sync-options=Prune=no", "unknown-sync-option", "write Prune=true or Prune=false or Prune=confirm"),
        ("sync-options=CreateNamespace=true", "option-without-effect", "give it to the application"),
        ("tidegate.dev/wave-timeout=soon", "invalid-duration", "\"soon\" is not a duration"),
        ("tidegate.dev/timeout=5s", "annotation-without-effect", "not a hook"),
        ("tidegate.dev/hook-runner=x", "annotation-without-effect", "not a hook"),
        ("tidegate.dev/gate=", "invalid-gate", "names no gate"),
        ("tidegate.dev/health-judge= ", "empty-annotation", "names nobody"),
        ("tidegate.dev/retry=again", "invalid-retry", "write resume or restart"),
        ("tidegate.dev/gates=x", "unknown-annotation", "known are"),
        ("sync-wave=a\u{1b}[31m", "invalid-wave", "\\u{1b}[31m"),
    ] {
        let planned = case(&object("batch/v1 Job j", annotations)).plan();
        let [warning] = &planned.plan.warnings[..] else {
            panic!("{annotations}: {:?}", planned.plan.warnings)
        };
        assert_eq!((warning.severity, warning.code.as_str()), (Severity::Warning, code), "{annotations}");
        assert!(warning.message.contains(words), "{annotations}: {}", warning.message);
        assert_eq!(warning.object.as_deref(), Some("Job shop/j"));
        assert_eq!(warning.origin.as_deref(), Some("in.yaml:1"));
        assert!(!warning.to_string().contains('\u{1b}'));
    }
}

#[test]
fn findings_of_the_request() {
    let mut case =
        case("").flags(&["prunelast=true", "Force=true", "ServerSideApply=false"]).options(|options| {
            options.namespace_labels = vec![("a".to_owned(), "b".to_owned())];
        });
    case.request.application = "a:b".to_owned();
    assert_eq!(
        case.codes(),
        [
            "untrackable-application",
            "unknown-sync-option",
            "option-without-effect",
            "namespace-metadata-without-create",
        ]
    );
}

#[test]
fn the_last_of_repeated_objects_wins() {
    let yaml = objects(&[
        ("v1 ConfigMap a", "sync-wave=1"),
        ("v1 ConfigMap b", ""),
        ("v1 ConfigMap shop/a", "sync-wave=2"),
        ("v1 ConfigMap a", "sync-wave=3"),
    ]);
    let planned = case(&yaml).plan();
    assert_eq!(
        crate::support::tasks(&planned),
        ["Sync 0: create ConfigMap shop/b", "Sync 3: create ConfigMap shop/a"]
    );
    assert_eq!(
        planned.plan.warnings[0].to_string(),
        "in.yaml:7: ConfigMap shop/a: Resource /ConfigMap/shop/a appeared 3 times among application resources. The last one wins; also at in.yaml:1, in.yaml:5"
    );
    assert_eq!(planned.left_out.len(), 2);
}

#[test]
fn hooks_with_generated_names_never_repeat_each_other() {
    let yaml = objects(&[("batch/v1 Job j-*", "hook=PreSync"), ("batch/v1 Job j-*", "hook=PostSync")]);
    assert!(case(&yaml).codes().is_empty());
    assert_eq!(case(&yaml).tasks().len(), 2);
}

#[test]
fn what_cannot_be_applied_is_an_error() {
    let mut unnamed = case(&object("v1 ConfigMap a", ""));
    let metadata = unnamed.targets[0].object.metadata_mut();
    metadata.remove("name");
    metadata.insert("generateName".to_owned(), "a-".into());
    assert_eq!(unnamed.codes(), ["!generated-name"]);
    let mut nowhere = case(&object("v1 ConfigMap a", ""));
    nowhere.request.namespace = String::new();
    assert_eq!(nowhere.codes(), ["!missing-namespace"]);
    assert_eq!(nowhere.plan().left_out.len(), 1);
}

#[test]
fn findings_come_in_the_order_of_the_input() {
    let yaml = objects(&[
        ("example.com/v1 Widget w", ""),
        ("v1 ConfigMap z", "sync-wave=x"),
        ("v1 ConfigMap a", "sync-wave=x"),
        ("example.com/v1 Widget v", ""),
    ]);
    let origins: Vec<String> =
        case(&yaml).plan().plan.warnings.iter().map(|warning| warning.origin.clone().unwrap()).collect();
    assert_eq!(origins, ["in.yaml:1", "in.yaml:3", "in.yaml:5", "in.yaml:7"]);
}
