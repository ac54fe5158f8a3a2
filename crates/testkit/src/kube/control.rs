//! The control plane: starting, hurting and asking it.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use super::access::{self, Access, LIMITED};
use super::arguments::{api_arguments, controller_arguments, etcd_arguments};
use super::audit::{self, Kinds};
use super::server::{Server, Sweeper};
use super::{Assets, Audit, Caller, KubeError, Mark, User, node};

/// How a control plane is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether pods run: without, nothing binds them.
    pub nodes: bool,
    /// Whether controllers run: without, there are objects and nothing else.
    pub controllers: bool,
    /// How long a pod takes to become ready, unless its annotations say otherwise.
    pub ready_after: Duration,
    /// How long a pod takes to end once it is deleted.
    pub grace: Duration,
}

impl Default for Options {
    /// As the simulated cluster does by default.
    fn default() -> Self {
        Self {
            nodes: true,
            controllers: true,
            ready_after: Duration::from_millis(200),
            grace: Duration::from_millis(50),
        }
    }
}

/// How long a server may take to become ready, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);
/// Another process may take a port between our choice and the server's start.
const ATTEMPTS: usize = 4;

/// A running control plane. It ends with this value, or with the process.
pub struct ControlPlane {
    access: Access,
    assets: Assets,
    arguments: Vec<String>,
    etcd_arguments: Vec<String>,
    limited: AtomicUsize,
    namespaces: AtomicUsize,
    kinds: tokio::sync::Mutex<Kinds>,
    // The order of these fields is the order in which they go.
    background: Background,
    servers: Mutex<Servers>,
    _sweeper: Option<Sweeper>,
}

struct Servers {
    controllers: Option<Server>,
    api: Option<Server>,
    etcd: Server,
}

