//! Applications for people, and as the lists that programs know.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use tidegate_application::dependencies::DEPENDS_ON;
use tidegate_application::operation::reason;
use tidegate_application::sources::revisions;
use tidegate_application::{automated, deletion, refresh};
use tidegate_model::HealthStatus;
use tidegate_model::argo::{Application, ApplicationSource, ResourceStatus, RevisionHistory, Time};
use tidegate_service::lines::WindowLine;

use super::{Style, Text, one_line, table};

/// Digits of a commit that tell it from others.
const SHORT: usize = 7;

/// As `kubectl get -o json` prints a list.
pub fn document(applications: &[impl Serialize]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": applications})
}

/// One line for each.
pub fn list(applications: &[impl Borrow<Application>], width: Option<u16>) -> Text {
    let rows = applications.iter().map(|one| {
        let one = one.borrow();
        let source = one.sources().first().cloned().unwrap_or_default();
        [
            name(one),
            cluster(one),
            one.spec.destination.namespace.clone(),
            or(&one.spec.project, "default"),
            sync(one),
            health(one),
            policy(one).to_owned(),
            conditions(one),
            and_others(source.repo_url.clone(), one),
            folder(&source).to_owned(),
            source.target_revision,
        ]
    });
    let heads = [
        "NAME",
        "CLUSTER",
        "NAMESPACE",
        "PROJECT",
        "STATUS",
        "HEALTH",
        "SYNCPOLICY",
        "CONDITIONS",
        "REPO",
        "PATH",
        "TARGET",
    ];
    table(heads, rows, width)
}

/// All that is known of one, and what its sync windows say.
pub fn show(application: &Application, window: Option<&WindowLine>, width: Option<u16>) -> Text {
    let status = &application.status;
    let mut text = Text::new();
    let mut line = |label: &str, value: String| {
        if !value.is_empty() {
            text.add(Style::Dim, format!("{label:<16}"));
            text.add(Style::Plain, one_line(&value));
            text.end_line();
        }
    };
    line("Name:", name(application));
    line("Project:", or(&application.spec.project, "default"));
    line("Destination:", format!("{} {}", cluster(application), application.spec.destination.namespace));
    for source in application.sources() {
        line("Source:", shown(source));
    }
    line("Sync Policy:", policy(application).to_owned());
    line("Sync Window:", window.map(ToString::to_string).unwrap_or_default());
    line("Depends On:", application.annotation(DEPENDS_ON).unwrap_or_default().to_owned());
    line("Deleting:", deleting(application));
    line("Left Alone:", refresh::left_alone(application).unwrap_or_default());
    let revision =
        status.sync.as_ref().map(|sync| short(&sync.revision, &sync.revisions)).unwrap_or_default();
    let targets = application.sources().iter().map(|source| or(&source.target_revision, "HEAD"));
    let target = targets.collect::<Vec<_>>().join(" ");
    let revision = if revision.is_empty() { revision } else { format!(" ({revision})") };
    line("Sync Status:", format!("{} with {target}{revision}", sync(application)));
    line("Health Status:", health(application));
    line("Compared:", time(status.reconciled_at));
    if let Some(last) = &status.operation_state {
        let by = match last.operation.initiated_by.name() {
            "" => String::new(),
            by => format!(" by {by}"),
        };
        let dry = if last.operation.is_dry_run() { " (dry run)" } else { "" };
        line("Operation:", format!("{}{dry}{by}: {}", last.phase, last.message));
        line("  Reason:", reason(&last.operation).to_owned());
        let result = last.sync_result.as_ref();
        let revision = result.map(|result| short(&result.revision, &result.revisions)).unwrap_or_default();
        line("  Revision:", revision);
        line("  Started:", time(Some(last.started_at)));
        line("  Finished:", time(last.finished_at));
    }
    if !status.conditions.is_empty() {
        text.end_line();
        let rows = status
            .conditions
            .iter()
            .map(|one| [one.kind.to_string(), one.message.clone(), time(one.last_transition_time)]);
        text.append(table(["CONDITION", "MESSAGE", "SINCE"], rows, width));
    }
    let reasons = reasons(application);
    if !reasons.is_empty() {
        text.end_line();
        text.append(table(["OBJECT", "STATE", "REASON"], reasons, width));
    }
    if !status.resources.is_empty() {
        text.end_line();
        text.append(table(
            ["GROUP", "KIND", "NAMESPACE", "NAME", "WAVE", "STATUS", "HEALTH"],
            status.resources.iter().map(resource),
            width,
        ));
    }
    text
}

/// Why it is not well: what failed in the last operation, and objects that are not healthy.
fn reasons(application: &Application) -> Vec<[String; 3]> {
    let status = &application.status;
    let result = status.operation_state.as_ref().and_then(|state| state.sync_result.as_ref());
    let failed = result.into_iter().flat_map(|result| &result.resources).filter_map(|one| {
        let state = match one.hook_phase.as_str() {
            phase @ ("Failed" | "Error") if !one.hook_type.is_empty() => {
                format!("{} hook {phase}", one.hook_type)
            }
            _ if one.status == "SyncFailed" => one.status.clone(),
            _ => return None,
        };
        Some([object(&one.kind, &one.namespace, &one.name), state, one.message.clone()])
    });
    let ill = status.resources.iter().filter_map(|one| {
        let health = one.health.as_ref().filter(|health| health.status != HealthStatus::Healthy)?;
        let is_said = health.status != HealthStatus::Missing || !health.message.is_empty();
        let state = format!("{:?}", health.status);
        is_said.then(|| [object(&one.kind, &one.namespace, &one.name), state, health.message.clone()])
    });
    failed.chain(ill).collect()
}

