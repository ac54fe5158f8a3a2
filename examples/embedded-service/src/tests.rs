use tidegate::prelude::*;
use tidegate::tokio;
use tidegate::tokio::sync::mpsc::channel;

use super::{Release, serve};

#[tokio::test(crate = "tidegate::tokio")]
async fn each_release_is_synced_and_reported_from_start_to_end() {
    let ((ask, requests), (tell, mut messages)) = (channel(8), channel(1000));
    for application in ["shop", "blog"] {
        let manifests = include_str!("../manifests.yaml").to_owned();
        ask.send(Release { application: application.to_owned(), manifests }).await.unwrap();
    }
    drop(ask);
    let log = memory_log();
    serve(log.clone(), requests, tell).await.unwrap();
    let mut lines = Vec::new();
    while let Some(line) = messages.recv().await {
        lines.push(line);
    }
    let of = |application: &str| {
        lines.iter().filter(|line| line.starts_with(application)).cloned().collect::<Vec<_>>()
    };
    for lines in [of("shop: "), of("blog: ")] {
        assert!(lines.first().unwrap().ends_with("Accepted"), "{lines:?}");
        assert!(
            lines.iter().any(|line| line.contains("Task { object: ") && line.contains("Deployment")),
            "{lines:?}"
        );
        assert!(lines.last().unwrap().contains(": Succeeded ("), "{lines:?}");
    }
    let engine = Engine::builder(log).start().await.unwrap();
    let operations = engine.list().await.unwrap();
    assert_eq!(operations.len(), 2);
    assert!(operations.iter().all(|summary| summary.phase == OperationPhase::Succeeded), "{operations:?}");
}
