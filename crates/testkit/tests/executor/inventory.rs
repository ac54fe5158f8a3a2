//! What an application has in the cluster is found without a search, whatever its operations did.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tidegate_cluster::{
    Applied, ApplyRequest, Cluster, ClusterError, DeleteRequest, Deleted, Listing, LiveQuery, Scope,
    WatchStream,
};
use tidegate_executor::Engine;
use tidegate_model::{Destination, Discovery, Gvk, Object, ObjectKey, OperationId, OperationPhase};
use tidegate_oplog::{Inventory, OperationLog as _};
use tidegate_testkit::scenario::Sync;

use crate::support::{Log, Moody, config, end, hook, submit};

/// A cluster that remembers where it was asked to look.
struct Asked {
    inner: Arc<Moody>,
    places: Mutex<Vec<Option<Inventory>>>,
}

#[async_trait]
impl Cluster for Asked {
    async fn live(&self, query: &LiveQuery) -> Result<Vec<Object>, ClusterError> {
        self.places.lock().unwrap().push(query.inventory.clone());
        self.inner.live(query).await
    }

    async fn discover(&self) -> Result<Discovery, ClusterError> {
        self.inner.discover().await
    }

    async fn get(&self, gvk: &Gvk, namespace: &str, name: &str) -> Result<Option<Object>, ClusterError> {
        self.inner.get(gvk, namespace, name).await
    }

    async fn list(&self, scope: &Scope) -> Result<Listing, ClusterError> {
        self.inner.list(scope).await
    }

    async fn apply(&self, request: ApplyRequest) -> Result<Applied, ClusterError> {
        self.inner.apply(request).await
    }

    async fn put(&self, object: Object, operation: Option<OperationId>) -> Result<Object, ClusterError> {
        self.inner.put(object, operation).await
    }

    async fn delete(&self, request: DeleteRequest) -> Result<Deleted, ClusterError> {
        self.inner.delete(request).await
    }

    async fn remove_finalizer(
        &self,
        key: &ObjectKey,
        gvk: &Gvk,
        uid: &str,
        finalizer: &str,
        operation: Option<OperationId>,
    ) -> Result<(), ClusterError> {
        self.inner.remove_finalizer(key, gvk, uid, finalizer, operation).await
    }

    async fn watch(&self, scope: &Scope, resource_version: &str) -> Result<WatchStream, ClusterError> {
        self.inner.watch(scope, resource_version).await
    }

    async fn pods(&self, owner: &Object) -> Result<Vec<Object>, ClusterError> {
        self.inner.pods(owner).await
    }

    async fn logs(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        limit_bytes: usize,
    ) -> Result<String, ClusterError> {
        self.inner.logs(namespace, pod, container, limit_bytes).await
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
        let phase = end(&engine, operation).await.phase;
        // What is deleted last is not waited for.
        tokio::time::sleep(Duration::from_secs(60)).await;
        phase
    }

    fn names(&self) -> Vec<String> {
        let known = self.log.inventory("simulated", "shop").unwrap().unwrap_or_default();
        known.into_iter().map(|(_, _, name)| name).collect()
    }

    /// Where the newest plan was asked to look; `None` is everywhere.
    fn asked(&self) -> Option<Vec<String>> {
        let asked = self.cluster.places.lock().unwrap().last().cloned().unwrap();
        asked.map(|places| places.into_iter().map(|(_, _, name)| name).collect())
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
    assert_eq!(bench.asked(), None, "nothing is known at first: everything is searched");
    assert_eq!(bench.names(), ["a", "b", "c"]);
    // Without --prune what is not wanted stays, and stays known.
    bench.sync(&configs(&["a"])).await;
    assert_eq!(bench.asked().unwrap(), ["a", "b", "c"]);
    assert_eq!(bench.names(), ["a", "b", "c"]);
    let prune = configs(&["a"]).with(|request| request.options.prune = true);
    bench.sync(&prune).await;
    assert_eq!(bench.there(), ["a"]);
    bench.sync(&prune).await;
    assert_eq!(bench.names(), ["a"], "what is gone is forgotten");
    bench.sync(&prune).await;
    assert_eq!(bench.asked().unwrap(), ["a"]);
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
    assert_eq!(moved.asked(), None);
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
        bench.sync_on(&configs(&["a"]), nameless.clone()).await;
        assert_eq!(bench.asked(), None);
    }
}
