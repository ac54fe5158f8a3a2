//! Several replicas that share the shards of a log in PostgreSQL.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tidegate_executor::codecs;
use tidegate_oplog::{Log, LogKey, Lookup, OperationLog as _, PostgresLog, PostgresOptions, PostgresTarget};
use tidegate_state::owned_shards::OwnedShards;
use tidegate_testkit::crash::CrashPoints;

use crate::invariants;
use crate::postgres_server::PostgresServer;
use crate::random_life::deployed_commit;
use crate::shards::{check_reported_phases, other_set, toggle_owner};
use crate::user_documents::{self, Fleet};
use crate::world::{Life, World};

const QUIET_TIME: Duration = Duration::from_secs(300);
/// Time after a commit until the replica joins or leaves. Syncs are running then.
const SYNC_TIME: Duration = Duration::from_secs(4);
/// Application that moves to another shard in each sync.
const MOVING_APP: &str = "single-0";

/// A replica with its own connections to the log.
struct Replica {
    life: Life,
    log: Arc<PostgresLog>,
}

impl Replica {
    async fn start(world: &World, url: &str, name: &str) -> Self {
        let target = PostgresTarget::parse(url, None, |_| Err("no TLS on a socket".to_owned())).unwrap();
        let options = PostgresOptions {
            target,
            replica: name.to_owned(),
            address: None,
            key: LogKey::new(&[7; 32]),
            codecs: codecs(),
            observer: None,
            shares: true,
        };
        let log = tokio::task::spawn_blocking(move || PostgresLog::join(options)).await.unwrap();
        let log = Arc::new(log.unwrap());
        let shared: Log = Arc::clone(&log) as Log;
        let none = OwnedShards::Only(BTreeSet::new());
        let life = world.start_with_log(shared, &CrashPoints::crash_at(0), none).await.unwrap();
        assert!(life.running_operations().await.is_empty(), "{name} has no shards yet");
        Self { life, log }
    }

    /// Takes part in the distribution of the shards while `work` runs.
    async fn share_during<T>(&self, work: impl Future<Output = T>) -> T {
        let controllers = self.life.controllers();
        tokio::select! {
            error = controllers.share(&self.log) => panic!("{error}"),
            done = work => done,
        }
    }

    /// Hands over everything and leaves.
    async fn leave(self) {
        self.life.controllers().release_others(&BTreeSet::new()).await.unwrap();
        let log = Arc::clone(&self.log);
        tokio::task::spawn_blocking(move || log.leave()).await.unwrap().unwrap();
    }

    /// Returns the number of Applications that this replica manages.
    fn count_managed(&self) -> usize {
        let service = self.life.applications();
        service.all().iter().filter(|(key, _)| service.shared.is_managed(key)).count()
    }
}

/// Commits a change to all Applications, and waits until they are being synced.
async fn commit(world: &World, names: &[String], number: u64, replicas: &[&Replica]) {
    user_documents::commit(&world.repository(), names.iter().map(String::as_str), (number, None));
    for replica in replicas {
        replica.life.announce_push(&world.repository()).await;
    }
    tokio::time::sleep(SYNC_TIME).await;
    // The running operation ends in the shard in which it was started.
    toggle_owner(world, MOVING_APP).await;
}

async fn check_deployed(world: &World, names: &[String], commit: u64) {
    world.wait_for_quiet(QUIET_TIME).await;
    for name in names {
        assert_eq!(deployed_commit(world, name).await, Some(commit), "{name}");
    }
}

/// Replicas join and leave while Applications are synced. The database rejects every event of a replica that doesn't own
/// the shard, so each operation succeeds only if the handovers are complete.
#[test]
fn replicas_join_and_leave_while_they_sync() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.new_log_url();
    let world = World::new(1, 0.0);
    let members = [("a", 0), ("b", 1), ("c", 1)].map(|(name, step)| (name.to_owned(), step)).into();
    let fleet = Fleet { members, max_update: vec![None, Some(json!(1))], rollout: None, deletion: "Reverse" };
    let singles: Vec<String> = (0..12).map(|number| format!("single-{number}")).collect();
    let names: Vec<String> = ["a", "b", "c"].map(str::to_owned).into_iter().chain(singles.clone()).collect();
    user_documents::commit(&world.repository(), names.iter().map(String::as_str), (1, None));
    // Replicas that have just joined get shards of others only after a while.
    let settle = || server.psql(&url, "UPDATE replica SET joined_at = joined_at - interval '1 minute'");
    world.run(async || {
        for name in &singles {
            world.write(user_documents::application(&world.repository(), name, None)).await;
        }
        world.write(fleet.document(&world.repository())).await;
        world.write(other_set()).await;
        let first = Replica::start(&world, &url, "first").await;
        let all = first.share_during(async {
            tokio::time::sleep(SYNC_TIME).await;
            let second = Replica::start(&world, &url, "second").await;
            settle();
            let third = second.share_during(async {
                check_deployed(&world, &names, 1).await;
                commit(&world, &names, 2, &[&first, &second]).await;
                let third = Replica::start(&world, &url, "third").await;
                settle();
                third
                    .share_during(async {
                        check_deployed(&world, &names, 2).await;
                        let counts = || [&first, &second, &third].map(Replica::count_managed);
                        while counts().iter().sum::<usize>() != names.len() {
                            tokio::time::sleep(SYNC_TIME).await;
                        }
                        assert!(counts().iter().all(|count| *count < names.len()), "{:?}", counts());
                        commit(&world, &names, 3, &[&first, &second, &third]).await;
                    })
                    .await;
                third.leave().await;
                check_deployed(&world, &names, 3).await;
                commit(&world, &names, 4, &[&first, &second]).await;
            });
            third.await;
            second.leave().await;
            check_deployed(&world, &names, 4).await;
            assert_eq!(first.count_managed(), names.len());
        });
        all.await;
        let (log, lookup) = (Arc::clone(&first.log), Lookup::of_application(MOVING_APP));
        let operations = tokio::task::spawn_blocking(move || log.find(&lookup)).await.unwrap().unwrap();
        let shards: BTreeSet<_> = operations.iter().map(|operation| operation.shard).collect();
        assert_eq!(shards.len(), 2, "{shards:?}");
        let log: Log = Arc::clone(&first.log) as Log;
        let recorded = tokio::task::spawn_blocking(move || invariants::operations_in(&log)).await.unwrap();
        assert!(recorded.len() >= names.len() * 4, "{} operations", recorded.len());
        for operation in recorded {
            assert_eq!(operation.phase.to_string(), "Succeeded", "{operation:?}");
        }
    });
    invariants::check_single_operation(&world.sim);
    invariants::check_hooks_run_once(&world.sim);
    check_reported_phases(&world);
}
