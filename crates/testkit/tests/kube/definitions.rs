//! Definitions that can't serve an operation's kinds.

use tidegate_model::{OperationPhase, ResultCode};
use tidegate_testkit::kube::ControlPlane;
use tidegate_testkit::scenario::SyncSpec;

use crate::engine::Bench;

fn definition(group: &str, (kind, list_kind): (&str, &str), version: &str) -> String {
    let plural = format!("{}s", kind.to_lowercase());
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: {plural}.{group}}}\nspec:\n  \
         group: {group}\n  scope: Namespaced\n  names: {{kind: {kind}, listKind: {list_kind}, plural: {plural}}}\n  \
         versions:\n  - {{name: {version}, served: true, storage: true, schema: {{openAPIV3Schema: {{type: object, \
         x-kubernetes-preserve-unknown-fields: true}}}}}}\n---\n"
    )
}

/// The operation contains the definition, but for a different version, so it must not wait.
pub async fn a_version_that_its_definition_does_not_serve_fails_at_once() {
    let bench = Bench::for_test(ControlPlane::shared(), "version").await;
    let group = format!("{}.example.com", bench.namespace);
    let object = format!(
        "apiVersion: {group}/v1\nkind: Alpha\nmetadata:\n  name: a\n  annotations: {{argocd.argoproj.io/sync-options: \
         SkipDryRunOnMissingResource=true}}\n"
    );
    let sync = SyncSpec::new(&[definition(&group, ("Alpha", "AlphaList"), "v2"), object].concat());
    let (_, view) = bench.run(&sync).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    let result = view.resources.iter().find(|result| result.kind == "Alpha").unwrap();
    assert_eq!(result.status, Some(ResultCode::SyncFailed));
    // This part of the message shows that the operation failed without waiting.
    let text = format!("; CustomResourceDefinition alphas.{group} does not serve v1; served versions: v2");
    assert!(result.message.ends_with(&text), "{}", result.message);
}

/// With conflicting names, the operation must fail with the server's message after a few reads. With unique
/// names, it must succeed, whatever the earlier status.
pub async fn conflicting_names_fail_the_operation() {
    let control = ControlPlane::shared();
    let bench = Bench::for_test(control, "names").await;
    let group = format!("{}.example.com", bench.namespace);
    let first = definition(&group, ("Alpha", "BetaList"), "v1");
    let (_, view) = bench.run(&SyncSpec::new(&first)).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let name = format!("betas.{group}");
    let text = format!(
        "the names in CustomResourceDefinition {name} are not accepted: \"BetaList\" is already in use"
    );
    // In the second round, the names were already refused before the write.
    for round in ["new", "refused before"] {
        let mark = control.audit_mark();
        let taken = definition(&group, ("Beta", "BetaList"), "v1");
        let (_, view) = bench.run(&SyncSpec::new(&[first.clone(), taken].concat())).await;
        assert_eq!(view.phase, OperationPhase::Failed, "{round}: {}", view.message);
        let result = view.resources.iter().find(|result| result.name == name).unwrap();
        assert_eq!((result.status, result.message.as_str()), (Some(ResultCode::SyncFailed), text.as_str()));
        let audit = control.audit_since(mark).await.unwrap();
        let read_count = audit.0.iter().filter(|event| event.verb == "get" && event.name == name).count();
        assert!(read_count <= 12, "{round}: {read_count} reads");
    }
    let repaired = definition(&group, ("Beta", "Betas"), "v1");
    let (_, view) = bench.run(&SyncSpec::new(&[first, repaired].concat())).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{} {:?}", view.message, view.resources);
}
