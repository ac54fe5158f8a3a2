//! A binding that is to give another role is made anew, as `kubectl auth reconcile` does.

use tidegate_cluster::sim::{SimConfig, Verb};
use tidegate_model::OperationPhase;
use tidegate_testkit::scenario::Sync;

use crate::support::{Fate, Log, Moody, builder, end, submit};

fn binding(kind: &str, role: &str, subject: &str) -> String {
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata: {{name: readers}}\nroleRef: {{apiGroup: \
         rbac.authorization.k8s.io, kind: ClusterRole, name: {role}}}\nsubjects: [{{apiGroup: \
         rbac.authorization.k8s.io, kind: User, name: {subject}}}]\n"
    )
}

#[tokio::test(start_paused = true)]
async fn another_role_makes_it_anew_in_both_ways_to_apply() {
    for kind in ["RoleBinding", "ClusterRoleBinding"] {
        for flag in ["ServerSideApply=true", "ServerSideApply=false"] {
            let cluster = Moody::new(SimConfig::default(), |_, _| Fate::Answer);
            let engine = builder(&cluster, &Log::new()).start().await.unwrap();
            let mut creations = Vec::new();
            for (role, subject) in [("view", "jane"), ("edit", "jane"), ("edit", "joe")] {
                let sync = Sync::of(&binding(kind, role, subject))
                    .with(|request| request.options.flags.push(flag.to_owned()));
                let id = submit(&engine, &sync).await;
                let view = end(&engine, id).await;
                assert_eq!(view.phase, OperationPhase::Succeeded, "{kind} {flag}: {:?}", view.resources);
                let live = cluster.sim.objects().into_iter().find(|object| object.kind() == kind).unwrap();
                assert_eq!((live.text("/roleRef/name"), live.text("/subjects/0/name")), (role, subject));
                creations.push(cluster.created("readers"));
            }
            // The first sync, and the one with another role; who has it can be changed.
            assert_eq!(creations, [1, 2, 2], "{kind} {flag}");
            let deletions = cluster.writes().iter().filter(|entry| entry.verb == Verb::Delete).count();
            assert_eq!(deletions, 1, "{kind} {flag}: {:?}", cluster.writes());
            engine.shutdown().await;
        }
    }
}

/// Nothing is deleted for a binding that the server refuses for another reason.
#[tokio::test(start_paused = true)]
async fn a_binding_that_is_refused_in_any_case_stays() {
    let cluster = Moody::new(SimConfig::default(), |_, _| Fate::Answer);
    let engine = builder(&cluster, &Log::new()).start().await.unwrap();
    let id = submit(&engine, &Sync::of(&binding("RoleBinding", "view", "jane"))).await;
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
    let broken = binding("RoleBinding", "edit", "jane").replace("name: edit", "name: \"\"");
    let id = submit(&engine, &Sync::of(&broken)).await;
    assert_eq!(end(&engine, id).await.phase, OperationPhase::Failed);
    assert!(cluster.writes().iter().all(|entry| entry.verb != Verb::Delete), "{:?}", cluster.writes());
}
