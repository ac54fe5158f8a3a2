//! A health judge of your own: wave 1 begins only if the report of a load test is within its budget.

use std::error::Error;

use tidegate::{prelude::*, tokio};

/// The judge: an actor. A report may name so many slow requests, and no more.
struct LoadTest {
    slow_max: u32,
}

impl Actor for LoadTest {
    type Msg = HealthQuestion;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<HealthQuestion>, (): ()) -> ActorResult {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<HealthQuestion>, asked: HealthQuestion, (): &mut ()) -> ActorResult {
        let (slow, most) = (asked.object.text("/data/slowRequests"), self.slow_max);
        let status = match slow.parse::<u32>() {
            Ok(slow) if slow <= most => HealthStatus::Healthy,
            Ok(_) => HealthStatus::Degraded,
            Err(_) => HealthStatus::Progressing,
        };
        // Nobody listens any more if the operation has ended meanwhile.
        let _ = asked.reply.send(Health::new(status, format!("{slow} slow requests, {most} are allowed")));
        Ok(())
    }
}

/// Syncs the report and what comes after it.
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
