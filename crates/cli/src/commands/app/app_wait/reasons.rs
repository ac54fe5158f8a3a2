//! Reasons a command is still waiting for Applications. Prints each only once.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_application::AppKey;
use tidegate_application::{automated, refresh};
use tidegate_applicationset::ownership::owning_appset;
use tidegate_model::argo::{Application, ApplicationCondition, SyncStatusCode};
use tidegate_model::{HealthStatus, OperationPhase};
use tidegate_state::summaries::{ApplicationSummary, OperationSummary};
use tokio::time::Instant;

use super::is_over;
use crate::args::AppWaitArgs;
use crate::output::{Printer, one_line};

/// Minimum duration of a transient reason before it is printed.
const TRANSIENT_REASON_MIN: Duration = Duration::from_secs(5);
/// Interval for checking the duration of reasons, even if the application hasn't changed.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of reasons to print per application. Some reasons change their text every time.
const PRINTED_REASONS_MAX: usize = 20;
/// Maximum number of applications to print with their reasons at the end of the wait.
const REMAINING_PRINTED_MAX: usize = 20;

/// Conditions to wait for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    /// True if the applications must be Synced.
    sync: bool,
    /// True if the applications must be Healthy.
    health: bool,
    /// True if no operation may be running.
    operation: bool,
}

impl Goal {
    /// Returns the conditions selected by the arguments, or all of them if none are selected.
    pub fn from_args(args: &AppWaitArgs) -> Self {
        let all = !(args.sync || args.health || args.operation);
        Self { sync: all || args.sync, health: all || args.health, operation: all || args.operation }
    }

    fn is_met(self, application: &Application) -> bool {
        (!self.sync || sync(application) == SyncStatusCode::Synced)
            && (!self.health || health(application) == HealthStatus::Healthy)
            && (!self.operation || is_over(application))
    }
}

fn sync(application: &Application) -> SyncStatusCode {
    application.status.sync.as_ref().map(|sync| sync.status).unwrap_or_default()
}

fn health(application: &Application) -> HealthStatus {
    application.status.health.as_ref().map_or(HealthStatus::Unknown, |health| health.status)
}

/// Printer for the reasons that applications don't meet the goal yet.
pub(super) struct ReasonPrinter<'a> {
    goal: Goal,
    printer: &'a Printer,
    tracker: RefCell<ReasonTracker>,
}

impl<'a> ReasonPrinter<'a> {
    pub fn new(goal: Goal, printer: &'a Printer) -> Self {
        Self { goal, printer, tracker: RefCell::default() }
    }

    /// Returns true if the application meets the goal. If not, records the reasons. Prints each reason once
    /// it is due to be reported.
    pub fn observe(&self, application: &Application) -> bool {
        let is_met = self.goal.is_met(application);
        let found = if is_met { Vec::new() } else { reasons(application, self.goal) };
        self.tracker.borrow_mut().update(AppKey::of(application), found, Instant::now());
        self.print_due();
        is_met
    }

    /// Prints reasons that have lasted long enough while the command waits. Never returns.
    pub async fn print_periodically<T>(&self) -> T {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            self.print_due();
        }
    }

    /// Prints why the remaining applications don't meet the goal.
    pub fn print_remaining(&self, left: &[Application]) {
        left.iter().take(REMAINING_PRINTED_MAX).for_each(|one| self.printer.note(&format_status_line(one)));
        let more = left.len().saturating_sub(REMAINING_PRINTED_MAX);
        if more > 0 {
            self.printer.note(&format!("and {more} more"));
        }
    }

    fn print_due(&self) {
        let due = self.tracker.borrow_mut().take_due(Instant::now());
        due.iter().for_each(|text| self.printer.note(text));
    }
}

/// Current and printed reasons.
#[derive(Default)]
struct ReasonTracker {
    /// Current reasons of each application, and the start of each.
    current: BTreeMap<AppKey, Vec<(Reason, Instant)>>,
    printed: BTreeMap<AppKey, BTreeSet<String>>,
}

impl ReasonTracker {
    /// Records the current reasons of an application.
    fn update(&mut self, key: AppKey, found: Vec<Reason>, now: Instant) {
        let before = self.current.remove(&key).unwrap_or_default();
        let since =
            |reason: &Reason| before.iter().find(|(one, _)| one == reason).map_or(now, |(_, since)| *since);
        let found = found.into_iter().map(|reason| {
            let since = since(&reason);
            (reason, since)
        });
        let found: Vec<_> = found.collect();
        if !found.is_empty() {
            self.current.insert(key, found);
        }
    }

