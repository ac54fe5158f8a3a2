//! Waits for Applications, and shows the result.

mod reasons;

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use tidegate_application::AppKey;
use tidegate_application::approval::approval_condition_message;
use tidegate_application::refresh;
use tidegate_daemon::direct_client::is_operation_accepted;
use tidegate_model::argo::{Application, OperationState};
use tidegate_model::{OperationId, OperationPhase, format_duration};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::pending_request::PendingRequest;
use super::select_names;
use super::service_client::ServiceClient;
use super::transport::Transport;
use crate::args::{AppWaitArgs, EndWaitArgs, Format};
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::{Printer, Text, application};
use crate::signals::Signals;

use self::reasons::{Goal, ReasonPrinter};

/// Time limit for the start of a service before a wait.
const SERVICE_START_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the comparison after an operation, since comparisons can be slow.
const COMPARISON_TIMEOUT: Duration = Duration::from_secs(10);

/// An operation requested for an application.
pub(super) struct AwaitedOperation {
    /// Name of the application as typed by the user.
    name: String,
    key: AppKey,
    pending_request: PendingRequest,
    /// Time when the operation was first seen finished, but without a comparison of the application.
    ended_at: Cell<Option<Instant>>,
    /// Last printed reason for waiting.
    printed_reason: RefCell<String>,
}

impl AwaitedOperation {
    /// Records the state of an application before the request.
    pub fn new(name: &str, known: &Application) -> Self {
        let (ended_at, printed_reason) = (Cell::new(None), RefCell::default());
        Self {
            name: name.to_owned(),
            key: AppKey::of(known),
            pending_request: PendingRequest::new(known),
            ended_at,
            printed_reason,
        }
    }

    /// Returns true if there is nothing left to wait for.
    fn is_over(&self, transport: &Transport, application: &Application, printer: &Printer) -> bool {
        // Print the reason for waiting only once per plan.
        if let Some(text) =
            approval_condition_message(application).filter(|text| *self.printed_reason.borrow() != *text)
        {
            printer.note(text);
            text.clone_into(&mut self.printed_reason.borrow_mut());
        }
        self.pending_request.observe(application);
        transport.rejection(application).is_some()
            || self.pending_request.has_successor(application)
            || is_over_within_timeout(&self.ended_at)(application)
    }
}

/// Waits until the requested operations have finished, unless the user chose not to wait, and shows them.
pub(super) async fn wait_until_finished(
    transport: &Transport,
    awaited: &[AwaitedOperation],
    end: &EndWaitArgs,
    output: Format,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let names: Vec<String> = awaited.iter().map(|one| one.name.clone()).collect();
    if end.is_async {
        return print_wait_command(transport, &names, output, printer).await;
    }
    let doubt = transport.pickup_check(printer);
    let is_over = |application: &Application| {
        doubt.check(is_operation_accepted(application));
        let of = awaited.iter().find(|one| one.key == AppKey::of(application));
        of.is_none_or(|one| one.is_over(transport, application, printer))
    };
    let found = match poll_until(transport, &names, end.timeout, printer, is_over).await? {
        GoalResult::Met(found) => found,
        GoalResult::Unmet(left) => {
            match (output, left.as_slice()) {
                // The timeout expired before the first observation.
                (_, []) => {}
                (Format::Text, _) => show_list(&left, output, printer)?,
                (_, _) => show_each(&left, output, printer)?,
            }
            return Ok(CommandOutcome::NotFinished);
        }
    };
    // Show the applications in the order of the command line.
    let of = |one| found.iter().find(|found| AppKey::of(found) == one);
    let over: Vec<(&AwaitedOperation, &Application)> =
        awaited.iter().filter_map(|one| Some((one, of(one.key.clone())?))).collect();
    if let [(_, only)] = over.as_slice()
        && let Some(reason) = transport.rejection(only)
    {
        return Err(CliError::refused(reason));
    }
    show_each(&over.iter().map(|(_, over)| *over).collect::<Vec<_>>(), output, printer)?;
    let mut ended = Vec::new();
    for (one, over) in over {
        ended.push(match (transport.rejection(over), one.pending_request.ended_operation(over)) {
            (Some(reason), _) => {
                printer.error(&CliError::refused(format!("{}: {reason}", one.name)));
                CommandOutcome::ClaimConflict
            }
            (None, Some(own)) => show_ended_operation(transport, own, printer).await?,
            (None, None) => {
                let state = over.status.operation_state.as_ref();
                CommandOutcome::Operation(state.map_or(OperationPhase::Error, |state| state.phase))
            }
        });
    }
    Ok(CommandOutcome::worst(ended))
}

