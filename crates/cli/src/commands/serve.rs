//! `tidegate serve`: continuously compares and syncs Applications.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tidegate_app_controller::{
    ApplicationService, Destinations, ManagedApplications, ManagedApplicationsInput, ReconcileSettings,
    RepositoryFiles, SourceSettings,
};
use tidegate_appset_controller::{AppSetController, AppSetService};
use tidegate_cluster::Cluster;
use tidegate_daemon::session::Session;
use tidegate_executor::{Engine, EngineError};
use tidegate_server::{Notifier, Owner, ServerState, TraceExporter};
use tidegate_source::AllowedSources;
use tidegate_state::clusters::{Clusters, SelectedCluster};
use tidegate_state::gates::GateFile;
use tidegate_state::leadership::Leadership;
use tidegate_state::owned_shards::OwnedShards;
use tidegate_state::shared_log::SharedLog;
use tidegate_state::simulated;
use tidegate_state::state_dir::StateDir;
use tidegate_state::stored_plans::StoredPlans;
use tidegate_stores::applications::{ApplicationStore, FolderStore, KubernetesStore};
use tidegate_stores::appsets::{AppSetStore, FolderAppSetStore, KubernetesAppSetStore};

use crate::args::ServeArgs;
use crate::commands::serve_startup::{self, StartedService};
use crate::commands::{api, example, peers, serve_appsets, serve_impersonation};
use crate::customizations;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::input;
use crate::output::{Printer, format_count};
use crate::request::wave_delay;
use crate::signals::Signals;
use crate::wait;

/// Interval for checking that the engine works and its log still exists.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Cause of a shutdown that another user has requested, for messages.
const DRAIN_REQUEST: &str = "`tidegate replicas drain`";

