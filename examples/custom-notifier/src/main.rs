//! A notifier of your own: it hears of everything that happens, after it is durable, and writes the team a message.

use std::error::Error;
use std::sync::Arc;

use tidegate_cluster::sim::{self, SimCluster, SimConfig};
use tidegate_executor::extend::ractor::{Actor, ActorProcessingErr, ActorRef};
use tidegate_executor::{Clock as _, Engine, Event, EventKind, SystemClock, Targets};
use tidegate_model::{Destination, SyncRequest};
use tidegate_oplog::MemoryLog;
use tidegate_planner::{Limits, manifests};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The notifier: an actor. `chat` stands for the team's chat room.
struct Herald {
    chat: UnboundedSender<String>,
}

impl Actor for Herald {
    type Msg = Event;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Event>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<Event>, event: Event, (): &mut ()) -> Result<(), ActorProcessingErr> {
        let text = match event.what {
            EventKind::Accepted => "the deployment begins".to_owned(),
            EventKind::Task { object, phase, .. } => format!("{object}: {phase}"),
            EventKind::AttemptFailed { message, .. } => format!("this went wrong: {message}"),
            EventKind::Finished { phase, message } => format!("{phase}, {message}"),
            _ => return Ok(()),
        };
        // An error would end this actor, and harm nobody but its listeners.
        self.chat.send(format!("{} {}", event.application, text))?;
        Ok(())
    }
}

/// Syncs three manifests; the chat ends with the engine.
async fn deploy(chat: UnboundedSender<String>) -> Result<(), Box<dyn Error>> {
    let (notifier, herald) = Actor::spawn(None, Herald { chat }, ()).await?;
    let cluster = SimCluster::in_memory(SimConfig::default(), sim::Clock::wall(|| SystemClock.now()));
    let engine = Engine::builder(Arc::new(MemoryLog::new()))
        .cluster(Destination::Simulated, Arc::new(cluster))
        .notifier(notifier.clone())
        .start()
        .await?;
    let targets = manifests::parse("manifests.yaml", include_bytes!("../manifests.yaml"), &Limits::default())
        .map_err(|errors| format!("{errors:?}"))?;
    let request = SyncRequest::new("web", "default", Destination::Simulated);
    let operation = engine.submit(request, Targets { targets, warnings: Vec::new() }).await?;
    engine.wait(operation).await?;
    engine.shutdown().await;
    // It hears everything that was said before it goes.
    notifier.drain()?;
    herald.await?;
    Ok(())
}

async fn print(mut room: UnboundedReceiver<String>) {
    while let Some(line) = room.recv().await {
        println!("[chat] {line}");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (chat, room) = unbounded_channel();
    let (done, ()) = tokio::join!(deploy(chat), print(room));
    done
}

#[cfg(test)]
mod tests;
