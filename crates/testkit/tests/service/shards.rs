//! Several replicas with the same log. Shards move between them while they sync Applications.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate_cluster::{Cluster as _, DeleteRequest, ErrorKind};
use tidegate_model::argo::API_VERSION;
use tidegate_oplog::{Lookup, MemoryLog, OperationLog as _, OwnedShards, Shard};
use tidegate_testkit::effort;
use tidegate_testkit::simulate::Rng;

use crate::invariants;
use crate::random_life::deployed_commit;
use crate::user_documents::{self, BASE_APP, Fleet, STANDALONE_APP};
use crate::world::{Life, World, kind};

const QUIET_TIME: Duration = Duration::from_secs(300);
const REPLICAS: usize = 3;
/// Keys of the shards that move. Two of them are keys of ApplicationSets.
const KEYS: [&str; 4] = ["argocd/fleet", OTHER_SET, STANDALONE_APP, BASE_APP];
/// ApplicationSet that owns a standalone Application at times.
const OTHER_SET: &str = "argocd/other";
const COMMITS: u64 = 4;
/// Number of moves after each commit.
const MOVES: usize = 10;
/// Maximum time between two moves. A sync takes longer than five seconds.
const PAUSE_MAX_MILLIS: u64 = 3_000;
/// Delay of the watches in half of the runs.
const WATCH_DELAY_MILLIS: u64 = 1_500;

/// Replicas, with the shards that each of them owns.
struct Replicas {
    lives: Vec<Life>,
    logs: Vec<MemoryLog>,
    owned: Vec<BTreeSet<Shard>>,
    /// Number of writes of each replica when it had released its last Application, if it manages none.
    writes_before: Vec<Option<u64>>,
    /// Number of moves between different replicas while an operation was open.
    interruptions: usize,
}

impl Replicas {
    fn new(replicas: Vec<(Life, MemoryLog)>) -> Self {
        let (lives, logs): (Vec<_>, Vec<_>) = replicas.into_iter().unzip();
        let mut owned = vec![BTreeSet::new(); lives.len()];
        owned[0] = Shard::all().collect();
        let mut writes_before: Vec<_> = lives.iter().map(|life| Some(life.crash_points())).collect();
        writes_before[0] = None;
        Self { lives, logs, owned, writes_before, interruptions: 0 }
    }

    /// Moves a shard to another replica.
    async fn move_shard(&mut self, world: &World, shard: Shard, to: usize) {
        let from = self.owned.iter().position(|owned| owned.contains(&shard)).unwrap();
        let open = world.log.find(&Lookup::open()).unwrap();
        self.interruptions += usize::from(from != to && open.iter().any(|open| open.shard == shard));
        self.owned[from].remove(&shard);
        self.lives[from].controllers().release_others(&self.owned[from]).await.unwrap();
        self.logs[from].set_owned_shards(OwnedShards::Only(self.owned[from].clone()));
        if !KEYS.iter().any(|key| self.owned[from].contains(&Shard::of_key(key))) {
            self.writes_before[from] = Some(self.lives[from].crash_points());
        }
        if let Some(writes) = self.writes_before[to].take() {
            assert_eq!(self.lives[to].crash_points(), writes, "replica {to} wrote without a shard");
        }
        self.owned[to].insert(shard);
        self.logs[to].set_owned_shards(OwnedShards::Only(self.owned[to].clone()));
        self.lives[to].controllers().manage(&self.owned[to]).await.unwrap();
    }

    /// Checks that all replicas return the same Applications, and the same state of each.
    fn check_lists(&self) {
        let list = |life: &Life| {
            let all = life.applications().all().into_iter();
            all.map(|(key, application)| (key, application.spec.clone(), application.status.sync.clone()))
                .collect::<Vec<_>>()
        };
        let first = list(&self.lives[0]);
        for life in &self.lives[1..] {
            assert_eq!(list(life), first);
        }
    }
}

fn fleet() -> Fleet {
    let members = [("a", 0), ("b", 1), ("c", 1)].map(|(name, step)| (name.to_owned(), step)).into();
    Fleet { members, max_update: vec![None, Some(json!(1))], rollout: None, deletion: "Reverse" }
}

/// Returns an ApplicationSet that generates nothing, and doesn't delete Applications.
pub fn other_set() -> Value {
    let (namespace, name) = OTHER_SET.split_once('/').unwrap();
    json!({
        "apiVersion": API_VERSION, "kind": "ApplicationSet", "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "generators": [{"list": {"elements": []}}],
            "syncPolicy": {"applicationsSync": "create-update"},
            "template": {"metadata": {"name": "none"}, "spec": {"project": "default", "destination": {}}},
        },
    })
}

