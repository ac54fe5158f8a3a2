//! Waiting for Applications, and showing them then.

mod reasons;

use std::borrow::Borrow;
use std::cell::{Cell, RefCell};
use std::time::Duration;

use serde::Serialize;
use tidegate_application::approval::waiting;
use tidegate_application::refresh;
use tidegate_model::argo::{Application, OperationState};
use tidegate_model::{OperationId, OperationPhase, format_duration};
use tidegate_service::applications::store::AppKey;
use tidegate_service::direct::is_taken_up;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::chosen;
use super::desk::Desk;
use super::own::Own;
use super::way::Way;
use crate::args::{AppWaitArgs, EndArgs, Format};
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{Printer, Text, application};
use crate::signals::Signals;

use self::reasons::{Goal, Telling};

/// How long whoever waits for applications waits for somebody to serve them.
const SERVED_WITHIN: Duration = Duration::from_secs(10);
/// How long what an operation has done is waited for, to be shown: the comparison may take long.
const SEEN_WITHIN: Duration = Duration::from_secs(10);

/// An operation that was asked for, of an application.
pub(super) struct Asked {
    /// As people name the application.
    name: String,
    key: AppKey,
    own: Own,
    /// Since when it is over, but not yet compared.
    over_since: Cell<Option<Instant>>,
    /// What whoever waits was told that it waits for.
    told: RefCell<String>,
}

impl Asked {
    /// Nothing was asked for yet of an application that stands like this.
    pub fn before(name: &str, known: &Application) -> Self {
        let (over_since, told) = (Cell::new(None), RefCell::default());
        Self { name: name.to_owned(), key: AppKey::of(known), own: Own::before(known), over_since, told }
    }

    /// Whether nobody has to wait any longer for it.
    fn is_over(&self, way: &Way, application: &Application, printer: &Printer) -> bool {
        // Whoever waits is told what for, once for each plan.
        if let Some(words) = waiting(application).filter(|words| *self.told.borrow() != *words) {
            printer.note(words);
            words.clone_into(&mut self.told.borrow_mut());
        }
        self.own.look(application);
        way.not_taken(application).is_some()
            || self.own.is_followed(application)
            || is_over_soon(&self.over_since)(application)
    }
}

/// Waits for the end of operations that were asked for, if that is wished, and shows them.
pub(super) async fn finished(
    way: &Way,
    asked: &[Asked],
    (end, output): (&EndArgs, Format),
    printer: &Printer,
) -> Result<Ended, CliError> {
    let names: Vec<String> = asked.iter().map(|one| one.name.clone()).collect();
    if end.is_async {
        return begun(way, &names, output, printer).await;
    }
    let doubt = way.doubt(printer);
    let is_over = |application: &Application| {
        doubt.look(is_taken_up(application));
        let of = asked.iter().find(|one| one.key == AppKey::of(application));
        of.is_none_or(|one| one.is_over(way, application, printer))
    };
    let found = match until(way, (&names, end.timeout), printer, is_over).await? {
        Waited::Met(found) => found,
        Waited::Left(left) => {
            match (output, left.as_slice()) {
                // It was never seen.
                (_, []) => {}
                (Format::Text, _) => show_all(&left, output, printer)?,
                (_, _) => shown(&left, output, printer)?,
            }
            return Ok(Ended::NotFinished);
        }
    };
    // In the order in which they were named.
    let of = |one| found.iter().find(|found| AppKey::of(found) == one);
    let over: Vec<(&Asked, &Application)> =
        asked.iter().filter_map(|one| Some((one, of(one.key.clone())?))).collect();
    if let [(_, only)] = over.as_slice()
        && let Some(why) = way.not_taken(only)
    {
        return Err(CliError::refused(why));
    }
    shown(&over.iter().map(|(_, over)| *over).collect::<Vec<_>>(), output, printer)?;
    let mut ended = Vec::new();
    for (one, over) in over {
        ended.push(match (way.not_taken(over), one.own.gone(over)) {
            (Some(why), _) => {
                printer.error(&CliError::refused(format!("{}: {why}", one.name)));
                Ended::Refused
            }
            (None, Some(own)) => gone(way, own, printer).await?,
            (None, None) => {
                let state = over.status.operation_state.as_ref();
                Ended::Operation(state.map_or(OperationPhase::Error, |state| state.phase))
            }
        });
    }
    Ok(Ended::worst(ended))
}

