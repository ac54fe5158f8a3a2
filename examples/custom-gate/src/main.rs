//! A gate of your own: wave 1 stays closed until the release window opens, and the operation says why it waits.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::sim::{self, SimCluster, SimConfig};
use tidegate_executor::extend::ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_executor::{Clock as _, Engine, GateQuestion, SystemClock, Targets};
use tidegate_lifecycle::operation::{OperationView, Verdict};
use tidegate_model::{Destination, SyncRequest, Timestamp};
use tidegate_oplog::MemoryLog;
use tidegate_planner::{Limits, manifests};

/// The gate: an actor. `opens_at` is when the release window opens.
struct ReleaseWindow {
    opens_at: Timestamp,
}

impl Actor for ReleaseWindow {
    type Msg = GateQuestion;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<GateQuestion>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<GateQuestion>,
        question: GateQuestion,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let left = self.opens_at.since(SystemClock.now());
        println!("may wave {} of {} begin? in {} ms", question.wave, question.application, left.as_millis());
        if !left.is_zero() {
            question.reply.send(Verdict::closed("the release window is closed"));
        }
        // It is asked once, and says by itself when it opens; unless nobody listens any more by then.
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(left) => {
                    question.reply.send(Verdict::Open);
                }
                () = question.reply.unwanted() => {}
            }
        });
        Ok(())
    }
}

/// Syncs three manifests through the gate.
async fn deploy(window_opens_in: Duration) -> Result<OperationView, Box<dyn Error>> {
    let gate = ReleaseWindow { opens_at: SystemClock.now() + window_opens_in };
    let (gate, _) = Actor::spawn(None, gate, ()).await?;
    let cluster = SimCluster::in_memory(SimConfig::default(), sim::Clock::wall(|| SystemClock.now()));
    let engine = Engine::builder(Arc::new(MemoryLog::new()))
        .cluster(Destination::Simulated, Arc::new(cluster))
        .gate("release-window", gate)
        .start()
        .await?;
    let targets = manifests::parse("manifests.yaml", include_bytes!("../manifests.yaml"), &Limits::default())
        .map_err(|errors| format!("{errors:?}"))?;
    let request = SyncRequest::new("web", "default", Destination::Simulated);
    let operation = engine.submit(request, Targets { targets, warnings: Vec::new() }).await?;
    let view = engine.wait(operation).await?;
    engine.shutdown().await;
    Ok(view)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let view = deploy(Duration::from_secs(2)).await?;
    println!("{}: {}", view.phase, view.message);
    Ok(())
}

#[cfg(test)]
mod tests;
