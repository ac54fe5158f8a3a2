use tidegate::prelude::*;
use tidegate::tokio;

use super::deploy;

fn has_announcement(view: &OperationView) -> bool {
    view.resources.iter().any(|result| result.name == "announcement")
}

#[tokio::test(crate = "tidegate::tokio")]
async fn a_report_within_its_budget_lets_the_next_wave_begin() {
    let view = deploy(100).await.unwrap();
    assert_eq!(view.phase, OperationPhase::Succeeded, "{}", view.message);
    assert!(has_announcement(&view));
}

#[tokio::test(crate = "tidegate::tokio")]
async fn a_report_over_its_budget_fails_the_operation_with_a_reason() {
    let view = deploy(10).await.unwrap();
    assert_eq!(view.phase, OperationPhase::Failed, "{}", view.message);
    let is_reported =
        view.resources.iter().any(|result| result.message.contains("42 slow requests, maximum 10"));
    assert!(is_reported && !has_announcement(&view), "{:?}", view.resources);
}