/// Says how what was asked for can be waited for.
async fn begun(way: &Way, names: &[String], output: Format, printer: &Printer) -> Result<Ended, CliError> {
    if output == Format::Text {
        let names = names.join(" ");
        printer.note(&format!("asked for; `tidegate app wait {names} --operation` waits for its end"));
        return Ok(Ended::Done);
    }
    let mut all = Vec::new();
    for name in names {
        all.push(way.one(name, printer).await?);
    }
    shown(&all, output, printer)?;
    Ok(Ended::Done)
}

/// One application as it is shown by itself, several one after the other, or as a list of resources.
fn shown(
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
            printer.out(&text)
        }
        (format, [only]) => printer.value(only, format),
        (format, _) => printer.value(&application::document(found), format),
    }
}

/// How an operation has ended that was asked for, where its application tells of the one that follows it.
async fn gone(way: &Way, operation: OperationId, printer: &Printer) -> Result<Ended, CliError> {
    let Way::Service(desk) = way else {
        return Err(CliError::refused(format!(
            "operation {operation} is over, and another one has followed it; how it has ended its service knows, and no resource: `tidegate ops show {operation}` where that is at work"
        )));
    };
    let ended = desk.explain(printer, operation).await?;
    printer.note(&format!(
        "what was asked for is over, and another operation has followed it: operation {operation}: {}",
        ended.summary
    ));
    Ok(Ended::Operation(ended.phase))
}

/// Nothing is under way, and what the last operation did has been seen. That is not awaited of one that has failed: the
/// comparison may hang on the very thing that it has failed at.
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

/// The same of the operation that is waited for; but for a comparison only a while, counted from when it was first found to be
/// over.
fn is_over_soon(since: &Cell<Option<Instant>>) -> impl Fn(&Application) -> bool {
    move |application| {
        if is_over(application) {
            return true;
        }
        if application.operation.is_some() {
            return false;
        }
        let first = since.get().unwrap_or_else(Instant::now);
        since.set(Some(first));
        first.elapsed() >= SEEN_WITHIN
    }
}

pub(super) async fn wait(args: &AppWaitArgs, printer: &Printer) -> Result<Ended, CliError> {
    let way = Way::of(&args.way, printer).await?;
    let telling = Telling::new(Goal::of(args), printer);
    let names = chosen(&way, (&args.names, &args.which), printer).await?;
    let asking = until(&way, (&names, args.timeout), printer, |application| telling.look(application));
    let waited = tokio::select! {
        waited = asking => waited?,
        never = telling.keep_telling::<Waited>() => never,
    };
    let (found, ended) = match waited {
        Waited::Met(found) => (found, Ended::Done),
        Waited::Left(left) => {
            telling.tell_left(&left);
            (left, Ended::NotFinished)
        }
    };
    show_all(&found, args.output, printer)?;
    Ok(ended)
}

/// So long a first look may take, however short the wait is to be.
const LOOK: Duration = Duration::from_secs(30);

/// Returns when it was waited long enough, and looked once.
async fn late(timeout: Option<Duration>, looked: &Notify) {
    tokio::time::sleep(timeout.unwrap_or(Duration::MAX)).await;
    drop(tokio::time::timeout(LOOK, looked.notified()).await);
}

/// What came of waiting.
pub(super) enum Waited {
    /// All are as they should be.
    Met(Vec<Application>),
    /// It took too long, or somebody has interrupted it, which was told; those that were not so, as far as they were seen.
    Left(Vec<Application>),
}

