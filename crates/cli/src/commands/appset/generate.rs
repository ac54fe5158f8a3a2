//! `tidegate appset generate`: the Applications that ApplicationSets in files make.

use std::collections::BTreeMap;

use tidegate_applicationset::policy::Options;
use tidegate_model::argo::Application;

use super::files::Files;
use crate::args::GenerateArgs;
use crate::error::CliError;
use crate::exit::Ended;
use crate::output::{Printer, application};

pub fn run(args: &GenerateArgs, printer: &Printer) -> Result<Ended, CliError> {
    let mut files = Files::read(&args.files, &args.found, &Options::default(), printer)?;
    let mut all: Vec<Application> = Vec::new();
    let mut problems = Vec::new();
    for (set, base) in files.sets.clone() {
        let (generated, refused) = files.generated(&set, &base, printer)?;
        problems.extend(refused);
        all.extend(generated.applications.into_iter().map(|made| made.application));
    }
    problems.extend(between_sets(&all));
    // Those that can be are shown all the same; the exit code says that they are not all.
    printer.value(&application::document(&all), args.output)?;
    if problems.is_empty() { Ok(Ended::Done) } else { Err(CliError::Generate { problems, is_input: true }) }
}

/// Names that several sets make.
fn between_sets(applications: &[Application]) -> Vec<String> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for one in applications {
        *counts.entry((&one.metadata.namespace, &one.metadata.name)).or_default() += 1;
    }
    let several = counts.into_iter().filter(|(_, count)| *count > 1);
    several
        .map(|((_, name), _)| {
            format!("several ApplicationSets make an Application {name}; give it another name in one of them")
        })
        .collect()
}
