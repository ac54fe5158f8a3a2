//! Plans of ApplicationSets in all formats: text, JSON or YAML, diagram, picture.

mod changes;
mod deletion;
mod mermaid;
mod svg;
mod text;

use std::time::Duration;

use serde::Serialize;
use tidegate_applicationset::change_preview::{ChangeKind, MemberPreview};
use tidegate_applicationset::rollout::RolloutOptions;
use tidegate_lifecycle::operation::is_built_in_gate;
use tidegate_lifecycle::rollout::{OnFailure, OnNewTargets, OnPending, RolloutView, StepView};
use tidegate_model::format_duration;

use super::format_count;
use crate::args::{Format, PlanFormat};
use crate::error::CliError;
use crate::output::Printer;
pub use changes::Removal;
pub use deletion::DeletionPlan;

/// Number of digits in a short commit hash.
const SHORT_COMMIT_DIGITS: usize = 7;
/// Number of digits in a full commit hash.
const FULL_COMMIT_DIGITS: usize = 40;

/// An ApplicationSet's plan: syncs of its Applications, changes, and deletions.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AppSetPlan {
    /// Name of the ApplicationSet, with its namespace unless that is the control plane's.
    pub application_set: String,
    /// Applications, by name.
    pub applications: Vec<PlannedApplication>,
    /// Progressive sync; absent if each Application is synced according to its own policy.
    pub rollout: Option<RolloutPlan>,
    /// Applications that exist but are no longer generated; absent if no service was queried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removal: Option<Removal>,
    /// Deletion order of the Applications if the ApplicationSet is deleted.
    pub deletion: DeletionPlan,
}

/// An Application.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedApplication {
    pub name: String,
    /// Number of the Application's step, starting at 1; absent if no step selects it.
    pub step: Option<u32>,
    /// Later steps that also select the Application, without effect.
    #[serde(rename = "otherSteps")]
    pub also: Vec<u32>,
    /// Target revisions, one per source, resolved to commits and versions where possible.
    pub revisions: Vec<String>,
    /// Target revisions as written.
    pub target_revisions: Vec<String>,
    /// Change to the Application; absent if no service was queried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<MemberPreview>,
    /// True if a revision could not be resolved.
    #[serde(skip)]
    pub is_unresolved: bool,
}

/// A progressive sync.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPlan {
    pub steps: Vec<RolloutStep>,
    /// Applications that no step selects. The rollout ignores them.
    #[serde(rename = "unselected")]
    pub outside: Vec<String>,
    /// Effect of new targets on a rollout in progress.
    pub on_new_targets: OnNewTargets,
    /// Maximum time that an Application may be Pending; absent to use the service's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_timeout_seconds: Option<u64>,
    /// Action for an Application that is Pending longer than that; absent to use the service's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_pending: Option<OnPending>,
}

/// A step of a progressive sync.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStep {
    pub step: u32,
    #[serde(flatten)]
    pub terms: StepTerms,
    pub applications: Vec<String>,
}

/// Selector and rules of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepTerms {
    #[serde(rename = "selector")]
    pub selects: String,
    /// Maximum number of Applications to sync at once; absent if there is no limit.
    pub max_update: Option<u32>,
    pub gates: Vec<String>,
    pub deadline_seconds: Option<u64>,
    pub max_failures: Option<u32>,
    pub on_failure: OnFailure,
}

impl RolloutPlan {
    /// Returns the rollout's plan. `cases` are the ApplicationSet's settings for special cases.
    pub fn from_view(view: &RolloutView, cases: RolloutOptions) -> Self {
        let of_step = |step: &str| {
            let members = view.members.iter().filter(|member| member.step == step);
            members.map(|member| member.application.clone()).collect()
        };
        let step = |(step, written): (u32, &StepView)| RolloutStep {
            step,
            terms: StepTerms {
                selects: written.selects.clone(),
                max_update: written.max_update,
                gates: written.gates.clone(),
                deadline_seconds: written.deadline_seconds,
                max_failures: written.max_failures,
                on_failure: written.on_failure,
            },
            applications: of_step(&step.to_string()),
        };
        Self {
            steps: (1..).zip(&view.steps).map(step).collect(),
            outside: of_step("-1"),
            on_new_targets: cases.on_new_targets.unwrap_or_default(),
            pending_timeout_seconds: cases.pending_timeout.map(|timeout| timeout.as_secs()),
            on_pending: cases.on_pending,
        }
    }