    /// Returns the reasons that are due to be reported: lasting ones immediately, others after
    /// [`TRANSIENT_REASON_MIN`]. Each text is returned only once.
    fn take_due(&mut self, now: Instant) -> Vec<String> {
        let mut due = Vec::new();
        for (key, reasons) in &self.current {
            let printed = self.printed.entry(key.clone()).or_default();
            for (reason, since) in reasons {
                let is_due = reason.is_lasting || now.duration_since(*since) >= TRANSIENT_REASON_MIN;
                if is_due && printed.len() < PRINTED_REASONS_MAX && printed.insert(reason.text.clone()) {
                    due.push(reason.text.clone());
                }
            }
        }
        due
    }
}

/// A reason an application doesn't meet the goal.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reason {
    text: String,
    /// True if the reason usually lasts. Others are printed only after [`TRANSIENT_REASON_MIN`].
    is_lasting: bool,
}

/// Returns the application's errors, the reason the controller skips it, and the first applicable transient
/// reason.
fn reasons(application: &Application, goal: Goal) -> Vec<Reason> {
    let name = AppKey::of(application);
    let left_alone = refresh::skip_reason(application);
    let errors = application.status.conditions.iter().filter(|one| one.kind.is_error());
    let errors = errors.map(|one| format!("{name}: {}", condition_message(one)));
    let mut all: Vec<Reason> =
        left_alone.into_iter().chain(errors).map(|text| Reason { text, is_lasting: true }).collect();
    let operation = ApplicationSummary::from(application).operation;
    let under_way = operation.as_ref().filter(|one| one.finished_at.is_none());
    let first = match under_way {
        Some(under_way) => Some(operation_message(under_way)),
        None if !all.is_empty() => None,
        None => idle_reason(application, operation.as_ref(), goal),
    };
    all.extend(first.map(|text| Reason { text: format!("{name}: {text}"), is_lasting: false }));
    all
}

/// Returns the reason for waiting for an application without a running operation or errors.
fn idle_reason(application: &Application, last: Option<&OperationSummary>, goal: Goal) -> Option<String> {
    let warning = application.status.conditions.first().map(condition_message);
    let failed = last.filter(|last| last.phase != OperationPhase::Succeeded).map(operation_message);
    let (sync, health) = (sync(application), health(application));
    let unsynced = (goal.sync && sync != SyncStatusCode::Synced).then(|| describe_sync(application, sync));
    let unwell = (goal.health && health != HealthStatus::Healthy).then(|| describe_health(application));
    let unseen = || "not compared since its last operation".to_owned();
    warning.or(failed).or(unsynced).or(unwell).or_else(|| goal.operation.then(unseen))
}

fn describe_sync(application: &Application, sync: SyncStatusCode) -> String {
    let is_manual = sync == SyncStatusCode::OutOfSync && automated(application).is_none();
    let name = AppKey::of(application);
    match owning_appset(application).filter(|_| is_manual) {
        Some(set) => format!(
            "{sync}, and automated sync is off; ApplicationSet {set} may sync it: see `tidegate appset \
             explain {set}`"
        ),
        None if is_manual => {
            format!("{sync}, and automated sync is off: use `tidegate app sync {name}`")
        }
        None => sync.to_string(),
    }
}

/// Formats an application's health and its reason, such as `Degraded: 0 of 2 are ready`.
fn describe_health(application: &Application) -> String {
    let message = application.status.health.as_ref().map(|health| health.message.as_str());
    match (health(application), message.unwrap_or_default()) {
        (health, "") => format!("{health:?}"),
        (health, message) => format!("{health:?}: {}", one_line(message)),
    }
}

fn condition_message(condition: &ApplicationCondition) -> String {
    format!("{}: {}", condition.kind, one_line(&condition.message))
}

fn operation_message(operation: &OperationSummary) -> String {
    let which = if operation.finished_at.is_some() { "last operation" } else { "operation" };
    format!("{which} {}: {}", operation.outcome, one_line(&operation.message))
}

