//! Findings report problems in the input, including the object, its location and a remedy.

use tidegate_model::Severity;

use crate::support::{case, manifest_text, manifest_texts};

#[test]
fn findings_of_one_object() {
    for (annotations, code, text) in [
        (
            "hook=PreSink",
            "unknown-hook-type",
            "unknown hook type \"PreSink\" in the argocd.argoproj.io/hook annotation, so the object is \
             skipped",
        ),
        ("hook=", "empty-hook", "is empty, so the object is skipped"),
        ("hook=Skip", "skipped", "neither applied nor pruned"),
        ("hook=Sync; helm.sh/hook=pre-install", "mixed-hook-annotations", "the second annotation is ignored"),
        ("hook=Sync; hook-delete-policy=Never", "unknown-delete-policy", "\"Never\""),
        ("hook-delete-policy=HookFailed", "annotation-without-effect", "not a hook"),
        (
            "sync-wave=one",
            "invalid-wave",
            "invalid wave \"one\" in the argocd.argoproj.io/sync-wave annotation is ignored",
        ),
        ("helm.sh/hook-weight=1.5", "invalid-wave", "helm.sh/hook-weight"),
        ("sync-options=Prune=no", "unknown-sync-option", "use Prune=true or Prune=false or Prune=confirm"),
        ("sync-options=CreateNamespace=true", "option-without-effect", "set the option on the application"),
        ("tidegate.dev/wave-timeout=soon", "invalid-duration", "invalid duration \"soon\""),
        ("tidegate.dev/timeout=5s", "annotation-without-effect", "not a hook"),
        ("tidegate.dev/hook-runner=x", "annotation-without-effect", "not a hook"),
        ("tidegate.dev/gate=", "invalid-gate", "does not contain a gate"),
        ("tidegate.dev/health-judge= ", "empty-annotation", "is empty and is ignored"),
        ("tidegate.dev/retry=again", "invalid-retry", "use resume or restart"),
        ("tidegate.dev/gates=x", "unknown-annotation", "did you mean tidegate.dev/gate?"),
        ("tidegate.dev/health-inprogress=x", "unknown-annotation", "mean tidegate.dev/health-in-progress?"),
        ("tidegate.dev/approval=x", "unknown-annotation", "applies only to an Application"),
        ("sync-wav=3", "unknown-annotation", "did you mean argocd.argoproj.io/sync-wave?"),
        ("sync-option=Prune=false", "unknown-annotation", "did you mean argocd.argoproj.io/sync-options?"),
        ("ignore-differences=x", "unknown-annotation", "unknown annotation"),
        ("argoproj.io/sync-wave=3", "unknown-annotation", "did you mean argocd.argoproj.io/sync-wave?"),
        ("helm.sh/hook-weigth=3", "unknown-annotation", "did you mean helm.sh/hook-weight?"),
        ("sync-wave=a\u{1b}[31m", "invalid-wave", "\\u{1b}[31m"),
    ] {
        let planned = case(&manifest_text("batch/v1 Job j", annotations)).plan();
        let [warning] = &planned.plan.warnings[..] else {
            panic!("{annotations}: {:?}", planned.plan.warnings)
        };
        assert_eq!((warning.severity, warning.code.as_str()), (Severity::Warning, code), "{annotations}");
        assert!(warning.message.contains(text), "{annotations}: {}", warning.message);
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
    let yaml = manifest_texts(&[
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
    assert_eq!(planned.excluded.len(), 2);
}

#[test]
fn hooks_with_generated_names_never_repeat_each_other() {
    let yaml = manifest_texts(&[("batch/v1 Job j-*", "hook=PreSync"), ("batch/v1 Job j-*", "hook=PostSync")]);
    assert!(case(&yaml).codes().is_empty());
    assert_eq!(case(&yaml).tasks().len(), 2);
}

#[test]
fn what_cannot_be_applied_is_an_error() {
    let mut unnamed = case(&manifest_text("v1 ConfigMap a", ""));
    let metadata = unnamed.targets[0].object.metadata_mut();
    metadata.remove("name");
    metadata.insert("generateName".to_owned(), "a-".into());
    assert_eq!(unnamed.codes(), ["!generated-name"]);
    let mut nowhere = case(&manifest_text("v1 ConfigMap a", ""));
    nowhere.request.namespace = String::new();
    assert_eq!(nowhere.codes(), ["!missing-namespace"]);
    assert_eq!(nowhere.plan().excluded.len(), 1);
}

#[test]
fn findings_come_in_the_order_of_the_input() {
    let yaml = manifest_texts(&[
        ("example.com/v1 Widget w", ""),
        ("v1 ConfigMap z", "sync-wave=x"),
        ("v1 ConfigMap a", "sync-wave=x"),
        ("example.com/v1 Widget v", ""),
    ]);
    let origins: Vec<String> =
        case(&yaml).plan().plan.warnings.iter().map(|warning| warning.origin.clone().unwrap()).collect();
    assert_eq!(origins, ["in.yaml:1", "in.yaml:3", "in.yaml:5", "in.yaml:7"]);
}