    /// Describes the special cases, such as `superseded if the targets change; an Application that has been
    /// Pending for more than 5 min counts as failed`.
    fn describe_cases(&self) -> String {
        let new_targets = match self.on_new_targets {
            OnNewTargets::Supersede => "superseded if the targets change",
            OnNewTargets::Finish => "finishes before new targets are deployed",
        };
        let time = self.pending_timeout_seconds.map(|seconds| format_duration(Duration::from_secs(seconds)));
        let pending = (time.is_some() || self.on_pending.is_some()).then(|| {
            let time = time.map_or_else(|| "too long".to_owned(), |time| format!("more than {time}"));
            let then = match self.on_pending {
                Some(OnPending::Hold) => "remains Pending, with a warning",
                Some(OnPending::Fail) => "counts as failed",
                Some(OnPending::Healthy) => "counts as Healthy",
                None => "is treated according to `tidegate serve --on-pending`",
            };
            format!("; an Application that has been Pending for {time} {then}")
        });
        format!("{new_targets}{}", pending.unwrap_or_default())
    }
}

/// Prints plans.
pub fn print(plans: &[AppSetPlan], format: PlanFormat, printer: &Printer) -> Result<(), CliError> {
    let drawn: Vec<PlanDrawing> = plans.iter().map(AppSetPlan::to_drawing).collect();
    match format {
        PlanFormat::Json => printer.print_value(&serde_json::json!({"plans": plans}), Format::Json),
        PlanFormat::Yaml => printer.print_value(&serde_json::json!({"plans": plans}), Format::Yaml),
        format => draw(&drawn, format, printer),
    }
}

/// Prints the deletion orders of ApplicationSets.
pub fn print_deletions(
    deletions: &[(String, DeletionPlan)],
    format: PlanFormat,
    printer: &Printer,
) -> Result<(), CliError> {
    let document = || {
        let one = |(set, deletion): &(String, DeletionPlan)| serde_json::json!({"applicationSet": set, "deletion": deletion});
        serde_json::json!({"plans": deletions.iter().map(one).collect::<Vec<_>>()})
    };
    let drawn = |(set, deletion): &(String, DeletionPlan)| PlanDrawing {
        title: format!("Deletion of ApplicationSet {set}"),
        subtitle: format_application_count(deletion.steps.iter().map(|step| step.applications.len()).sum()),
        parts: vec![deletion.to_part()],
    };
    match format {
        PlanFormat::Json => printer.print_value(&document(), Format::Json),
        PlanFormat::Yaml => printer.print_value(&document(), Format::Yaml),
        format => draw(&deletions.iter().map(drawn).collect::<Vec<_>>(), format, printer),
    }
}

fn draw(drawn: &[PlanDrawing], format: PlanFormat, printer: &Printer) -> Result<(), CliError> {
    let one = || match drawn {
        [only] => Ok(only),
        _ => Err(CliError::usage(
            "this format can show only one ApplicationSet, and the files contain several; pass a single ApplicationSet with -f",
        )),
    };
    match format {
        PlanFormat::Mermaid => printer.print_raw(&mermaid::diagram(one()?)),
        PlanFormat::Svg => printer.print_raw(&svg::picture(one()?)),
        _ => printer.print(&text::text(drawn)),
    }
}

/// Content of a drawn plan, for any output format.
struct PlanDrawing {
    title: String,
    subtitle: String,
    parts: Vec<Part>,
}

/// A sequence of stages.
struct Part {
    name: &'static str,
    /// Text next to the name; may be empty.
    note: String,
    is_deletion: bool,
    stages: Vec<Stage>,
}

/// Applications that are processed together.
struct Stage {
    title: String,
    note: String,
    /// Conditions for the start and end of the stage, each with a keyword and a description.
    terms: Vec<(&'static str, String)>,
    /// True if the stage starts after the previous stage.
    is_consecutive: bool,
    /// True if the plan leaves the stage's Applications alone.
    is_idle: bool,
    rows: Vec<MemberRow>,
}

/// An Application.
#[derive(Default)]
struct MemberRow {
    name: String,
    /// Target revision; may be empty.
    revision: String,
    /// Remark; may be empty.
    mark: String,
    /// Changes, one line each.
    details: Vec<String>,
    /// True if the plan leaves the Application alone.
    is_idle: bool,
}

impl AppSetPlan {
    fn to_drawing(&self) -> PlanDrawing {
        let mut subtitle = format_application_count(self.applications.len());
        if let Some(rollout) = &self.rollout {
            let steps = u32::try_from(rollout.steps.len()).unwrap_or(u32::MAX);
            subtitle.push_str(&format!(" in {}", format_count(steps, "step", "steps")));
        }
        let mut parts = vec![match &self.rollout {
            Some(rollout) => self.rollout_part(rollout),
            None => self.independent_part(),
        }];
        if let Some(removal) = &self.removal {
            subtitle.push_str(&format!(": {}", changes::summary(&self.applications, removal)));
            parts.extend(removal.to_part());
        }
        parts.push(self.deletion.to_part());
        PlanDrawing { title: format!("Plan for ApplicationSet {}", self.application_set), subtitle, parts }
    }