/// Prints the command that waits for the requested operation, or the applications in JSON or YAML.
async fn print_wait_command(
    transport: &Transport,
    names: &[String],
    output: Format,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    if output == Format::Text {
        let names = names.join(" ");
        printer.note(&format!(
            "the operation was requested; to wait for the result, use `tidegate app wait {names} --operation`"
        ));
        return Ok(CommandOutcome::Done);
    }
    let mut all = Vec::new();
    for name in names {
        all.push(transport.get(name, printer).await?);
    }
    show_each(&all, output, printer)?;
    Ok(CommandOutcome::Done)
}

/// Shows the applications: as text one after another, otherwise as a single resource or a list.
fn show_each(
    found: &[impl Borrow<Application> + Serialize],
    output: Format,
    printer: &Printer,
) -> Result<(), CliError> {
    match (output, found) {
        (Format::Text, _) => {
            let mut text = Text::new();
            for (place, one) in found.iter().enumerate() {
                if place > 0 {
                    text.end_line();
                }
                text.append(application::show(one.borrow(), None, printer.width()));
            }
            printer.print(&text)
        }
        (format, [only]) => printer.print_value(only, format),
        (format, _) => printer.print_value(&application::document(found), format),
    }
}

/// Shows the result of a requested operation after the application has moved on to a newer one.
async fn show_ended_operation(
    transport: &Transport,
    operation: OperationId,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let Transport::Service(client) = transport else {
        return Err(CliError::refused(format!(
            "another operation has started since operation {operation} ended; to see the result of operation \
             {operation}, run `tidegate ops show {operation}` on the service's machine"
        )));
    };
    let ended = client.explain(printer, operation).await?;
    printer.note(&format!(
        "another operation has started since the requested operation ended; result of operation \
         {operation}: {}",
        ended.summary
    ));
    Ok(CommandOutcome::Operation(ended.phase))
}

/// Returns true if no operation is running and the application has been compared since the last one. A failed
/// operation doesn't need a comparison, because the cause of the failure may block that, too.
fn is_over(application: &Application) -> bool {
    let status = &application.status;
    let is_left_alone = refresh::is_skipped(application);
    let is_seen = |state: &OperationState| {
        let dry_run = state.operation.is_dry_run();
        let shows_nothing = dry_run || is_left_alone || state.phase != OperationPhase::Succeeded;
        state
            .finished_at
            .is_some_and(|at| shows_nothing || status.reconciled_at.is_some_and(|seen| seen >= at))
    };
    application.operation.is_none() && status.operation_state.as_ref().is_none_or(is_seen)
}

/// Like [`is_over`], but with a time limit for the comparison, starting when the operation is first seen
/// finished.
fn is_over_within_timeout(since: &Cell<Option<Instant>>) -> impl Fn(&Application) -> bool {
    move |application| {
        if is_over(application) {
            return true;
        }
        if application.operation.is_some() {
            return false;
        }
        let first = since.get().unwrap_or_else(Instant::now);
        since.set(Some(first));
        first.elapsed() >= COMPARISON_TIMEOUT
    }
}

pub(super) async fn wait(args: &AppWaitArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let transport = Transport::from_args(&args.transport, printer).await?;
    let reason_printer = ReasonPrinter::new(Goal::from_args(args), printer);
    let names = select_names(&transport, &args.names, &args.which, printer).await?;
    let poll = poll_until(&transport, &names, args.timeout, printer, |application| {
        reason_printer.observe(application)
    });
    let waited = tokio::select! {
        waited = poll => waited?,
        never = reason_printer.print_periodically::<GoalResult>() => never,
    };
    let (found, ended) = match waited {
        GoalResult::Met(found) => (found, CommandOutcome::Done),
        GoalResult::Unmet(left) => {
            reason_printer.print_remaining(&left);
            (left, CommandOutcome::NotFinished)
        }
    };
    show_list(&found, args.output, printer)?;
    Ok(ended)
}

/// Maximum time to wait for the first observation after a shorter timeout.
const FIRST_OBSERVATION_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns after the timeout, but not before the first observation.
async fn wait_for_timeout(timeout: Option<Duration>, observed: &Notify) {
    tokio::time::sleep(timeout.unwrap_or(Duration::MAX)).await;
    drop(tokio::time::timeout(FIRST_OBSERVATION_TIMEOUT, observed.notified()).await);
}

/// Result of a wait.
pub(super) enum GoalResult {
    /// All applications meet the goal.
    Met(Vec<Application>),
    /// The timeout expired, or the user interrupted the wait. The reason was printed. Contains the
    /// applications that hadn't met the goal when last observed.
    Unmet(Vec<Application>),
}

