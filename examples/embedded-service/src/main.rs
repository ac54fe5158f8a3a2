//! An engine embedded in a service: it syncs each release in order, and reports events.

use std::error::Error;

use tidegate::tokio::sync::mpsc::{Receiver, Sender, channel};
use tidegate::{prelude::*, tokio};

/// A release to sync.
struct Release {
    application: String,
    manifests: String,
}

/// Syncs each release. Ends when all senders are dropped.
async fn serve(
    log: Log,
    mut requests: Receiver<Release>,
    messages: Sender<String>,
) -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder(log).cluster(Destination::Simulated, simulated_cluster()).start().await?;
    // Resume operations from an earlier run of this service, if the log is persistent.
    for open in engine.find(Lookup::open()).await? {
        if let Err(error) = engine.resume(open.operation).await {
            messages.send(format!("{}: {error}", open.application)).await?;
        }
    }
    while let Some(Release { application, manifests }) = requests.recv().await {
        let targets = read_manifests(&application, manifests.as_bytes())?;
        let request = SyncRequest::new(&application, "default", Destination::Simulated);
        // The operation is queued behind operations from an earlier run.
        let operation = engine.submit_with_policy(request, targets, ClaimConflictPolicy::Queue).await?;
        // Subscribe to all events from the beginning. The stream ends with the operation.
        let mut events = engine.events(operation, 0).await?;
        while let Some(event) = events.next().await {
            messages.send(format!("{application}: {:?}", event?.what)).await?;
        }
        let view = engine.wait(operation).await?;
        messages.send(format!("{application}: {} ({})", view.phase, view.message)).await?;
    }
    engine.shutdown().await;
    Ok(())
}

#[tokio::main(crate = "tidegate::tokio", flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let ((ask, requests), (tell, mut messages)) = (channel(8), channel(8));
    for application in ["shop", "blog"] {
        let manifests = include_str!("../manifests.yaml").to_owned();
        ask.send(Release { application: application.to_owned(), manifests }).await?;
    }
    drop(ask);
    let print = async {
        while let Some(line) = messages.recv().await {
            println!("{line}")
        }
    };
    tokio::join!(serve(memory_log(), requests, tell), print).0
}

#[cfg(test)]
mod tests;
