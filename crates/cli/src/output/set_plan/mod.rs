//! What an ApplicationSet would do, in all its forms: text, document, diagram, picture.

mod changes;
mod deletion;
mod mermaid;
mod svg;
mod text;

use std::time::Duration;

use serde::Serialize;
use tidegate_applicationset::foreseen::{Change, What};
use tidegate_applicationset::rollout::OwnCases;
use tidegate_lifecycle::operation::is_known_gate;
use tidegate_lifecycle::rollout::{OnFailure, OnNewTargets, OnPending, RolloutView, StepView};
use tidegate_model::format_duration;

use super::counted;
use crate::args::{Format, PlanFormat};
use crate::error::CliError;
use crate::output::Printer;
pub use changes::Removal;
pub use deletion::DeletionPlan;

/// Digits of a commit that tell it from others.
const SHORT: usize = 7;
/// Digits of a whole commit.
const WHOLE: usize = 40;

/// What an ApplicationSet would do, before anything of it begins.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetPlan {
    /// Its name; with its namespace where that is not the one of the control plane.
    pub application_set: String,
    /// Its Applications, by name.
    pub applications: Vec<Planned>,
    /// Its progressive sync; absent where each Application is synced by its own policy.
    pub rollout: Option<RolloutPlan>,
    /// Applications that it has and does not generate any more; absent where nobody was asked which it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removal: Option<Removal>,
    /// In which order its Applications are deleted with it.
    pub deletion: DeletionPlan,
}

/// An Application.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Planned {
    pub name: String,
    /// The number of its step, from 1; absent where no step selects it.
    pub step: Option<u32>,
    /// Later steps that select it too, and do not get it.
    pub also: Vec<u32>,
    /// What it would be brought to, one a source: commits and versions, where they could be found out.
    pub revisions: Vec<String>,
    /// The same as it is written.
    pub target_revisions: Vec<String>,
    /// What would become of it; absent where nobody was asked how it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// A revision could not be found out.
    #[serde(skip)]
    pub is_unresolved: bool,
}

/// A progressive sync.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPlan {
    pub steps: Vec<RolloutStep>,
    /// Applications that no step selects: the rollout leaves them alone.
    pub outside: Vec<String>,
    /// What new targets do to it.
    pub on_new_targets: OnNewTargets,
    /// How long an Application may be Pending; absent: as the service decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_timeout_seconds: Option<u64>,
    /// What follows then; absent: as the service decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_pending: Option<OnPending>,
}

/// A step of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStep {
    pub step: u32,
    #[serde(flatten)]
    pub terms: StepTerms,
    pub applications: Vec<String>,
}

/// Whom it selects, and by which rules.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepTerms {
    pub selects: String,
    /// So many at once; absent: all.
    pub max_update: Option<u32>,
    pub gates: Vec<String>,
    pub deadline_seconds: Option<u64>,
    pub max_failures: Option<u32>,
    pub on_failure: OnFailure,
}

