//! What an application has in the cluster is found without a search, whatever its operations did.

use std::sync::{Arc, Mutex};

use tidegate_cluster::{Cluster, ClusterError, Layer, LiveAnswer, LiveQuery, Reach};
use tidegate_executor::Engine;
use tidegate_model::{Destination, OperationPhase};
use tidegate_oplog::{Inventories as _, Inventory};
use tidegate_testkit::scenario::Sync;

use crate::support::{Log, Moody, config, end, hook, submit};

/// A cluster that remembers where it was asked to look.
struct Asked {
    inner: Arc<Moody>,
    places: Mutex<Vec<(Reach, Inventory)>>,
}

impl Layer for Asked {
    fn inner(&self) -> &dyn Cluster {
        self.inner.as_ref()
    }

    async fn live(&self, query: &LiveQuery) -> Result<LiveAnswer, ClusterError> {
        self.places.lock().unwrap().push((query.reach, query.inventory.clone()));
        Cluster::live(self.inner.as_ref(), query).await
    }
}

struct Bench {
    cluster: Arc<Asked>,
    log: Log,
}

impl Bench {
    fn new() -> Self {
        let cluster = Arc::new(Asked { inner: Moody::calm(), places: Mutex::default() });
        Self { cluster, log: Log::new() }
    }

    async fn sync(&self, sync: &Sync) -> OperationPhase {
        self.sync_on(sync, Destination::Simulated).await
    }

    async fn sync_on(&self, sync: &Sync, destination: Destination) -> OperationPhase {
        let cluster = Arc::clone(&self.cluster) as Arc<dyn Cluster>;
        let engine = Engine::builder(Arc::new(self.log.clone()))
            .cluster(destination.clone(), cluster)
            .start()
            .await
            .unwrap();
        let sync = sync.clone().with(|request| request.destination = destination);
        let operation = submit(&engine, &sync).await;
        end(&engine, operation).await.phase
    }

    fn names(&self) -> Vec<String> {
        let known = self.log.inventory("simulated", "shop").unwrap().unwrap_or_default();
        let configs = known.places.into_iter().filter(|(gvk, _, _)| gvk.kind == "ConfigMap");
        configs.map(|(_, _, name)| name).collect()
    }

    /// How far the newest plan looked, and at which places in any case.
    fn asked(&self) -> (Reach, Vec<String>) {
        let (reach, places) = self.cluster.places.lock().unwrap().last().cloned().unwrap();
        (reach, places.into_iter().map(|(_, _, name)| name).collect())
    }

    fn there(&self) -> Vec<String> {
        self.cluster
            .inner
            .sim
            .objects()
            .iter()
            .filter(|object| object.kind() == "ConfigMap")
            .map(|object| object.name().to_owned())
            .collect()
    }
}

fn configs(names: &[&str]) -> Sync {
    Sync::of(&names.iter().map(|name| config(name, 0, &[])).collect::<String>())
}

