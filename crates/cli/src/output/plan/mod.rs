//! A plan in all its forms: tree, document, diagram, picture.

mod mermaid;
mod svg;
mod tree;

use tidegate_model::{Plan, PlannedWave, Task, WaveNumbers};
use tidegate_planner::LeftOut;
use tidegate_service::documents::plan::{self as document, PlanDocument};

use crate::args::{Format, PlanFormat};
use crate::error::CliError;
use crate::output::{Printer, escape};

/// A plan to show.
#[derive(Clone, Copy, Debug)]
pub struct PlanReport<'a> {
    /// Name of the application.
    pub application: &'a str,
    /// What it was compared with, in words.
    pub compared_with: &'a str,
    pub plan: &'a Plan,
    /// By which numbers people know its waves.
    pub numbers: &'a WaveNumbers,
    /// Objects that take no part.
    pub left_out: &'a [LeftOut],
    /// Who judges the health of each task's object, in the order of the tasks.
    pub judges: &'a [Option<&'static str>],
}

impl<'a> PlanReport<'a> {
    /// The waves with their tasks.
    fn waves(&self) -> impl Iterator<Item = (&'a PlannedWave, &'a [Task])> {
        let plan = self.plan;
        plan.waves.iter().map(move |wave| (wave, plan.tasks_of(wave)))
    }

    /// Its number, as people know it.
    fn number(&self, wave: &PlannedWave) -> i64 {
        self.numbers.shown(wave.phase, wave.wave)
    }

    fn document(&self) -> PlanDocument<'a> {
        document::of(self.plan, self.numbers, self.judges)
    }

    /// `9 objects in 6 waves`.
    fn size(&self) -> String {
        let (tasks, waves) = (self.plan.tasks.len(), self.plan.waves.len());
        format!("{} in {}", counted(tasks, "object"), counted(waves, "wave"))
    }
}

pub fn print(report: &PlanReport<'_>, format: PlanFormat, printer: &Printer) -> Result<(), CliError> {
    match format {
        PlanFormat::Tree => printer.out(&tree::text(report)),
        PlanFormat::Json => printer.value(&report.document(), Format::Json),
        PlanFormat::Yaml => printer.value(&report.document(), Format::Yaml),
        PlanFormat::Mermaid => printer.raw(&mermaid::diagram(report)),
        PlanFormat::Svg => printer.raw(&svg::picture(report)),
    }
}

/// `shop/api`, or the name alone for what has no namespace. Safe to print.
fn object_name(task: &Task) -> String {
    let name = if task.namespace.is_empty() {
        task.name.clone()
    } else {
        format!("{}/{}", task.namespace, task.name)
    };
    escape(&name)
}

fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}
