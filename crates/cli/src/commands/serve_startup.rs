//! Service startup: waits for the API server, and for other services that manage the same applications.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_daemon::control::client;
use tidegate_executor::Fence;
use tidegate_model::ClaimLocation;
use tidegate_oplog::{PostgresTarget, Replica};
use tidegate_server::{Owner, ServerState};
use tidegate_state::clusters::{self, ConnectedCluster, SelectedCluster};
use tidegate_state::error::ServiceError;
use tidegate_state::leadership::{self, FolderLock, Leadership, LeaseState};
use tidegate_state::log::{self, Log};
use tidegate_state::shared_log::SharedLog;
use tidegate_state::state_dir::StateDir;
use tidegate_stores::applications::KubernetesStore;
use tidegate_web::{SystemTrust, TrustedServers};
use tokio::sync::watch;

use crate::args::ServeArgs;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::Printer;

/// Interval between attempts to reach the API server.
const CONNECT_INTERVAL: Duration = Duration::from_secs(2);
/// Interval between attempts to lock a folder.
const LOCK_INTERVAL: Duration = Duration::from_secs(1);

/// Resources that a service acquires at startup.
pub struct StartedService {
    pub cluster: SelectedCluster,
    pub log: Log,
    /// Lease of the control plane, if the service manages one on a real cluster.
    pub leadership: Option<Leadership>,
    /// Lock on the folder that the service manages, if any. Held until the process exits.
    pub folder_lock: Option<FolderLock>,
    /// Part in a log shared with standbys, if the service uses one.
    pub shared_log: Option<SharedLog>,
}

/// Reporter of startup waits, to the user and at `/readyz`.
struct StartupReporter<'a> {
    server_state: &'a ServerState,
    printer: &'a Printer,
    /// Message with the API's URL until it is printed.
    address: Option<&'a str>,
    last_reason: Option<String>,
}

impl StartupReporter<'_> {
    fn report(&mut self, reason: String) {
        if self.last_reason.as_ref() == Some(&reason) {
            return;
        }
        self.server_state.set_wait_reason(Some(reason.clone()));
        self.print_address();
        self.printer.note(&reason);
        self.last_reason = Some(reason);
    }

    /// Reports a wait for another service, and lets the API forward requests to the leader.
    fn report_leader(&mut self, reason: String, leader: Option<&Replica>) {
        if let Some(Replica { name, address, .. }) = leader {
            self.server_state.set_leader(Owner::other(name, address.as_deref()));
        }
        self.report(reason);
    }

    fn print_address(&mut self) {
        if let Some(address) = self.address.take() {
            self.printer.note(address);
        }
    }
}

/// Connects to the cluster, locks the state directory, and makes sure that no other service manages the same
/// applications. Returns `None` if `tidegate replicas drain` has asked this service to stop.
pub async fn start(
    args: &ServeArgs,
    state_dir: &StateDir,
    address: Option<&str>,
    advertised: Option<String>,
    server_state: &Arc<ServerState>,
    printer: &Printer,
) -> Result<Option<StartedService>, CliError> {
    let mut waiting = StartupReporter { server_state, printer, address, last_reason: None };
    let chosen = connect_cluster(args, &mut waiting).await?;
    state_dir.create(printer)?;
    let (mut leadership, mut folder_lock, mut shared_log) = (None, None, None);
    let log: Log = match &args.log {
        None => log::open_locked(state_dir, printer, client::is_process_running).await?,
        Some(url) => {
            // The files in the state directory belong to a single process as well.
            folder_lock = lock_folder(state_dir.path(), false, &mut waiting).await?;
            let target = log_target(url, args.log_password.as_deref())?;
            waiting.print_address();
            let leading = SharedLog::lead(target, args.standby, advertised, |reason, leader| {
                waiting.report_leader(reason, leader);
            });
            let Some(shared) = leading.await? else { return Ok(None) };
            server_state.take_over();
            let log = shared.log();
            shared_log = Some(shared);
            log
        }
    };
    state_dir.record_control_namespace()?;
    waiting.print_address();
    match (&args.apps, &chosen) {
        (Some(folder), _) => folder_lock = lock_folder(folder, args.standby, &mut waiting).await?,
        (None, SelectedCluster::Real(connected)) => {
            let state = match &shared_log {
                Some(shared) => shared.lease_state(),
                None => LeaseState::Directory(leadership::state_directory_id(&state_dir.service_id())?),
            };
            let fence = shared_log.as_ref().map(SharedLog::fence);
            let drain = wait_for_drain(shared_log.as_ref().map(SharedLog::drain_request));
            leadership = tokio::select! {
                acquired = Box::pin(acquire_lease(args, connected, state, fence, &mut waiting)) => Some(acquired?),
                () = drain => None,
            };
            if leadership.is_none() {
                if let Some(shared) = shared_log {
                    shared.release().await;
                }
                return Ok(None);
            }
        }
        // The simulated cluster is in the state directory, which is already locked.
        (None, SelectedCluster::Simulated) => {}
    }
    if waiting.last_reason.is_some() {
        server_state.set_wait_reason(None);
    }
    Ok(Some(StartedService { cluster: chosen, log, leadership, folder_lock, shared_log }))
}

