//! `tidegate resume`: going on with operations that are not over.

use std::sync::Arc;

use tidegate_executor::{Clock as _, Summary, SystemClock};
use tidegate_health::HealthRules;
use tidegate_model::{Destination, OperationId};
use tidegate_oplog::Lookup;
use tidegate_service::clusters::{Approach, Clusters, Purpose};
use tidegate_service::control::protocol::Request;
use tidegate_service::customizations::{recall, remember};
use tidegate_service::error::ServiceError;
use tidegate_service::operations::Listed;
use tidegate_service::queries::Ahead;
use tidegate_service::route::{self, Reached};
use tidegate_service::session::{Entrance, Session};
use tidegate_service::state_dir::StateDir;
use tidegate_service::{log, operations, simulated};

use super::report;
use crate::args::{Format, ResumeArgs};
use crate::customizations;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::Printer;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::wait::{self, Waited, Waiting};

pub async fn run(args: &ResumeArgs, printer: &Printer) -> Result<Ended, CliError> {
    let state_dir = StateDir::resolve(args.state.named())?;
    let mut signals = Signals::listen()?;
    let log = match route::reach(&state_dir, printer, &Request::open()).await? {
        Reached::Log(log) => log,
        Reached::Nothing if args.id.is_none() => return nothing(args, true, printer),
        Reached::Nothing => {
            let text = args.id.clone().unwrap_or_default();
            return Err(
                ServiceError::UnknownOperation { text, state_dir: state_dir.path().to_path_buf() }.into()
            );
        }
        Reached::Process(_) => {
            return Err(CliError::refused(
                "another tidegate process is at work in this state directory; see `tidegate ops list`, and stop it or wait for it",
            ));
        }
    };
    let listed = operations::listed(&log, &Lookup::open())?;
    let lost = if args.id.is_none() { tell_lost(&listed, &state_dir, printer) } else { 0 };
    match go_on_with(args, log, &listed, &state_dir, &mut signals, printer).await {
        // Nothing that went well makes up for what is lost.
        Ok(_) if lost > 0 => Ok(Ended::Damaged),
        ended => ended,
    }
}

/// Names what cannot go on; returns how many.
fn tell_lost(listed: &[Listed], state_dir: &StateDir, printer: &Printer) -> usize {
    let lost = operations::lost_operations(listed);
    for Listed { operation, summary, damage, .. } in &lost {
        let application =
            summary.as_ref().map(|known| format!(" ({})", known.application)).unwrap_or_default();
        let folder = state_dir.path().join("quarantine").join(operation.to_string());
        printer.warn(&format!(
            "operation {operation}{application} is damaged and cannot go on: {}; look what it did to its cluster, begin anew, and remove {} to forget it",
            damage.as_deref().unwrap_or_default(),
            folder.display()
        ));
    }
    lost.len()
}

async fn go_on_with(
    args: &ResumeArgs,
    log: log::Log,
    listed: &[Listed],
    state_dir: &StateDir,
    signals: &mut Signals,
    printer: &Printer,
) -> Result<Ended, CliError> {
    let nothing = || {
        tidy(&log, args);
        nothing(args, operations::lost_operations(listed).is_empty(), printer)
    };
    let chosen = choose(args, &log, listed, state_dir, printer)?;
    if chosen.is_empty() {
        return nothing();
    }
    let summaries = chosen.clone();
    let approach = Arc::<Approach>::default();
    let operations = chosen.iter().map(|summary| summary.operation).collect();
    let ahead = Ahead { operations, approach: Arc::clone(&approach) };
    let entrance = Entrance::open(&log, ahead, state_dir, printer);
    let reconnected = tokio::select! {
        reconnected = reconnect(args, &log, chosen, &approach, printer) => reconnected?,
        signal = signals.next() => {
            let hint = state_dir.hint();
            printer.note(&format!("interrupted by {signal}; nothing was begun: go on with `tidegate resume --all{hint}`"));
            return Ok(Ended::NotFinished);
        }
    };
    let Reconnected { clusters, chosen, unreached } = reconnected;
    if chosen.is_empty() && unreached == 0 {
        return nothing();
    }
    if chosen.is_empty() {
        // No engine is begun that would do it.
        tidy(&log, args);
    }
    let groups = groups(args, state_dir, &summaries, &chosen, printer)?;
    let engines = Engines { entrance, log, clusters };
    let waited = one_after_the_other(groups, engines, args, state_dir, signals, printer).await?;
    let ended = if args.all {
        report::report_all(waited, args.waiting.output, state_dir, printer)?
    } else {
        report::report(waited, args.waiting.output, state_dir, printer)?
    };
    Ok(if unreached > 0 { Ended::NotFinished } else { ended })
}

