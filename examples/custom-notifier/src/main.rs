//! A notifier of your own: it hears of everything that happens, after it is durable, and writes the team a message.

use std::error::Error;

use tidegate::tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tidegate::{prelude::*, tokio};

/// The notifier: an actor. `chat` stands for the team's chat room.
struct Herald {
    chat: UnboundedSender<String>,
}

impl Actor for Herald {
    type Msg = Event;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Event>, (): ()) -> ActorResult {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<Event>, event: Event, (): &mut ()) -> ActorResult {
        let text = match event.what {
            EventKind::Accepted => "the deployment begins".to_owned(),
            EventKind::Task { object, phase, .. } => format!("{object}: {phase}"),
            EventKind::AttemptFailed { message, .. } => format!("this went wrong: {message}"),
            EventKind::Finished { phase, message } => format!("{phase}, {message}"),
            _ => return Ok(()),
        };
        Ok(self.chat.send(format!("{} {text}", event.application))?)
    }
}

/// Syncs three manifests; the chat ends with the engine.
async fn deploy(chat: UnboundedSender<String>) -> Result<(), Box<dyn Error>> {
    let (notifier, herald) = Actor::spawn(None, Herald { chat }, ()).await?;
    let builder = Engine::builder(memory_log()).cluster(Destination::Simulated, simulated_cluster());
    let engine = builder.notifier(notifier.clone()).start().await?;
    let targets = read_manifests("manifests.yaml", include_bytes!("../manifests.yaml"))?;
    let begun = engine.submit(SyncRequest::new("web", "default", Destination::Simulated), targets).await?;
    engine.wait(begun).await?;
    engine.shutdown().await;
    // It hears everything that was said before it goes.
    notifier.drain()?;
    Ok(herald.await?)
}

#[tokio::main(crate = "tidegate::tokio", flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (chat, mut room) = unbounded_channel();
    let print = async {
        while let Some(line) = room.recv().await {
            println!("[chat] {line}")
        }
    };
    tokio::join!(deploy(chat), print).0
}

#[cfg(test)]
mod tests;
