//! `tidegate serve`: Applications, compared and synced for as long as the process lives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tidegate_cluster::Cluster;
use tidegate_executor::{Engine, EngineError};
use tidegate_server::{Notifying, Site, Tracing};
use tidegate_service::applications::store::{ApplicationStore, FolderStore, KubernetesStore, Reach};
use tidegate_service::applications::{Applications, Pace, Places, RepositoryFiles, Serving, Sourcing};
use tidegate_service::clusters::{self, Chosen, Clusters};
use tidegate_service::gates::GateFile;
use tidegate_service::plans::Plans;
use tidegate_service::session::Session;
use tidegate_service::sets::store::{FolderSets, KubernetesSets, SetStore};
use tidegate_service::sets::{SetServing, Sets};
use tidegate_service::state_dir::StateDir;
use tidegate_service::{log, simulated};
use tidegate_source::Allowed;

use crate::args::ServeArgs;
use crate::commands::{api, example, serve_accounts, serve_sets};
use crate::customizations;
use crate::error::CliError;
use crate::exit::Ended;
use crate::input;
use crate::output::{Printer, counted};
use crate::request::wave_delay;
use crate::signals::Signals;
use crate::wait;

/// Stands for all of them.
const EVERY_NAMESPACE: &str = "*";
/// How often it is looked whether the engine still works, and its log is where it was.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub async fn run(args: &ServeArgs, printer: &Printer) -> Result<Ended, CliError> {
    let state_dir = StateDir::resolve(args.state.named())?;
    let rules = customizations::given(&args.scripts, printer)?;
    // What is wrong with it is told as other commands tell it.
    input::definitions(args.definitions.as_deref())?;
    let gates = args.definitions.as_deref().map(GateFile::open).transpose()?.unwrap_or_default();
    let open = |apps| FolderStore::open(apps, state_dir.applications(), state_dir.generated());
    let folder = args.apps.as_deref().map(open);
    let folder = folder.transpose()?;
    let files = args.repositories.as_deref().map(RepositoryFiles::new);
    if let Some(files) = &files {
        // What is wrong with them is told before anything begins.
        files.read()?;
    }
    let (targets, collector) = (api::targets(&args.api)?, api::collector(&args.api, printer)?);
    let site = Arc::new(Site::default());
    let (api, address) = api::listen(&args.api, args.apps.is_some(), &site, printer).await?.unzip();
    let secrets = args.apps.is_none().then(|| args.secrets_namespace.clone());
    let sourcing = Sourcing {
        files,
        secrets,
        helm: args.helm.clone(),
        kustomize: args.kustomize.clone(),
        allowed: Allowed {
            bases: args.allow_remote_bases.clone(),
            charts: args.allow_chart_dependencies.clone(),
        },
        providers: args.sets.providers.providers(),
    };
    let chosen = clusters::choose(args.cluster.connection().as_ref(), printer).await?;
    let mut signals = Signals::listen()?;
    state_dir.create(printer)?;
    let log = log::lock(&state_dir, printer).await?;
    address.iter().for_each(|address| printer.note(address));
    let (destination, namespace) = (chosen.destination(), chosen.namespace(None));
    let cluster: Arc<dyn Cluster> = match chosen {
        Chosen::Simulated => {
            args.apps.iter().try_for_each(|folder| example::complete(folder, printer))?;
            Arc::new(simulated::open(&state_dir, &log, printer).await?)
        }
        Chosen::Real(connected) => Arc::new(connected.cluster.for_many()),
    };
    let (store, sets): (Arc<dyn ApplicationStore>, Arc<dyn SetStore>) = match folder {
        Some(folder) => {
            let sets = FolderSets::beside(&folder, state_dir.application_sets());
            (Arc::new(folder), Arc::new(sets))
        }
        None => {
            let (cluster, reach) = (Arc::clone(&cluster), reach(args));
            let store = KubernetesStore::open(cluster, destination.clone(), reach).await?;
            let sets = KubernetesSets::open(&store).await?;
            (Arc::new(store), Arc::new(sets))
        }
    };
    let config = args.apps.is_none().then_some((cluster.as_ref(), args.secrets_namespace.as_str()));
    let options = serve_sets::options(&args.sets, config, printer).await;
    let accounts = serve_accounts::decided(args.impersonate, config, printer).await?;
    // One way to the cluster serves operations and comparisons.
    let real = BTreeMap::from([(destination.clone(), Arc::clone(&cluster))]);
    let clusters = Clusters { simulated: false, real };
    let long = (rules.clone(), Some(args.keep.retention()));
    let session = Session::for_long(Arc::clone(&log), clusters, long, &state_dir, printer).await?;
    site.begin(Arc::clone(&session.queries), session.engine.clone());
    // Also where nobody is: whoever comes back is told what happens from then on.
    let targets = targets.unwrap_or_default();
    let _notifying = Notifying::begin(targets, &session.engine, &state_dir.notified()).await?;
    let _tracing = Tracing::begin(collector, &session.engine, &session.queries, &state_dir.traced()).await?;
    let mut places = Places::new(destination.clone(), cluster, namespace)
        .with_accounts(accounts)
        .with_programs(args.allow_exec_credentials.iter().cloned().collect());
    if let Some(declared) = args.clusters.as_deref() {
        places = places.with_files(RepositoryFiles::new(declared));
        places.read_files().await?;
    }
    let what = (state_dir.clone(), store, Plans::look(&state_dir)?);
    let applications = Applications::serve(
        session.engine.clone(),
        log,
        what,
        places,
        (rules, gates, Pace { every: args.refresh_every, wave_delay: wave_delay(printer) }),
        sourcing,
    )
    .await?;
    let sets = Sets::serve(applications.serving(), sets, options).await?;
    session.queries.serve_sets(sets.serving());
    session.queries.serve(applications.serving());
    applications.left_alone.iter().for_each(|left| printer.warn(left));
    let found = applications.board().find(None);
    found.problems.iter().for_each(|problem| printer.warn(problem));
    let number = u32::try_from(found.applications.len()).unwrap_or(u32::MAX);
    let number = counted(number, "application", "applications");
    let number = match u32::try_from(sets.serving().find(None).sets.len()).unwrap_or(u32::MAX) {
        0 => number,
        of => format!("{number} and {}", counted(of, "ApplicationSet", "ApplicationSets")),
    };
    let from = args.apps.as_deref().map(|folder| format!(" of {}", folder.display())).unwrap_or_default();
    printer.note(&format!(
        "serving {number}{from} on the {destination}; `tidegate app list` shows how they stand"
    ));
    api::remind(api.as_ref(), printer);
    let signal = tokio::select! {
        signal = signals.next() => signal,
        error = failed(session.engine.clone(), applications.serving(), sets.serving()) => {
            // Whoever started this process learns of it, and can start it again.
            sets.stop().await;
            applications.stop().await;
            let _ = wait::close(session, args.keep.retention(), &mut signals).await;
            return Err(error.into());
        }
    };
    printer.note(&format!(
        "ending by {signal}; operations that are not over go on with the next `tidegate serve`"
    ));
    if let Some(api) = api {
        api.close().await;
    }
    sets.stop().await;
    applications.stop().await;
    wait::close(session, args.keep.retention(), &mut signals).await?;
    Ok(Ended::Done)
}

/// Which Applications of the cluster are meant.
fn reach(args: &ServeArgs) -> Reach {
    let mut namespaces: BTreeSet<String> = args.app_namespace.iter().cloned().collect();
    if namespaces.contains(EVERY_NAMESPACE) {
        namespaces.clear();
    }
    Reach { namespaces, only_labelled: args.only_labelled, projects: args.project_namespace.clone() }
}

/// Returns when nothing is done for the applications any more.
async fn failed(engine: Engine, serving: Serving, sets: SetServing) -> EngineError {
    let told = async {
        loop {
            if let Some(error) = serving.failure().or_else(|| sets.failure()) {
                break error;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    // Beside the other: a disk that does not answer keeps nobody from being told.
    let found = async {
        loop {
            if let Err(error) = engine.look_at_log().await {
                break error;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        error = told => error,
        error = found => error,
    }
}
