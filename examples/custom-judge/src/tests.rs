use tidegate::prelude::*;
use tidegate::tokio;

use super::deploy;

fn is_announced(view: &OperationView) -> bool {
    view.resources.iter().any(|result| result.name == "announcement")
}

#[tokio::test(crate = "tidegate::tokio")]
async fn a_report_within_its_budget_lets_the_next_wave_begin() {
    let view = deploy(100).await.unwrap();
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert!(is_announced(&view));
}

#[tokio::test(crate = "tidegate::tokio")]
async fn a_report_beyond_it_fails_the_operation_and_says_why() {
    let view = deploy(10).await.unwrap();
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    let told =
        view.resources.iter().any(|result| result.message.contains("42 slow requests, 10 are allowed"));
    assert!(told && !is_announced(&view), "{:?}", view.resources);
}