/// Formats an application's state on one line: `backend: OutOfSync, Missing; ComparisonError: …`.
fn format_status_line(application: &Application) -> String {
    let conditions = &application.status.conditions;
    let gravest = conditions.iter().find(|one| one.kind.is_error()).or(conditions.first());
    let operation = ApplicationSummary::from(application).operation;
    let reason_printer = operation.filter(|one| one.phase != OperationPhase::Succeeded);
    let left_alone = || format!("skipped because of its {} annotation", refresh::SKIP_RECONCILE_ANNOTATION);
    let parts = [
        Some(format!("{}, {}", sync(application), describe_health(application))),
        refresh::is_skipped(application).then(left_alone),
        reason_printer.as_ref().map(operation_message),
        gravest.map(condition_message),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!("{}: {}", AppKey::of(application), parts.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ALL: Goal = Goal { sync: true, health: true, operation: true };

    fn application(annotations: &Value, status: &Value) -> Application {
        serde_json::from_value(json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": "a", "annotations": annotations},
            "spec": {"project": "default", "destination": {"name": "in-cluster"}},
            "status": status,
        }))
        .unwrap()
    }

    fn texts(application: &Application) -> Vec<(String, bool)> {
        let all = reasons(application, ALL).into_iter();
        all.map(|reason| (reason.text, reason.is_lasting)).collect()
    }

    #[test]
    fn lasting_reasons_print_at_once_and_transient_ones_after_a_moment() {
        let error = json!({"type": "ComparisonError", "message": "path \"nosuch\" does not exist"});
        let state = json!({
            "operation": {"sync": {}}, "phase": "Running", "message": "waiting for b",
            "startedAt": "2026-01-01T00:00:01Z",
        });
        let under_way = application(&json!({}), &json!({"conditions": [error], "operationState": state}));
        assert_eq!(
            texts(&under_way),
            [
                ("a: ComparisonError: path \"nosuch\" does not exist".to_owned(), true),
                ("a: operation Running: waiting for b".to_owned(), false),
            ]
        );
        let skip = json!({(refresh::SKIP_RECONCILE_ANNOTATION): "true"});
        let left_alone = texts(&application(&skip, &json!({})));
        assert!(left_alone.len() == 1 && left_alone[0].1, "{left_alone:?}");
        assert!(left_alone[0].0.contains("is skipped"), "{left_alone:?}");
        let manual = application(&json!({}), &json!({"sync": {"status": "OutOfSync"}}));
        let reasons = texts(&manual);
        assert!(
            reasons.len() == 1 && !reasons[0].1 && reasons[0].0.contains("`tidegate app sync a`"),
            "{reasons:?}"
        );
        let sick = json!({
            "sync": {"status": "Synced"}, "health": {"status": "Degraded", "message": "0 of 2 are ready"},
        });
        assert_eq!(
            texts(&application(&json!({}), &sick)),
            [("a: Degraded: 0 of 2 are ready".to_owned(), false)]
        );
    }

    #[test]
    fn each_reason_prints_once_and_a_short_one_never() {
        let key = || AppKey { namespace: "argocd".to_owned(), name: "a".to_owned() };
        let reason = |text: &str, is_lasting| Reason { text: text.to_owned(), is_lasting };
        let begin = Instant::now();
        let mut tracker = ReasonTracker::default();
        tracker.update(key(), vec![reason("error", true), reason("passing", false)], begin);
        assert_eq!(tracker.take_due(begin), ["error"]);
        tracker.update(key(), vec![reason("error", true), reason("staying", false)], begin);
        assert_eq!(tracker.take_due(begin + TRANSIENT_REASON_MIN / 2), [""; 0]);
        // The reason becomes due without a change to the application.
        assert_eq!(tracker.take_due(begin + TRANSIENT_REASON_MIN), ["staying"]);
        tracker.update(key(), Vec::new(), begin + TRANSIENT_REASON_MIN);
        tracker.update(
            key(),
            vec![reason("error", true), reason("staying", false)],
            begin + TRANSIENT_REASON_MIN,
        );
        assert_eq!(tracker.take_due(begin + TRANSIENT_REASON_MIN * 3), [""; 0], "each text once");
        // The number of printed reasons is limited, however often the text changes.
        let other = |number: usize| vec![reason(&number.to_string(), true)];
        let told_of = (0..PRINTED_REASONS_MAX * 2).map(|number| {
            tracker.update(key(), other(number), begin);
            tracker.take_due(begin).len()
        });
        assert_eq!(told_of.sum::<usize>(), PRINTED_REASONS_MAX - 2);
    }

    #[test]
    fn a_remaining_application_is_described_in_one_line() {
        let status = json!({
            "sync": {"status": "OutOfSync"}, "health": {"status": "Missing"},
            "conditions": [
                {"type": "SharedResourceWarning", "message": "shared"},
                {"type": "SyncError", "message": "failed\nagain"},
            ],
            "operationState": {
                "operation": {"sync": {}}, "phase": "Failed", "message": "no quota",
                "startedAt": "2026-01-01T00:00:01Z", "finishedAt": "2026-01-01T00:00:05Z",
            },
        });
        let skip = json!({(refresh::SKIP_RECONCILE_ANNOTATION): "true"});
        assert_eq!(
            format_status_line(&application(&skip, &status)),
            "a: OutOfSync, Missing; skipped because of its argocd.argoproj.io/skip-reconcile annotation; last operation Failed: no quota; SyncError: failed; again"
        );
    }
}
