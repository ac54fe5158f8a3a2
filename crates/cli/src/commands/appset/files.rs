//! ApplicationSets in files, and what they generate.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tidegate_applicationset::policy;
use tidegate_applicationset::rollout::Targets;
use tidegate_applicationset::unheeded::unheeded;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_generate::{Generated, Options, Outcome, Problem, generate};
use tidegate_model::Gvk;
use tidegate_model::argo::{self, API_VERSION, ApplicationSet};
use tidegate_planner::Target;
use tidegate_service::applications::RepositoryFiles;
use tidegate_service::generating::FoundWorld;
use tidegate_source::{Reach, Repositories};

use crate::args::FoundArgs;
use crate::error::CliError;
use crate::input;
use crate::output::Printer;

const KIND: &str = "ApplicationSet";

/// The ApplicationSets of files, and what their generators ask.
pub struct Files {
    /// With the folder that each of them is in.
    pub sets: Vec<(ApplicationSet, PathBuf)>,
    pub repositories: Arc<Repositories>,
    world: FoundWorld,
    new_globbing: bool,
    /// For mirrors of repositories; it ends with this.
    _scratch: TempDir,
}

impl Files {
    /// Reads them, and tells what they say that has no effect where a service decides like this for all of them.
    pub fn read(
        files: &[PathBuf],
        found: &FoundArgs,
        options: &policy::Options,
        printer: &Printer,
    ) -> Result<Self, CliError> {
        let sets = read(files)?;
        for (set, _) in &sets {
            let warn = |one: &String| printer.warn(&format!("ApplicationSet {}: {one}", set.metadata.name));
            unheeded(set, options).iter().for_each(warn);
        }
        let scratch = scratch()?;
        let mut reach = Reach::new(scratch.path().join("mirrors"));
        if let Some(files) = &found.repositories {
            reach.credentials = RepositoryFiles::new(files).read()?;
        }
        let repositories = Arc::new(Repositories::new(reach));
        let mut world = FoundWorld::new(Arc::clone(&repositories), PathBuf::from("."));
        if let Some(files) = &found.clusters {
            world = world.with_clusters(&RepositoryFiles::new(files))?;
        }
        let world = world.with_http(found.secrets.as_deref().map(RepositoryFiles::new));
        let new_globbing = found.new_git_file_globbing;
        Ok(Self { sets, repositories, world, new_globbing, _scratch: scratch })
    }

    /// What a set generates, and what is wrong with names of it; generators that had nothing to say are told.
    pub fn generated(
        &mut self,
        set: &ApplicationSet,
        base: &Path,
        printer: &Printer,
    ) -> Result<(Generated, Vec<String>), CliError> {
        self.world.at(set, base.to_path_buf());
        let now = Some(SystemClock.now().as_seconds());
        let options = Options { new_globbing: self.new_globbing, now };
        let name = &set.metadata.name;
        let generated = match generate(set, &mut self.world, &options) {
            Ok(Outcome::Done(generated)) => generated.whole(),
            Ok(Outcome::Unknown) => {
                return Err(CliError::refused("a generator was not answered; please report this"));
            }
            Err(errors) => Err(errors),
        };
        let generated = match generated {
            Ok(generated) => generated,
            Err(errors) => {
                // What others did not answer is no mistake in the file.
                let is_input =
                    errors.0.iter().any(|error| !matches!(error.problem, Problem::Unanswered { .. }));
                let problems =
                    errors.0.iter().map(|error| format!("ApplicationSet {name}: {error}")).collect();
                return Err(CliError::Generate { problems, is_input });
            }
        };
        for passed in &generated.passed {
            printer.warn(&format!("ApplicationSet {name}: {}: {}", passed.place, passed.reason));
        }
        if set.spec.template_patch.is_some() {
            let all = generated.applications.iter().flat_map(|made| made.application.unknown_fields());
            let fields: Vec<String> = all.collect::<BTreeSet<String>>().into_iter().collect();
            if !fields.is_empty() {
                let fields = fields.join(", ");
                printer.warn(&format!(
                    "ApplicationSet {name}: these fields of its Applications have no effect: {fields}"
                ));
            }
        }
        let refused = generated.refused.iter().map(|refusal| format!("ApplicationSet {name} {refusal}"));
        let ignored = Targets::of(set).err().into_iter().flatten();
        let ignored = ignored.map(|wrong| {
            format!("ApplicationSet {name}: spec.ignoreApplicationDifferences: {wrong}. No Application is updated before that is mended")
        });
        let refused = refused.chain(ignored).collect();
        Ok((generated, refused))
    }
}

fn read(files: &[PathBuf]) -> Result<Vec<(ApplicationSet, PathBuf)>, CliError> {
    let mut sets = Vec::new();
    for file in files {
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
            let set: ApplicationSet = argo::read(object.as_value()).map_err(|error| {
                let problems = vec![format!("{origin}: ApplicationSet {}: {error}", object.name())];
                CliError::Generate { problems, is_input: true }
            })?;
            sets.push((set, base.clone()));
        }
    }
    if sets.is_empty() {
        return Err(CliError::usage(format!("there is no {KIND} ({API_VERSION}) in the files")));
    }
    Ok(sets)
}

/// A folder for mirrors of repositories, which this user alone can look into, and that is gone afterwards.
fn scratch() -> Result<TempDir, CliError> {
    tempfile::Builder::new()
        .prefix("tidegate-generate-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .map_err(|source| CliError::io("make a folder in", std::env::temp_dir(), source))
}