/// Asks until all that are named are as they should be.
pub(super) async fn until(
    way: &Way,
    (names, timeout): (&[String], Option<Duration>),
    printer: &Printer,
    is_met: impl Fn(&Application) -> bool,
) -> Result<Waited, CliError> {
    let mut signals = Signals::listen()?;
    let mut left = Vec::new();
    let looked = Notify::new();
    let asking = async {
        if let Way::Service(desk) = way {
            served(desk, printer).await?;
        }
        let mut sight = way.sight(names, printer);
        loop {
            let mut found = sight.look().await?;
            for name in names {
                if !found.iter().any(|one| is_meant(one, name)) {
                    return Err(way.absent(name).await);
                }
            }
            found.retain(|one| names.is_empty() || names.iter().any(|name| is_meant(one, name)));
            if found.is_empty() {
                return Err(CliError::usage(format!("{}: nothing to wait for", way.nowhere())));
            }
            left = found.iter().filter(|one| !is_met(one)).cloned().collect::<Vec<_>>();
            if left.is_empty() {
                return Ok(found);
            }
            looked.notify_one();
            sight.changed().await?;
        }
    };
    let why = tokio::select! {
        found = asking => return found.map(Waited::Met),
        signal = signals.next() => format!("interrupted by {signal}"),
        () = late(timeout, &looked) => {
            format!("not there after {}", format_duration(timeout.unwrap_or_default()))
        }
    };
    printer.warn(&why);
    Ok(Waited::Left(left))
}

/// Some applications, as they are listed.
pub(super) fn show_all(
    found: &[impl Borrow<Application> + Serialize],
    output: Format,
    printer: &Printer,
) -> Result<(), CliError> {
    match output {
        Format::Text => printer.out(&application::list(found, printer.width())),
        format => printer.value(&application::document(found), format),
    }
}

/// Waits a moment for a service that is about to begin.
async fn served(desk: &Desk, printer: &Printer) -> Result<(), CliError> {
    let begun = async {
        let mut is_told = false;
        while !desk.is_served().await? {
            if !std::mem::replace(&mut is_told, true) {
                let wait = format_duration(SERVED_WITHIN);
                printer
                    .note(&format!("no `tidegate serve` is at work here yet; waiting for one, up to {wait}"));
            }
            tokio::time::sleep(desk.pause()).await;
        }
        Ok(())
    };
    // Whoever asks next says that there is none.
    tokio::time::timeout(SERVED_WITHIN, begun).await.unwrap_or(Ok(()))
}

fn is_meant(application: &Application, text: &str) -> bool {
    AppKey::of(application).is_meant(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn after(phase: &str, reconciled_at: &str) -> Application {
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

    /// A comparison may hang on the very repository that an operation was ended for.
    #[test]
    fn what_has_failed_is_over_though_nothing_was_compared_since() {
        let (before, since) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:06Z");
        assert!(is_over(&after("Failed", before)) && is_over(&after("Error", before)));
        assert!(is_over(&after("Succeeded", since)) && !is_over(&after("Succeeded", before)));
        let mut under_way = after("Failed", before);
        under_way.operation = Some(under_way.status.operation_state.clone().unwrap().operation);
        assert!(!is_over(&under_way));
        let mut left_alone = after("Succeeded", before);
        left_alone.metadata.annotations.insert(refresh::SKIP_ANNOTATION.to_owned(), "true".to_owned());
        assert!(is_over(&left_alone), "it is compared no more");
    }

    #[test]
    fn what_was_compared_too_slowly_is_over_after_a_while() {
        let first = Cell::new(None);
        let slow = after("Succeeded", "2026-01-01T00:00:00Z");
        assert!(!is_over_soon(&first)(&slow));
        first.set(Instant::now().checked_sub(SEEN_WITHIN));
        assert!(is_over_soon(&first)(&slow));
    }
}
