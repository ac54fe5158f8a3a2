//! Number of disk flushes per wave, which must not depend on the wave's width.

use tidegate_model::OperationPhase;

use crate::Line;
use crate::fixtures::{
    config_map, deployment, engine_builder, open_log, parse_targets, runtime, sync_request,
};

const WAVES: usize = 20;

/// Returns the number of flushes per wave: the extra flushes for `WAVES` more waves, divided by `WAVES`.
fn measure_flushes(width: usize, make: fn(&str, usize) -> String) -> f64 {
    let count = |waves: usize| {
        let folder = tempfile::tempdir().unwrap();
        let log = open_log(folder.path());
        let view = runtime().block_on(async {
            let engine = engine_builder(&log).start().await.unwrap();
            let yaml: String = (0..waves * width).map(|i| make(&format!("o{i}"), i % waves)).collect();
            let id = engine.submit(sync_request("bench"), parse_targets(&yaml)).await.unwrap();
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
            let figure = format!(
                "{:.1} / {:.1}",
                measure_flushes(width, config_map),
                measure_flushes(width, deployment)
            );
            Line::new(format!("flushes per wave of {width} objects (ConfigMap / Deployment)"), figure, "≤ 3")
        })
        .collect()
}
