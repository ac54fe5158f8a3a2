use std::time::Duration;

use tidegate::prelude::*;
use tidegate::tokio;

use super::deploy;

#[tokio::test(crate = "tidegate::tokio")]
async fn the_wave_waits_for_the_window() {
    let opens_in = Duration::from_millis(1500);
    let opens_at = SystemClock.now() + opens_in;
    let view = deploy(opens_in).await.unwrap();
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    let gated = view.waves.iter().find(|wave| (wave.phase, wave.wave) == (Phase::Sync, 1)).unwrap();
    let applied_at = gated.applied_at.unwrap();
    assert!(applied_at >= opens_at, "applied at {applied_at}, before the window opened at {opens_at}");
}
