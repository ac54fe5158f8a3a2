//! Recovery of 1,000 open operations after a restart.

use std::time::Instant;

use futures_util::StreamExt as _;

use crate::Line;
use crate::fixtures::{engine_builder, format_millis, open_log, runtime};
use crate::idle::start_waiting_operations;

const OPERATIONS: usize = 1000;

pub fn measure() -> Vec<Line> {
    let folder = tempfile::tempdir().unwrap();
    let log = open_log(folder.path());
    let before = runtime();
    before.block_on(async { drop(start_waiting_operations(&log, OPERATIONS).await) });
    // Simulate a crash by not shutting down the engine.
    before.shutdown_timeout(std::time::Duration::from_secs(5));
    drop(log);
    runtime().block_on(async {
        let begin = Instant::now();
        let log = open_log(folder.path());
        let opened = begin.elapsed();
        let engine = engine_builder(&log).start().await.unwrap();
        let open: Vec<_> = engine.list().await.unwrap();
        assert_eq!(open.iter().filter(|summary| summary.finished_at.is_none()).count(), OPERATIONS);
        let resumes = open.iter().map(|summary| engine.resume(summary.operation));
        futures_util::stream::iter(resumes)
            .buffer_unordered(64)
            .for_each(async |resumed| resumed.unwrap())
            .await;
        let took = begin.elapsed();
        let figure = format!("{} (of which {} to open the log)", format_millis(took), format_millis(opened));
        vec![Line::new("open the log and continue 1,000 open operations", figure, "≤ 2 s")]
    })
}