/// Operations that are judged by the same health rules. An engine has one set of them.
struct Group {
    rules: HealthRules,
    operations: Vec<OperationId>,
    applications: Vec<String>,
}

/// The operations by the health rules they began with, or by those that are put in their place.
fn groups(
    args: &ResumeArgs,
    state_dir: &StateDir,
    summaries: &[Summary],
    chosen: &[OperationId],
    printer: &Printer,
) -> Result<Vec<Group>, CliError> {
    let named = customizations::load(&args.scripts, printer)?;
    let is_changed = named.is_some() || args.scripts.health_convention.is_some();
    let mut groups: Vec<Group> = Vec::new();
    for summary in summaries.iter().filter(|summary| chosen.contains(&summary.operation)) {
        let application = summary.application.as_str();
        let rules = match &named {
            Some(rules) => rules.clone(),
            None => recall(state_dir, application)?,
        };
        let rules = customizations::switched(rules, &args.scripts);
        if is_changed {
            remember(state_dir, application, &rules)?;
        }
        let (operation, application) = (summary.operation, application.to_owned());
        match groups.iter_mut().find(|group| group.rules == rules) {
            Some(group) => {
                group.operations.push(operation);
                group.applications.push(application);
            }
            None => {
                groups.push(Group { rules, operations: vec![operation], applications: vec![application] })
            }
        }
    }
    Ok(groups)
}

/// What the engines of all groups work with.
struct Engines {
    /// Where others ask, until the first of them begins.
    entrance: Entrance,
    log: log::Log,
    clusters: Clusters,
}

/// Goes on with each group until all of it is over or left.
async fn one_after_the_other(
    groups: Vec<Group>,
    Engines { entrance, log, mut clusters }: Engines,
    args: &ResumeArgs,
    state_dir: &StateDir,
    signals: &mut Signals,
    printer: &Printer,
) -> Result<Waited, CliError> {
    if groups.len() > 1 {
        tell_order(&groups, printer);
        clusters = shared(clusters, &log, state_dir, printer).await?;
    }
    let (mut waited, mut entrance) = (Waited::default(), Some(entrance));
    let mut progress = Progress::new(printer, groups.iter().map(|group| group.operations.len()).sum());
    let mut groups = groups.into_iter();
    while let Some(Group { rules, operations, .. }) = groups.next() {
        let session = match entrance.take() {
            Some(entrance) => Session::behind(entrance, clusters.clone(), rules, state_dir, printer).await?,
            None => Session::with_log(Arc::clone(&log), clusters.clone(), rules, state_dir, printer).await?,
        };
        let these = go_on(&session, &operations, args, signals, &mut progress).await;
        let stopped = wait::close(session, args.waiting.keep.retention(), signals).await;
        waited.extend(these?);
        stopped?;
        if waited.is_interrupted() {
            for Group { applications, .. } in groups {
                printer.note(&format!("the operations of {} were not gone on with", applications.join(", ")));
            }
            break;
        }
    }
    Ok(waited)
}

fn tell_order(groups: &[Group], printer: &Printer) {
    let names: Vec<String> = groups.iter().map(|group| group.applications.join(", ")).collect();
    printer.note(&format!(
        "operations began with different health rules and go on one after the other: {}; --customizations and \
         --health-convention put the same rules in the place of all",
        names.join(", then ")
    ));
}

