//! ApplicationSets as human-readable text, and as lists for programs.

use serde_json::{Value, json};
use tidegate_application::AppKey;
use tidegate_lifecycle::rollout::{MemberOutcome, MemberStatus, MemberView, RolloutView};
use tidegate_lifecycle::teardown::{OrderKind, TeardownView};
use tidegate_model::argo::{ApplicationSet, ApplicationSetCondition, ApplicationSetGenerator};
use tidegate_views::appset_actions::AppSetExplanation;
use tidegate_views::runs::{NO_STEP, describe_approval, describe_step_number, describe_step_status};

use super::{Style, Text, one_line, table};

/// Number of digits in a short commit hash.
const SHORT_COMMIT_DIGITS: usize = 7;

/// Returns a list like `kubectl get -o json`.
pub fn document(appsets: &[ApplicationSet]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": appsets})
}

/// Formats one line for each ApplicationSet.
pub fn list(appsets: &[ApplicationSet], width: Option<u16>) -> Text {
    let rows = appsets.iter().map(|one| {
        [
            display_name(one),
            generator_names(&one.spec.generators),
            count_applications(one),
            describe_strategy(one),
            health_status(one),
            rollout_status(one),
            find_problem(one).unwrap_or_else(|| "<none>".to_owned()),
        ]
    });
    table(["NAME", "GENERATORS", "APPLICATIONS", "STRATEGY", "HEALTH", "ROLLOUT", "ERROR"], rows, width)
}

/// Formats all information about an ApplicationSet.
pub fn show(set: &ApplicationSet, width: Option<u16>) -> Text {
    let mut text = Text::new();
    let deleting = set.metadata.deletion_timestamp.map(|since| format!("since {since}"));
    for (label, value) in [
        ("Name:", display_name(set)),
        ("Generators:", generator_names(&set.spec.generators)),
        ("Applications:", count_applications(set)),
        ("Strategy:", describe_strategy(set)),
        (
            "Deletion Order:",
            set.spec.strategy.as_ref().map(|one| one.deletion_order.clone()).unwrap_or_default(),
        ),
        ("Deleting:", deleting.unwrap_or_default()),
        ("Health Status:", health_status(set)),
        ("Rollout:", rollout_status(set)),
    ] {
        if !value.is_empty() {
            text.add(Style::Dim, format!("{label:<16}"));
            text.add(Style::Plain, one_line(&value));
            text.end_line();
        }
    }
    let status = &set.status;
    if !status.conditions.is_empty() {
        text.end_line();
        let rows = status.conditions.iter().map(|one| {
            let since = one.last_transition_time.map(|time| time.to_string()).unwrap_or_default();
            [one.kind.clone(), one.status.clone(), one.reason.clone(), one.message.clone(), since]
        });
        text.append(table(["CONDITION", "STATUS", "REASON", "MESSAGE", "SINCE"], rows, width));
    }
    if !status.application_status.is_empty() {
        text.end_line();
        let rows = status.application_status.iter().map(|one| {
            let targets = one.target_revisions.iter().map(|revision| shorten_commit(revision));
            let targets = targets.collect::<Vec<_>>().join(" ");
            [
                one.application.clone(),
                describe_step_number(&one.step).to_owned(),
                one.status.to_string(),
                targets,
                one.message.clone(),
            ]
        });
        text.append(table(["APPLICATION", "STEP", "STATUS", "TARGET", "MESSAGE"], rows, width));
    }
    if !status.resources.is_empty() {
        text.end_line();
        let rows = status.resources.iter().map(|one| {
            let sync = one.status.map(|status| status.to_string()).unwrap_or_default();
            let health = one.health.as_ref().map(|health| format!("{:?}", health.status));
            [one.name.clone(), sync, health.unwrap_or_default()]
        });
        text.append(table(["APPLICATION", "SYNC", "HEALTH"], rows, width));
    }
    text
}

