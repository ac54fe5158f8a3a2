//! `tidegate resume`: continues open operations.

use std::sync::Arc;

use tidegate_daemon::operation_access::{self, Responder};
use tidegate_daemon::queries::PendingResume;
use tidegate_daemon::session::{EarlySocket, Session};
use tidegate_executor::{Clock as _, Summary, SystemClock};
use tidegate_health::HealthRules;
use tidegate_model::{Destination, OperationId};
use tidegate_oplog::Lookup;
use tidegate_state::clusters::{Clusters, ConnectionAttempt, ReconnectPurpose};
use tidegate_state::customizations::{load_rules, store_rules};
use tidegate_state::error::ServiceError;
use tidegate_state::operations::OperationEntry;
use tidegate_state::state_dir::StateDir;
use tidegate_state::{log, operations, simulated};
use tidegate_views::protocol::Request;

use super::report;
use crate::args::{Format, ResumeArgs};
use crate::customizations;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::Printer;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::wait::{self, WaitRequest, WaitResult};

pub async fn run(args: &ResumeArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let state_dir = StateDir::resolve(args.state.state_dir())?;
    let mut signals = Signals::listen()?;
    let log = match operation_access::send_request(&state_dir, printer, &Request::unfinished_operations())
        .await?
    {
        Responder::Log(log) => log,
        Responder::Unused if args.id.is_none() => return report_nothing(args, true, printer),
        Responder::Unused => {
            let text = args.id.clone().unwrap_or_default();
            return Err(
                ServiceError::UnknownOperation { text, state_dir: state_dir.path().to_path_buf() }.into()
            );
        }
        Responder::Process(_) => {
            return Err(CliError::refused(
                "another tidegate process is using this state directory; stop the process or wait for it to finish (`tidegate ops list` shows its operations)",
            ));
        }
    };
    let listed = operations::list_operations(&log, &Lookup::open())?;
    let lost = if args.id.is_none() { print_lost_operations(&listed, &state_dir, printer) } else { 0 };
    match resume_operations(args, log, &listed, &state_dir, &mut signals, printer).await {
        // Damaged operations must show in the exit code even if all others succeed.
        Ok(_) if lost > 0 => Ok(CommandOutcome::Damaged),
        ended => ended,
    }
}

/// Prints the damaged operations, which can't continue, and returns their number.
fn print_lost_operations(listed: &[OperationEntry], state_dir: &StateDir, printer: &Printer) -> usize {
    let lost = operations::lost_operations(listed);
    for OperationEntry { operation, summary, damage, .. } in &lost {
        let application =
            summary.as_ref().map(|known| format!(" ({})", known.application)).unwrap_or_default();
        let folder = state_dir.path().join("quarantine").join(operation.to_string());
        printer.warn(&format!(
            "operation {operation}{application} is damaged and cannot continue: {}; check the operation's \
             effect on the cluster, start a new operation, and remove {} to discard the damaged operation",
            damage.as_deref().unwrap_or_default(),
            folder.display()
        ));
    }
    lost.len()
}

async fn resume_operations(
    args: &ResumeArgs,
    log: log::Log,
    listed: &[OperationEntry],
    state_dir: &StateDir,
    signals: &mut Signals,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let nothing = || {
        compact_log(&log, args);
        report_nothing(args, operations::lost_operations(listed).is_empty(), printer)
    };
    let chosen = select_operations(args, &log, listed, state_dir, printer)?;
    if chosen.is_empty() {
        return nothing();
    }
    let summaries = chosen.clone();
    let approach = Arc::<ConnectionAttempt>::default();
    let operations = chosen.iter().map(|summary| summary.operation).collect();
    let ahead = PendingResume { operations, attempt: Arc::clone(&approach) };
    let early_socket = EarlySocket::open(&log, ahead, state_dir, printer);
    let reconnected = tokio::select! {
        reconnected = reconnect(args, &log, chosen, &approach, printer) => reconnected?,
        signal = signals.next() => {
            let hint = state_dir.command_arguments();
            printer.note(&format!("interrupted by {signal}; nothing was started: continue with `tidegate resume --all{hint}`"));
            return Ok(CommandOutcome::NotFinished);
        }
    };
    let ReconnectedClusters { clusters, operations: chosen, unreachable_count } = reconnected;
    if chosen.is_empty() && unreachable_count == 0 {
        return nothing();
    }
    if chosen.is_empty() {
        // No engine compacts the log if no operation is resumed.
        compact_log(&log, args);
    }
    let groups = group_by_health_rules(args, state_dir, &summaries, &chosen, printer)?;
    let engines = EngineParts { early_socket, log, clusters };
    let waited = run_groups(groups, engines, args, state_dir, signals, printer).await?;
    let ended = if args.all {
        report::report_all(waited, args.waiting.output, state_dir, printer)?
    } else {
        report::report(waited, args.waiting.output, state_dir, printer)?
    };
    Ok(if unreachable_count > 0 { CommandOutcome::NotFinished } else { ended })
}

