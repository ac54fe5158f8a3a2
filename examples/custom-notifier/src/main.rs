//! A custom notifier: it receives every event once the event is durable, and posts messages to a chat room.

use std::error::Error;

use tidegate::tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tidegate::{prelude::*, tokio};

/// Notifier actor. `chat` represents a team's chat room.
struct ChatNotifier {
    chat: UnboundedSender<String>,
}

impl Actor for ChatNotifier {
    type Msg = Event;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Event>, (): ()) -> ActorResult {
        Ok(())
    }

    async fn handle(&self, _: ActorRef<Event>, event: Event, (): &mut ()) -> ActorResult {
        let text = match event.what {
            EventKind::Accepted => "the deployment started".to_owned(),
            EventKind::Task { object, phase, .. } => format!("{object}: {phase}"),
            EventKind::AttemptFailed { message, .. } => format!("attempt failed: {message}"),
            EventKind::Finished { phase, message } => format!("{phase}, {message}"),
            _ => return Ok(()),
        };
        Ok(self.chat.send(format!("{} {text}", event.application))?)
    }
}

/// Syncs three manifests. The chat room closes once the notifier has ended.
async fn deploy(chat: UnboundedSender<String>) -> Result<(), Box<dyn Error>> {
    let (notifier, herald) = Actor::spawn(None, ChatNotifier { chat }, ()).await?;
    let builder = Engine::builder(memory_log()).cluster(Destination::Simulated, simulated_cluster());
    let engine = builder.notifier(notifier.clone()).start().await?;
    let targets = read_manifests("manifests.yaml", include_bytes!("../manifests.yaml"))?;
    let started = engine.submit(SyncRequest::new("web", "default", Destination::Simulated), targets).await?;
    engine.wait(started).await?;
    engine.shutdown().await;
    // The notifier receives all pending events before it ends.
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
