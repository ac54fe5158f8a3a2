//! The engine on a real cluster.

use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_executor::{Engine, EngineError};
use tidegate_kube::ConnectOptions;
use tidegate_lifecycle::operation::OperationView;
use tidegate_model::{Destination, OperationId};
use tidegate_oplog::MemoryLog;
use tidegate_testkit::kube::{Audit, ControlPlane, Mark, User};
use tidegate_testkit::meanwhile::Meanwhile;
use tidegate_testkit::process::act;
use tidegate_testkit::scenario::{Act, Sync};

/// The longest that an operation of these tests may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// A log, a cluster and a namespace, for one operation after the other.
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
            // Shorter than an outage of these tests.
            call_timeout: Duration::from_secs(5),
            ..ConnectOptions::default()
        };
        let cluster = Arc::new(tidegate_kube::connect(&options).await.unwrap());
        Self { control, namespace, cluster, log: MemoryLog::default(), mark: control.mark() }
    }

    /// A bench for one test, in a namespace of its own.
    pub async fn of(control: &'a ControlPlane, name: &str) -> Self {
        Self::new(control, control.namespace(name).await.unwrap(), User::ENGINE).await
    }

    /// The same with calls that may take as long as those of the command.
    pub async fn patient(self) -> Self {
        let kubeconfig = Some(self.control.kubeconfig(User::ENGINE));
        let options = ConnectOptions { kubeconfig, ..ConnectOptions::default() };
        Self { cluster: Arc::new(tidegate_kube::connect(&options).await.unwrap()), ..self }
    }

    /// The same with something that happens before the first write of an object.
    pub fn before_write(self, name: &'static str, event: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { cluster: Meanwhile::before(self.cluster, name, event), ..self }
    }

    /// Runs an operation to its end.
    pub async fn run(&self, sync: &Sync) -> (OperationId, OperationView) {
        self.run_with(sync, &mut Vec::new(), async |_, _| {}).await
    }

    /// Runs an operation to its end, with people, and with something that happens meanwhile.
    pub async fn run_with(
        &self,
        sync: &Sync,
        script: &mut Vec<Act>,
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
            // Objects are searched for in the whole cluster.
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
                act(&engine, id, script).await;
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
        let Ok(view) = tokio::time::timeout(PATIENCE, both).await else {
            let (view, explanation) = engine.inspect(id).await.unwrap();
            panic!("the operation does not end: {view:#?}\n{explanation:#?}");
        };
        engine.shutdown().await;
        (id, view)
    }

    /// The successful writes of an operation, in order.
    pub async fn writes(&self, operation: OperationId) -> Audit {
        let all = self.control.audit_since(self.mark).await.unwrap().writes();
        all.only(|event| event.operation.as_deref() == Some(&operation.to_string()))
    }
}

/// Waits until an operation stands as wished.
pub async fn until(engine: &Engine, id: OperationId, wish: impl Fn(&OperationView) -> bool) {
    let mut events = engine.events_from_now().await.unwrap();
    let looking = async {
        loop {
            if wish(&engine.inspect(id).await.unwrap().0) {
                return;
            }
            // Whatever event comes: what is wished may be the state before it.
            let _ = tokio::time::timeout(Duration::from_millis(50), events.next()).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("the operation never stands as wished");
}
