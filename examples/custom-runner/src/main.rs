//! A custom hook runner: it migrates a database without a pod, and runs each step only once, even if the
//! engine requests a step repeatedly.

use std::collections::BTreeMap;
use std::error::Error;

use tidegate::{prelude::*, tokio};

/// Hook runner actor. The actor's state represents a database.
struct Migrator;

#[derive(Default)]
struct Database {
    tables: Vec<String>,
    /// Result of each hook, by operation and attempt. After a crash, the engine may request a hook that has
    /// already run.
    results: BTreeMap<(OperationId, ObjectKey, u32), HookResult>,
}

impl Actor for Migrator {
    type Msg = HookRun;
    type State = Database;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<HookRun>, (): ()) -> ActorResult<Database> {
        Ok(Database::default())
    }

    async fn handle(&self, _: ActorRef<HookRun>, run: HookRun, db: &mut Database) -> ActorResult {
        let key = (run.operation, run.manifest.key(), run.attempt);
        let end = db.results.entry(key).or_insert_with(|| match run.manifest.text("/data/table") {
            "" => HookResult::Failed("the hook does not name a table".to_owned()),
            table => {
                db.tables.push(table.to_owned());
                HookResult::Succeeded(format!("tables: {}", db.tables.join(", ")))
            }
        });
        let _ = run.reply.send(end.clone());
        Ok(())
    }
}

/// Syncs manifests with hooks that the runner executes.
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
