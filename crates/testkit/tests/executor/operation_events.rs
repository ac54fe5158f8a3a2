//! A resumed operation uses its original request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_cluster::ErrorKind;
use tidegate_cluster::sim::SimConfig;
use tidegate_model::{IgnoreDifference, OperationPhase, SyncRequest, TrackingMethod};
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{CallOutcome, FaultyCluster, Log, builder, config, submit, wait_for_end, wait_until};

fn set_recorded_options(request: &mut SyncRequest) {
    request.options.flags.push("ApplyOutOfSyncOnly=true".to_owned());
    request.tracking.method = TrackingMethod::Label;
    request.tracking.label = "example.com/app".to_owned();
}

fn ignoring(fields: IgnoreDifference) -> impl FnOnce(&mut SyncRequest) {
    |request| {
        set_recorded_options(request);
        request.ignore_differences.push(IgnoreDifference { kind: "ConfigMap".to_owned(), ..fields });
    }
}

/// Another engine creates the plan after the operation is resumed. It must use the ignored differences and
/// tracking marks from the log.
#[tokio::test(start_paused = true)]
async fn ignored_differences_and_tracking_marks_are_recorded() {
    let pointer = IgnoreDifference { json_pointers: vec!["/data/a".to_owned()], ..Default::default() };
    let jq = IgnoreDifference { jq_path_expressions: vec![".data.a".to_owned()], ..Default::default() };
    let manager =
        IgnoreDifference { managed_fields_managers: vec!["tidegate".to_owned()], ..Default::default() };
    let other = IgnoreDifference { json_pointers: vec!["/data/z".to_owned()], ..Default::default() };
    for (fields, writes) in [(pointer, 0), (jq, 0), (manager, 0), (other, 1)] {
        let away = Arc::new(AtomicBool::new(false));
        let cluster = FaultyCluster::new(SimConfig::default(), {
            let away = Arc::clone(&away);
            move |_, _| {
                let is_away = away.load(Ordering::SeqCst);
                if is_away { CallOutcome::Refuse(ErrorKind::Unavailable) } else { CallOutcome::Answer }
            }
        });
        let log = Log::new();
        let engine = builder(&cluster, &log).start().await.unwrap();
        let before = config("settings", 0, &[]);
        let id = submit(&engine, &SyncSpec::new(&before).with_request(set_recorded_options)).await;
        assert_eq!(wait_for_end(&engine, id).await.phase, OperationPhase::Succeeded);
        let written = cluster.writes().len();

        away.store(true, Ordering::SeqCst);
        let after = before.replace("{a: b}", "{a: changed}");
        assert_ne!(before, after);
        let id = submit(&engine, &SyncSpec::new(&after).with_request(ignoring(fields.clone()))).await;
        wait_until(&engine, id, |view, _| view.message.contains("waiting for the cluster")).await;
        engine.shutdown().await;
        away.store(false, Ordering::SeqCst);
        let engine = builder(&cluster, &log.reopen()).start().await.unwrap();
        engine.resume(id).await.unwrap();
        let view = wait_for_end(&engine, id).await;
        assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
        assert_eq!(cluster.writes().len() - written, writes, "{fields:?}");
        let settings = cluster.sim.objects().into_iter().find(|object| object.name() == "settings").unwrap();
        assert_eq!(settings.label("example.com/app"), Some("shop"));
        assert_eq!(settings.annotation("argocd.argoproj.io/tracking-id"), None);
        engine.shutdown().await;
    }
}
