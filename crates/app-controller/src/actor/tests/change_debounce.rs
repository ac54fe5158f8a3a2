//! Comparisons that start without a request.

use serde_json::json;
use tidegate_model::HealthStatus;
use tidegate_model::argo::Application;

use crate::testing::TestEnvironment;

fn health(application: &Application) -> Option<(HealthStatus, &str)> {
    let health = application.status.resources.first()?.health.as_ref()?;
    Some((health.status, health.message.as_str()))
}

/// The object doesn't change when the grace period ends, so no watch event reports the end of the period.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_grace_period_starts_a_comparison() {
    let scaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "annotations": {
            "sim.tidegate.dev/outcome": "fail", "tidegate.dev/health-grace": "6s",
        }},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3},
    });
    let mut environment = TestEnvironment::new(&[("web", &scaler.to_string())]).await;
    environment.sync("web").await;
    for status in [HealthStatus::Progressing, HealthStatus::Degraded] {
        let is_there = |app: &Application| {
            health(app).is_some_and(|(found, message)| found == status && message.contains("unable to get"))
        };
        environment.wait_until("web", |app, _| is_there(app).then_some(())).await;
    }
    environment.shutdown().await;
}