/// The same clusters, to be used by several engines one after the other.
async fn shared(
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

/// Makes the log smaller, as whoever has worked on operations does at the end.
fn tidy(log: &log::Log, args: &ResumeArgs) {
    let tidied =
        tokio::task::block_in_place(|| log.compact(&args.waiting.keep.retention(), SystemClock.now()));
    if let Err(error) = tidied {
        tracing::warn!(%error, "the log could not be compacted");
    }
}

/// The clusters of the operations that go on.
struct Reconnected {
    clusters: Clusters,
    /// Those whose cluster is there.
    chosen: Vec<OperationId>,
    /// How many have to stay as they are.
    unreached: usize,
}

/// Goes back to the clusters of the operations. With `--all`, a cluster that cannot be reached does not keep the
/// operations of the others from going on.
async fn reconnect(
    args: &ResumeArgs,
    log: &log::Log,
    operations: Vec<Summary>,
    approach: &Approach,
    printer: &Printer,
) -> Result<Reconnected, CliError> {
    let mut reconnected = Reconnected { clusters: Clusters::default(), chosen: Vec::new(), unreached: 0 };
    for Summary { operation, application, .. } in operations {
        let to = match operations::destination(log, operation) {
            Ok(recorded) => {
                let clusters = &mut reconnected.clusters;
                clusters
                    .add(
                        operation,
                        &recorded,
                        &args.connection.to_connection(),
                        Purpose::GoOn,
                        approach,
                        printer,
                    )
                    .await
            }
            Err(error) => Err(error),
        };
        match to {
            Ok(()) => reconnected.chosen.push(operation),
            Err(error) if !args.all => return Err(error.into()),
            // Only those of the context that is named.
            Err(error @ ServiceError::Elsewhere { .. }) if args.connection.context.is_some() => {
                printer.note(&error.to_string());
            }
            Err(error) => {
                printer.warn(&format!("operation {operation} ({application}) is left as it is: {error}"));
                reconnected.unreached = reconnected.unreached.saturating_add(1);
            }
        }
    }
    Ok(reconnected)
}

async fn go_on(
    session: &Session,
    chosen: &[OperationId],
    args: &ResumeArgs,
    signals: &mut Signals,
    progress: &mut Progress<'_>,
) -> Result<Waited, CliError> {
    let events = session.engine.events_from_now().await?;
    for operation in chosen {
        session.engine.resume(*operation).await?;
    }
    let operations = chosen.to_vec();
    let (timeout, follow_hooks) = (args.waiting.timeout, args.waiting.follow_hooks);
    let waiting = Waiting { engine: &session.engine, events, operations, timeout, follow_hooks };
    wait::wait(waiting, signals, progress).await
}

fn nothing(args: &ResumeArgs, is_whole: bool, printer: &Printer) -> Result<Ended, CliError> {
    printer.note(match is_whole {
        true => "there is nothing to resume: every operation is over",
        false => "there is nothing else to resume",
    });
    if args.all && args.waiting.output != Format::Text {
        printer.value::<[(); 0]>(&[], args.waiting.output)?;
    }
    Ok(Ended::Done)
}

fn choose(
    args: &ResumeArgs,
    log: &log::Log,
    listed: &[Listed],
    state_dir: &StateDir,
    printer: &Printer,
) -> Result<Vec<Summary>, CliError> {
    let hint = state_dir.hint();
    if let Some(text) = &args.id {
        let summary = operations::find(operations::candidates(log, text)?, text, state_dir)?.known()?;
        let id = summary.operation;
        if summary.finished_at.is_some() {
            return Err(CliError::refused(format!("operation {id} is over: {}", summary.message)));
        }
        if !is_meant(args, &summary) {
            return Err(CliError::refused(format!(
                "operation {id} works on the {}, not where the options say",
                summary.destination
            )));
        }
        if summary.paused {
            return Err(CliError::Paused {
                message: format!(
                    "operation {id} is paused; let it go on first with `tidegate ops unpause {id}{hint}`"
                ),
            });
        }
        return Ok(vec![summary]);
    }
    let mut open = operations::open_operations(listed);
    open.retain(|summary| is_meant(args, summary));
    let (paused, ready): (Vec<_>, Vec<_>) = open.into_iter().partition(|summary| summary.paused);
    if let (false, [_, _, ..]) = (args.all, ready.as_slice()) {
        let ids: Vec<String> =
            ready.iter().map(|open| format!("{} ({})", open.operation, open.application)).collect();
        return Err(CliError::usage(format!(
            "{} operations are not over: {}; name one, or say --all",
            ready.len(),
            ids.join(", ")
        )));
    }
    for summary in &paused {
        let id = summary.operation;
        printer.warn(&format!(
            "operation {id} ({}) stays paused; let it go on with `tidegate ops unpause {id}{hint}`",
            summary.application
        ));
    }
    if let ([], [first, ..]) = (ready.as_slice(), paused.as_slice()) {
        let id = first.operation;
        return Err(CliError::Paused { message: format!("operation {id} is paused, and no other is open") });
    }
    Ok(ready)
}

/// Whether the options leave an operation in, as far as its summary can tell.
fn is_meant(args: &ResumeArgs, summary: &Summary) -> bool {
    let simulated = summary.destination == Destination::Simulated.to_string();
    if simulated { args.connection.context.is_none() } else { !args.sim }
}