pub async fn run(args: &ServeArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let state_dir = StateDir::resolve_for_service(args.state.state_dir())?;
    let rules = customizations::load_rules(&args.scripts, printer)?;
    // Report errors in the file as other commands do.
    input::load_definitions(args.definitions.as_deref())?;
    let gates = args.definitions.as_deref().map(GateFile::open).transpose()?.unwrap_or_default();
    // Report a missing folder as other commands do.
    args.apps.as_deref().map_or(Ok(()), input::check_exists)?;
    let open = |apps| FolderStore::open(apps, state_dir.applications(), state_dir.generated());
    let folder = args.apps.as_deref().map(open);
    let folder = folder.transpose()?;
    let files = args.repositories.as_deref().map(RepositoryFiles::new);
    if let Some(files) = &files {
        // Report errors in the files before anything starts.
        files.read()?;
    }
    let (targets, collector) =
        (api::notification_targets(&args.api)?, api::trace_collector(&args.api, printer)?);
    let state = Arc::new(ServerState::default());
    let peer_tls = peers::tls_settings(args)?;
    if args.log.is_some() {
        state.set_leader(Owner::Changing);
    }
    let (api, address) =
        api::start_server(&args.api, args.apps.is_some(), peer_tls, &state, printer).await?.unzip();
    let advertised = peers::advertised_url(args, api.as_ref())?;
    let secrets = args.apps.is_none().then(|| args.secrets_namespace().to_owned());
    let sourcing = SourceSettings {
        files,
        secrets,
        helm: args.helm.clone(),
        kustomize: args.kustomize.clone(),
        allowed: AllowedSources {
            bases: args.allow_remote_bases.clone(),
            charts: args.allow_chart_dependencies.clone(),
        },
        providers: args.appsets.providers.providers(),
    };
    let mut signals = Signals::listen()?;
    let starting = serve_startup::start(args, &state_dir, address.as_deref(), advertised, &state, printer);
    let started = tokio::select! {
        started = Box::pin(starting) => started?.ok_or(DRAIN_REQUEST),
        signal = signals.next() => Err(signal),
    };
    let StartedService { cluster: chosen, log, leadership, folder_lock, shared_log } = match started {
        Ok(started) => started,
        Err(cause) => {
            printer.note(&format!("shutting down after {cause}; no applications were managed yet"));
            if let Some(api) = api {
                api.close().await;
            }
            return Ok(CommandOutcome::Done);
        }
    };
    let fence = leadership.as_ref().map(Leadership::fence);
    let fence = match &shared_log {
        Some(shared) => Some(shared.fence().and(fence)),
        None => fence,
    };
    let plans = match &shared_log {
        Some(shared) => Some(StoredPlans::in_shared_log(shared.log())),
        None => StoredPlans::open_existing(&state_dir)?,
    };
    if let Some(shared) = &shared_log {
        tokio::spawn(serve_startup::report_outages(shared.outage(), Arc::clone(&state)));
    }
    let sessions = shared_log.as_ref().map(|shared| peers::session_store(shared.log()));
    let successor = if shared_log.is_some() { "leader" } else { "`tidegate serve`" };
    let drain_request = shared_log.as_ref().map(SharedLog::drain_request);
    let serving = async {
        let (destination, namespace) = (chosen.destination(), chosen.namespace(None));
        let cluster: Arc<dyn Cluster> = match chosen {
            SelectedCluster::Simulated => {
                args.apps.iter().try_for_each(|folder| example::create_repository(folder, printer))?;
                Arc::new(simulated::open(&state_dir, &log, printer).await?)
            }
            SelectedCluster::Real(connected) => {
                let cluster: Arc<dyn Cluster> = Arc::new(connected.cluster.with_shared_searches());
                match &fence {
                    Some(fence) => fence.wrap(cluster),
                    None => cluster,
                }
            }
        };
        let (store, appsets): (Arc<dyn ApplicationStore>, Arc<dyn AppSetStore>) = match folder {
            Some(folder) => {
                let appsets = FolderAppSetStore::open(&folder, state_dir.application_sets());
                (Arc::new(folder), Arc::new(appsets))
            }
            None => {
                let (cluster, reach) = (Arc::clone(&cluster), args.managed_scope());
                let store = KubernetesStore::open(cluster, destination.clone(), reach).await?;
                let appsets = KubernetesAppSetStore::open(&store).await?;
                (Arc::new(store), Arc::new(appsets))
            }
        };
        let config = args.apps.is_none().then_some((cluster.as_ref(), args.secrets_namespace()));
        let options = serve_appsets::load_options(&args.appsets, config, printer).await;
        let accounts = serve_impersonation::choose_mode(args.impersonate, config, printer).await?;
        // Share the cluster connection between operations and comparisons.
        let real = BTreeMap::from([(destination.clone(), Arc::clone(&cluster))]);
        let clusters = Clusters { simulated: false, real };
        let (shared_log, keep) = (Arc::clone(&log), Some(args.retention.retention()));
        let session =
            Session::open_long_lived(shared_log, clusters, rules.clone(), keep, &state_dir, printer).await?;
        if let Some(sessions) = sessions {
            state.keep_sessions(sessions).await;
        }
        state.set_handles(Arc::clone(&session.queries), session.engine.clone());
        // Start the notifier even without targets. Targets added later then only receive new events.
        let targets = targets.unwrap_or_default();
        let _notifying =
            Notifier::start(targets, &session.engine, &state_dir.notification_positions()).await?;
        let _tracing =
            TraceExporter::start(collector, &session.engine, &session.queries, &state_dir.trace_position())
                .await?;
        let mut places = Destinations::new(destination.clone(), cluster, namespace)
            .with_fence(fence)
            .with_impersonation(accounts)
            .with_exec_plugins(args.allow_exec_credentials.iter().cloned().collect());
        if let Some(declared) = args.clusters.as_deref() {
            places = places.with_files(RepositoryFiles::new(declared));
            places.read_files().await?;
        }
        let applications = ManagedApplications::start(ManagedApplicationsInput {
            engine: session.engine.clone(),
            log,
            state_dir: state_dir.clone(),
            store,
            owned_shards: OwnedShards::All,
            plans,
            destinations: places,
            rules,
            gates,
            reconcile: ReconcileSettings {
                interval: args.refresh_every,
                wave_delay: wave_delay(printer),
                default_options: args.server_side_apply.sync_options(),
            },
            sourcing,
        })
        .await?;
        let appsets = AppSetController::start(applications.service(), appsets, options).await?;
        session.queries.set_appsets(appsets.service());
        session.queries.set_applications(applications.service());
        applications.unresumed_operations.iter().for_each(|left| printer.warn(left));
        let found = applications.cache().find(None);
        found.problems.iter().for_each(|problem| printer.warn(problem));
        let number = u32::try_from(found.applications.len()).unwrap_or(u32::MAX);
        let number = format_count(number, "application", "applications");
        let number =
            match u32::try_from(appsets.service().find_matching(None).appsets.len()).unwrap_or(u32::MAX) {
                0 => number,
                of => format!("{number} and {}", format_count(of, "ApplicationSet", "ApplicationSets")),
            };
        let from = args.apps.as_deref().map(|folder| format!(" of {}", folder.display())).unwrap_or_default();
        printer.note(&format!(
            "managing {number}{from} on the {destination}; `tidegate app list` shows their state"
        ));
        api::repeat_address(api.as_ref(), printer);
        let cause = tokio::select! {
            signal = signals.next() => signal,
            () = serve_startup::wait_for_drain(drain_request) => DRAIN_REQUEST,
            error = wait_for_failure(session.engine.clone(), applications.service(), appsets.service()) => {
                // Return the error so that the process manager can restart the process.
                appsets.stop().await;
                applications.stop().await;
                let _ = wait::close_session(session, args.retention.retention(), &mut signals).await;
                return Err(error.into());
            }
        };
        printer.note(&format!(
            "shutting down after {cause}; unfinished operations continue with the next {successor}"
        ));
        if let Some(api) = api {
            api.close().await;
        }
        appsets.stop().await;
        applications.stop().await;
        wait::close_session(session, args.retention.retention(), &mut signals).await?;
        Ok::<CommandOutcome, CliError>(CommandOutcome::Done)
    };
    let ended = serve_startup::run_as_leader(leadership, shared_log, Box::pin(serving)).await;
    drop(folder_lock);
    ended
}

/// Waits for a failure that prevents the service from managing the applications.
async fn wait_for_failure(
    engine: Engine,
    serving: ApplicationService,
    appsets: AppSetService,
) -> EngineError {
    let failure = async {
        loop {
            if let Some(error) = serving.failure().or_else(|| appsets.failure()) {
                break error;
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    };
    // Runs concurrently: a hanging disk must not block the check of the engine.
    let found = async {
        loop {
            if let Err(error) = engine.check_log().await {
                break error;
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    };
    tokio::select! {
        error = failure => error,
        error = found => error,
    }
}
