//! `tidegate appset generate`: the Applications that ApplicationSets in files generate.

use std::collections::BTreeMap;

use tidegate_applicationset::sync_policy::AppSetRuleOptions;
use tidegate_model::argo::Application;

use super::files::AppSetFiles;
use crate::args::GenerateArgs;
use crate::error::CliError;
use crate::exit::CommandOutcome;
use crate::output::{Printer, application};

pub fn run(args: &GenerateArgs, printer: &Printer) -> Result<CommandOutcome, CliError> {
    let mut files = AppSetFiles::read(&args.files, &args.generators, &AppSetRuleOptions::default(), printer)?;
    let mut all: Vec<Application> = Vec::new();
    let mut problems = Vec::new();
    for (set, base) in files.appsets.clone() {
        let (generated, refused) = files.generate_applications(&set, &base, printer)?;
        problems.extend(refused);
        all.extend(generated.applications.into_iter().map(|made| made.application));
    }
    problems.extend(find_shared_names(&all));
    // Valid Applications are shown anyway; the exit code shows that some are missing.
    printer.print_value(&application::document(&all), args.output)?;
    if problems.is_empty() {
        Ok(CommandOutcome::Done)
    } else {
        Err(CliError::Generate { problems, is_input: true })
    }
}

/// Returns names that more than one ApplicationSet generates.
fn find_shared_names(applications: &[Application]) -> Vec<String> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for one in applications {
        *counts.entry((&one.metadata.namespace, &one.metadata.name)).or_default() += 1;
    }
    let several = counts.into_iter().filter(|(_, count)| *count > 1);
    several
        .map(|((_, name), _)| {
            format!("several ApplicationSets generate an Application {name}; rename it in one of them")
        })
        .collect()
}
