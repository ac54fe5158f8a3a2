//! What somebody waits for who waits for Applications, in words: each thing once.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tidegate_application::{automated, refresh};
use tidegate_applicationset::ownership::set_of;
use tidegate_model::argo::{Application, ApplicationCondition, SyncStatusCode};
use tidegate_model::{HealthStatus, OperationPhase};
use tidegate_service::applications::store::AppKey;
use tidegate_service::lines::{ApplicationLine, OperationLine};
use tokio::time::Instant;

use super::is_over;
use crate::args::AppWaitArgs;
use crate::output::{Printer, one_line};

/// What may be over in a moment is told when it has lasted so long.
const MOMENT: Duration = Duration::from_secs(5);
/// How often it is looked whether something has lasted so long: nothing has to change for that.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// So much is told of one application at most: some words are others each time.
const TOLD_MAX: usize = 20;
/// Of so many applications it is said at the end why they are not as they should be; all of them are shown then.
const LEFT_MAX: usize = 20;

/// What is asked of those that are waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    /// They are Synced.
    sync: bool,
    /// They are Healthy.
    health: bool,
    /// Nothing is under way.
    operation: bool,
}

impl Goal {
    /// What the arguments ask for; all of it where they name nothing.
    pub fn of(args: &AppWaitArgs) -> Self {
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

/// Tells whoever waits what for.
pub(super) struct Telling<'a> {
    goal: Goal,
    printer: &'a Printer,
    told: RefCell<Told>,
}

impl<'a> Telling<'a> {
    pub fn new(goal: Goal, printer: &'a Printer) -> Self {
        Self { goal, printer, told: RefCell::default() }
    }

    /// Whether an application is as it should be; where it is not, what can be told of that is told.
    pub fn look(&self, application: &Application) -> bool {
        let is_met = self.goal.is_met(application);
        let found = if is_met { Vec::new() } else { reasons(application, self.goal) };
        self.told.borrow_mut().look(AppKey::of(application), found, Instant::now());
        self.tell();
        is_met
    }

    /// Tells what has lasted for long enough, for as long as somebody waits. It never returns.
    pub async fn keep_telling<T>(&self) -> T {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.tell();
        }
    }

    /// Says why those that are left are not as they should be.
    pub fn tell_left(&self, left: &[Application]) {
        left.iter().take(LEFT_MAX).for_each(|one| self.printer.note(&standing(one)));
        let more = left.len().saturating_sub(LEFT_MAX);
        if more > 0 {
            self.printer.note(&format!("and {more} more"));
        }
    }

    fn tell(&self) {
        let due = self.told.borrow_mut().due(Instant::now());
        due.iter().for_each(|text| self.printer.note(text));
    }
}

/// What there is to tell, and what was told.
#[derive(Default)]
struct Told {
    /// Why each application is not as it should be, and since when.
    found: BTreeMap<AppKey, Vec<(Reason, Instant)>>,
    said: BTreeMap<AppKey, BTreeSet<String>>,
}

impl Told {
    /// Takes in why an application is not as it should be now.
    fn look(&mut self, key: AppKey, found: Vec<Reason>, now: Instant) {
        let before = self.found.remove(&key).unwrap_or_default();
        let since =
            |reason: &Reason| before.iter().find(|(one, _)| one == reason).map_or(now, |(_, since)| *since);
        let found = found.into_iter().map(|reason| {
            let since = since(&reason);
            (reason, since)
        });
        let found: Vec<_> = found.collect();
        if !found.is_empty() {
            self.found.insert(key, found);
        }
    }

    /// What is to be told now, each text once.
    fn due(&mut self, now: Instant) -> Vec<String> {
        let mut due = Vec::new();
        for (key, reasons) in &self.found {
            let said = self.said.entry(key.clone()).or_default();
            for (reason, since) in reasons {
                let is_due = reason.is_lasting || now.duration_since(*since) >= MOMENT;
                if is_due && said.len() < TOLD_MAX && said.insert(reason.text.clone()) {
                    due.push(reason.text.clone());
                }
            }
        }
        due
    }
}

/// Why an application is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reason {
    text: String,
    /// It does not go by itself in a moment, as a rule.
    is_lasting: bool,
}

/// Errors, and that it is left alone; and one thing beside that, which may be over in a moment: the first that there is.
fn reasons(application: &Application, goal: Goal) -> Vec<Reason> {
    let name = AppKey::of(application);
    let left_alone = refresh::left_alone(application);
    let errors = application.status.conditions.iter().filter(|one| one.kind.is_error());
    let errors = errors.map(|one| format!("{name}: {}", words(one)));
    let mut all: Vec<Reason> =
        left_alone.into_iter().chain(errors).map(|text| Reason { text, is_lasting: true }).collect();
    let operation = ApplicationLine::from(application).operation;
    let under_way = operation.as_ref().filter(|one| one.finished_at.is_none());
    let first = match under_way {
        Some(under_way) => Some(operation_words(under_way)),
        None if !all.is_empty() => None,
        None => idle(application, operation.as_ref(), goal),
    };
    all.extend(first.map(|text| Reason { text: format!("{name}: {text}"), is_lasting: false }));
    all
}

/// What is waited for of an application of which nothing is under way, and that has no error.
fn idle(application: &Application, last: Option<&OperationLine>, goal: Goal) -> Option<String> {
    let warning = application.status.conditions.first().map(words);
    let failed = last.filter(|last| last.phase != OperationPhase::Succeeded).map(operation_words);
    let (sync, health) = (sync(application), health(application));
    let unsynced = (goal.sync && sync != SyncStatusCode::Synced).then(|| unsynced(application, sync));
    let unwell = (goal.health && health != HealthStatus::Healthy).then(|| unwell(application));
    let unseen = || "its operation is over, and it was not compared since".to_owned();
    warning.or(failed).or(unsynced).or(unwell).or_else(|| goal.operation.then(unseen))
}

