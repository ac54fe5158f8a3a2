//! The control plane: startup, faults and requests.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use super::access::{self, Access, USERS_WITHOUT_RIGHTS};
use super::arguments::{api_arguments, controller_arguments, etcd_arguments};
use super::audit::{self, KindsByPlural};
use super::server::{FolderCleanup, Server};
use super::{ApiClient, Assets, Audit, KubeError, Mark, User, node};

/// Options for starting a control plane.
#[derive(Clone, Debug)]
pub struct Options {
    /// True to start nodes. Without nodes, pods aren't bound.
    pub has_nodes: bool,
    /// True to start controllers. Without controllers, objects don't change automatically.
    pub has_controllers: bool,
    /// Default time until a pod becomes ready. An annotation can set a different one.
    pub ready_after: Duration,
    /// Termination time of a deleted pod.
    pub grace: Duration,
}

impl Default for Options {
    /// Returns the defaults of the simulated cluster.
    fn default() -> Self {
        Self {
            has_nodes: true,
            has_controllers: true,
            ready_after: Duration::from_millis(200),
            grace: Duration::from_millis(50),
        }
    }
}

/// Timeout for starting a server, even on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(600);
/// Maximum number of attempts to start the control plane. Another process may take a port before a server
/// does.
const START_ATTEMPTS_MAX: usize = 4;

/// Running control plane. Stops when dropped or when the process exits.
pub struct ControlPlane {
    access: Access,
    assets: Assets,
    arguments: Vec<String>,
    etcd_arguments: Vec<String>,
    used_limited_users: AtomicUsize,
    namespace_count: AtomicUsize,
    kinds: tokio::sync::Mutex<KindsByPlural>,
    // Fields are dropped in declaration order, so the nodes stop before the servers.
    background: BackgroundRuntime,
    servers: Mutex<Servers>,
    _folder_cleanup: Option<FolderCleanup>,
}

struct Servers {
    controllers: Option<Server>,
    api: Option<Server>,
    etcd: Server,
}

/// Runtime of the nodes. Dropping it inside another runtime would panic.
struct BackgroundRuntime(Option<Runtime>);

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

static SHARED: OnceLock<ControlPlane> = OnceLock::new();