/// Operations with the same health rules. Each group has its own engine, because an engine has a single set
/// of rules.
struct HealthRulesGroup {
    rules: HealthRules,
    operations: Vec<OperationId>,
    applications: Vec<String>,
}

/// Groups operations by their stored health rules, or by the rules that replace them.
fn group_by_health_rules(
    args: &ResumeArgs,
    state_dir: &StateDir,
    summaries: &[Summary],
    chosen: &[OperationId],
    printer: &Printer,
) -> Result<Vec<HealthRulesGroup>, CliError> {
    let named = customizations::load_user_rules(&args.scripts, printer)?;
    let is_changed = named.is_some() || args.scripts.health_convention.is_some();
    let mut groups: Vec<HealthRulesGroup> = Vec::new();
    for summary in summaries.iter().filter(|summary| chosen.contains(&summary.operation)) {
        let application = summary.application.as_str();
        let rules = match &named {
            Some(rules) => rules.clone(),
            None => load_rules(state_dir, application)?,
        };
        let rules = customizations::apply_convention_switch(rules, &args.scripts);
        if is_changed {
            store_rules(state_dir, application, &rules)?;
        }
        let (operation, application) = (summary.operation, application.to_owned());
        match groups.iter_mut().find(|group| group.rules == rules) {
            Some(group) => {
                group.operations.push(operation);
                group.applications.push(application);
            }
            None => groups.push(HealthRulesGroup {
                rules,
                operations: vec![operation],
                applications: vec![application],
            }),
        }
    }
    Ok(groups)
}

/// Parts shared by the engines of all groups.
struct EngineParts {
    /// Accepts requests from other processes until the first engine starts.
    early_socket: EarlySocket,
    log: log::Log,
    clusters: Clusters,
}

/// Runs each group until all its operations have finished or stopped.
async fn run_groups(
    groups: Vec<HealthRulesGroup>,
    EngineParts { early_socket, log, mut clusters }: EngineParts,
    args: &ResumeArgs,
    state_dir: &StateDir,
    signals: &mut Signals,
    printer: &Printer,
) -> Result<WaitResult, CliError> {
    if groups.len() > 1 {
        print_order(&groups, printer);
        clusters = share_clusters(clusters, &log, state_dir, printer).await?;
    }
    let (mut waited, mut entrance) = (WaitResult::default(), Some(early_socket));
    let mut progress = Progress::new(printer, groups.iter().map(|group| group.operations.len()).sum());
    let mut groups = groups.into_iter();
    while let Some(HealthRulesGroup { rules, operations, .. }) = groups.next() {
        let session = match entrance.take() {
            Some(entrance) => {
                Session::open_behind_socket(entrance, clusters.clone(), rules, state_dir, printer).await?
            }
            None => {
                Session::open_with_log(Arc::clone(&log), clusters.clone(), rules, state_dir, printer).await?
            }
        };
        let these = resume_group(&session, &operations, args, signals, &mut progress).await;
        let stopped = wait::close_session(session, args.waiting.retention.retention(), signals).await;
        waited.extend(these?);
        stopped?;
        if waited.is_interrupted() {
            for HealthRulesGroup { applications, .. } in groups {
                printer.note(&format!("the operations of {} were not resumed", applications.join(", ")));
            }
            break;
        }
    }
    Ok(waited)
}

fn print_order(groups: &[HealthRulesGroup], printer: &Printer) {
    let names: Vec<String> = groups.iter().map(|group| group.applications.join(", ")).collect();
    printer.note(&format!(
        "the operations have different health rules, so they run one after the other: {}; to run them together, \
         set the same rules for all of them with --customizations or --health-convention",
        names.join(", then ")
    ));
}