/// Makes an ApplicationSet the owner of an Application, or removes the owner. New operations of the Application then belong
/// to a different shard.
pub async fn toggle_owner(world: &World, name: &str) {
    let (_, set) = OTHER_SET.split_once('/').unwrap();
    let set = world.sim.get(&kind("ApplicationSet"), "argocd", set).await.unwrap().unwrap();
    loop {
        let mut application = world.sim.get(&kind("Application"), "argocd", name).await.unwrap().unwrap();
        let owner = json!([{
            "apiVersion": API_VERSION, "kind": "ApplicationSet", "name": set.name(), "uid": set.uid(), "controller": true,
        }]);
        if application.metadata_mut().remove("ownerReferences").is_none() {
            application.metadata_mut().insert("ownerReferences".to_owned(), owner);
        }
        match world.sim.put(application, None).await {
            Ok(_) => return,
            Err(error) => assert_eq!(error.kind, ErrorKind::Conflict, "{error}"),
        }
    }
}

/// Checks that no replica has reported a failed operation, for example one that another replica was still running.
pub fn check_reported_phases(world: &World) {
    for write in world.faults.writes.lock().unwrap().iter().filter(|write| write.key.kind == "Application") {
        let phase = write.after.as_ref().map(|after| after.text("/status/operationState/phase"));
        assert!(!matches!(phase, Some("Failed" | "Error")), "{:?}", write.after);
    }
}

/// Deploys several commits while shards move at random times, and an Application moves between shards. Then deletes the
/// ApplicationSet.
fn run(seed: u64) {
    let world = World::new(seed, 0.0);
    world.faults.watch_delay_millis.store(seed % 2 * WATCH_DELAY_MILLIS, Ordering::SeqCst);
    let names = ["a", "b", "c", STANDALONE_APP, BASE_APP];
    let (repository, mut rng) = (world.repository(), Rng::new(seed));
    user_documents::commit(&repository, names, (1, None));
    let fleet = fleet();
    let shards = KEYS.map(Shard::of_key);
    world.run(async || {
        let mut replicas = Replicas::new(world.start_replicas(REPLICAS).await);
        world.write(user_documents::application(&repository, STANDALONE_APP, Some(BASE_APP))).await;
        world.write(user_documents::application(&repository, BASE_APP, None)).await;
        world.write(fleet.document(&repository)).await;
        world.write(other_set()).await;
        for commit in 1..=COMMITS {
            if commit > 1 {
                user_documents::commit(&repository, names, (commit, None));
                for life in &replicas.lives {
                    life.announce_push(&repository).await;
                }
            }
            for _ in 0..MOVES {
                tokio::time::sleep(Duration::from_millis(rng.below(PAUSE_MAX_MILLIS))).await;
                let shard = rng.pick(&shards);
                let to = rng.pick(&[0, 1, 2]);
                replicas.move_shard(&world, shard, to).await;
                if rng.below(3) == 0 {
                    toggle_owner(&world, STANDALONE_APP).await;
                }
            }
            world.wait_for_quiet(QUIET_TIME).await;
            replicas.check_lists();
            for name in names {
                assert_eq!(deployed_commit(&world, name).await, Some(commit), "{name}");
            }
        }
        let before = world.faults.writes.lock().unwrap().len();
        let set = world.sim.get(&kind("ApplicationSet"), "argocd", "fleet").await.unwrap().unwrap();
        world.sim.delete(DeleteRequest::for_object(&set)).await.unwrap();
        while world.appset().await.is_some() {
            tokio::time::sleep(Duration::from_millis(rng.below(PAUSE_MAX_MILLIS))).await;
            let to = rng.pick(&[0, 1, 2]);
            replicas.move_shard(&world, shards[0], to).await;
        }
        world.wait_for_quiet(QUIET_TIME).await;
        replicas.check_lists();
        assert!(replicas.interruptions > 3, "{} moves while an operation was open", replicas.interruptions);
        println!("{} moves while an operation was open", replicas.interruptions);
        let writes = world.faults.writes.lock().unwrap();
        invariants::check_deletion_order(&writes[before..], &fleet.deletion_ranks()).unwrap();
    });
    invariants::check_single_operation(&world.sim);
    invariants::check_hooks_run_once(&world.sim);
    check_reported_phases(&world);
    let recorded = invariants::recorded_operations(&world.log);
    assert!(recorded.len() >= names.len() * 4, "{} operations", recorded.len());
    for operation in recorded {
        assert_eq!(operation.phase.to_string(), "Succeeded", "seed {seed}: {operation:?}");
    }
}

#[test]
fn shards_move_between_replicas_while_they_sync() {
    for seed in 1..=effort::rounds("TIDEGATE_SHARD_SEEDS", 2, 10) {
        println!("seed {seed}; TIDEGATE_SHARD_SEEDS={seed} runs all seeds up to this one");
        run(seed);
    }
}