/// Its wave; of what goes, the one in which it goes, which is another one.
fn wave(one: &ResourceStatus) -> String {
    match one.rest.get("pruneWave").and_then(Value::as_i64) {
        Some(pruned) => format!("{} (pruned in {pruned})", one.sync_wave),
        None => one.sync_wave.to_string(),
    }
}

fn object(kind: &str, namespace: &str, name: &str) -> String {
    if namespace.is_empty() { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// The syncs that succeeded, oldest first.
pub fn history(entries: &[RevisionHistory], width: Option<u16>) -> Text {
    let rows = entries.iter().map(|one| {
        let by = one.initiated_by.name();
        let revision = revisions(&one.revision, &one.revisions).join(" ");
        [one.id.to_string(), time(Some(one.deployed_at)), revision, by.to_owned()]
    });
    table(["ID", "DATE", "REVISION", "BY"], rows, width)
}

fn resource(one: &ResourceStatus) -> [String; 7] {
    let status = one.status.map(|status| status.to_string()).unwrap_or_default();
    let pruned = if one.requires_pruning { " (requires pruning)" } else { "" };
    let health = one.health.as_ref().map(|health| format!("{:?}", health.status)).unwrap_or_default();
    [
        one.group.clone(),
        one.kind.clone(),
        one.namespace.clone(),
        one.name.clone(),
        wave(one),
        format!("{status}{pruned}"),
        health,
    ]
}

pub(super) fn name(application: &Application) -> String {
    let metadata = &application.metadata;
    match metadata.namespace.as_str() {
        "" => metadata.name.clone(),
        namespace => format!("{namespace}/{}", metadata.name),
    }
}

fn cluster(application: &Application) -> String {
    let destination = &application.spec.destination;
    if destination.server.is_empty() { destination.name.clone() } else { destination.server.clone() }
}

/// Since when it is being deleted, and what becomes of its objects; what else keeps it.
fn deleting(application: &Application) -> String {
    let Some(since) = application.metadata.deletion_timestamp else { return String::new() };
    let others: Vec<&str> = application.metadata.finalizers.iter().map(String::as_str).collect();
    match deletion::cascade(application) {
        Some(cascade) => format!("since {since}, {cascade}"),
        None if others.is_empty() => format!("since {since}"),
        None => format!("since {since}; kept by {}", others.join(", ")),
    }
}

/// Of one that is being deleted that word, which is what there is to know.
fn sync(application: &Application) -> String {
    if application.is_deleting() {
        return "Deleting".to_owned();
    }
    application.status.sync.as_ref().map(|sync| sync.status).unwrap_or_default().to_string()
}

fn health(application: &Application) -> String {
    application
        .status
        .health
        .as_ref()
        .map_or_else(|| "Unknown".to_owned(), |health| format!("{:?}", health.status))
}

fn policy(application: &Application) -> &'static str {
    match automated(application) {
        None => "Manual",
        Some(automated) if automated.prune == Some(true) => "Auto-Prune",
        Some(_) => "Auto",
    }
}

/// `SyncError`, or `SharedResourceWarning(2)`.
fn conditions(application: &Application) -> String {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for condition in &application.status.conditions {
        let count = counts.entry(condition.kind.to_string()).or_default();
        *count = count.saturating_add(1);
    }
    let words =
        counts.into_iter().map(|(kind, count)| if count == 1 { kind } else { format!("{kind}({count})") });
    let words: Vec<String> = words.collect();
    if words.is_empty() { "<none>".to_owned() } else { words.join(",") }
}

fn shown(source: &ApplicationSource) -> String {
    let reference =
        if source.reference.is_empty() { String::new() } else { format!(" as ${}", source.reference) };
    let folder = folder(source);
    let between = if folder.is_empty() { "" } else { " " };
    let revision = or(&source.target_revision, "HEAD");
    format!("{}{between}{folder} at {revision}{reference}", source.repo_url)
}

/// Its folder, or its chart.
fn folder(source: &ApplicationSource) -> &str {
    if source.chart.is_empty() { &source.path } else { &source.chart }
}

/// The first of several, and how many there are besides.
fn and_others(first: String, application: &Application) -> String {
    match application.sources().len() {
        0 | 1 => first,
        all => format!("{first} (+{})", all.saturating_sub(1)),
    }
}

fn or(text: &str, otherwise: &str) -> String {
    if text.is_empty() { otherwise.to_owned() } else { text.to_owned() }
}

fn short(revision: &str, several: &[String]) -> String {
    let one = |revision: &String| revision.chars().take(SHORT).collect::<String>();
    revisions(revision, several).iter().map(one).collect::<Vec<_>>().join(" ")
}

fn time(time: Option<Time>) -> String {
    time.map(|time| time.to_string()).unwrap_or_default()
}
