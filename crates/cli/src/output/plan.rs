//! Plans in all formats: tree, JSON or YAML, diagram, picture.

mod mermaid;
mod svg;
#[cfg(test)]
mod tests;
mod tree;

use tidegate_model::{Plan, PlannedWave, Task, WaveNumbers};
use tidegate_planner::ExcludedManifest;
use tidegate_views::plan::{self as document, PlanDocument};

use crate::args::{Format, PlanFormat};
use crate::error::CliError;
use crate::output::{Printer, escape};

/// A plan to display, with information about its steps.
#[derive(Clone, Copy, Debug)]
pub struct PlanReport<'a> {
    /// Name of the application.
    pub application: &'a str,
    /// Cluster that the plan was compared with.
    pub compared_with: &'a str,
    pub plan: &'a Plan,
    /// Display numbers of the waves.
    pub numbers: &'a WaveNumbers,
    /// Objects outside the plan.
    pub excluded: &'a [ExcludedManifest],
    /// Source of the health rule for each task's object, in task order.
    pub judges: &'a [Option<&'static str>],
}

impl<'a> PlanReport<'a> {
    /// Returns the waves with their tasks.
    fn waves(&self) -> impl Iterator<Item = (&'a PlannedWave, &'a [Task])> {
        let plan = self.plan;
        plan.waves.iter().map(move |wave| (wave, plan.tasks_of(wave)))
    }

    fn wave_number(&self, wave: &PlannedWave) -> i64 {
        self.numbers.displayed(wave.phase, wave.wave)
    }

    fn document(&self) -> PlanDocument<'a> {
        document::plan_document(self.plan, self.numbers, self.judges)
    }

    /// Describes the size of the plan, such as `9 objects in 6 waves`.
    fn describe_size(&self) -> String {
        let (tasks, waves) = (self.plan.tasks.len(), self.plan.waves.len());
        format!("{} in {}", format_count(tasks, "object"), format_count(waves, "wave"))
    }
}

pub fn print(report: &PlanReport<'_>, format: PlanFormat, printer: &Printer) -> Result<(), CliError> {
    match format {
        PlanFormat::Tree => printer.print(&tree::text(report)),
        PlanFormat::Json => printer.print_value(&report.document(), Format::Json),
        PlanFormat::Yaml => printer.print_value(&report.document(), Format::Yaml),
        PlanFormat::Mermaid => printer.print_raw(&mermaid::diagram(report)),
        PlanFormat::Svg => printer.print_raw(&svg::picture(report)),
    }
}

/// Returns the object's name, escaped for printing: `shop/api`, or just `api` without a namespace.
fn object_name(task: &Task) -> String {
    let name = if task.namespace.is_empty() {
        task.name.clone()
    } else {
        format!("{}/{}", task.namespace, task.name)
    };
    escape(&name)
}

fn format_count(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
