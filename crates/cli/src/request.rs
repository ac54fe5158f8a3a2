//! Converts command-line arguments to engine requests.

use std::env;
use std::path::Path;
use std::time::Duration;

use tidegate_model::{
    Backoff, ClaimConflictPolicy, ClaimRequest, Destination, Requester, RetryPolicy, SyncOptions,
    SyncRequest, Tracking, WaitFor,
};
use tidegate_state::clusters::{self, SelectedCluster};
use tidegate_state::last_sync::LastSync;
use tidegate_state::user::user_name;

use crate::args::{
    ApplicationSourceArgs, ClaimArgs, ComparisonArgs, DeleteArgs, DiffArgs, OptionArgs, PlanArgs,
    SelectionArgs, SourceArgs, SyncArgs, WaitArg,
};
use crate::error::CliError;
use crate::input::{self, Manifests};
use crate::output::Printer;

/// Environment variable with Argo CD's fixed delay between waves.
const WAVE_DELAY: &str = "ARGOCD_SYNC_WAVE_DELAY";
/// Sync option that creates the destination namespace.
const CREATE_NAMESPACE: &str = "CreateNamespace=true";

/// Returns the request for a `sync` command.
pub fn sync_request(
    args: &SyncArgs,
    chosen: &SelectedCluster,
    manifests: &Manifests,
    printer: &Printer,
) -> Result<SyncRequest, CliError> {
    check_namespace_metadata(&args.selection.comparison.options)?;
    let place = DeployTarget::new(chosen, &args.source);
    let application = args.app.as_deref().unwrap_or_default();
    let base = base_request(application, place, &args.selection, &manifests.revision)?;
    Ok(add_execution_settings(args, base, printer))
}

/// Returns the request for a `sync` command that executes a stored plan: the plan's own request with the
/// current cluster connection.
pub fn stored_plan_request(
    args: &SyncArgs,
    chosen: &SelectedCluster,
    stored_request: SyncRequest,
    printer: &Printer,
) -> SyncRequest {
    let base = SyncRequest { destination: chosen.destination(), initiated_by: user_name(), ..stored_request };
    add_execution_settings(args, base, printer)
}

/// Adds the `sync` settings that don't affect the plan.
fn add_execution_settings(args: &SyncArgs, base: SyncRequest, printer: &Printer) -> SyncRequest {
    let (duration, factor, max) = (args.retry_backoff, args.retry_factor, args.retry_max);
    let backoff = Backoff { duration, factor, max };
    SyncRequest {
        initiated_by: Requester { name: &base.initiated_by, reason: &args.reason.reason }.to_text(),
        options: SyncOptions { dry_run: args.dry_run, skip_dry_run: args.no_dry_run, ..base.options },
        retry: RetryPolicy { limit: args.retry, backoff, restart: false },
        deadline: args.deadline,
        wait: match args.wait {
            WaitArg::Synced => WaitFor::Synced,
            WaitArg::Healthy => WaitFor::Healthy,
        },
        wave_delay: wave_delay(printer),
        claim: claim_request(&args.claim, args.dry_run, &base.destination),
        ..base
    }
}

/// Returns the request for a `plan` command. `chosen` is `None` without a cluster to compare with.
pub fn plan_request(
    args: &PlanArgs,
    chosen: Option<&SelectedCluster>,
    manifests: &Manifests,
) -> Result<SyncRequest, CliError> {
    check_namespace_metadata(&args.selection.comparison.options)?;
    let application = application_name(&args.application)?;
    let source = &args.application.source;
    let place = match chosen {
        Some(chosen) => DeployTarget::new(chosen, source),
        None => DeployTarget {
            destination: Destination::Simulated,
            namespace: clusters::offline_namespace(source.namespace.as_deref()),
        },
    };
    base_request(&application, place, &args.selection, &manifests.revision)
}

/// Returns the request for a `diff` command's comparison.
pub fn diff_request(
    args: &DiffArgs,
    chosen: &SelectedCluster,
    manifests: &Manifests,
) -> Result<SyncRequest, CliError> {
    check_namespace_metadata(&args.comparison.options)?;
    let application = application_name(&args.application)?;
    let place = DeployTarget::new(chosen, &args.application.source);
    let selection = SelectionArgs { comparison: args.comparison.clone(), ..SelectionArgs::default() };
    base_request(&application, place, &selection, &manifests.revision)
}

/// Returns the request for a `delete` command. Missing settings come from the last sync.
pub fn deletion_request(
    args: &DeleteArgs,
    chosen: &SelectedCluster,
    given: Option<&Manifests>,
    last: Option<&LastSync>,
) -> Result<SyncRequest, CliError> {
    check_namespace_metadata(&args.options)?;
    let last = last.map(|last| &last.request);
    let namespace = args.namespace.as_deref().or(last.map(|last| last.namespace.as_str()));
    let place = DeployTarget { destination: chosen.destination(), namespace: chosen.namespace(namespace) };
    let selection = SelectionArgs {
        prune: true,
        adopt: args.adopt,
        confirm_prune: args.confirm,
        comparison: ComparisonArgs {
            options: args.options.clone(),
            tracking: args.tracking.clone(),
            ..ComparisonArgs::default()
        },
        ..SelectionArgs::default()
    };
    let mut request =
        base_request(&args.app, place, &selection, given.map_or("", |given| given.revision.as_str()))?;
    if let Some(last) = last {
        if given.is_none() {
            request.revision.clone_from(&last.revision);
        }
        if request.options.flags.is_empty() {
            request.options.flags.clone_from(&last.options.flags);
        }
        if request.tracking == Tracking::default() {
            request.tracking.clone_from(&last.tracking);
        }
    }
    request.initiated_by = Requester { name: &request.initiated_by, reason: &args.reason.reason }.to_text();
    request.options.dry_run = args.dry_run;
    request.options.skip_hooks |= args.no_hooks;
    request.retry.limit = args.retry;
    request.deadline = args.deadline;
    request.claim = claim_request(&args.claim, args.dry_run, &request.destination);
    request.deletion = Some(args.cascade.into());
    Ok(request)
}

