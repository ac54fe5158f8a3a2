//! An engine inside a service of your own: it syncs what it is given, one after the other, and tells what happens.

use std::error::Error;

use tidegate::tokio::sync::mpsc::{Receiver, Sender, channel};
use tidegate::{prelude::*, tokio};

/// What the service is asked for.
struct Release {
    application: String,
    manifests: String,
}

/// Syncs each release; ends when nobody can ask any more.
async fn serve(log: Log, mut asked: Receiver<Release>, told: Sender<String>) -> Result<(), Box<dyn Error>> {
    let engine = Engine::builder(log).cluster(Destination::Simulated, simulated_cluster()).start().await?;
    // What an earlier life of this service has left, where the log is one that outlives it.
    for open in engine.find(Lookup::open()).await? {
        if let Err(error) = engine.resume(open.operation).await {
            told.send(format!("{}: {error}", open.application)).await?;
        }
    }
    while let Some(Release { application, manifests }) = asked.recv().await {
        let targets = read_manifests(&application, manifests.as_bytes())?;
        let request = SyncRequest::new(&application, "default", Destination::Simulated);
        // Behind what an earlier life has begun for it.
        let operation = engine.submit_when(request, targets, IfTaken::Queue).await?;
        // All of them, from the first; the stream ends with the operation.
        let mut events = engine.events(operation, 0).await?;
        while let Some(event) = events.next().await {
            told.send(format!("{application}: {:?}", event?.what)).await?;
        }
        let view = engine.wait(operation).await?;
        told.send(format!("{application}: {} ({})", view.phase, view.message)).await?;
    }
    engine.shutdown().await;
    Ok(())
}

#[tokio::main(crate = "tidegate::tokio", flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let ((ask, asked), (tell, mut told)) = (channel(8), channel(8));
    for application in ["shop", "blog"] {
        let manifests = include_str!("../manifests.yaml").to_owned();
        ask.send(Release { application: application.to_owned(), manifests }).await?;
    }
    drop(ask);
    let print = async {
        while let Some(line) = told.recv().await {
            println!("{line}")
        }
    };
    tokio::join!(serve(memory_log(), asked, tell), print).0
}

#[cfg(test)]
mod tests;
