//! A resumed operation goes on as it was asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_cluster::ErrorKind;
use tidegate_cluster::sim::SimConfig;
use tidegate_model::{IgnoreDifference, OperationPhase, SyncRequest, TrackingMethod};
use tidegate_testkit::scenario::Sync;

use crate::support::{Fate, Log, Moody, builder, config, end, submit, until};

fn asked(request: &mut SyncRequest) {
    request.options.flags.push("ApplyOutOfSyncOnly=true".to_owned());
    request.tracking.method = TrackingMethod::Label;
    request.tracking.label = "example.com/app".to_owned();
}

fn ignoring(fields: IgnoreDifference) -> impl FnOnce(&mut SyncRequest) {
    |request| {
        asked(request);
        request.ignore_differences.push(IgnoreDifference { kind: "ConfigMap".to_owned(), ..fields });
    }
}

/// The plan is made only after the resume, by another engine: what it ignores, and what marks objects, is in the log.
#[tokio::test(start_paused = true)]
async fn ignored_differences_and_the_marks_of_objects_are_recorded() {
    let pointer = IgnoreDifference { json_pointers: vec!["/data/a".to_owned()], ..Default::default() };
    let jq = IgnoreDifference { jq_path_expressions: vec![".data.a".to_owned()], ..Default::default() };
    let manager =
        IgnoreDifference { managed_fields_managers: vec!["tidegate".to_owned()], ..Default::default() };
    let other = IgnoreDifference { json_pointers: vec!["/data/z".to_owned()], ..Default::default() };
    for (fields, writes) in [(pointer, 0), (jq, 0), (manager, 0), (other, 1)] {
        let away = Arc::new(AtomicBool::new(false));
        let cluster = Moody::new(SimConfig::default(), {
            let away = Arc::clone(&away);
            move |_, _| {
                let is_away = away.load(Ordering::SeqCst);
                if is_away { Fate::Refuse(ErrorKind::Unavailable) } else { Fate::Answer }
            }
        });
        let log = Log::new();
        let engine = builder(&cluster, &log).start().await.unwrap();
        let before = config("settings", 0, &[]);
        let id = submit(&engine, &Sync::of(&before).with(asked)).await;
        assert_eq!(end(&engine, id).await.phase, OperationPhase::Succeeded);
        let written = cluster.writes().len();

        away.store(true, Ordering::SeqCst);
        let after = before.replace("{a: b}", "{a: changed}");
        assert_ne!(before, after);
        let id = submit(&engine, &Sync::of(&after).with(ignoring(fields.clone()))).await;
        until(&engine, id, |view, _| view.message.contains("waiting for the cluster")).await;
        engine.shutdown().await;
        away.store(false, Ordering::SeqCst);
        let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
        engine.resume(id).await.unwrap();
        let view = end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
        assert_eq!(cluster.writes().len() - written, writes, "{fields:?}");
        let settings = cluster.sim.objects().into_iter().find(|object| object.name() == "settings").unwrap();
        assert_eq!(settings.label("example.com/app"), Some("shop"));
        assert_eq!(settings.annotation("argocd.argoproj.io/tracking-id"), None);
        engine.shutdown().await;
    }
}
