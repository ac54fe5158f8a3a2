//! The second stage of the arguments: what is asked of the engine.

use std::env;
use std::path::Path;
use std::time::Duration;

use tidegate_model::{
    Backoff, ClaimRequest, Destination, IfTaken, IgnoreDifference, RetryPolicy, SyncOptions, SyncRequest,
    Tracking, WaitFor, Wisher,
};
use tidegate_service::clusters::{self, Chosen};
use tidegate_service::last::LastSync;
use tidegate_service::user::user;

use crate::args::{
    ClaimArgs, DeleteArgs, DiffArgs, OptionArgs, PlanArgs, SelectionArgs, SourceArgs, SyncArgs, WaitArg,
};
use crate::error::CliError;
use crate::input::{self, Manifests};
use crate::output::Printer;

/// Argo CD's fixed delay between waves.
const WAVE_DELAY: &str = "ARGOCD_SYNC_WAVE_DELAY";
/// The option that makes the destination namespace.
const CREATE_NAMESPACE: &str = "CreateNamespace=true";

/// The request of a `sync`.
pub fn of_sync(
    args: &SyncArgs,
    chosen: &Chosen,
    manifests: &Manifests,
    printer: &Printer,
) -> Result<SyncRequest, CliError> {
    check(&args.selection.options)?;
    let place = Place::of(chosen, &args.source);
    let ignored = input::ignored(args.selection.ignore.ignore_differences.as_deref())?;
    let base = SyncRequest {
        ignore_differences: ignored,
        ..base(args.app.as_deref().unwrap_or_default(), place, &args.selection, &manifests.revision)?
    };
    Ok(carried_out(args, base, printer))
}

/// The request of a `sync` that carries out a kept plan: what the plan was made for, on the cluster as it is reached now.
pub fn of_kept(args: &SyncArgs, chosen: &Chosen, kept: SyncRequest, printer: &Printer) -> SyncRequest {
    let base = SyncRequest { destination: chosen.destination(), initiated_by: user(), ..kept };
    carried_out(args, base, printer)
}

/// What a `sync` says besides what its plan depends on.
fn carried_out(args: &SyncArgs, base: SyncRequest, printer: &Printer) -> SyncRequest {
    let (duration, factor, max) = (args.retry_backoff, args.retry_factor, args.retry_max);
    let backoff = Backoff { duration, factor, max };
    SyncRequest {
        initiated_by: Wisher { by: &base.initiated_by, reason: &args.why.reason }.text(),
        options: SyncOptions { dry_run: args.dry_run, skip_dry_run: args.no_dry_run, ..base.options },
        retry: RetryPolicy { limit: args.retry, backoff, restart: false },
        deadline: args.deadline,
        wait: match args.wait {
            WaitArg::Synced => WaitFor::Synced,
            WaitArg::Healthy => WaitFor::Healthy,
        },
        wave_delay: wave_delay(printer),
        claim: claim(&args.claim, args.dry_run, &base.destination),
        ..base
    }
}

/// The request whose plan `plan` shows; `chosen` is `None` when it is compared with no cluster.
pub fn of_plan(
    args: &PlanArgs,
    chosen: Option<&Chosen>,
    manifests: &Manifests,
) -> Result<SyncRequest, CliError> {
    check(&args.selection.options)?;
    let application = match &args.app {
        Some(name) => name.clone(),
        None => folder_name(&args.source)?,
    };
    let place = match chosen {
        Some(chosen) => Place::of(chosen, &args.source),
        None => Place {
            destination: Destination::Simulated,
            namespace: clusters::namespace_offline(args.source.namespace.as_deref()),
        },
    };
    let ignore_differences = input::ignored(args.selection.ignore.ignore_differences.as_deref())?;
    Ok(SyncRequest { ignore_differences, ..base(&application, place, &args.selection, &manifests.revision)? })
}

/// The request that `diff` compares for.
pub fn of_diff(
    args: &DiffArgs,
    chosen: &Chosen,
    manifests: &Manifests,
    ignored: Vec<IgnoreDifference>,
) -> Result<SyncRequest, CliError> {
    check(&args.options)?;
    let application = match &args.app {
        Some(name) => name.clone(),
        None => folder_name(&args.source)?,
    };
    let selection = SelectionArgs {
        options: args.options.clone(),
        tracking: args.tracking.clone(),
        ..SelectionArgs::default()
    };
    let base = base(&application, Place::of(chosen, &args.source), &selection, &manifests.revision)?;
    Ok(SyncRequest { ignore_differences: ignored, ..base })
}