impl ControlPlane {
    /// Returns the control plane shared by all tests in this process. Tests must not disturb it. Panics if it
    /// can't be started. Tests run by [`suite`](super::suite) only call this if the binaries exist.
    pub fn shared() -> &'static Self {
        SHARED.get_or_init(|| Self::start(Options::default()).unwrap_or_else(|error| panic!("{error}")))
    }

    /// Starts a control plane.
    pub fn start(options: Options) -> Result<Self, KubeError> {
        let assets = Assets::find()?;
        let mut attempt = 1;
        loop {
            match Self::start_once(&assets, &options) {
                Err(KubeError::Ended { .. }) if attempt < START_ATTEMPTS_MAX => attempt += 1,
                result => return result,
            }
        }
    }

    fn start_once(assets: &Assets, options: &Options) -> Result<Self, KubeError> {
        let (path, sweeper) = create_folder()?;
        let [client, peer, port] = free_ports()?;
        let access = Access { folder: path.clone(), url: format!("https://127.0.0.1:{port}") };
        access.write_users()?;
        access.write_file("audit-policy.json", audit::audit_policy().to_string().as_bytes())?;
        access.write_file("audit.log", b"")?;
        let etcd_arguments = etcd_arguments(client, peer);
        let etcd = Server::start("etcd", &assets.program_path("etcd"), &etcd_arguments, &path)?;
        let arguments = api_arguments(assets, client, port);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|why| KubeError::Program { program: "tokio".to_owned(), why })?;
        let control = Self {
            access,
            assets: assets.clone(),
            arguments,
            etcd_arguments,
            used_limited_users: AtomicUsize::new(0),
            namespace_count: AtomicUsize::new(0),
            kinds: tokio::sync::Mutex::default(),
            background: BackgroundRuntime(Some(runtime)),
            servers: Mutex::new(Servers { controllers: None, api: None, etcd }),
            _folder_cleanup: sweeper,
        };
        control.restart_api_server()?;
        control.access.write_kubeconfigs()?;
        control.grant_all()?;
        if options.has_controllers {
            control.start_controllers()?;
        }
        if options.has_nodes {
            control.start_nodes(options)?;
        }
        Ok(control)
    }

    fn grant_all(&self) -> Result<(), KubeError> {
        self.block_on(async {
            let controllers = self.access.client(User::CONTROLLERS)?;
            access::grant_all(&controllers).await
        })
    }

    fn start_controllers(&self) -> Result<(), KubeError> {
        let mut arguments = controller_arguments(&self.assets);
        let kubeconfig = self.kubeconfig(User::CONTROLLERS);
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
        let program = self.assets.program_path("kube-controller-manager");
        let server = Server::start("kube-controller-manager", &program, &arguments, &self.access.folder)?;
        self.servers.lock().unwrap().controllers = Some(server);
        Ok(())
    }

    fn start_nodes(&self, options: &Options) -> Result<(), KubeError> {
        let access = self.access.clone();
        let timings = node::PodTimings { ready_after: options.ready_after, grace: options.grace };
        self.block_on(async move {
            let caller = access.client(User::CONTROLLERS)?;
            node::start(caller, timings).await.map_err(KubeError::from)
        })
    }

    /// Returns the URL of the API server.
    pub fn url(&self) -> &str {
        &self.access.url
    }

    /// Returns the minor version of Kubernetes, such as 20 for 1.20.2.
    pub fn minor(&self) -> u32 {
        self.assets.minor()
    }

    /// Returns the path of a user's kubeconfig, with all users as contexts.
    pub fn kubeconfig(&self, user: &User) -> PathBuf {
        self.access.kubeconfig_path(user)
    }

    /// Returns a client for a user. It works only in the current runtime.
    pub fn client(&self, user: &User) -> ApiClient {
        self.access.client(user).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Creates a namespace with a unique name that starts with the prefix.
    pub async fn create_namespace(&self, prefix: &str) -> Result<String, KubeError> {
        let name = self.unique_name(prefix);
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.client(User::OBSERVER).post("/api/v1/namespaces", &object).await?;
        Ok(name)
    }

    /// Returns a unique name.
    pub fn unique_name(&self, prefix: &str) -> String {
        format!("{prefix}-{}", self.namespace_count.fetch_add(1, Ordering::Relaxed))
    }

    /// Creates a user with only the permissions in these rules. Each applies to a namespace or, without one,
    /// to the whole cluster.
    pub async fn create_limited_user(&self, grants: &[(Option<&str>, Value)]) -> Result<User, KubeError> {
        let number = self.used_limited_users.fetch_add(1, Ordering::Relaxed);
        if number >= USERS_WITHOUT_RIGHTS {
            return Err(KubeError::NoMoreUsers(USERS_WITHOUT_RIGHTS));
        }
        let (user, controllers) = (User::without_rights(number), self.client(User::CONTROLLERS));
        for (namespace, rules) in grants {
            access::grant(&controllers, &user, *namespace, rules).await?;
        }
        Ok(user)
    }

    /// Returns the current end of the audit log.
    pub fn audit_mark(&self) -> Mark {
        audit::end_of_log(&self.access.folder.join("audit.log"))
    }

    /// Returns all requests so far.
    pub async fn audit(&self) -> Result<Audit, KubeError> {
        self.audit_since(Mark::default()).await
    }

    /// Returns all requests since a mark that got their responses before this call.
    pub async fn audit_since(&self, mark: Mark) -> Result<Audit, KubeError> {
        self.read_audit(mark, None).await
    }

    /// Returns the requests for a namespace, like [`Audit::in_namespace`], but without parsing all others,
    /// which make up most of a shared control plane's log.
    pub async fn audit_in_namespace(&self, mark: Mark, namespace: &str) -> Result<Audit, KubeError> {
        Ok(self.read_audit(mark, Some(namespace)).await?.in_namespace(namespace))
    }

    /// Waits until the requests for a namespace since a mark satisfy a predicate. Their `kind` isn't set.
    pub async fn wait_for_audit(&self, mark: Mark, namespace: &str, is_met: impl Fn(&Audit) -> bool) {
        let path = self.access.folder.join("audit.log");
        let waiting = audit::wait_for_events(&path, mark, namespace, is_met);
        timeout(START_TIMEOUT, waiting)
            .await
            .expect("the requests do not arrive")
            .expect("the log is readable");
    }

    async fn read_audit(&self, mark: Mark, about: Option<&str>) -> Result<Audit, KubeError> {
        let path = self.access.folder.join("audit.log");
        let observer = self.client(User::OBSERVER);
        let sign = format!("/version?{}", self.unique_name("audited"));
        let up = observer.get_text(&sign).await.is_ok();
        let texts: Vec<&str> = about.into_iter().flat_map(|namespace| [namespace, &sign]).collect();
        let reading = async {
            loop {
                let mut events = audit::read_events(&path, mark, &texts)?;
                // Responses sent before the marker request's are logged before it, or a moment later.
                if !up || events.iter().any(|event| event.uri == sign) {
                    events.retain(|event| !event.uri.starts_with("/version?audited"));
                    return Ok::<_, KubeError>(events);
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        let mut events = timeout(START_TIMEOUT, reading).await.expect("the audit log does not continue")?;
        let mut kinds = self.kinds.lock().await;
        if up {
            kinds.discover_missing(&observer, &events).await?;
        }
        kinds.fill_kinds(&mut events);
        Ok(Audit(events))
    }

    /// Kills the API server. Connections break, and the port is closed.
    pub fn kill_api_server(&self) {
        self.servers.lock().unwrap().api = None;
    }

    /// Restarts the API server with the same port and data, and waits until it is ready.
    pub fn restart_api_server(&self) -> Result<(), KubeError> {
        self.kill_api_server();
        let program = self.assets.program_path("kube-apiserver");
        let server = Server::start("kube-apiserver", &program, &self.arguments, &self.access.folder)?;
        self.servers.lock().unwrap().api = Some(server);
        self.block_on(self.wait_until_ready())
    }

    /// Replaces this cluster with a different one at the same URL, with the same users but without any
    /// objects. Only for control planes without controllers and nodes, which would still know the old
    /// cluster.
    pub fn replace_cluster(&self) -> Result<(), KubeError> {
        self.kill_api_server();
        {
            let mut servers = self.servers.lock().unwrap();
            servers.etcd.kill();
            let data = self.access.folder.join("etcd-data");
            let failed = |why| KubeError::Program { program: "etcd".to_owned(), why };
            std::fs::remove_dir_all(data).map_err(failed)?;
            let program = self.assets.program_path("etcd");
            servers.etcd = Server::start("etcd", &program, &self.etcd_arguments, &self.access.folder)?;
        }
        self.restart_api_server()?;
        self.grant_all()
    }

    /// Waits until the API server is ready.
    async fn wait_until_ready(&self) -> Result<(), KubeError> {
        let waiting = async {
            loop {
                self.check_running()?;
                // The API server creates its certificate when it first starts.
                if let Ok(caller) = self.access.client(User::CONTROLLERS)
                    && let Ok(Ok(answer)) = timeout(Duration::from_secs(5), caller.get_text("/readyz")).await
                    && answer == "ok"
                {
                    return Ok(());
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(START_TIMEOUT, waiting).await.unwrap_or_else(|_| {
            let servers = self.servers.lock().unwrap();
            Err(servers.api.as_ref().unwrap_or(&servers.etcd).not_ready_error(START_TIMEOUT.as_secs()))
        })
    }

    /// Returns an error if a server has exited.
    pub fn check_running(&self) -> Result<(), KubeError> {
        let mut servers = self.servers.lock().unwrap();
        let Servers { controllers, api, etcd } = &mut *servers;
        etcd.check_running()?;
        controllers.iter_mut().chain(api).try_for_each(Server::check_running)
    }

    /// Suspends etcd, so that requests that need it get no response.
    pub fn pause_etcd(&self) -> Result<(), KubeError> {
        self.servers.lock().unwrap().etcd.signal("STOP")?;
        let standing = async {
            while !self.servers.lock().unwrap().etcd.is_stopped() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        self.block_on(timeout(START_TIMEOUT, standing)).map_err(|_| {
            let servers = self.servers.lock().unwrap();
            servers.etcd.not_ready_error(START_TIMEOUT.as_secs())
        })
    }

    /// Suspends the API server, so that connections stay open without responses.
    pub fn pause_api_server(&self) -> Result<(), KubeError> {
        self.signal_api_server("STOP")
    }

    /// Resumes the API server.
    pub fn resume_api_server(&self) -> Result<(), KubeError> {
        self.signal_api_server("CONT")
    }

    fn signal_api_server(&self, name: &str) -> Result<(), KubeError> {
        self.servers.lock().unwrap().api.as_ref().map_or(Ok(()), |server| server.signal(name))
    }

    /// Resumes etcd.
    pub fn resume_etcd(&self) -> Result<(), KubeError> {
        self.servers.lock().unwrap().etcd.signal("CONT")
    }

    /// Waits for a future on the control plane's own runtime, because the caller may be in a runtime already.
    fn block_on<T: Send>(&self, work: impl Future<Output = T> + Send) -> T {
        let runtime = self.background.0.as_ref().expect("the runtime is there until the end").handle();
        std::thread::scope(|scope| {
            scope
                .spawn(|| runtime.block_on(work))
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Creates a folder that is removed on drop or when the process exits. `TIDEGATE_KEEP_KUBE=1` keeps it and
/// its logs.
fn create_folder() -> Result<(PathBuf, Option<FolderCleanup>), KubeError> {
    let failed = |why| KubeError::File { path: std::env::temp_dir(), why };
    let path = TempDir::with_prefix("tidegate-kube-").map_err(failed)?.keep();
    if std::env::var_os("TIDEGATE_KEEP_KUBE").is_some() {
        eprintln!("the folder of the control plane: {}", path.display());
        return Ok((path, None));
    }
    let sweeper = FolderCleanup::start(&path)?;
    Ok((path, Some(sweeper)))
}

fn free_ports() -> Result<[u16; 3], KubeError> {
    let taken = |why| KubeError::Program { program: "a free port".to_owned(), why };
    let mut listeners = Vec::new();
    let mut ports = [0; 3];
    for port in &mut ports {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(taken)?;
        *port = listener.local_addr().map_err(taken)?.port();
        listeners.push(listener);
    }
    Ok(ports)
}