/// Shares the clusters between consecutive engines.
async fn share_clusters(
    mut clusters: Clusters,
    log: &log::Log,
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<Clusters, CliError> {
    if std::mem::take(&mut clusters.simulated) {
        let cluster = simulated::open(state_dir, log, printer).await?;
        clusters.real.insert(Destination::Simulated, Arc::new(cluster));
    }
    Ok(clusters)
}

/// Compacts the log, as every process does after running operations.
fn compact_log(log: &log::Log, args: &ResumeArgs) {
    let tidied =
        tokio::task::block_in_place(|| log.compact(&args.waiting.retention.retention(), SystemClock.now()));
    if let Err(error) = tidied {
        tracing::warn!(%error, "failed to compact the log");
    }
}

/// Clusters of the operations that continue.
struct ReconnectedClusters {
    clusters: Clusters,
    /// Operations with a reachable cluster.
    operations: Vec<OperationId>,
    /// Number of operations with an unreachable cluster.
    unreachable_count: usize,
}

/// Connects to the operations' clusters. With `--all`, operations on other clusters continue despite an
/// unreachable one.
async fn reconnect(
    args: &ResumeArgs,
    log: &log::Log,
    operations: Vec<Summary>,
    approach: &ConnectionAttempt,
    printer: &Printer,
) -> Result<ReconnectedClusters, CliError> {
    let mut reconnected =
        ReconnectedClusters { clusters: Clusters::default(), operations: Vec::new(), unreachable_count: 0 };
    for Summary { operation, application, .. } in operations {
        let to = match operations::read_destination(log, operation) {
            Ok(recorded) => {
                let clusters = &mut reconnected.clusters;
                clusters
                    .add(
                        operation,
                        &recorded,
                        &args.connection.to_connection(),
                        ReconnectPurpose::Resume,
                        approach,
                        printer,
                    )
                    .await
            }
            Err(error) => Err(error),
        };
        match to {
            Ok(()) => reconnected.operations.push(operation),
            Err(error) if !args.all => return Err(error.into()),
            // An explicit context selects only its cluster's operations, so this isn't a failure.
            Err(error @ ServiceError::DifferentCluster { .. }) if args.connection.context.is_some() => {
                printer.note(&error.to_string());
            }
            Err(error) => {
                printer.warn(&format!("operation {operation} ({application}) was not resumed: {error}"));
                reconnected.unreachable_count = reconnected.unreachable_count.saturating_add(1);
            }
        }
    }
    Ok(reconnected)
}

async fn resume_group(
    session: &Session,
    chosen: &[OperationId],
    args: &ResumeArgs,
    signals: &mut Signals,
    progress: &mut Progress<'_>,
) -> Result<WaitResult, CliError> {
    let events = session.engine.events_from_now().await?;
    for operation in chosen {
        session.engine.resume(*operation).await?;
    }
    let operations = chosen.to_vec();
    let (timeout, follow_hooks) = (args.waiting.timeout, args.waiting.follow_hooks);
    let waiting = WaitRequest { engine: &session.engine, events, operations, timeout, follow_hooks };
    wait::wait(waiting, signals, progress).await
}

fn report_nothing(args: &ResumeArgs, is_whole: bool, printer: &Printer) -> Result<CommandOutcome, CliError> {
    printer.note(match is_whole {
        true => "there is nothing to resume: all operations have finished",
        false => "there is nothing else to resume",
    });
    if args.all && args.waiting.output != Format::Text {
        printer.print_value::<[(); 0]>(&[], args.waiting.output)?;
    }
    Ok(CommandOutcome::Done)
}

fn select_operations(
    args: &ResumeArgs,
    log: &log::Log,
    listed: &[OperationEntry],
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<Vec<Summary>, CliError> {
    let hint = state_dir.command_arguments();
    if let Some(text) = &args.id {
        let summary = operations::select_candidate(operations::find_candidates(log, text)?, text, state_dir)?
            .into_summary()?;
        let id = summary.operation;
        if summary.finished_at.is_some() {
            return Err(CliError::refused(format!(
                "operation {id} has already finished, so there is nothing to resume: {}",
                summary.message
            )));
        }
        if !is_selected(args, &summary) {
            return Err(CliError::refused(format!(
                "operation {id} uses the {}, not the cluster selected by the options; omit --sim and --context",
                summary.destination
            )));
        }
        if summary.paused {
            return Err(CliError::Paused {
                message: format!(
                    "operation {id} is paused; unpause it first with `tidegate ops unpause {id}{hint}`"
                ),
            });
        }
        return Ok(vec![summary]);
    }
    let mut open = operations::open_operations(listed);
    open.retain(|summary| is_selected(args, summary));
    let (paused, ready): (Vec<_>, Vec<_>) = open.into_iter().partition(|summary| summary.paused);
    if let (false, [_, _, ..]) = (args.all, ready.as_slice()) {
        let ids: Vec<String> =
            ready.iter().map(|open| format!("{} ({})", open.operation, open.application)).collect();
        return Err(CliError::usage(format!(
            "{} operations are unfinished: {}; select one, or use --all",
            ready.len(),
            ids.join(", ")
        )));
    }
    for summary in &paused {
        let id = summary.operation;
        printer.warn(&format!(
            "operation {id} ({}) remains paused; unpause it with `tidegate ops unpause {id}{hint}`",
            summary.application
        ));
    }
    if let ([], [first, ..]) = (ready.as_slice(), paused.as_slice()) {
        let id = first.operation;
        return Err(CliError::Paused {
            message: format!("operation {id} is paused, and there is no other unfinished operation"),
        });
    }
    Ok(ready)
}

/// Returns true if the options select the operation, based on its summary alone.
fn is_selected(args: &ResumeArgs, summary: &Summary) -> bool {
    let simulated = summary.destination == Destination::Simulated.to_string();
    if simulated { args.connection.context.is_none() } else { !args.sim }
}