/// Formats the state of an ApplicationSet's rollout and deletion.
pub fn status(explanation: &AppSetExplanation, width: Option<u16>) -> Text {
    let mut text = Text::new();
    text.add(Style::Bold, &explanation.set);
    text.add(Style::Plain, format!(": {}", one_line(&explanation.line)));
    text.end_line();
    if let Some(view) = &explanation.teardown {
        text.end_line();
        text.append(format_deletion(view, width));
    }
    if let Some(view) = &explanation.rollout {
        text.end_line();
        text.append(format_rollout(view, width));
    }
    if !explanation.refused.is_empty() {
        text.end_line();
        let rows = explanation.refused.iter().map(|(name, reason)| [name.clone(), reason.clone()]);
        text.append(table(["NOT APPLIED", "REASON"], rows, width));
    }
    text
}

/// Formats a rollout, step by step.
pub fn format_rollout(view: &RolloutView, width: Option<u16>) -> Text {
    let heads = ["STEP", "SELECTS", "HEALTHY", "MAX UPDATE", "GATES", "STATUS"];
    let rows = (1_u32..).zip(&view.steps).map(|(number, step)| {
        let of_step = || view.members.iter().filter(|member| member.step == number.to_string());
        let skipped = of_step().filter(|member| is_skipped(member)).count();
        // Argo CD reports a skipped Application as Healthy.
        let is_healthy = |member: &&MemberView| member.status == MemberStatus::Healthy && !is_skipped(member);
        let healthy = of_step().filter(is_healthy).count();
        let left = view.left.iter().filter(|left| left.step == number.to_string()).count();
        let apart = [(skipped, "skipped"), (left, "left")].into_iter().filter(|(count, _)| *count > 0);
        let apart: String = apart.map(|(count, what)| format!(", {count} {what}")).collect();
        let at_once = step.max_update.map_or_else(|| "all".to_owned(), |most| most.to_string());
        let healthy = format!("{healthy}/{}{apart}", step.members);
        [
            number.to_string(),
            step.selects.clone(),
            healthy,
            at_once,
            step.gates.join(", "),
            match &step.approved {
                Some(by) => format!("{}, approved by {}", describe_step_status(step.status), one_line(by)),
                None => describe_step_status(step.status).to_owned(),
            },
        ]
    });
    let mut text = format_heading("Rollout", &view.message, view.paused.as_deref());
    text.append(table(heads, rows, width));
    text.end_line();
    let targets =
        |all: &[String]| all.iter().map(|revision| shorten_commit(revision)).collect::<Vec<_>>().join(" ");
    let members = view.members.iter().map(|member| {
        let (step, targets) =
            (describe_step_number(&member.step).to_owned(), targets(&member.target_revisions));
        (
            &member.step,
            [member.application.clone(), step, member_result(member), targets, member.message.clone()],
        )
    });
    let left = view.left.iter().map(|left| {
        let (step, targets) = (describe_step_number(&left.step).to_owned(), targets(&left.target_revisions));
        let message = format!("{} ({})", left.message, left.at);
        (&left.step, [left.application.clone(), step, "Departed".to_owned(), targets, message])
    });
    let mut rows: Vec<_> = members.chain(left).collect();
    // List Applications outside all steps last.
    rows.sort_by_key(|(step, _)| step.parse().unwrap_or(u32::MAX));
    let rows = rows.into_iter().map(|(_, row)| row);
    text.append(table(["APPLICATION", "STEP", "STATUS", "TARGET", "MESSAGE"], rows, width));
    text
}

fn is_skipped(member: &MemberView) -> bool {
    member.outcome == Some(MemberOutcome::Skipped)
}

/// Returns an Application's result or, without one, its status.
fn member_result(member: &MemberView) -> String {
    let outcome = member.outcome.filter(|outcome| *outcome != MemberOutcome::Settling);
    let outcome = outcome.map(|outcome| format!("{outcome:?}"));
    outcome.unwrap_or_else(|| format!("{:?}", member.status))
}

