//! `tidegate app explain`: why the operation of an Application is where it is, and why none is under way.

use serde::Serialize;
use tidegate_application::{approval, instance_name, operation};
use tidegate_applicationset::ownership::set_of;
use tidegate_model::OperationId;
use tidegate_model::argo::Application;
use tidegate_service::applications::store::AppKey;
use tidegate_service::control::protocol::{Reply, Request};
use tidegate_service::documents::ExplanationDocument;
use tidegate_service::lines::ApplicationLine;
use tidegate_service::{reach, route};

use super::desk::Desk;
use super::full_name;
use super::way::Way;
use crate::args::{Format, OneAppArgs};
use crate::commands::explain::show;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::standing::{Beside, OfSet, Standing};
use crate::output::{self, Printer};

/// The last operation, which is over, and how its application stands.
#[derive(Serialize)]
struct Over<'a> {
    /// Its fields are those of the document.
    #[serde(flatten)]
    explanation: &'a ExplanationDocument,
    standing: &'a Standing,
}

pub async fn run(args: &OneAppArgs, printer: &Printer) -> Result<Ended, CliError> {
    let way = Way::of(&args.way, printer).await?;
    let application = way.one(&args.name, printer).await?;
    if let (Some(waits), Format::Text) = (approval::waiting(&application), args.output) {
        printer.note(waits);
        return Ok(Ended::Done);
    }
    let line = ApplicationLine::from(&*application).operation;
    let is_over = line.as_ref().is_some_and(|operation| operation.finished_at.is_some());
    let (desk, id) = match (&way, line.and_then(|operation| operation.id)) {
        (Way::Service(desk), Some(id)) => (desk, id),
        (_, id) => {
            stands(args, &way, &application, printer).await?;
            if let (Some(id), Format::Text) = (id, args.output) {
                printer.note(&format!(
                    "its resource says no more than that; how far each wave of operation {id} is, and why, is in the log of the service: `tidegate app explain {} --server URL` asks that",
                    args.name
                ));
            }
            return Ok(Ended::Done);
        }
    };
    let explanation = match desk.explain(printer, id).await {
        Ok(explanation) => explanation,
        // Its id is written down before the log has it, and it may wait for its cluster until then. Or the record is gone by
        // now, and what came of it is in the status.
        Err(error) => {
            if operation::has_begun(&application) {
                printer.note(&format!("there is no more to know of operation {id}: {error}"));
            }
            return stands(args, &way, &application, printer).await;
        }
    };
    if is_over {
        let standing = standing(&way, &application, printer).await;
        return show_over(&Over { explanation: &explanation, standing: &standing }, args.output, printer);
    }
    let state_dir = match desk {
        Desk::Here(state_dir) => Some(state_dir),
        Desk::There(_) => None,
    };
    show(&explanation, args.output, state_dir, printer)
}

/// How the last operation has ended, and why no other one is under way.
fn show_over(over: &Over<'_>, format: Format, printer: &Printer) -> Result<Ended, CliError> {
    match format {
        Format::Text => {
            let mut text = output::operation::explain(over.explanation, printer.width());
            text.end_line();
            text.append(over.standing.rest());
            printer.out(&text)?;
        }
        format => printer.value(over, format)?,
    }
    Ok(Ended::Done)
}

/// How an application stands by what is known of it itself: all there is to know where no operation of it has begun.
async fn stands(
    args: &OneAppArgs,
    way: &Way,
    application: &Application,
    printer: &Printer,
) -> Result<Ended, CliError> {
    let standing = standing(way, application, printer).await;
    match args.output {
        Format::Text => printer.out(&standing.text())?,
        format => printer.value(&standing, format)?,
    }
    Ok(Ended::Done)
}

async fn standing(way: &Way, application: &Application, printer: &Printer) -> Standing {
    let operation = ApplicationLine::from(application).operation;
    let is_open = operation.as_ref().is_some_and(|operation| operation.finished_at.is_none());
    // The line says nothing of an id before the status does.
    let asked = application.operation.as_ref().and_then(operation::id);
    let (set, after) = match asked.filter(|_| !operation::has_begun(application)) {
        _ if !is_open => (of_set(way, application).await, None),
        Some(id) => (None, older(way, application, id, printer).await),
        None => (None, None),
    };
    let window = way.window(&AppKey::of(application)).await;
    Standing::of(application, operation, Beside { window, set, after })
}

/// The set that has an application synced step by step, as far as that can be asked.
async fn of_set(way: &Way, application: &Application) -> Option<OfSet> {
    let namespace = application.metadata.home().to_owned();
    let key = AppKey { namespace, name: set_of(application)?.to_owned() };
    let name = full_name(&key);
    let found = match way {
        Way::Service(Desk::Here(state_dir)) => reach::sets(state_dir, Some(&name)).await,
        Way::Service(Desk::There(remote)) => remote.sets(Some(&name)).await,
        Way::Cluster(_) => return Some(OfSet::unasked(&key)),
    };
    let Ok(found) = found else { return Some(OfSet::unasked(&key)) };
    let set = found.sets.iter().find(|set| AppKey::of_set(set) == key)?;
    OfSet::of(set, &found.options, application)
}

/// The oldest operation of an application that is not over and was begun before this one, which waits for that: it may be one of
/// `tidegate sync`.
async fn older(
    way: &Way,
    application: &Application,
    than: OperationId,
    printer: &Printer,
) -> Option<OperationId> {
    let app = instance_name(application);
    let open: Vec<OperationId> = match way {
        Way::Service(Desk::Here(state_dir)) => {
            let asked = Request::List { app: Some(app), open: true };
            let Ok(Reply::Operations(open)) = route::ask(state_dir, printer, asked).await else {
                return None;
            };
            let open = open.into_iter().filter(|one| one.unknown_kind.is_none());
            open.map(|one| one.operation).collect()
        }
        Way::Service(Desk::There(remote)) => remote.open_operations(&app).await.ok()?,
        Way::Cluster(_) => return None,
    };
    // Ids sort by time.
    open.into_iter().filter(|one| *one < than).min()
}