/// Waits until `tidegate replicas drain` asks this service to stop.
pub async fn wait_for_drain(request: Option<watch::Receiver<bool>>) {
    if let Some(mut request) = request
        && request.wait_for(|is_requested| *is_requested).await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

/// Runs `service_run` to completion, and then releases the Lease and the shared log. If one of them is lost, stops
/// `service_run` right away; no data is lost, because operations continue from the log.
pub async fn run_as_leader(
    mut leadership: Option<Leadership>,
    shared_log: Option<SharedLog>,
    service_run: impl Future<Output = Result<CommandOutcome, CliError>>,
) -> Result<CommandOutcome, CliError> {
    let lease_loss = async {
        match &mut leadership {
            Some(leadership) => leadership.wait_for_loss().await,
            None => std::future::pending().await,
        }
    };
    let log_loss = async {
        match &shared_log {
            Some(shared) => shared.wait_for_loss().await,
            None => std::future::pending().await,
        }
    };
    let ended = tokio::select! {
        ended = service_run => ended,
        lost = lease_loss => return Err(lost.into()),
        lost = log_loss => return Err(lost.into()),
    };
    if !matches!(ended, Err(CliError::ForcedShutdown)) {
        if let Some(leadership) = leadership {
            leadership.release().await;
        }
        if let Some(shared) = shared_log {
            shared.release().await;
        }
    }
    ended
}

/// Reports at `/readyz` while the database of the shared log is unavailable.
pub async fn report_outages(mut outage: watch::Receiver<Option<String>>, server_state: Arc<ServerState>) {
    loop {
        let reason = outage.borrow_and_update().clone();
        server_state.set_wait_reason(
            reason.map(|reason| format!("waiting for the operation log's database: {reason}")),
        );
        if outage.changed().await.is_err() {
            return;
        }
    }
}

/// Parses the URL of the operation log, and reads the password.
pub fn log_target(url: &str, password: Option<&Path>) -> Result<PostgresTarget, CliError> {
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|error| CliError::io("read", path, error));
    let password = password.map(read).transpose()?;
    let password = password.as_deref().map(|text| text.trim_end_matches(['\r', '\n']));
    let tls = |roots: Option<&str>| {
        let pem = roots.map(std::fs::read_to_string).transpose().map_err(|error| {
            format!("cannot read the certificates in sslrootcert={}: {error}", roots.unwrap_or_default())
        })?;
        let trusted = pem.as_deref().map_or(TrustedServers::System, TrustedServers::Authorities);
        SystemTrust::default().tls_config(trusted, None).map_err(|error| error.to_string())
    };
    Ok(PostgresTarget::parse(url, password, tls).map_err(ServiceError::from)?)
}

/// Waits until the cluster responds. Returns its connection.
async fn connect_cluster(
    args: &ServeArgs,
    waiting: &mut StartupReporter<'_>,
) -> Result<SelectedCluster, CliError> {
    loop {
        match clusters::select_cluster(args.cluster.connection().as_ref(), waiting.printer).await {
            Err(error) if error.is_transient() => wait_for_server(&error, waiting).await,
            chosen => return Ok(chosen?),
        }
    }
}

async fn wait_for_server(error: &ServiceError, waiting: &mut StartupReporter<'_>) {
    waiting.report(format!("waiting for the API server: {error}"));
    tokio::time::sleep(CONNECT_INTERVAL).await;
}

/// Returns the lock on a folder, or `None` if its file system doesn't support locks.
async fn lock_folder(
    folder: &Path,
    is_standby: bool,
    waiting: &mut StartupReporter<'_>,
) -> Result<Option<FolderLock>, CliError> {
    loop {
        match FolderLock::try_lock(folder) {
            Ok(Ok(lock)) => return Ok(Some(lock)),
            Ok(Err(taken)) if is_standby => waiting.report(taken.describe_wait()),
            Ok(Err(taken)) => return Err(ServiceError::from(taken).into()),
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                waiting.printer.warn(&format!(
                    "cannot lock the folder {} ({error}), so Tidegate cannot detect whether another \
                     service is using it; do not start a second service for this folder",
                    folder.display()
                ));
                return Ok(None);
            }
            Err(error) => return Err(CliError::io("open", folder, error)),
        }
        tokio::time::sleep(LOCK_INTERVAL).await;
    }
}

/// Acquires the control plane's Lease over its own connection, so that load can't delay the renewal. The fence of a
/// shared log also applies to the Lease. A service that is cut off only from the database must not keep its Lease,
/// because the standby that takes over the log would wait for it.
async fn acquire_lease(
    args: &ServeArgs,
    connected: &ConnectedCluster,
    state: LeaseState,
    fence: Option<Fence>,
    waiting: &mut StartupReporter<'_>,
) -> Result<Leadership, CliError> {
    let destination = &connected.destination;
    let cluster: Arc<dyn Cluster> = Arc::new(connected.cluster.clone());
    // Check for the CRDs first: without them, there is nothing to manage and no namespace for the Lease.
    loop {
        match KubernetesStore::open(Arc::clone(&cluster), destination.clone(), args.managed_scope()).await {
            Err(error) if error.is_transient() => wait_for_server(&error, waiting).await,
            opened => break drop(opened?),
        }
    }
    let connection = args.cluster.connection().unwrap_or_default();
    let own = clusters::open_second_connection(&connection).await?;
    let own = match fence {
        Some(fence) => fence.wrap(own),
        None => own,
    };
    let place = ClaimLocation { namespace: args.project_namespace().to_owned(), name: args.lease.clone() };
    let report = |reason| waiting.report(reason);
    Ok(Leadership::acquire(own, destination, place, state, args.standby, report).await?)
}