/// Polls until all named applications meet the goal.
pub(super) async fn poll_until(
    transport: &Transport,
    names: &[String],
    timeout: Option<Duration>,
    printer: &Printer,
    is_met: impl Fn(&Application) -> bool,
) -> Result<GoalResult, CliError> {
    let mut signals = Signals::listen()?;
    let mut left = Vec::new();
    let observed = Notify::new();
    let poll = async {
        if let Transport::Service(client) = transport {
            wait_for_service(client, printer).await?;
        }
        let mut observation = transport.watch(names, printer);
        loop {
            let mut found = observation.observe().await?;
            for name in names {
                if !found.iter().any(|one| is_named(one, name)) {
                    return Err(transport.not_found_error(name).await);
                }
            }
            if !names.is_empty() {
                let resolve = |name: &String| AppKey::resolve(found.iter().map(AppKey::of), name);
                let matching: BTreeSet<AppKey> = names.iter().flat_map(resolve).collect();
                found.retain(|one| matching.contains(&AppKey::of(one)));
            }
            if found.is_empty() {
                return Err(CliError::usage(format!(
                    "{}: nothing to wait for",
                    transport.describe_location()
                )));
            }
            left = found.iter().filter(|one| !is_met(one)).cloned().collect::<Vec<_>>();
            if left.is_empty() {
                return Ok(found);
            }
            observed.notify_one();
            observation.wait_for_change().await?;
        }
    };
    let reason = tokio::select! {
        found = poll => return found.map(GoalResult::Met),
        signal = signals.next() => format!("interrupted by {signal}"),
        () = wait_for_timeout(timeout, &observed) => {
            format!("timed out after {}", format_duration(timeout.unwrap_or_default()))
        }
    };
    printer.warn(&reason);
    Ok(GoalResult::Unmet(left))
}

/// Shows applications as a list.
pub(super) fn show_list(
    found: &[impl Borrow<Application> + Serialize],
    output: Format,
    printer: &Printer,
) -> Result<(), CliError> {
    match output {
        Format::Text => printer.print(&application::list(found, printer.width())),
        format => printer.print_value(&application::document(found), format),
    }
}

/// Waits briefly for a service that is still starting.
async fn wait_for_service(client: &ServiceClient, printer: &Printer) -> Result<(), CliError> {
    let started = async {
        let mut is_told = false;
        while !client.has_service().await? {
            if !std::mem::replace(&mut is_told, true) {
                let wait = format_duration(SERVICE_START_TIMEOUT);
                printer.note(&format!(
                    "`tidegate serve` is not running in this state directory yet; waiting up to {wait} for it to start"
                ));
            }
            tokio::time::sleep(client.poll_interval()).await;
        }
        Ok(())
    };
    // Without a service, the next request reports the problem.
    tokio::time::timeout(SERVICE_START_TIMEOUT, started).await.unwrap_or(Ok(()))
}

fn is_named(application: &Application, text: &str) -> bool {
    AppKey::of(application).matches(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn application_after_operation(phase: &str, reconciled_at: &str) -> Application {
        serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "a"},
            "spec": {"project": "default", "destination": {"name": "in-cluster"}},
            "status": {
                "reconciledAt": reconciled_at,
                "operationState": {
                    "operation": {"sync": {}}, "phase": phase,
                    "startedAt": "2026-01-01T00:00:01Z", "finishedAt": "2026-01-01T00:00:05Z",
                },
            },
        }))
        .unwrap()
    }

    /// A comparison may hang because of the same repository that blocked the terminated operation.
    #[test]
    fn a_failed_operation_is_over_without_a_later_comparison() {
        let (before, since) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:06Z");
        assert!(
            is_over(&application_after_operation("Failed", before))
                && is_over(&application_after_operation("Error", before))
        );
        assert!(
            is_over(&application_after_operation("Succeeded", since))
                && !is_over(&application_after_operation("Succeeded", before))
        );
        let mut under_way = application_after_operation("Failed", before);
        under_way.operation = Some(under_way.status.operation_state.clone().unwrap().operation);
        assert!(!is_over(&under_way));
        let mut left_alone = application_after_operation("Succeeded", before);
        left_alone
            .metadata
            .annotations
            .insert(refresh::SKIP_RECONCILE_ANNOTATION.to_owned(), "true".to_owned());
        assert!(is_over(&left_alone), "skipped applications are not compared");
    }

    #[test]
    fn a_slow_comparison_is_awaited_only_for_a_limited_time() {
        let first = Cell::new(None);
        let slow = application_after_operation("Succeeded", "2026-01-01T00:00:00Z");
        assert!(!is_over_within_timeout(&first)(&slow));
        first.set(Instant::now().checked_sub(COMPARISON_TIMEOUT));
        assert!(is_over_within_timeout(&first)(&slow));
    }
}
