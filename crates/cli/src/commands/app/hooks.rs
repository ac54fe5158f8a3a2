//! What the hooks of a sync write, while its end is waited for.

use std::pin::pin;
use std::time::Duration;

use tidegate_model::OperationId;
use tidegate_model::argo::Application;
use tidegate_service::applications::store::AppKey;
use tidegate_service::error::ServiceError;
use tidegate_service::lines::{ApplicationLine, OperationLine};

use super::desk::Desk;
use super::full_name;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::Printer;
use crate::output::hooks::HookLines;

/// How long after the end of a sync it is shown what its hooks have written last.
const READ_ON_FOR: Duration = Duration::from_secs(2);

/// Shows what hooks write until the operation has finished that was asked for; `known` is the application before it was.
pub async fn beside(
    desk: &Desk,
    known: &Application,
    finished: impl Future<Output = Result<Ended, CliError>>,
    printer: &Printer,
) -> Result<Ended, CliError> {
    let mut following = pin!(follow(desk, known, printer));
    let mut finished = pin!(finished);
    tokio::select! {
        ended = &mut finished => {
            let _ = tokio::time::timeout(READ_ON_FOR, following).await;
            ended
        }
        followed = &mut following => {
            // That it cannot be shown does not keep the sync from its end.
            if let Err(error) = followed {
                printer.warn(&format!("what hooks write is not shown any more: {error}"));
            }
            finished.await
        }
    }
}

fn newest(application: &Application) -> Option<(OperationId, OperationLine)> {
    ApplicationLine::from(application).operation.and_then(|operation| Some((operation.id?, operation)))
}

async fn follow(desk: &Desk, known: &Application, printer: &Printer) -> Result<(), CliError> {
    let before = newest(known).map(|(id, _)| id);
    let name = full_name(&AppKey::of(known));
    let mut lines = HookLines::default();
    loop {
        if let Some((id, operation)) = newest(&desk.one(&name, printer).await?)
            && before != Some(id)
        {
            match show(desk, id, &mut lines, printer).await {
                Ok(()) => return Ok(()),
                Err(Broke { error, told: true }) => return Err(error),
                // The application names its operation before the log has it: until it is planned there is nothing to follow.
                Err(Broke { error, told: false }) if operation.finished_at.is_some() => return Err(error),
                Err(Broke { told: false, .. }) => {}
            }
        }
        tokio::time::sleep(desk.pause()).await;
    }
}

/// Output that cannot be shown, or not any more.
struct Broke {
    error: CliError,
    /// Whether some was shown.
    told: bool,
}

/// Shows what the hooks of an operation write, to their end.
async fn show(
    desk: &Desk,
    operation: OperationId,
    lines: &mut HookLines,
    printer: &Printer,
) -> Result<(), Broke> {
    let broke = |told| move |error: ServiceError| Broke { error: error.into(), told };
    let mut output = desk.follow_output(operation).await.map_err(broke(false))?;
    let mut told = false;
    while let Some(document) = output.next().await.map_err(broke(told))? {
        printer.talk(&lines.text(&document));
        told = true;
    }
    Ok(())
}