#[tokio::test(start_paused = true)]
async fn after_one_search_the_inventory_tells_what_to_prune() {
    let bench = Bench::new();
    assert_eq!(bench.sync(&configs(&["a", "b", "c"])).await, OperationPhase::Succeeded);
    assert_eq!(bench.asked(), (Reach::Kinds, vec![]), "nothing is known at first, and nothing may be pruned");
    assert_eq!(bench.names(), ["a", "b", "c"]);
    // Without --prune what is not wanted stays, and stays known.
    bench.sync(&configs(&["a"])).await;
    let known = ["a", "b", "c"].map(str::to_owned).to_vec();
    assert_eq!(bench.asked(), (Reach::Places, known.clone()));
    assert_eq!(bench.names(), ["a", "b", "c"]);
    let prune = configs(&["a"]).with(|request| request.options.prune = true);
    bench.sync(&prune).await;
    assert_eq!(bench.asked(), (Reach::Everything, known), "the first to prune searches");
    assert_eq!(bench.there(), ["a"]);
    bench.sync(&prune).await;
    assert_eq!(bench.names(), ["a"], "what is gone is forgotten");
    bench.sync(&prune).await;
    assert_eq!(bench.asked(), (Reach::Places, vec!["a".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_or_selective_operation_leaves_is_known() {
    let bench = Bench::new();
    bench.sync(&configs(&["a", "b"])).await;
    let failing = format!(
        "{}{}",
        config("new", 0, &[]),
        hook("check", "PostSync", &[("sim.tidegate.dev/outcome", "fail")])
    );
    assert_eq!(bench.sync(&Sync::of(&failing)).await, OperationPhase::Failed);
    assert_eq!(bench.names(), ["a", "b", "new"], "hooks are not in it");
    let one = configs(&["a", "c"]).with(|request| request.selection.push(":ConfigMap:c".parse().unwrap()));
    bench.sync(&one).await;
    assert_eq!(bench.names(), ["a", "b", "c", "new"], "those that were not selected stay");
    bench.sync(&configs(&["c"]).with(|request| request.options.prune = true)).await;
    assert_eq!(bench.there(), ["c"]);
    bench.sync(&configs(&["c"])).await;
    assert_eq!(bench.names(), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_forgets_nothing() {
    let bench = Bench::new();
    bench.sync(&configs(&["a", "b"])).await;
    let dry = configs(&["a"]).with(|request| {
        request.options.prune = true;
        request.options.dry_run = true;
    });
    bench.sync(&dry).await;
    assert_eq!((bench.there().len(), bench.names().len()), (2, 2));
}

/// A state directory that is not this one's knew the application first.
#[tokio::test(start_paused = true)]
async fn objects_of_another_machine_are_found_by_the_first_search_and_stay_known() {
    let bench = Bench::new();
    bench.sync(&configs(&["a", "b"])).await;
    let moved = Bench { cluster: Arc::clone(&bench.cluster), log: Log::new() };
    let one = configs(&["a"]).with(|request| request.selection.push(":ConfigMap:a".parse().unwrap()));
    moved.sync(&one).await;
    assert_eq!(moved.asked().0, Reach::Kinds);
    assert_eq!(moved.names(), ["a", "b"], "found, though not selected");
    moved.sync(&configs(&["a"]).with(|request| request.options.prune = true)).await;
    assert_eq!(moved.there(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_nobody_can_name_is_searched_each_time() {
    let bench = Bench::new();
    let nameless = Destination::Kubernetes {
        context: "staging".to_owned(),
        server: String::new(),
        kubeconfig: None,
        impersonate: tidegate_model::Impersonation::default(),
        uid: String::new(),
    };
    for _ in 0..2 {
        let prune = configs(&["a"]).with(|request| request.options.prune = true);
        bench.sync_on(&prune, nameless.clone()).await;
        assert_eq!(bench.asked(), (Reach::Everything, vec![]));
    }
}

/// The sync of one ConfigMap into a namespace of its own.
fn team(namespace: &str, name: &str) -> Sync {
    configs(&[name]).with(|request| {
        request.namespace = namespace.to_owned();
        request.options.flags.push("CreateNamespace=true".to_owned());
    })
}

fn pruning(sync: &Sync) -> Sync {
    sync.clone().with(|request| request.options.prune = true)
}

/// Two teams have an application of the same name, each with a state directory of its own.
#[tokio::test(start_paused = true)]
async fn an_application_of_the_same_name_elsewhere_is_left_alone_until_it_is_adopted() {
    let first = Bench::new();
    let second = Bench { cluster: Arc::clone(&first.cluster), log: Log::new() };
    first.sync(&team("team-a", "conf-a")).await;
    let of_second = pruning(&team("team-b", "conf-b"));
    for _ in 0..2 {
        assert_eq!(second.sync(&of_second).await, OperationPhase::Succeeded);
        assert_eq!(second.there(), ["conf-a", "conf-b"]);
        assert_eq!(second.asked().0, Reach::Everything, "it is found and named each time");
        assert_eq!(second.names(), ["conf-b"]);
    }
    // Whatever was left in the namespace itself is ours.
    second.sync(&pruning(&team("team-b", "conf-c"))).await;
    assert_eq!(second.there(), ["conf-a", "conf-c"]);
    // A dry run adopts nothing.
    let adopting = team("team-b", "conf-c").with(|request| request.options.adopt = true);
    second.sync(&pruning(&adopting).with(|request| request.options.dry_run = true)).await;
    second.sync(&pruning(&team("team-b", "conf-c"))).await;
    assert_eq!(second.there(), ["conf-a", "conf-c"]);
    // Once is enough: it is in the inventory afterwards, and pruned like everything in it.
    second.sync(&adopting).await;
    assert_eq!((second.there().len(), second.names()), (2, vec!["conf-a".to_owned(), "conf-c".to_owned()]));
    second.sync(&pruning(&team("team-b", "conf-c"))).await;
    assert_eq!(second.asked().0, Reach::Places);
    assert_eq!(second.there(), ["conf-c"]);
}

#[tokio::test(start_paused = true)]
async fn what_was_adopted_is_pruned_and_stays_known_when_the_operation_fails() {
    let first = Bench::new();
    let second = Bench { cluster: Arc::clone(&first.cluster), log: Log::new() };
    first.sync(&team("team-a", "conf-a")).await;
    let failing = format!(
        "{}{}",
        config("conf-b", 0, &[]),
        hook("check", "PreSync", &[("sim.tidegate.dev/outcome", "fail")])
    );
    let failing = Sync::of(&failing).with(|request| {
        request.namespace = "team-b".to_owned();
        request.options.flags.push("CreateNamespace=true".to_owned());
        request.options.prune = true;
        request.options.adopt = true;
    });
    assert_eq!(second.sync(&failing).await, OperationPhase::Failed);
    assert_eq!(
        (second.there(), second.names()),
        (vec!["conf-a".to_owned()], vec!["conf-a".to_owned()]),
        "what was not created is not there"
    );
    second.sync(&pruning(&team("team-b", "conf-b"))).await;
    assert_eq!(second.there(), ["conf-b"]);
}

/// A place where an operation was to write, and did not, proves nothing about the object there.
#[tokio::test(start_paused = true)]
async fn what_was_planned_and_not_written_is_not_ours() {
    for fails in [true, false] {
        let first = Bench::new();
        let second = Bench { cluster: Arc::clone(&first.cluster), log: Log::new() };
        first.sync(&team("team-a", "conf-a")).await;
        let of_first = config("conf-a", 0, &[]).replace("name: conf-a", "name: conf-a\n  namespace: team-a");
        let outcome = [("sim.tidegate.dev/outcome", "fail")];
        let check = hook("check", "PreSync", if fails { &outcome } else { &[] });
        let reaching = Sync::of(&[config("conf-b", 0, &[]), of_first, check].concat()).with(|request| {
            request.namespace = "team-b".to_owned();
            request.options.flags.push("CreateNamespace=true".to_owned());
        });
        let written = second.sync(&reaching).await == OperationPhase::Succeeded;
        assert_eq!(written, !fails);
        assert_eq!(second.names().contains(&"conf-a".to_owned()), written);
        second.sync(&pruning(&team("team-b", "conf-b"))).await;
        assert_eq!(second.there().contains(&"conf-a".to_owned()), !written);
    }
}

/// What this log put somewhere is ours, whatever namespace the manifests name now.
#[tokio::test(start_paused = true)]
async fn an_application_that_moves_takes_what_it_had_with_it() {
    let bench = Bench::new();
    bench.sync(&team("team-a", "conf")).await;
    bench.sync(&pruning(&team("team-b", "conf"))).await;
    assert_eq!(bench.there(), ["conf"]);
    assert_eq!(
        bench.cluster.inner.sim.objects().iter().filter(|object| object.namespace() == "team-a").count(),
        0
    );
    // Without the log it could be anybody's.
    let lost = Bench { cluster: Arc::clone(&bench.cluster), log: Log::new() };
    lost.sync(&pruning(&team("team-c", "conf"))).await;
    assert_eq!(lost.there(), ["conf", "conf"]);
}
