//! Evidence that a status refers to the newest spec. Waves open only with such evidence.

use tidegate_health::observe;
use tidegate_model::{Evidence, ObservedState, Timestamp};

use crate::object;

#[test]
fn the_table_says_which_kinds_report_the_generation() {
    use Evidence::{Identity, None, ObservedGeneration};
    for (group, kind, items, expected) in [
        // The generation is always written, so its absence means an outdated status.
        ("kustomize.toolkit.fluxcd.io", "Kustomization", "Ready=True", ObservedGeneration(0)),
        (
            "kustomize.toolkit.fluxcd.io",
            "Kustomization",
            ".observedGeneration=2; Ready=True",
            ObservedGeneration(2),
        ),
        // The generation comes from the condition behind the health.
        ("cert-manager.io", "Certificate", "Ready=True@2", ObservedGeneration(2)),
        ("cert-manager.io", "Certificate", "Ready=True@1", ObservedGeneration(1)),
        ("cert-manager.io", "Certificate", "Ready=True", None),
        ("cert-manager.io", "Certificate", "metadata.generation=1; Ready=True", Identity),
        (
            "gateway.networking.k8s.io",
            "HTTPRoute",
            r#".parents=[{"conditions":[{"type":"Accepted","status":"True","observedGeneration":2}]}]"#,
            ObservedGeneration(2),
        ),
        // The object has a single task.
        ("tekton.dev", "PipelineRun", "Succeeded=True", Identity),
        ("velero.io", "Backup", ".phase=Completed", Identity),
        // Without evidence, operations can only wait.
        ("keda.sh", "ScaledObject", "Ready=True", None),
        // These kinds follow the general convention.
        ("example.org", "Widget", ".observedGeneration=2; Ready=True", ObservedGeneration(2)),
        ("example.org", "Widget", "Ready=True@2", ObservedGeneration(2)),
        ("example.org", "Widget", "Ready=True", None),
        ("example.org", "Widget", "metadata.generation=1; Ready=True", Identity),
    ] {
        match observe(&object(group, kind, items), Timestamp::from_millis(0)).seen {
            ObservedState::Present { evidence, .. } => {
                assert_eq!(evidence, expected, "{group}/{kind} {items}")
            }
            gone => panic!("{gone:?}"),
        }
    }
}
