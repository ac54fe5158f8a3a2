//! `tidegate appset`: what ApplicationSets make.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use tidegate_executor::{Clock as _, SystemClock};
use tidegate_generate::{Generated, Options, Outcome, Problem, generate};
use tidegate_model::Gvk;
use tidegate_model::argo::{API_VERSION, Application, ApplicationSet};
use tidegate_planner::Target;
use tidegate_service::applications::RepositoryFiles;
use tidegate_service::generating::FoundWorld;
use tidegate_source::{Reach, Repositories};

use crate::args::{AppsetCommand, GenerateArgs};
use crate::error::CliError;
use crate::exit::Ended;
use crate::input;
use crate::output::{Printer, application};

const KIND: &str = "ApplicationSet";

pub fn run(command: &AppsetCommand, printer: &Printer) -> Result<Ended, CliError> {
    match command {
        AppsetCommand::Generate(args) => print(args, printer),
    }
}

fn print(args: &GenerateArgs, printer: &Printer) -> Result<Ended, CliError> {
    let sets = read(args, printer)?;
    let scratch = Scratch::new()?;
    let mut all: Vec<Application> = Vec::new();
    let mut problems = Vec::new();
    for (set, base) in &sets {
        let generated = generated(set, base, args, &scratch)?;
        let name = &set.metadata.name;
        for passed in &generated.passed {
            printer.warn(&format!("ApplicationSet {name}: {}: {}", passed.place, passed.reason));
        }
        problems.extend(generated.refused.iter().map(|refusal| format!("ApplicationSet {name} {refusal}")));
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

/// The ApplicationSets of the files, and the folders they are in.
fn read(args: &GenerateArgs, printer: &Printer) -> Result<Vec<(ApplicationSet, PathBuf)>, CliError> {
    let mut sets = Vec::new();
    for file in &args.files {
        let base = match file.parent() {
            Some(folder) if folder != Path::new("") && file.is_file() => folder.to_path_buf(),
            _ if file.is_dir() => file.clone(),
            _ => PathBuf::from("."),
        };
        let base = std::path::absolute(&base).unwrap_or(base);
        for Target { object, origin } in
            input::load(std::slice::from_ref(file), input::Wanted::default())?.targets
        {
            if object.gvk() != Gvk::from_api_version(API_VERSION, KIND) {
                continue;
            }
            let set: ApplicationSet = serde_json::from_value(object.as_value().clone()).map_err(|error| {
                let problems = vec![format!("{origin}: ApplicationSet {}: {error}", object.name())];
                CliError::Generate { problems, is_input: true }
            })?;
            let unknown = set.unknown_fields();
            if !unknown.is_empty() {
                let name = &set.metadata.name;
                printer.warn(&format!(
                    "ApplicationSet {name}: these fields have no effect: {}",
                    unknown.join(", ")
                ));
            }
            sets.push((set, base.clone()));
        }
    }
    if sets.is_empty() {
        return Err(CliError::usage(format!("there is no {KIND} ({API_VERSION}) in the files")));
    }
    Ok(sets)
}

fn generated(
    set: &ApplicationSet,
    base: &Path,
    args: &GenerateArgs,
    scratch: &Scratch,
) -> Result<Generated, CliError> {
    let mut reach = Reach::new(scratch.0.join("mirrors"));
    if let Some(files) = &args.repositories {
        reach.credentials = RepositoryFiles::new(files).read()?;
    }
    let mut world = FoundWorld::new(Repositories::new(reach), base.to_path_buf());
    if let Some(files) = &args.clusters {
        world = world.with_clusters(&RepositoryFiles::new(files))?;
    }
    let now = Some(SystemClock.now().as_seconds());
    let options = Options { new_globbing: args.new_git_file_globbing, now };
    match generate(set, &mut world, &options) {
        Ok(Outcome::Done(generated)) => Ok(generated),
        Ok(Outcome::Unknown) => Err(CliError::refused("a generator was not answered; please report this")),
        Err(errors) => {
            // What others did not answer is no mistake in the file.
            let is_input = errors.0.iter().any(|error| !matches!(error.problem, Problem::Unanswered { .. }));
            let name = &set.metadata.name;
            let problems = errors.0.iter().map(|error| format!("ApplicationSet {name}: {error}")).collect();
            Err(CliError::Generate { problems, is_input })
        }
    }
}

/// A folder for mirrors of repositories, which this process alone can read, and that is gone afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, CliError> {
        let folder = std::env::temp_dir().join(format!("tidegate-generate-{}", std::process::id()));
        // One of this name is another's, or was left by a process that was killed.
        DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .map_err(|source| CliError::io("make", &folder, source))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
