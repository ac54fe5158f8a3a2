use std::time::Duration;

use tidegate::prelude::*;
use tidegate::tokio;

use super::deploy;

#[tokio::test(crate = "tidegate::tokio")]
async fn the_wave_waits_for_the_window() {
    let window = Duration::from_millis(1500);
    let view = deploy(window).await.unwrap();
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let gated = view.waves.iter().find(|wave| (wave.phase, wave.wave) == (Phase::Sync, 1)).unwrap();
    let waited = gated.applied_at.unwrap().since(view.started_at);
    assert!(waited + Duration::from_millis(100) >= window, "opened after {waited:?}");
}