    fn rollout_part(&self, rollout: &RolloutPlan) -> Part {
        let mut stages: Vec<Stage> = rollout
            .steps
            .iter()
            .map(|step| Stage {
                title: format!("step {}: {}", step.step, step.terms.selects),
                note: count_note(step.applications.len(), step.terms.max_update),
                terms: step.terms.describe_terms(),
                is_consecutive: step.step > 1,
                is_idle: false,
                rows: self.member_rows(&step.applications),
            })
            .collect();
        if !rollout.outside.is_empty() {
            stages.push(Stage {
                title: "not in any step".to_owned(),
                note: format!("{}, synced manually", format_application_count(rollout.outside.len())),
                terms: Vec::new(),
                is_consecutive: false,
                is_idle: true,
                rows: self.member_rows(&rollout.outside),
            });
        }
        Part { name: "Rollout", note: rollout.describe_cases(), is_deletion: false, stages }
    }

    fn independent_part(&self) -> Part {
        let names: Vec<String> = self.applications.iter().map(|one| one.name.clone()).collect();
        let stage = Stage {
            title: "each according to its own sync policy".to_owned(),
            note: format_application_count(names.len()),
            terms: Vec::new(),
            is_consecutive: false,
            is_idle: false,
            rows: self.member_rows(&names),
        };
        Part { name: "Sync", note: "no steps".to_owned(), is_deletion: false, stages: vec![stage] }
    }

    fn member_rows(&self, names: &[String]) -> Vec<MemberRow> {
        let of = |name: &String| self.applications.iter().find(|one| one.name == *name);
        names
            .iter()
            .filter_map(of)
            .map(|one| MemberRow {
                name: one.name.clone(),
                revision: one.format_revisions(),
                mark: one.format_mark(),
                details: changes::describe_change(one),
                is_idle: one.change.as_ref().is_some_and(|change| change.what == ChangeKind::Unchanged),
            })
            .collect()
    }
}

impl PlannedApplication {
    /// Formats the revisions of the sources, such as `1a2b3c4 (main)`.
    fn format_revisions(&self) -> String {
        let text = self.revisions.iter().zip(&self.target_revisions).map(|(found, asked)| {
            let short = shorten_commit(found);
            if found == asked { short } else { format!("{short} ({asked})") }
        });
        text.collect::<Vec<_>>().join(", ")
    }

    /// Describes the change, and any further steps that select the Application without effect.
    fn format_mark(&self) -> String {
        let word = self.change.as_ref().map(changes::change_word).unwrap_or_default().to_owned();
        let text = [word, self.describe_later_steps()].into_iter().filter(|text| !text.is_empty());
        text.collect::<Vec<_>>().join(", ")
    }

    fn describe_later_steps(&self) -> String {
        match self.also.as_slice() {
            [] => String::new(),
            [only] => format!("also selected by step {only}"),
            also => {
                let numbers: Vec<String> = also.iter().map(ToString::to_string).collect();
                format!("also selected by steps {}", numbers.join(" and "))
            }
        }
    }
}

/// Shortens a commit hash. Returns other revisions unchanged.
fn shorten_commit(revision: &str) -> String {
    let is_commit =
        revision.len() == FULL_COMMIT_DIGITS && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit { revision.chars().take(SHORT_COMMIT_DIGITS).collect() } else { revision.to_owned() }
}

impl StepTerms {
    fn describe_terms(&self) -> Vec<(&'static str, String)> {
        let mut terms = Vec::new();
        let (known, unknown): (Vec<&str>, Vec<&str>) =
            self.gates.iter().map(String::as_str).partition(|gate| is_built_in_gate(gate));
        if !known.is_empty() {
            terms.push(("gated by", known.join(", ")));
        }
        // This command doesn't know these gates, so the service that runs the rollout must define them.
        if !unknown.is_empty() {
            terms.push((if unknown.len() == 1 { "needs gate" } else { "needs gates" }, unknown.join(", ")));
        }
        if let Some(seconds) = self.deadline_seconds {
            terms.push(("at most", format_duration(Duration::from_secs(seconds))));
        }
        let then = match self.on_failure {
            OnFailure::Pause => "the rollout is paused",
            OnFailure::Abort => "the rollout ends",
            OnFailure::RollBack => "the step is rolled back",
        };
        match (self.max_failures, self.on_failure) {
            (None, OnFailure::Pause) => {}
            (None, _) => terms.push(("on timeout:", then.to_owned())),
            (Some(most), _) => terms.push(("if more than", format!("{most} fail: {then}"))),
        }
        terms
    }
}

/// Describes the number of Applications and the maximum at once, such as `4 Applications, 2 at a time`.
fn count_note(count: usize, max_update: Option<u32>) -> String {
    let all = format_application_count(count);
    match max_update {
        None => all,
        Some(0) => format!("{all}, synced manually"),
        Some(1) => format!("{all}, one at a time"),
        Some(most) => format!("{all}, {most} at a time"),
    }
}

fn format_application_count(count: usize) -> String {
    format_count(u32::try_from(count).unwrap_or(u32::MAX), "Application", "Applications")
}
