//! ApplicationSets from files, and their Applications.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use tidegate_app_controller::RepositoryFiles;
use tidegate_app_controller::generator_inputs::RepositoryInputs;
use tidegate_applicationset::ignored::ignored_settings;
use tidegate_applicationset::rollout::TargetIdentities;
use tidegate_applicationset::sync_policy;
use tidegate_executor::{Clock as _, SystemClock};
use tidegate_generate::{GenerateOutcome, GenerateOutput, Options, Problem, generate};
use tidegate_model::Gvk;
use tidegate_model::argo::{self, API_VERSION, ApplicationSet};
use tidegate_planner::Target;
use tidegate_source::{RemoteAccess, Repositories};

use crate::args::GeneratorArgs;
use crate::error::CliError;
use crate::input;
use crate::output::Printer;

const KIND: &str = "ApplicationSet";

/// ApplicationSets from files, and the data sources of their generators.
pub struct AppSetFiles {
    /// ApplicationSets, each with its folder.
    pub appsets: Vec<(ApplicationSet, PathBuf)>,
    pub repositories: Arc<Repositories>,
    generator_inputs: RepositoryInputs,
    is_new_globbing: bool,
    /// Folder for repository mirrors, removed on drop.
    _scratch: TempDir,
}

impl AppSetFiles {
    /// Reads the files. Warns about fields that the service's policy options override.
    pub fn read(
        files: &[PathBuf],
        found: &GeneratorArgs,
        options: &sync_policy::AppSetRuleOptions,
        printer: &Printer,
    ) -> Result<Self, CliError> {
        let appsets = read_appsets(files)?;
        for (set, _) in &appsets {
            let warn = |one: &String| printer.warn(&format!("ApplicationSet {}: {one}", set.metadata.name));
            ignored_settings(set, options).iter().for_each(warn);
        }
        let scratch = create_scratch_folder()?;
        let mut reach = RemoteAccess::new(scratch.path().join("mirrors"));
        if let Some(files) = &found.repositories {
            reach.credentials = RepositoryFiles::new(files).read()?;
        }
        let repositories = Arc::new(Repositories::new(reach));
        let mut world = RepositoryInputs::new(Arc::clone(&repositories), PathBuf::from("."));
        if let Some(files) = &found.clusters {
            world = world.with_clusters(&RepositoryFiles::new(files))?;
        }
        let generator_inputs = world.with_http(found.secrets.as_deref().map(RepositoryFiles::new));
        let is_new_globbing = found.new_git_file_globbing;
        Ok(Self { appsets, repositories, generator_inputs, is_new_globbing, _scratch: scratch })
    }

    /// Returns an ApplicationSet's Applications, and problems with their names. Warns about skipped
    /// generators.
    pub fn generate_applications(
        &mut self,
        set: &ApplicationSet,
        base: &Path,
        printer: &Printer,
    ) -> Result<(GenerateOutput, Vec<String>), CliError> {
        self.generator_inputs.set_appset(set, base.to_path_buf());
        let now = Some(SystemClock.now().as_seconds());
        let options = Options { new_globbing: self.is_new_globbing, now };
        let name = &set.metadata.name;
        let generated = match generate(set, &mut self.generator_inputs, &options) {
            Ok(GenerateOutcome::Done(generated)) => generated.into_complete(),
            Ok(GenerateOutcome::Incomplete) => {
                return Err(CliError::refused(
                    "internal error: a generator got no response; please report this",
                ));
            }
            Err(errors) => Err(errors),
        };
        let generated = match generated {
            Ok(generated) => generated,
            Err(errors) => {
                // An unresponsive server isn't the file's fault.
                let is_input =
                    errors.0.iter().any(|error| !matches!(error.problem, Problem::QueryFailed { .. }));
                let problems =
                    errors.0.iter().map(|error| format!("ApplicationSet {name}: {error}")).collect();
                return Err(CliError::Generate { problems, is_input });
            }
        };
        for passed in &generated.skipped {
            printer.warn(&format!("ApplicationSet {name}: {}: {}", passed.place, passed.reason));
        }
        for tag in &generated.unknown_tags {
            printer.warn(&format!("ApplicationSet {name}: {tag}"));
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
        let refused = generated.rejected.iter().map(|refusal| format!("ApplicationSet {name} {refusal}"));
        let ignored = TargetIdentities::from_appset(set).err().into_iter().flatten();
        let ignored = ignored.map(|wrong| {
            format!(
                "ApplicationSet {name}: spec.ignoreApplicationDifferences: {wrong}; no Applications will be \
                 updated until this is fixed"
            )
        });
        let refused = refused.chain(ignored).collect();
        Ok((generated, refused))
    }
}

fn read_appsets(files: &[PathBuf]) -> Result<Vec<(ApplicationSet, PathBuf)>, CliError> {
    let mut appsets = Vec::new();
    for file in files {
        let base = match file.parent() {
            Some(folder) if folder != Path::new("") && file.is_file() => folder.to_path_buf(),
            _ if file.is_dir() => file.clone(),
            _ => PathBuf::from("."),
        };
        let base = std::path::absolute(&base).unwrap_or(base);
        for Target { object, origin } in
            input::load(std::slice::from_ref(file), input::InputRequirements::default())?.targets
        {
            if object.gvk() != Gvk::from_api_version(API_VERSION, KIND) {
                continue;
            }
            let set: ApplicationSet = argo::read_resource(object.as_value()).map_err(|error| {
                let problems = vec![format!("{origin}: ApplicationSet {}: {error}", object.name())];
                CliError::Generate { problems, is_input: true }
            })?;
            appsets.push((set, base.clone()));
        }
    }
    if appsets.is_empty() {
        return Err(CliError::usage(format!("the files contain no {KIND} ({API_VERSION})")));
    }
    Ok(appsets)
}

/// Creates a temporary folder for repository mirrors that only the current user can read.
fn create_scratch_folder() -> Result<TempDir, CliError> {
    tempfile::Builder::new()
        .prefix("tidegate-generate-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir()
        .map_err(|source| CliError::io("create a folder in", std::env::temp_dir(), source))
}