/// The request of a `delete`. What nobody says is as in the last sync.
pub fn of_deletion(
    args: &DeleteArgs,
    chosen: &Chosen,
    given: Option<&Manifests>,
    last: Option<&LastSync>,
) -> Result<SyncRequest, CliError> {
    check(&args.options)?;
    let last = last.map(|last| &last.request);
    let namespace = args.namespace.as_deref().or(last.map(|last| last.namespace.as_str()));
    let place = Place { destination: chosen.destination(), namespace: chosen.namespace(namespace) };
    let selection = SelectionArgs {
        prune: true,
        adopt: args.adopt,
        confirm_prune: args.confirm,
        options: args.options.clone(),
        tracking: args.tracking.clone(),
        ..SelectionArgs::default()
    };
    let mut request = base(&args.app, place, &selection, given.map_or("", |given| given.revision.as_str()))?;
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
    request.initiated_by = Wisher { by: &request.initiated_by, reason: &args.why.reason }.text();
    request.options.dry_run = args.dry_run;
    request.options.skip_hooks |= args.no_hooks;
    request.retry.limit = args.retry;
    request.deadline = args.deadline;
    request.claim = claim(&args.claim, args.dry_run, &request.destination);
    request.deletion = Some(args.cascade.into());
    Ok(request)
}

/// Nobody else can work on the simulated cluster of a state directory, and who only tries disturbs nobody.
fn claim(args: &ClaimArgs, dry_run: bool, destination: &Destination) -> Option<ClaimRequest> {
    let is_shared = matches!(destination, Destination::Kubernetes { .. });
    if args.no_claim || dry_run || !is_shared {
        return None;
    }
    Some(ClaimRequest { namespace: args.claim_namespace.clone(), if_taken: if_taken(args) })
}

/// What happens while another operation of the application is not over, wherever it was begun.
pub fn if_taken(args: &ClaimArgs) -> IfTaken {
    match (args.queue, args.supersede) {
        (true, _) => IfTaken::Queue,
        (false, true) => IfTaken::Supersede,
        (false, false) => IfTaken::Refuse,
    }
}

/// Where the objects go.
struct Place {
    destination: Destination,
    namespace: String,
}

impl Place {
    fn of(chosen: &Chosen, source: &SourceArgs) -> Self {
        Self { destination: chosen.destination(), namespace: chosen.namespace(source.namespace.as_deref()) }
    }
}

/// Metadata of a namespace that nobody makes would be lost without a word.
fn check(options: &OptionArgs) -> Result<(), CliError> {
    let wanted = !options.namespace_labels.is_empty() || !options.namespace_annotations.is_empty();
    if wanted && !options.sync_options.iter().any(|option| option == CREATE_NAMESPACE) {
        return Err(CliError::usage(format!(
            "--namespace-label and --namespace-annotation are about the namespace that Tidegate makes; add --sync-option {CREATE_NAMESPACE}"
        )));
    }
    Ok(())
}

/// Options that Argo CD gives to an operation, and not to an application.
fn is_of_operation(option: &str) -> bool {
    ["Force=true", "Force=false", "SkipHooks=true", "SkipHooks=false"].contains(&option)
}

fn base(
    application: &str,
    place: Place,
    selection: &SelectionArgs,
    revision: &str,
) -> Result<SyncRequest, CliError> {
    let tracking = selection.tracking.tracking();
    tracking.check(application).map_err(|error| CliError::usage(error.to_string()))?;
    let OptionArgs { sync_options, namespace_labels, namespace_annotations } = selection.options.clone();
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
            flags: sync_options.into_iter().filter(|option| !is_of_operation(option)).collect(),
            namespace_labels,
            namespace_annotations,
            ..SyncOptions::default()
        },
        selection: selection.resources.clone(),
        retry: RetryPolicy::default(),
        deadline: None,
        wait: WaitFor::default(),
        wave_delay: None,
        initiated_by: user(),
        sources: Vec::new(),
        ignore_differences: Vec::new(),
        tracking,
        claim: None,
        deletion: None,
    })
}

/// An application is called like the folder it is kept in.
fn folder_name(source: &SourceArgs) -> Result<String, CliError> {
    let unknown =
        || CliError::usage("the application's name does not follow from the paths; give it with --app");
    let first = source.paths.first().filter(|path| path.as_os_str() != "-").ok_or_else(unknown)?;
    let path = std::fs::canonicalize(first).map_err(|_| unknown())?;
    let folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
    let name = folder.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.filter(|name| !name.chars().any(|c| c.is_control() || c.is_whitespace())).ok_or_else(unknown)
}

/// Argo CD reads a whole number of seconds, and goes on without a delay of its own when it cannot.
pub fn wave_delay(printer: &Printer) -> Option<Duration> {
    let value = env::var(WAVE_DELAY).ok()?;
    match value.trim().parse::<u32>() {
        Ok(seconds) => Some(Duration::from_secs(seconds.into())),
        Err(_) => {
            printer.warn(&format!("{WAVE_DELAY}={value} is not a whole number of seconds; it is ignored"));
            None
        }
    }
}
