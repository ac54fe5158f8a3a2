//! The inventory contains an application's objects, so that they are found without a search, whatever
//! happened earlier.

use std::sync::{Arc, Mutex};

use tidegate_cluster::{Cluster, ClusterError, Layer, LiveQuery, LiveResult, SearchScope};
use tidegate_executor::Engine;
use tidegate_model::{Destination, OperationPhase};
use tidegate_oplog::{Inventories as _, Inventory};
use tidegate_testkit::scenario::SyncSpec;

use crate::support::{FaultyCluster, Log, config, hook, submit, wait_for_end};

/// Cluster that records the queries of plans.
struct QueryRecorder {
    inner: Arc<FaultyCluster>,
    queries: Mutex<Vec<(SearchScope, Inventory)>>,
}

impl Layer for QueryRecorder {
    fn inner(&self) -> &dyn Cluster {
        self.inner.as_ref()
    }

    async fn list_live(&self, query: &LiveQuery) -> Result<LiveResult, ClusterError> {
        self.queries.lock().unwrap().push((query.search_scope, query.inventory.clone()));
        Cluster::list_live(self.inner.as_ref(), query).await
    }
}

struct Bench {
    cluster: Arc<QueryRecorder>,
    log: Log,
}

impl Bench {
    fn new() -> Self {
        let cluster = Arc::new(QueryRecorder { inner: FaultyCluster::reliable(), queries: Mutex::default() });
        Self { cluster, log: Log::new() }
    }

    async fn sync(&self, sync: &SyncSpec) -> OperationPhase {
        self.sync_on(sync, Destination::Simulated).await
    }

    async fn sync_on(&self, sync: &SyncSpec, destination: Destination) -> OperationPhase {
        let cluster = Arc::clone(&self.cluster) as Arc<dyn Cluster>;
        let engine = Engine::builder(Arc::new(self.log.clone()))
            .cluster(destination.clone(), cluster)
            .start()
            .await
            .unwrap();
        let sync = sync.clone().with_request(|request| request.destination = destination);
        let operation = submit(&engine, &sync).await;
        wait_for_end(&engine, operation).await.phase
    }

    fn names(&self) -> Vec<String> {
        let known = self.log.inventory("simulated", "shop").unwrap().unwrap_or_default();
        let configs = known.places.into_iter().filter(|(gvk, _, _)| gvk.kind == "ConfigMap");
        configs.map(|(_, _, name)| name).collect()
    }

    /// Returns the search scope and the locations of the newest plan's query.
    fn last_query(&self) -> (SearchScope, Vec<String>) {
        let (reach, places) = self.cluster.queries.lock().unwrap().last().cloned().unwrap();
        (reach, places.into_iter().map(|(_, _, name)| name).collect())
    }