/// The runtime of the nodes; not dropped inside another one, which a runtime does not survive.
struct Background(Option<Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

static SHARED: OnceLock<ControlPlane> = OnceLock::new();

impl ControlPlane {
    /// The control plane that all tests of this process share. Do not hurt it. Panics where it cannot be had; tests
    /// run by [`suite`](super::suite) get here only when there are binaries.
    pub fn shared() -> &'static Self {
        SHARED.get_or_init(|| Self::start(Options::default()).unwrap_or_else(|error| panic!("{error}")))
    }

    /// Starts one.
    pub fn start(options: Options) -> Result<Self, KubeError> {
        let assets = Assets::find()?;
        let mut attempt = 1;
        loop {
            match Self::start_once(&assets, &options) {
                Err(KubeError::Ended { .. }) if attempt < ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }

    fn start_once(assets: &Assets, options: &Options) -> Result<Self, KubeError> {
        let (path, sweeper) = folder()?;
        let [client, peer, port] = free_ports()?;
        let access = Access { folder: path.clone(), url: format!("https://127.0.0.1:{port}") };
        access.write_users()?;
        access.write("audit-policy.json", audit::policy().to_string().as_bytes())?;
        access.write("audit.log", b"")?;
        let etcd_arguments = etcd_arguments(client, peer);
        let etcd = Server::start("etcd", &assets.program("etcd"), &etcd_arguments, &path)?;
        let arguments = api_arguments(assets, client, port);
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|why| KubeError::Program { program: "tokio".to_owned(), why })?;
        let control = Self {
            access,
            assets: assets.clone(),
            arguments,
            etcd_arguments,
            limited: AtomicUsize::new(0),
            namespaces: AtomicUsize::new(0),
            kinds: tokio::sync::Mutex::default(),
            background: Background(Some(runtime)),
            servers: Mutex::new(Servers { controllers: None, api: None, etcd }),
            _sweeper: sweeper,
        };
        control.restart_api_server()?;
        control.access.write_kubeconfigs()?;
        control.grant_all()?;
        if options.controllers {
            control.start_controllers()?;
        }
        if options.nodes {
            control.start_nodes(options)?;
        }
        Ok(control)
    }

    fn grant_all(&self) -> Result<(), KubeError> {
        self.block_on(async {
            let controllers = self.access.caller(User::CONTROLLERS)?;
            access::grant_all(&controllers).await
        })
    }

    fn start_controllers(&self) -> Result<(), KubeError> {
        let mut arguments = controller_arguments(&self.assets);
        let kubeconfig = self.kubeconfig(User::CONTROLLERS);
        arguments.push(format!("--kubeconfig={}", kubeconfig.display()));
        let program = self.assets.program("kube-controller-manager");
        let server = Server::start("kube-controller-manager", &program, &arguments, &self.access.folder)?;
        self.servers.lock().unwrap().controllers = Some(server);
        Ok(())
    }

    fn start_nodes(&self, options: &Options) -> Result<(), KubeError> {
        let (access, pace) = (self.access.clone(), node::Pace::of(options));
        self.block_on(async move {
            let caller = access.caller(User::CONTROLLERS)?;
            node::start(caller, pace).await.map_err(KubeError::from)
        })
    }

    /// Where the API server listens.
    pub fn url(&self) -> &str {
        &self.access.url
    }

    /// The minor version of Kubernetes: 20 for 1.20.2.
    pub fn minor(&self) -> u32 {
        self.assets.minor()
    }

    /// A file to connect with as a user. All users are contexts in it.
    pub fn kubeconfig(&self, user: &User) -> PathBuf {
        self.access.kubeconfig(user)
    }

    /// Requests as a user. Must be called, and used, within one runtime.
    pub fn caller(&self, user: &User) -> Caller {
        self.access.caller(user).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Creates a namespace that no other test has, whose name begins like this.
    pub async fn namespace(&self, prefix: &str) -> Result<String, KubeError> {
        let name = self.name(prefix);
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.caller(User::OBSERVER).post("/api/v1/namespaces", &object).await?;
        Ok(name)
    }

    /// A name that no other test has.
    pub fn name(&self, prefix: &str) -> String {
        format!("{prefix}-{}", self.namespaces.fetch_add(1, Ordering::Relaxed))
    }

    /// A user that may do only what these rules say, each in a namespace or, without, in the whole cluster.
    pub async fn limited_user(&self, grants: &[(Option<&str>, Value)]) -> Result<User, KubeError> {
        let number = self.limited.fetch_add(1, Ordering::Relaxed);
        if number >= LIMITED {
            return Err(KubeError::NoMoreUsers(LIMITED));
        }
        let (user, controllers) = (User::limited(number), self.caller(User::CONTROLLERS));
        for (namespace, rules) in grants {
            access::grant(&controllers, &user, *namespace, rules).await?;
        }
        Ok(user)
    }

    /// The present end of the audit log.
    pub fn mark(&self) -> Mark {
        audit::end(&self.access.folder.join("audit.log"))
    }

    /// All requests so far.
    pub async fn audit(&self) -> Result<Audit, KubeError> {
        self.audit_since(Mark::default()).await
    }

    /// All requests after a mark that were answered before this call.
    pub async fn audit_since(&self, mark: Mark) -> Result<Audit, KubeError> {
        self.audited(mark, None).await
    }

    /// Those about a namespace: as [`Audit::within`], but what is about others is not even parsed, which is most of the log
    /// where many share a control plane.
    pub async fn audit_within(&self, mark: Mark, namespace: &str) -> Result<Audit, KubeError> {
        Ok(self.audited(mark, Some(namespace)).await?.within(namespace))
    }

    async fn audited(&self, mark: Mark, about: Option<&str>) -> Result<Audit, KubeError> {
        let path = self.access.folder.join("audit.log");
        let observer = self.caller(User::OBSERVER);
        let sign = format!("/version?{}", self.name("audited"));
        let up = observer.text(&sign).await.is_ok();
        let texts: Vec<&str> = about.into_iter().flat_map(|namespace| [namespace, &sign]).collect();
        let reading = async {
            loop {
                let mut events = audit::read(&path, mark, &texts)?;
                // What was answered before the sign is in the log before it, or a moment later.
                if !up || events.iter().any(|event| event.uri == sign) {
                    events.retain(|event| !event.uri.starts_with("/version?audited"));
                    return Ok::<_, KubeError>(events);
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        let mut events = timeout(PATIENCE, reading).await.expect("the audit log does not go on")?;
        let mut kinds = self.kinds.lock().await;
        if up {
            kinds.learn(&observer, &events).await?;
        }
        kinds.name(&mut events);
        Ok(Audit(events))
    }

    /// Kills the API server: connections break, and nobody listens.
    pub fn kill_api_server(&self) {
        self.servers.lock().unwrap().api = None;
    }

    /// Starts the API server again, on the same port and data, and waits until it is ready.
    pub fn restart_api_server(&self) -> Result<(), KubeError> {
        self.kill_api_server();
        let program = self.assets.program("kube-apiserver");
        let server = Server::start("kube-apiserver", &program, &self.arguments, &self.access.folder)?;
        self.servers.lock().unwrap().api = Some(server);
        self.block_on(self.ready())
    }

    /// Makes another cluster in the place of this one, at the same URL, with the same users and without its objects.
    /// Only for control planes without controllers and nodes: those would still know the old one.
    pub fn make_anew(&self) -> Result<(), KubeError> {
        self.kill_api_server();
        {
            let mut servers = self.servers.lock().unwrap();
            servers.etcd.kill();
            let data = self.access.folder.join("etcd-data");
            let failed = |why| KubeError::Program { program: "etcd".to_owned(), why };
            std::fs::remove_dir_all(data).map_err(failed)?;
            let program = self.assets.program("etcd");
            servers.etcd = Server::start("etcd", &program, &self.etcd_arguments, &self.access.folder)?;
        }
        self.restart_api_server()?;
        self.grant_all()
    }

    /// Waits until the API server is ready.
    async fn ready(&self) -> Result<(), KubeError> {
        let waiting = async {
            loop {
                self.check()?;
                // Its certificate comes with the first start.
                if let Ok(caller) = self.access.caller(User::CONTROLLERS)
                    && let Ok(Ok(answer)) = timeout(Duration::from_secs(5), caller.text("/readyz")).await
                    && answer == "ok"
                {
                    return Ok(());
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(PATIENCE, waiting).await.unwrap_or_else(|_| {
            let servers = self.servers.lock().unwrap();
            Err(servers.api.as_ref().unwrap_or(&servers.etcd).not_ready(PATIENCE.as_secs()))
        })
    }

    /// Fails when a server has ended by itself.
    pub fn check(&self) -> Result<(), KubeError> {
        let mut servers = self.servers.lock().unwrap();
        let Servers { controllers, api, etcd } = &mut *servers;
        etcd.check()?;
        controllers.iter_mut().chain(api).try_for_each(Server::check)
    }

    /// Lets etcd stand still: the API server answers nothing that needs it.
    pub fn pause_etcd(&self) -> Result<(), KubeError> {
        self.servers.lock().unwrap().etcd.signal("STOP")?;
        let standing = async {
            while !self.servers.lock().unwrap().etcd.is_stopped() {
                sleep(Duration::from_millis(5)).await;
            }
        };
        self.block_on(timeout(PATIENCE, standing)).map_err(|_| {
            let servers = self.servers.lock().unwrap();
            servers.etcd.not_ready(PATIENCE.as_secs())
        })
    }

    /// Lets the API server stand still: connections stay, and nobody answers.
    pub fn pause_api_server(&self) -> Result<(), KubeError> {
        self.signal_api_server("STOP")
    }

    /// Lets the API server go on.
    pub fn resume_api_server(&self) -> Result<(), KubeError> {
        self.signal_api_server("CONT")
    }

    fn signal_api_server(&self, name: &str) -> Result<(), KubeError> {
        self.servers.lock().unwrap().api.as_ref().map_or(Ok(()), |server| server.signal(name))
    }

    /// Lets etcd go on.
    pub fn resume_etcd(&self) -> Result<(), KubeError> {
        self.servers.lock().unwrap().etcd.signal("CONT")
    }

    /// Waits for work on our own runtime, whatever runtime the caller is in.
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

/// A fresh folder, removed with the value or the process. `TIDEGATE_KEEP_KUBE=1` keeps it, for its logs.
fn folder() -> Result<(PathBuf, Option<Sweeper>), KubeError> {
    let failed = |why| KubeError::File { path: std::env::temp_dir(), why };
    let path = TempDir::with_prefix("tidegate-kube-").map_err(failed)?.keep();
    if std::env::var_os("TIDEGATE_KEEP_KUBE").is_some() {
        eprintln!("the folder of the control plane: {}", path.display());
        return Ok((path, None));
    }
    let sweeper = Sweeper::start(&path)?;
    Ok((path, Some(sweeper)))
}

/// Ports that nobody uses now.
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
