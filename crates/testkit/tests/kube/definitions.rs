//! Definitions that cannot serve what the operation needs.

use tidegate_model::{OperationPhase, ResultCode};
use tidegate_testkit::kube::ControlPlane;
use tidegate_testkit::scenario::Sync;

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

/// The definition came with the operation, and serves another version: there is nothing to wait for.
pub async fn a_version_that_its_definition_does_not_serve_fails_at_once() {
    let bench = Bench::of(ControlPlane::shared(), "version").await;
    let group = format!("{}.example.com", bench.namespace);
    let object = format!(
        "apiVersion: {group}/v1\nkind: Alpha\nmetadata:\n  name: a\n  annotations: {{argocd.argoproj.io/sync-options: \
         SkipDryRunOnMissingResource=true}}\n"
    );
    let sync = Sync::of(&[definition(&group, ("Alpha", "AlphaList"), "v2"), object].concat());
    let (_, view) = bench.run(&sync).await;
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    let result = view.resources.iter().find(|result| result.kind == "Alpha").unwrap();
    assert_eq!(result.status, Some(ResultCode::SyncFailed));
    // Told of a failure that nobody waits for.
    let words = format!("; definition alphas.{group} serves v2 and not v1");
    assert!(result.message.ends_with(&words), "{}", result.message);
}

/// A definition whose names another one has fails in the words of the server, after a few looks; with names of its own it
/// succeeds, whatever its status said before.
pub async fn names_that_are_taken_fail_the_operation() {
    let control = ControlPlane::shared();
    let bench = Bench::of(control, "names").await;
    let group = format!("{}.example.com", bench.namespace);
    let first = definition(&group, ("Alpha", "BetaList"), "v1");
    let (_, view) = bench.run(&Sync::of(&first)).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let name = format!("betas.{group}");
    let words = format!("the names of definition {name} are not accepted: \"BetaList\" is already in use");
    // The second time the refusal is there before the write.
    for round in ["new", "refused before"] {
        let mark = control.mark();
        let taken = definition(&group, ("Beta", "BetaList"), "v1");
        let (_, view) = bench.run(&Sync::of(&[first.clone(), taken].concat())).await;
        assert_eq!(view.phase, OperationPhase::Failed, "{round}: {}", view.message);
        let result = view.resources.iter().find(|result| result.name == name).unwrap();
        assert_eq!((result.status, result.message.as_str()), (Some(ResultCode::SyncFailed), words.as_str()));
        let audit = control.audit_since(mark).await.unwrap();
        let looks = audit.0.iter().filter(|event| event.verb == "get" && event.name == name).count();
        assert!(looks <= 12, "{round}: {looks} looks");
    }
    let repaired = definition(&group, ("Beta", "Betas"), "v1");
    let (_, view) = bench.run(&Sync::of(&[first, repaired].concat())).await;
    assert_eq!(view.phase, OperationPhase::Succeeded, "{} {:?}", view.message, view.resources);
}
