//! Flushes to the disk per wave, whatever its width.

use tidegate_model::OperationPhase;

use crate::Line;
use crate::setup::{config, engine, open, request, runtime, server, targets};

const WAVES: usize = 20;

/// Flushes per wave, and those around the waves: what `WAVES` more waves cost.
fn flushes(width: usize, make: fn(&str, usize) -> String) -> f64 {
    let count = |waves: usize| {
        let folder = tempfile::tempdir().unwrap();
        let log = open(folder.path());
        let view = runtime().block_on(async {
            let engine = engine(&log).start().await.unwrap();
            let yaml: String = (0..waves * width).map(|i| make(&format!("o{i}"), i % waves)).collect();
            let id = engine.submit(request("bench"), targets(&yaml)).await.unwrap();
            let view = engine.wait(id).await.unwrap();
            engine.shutdown().await;
            view
        });
        assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
        log.flushes() as f64
    };
    (count(WAVES + 1) - count(1)) / WAVES as f64
}

pub fn measure() -> Vec<Line> {
    [1, 10, 100, 1000]
        .into_iter()
        .map(|width| {
            let figure = format!("{:.1} / {:.1}", flushes(width, config), flushes(width, server));
            Line::new(format!("flushes per wave of {width} (config maps / Deployments)"), figure, "≤ 3")
        })
        .collect()
}