impl RolloutPlan {
    /// Before it begins; with what its set says of cases.
    pub fn of(view: &RolloutView, cases: OwnCases) -> Self {
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

    /// What is done in cases, in words: `new targets end it; an Application Pending for more than 5m counts as failed`.
    fn cases(&self) -> String {
        let new_targets = match self.on_new_targets {
            OnNewTargets::Supersede => "new targets end it",
            OnNewTargets::Finish => "new targets wait for its end",
        };
        let time = self.pending_timeout_seconds.map(|seconds| format_duration(Duration::from_secs(seconds)));
        let pending = (time.is_some() || self.on_pending.is_some()).then(|| {
            let time = time.map_or_else(|| "too long".to_owned(), |time| format!("more than {time}"));
            let then = match self.on_pending {
                Some(OnPending::Hold) => "is awaited, with a warning",
                Some(OnPending::Fail) => "counts as failed",
                Some(OnPending::Healthy) => "counts as Healthy",
                None => "is treated as the service decides",
            };
            format!("; an Application Pending for {time} {then}")
        });
        format!("{new_targets}{}", pending.unwrap_or_default())
    }
}

/// Prints plans.
pub fn print(plans: &[SetPlan], format: PlanFormat, printer: &Printer) -> Result<(), CliError> {
    let drawn: Vec<Drawn> = plans.iter().map(SetPlan::drawn).collect();
    match format {
        PlanFormat::Json => printer.value(&serde_json::json!({"plans": plans}), Format::Json),
        PlanFormat::Yaml => printer.value(&serde_json::json!({"plans": plans}), Format::Yaml),
        format => draw(&drawn, format, printer),
    }
}

/// Prints the orders of the deletions of sets.
pub fn print_deletions(
    deletions: &[(String, DeletionPlan)],
    format: PlanFormat,
    printer: &Printer,
) -> Result<(), CliError> {
    let document = || {
        let one = |(set, deletion): &(String, DeletionPlan)| serde_json::json!({"applicationSet": set, "deletion": deletion});
        serde_json::json!({"plans": deletions.iter().map(one).collect::<Vec<_>>()})
    };
    let drawn = |(set, deletion): &(String, DeletionPlan)| Drawn {
        title: format!("Deletion of ApplicationSet {set}"),
        sub: applications(deletion.steps.iter().map(|step| step.applications.len()).sum()),
        parts: vec![deletion.drawn()],
    };
    match format {
        PlanFormat::Json => printer.value(&document(), Format::Json),
        PlanFormat::Yaml => printer.value(&document(), Format::Yaml),
        format => draw(&deletions.iter().map(drawn).collect::<Vec<_>>(), format, printer),
    }
}

fn draw(drawn: &[Drawn], format: PlanFormat, printer: &Printer) -> Result<(), CliError> {
    let one = || match drawn {
        [only] => Ok(only),
        _ => Err(CliError::usage(
            "there are several ApplicationSets; draw one of them, with -f and its file alone",
        )),
    };
    match format {
        PlanFormat::Mermaid => printer.raw(&mermaid::diagram(one()?)),
        PlanFormat::Svg => printer.raw(&svg::picture(one()?)),
        _ => printer.out(&text::text(drawn)),
    }
}

/// A plan as it is drawn.
struct Drawn {
    title: String,
    sub: String,
    parts: Vec<Part>,
}

/// What follows each other.
struct Part {
    name: &'static str,
    /// Beside the name; may be empty.
    note: String,
    is_deletion: bool,
    stages: Vec<Stage>,
}

/// What happens together.
struct Stage {
    title: String,
    note: String,
    /// What it waits for and what ends it: a word, and what it is about.
    terms: Vec<(&'static str, String)>,
    /// It follows the one before it.
    follows: bool,
    /// Nothing is done about what it lists.
    is_idle: bool,
    rows: Vec<Line>,
}

/// An Application.
#[derive(Default)]
struct Line {
    name: String,
    /// What it is brought to; may be empty.
    revision: String,
    /// What else there is to say; may be empty.
    mark: String,
    /// What would change of it, line by line.
    details: Vec<String>,
    /// Nothing is done about it.
    is_idle: bool,
}

impl SetPlan {
    fn drawn(&self) -> Drawn {
        let mut sub = applications(self.applications.len());
        if let Some(rollout) = &self.rollout {
            let steps = u32::try_from(rollout.steps.len()).unwrap_or(u32::MAX);
            sub.push_str(&format!(" in {}", counted(steps, "step", "steps")));
        }
        let mut parts = vec![match &self.rollout {
            Some(rollout) => self.rolling(rollout),
            None => self.by_themselves(),
        }];
        if let Some(removal) = &self.removal {
            sub.push_str(&format!(": {}", changes::summary(&self.applications, removal)));
            parts.extend(removal.drawn());
        }
        parts.push(self.deletion.drawn());
        Drawn { title: format!("Plan for ApplicationSet {}", self.application_set), sub, parts }
    }

