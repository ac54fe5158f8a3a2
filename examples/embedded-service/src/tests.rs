use tidegate::prelude::*;
use tidegate::tokio;
use tidegate::tokio::sync::mpsc::channel;

use super::{Release, serve};

#[tokio::test(crate = "tidegate::tokio")]
async fn each_release_is_synced_and_told_from_its_beginning_to_its_end() {
    let ((ask, asked), (tell, mut told)) = (channel(8), channel(1000));
    for application in ["shop", "blog"] {
        let manifests = include_str!("../manifests.yaml").to_owned();
        ask.send(Release { application: application.to_owned(), manifests }).await.unwrap();
    }
    drop(ask);
    let log = memory_log();
    serve(log.clone(), asked, tell).await.unwrap();
    let mut lines = Vec::new();
    while let Some(line) = told.recv().await {
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
    let kept = engine.list().await.unwrap();
    assert_eq!(kept.len(), 2);
    assert!(kept.iter().all(|summary| summary.phase == OperationPhase::Succeeded), "{kept:?}");
}
