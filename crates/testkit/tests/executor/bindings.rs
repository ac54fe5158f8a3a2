//! A binding with a changed role is recreated, as by `kubectl auth reconcile`.

use tidegate_cluster::sim::{SimConfig, Verb};
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{CallOutcome, FaultyCluster, Log, builder, submit, wait_for_end};

fn binding(kind: &str, role: &str, subject: &str) -> String {
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata: {{name: readers}}\nroleRef: {{apiGroup: \
         rbac.authorization.k8s.io, kind: ClusterRole, name: {role}}}\nsubjects: [{{apiGroup: \
         rbac.authorization.k8s.io, kind: User, name: {subject}}}]\n"
    )
}

#[tokio::test(start_paused = true)]
async fn a_changed_role_recreates_the_binding_in_both_apply_modes() {
    for kind in ["RoleBinding", "ClusterRoleBinding"] {
        for flag in ["ServerSideApply=true", "ServerSideApply=false"] {
            let cluster = FaultyCluster::new(SimConfig::default(), |_, _| CallOutcome::Answer);
            let engine = builder(&cluster, &Log::new()).start().await.unwrap();
            let mut creations = Vec::new();
            for (role, subject) in [("view", "jane"), ("edit", "jane"), ("edit", "joe")] {
                let sync = SyncSpec::new(&binding(kind, role, subject))
                    .with_request(|request| request.options.flags.push(flag.to_owned()));
                let id = submit(&engine, &sync).await;
                let view = wait_for_end(&engine, id).await;
                assert_eq!(view.phase, OperationPhase::Succeeded, "{kind} {flag}: {:?}", view.resources);
                let live = cluster.sim.objects().into_iter().find(|object| object.kind() == kind).unwrap();
                assert_eq!((live.text("/roleRef/name"), live.text("/subjects/0/name")), (role, subject));
                creations.push(cluster.creations_of("readers"));
            }
            // The first sync creates the binding, and the sync with another role recreates it. Subjects can
            // be changed in place.
            assert_eq!(creations, [1, 2, 2], "{kind} {flag}");
            let deletions = cluster.writes().iter().filter(|entry| entry.verb == Verb::Delete).count();
            assert_eq!(deletions, 1, "{kind} {flag}: {:?}", cluster.writes());
            engine.shutdown().await;
        }
    }
}

/// A binding must not be deleted if the server refuses the change for a different reason.
#[tokio::test(start_paused = true)]
async fn a_binding_stays_if_the_change_is_refused_for_another_reason() {
    let cluster = FaultyCluster::new(SimConfig::default(), |_, _| CallOutcome::Answer);
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let id = submit(&engine, &SyncSpec::new(&binding("RoleBinding", "view", "jane"))).await;
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
    let broken = binding("RoleBinding", "edit", "jane").replace("name: edit", "name: \"\"");
    let id = submit(&engine, &SyncSpec::new(&broken)).await;
    assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Failed);
    assert!(cluster.writes().iter().all(|entry| entry.verb != Verb::Delete), "{:?}", cluster.writes());
}