    fn rolling(&self, rollout: &RolloutPlan) -> Part {
        let mut stages: Vec<Stage> = rollout
            .steps
            .iter()
            .map(|step| Stage {
                title: format!("step {}: {}", step.step, step.terms.selects),
                note: note(step.applications.len(), step.terms.max_update),
                terms: step.terms.words(),
                follows: step.step > 1,
                is_idle: false,
                rows: self.lines(&step.applications),
            })
            .collect();
        if !rollout.outside.is_empty() {
            stages.push(Stage {
                title: "in no step".to_owned(),
                note: format!("{}, left to people", applications(rollout.outside.len())),
                terms: Vec::new(),
                follows: false,
                is_idle: true,
                rows: self.lines(&rollout.outside),
            });
        }
        Part { name: "Rollout", note: rollout.cases(), is_deletion: false, stages }
    }

    fn by_themselves(&self) -> Part {
        let names: Vec<String> = self.applications.iter().map(|one| one.name.clone()).collect();
        let stage = Stage {
            title: "each by its own sync policy".to_owned(),
            note: applications(names.len()),
            terms: Vec::new(),
            follows: false,
            is_idle: false,
            rows: self.lines(&names),
        };
        Part { name: "Sync", note: "no steps".to_owned(), is_deletion: false, stages: vec![stage] }
    }

    fn lines(&self, names: &[String]) -> Vec<Line> {
        let of = |name: &String| self.applications.iter().find(|one| one.name == *name);
        names
            .iter()
            .filter_map(of)
            .map(|one| Line {
                name: one.name.clone(),
                revision: one.revision(),
                mark: one.mark(),
                details: changes::details(one),
                is_idle: one.change.as_ref().is_some_and(|change| change.what == What::Unchanged),
            })
            .collect()
    }
}

impl Planned {
    /// `1a2b3c4 (main)`, for each source.
    fn revision(&self) -> String {
        let words = self.revisions.iter().zip(&self.target_revisions).map(|(found, asked)| {
            let short = short(found);
            if found == asked { short } else { format!("{short} ({asked})") }
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// What would become of it, and which steps select it in vain.
    fn mark(&self) -> String {
        let word = self.change.as_ref().map(changes::word).unwrap_or_default().to_owned();
        let words = [word, self.also_selected()].into_iter().filter(|words| !words.is_empty());
        words.collect::<Vec<_>>().join(", ")
    }

    fn also_selected(&self) -> String {
        match self.also.as_slice() {
            [] => String::new(),
            [only] => format!("step {only} selects it too"),
            also => {
                let numbers: Vec<String> = also.iter().map(ToString::to_string).collect();
                format!("steps {} select it too", numbers.join(" and "))
            }
        }
    }
}

/// The beginning of a commit; anything else as it is.
fn short(revision: &str) -> String {
    let is_commit = revision.len() == WHOLE && revision.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit { revision.chars().take(SHORT).collect() } else { revision.to_owned() }
}

impl StepTerms {
    fn words(&self) -> Vec<(&'static str, String)> {
        let mut terms = Vec::new();
        let (known, asked): (Vec<&str>, Vec<&str>) =
            self.gates.iter().map(String::as_str).partition(|gate| is_known_gate(gate));
        if !known.is_empty() {
            terms.push(("behind", known.join(", ")));
        }
        // Somebody has to have defined it where the rollout begins.
        if !asked.is_empty() {
            terms.push((if asked.len() == 1 { "needs gate" } else { "needs gates" }, asked.join(", ")));
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
            (None, _) => terms.push(("if it is late:", then.to_owned())),
            (Some(most), _) => terms.push(("if more than", format!("{most} fail: {then}"))),
        }
        terms
    }
}

/// `4 Applications, 2 at once`.
fn note(count: usize, max_update: Option<u32>) -> String {
    let all = applications(count);
    match max_update {
        None => all,
        Some(0) => format!("{all}, each begun by hand"),
        Some(1) => format!("{all}, one by one"),
        Some(most) => format!("{all}, {most} at once"),
    }
}

fn applications(count: usize) -> String {
    counted(u32::try_from(count).unwrap_or(u32::MAX), "Application", "Applications")
}