/// Returns the claim. A state directory's simulated cluster needs none, because it has only one user. Neither
/// does a dry run, because it doesn't affect other operations.
fn claim_request(args: &ClaimArgs, dry_run: bool, destination: &Destination) -> Option<ClaimRequest> {
    let is_shared = matches!(destination, Destination::Kubernetes { .. });
    if args.no_claim || dry_run || !is_shared {
        return None;
    }
    Some(ClaimRequest { namespace: args.claim_namespace.clone(), if_taken: conflict_policy(args) })
}

/// Returns the policy for another open operation of the application, wherever it was started.
pub fn conflict_policy(args: &ClaimArgs) -> ClaimConflictPolicy {
    match (args.queue, args.supersede) {
        (true, _) => ClaimConflictPolicy::Queue,
        (false, true) => ClaimConflictPolicy::Supersede,
        (false, false) => ClaimConflictPolicy::Refuse,
    }
}

/// Destination of the objects.
struct DeployTarget {
    destination: Destination,
    namespace: String,
}

impl DeployTarget {
    fn new(chosen: &SelectedCluster, source: &SourceArgs) -> Self {
        Self { destination: chosen.destination(), namespace: chosen.namespace(source.namespace.as_deref()) }
    }
}

/// Rejects metadata for a namespace that won't be created. It would otherwise be ignored silently.
fn check_namespace_metadata(options: &OptionArgs) -> Result<(), CliError> {
    let wanted = !options.namespace_labels.is_empty() || !options.namespace_annotations.is_empty();
    if wanted && !options.sync_options.iter().any(|option| option == CREATE_NAMESPACE) {
        return Err(CliError::usage(format!(
            "--namespace-label and --namespace-annotation apply only to a namespace that Tidegate creates; add --sync-option {CREATE_NAMESPACE}"
        )));
    }
    Ok(())
}

/// Returns true for options that Argo CD sets on an operation rather than an application.
fn is_operation_option(option: &str) -> bool {
    ["Force=true", "Force=false", "SkipHooks=true", "SkipHooks=false"].contains(&option)
}

fn base_request(
    application: &str,
    place: DeployTarget,
    selection: &SelectionArgs,
    revision: &str,
) -> Result<SyncRequest, CliError> {
    let ComparisonArgs { options, tracking, ignore } = &selection.comparison;
    let ignore_differences = input::load_ignore_rules(ignore.ignore_differences.as_deref())?;
    let tracking = tracking.tracking();
    tracking.check(application).map_err(|error| CliError::usage(error.to_string()))?;
    let OptionArgs { sync_options, namespace_labels, namespace_annotations } = options.clone();
    let given = |option: &str| sync_options.iter().any(|given| given == option);
    Ok(SyncRequest {
        application: application.to_owned(),
        namespace: place.namespace,
        destination: place.destination,
        revision: revision.to_owned(),
        options: SyncOptions {
            prune: selection.prune,
            adopt: selection.adopt,
            prune_confirmed: selection.confirm_prune,
            force: given("Force=true"),
            skip_hooks: given("SkipHooks=true"),
            flags: sync_options.into_iter().filter(|option| !is_operation_option(option)).collect(),
            namespace_labels,
            namespace_annotations,
            ..SyncOptions::default()
        },
        selection: selection.resources.clone(),
        retry: RetryPolicy::default(),
        deadline: None,
        wait: WaitFor::default(),
        wave_delay: None,
        initiated_by: user_name(),
        sources: Vec::new(),
        ignore_differences,
        tracking,
        claim: None,
        deletion: None,
    })
}

/// Returns an application's name, by default that of its first folder.
fn application_name(args: &ApplicationSourceArgs) -> Result<String, CliError> {
    if let Some(name) = &args.app {
        return Ok(name.clone());
    }
    let unknown =
        || CliError::usage("cannot derive the application's name from the paths; set it with --app");
    let first = args.source.paths.first().filter(|path| path.as_os_str() != "-").ok_or_else(unknown)?;
    let path = std::fs::canonicalize(first).map_err(|_| unknown())?;
    let folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
    let name = folder.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| !name.chars().any(|c| c.is_control() || c.is_whitespace())).ok_or_else(unknown)
}

/// Returns the delay between waves. Like Argo CD, accepts a whole number of seconds and uses no delay if the
/// value is invalid.
pub fn wave_delay(printer: &Printer) -> Option<Duration> {
    let value = env::var(WAVE_DELAY).ok()?;
    match value.trim().parse::<u32>() {
        Ok(seconds) => Some(Duration::from_secs(seconds.into())),
        Err(_) => {
            printer.warn(&format!("ignoring invalid {WAVE_DELAY} {value:?}: use a whole number of seconds"));
            None
        }
    }
}
