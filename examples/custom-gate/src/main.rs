//! A custom gate: wave 1 stays closed until the release window opens, and the operation reports the reason.

use std::error::Error;
use std::time::Duration;

use tidegate::{prelude::*, tokio};

/// Gate actor. `opens_at` is the time at which the release window opens.
struct ReleaseWindow {
    opens_at: Timestamp,
}

impl Actor for ReleaseWindow {
    type Msg = GateRequest;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<GateRequest>, (): ()) -> ActorResult {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<GateRequest>, request: GateRequest, (): &mut ()) -> ActorResult {
        let left = self.opens_at.since(SystemClock.now());
        println!("gate of wave {} of {} opens in {} ms", request.wave, request.application, left.as_millis());
        if !left.is_zero() {
            request.reply.send(Verdict::closed("the release window is closed"));
        }
        // The engine queries the gate only once, so the gate itself must report that it has opened. By then,
        // the receiver may be gone.
        tokio::spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(left) => drop(request.reply.send(Verdict::Open)),
                () = request.reply.wait_until_unwanted() => {}
            }
        });
        Ok(())
    }
}

/// Syncs three manifests through the gate.
async fn deploy(window_opens_in: Duration) -> Result<OperationView, Box<dyn Error>> {
    let gate = ReleaseWindow { opens_at: SystemClock.now() + window_opens_in };
    let builder = Engine::builder(memory_log()).cluster(Destination::Simulated, simulated_cluster());
    let engine = builder.gate("release-window", Actor::spawn(None, gate, ()).await?.0).start().await?;
    let targets = read_manifests("manifests.yaml", include_bytes!("../manifests.yaml"))?;
    let request = SyncRequest::new("web", "default", Destination::Simulated);
    let view = engine.wait(engine.submit(request, targets).await?).await?;
    engine.shutdown().await;
    Ok(view)
}

#[tokio::main(crate = "tidegate::tokio", flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let view = deploy(Duration::from_secs(2)).await?;
    println!("{}: {}", view.phase, view.message);
    Ok(())
}

#[cfg(test)]
mod tests;