fn unsynced(application: &Application, sync: SyncStatusCode) -> String {
    let is_manual = sync == SyncStatusCode::OutOfSync && automated(application).is_none();
    let name = AppKey::of(application);
    match set_of(application).filter(|_| is_manual) {
        Some(set) => format!(
            "{sync}, and not synced by itself; whether ApplicationSet {set} has it synced `tidegate appset explain {set}` says"
        ),
        None if is_manual => {
            format!("{sync}, and synced when somebody asks for that (`tidegate app sync {name}`)")
        }
        None => sync.to_string(),
    }
}

/// `Degraded: 0 of 2 are ready`.
fn unwell(application: &Application) -> String {
    let message = application.status.health.as_ref().map(|health| health.message.as_str());
    match (health(application), message.unwrap_or_default()) {
        (health, "") => format!("{health:?}"),
        (health, message) => format!("{health:?}: {}", one_line(message)),
    }
}

fn words(condition: &ApplicationCondition) -> String {
    format!("{}: {}", condition.kind, one_line(&condition.message))
}

fn operation_words(operation: &OperationLine) -> String {
    let which = if operation.finished_at.is_some() { "last operation" } else { "operation" };
    format!("{which} {}: {}", operation.phase, one_line(&operation.message))
}

/// How an application stands, in one line: `backend: OutOfSync, Missing; ComparisonError: …`.
fn standing(application: &Application) -> String {
    let conditions = &application.status.conditions;
    let gravest = conditions.iter().find(|one| one.kind.is_error()).or(conditions.first());
    let operation = ApplicationLine::from(application).operation;
    let telling = operation.filter(|one| one.phase != OperationPhase::Succeeded);
    let left_alone = || format!("left alone by its annotation {}", refresh::SKIP_ANNOTATION);
    let parts = [
        Some(format!("{}, {}", sync(application), unwell(application))),
        refresh::is_skipped(application).then(left_alone),
        telling.as_ref().map(operation_words),
        gravest.map(words),
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
    fn errors_and_what_is_left_alone_are_told_at_once_and_the_rest_after_a_moment() {
        let error = json!({"type": "ComparisonError", "message": "path \"nosuch\" is not there"});
        let state = json!({
            "operation": {"sync": {}}, "phase": "Running", "message": "waiting for b",
            "startedAt": "2026-01-01T00:00:01Z",
        });
        let under_way = application(&json!({}), &json!({"conditions": [error], "operationState": state}));
        assert_eq!(
            texts(&under_way),
            [
                ("a: ComparisonError: path \"nosuch\" is not there".to_owned(), true),
                ("a: operation Running: waiting for b".to_owned(), false),
            ]
        );
        let skip = json!({(refresh::SKIP_ANNOTATION): "true"});
        let left_alone = texts(&application(&skip, &json!({})));
        assert!(left_alone.len() == 1 && left_alone[0].1, "{left_alone:?}");
        assert!(left_alone[0].0.contains("is left alone"), "{left_alone:?}");
        let manual = application(&json!({}), &json!({"sync": {"status": "OutOfSync"}}));
        let told = texts(&manual);
        assert!(told.len() == 1 && !told[0].1 && told[0].0.contains("`tidegate app sync a`"), "{told:?}");
        let sick = json!({
            "sync": {"status": "Synced"}, "health": {"status": "Degraded", "message": "0 of 2 are ready"},
        });
        assert_eq!(
            texts(&application(&json!({}), &sick)),
            [("a: Degraded: 0 of 2 are ready".to_owned(), false)]
        );
    }

    #[test]
    fn each_text_is_told_once_and_what_goes_in_a_moment_is_not_told() {
        let key = || AppKey { namespace: "argocd".to_owned(), name: "a".to_owned() };
        let reason = |text: &str, is_lasting| Reason { text: text.to_owned(), is_lasting };
        let begin = Instant::now();
        let mut told = Told::default();
        told.look(key(), vec![reason("error", true), reason("passing", false)], begin);
        assert_eq!(told.due(begin), ["error"]);
        told.look(key(), vec![reason("error", true), reason("staying", false)], begin);
        assert_eq!(told.due(begin + MOMENT / 2), [""; 0]);
        // Nothing has to change for that.
        assert_eq!(told.due(begin + MOMENT), ["staying"]);
        told.look(key(), Vec::new(), begin + MOMENT);
        told.look(key(), vec![reason("error", true), reason("staying", false)], begin + MOMENT);
        assert_eq!(told.due(begin + MOMENT * 3), [""; 0], "each text once");
        // However often it has other words.
        let other = |number: usize| vec![reason(&number.to_string(), true)];
        let told_of = (0..TOLD_MAX * 2).map(|number| {
            told.look(key(), other(number), begin);
            told.due(begin).len()
        });
        assert_eq!(told_of.sum::<usize>(), TOLD_MAX - 2);
    }

    #[test]
    fn what_is_left_says_in_one_line_how_it_stands() {
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
        let skip = json!({(refresh::SKIP_ANNOTATION): "true"});
        assert_eq!(
            standing(&application(&skip, &status)),
            "a: OutOfSync, Missing; left alone by its annotation argocd.argoproj.io/skip-reconcile; last operation Failed: no quota; SyncError: failed; again"
        );
    }
}
