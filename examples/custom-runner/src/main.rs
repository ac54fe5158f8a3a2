//! A hook runner of your own: it migrates a database without a pod, and each step once, however often it is asked.

use std::collections::BTreeMap;
use std::error::Error;

use tidegate::{prelude::*, tokio};

/// The runner: an actor, with a database for its state.
struct Migrator;

#[derive(Default)]
struct Database {
    tables: Vec<String>,
    /// How each hook ended, by operation and attempt: what was begun before a crash is asked for again after it.
    done: BTreeMap<(OperationId, ObjectKey, u32), HookEnd>,
}

impl Actor for Migrator {
    type Msg = HookRun;
    type State = Database;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<HookRun>, (): ()) -> ActorResult<Database> {
        Ok(Database::default())
    }

    async fn handle(&self, _: ActorRef<HookRun>, run: HookRun, db: &mut Database) -> ActorResult {
        let asked = (run.operation, run.manifest.key(), run.attempt);
        let end = db.done.entry(asked).or_insert_with(|| match run.manifest.text("/data/table") {
            "" => HookEnd::Failed("the hook names no table".to_owned()),
            table => {
                db.tables.push(table.to_owned());
                HookEnd::Succeeded(format!("tables: {}", db.tables.join(", ")))
            }
        });
        let _ = run.reply.send(end.clone());
        Ok(())
    }
}

/// Syncs manifests whose hooks the runner carries out.
async fn deploy(manifests: &str) -> Result<OperationView, Box<dyn Error>> {
    let builder = Engine::builder(memory_log()).cluster(Destination::Simulated, simulated_cluster());
    let engine = builder.hook_runner("migrator", Actor::spawn(None, Migrator, ()).await?.0).start().await?;
    let targets = read_manifests("manifests.yaml", manifests.as_bytes())?;
    let request = SyncRequest::new("shop", "default", Destination::Simulated);
    let view = engine.wait(engine.submit(request, targets).await?).await?;
    engine.shutdown().await;
    Ok(view)
}

#[tokio::main(crate = "tidegate::tokio", flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let view = deploy(include_str!("../manifests.yaml")).await?;
    view.resources.iter().for_each(|result| println!("{} {}: {}", result.kind, result.name, result.message));
    Ok(())
}

#[cfg(test)]
mod tests;
