//! `tidegate app explain`: shows the state of an Application's operation, or why no operation is running.

use serde::Serialize;
use tidegate_application::AppKey;
use tidegate_application::{approval, instance_name, operation};
use tidegate_applicationset::ownership::owning_appset;
use tidegate_daemon::{application_access, operation_access};
use tidegate_model::OperationId;
use tidegate_model::argo::Application;
use tidegate_state::summaries::ApplicationSummary;
use tidegate_views::ExplanationDocument;
use tidegate_views::protocol::{Reply, Request};

use super::full_name;
use super::service_client::ServiceClient;
use super::transport::Transport;
use crate::args::{Format, SingleAppArgs};
use crate::commands::explain::show;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::idle_status::{ControllingAppSet, ExternalState, IdleStatus};
use crate::output::{self, Printer};

/// The last operation, which has finished, and the state of its application.
#[derive(Serialize)]
struct EndedOperation<'a> {
    /// Explanation, flattened into this document.
    #[serde(flatten)]
    explanation: &'a ExplanationDocument,
    #[serde(rename = "applicationStatus")]
    standing: &'a IdleStatus,
}

pub async fn run(args: &SingleAppArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let transport = Transport::from_args(&args.transport, printer).await?;
    let application = transport.get(&args.name, printer).await?;
    if let (Some(waits), Format::Text) = (approval::approval_condition_message(&application), args.output) {
        printer.note(waits);
        printer.print(&output::format_next_action(
            &get_idle_status(&transport, &application, printer).await.next_action(),
        ))?;
        return Ok(CommandOutcome::Done);
    }
    let line = ApplicationSummary::from(&*application).operation;
    let is_over = line.as_ref().is_some_and(|operation| operation.finished_at.is_some());
    let (client, id) = match (&transport, line.and_then(|operation| operation.id)) {
        (Transport::Service(client), Some(id)) => (client, id),
        (_, id) => {
            show_idle_status(args, &transport, &application, printer).await?;
            if let (Some(id), Format::Text) = (id, args.output) {
                printer.note(&format!(
                    "the Application resource contains no more details; for the state of each wave in operation {id}, \
                     query the service: `tidegate app explain {} --server URL`",
                    args.name
                ));
            }
            return Ok(CommandOutcome::Done);
        }
    };
    let explanation = match client.explain(printer, id).await {
        Ok(explanation) => explanation,
        // The status has the ID before the log has the operation, which may first wait for its cluster. After
        // compaction, only the status has the result.
        Err(error) => {
            if operation::has_started(&application) {
                printer.note(&format!("no details are available: {error}"));
            }
            return show_idle_status(args, &transport, &application, printer).await;
        }
    };
    if is_over {
        let standing = get_idle_status(&transport, &application, printer).await;
        let explanation = ExplanationDocument { next_action: standing.next_action(), ..explanation };
        return show_ended(
            &EndedOperation { explanation: &explanation, standing: &standing },
            args.output,
            printer,
        );
    }
    show(&explanation, args.output, printer)
}

/// Shows the last operation's result, and why no new one is running.
fn show_ended(
    over: &EndedOperation<'_>,
    format: Format,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    match format {
        Format::Text => {
            let mut text = output::operation::explain(over.explanation, printer.width());
            text.end_line();
            text.append(over.standing.details_text());
            text.append(output::format_next_action(&over.explanation.next_action));
            printer.print(&text)?;
        }
        format => printer.print_value(over, format)?,
    }
    Ok(CommandOutcome::Done)
}

/// Shows an application's state from its status, the only source before the first operation.
async fn show_idle_status(
    args: &SingleAppArgs,
    transport: &Transport,
    application: &Application,
    printer: &Printer,
) -> Result<CommandOutcome, CliError> {
    let standing = get_idle_status(transport, application, printer).await;
    match args.output {
        Format::Text => {
            let mut text = standing.text();
            text.append(output::format_next_action(&standing.next_action()));
            printer.print(&text)?;
        }
        format => printer.print_value(&standing, format)?,
    }
    Ok(CommandOutcome::Done)
}

async fn get_idle_status(transport: &Transport, application: &Application, printer: &Printer) -> IdleStatus {
    let operation = ApplicationSummary::from(application).operation;
    let is_open = operation.as_ref().is_some_and(|operation| operation.finished_at.is_none());
    // The request has the operation's ID before the summary does.
    let requested_id = application.operation.as_ref().and_then(operation::engine_id);
    let (appset, after) = match requested_id.filter(|_| !operation::has_started(application)) {
        _ if !is_open => (find_controlling_appset(transport, application).await, None),
        Some(id) => (None, find_blocking_operation(transport, application, id, printer).await),
        None => (None, None),
    };
    let window = transport.sync_window(&AppKey::of(application)).await;
    IdleStatus::new(application, operation, ExternalState { window, appset, after })
}

/// Returns the ApplicationSet that syncs the application step by step, if the service can be queried.
async fn find_controlling_appset(
    transport: &Transport,
    application: &Application,
) -> Option<ControllingAppSet> {
    let namespace = application.metadata.namespace_or_default().to_owned();
    let key = AppKey { namespace, name: owning_appset(application)?.to_owned() };
    let name = full_name(&key);
    let found = match transport {
        Transport::Service(ServiceClient::Local(state_dir)) => {
            application_access::list_appsets(state_dir, Some(&name)).await
        }
        Transport::Service(ServiceClient::Remote(remote)) => remote.appsets(Some(&name)).await,
        Transport::Cluster(_) => return Some(ControllingAppSet::unknown(&key)),
    };
    let Ok(found) = found else { return Some(ControllingAppSet::unknown(&key)) };
    let set = found.appsets.iter().find(|set| AppKey::of_appset(set) == key)?;
    ControllingAppSet::for_application(set, &found.options, application)
}

/// Returns the application's oldest open operation that must finish before the operation `than` starts.
/// `tidegate sync` may have started it.
async fn find_blocking_operation(
    transport: &Transport,
    application: &Application,
    than: OperationId,
    printer: &Printer,
) -> Option<OperationId> {
    let app = instance_name(application);
    let open: Vec<OperationId> = match transport {
        Transport::Service(ServiceClient::Local(state_dir)) => {
            let request = Request::List { app: Some(app), open: true };
            let Ok(Reply::Operations(open)) = operation_access::query(state_dir, printer, request).await
            else {
                return None;
            };
            let open = open.into_iter().filter(|one| one.unknown_kind.is_none());
            open.map(|one| one.operation).collect()
        }
        Transport::Service(ServiceClient::Remote(remote)) => remote.open_operations(&app).await.ok()?,
        Transport::Cluster(_) => return None,
    };
    // IDs sort by time.
    open.into_iter().filter(|one| *one < than).min()
}