/// Formats a deletion, step by step.
pub fn format_deletion(view: &TeardownView, width: Option<u16>) -> Text {
    let mut text = format_heading("Deletion", &view.message, view.paused.as_deref());
    for approval in &view.approvals {
        let words = one_line(&describe_approval(approval));
        text.add(
            Style::Plain,
            format!(
                "deletions that were blocked because their number exceeded the limit; approved by {words}"
            ),
        );
        text.end_line();
    }
    let gone = if view.order == OrderKind::Orphan { "RELEASED" } else { "DELETED" };
    let heads = ["STEP", "SELECTS", gone, "MAX UPDATE"];
    let steps = view.steps.iter().filter(|step| step.step.is_some() || step.members > 0);
    let rows = steps.map(|step| {
        let number = step.step.map_or_else(|| NO_STEP.to_owned(), |number| number.to_string());
        let of_step = view.members.iter().filter(|member| member.step == number);
        let gone = of_step.filter(|member| view.order.is_intended_end(member.status)).count();
        let at_once = step.max_update.map_or_else(|| "all".to_owned(), |most| most.to_string());
        [
            describe_step_number(&number).to_owned(),
            step.selects.clone(),
            format!("{gone}/{}", step.members),
            at_once,
        ]
    });
    text.append(table(heads, rows, width));
    text.end_line();
    let rows = view.members.iter().map(|member| {
        let status = format!("{:?}", member.status);
        [
            member.application.clone(),
            describe_step_number(&member.step).to_owned(),
            status,
            member.message.clone(),
        ]
    });
    text.append(table(["APPLICATION", "STEP", "STATUS", "MESSAGE"], rows, width));
    text
}

fn format_heading(name: &str, message: &str, paused: Option<&str>) -> Text {
    let mut text = Text::new();
    text.add(Style::Accent, name);
    text.add(Style::Plain, format!("  {}", one_line(message)));
    if let Some(paused) = paused {
        text.add(Style::Warn, format!("  paused by {}", one_line(paused)));
    }
    text.end_line();
    text
}

/// Returns an ApplicationSet's display name.
pub fn display_name(set: &ApplicationSet) -> String {
    let metadata = &set.metadata;
    AppKey { namespace: metadata.namespace_or_default().to_owned(), name: metadata.name.clone() }.to_string()
}

/// Returns the names of the generators, such as `git, matrix`.
fn generator_names(all: &[ApplicationSetGenerator]) -> String {
    let kind = |one: &ApplicationSetGenerator| {
        let fields = serde_json::to_value(one).unwrap_or_default();
        let mut names = fields.as_object().into_iter().flat_map(|fields| fields.keys());
        names.find(|name| *name != "selector").cloned().unwrap_or_default()
    };
    all.iter().map(kind).collect::<Vec<_>>().join(", ")
}

fn count_applications(set: &ApplicationSet) -> String {
    let listed = i64::try_from(set.status.resources.len()).unwrap_or(i64::MAX);
    set.status.resources_count.max(listed).to_string()
}

/// Describes the strategy, such as `RollingSync, 3 steps`.
fn describe_strategy(set: &ApplicationSet) -> String {
    let strategy = set.spec.strategy.as_ref();
    let steps = strategy.and_then(|strategy| strategy.rolling_sync.as_ref()).map_or(0, |one| one.steps.len());
    match strategy.map(|strategy| strategy.kind.as_str()) {
        None | Some("") => "AllAtOnce".to_owned(),
        Some(kind) if steps > 0 => format!("{kind}, {steps} steps"),
        Some(kind) => kind.to_owned(),
    }
}

fn health_status(set: &ApplicationSet) -> String {
    if set.metadata.deletion_timestamp.is_some() {
        return "Deleting".to_owned();
    }
    let health = set.status.health.as_ref();
    health.map_or_else(|| "Unknown".to_owned(), |health| format!("{:?}", health.status))
}

fn find_condition<'s>(set: &'s ApplicationSet, kind: &str) -> Option<&'s ApplicationSetCondition> {
    set.status.conditions.iter().find(|one| one.kind == kind)
}

/// Returns the state of the progressive sync as its condition words it.
fn rollout_status(set: &ApplicationSet) -> String {
    if set.metadata.deletion_timestamp.is_some() {
        return "being deleted".to_owned();
    }
    find_condition(set, "RolloutProgressing").map(|one| one.message.clone()).unwrap_or_default()
}

/// Returns an ApplicationSet's problem, if any.
fn find_problem(set: &ApplicationSet) -> Option<String> {
    find_condition(set, "ErrorOccurred").filter(|one| one.status == "True").map(|one| one.message.clone())
}

/// Shortens a commit hash. Returns other revisions unchanged.
pub fn shorten_commit(revision: &str) -> String {
    let is_commit = revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit { revision.chars().take(SHORT_COMMIT_DIGITS).collect() } else { revision.to_owned() }
}
