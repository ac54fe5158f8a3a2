//! A custom health judge: wave 1 starts only if a load test is within its budget of slow requests.

use std::error::Error;

use tidegate::{prelude::*, tokio};

/// Health judge actor. The field is the maximum number of slow requests in a report.
struct LoadTest {
    slow_max: u32,
}

impl Actor for LoadTest {
    type Msg = HealthRequest;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<HealthRequest>, (): ()) -> ActorResult {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<HealthRequest>, request: HealthRequest, (): &mut ()) -> ActorResult {
        let (slow, most) = (request.object.text("/data/slowRequests"), self.slow_max);
        let status = match slow.parse::<u32>() {
            Ok(slow) if slow <= most => HealthStatus::Healthy,
            Ok(_) => HealthStatus::Degraded,
            Err(_) => HealthStatus::Progressing,
        };
        // Sending fails if the operation has ended in the meantime.
        let _ = request.reply.send(Health::new(status, format!("{slow} slow requests, maximum {most}")));
        Ok(())
    }
}

/// Syncs the report, followed by the objects that depend on it.
async fn deploy(slow_max: u32) -> Result<OperationView, Box<dyn Error>> {
    let judge = LoadTest { slow_max };
    let builder = Engine::builder(memory_log()).cluster(Destination::Simulated, simulated_cluster());
    let engine = builder.health_judge("load-test", Actor::spawn(None, judge, ()).await?.0).start().await?;
    let targets = read_manifests("manifests.yaml", include_bytes!("../manifests.yaml"))?;
    let request = SyncRequest::new("web", "default", Destination::Simulated);
    let view = engine.wait(engine.submit(request, targets).await?).await?;
    engine.shutdown().await;
    Ok(view)
}

#[tokio::main(crate = "tidegate::tokio", flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    for slow_max in [100, 10] {
        let view = deploy(slow_max).await?;
        println!("at most {slow_max} slow requests: {}, {}", view.phase, view.message);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
