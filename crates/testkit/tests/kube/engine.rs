//! The engine on a real cluster.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_executor::{Engine, EngineError};
use tidegate_kube::ConnectOptions;
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{Destination, OperationId};
use tidegate_oplog::MemoryLog;
use tidegate_testkit::concurrent_change::ConcurrentChange;
use tidegate_testkit::kube::{Audit, ControlPlane, Mark, User};
use tidegate_testkit::process::perform_action;
use tidegate_testkit::scenario::{SyncSpec, UserAction};

/// Timeout of an operation.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Log, cluster and namespace for consecutive operations.
pub struct Bench<'a> {
    pub control: &'a ControlPlane,
    pub namespace: String,
    cluster: Arc<dyn Cluster>,
    pub log: MemoryLog,
    mark: Mark,
}

impl<'a> Bench<'a> {
    pub async fn new(control: &'a ControlPlane, namespace: String, user: &User) -> Self {
        let options = ConnectOptions {
            kubeconfig: Some(control.kubeconfig(user)),
            // Use a shorter timeout than the outages in these tests.
            call_timeout: Duration::from_secs(5),
            ..ConnectOptions::default()
        };
        let cluster = Arc::new(tidegate_kube::connect(&options).await.unwrap());
        Self { control, namespace, cluster, log: MemoryLog::default(), mark: control.audit_mark() }
    }

    /// Creates a bench with its own namespace for a test.
    pub async fn for_test(control: &'a ControlPlane, name: &str) -> Self {
        Self::new(control, control.create_namespace(name).await.unwrap(), User::ENGINE).await
    }

    /// Connects with the same timeouts as the command.
    pub async fn with_command_timeouts(self) -> Self {
        let kubeconfig = Some(self.control.kubeconfig(User::ENGINE));
        let options = ConnectOptions { kubeconfig, ..ConnectOptions::default() };
        Self { cluster: Arc::new(tidegate_kube::connect(&options).await.unwrap()), ..self }
    }

    /// Runs an action before the first write of an object.
    pub fn before_write(self, name: &'static str, event: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { cluster: ConcurrentChange::before_write(self.cluster, name, event), ..self }
    }

    /// Runs an operation to its end.
    pub async fn run(&self, sync: &SyncSpec) -> (OperationId, OperationView) {
        self.run_with(sync, &mut Vec::new(), async |_, _| {}).await
    }

    /// Runs an operation to its end, with user actions and a concurrent action.
    pub async fn run_with(
        &self,
        sync: &SyncSpec,
        script: &mut Vec<UserAction>,
        meanwhile: impl AsyncFnOnce(&Engine, OperationId),
    ) -> (OperationId, OperationView) {
        let destination = Destination::Kubernetes {
            context: String::new(),
            kubeconfig: None,
            server: self.control.url().to_owned(),
            impersonate: Default::default(),
            uid: String::new(),
        };
        let mut sync = sync.clone();
        sync.request.destination = destination.clone();
        if sync.request.namespace == "default" {
            sync.request.namespace.clone_from(&self.namespace);
            // The application's name must be unique, because its objects are searched in the whole cluster.
            sync.request.application.clone_from(&self.namespace);
        }
        let engine = Engine::builder(Arc::new(self.log.clone()))
            .cluster(destination, Arc::clone(&self.cluster))
            .start()
            .await
            .unwrap();
        let mut events = engine.events_from_now().await.unwrap();
        let id = engine.submit(sync.request.clone(), sync.targets()).await.unwrap();
        let watching = async {
            let waiting = engine.wait(id);
            tokio::pin!(waiting);
            loop {
                perform_action(&engine, id, script).await;
                tokio::select! {
                    view = &mut waiting => return match view {
                        Err(EngineError::NotRunning { .. }) => engine.inspect(id).await.unwrap().0,
                        view => view.unwrap(),
                    },
                    _ = events.next() => {}
                }
            }
        };
        let both = async { tokio::join!(watching, meanwhile(&engine, id)).0 };
        let Ok(view) = tokio::time::timeout(TIMEOUT, both).await else {
            let (view, explanation) = engine.inspect(id).await.unwrap();
            panic!("the operation does not end: {view:#?}\n{explanation:#?}");
        };
        engine.shutdown().await;
        (id, view)
    }

    /// Returns the successful writes of an operation, in order.
    pub async fn writes(&self, operation: OperationId) -> Audit {
        let all = self.control.audit_since(self.mark).await.unwrap().successful_writes();
        all.filter(|event| event.operation.as_deref() == Some(&operation.to_string()))
    }
}

/// Waits until an operation satisfies a predicate.
pub async fn wait_until(engine: &Engine, id: OperationId, request: impl Fn(&OperationView) -> bool) {
    let mut events = engine.events_from_now().await.unwrap();
    let looking = async {
        loop {
            if request(&engine.inspect(id).await.unwrap().0) {
                return;
            }
            // Check again after any event or a short delay, because the expected state may precede the event.
            let _ = tokio::time::timeout(Duration::from_millis(50), events.next()).await;
        }
    };
    tokio::time::timeout(TIMEOUT, looking).await.expect("the operation does not reach the expected state");
}
