//! ApplicationSets for people, and as the lists that programs know.

use serde_json::{Value, json};
use tidegate_lifecycle::rollout::{MemberOutcome, MemberStatus, MemberView, RolloutView};
use tidegate_lifecycle::teardown::{OrderWord, TeardownView};
use tidegate_model::argo::{ApplicationSet, ApplicationSetCondition, ApplicationSetGenerator};
use tidegate_service::applications::store::AppKey;
use tidegate_service::documents::runs::{OUTSIDE, approval_words, step_number, step_words};
use tidegate_service::sets::SetExplanation;

use super::{Style, Text, one_line, table};

/// Digits of a commit that tell it from others.
const SHORT: usize = 7;

/// As `kubectl get -o json` prints a list.
pub fn document(sets: &[ApplicationSet]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": sets})
}

/// One line for each.
pub fn list(sets: &[ApplicationSet], width: Option<u16>) -> Text {
    let rows = sets.iter().map(|one| {
        [
            name(one),
            generators(&one.spec.generators),
            applications(one),
            strategy(one),
            health(one),
            rollout(one),
            wrong(one).unwrap_or_else(|| "<none>".to_owned()),
        ]
    });
    table(["NAME", "GENERATORS", "APPLICATIONS", "STRATEGY", "HEALTH", "ROLLOUT", "ERROR"], rows, width)
}