    fn existing_names(&self) -> Vec<String> {
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

fn configs(names: &[&str]) -> SyncSpec {
    SyncSpec::new(&names.iter().map(|name| config(name, 0, &[])).collect::<String>())
}

#[tokio::test(start_paused = true)]
async fn after_one_search_the_inventory_determines_what_to_prune() {
    let bench = Bench::new();
    assert_eq!(bench.sync(&configs(&["a", "b", "c"])).await, OperationPhase::Succeeded);
    assert_eq!(
        bench.last_query(),
        (SearchScope::KnownKinds, vec![]),
        "without an inventory nothing may be pruned"
    );
    assert_eq!(bench.names(), ["a", "b", "c"]);
    // Without --prune, objects removed from the manifests stay in the cluster and in the inventory.
    bench.sync(&configs(&["a"])).await;
    let known = ["a", "b", "c"].map(str::to_owned).to_vec();
    assert_eq!(bench.last_query(), (SearchScope::KnownObjects, known.clone()));
    assert_eq!(bench.names(), ["a", "b", "c"]);
    let prune = configs(&["a"]).with_request(|request| request.options.prune = true);
    bench.sync(&prune).await;
    assert_eq!(bench.last_query(), (SearchScope::WholeCluster, known), "the first to prune searches");
    assert_eq!(bench.existing_names(), ["a"]);
    bench.sync(&prune).await;
    assert_eq!(bench.names(), ["a"], "deleted objects are removed");
    bench.sync(&prune).await;
    assert_eq!(bench.last_query(), (SearchScope::KnownObjects, vec!["a".to_owned()]));
}

#[tokio::test(start_paused = true)]
async fn objects_left_by_a_failed_or_selective_operation_stay_known() {
    let bench = Bench::new();
    bench.sync(&configs(&["a", "b"])).await;
    let failing = format!(
        "{}{}",
        config("new", 0, &[]),
        hook("check", "PostSync", &[("sim.tidegate.dev/outcome", "fail")])
    );
    assert_eq!(bench.sync(&SyncSpec::new(&failing)).await, OperationPhase::Failed);
    assert_eq!(bench.names(), ["a", "b", "new"], "it contains no hooks");
    let one =
        configs(&["a", "c"]).with_request(|request| request.selection.push(":ConfigMap:c".parse().unwrap()));
    bench.sync(&one).await;
    assert_eq!(bench.names(), ["a", "b", "c", "new"], "unselected objects are kept");
    bench.sync(&configs(&["c"]).with_request(|request| request.options.prune = true)).await;
    assert_eq!(bench.existing_names(), ["c"]);
    bench.sync(&configs(&["c"])).await;
    assert_eq!(bench.names(), ["c"]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_keeps_the_inventory() {
    let bench = Bench::new();
    bench.sync(&configs(&["a", "b"])).await;
    let dry = configs(&["a"]).with_request(|request| {
        request.options.prune = true;
        request.options.dry_run = true;
    });
    bench.sync(&dry).await;
    assert_eq!((bench.existing_names().len(), bench.names().len()), (2, 2));
}

/// The application was previously managed from another state directory.
#[tokio::test(start_paused = true)]
async fn the_first_search_finds_objects_of_another_state_directory() {
    let bench = Bench::new();
    bench.sync(&configs(&["a", "b"])).await;
    let moved = Bench { cluster: Arc::clone(&bench.cluster), log: Log::new() };
    let one = configs(&["a"]).with_request(|request| request.selection.push(":ConfigMap:a".parse().unwrap()));
    moved.sync(&one).await;
    assert_eq!(moved.last_query().0, SearchScope::KnownKinds);
    assert_eq!(moved.names(), ["a", "b"], "found but not selected");
    moved.sync(&configs(&["a"]).with_request(|request| request.options.prune = true)).await;
    assert_eq!(moved.existing_names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_identity_is_searched_each_time() {
    let bench = Bench::new();
    let nameless = Destination::Kubernetes {
        context: "staging".to_owned(),
        server: String::new(),
        kubeconfig: None,
        impersonate: tidegate_model::Impersonation::default(),
        uid: String::new(),
    };
    for _ in 0..2 {
        let prune = configs(&["a"]).with_request(|request| request.options.prune = true);
        bench.sync_on(&prune, nameless.clone()).await;
        assert_eq!(bench.last_query(), (SearchScope::WholeCluster, vec![]));
    }
}

/// Returns a sync of one ConfigMap to a separate namespace.
fn team_sync(namespace: &str, name: &str) -> SyncSpec {
    configs(&[name]).with_request(|request| {
        request.namespace = namespace.to_owned();
        request.options.flags.push("CreateNamespace=true".to_owned());
    })
}

fn with_prune(sync: &SyncSpec) -> SyncSpec {
    sync.clone().with_request(|request| request.options.prune = true)
}

/// Two teams have an application with the same name, each with its own state directory.
#[tokio::test(start_paused = true)]
async fn a_namesake_application_is_left_alone_until_it_is_adopted() {
    let first = Bench::new();
    let second = Bench { cluster: Arc::clone(&first.cluster), log: Log::new() };
    first.sync(&team_sync("team-a", "conf-a")).await;
    let of_second = with_prune(&team_sync("team-b", "conf-b"));
    for _ in 0..2 {
        assert_eq!(second.sync(&of_second).await, OperationPhase::Succeeded);
        assert_eq!(second.existing_names(), ["conf-a", "conf-b"]);
        assert_eq!(second.last_query().0, SearchScope::WholeCluster, "it is found and reported each time");
        assert_eq!(second.names(), ["conf-b"]);
    }
    // In the application's own namespace, the remaining objects belong to it.
    second.sync(&with_prune(&team_sync("team-b", "conf-c"))).await;
    assert_eq!(second.existing_names(), ["conf-a", "conf-c"]);
    // A dry run doesn't adopt objects.
    let adopting = team_sync("team-b", "conf-c").with_request(|request| request.options.adopt = true);
    second.sync(&with_prune(&adopting).with_request(|request| request.options.dry_run = true)).await;
    second.sync(&with_prune(&team_sync("team-b", "conf-c"))).await;
    assert_eq!(second.existing_names(), ["conf-a", "conf-c"]);
    // One adoption is enough. Afterwards, the object is in the inventory and is pruned normally.
    second.sync(&adopting).await;
    assert_eq!(
        (second.existing_names().len(), second.names()),
        (2, vec!["conf-a".to_owned(), "conf-c".to_owned()])
    );
    second.sync(&with_prune(&team_sync("team-b", "conf-c"))).await;
    assert_eq!(second.last_query().0, SearchScope::KnownObjects);
    assert_eq!(second.existing_names(), ["conf-c"]);
}

#[tokio::test(start_paused = true)]
async fn adopted_objects_are_pruned_and_stay_known_after_a_failure() {
    let first = Bench::new();
    let second = Bench { cluster: Arc::clone(&first.cluster), log: Log::new() };
    first.sync(&team_sync("team-a", "conf-a")).await;
    let failing = format!(
        "{}{}",
        config("conf-b", 0, &[]),
        hook("check", "PreSync", &[("sim.tidegate.dev/outcome", "fail")])
    );
    let failing = SyncSpec::new(&failing).with_request(|request| {
        request.namespace = "team-b".to_owned();
        request.options.flags.push("CreateNamespace=true".to_owned());
        request.options.prune = true;
        request.options.adopt = true;
    });
    assert_eq!(second.sync(&failing).await, OperationPhase::Failed);
    assert_eq!(
        (second.existing_names(), second.names()),
        (vec!["conf-a".to_owned()], vec!["conf-a".to_owned()]),
        "objects that were not created do not exist"
    );
    second.sync(&with_prune(&team_sync("team-b", "conf-b"))).await;
    assert_eq!(second.existing_names(), ["conf-b"]);
}

/// A planned write that wasn't executed must not prove the ownership of an existing object.
#[tokio::test(start_paused = true)]
async fn planned_but_unwritten_objects_are_not_owned() {
    for fails in [true, false] {
        let first = Bench::new();
        let second = Bench { cluster: Arc::clone(&first.cluster), log: Log::new() };
        first.sync(&team_sync("team-a", "conf-a")).await;
        let of_first = config("conf-a", 0, &[]).replace("name: conf-a", "name: conf-a\n  namespace: team-a");
        let outcome = [("sim.tidegate.dev/outcome", "fail")];
        let check = hook("check", "PreSync", if fails { &outcome } else { &[] });
        let reaching =
            SyncSpec::new(&[config("conf-b", 0, &[]), of_first, check].concat()).with_request(|request| {
                request.namespace = "team-b".to_owned();
                request.options.flags.push("CreateNamespace=true".to_owned());
            });
        let written = second.sync(&reaching).await == OperationPhase::Succeeded;
        assert_eq!(written, !fails);
        assert_eq!(second.names().contains(&"conf-a".to_owned()), written);
        second.sync(&with_prune(&team_sync("team-b", "conf-b"))).await;
        assert_eq!(second.existing_names().contains(&"conf-a".to_owned()), !written);
    }
}

/// Objects created by this log's operations must belong to the application, whatever the namespace in the
/// current manifests.
#[tokio::test(start_paused = true)]
async fn an_application_that_moves_keeps_its_objects() {
    let bench = Bench::new();
    bench.sync(&team_sync("team-a", "conf")).await;
    bench.sync(&with_prune(&team_sync("team-b", "conf"))).await;
    assert_eq!(bench.existing_names(), ["conf"]);
    assert_eq!(
        bench.cluster.inner.sim.objects().iter().filter(|object| object.namespace() == "team-a").count(),
        0
    );
    // Without the log, the owner is unknown.
    let lost = Bench { cluster: Arc::clone(&bench.cluster), log: Log::new() };
    lost.sync(&with_prune(&team_sync("team-c", "conf"))).await;
    assert_eq!(lost.existing_names(), ["conf", "conf"]);
}
