//! What the hooks of a sync write, while its end is waited for.

use std::pin::pin;
use std::time::Duration;

use tidegate_model::OperationId;
use tidegate_model::argo::Application;
use tidegate_service::applications::store::AppKey;
use tidegate_service::lines::ApplicationLine;

use super::desk::Desk;
use super::one;
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

fn id(application: &Application) -> Option<OperationId> {
    ApplicationLine::from(application).operation.and_then(|operation| operation.id)
}

async fn follow(desk: &Desk, known: &Application, printer: &Printer) -> Result<(), CliError> {
    let (before, AppKey { namespace, name }) = (id(known), AppKey::of(known));
    let name = if namespace.is_empty() { name } else { format!("{namespace}/{name}") };
    let operation = loop {
        let now = id(&one(desk, &name, printer).await?);
        match now.filter(|now| Some(*now) != before) {
            Some(operation) => break operation,
            None => tokio::time::sleep(desk.pause()).await,
        }
    };
    let (mut output, mut lines) = (desk.follow_output(operation).await?, HookLines::default());
    while let Some(document) = output.next().await? {
        printer.talk(&lines.text(&document));
    }
    Ok(())
}