/// All that is known of one.
pub fn show(set: &ApplicationSet, width: Option<u16>) -> Text {
    let mut text = Text::new();
    let deleting = set.metadata.deletion_timestamp.map(|since| format!("since {since}"));
    for (label, value) in [
        ("Name:", name(set)),
        ("Generators:", generators(&set.spec.generators)),
        ("Applications:", applications(set)),
        ("Strategy:", strategy(set)),
        (
            "Deletion Order:",
            set.spec.strategy.as_ref().map(|one| one.deletion_order.clone()).unwrap_or_default(),
        ),
        ("Deleting:", deleting.unwrap_or_default()),
        ("Health Status:", health(set)),
        ("Rollout:", rollout(set)),
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
            let targets = one.target_revisions.iter().map(|revision| short(revision));
            let targets = targets.collect::<Vec<_>>().join(" ");
            [
                one.application.clone(),
                step_number(&one.step).to_owned(),
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

/// How the rollout and the deletion of a set stand.
pub fn status(explanation: &SetExplanation, width: Option<u16>) -> Text {
    let mut text = Text::new();
    text.add(Style::Bold, &explanation.set);
    text.add(Style::Plain, format!(": {}", one_line(&explanation.line)));
    text.end_line();
    if let Some(view) = &explanation.teardown {
        text.end_line();
        text.append(deletion(view, width));
    }
    if let Some(view) = &explanation.rollout {
        text.end_line();
        text.append(progress(view, width));
    }
    if !explanation.refused.is_empty() {
        text.end_line();
        let rows = explanation.refused.iter().map(|(name, why)| [name.clone(), why.clone()]);
        text.append(table(["NOT MADE OR CHANGED", "WHY"], rows, width));
    }
    text
}

/// A rollout step by step.
pub fn progress(view: &RolloutView, width: Option<u16>) -> Text {
    let heads = ["STEP", "SELECTS", "HEALTHY", "AT ONCE", "BEHIND", "STATUS"];
    let rows = (1_u32..).zip(&view.steps).map(|(number, step)| {
        let of_step = || view.members.iter().filter(|member| member.step == number.to_string());
        let skipped = of_step().filter(|member| is_skipped(member)).count();
        // Argo CD's word for one that was skipped is Healthy.
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
                Some(by) => format!("{}, approved by {}", step_words(step.status), one_line(by)),
                None => step_words(step.status).to_owned(),
            },
        ]
    });
    let mut text = heading("Rollout", &view.message, view.paused.as_deref());
    text.append(table(heads, rows, width));
    text.end_line();
    let targets = |all: &[String]| all.iter().map(|revision| short(revision)).collect::<Vec<_>>().join(" ");
    let members = view.members.iter().map(|member| {
        let (step, targets) = (step_number(&member.step).to_owned(), targets(&member.target_revisions));
        (&member.step, [member.application.clone(), step, standing(member), targets, member.message.clone()])
    });
    let left = view.left.iter().map(|left| {
        let (step, targets) = (step_number(&left.step).to_owned(), targets(&left.target_revisions));
        let message = format!("{} ({})", left.message, left.at);
        (&left.step, [left.application.clone(), step, "Left".to_owned(), targets, message])
    });
    let mut rows: Vec<_> = members.chain(left).collect();
    // Those of no step come last.
    rows.sort_by_key(|(step, _)| step.parse().unwrap_or(u32::MAX));
    let rows = rows.into_iter().map(|(_, row)| row);
    text.append(table(["APPLICATION", "STEP", "STATUS", "TARGET", "MESSAGE"], rows, width));
    text
}

fn is_skipped(member: &MemberView) -> bool {
    member.outcome == Some(MemberOutcome::Skipped)
}

/// What has become of an Application; where nothing has yet, its status.
fn standing(member: &MemberView) -> String {
    let outcome = member.outcome.filter(|outcome| *outcome != MemberOutcome::Settling);
    let outcome = outcome.map(|outcome| format!("{outcome:?}"));
    outcome.unwrap_or_else(|| format!("{:?}", member.status))
}

/// A deletion step by step.
pub fn deletion(view: &TeardownView, width: Option<u16>) -> Text {
    let mut text = heading("Deletion", &view.message, view.paused.as_deref());
    for approval in &view.approvals {
        let words = one_line(&approval_words(approval));
        text.add(Style::Plain, format!("held because they were too many, and approved by {words}"));
        text.end_line();
    }
    let gone = if view.order == OrderWord::Orphan { "LET GO" } else { "GONE" };
    let heads = ["STEP", "SELECTS", gone, "AT ONCE"];
    let steps = view.steps.iter().filter(|step| step.step.is_some() || step.members > 0);
    let rows = steps.map(|step| {
        let number = step.step.map_or_else(|| OUTSIDE.to_owned(), |number| number.to_string());
        let of_step = view.members.iter().filter(|member| member.step == number);
        let gone = of_step.filter(|member| view.order.is_end(member.status)).count();
        let at_once = step.max_update.map_or_else(|| "all".to_owned(), |most| most.to_string());
        [step_number(&number).to_owned(), step.selects.clone(), format!("{gone}/{}", step.members), at_once]
    });
    text.append(table(heads, rows, width));
    text.end_line();
    let rows = view.members.iter().map(|member| {
        let status = format!("{:?}", member.status);
        [member.application.clone(), step_number(&member.step).to_owned(), status, member.message.clone()]
    });
    text.append(table(["APPLICATION", "STEP", "STATUS", "MESSAGE"], rows, width));
    text
}

fn heading(name: &str, message: &str, paused: Option<&str>) -> Text {
    let mut text = Text::new();
    text.add(Style::Accent, name);
    text.add(Style::Plain, format!("  {}", one_line(message)));
    if let Some(paused) = paused {
        text.add(Style::Warn, format!("  paused by {}", one_line(paused)));
    }
    text.end_line();
    text
}

/// As people name it.
pub fn name(set: &ApplicationSet) -> String {
    let metadata = &set.metadata;
    AppKey { namespace: metadata.home().to_owned(), name: metadata.name.clone() }.to_string()
}

/// `git, matrix`.
fn generators(all: &[ApplicationSetGenerator]) -> String {
    let kind = |one: &ApplicationSetGenerator| {
        let fields = serde_json::to_value(one).unwrap_or_default();
        let mut names = fields.as_object().into_iter().flat_map(|fields| fields.keys());
        names.find(|name| *name != "selector").cloned().unwrap_or_default()
    };
    all.iter().map(kind).collect::<Vec<_>>().join(", ")
}

fn applications(set: &ApplicationSet) -> String {
    let listed = i64::try_from(set.status.resources.len()).unwrap_or(i64::MAX);
    set.status.resources_count.max(listed).to_string()
}

/// `RollingSync, 3 steps`.
fn strategy(set: &ApplicationSet) -> String {
    let strategy = set.spec.strategy.as_ref();
    let steps = strategy.and_then(|strategy| strategy.rolling_sync.as_ref()).map_or(0, |one| one.steps.len());
    match strategy.map(|strategy| strategy.kind.as_str()) {
        None | Some("") => "AllAtOnce".to_owned(),
        Some(kind) if steps > 0 => format!("{kind}, {steps} steps"),
        Some(kind) => kind.to_owned(),
    }
}

fn health(set: &ApplicationSet) -> String {
    if set.metadata.deletion_timestamp.is_some() {
        return "Deleting".to_owned();
    }
    let health = set.status.health.as_ref();
    health.map_or_else(|| "Unknown".to_owned(), |health| format!("{:?}", health.status))
}

fn condition<'s>(set: &'s ApplicationSet, kind: &str) -> Option<&'s ApplicationSetCondition> {
    set.status.conditions.iter().find(|one| one.kind == kind)
}

/// What its progressive sync does, in the words of its condition.
fn rollout(set: &ApplicationSet) -> String {
    if set.metadata.deletion_timestamp.is_some() {
        return "being deleted".to_owned();
    }
    condition(set, "RolloutProgressing").map(|one| one.message.clone()).unwrap_or_default()
}

/// What is wrong with it.
fn wrong(set: &ApplicationSet) -> Option<String> {
    condition(set, "ErrorOccurred").filter(|one| one.status == "True").map(|one| one.message.clone())
}

/// A commit by its first digits.
pub fn short(revision: &str) -> String {
    let is_commit = revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit { revision.chars().take(SHORT).collect() } else { revision.to_owned() }
}
