//! Shows hook output while waiting for a sync.

use std::pin::pin;
use std::time::Duration;

use tidegate_application::AppKey;
use tidegate_model::OperationId;
use tidegate_model::argo::Application;
use tidegate_state::error::ServiceError;
use tidegate_state::summaries::{ApplicationSummary, OperationSummary};

use super::full_name;
use super::service_client::ServiceClient;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::Printer;
use crate::output::hooks::HookLines;

/// Time to keep showing hook output after a sync has finished.
const OUTPUT_GRACE_PERIOD: Duration = Duration::from_secs(2);

/// Shows hook output until the requested operation finishes. `known` is the application's state before the
/// request.
pub async fn show_while_waiting(
    client: &ServiceClient,
    known: &Application,
    finished: impl Future<Output = Result<CommandOutcome, CliError>>,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let mut following = pin!(follow_new_operation(client, known, printer));
    let mut finished = pin!(finished);
    tokio::select! {
        ended = &mut finished => {
            let _ = tokio::time::timeout(OUTPUT_GRACE_PERIOD, following).await;
            ended
        }
        followed = &mut following => {
            // The sync continues even if its output can't be shown.
            if let Err(error) = followed {
                printer.warn(&format!("hook output is no longer shown: {error}"));
            }
            finished.await
        }
    }
}

fn newest_operation(application: &Application) -> Option<(OperationId, OperationSummary)> {
    ApplicationSummary::from(application).operation.and_then(|operation| Some((operation.id?, operation)))
}

async fn follow_new_operation(
    client: &ServiceClient,
    known: &Application,
    printer: &Printer,
) -> Result<(), CliError> {
    let before = newest_operation(known).map(|(id, _)| id);
    let name = full_name(&AppKey::of(known));
    let mut lines = HookLines::default();
    loop {
        if let Some((id, operation)) = newest_operation(&client.get(&name, printer).await?)
            && before != Some(id)
        {
            match show_output(client, id, &mut lines, printer).await {
                Ok(()) => return Ok(()),
                Err(HookOutputError { error, has_shown_output: true }) => return Err(error),
                // The application's status has the operation before the log does. No output exists before the
                // operation is planned.
                Err(HookOutputError { error, has_shown_output: false })
                    if operation.finished_at.is_some() =>
                {
                    return Err(error);
                }
                Err(HookOutputError { has_shown_output: false, .. }) => {}
            }
        }
        tokio::time::sleep(client.poll_interval()).await;
    }
}

/// Failure to show hook output.
struct HookOutputError {
    error: CliError,
    /// True if some output was shown.
    has_shown_output: bool,
}

/// Shows all output of an operation's hooks.
async fn show_output(
    client: &ServiceClient,
    operation: OperationId,
    lines: &mut HookLines,
    printer: &Printer,
) -> Result<(), HookOutputError> {
    let broke = |has_shown_output| {
        move |error: ServiceError| HookOutputError { error: error.into(), has_shown_output }
    };
    let mut output = client.follow_output(operation).await.map_err(broke(false))?;
    let mut has_shown = false;
    while let Some(document) = output.next().await.map_err(broke(has_shown))? {
        printer.print_message(&lines.format_line(&document));
        has_shown = true;
    }
    Ok(())
}
