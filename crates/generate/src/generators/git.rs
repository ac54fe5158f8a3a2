use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate_model::argo::GitGenerator;

use crate::error::{ErrorLocation, Problem};
use crate::inputs::{GitTree, without_credentials};
use crate::name_rules::normalize;
use crate::parameters::{ParameterSet, Parameters, describe_kind, flatten, from_texts};
use crate::path_patterns::{
    PathPattern, PatternSyntax, impossible_pattern_reason, misleading_pattern_reason, strip_leading_dots,
};
use crate::run::{GenerateResult, GenerateRun, GenerateStop, GeneratorPosition};
use crate::yaml;

/// Returns a parameter set for each selected folder, or for each object in the selected files, ordered by
/// path.
pub(crate) fn git_parameters(
    run: &mut GenerateRun<'_>,
    git: &GitGenerator,
    spot: GeneratorPosition<'_>,
) -> GenerateResult<Vec<ParameterSet>> {
    let git = run.render_part(git, spot)?;
    let directories: Vec<_> = git.directories.iter().map(|one| (one.path.as_str(), one.exclude)).collect();
    let files: Vec<_> = git.files.iter().map(|one| (one.path.as_str(), one.exclude)).collect();
    if directories.is_empty() && files.is_empty() {
        return Err(spot.error(Problem::NoPaths));
    }
    let file_syntax = if run.options.new_globbing { PatternSyntax::DoubleStar } else { PatternSyntax::Git };
    let (field, patterns, syntax) = match directories.is_empty() {
        false => ("directories", &directories, PatternSyntax::Shell),
        true => ("files", &files, file_syntax),
    };
    check_patterns(field, patterns, syntax, spot)?;
    let tree = spot.resolve_reply(run.inputs.git_tree(&git.repo_url, &git.revision))?;
    if !directories.is_empty() {
        let folders = all_folders(&tree);
        let chosen = select_paths(run, &folders, &directories, PatternSyntax::Shell, spot)?;
        let mut sets = Vec::new();
        for folder in chosen {
            let origin = format!("folder {folder}");
            add_parameter_set(
                run,
                &mut sets,
                Parameters::new(),
                origin,
                &GitPath { folder: &folder, file: None },
                &git,
                spot,
            )?;
        }
        return Ok(sets);
    }
    let paths: BTreeSet<&str> = tree.files.iter().map(String::as_str).collect();
    let chosen = select_paths(run, &paths, &files, file_syntax, spot)?;
    let mut sets = Vec::new();
    let mut is_unknown = false;
    for path in chosen {
        match file_parameters(run, &mut sets, &path, &tree, &git, spot) {
            // Continue, so that all files are requested in the same run.
            Err(GenerateStop::NotAvailableYet) => is_unknown = true,
            other => other?,
        }
    }
    if is_unknown { Err(GenerateStop::NotAvailableYet) } else { Ok(sets) }
}

/// Rejects patterns that can't match anything in any repository. Including one would delete the generator's
/// Applications; excluding one would do nothing.
fn check_patterns(
    field: &'static str,
    patterns: &[(&str, bool)],
    syntax: PatternSyntax,
    spot: GeneratorPosition<'_>,
) -> GenerateResult<()> {
    if patterns.iter().all(|(_, is_excluded)| *is_excluded) {
        return Err(spot.error(Problem::OnlyExclusions { field }));
    }
    let excludes = |pattern: &str| {
        let path = strip_leading_dots(pattern);
        patterns.iter().any(|(other, is_excluded)| *is_excluded && strip_leading_dots(other) == path)
    };
    if patterns.iter().all(|(pattern, is_excluded)| *is_excluded || excludes(pattern)) {
        return Err(spot.error(Problem::AllExcluded { field }));
    }
    for (pattern, is_excluded) in patterns {
        if let Some(reason) = misleading_pattern_reason(pattern, syntax) {
            return Err(spot.error(Problem::Pattern { pattern: (*pattern).to_owned(), reason }));
        }
        if let Some(reason) = impossible_pattern_reason(pattern, syntax, *is_excluded) {
            return Err(spot.error(Problem::NoMatch { pattern: (*pattern).to_owned(), reason }));
        }
    }
    Ok(())
}

/// Returns all folders that contain a file at any depth, except hidden ones.
fn all_folders(tree: &GitTree) -> BTreeSet<&str> {
    let mut folders = BTreeSet::new();
    for file in &tree.files {
        for (end, _) in file.match_indices('/') {
            let Some(folder) = file.get(..end) else { continue };
            if folder.rsplit('/').next().is_some_and(|name| name.starts_with('.')) {
                break;
            }
            folders.insert(folder);
        }
    }
    folders
}

/// Returns the paths that match at least one pattern and no exclusion.
fn select_paths(
    run: &mut GenerateRun<'_>,
    paths: &BTreeSet<&str>,
    patterns: &[(&str, bool)],
    dialect: PatternSyntax,
    spot: GeneratorPosition<'_>,
) -> GenerateResult<Vec<String>> {
    let steps = paths.len().saturating_add(1).saturating_mul(patterns.len());
    run.take_steps(steps, spot)?;
    let mut included = Vec::new();
    let mut excluded = Vec::new();
    for (written, is_excluded) in patterns {
        let pattern = PathPattern::new(written, dialect).map_err(|problem| spot.error(problem))?;
        if *is_excluded { excluded.push(pattern) } else { included.push(pattern) }
    }
    let counts = |path: &&&str| {
        let matches = |pattern: &PathPattern| pattern.matches(path);
        included.iter().any(matches) && !excluded.iter().any(matches)
    };
    Ok(paths.iter().filter(counts).map(|path| (*path).to_owned()).collect())
}

/// Adds the parameter sets of a file: one for an object or an empty file, and one per entry for a list.
fn file_parameters(
    run: &mut GenerateRun<'_>,
    sets: &mut Vec<ParameterSet>,
    path: &str,
    tree: &GitTree,
    git: &GitGenerator,
    spot: GeneratorPosition<'_>,
) -> GenerateResult<()> {
    let text = spot.resolve_reply(run.inputs.git_file(&git.repo_url, &tree.commit, path))?;
    let origin = format!("file {path}");
    let wrong = |reason: String| {
        let (path, repository) = (path.to_owned(), without_credentials(&git.repo_url));
        GenerateStop::from(ErrorLocation::in_generator(spot.path).error(Problem::File {
            path,
            repository,
            reason,
        }))
    };
    run.budget.take_bytes(text.len()).map_err(|problem| spot.error(problem))?;
    let objects = match yaml::read(&text).map_err(wrong)? {
        Value::Null => vec![(Parameters::new(), origin)],
        Value::Object(object) => vec![(object, origin)],
        Value::Array(items) => {
            let object = |(index, item)| match item {
                Value::Object(object) => Ok((object, format!("{origin} [{index}]"))),
                other => {
                    Err(wrong(format!("entry {index} must be an object, found {}", describe_kind(&other))))
                }
            };
            items.into_iter().enumerate().map(object).collect::<GenerateResult<_>>()?
        }
        other => {
            return Err(wrong(format!(
                "the content must be an object or a list of objects, found {}",
                describe_kind(&other)
            )));
        }
    };
    let (folder, file) = path.rsplit_once('/').unwrap_or((".", path));
    for (object, origin) in objects {
        let parameters = if run.uses_go_templates() { object } else { flatten(&object) };
        add_parameter_set(run, sets, parameters, origin, &GitPath { folder, file: Some(file) }, git, spot)?;
    }
    Ok(())
}

struct GitPath<'p> {
    folder: &'p str,
    file: Option<&'p str>,
}

/// Adds a parameter set, including the parameters for its path and the generator's `values`.
fn add_parameter_set(
    run: &mut GenerateRun<'_>,
    sets: &mut Vec<ParameterSet>,
    mut parameters: Parameters,
    origin: String,
    path: &GitPath<'_>,
    git: &GitGenerator,
    spot: GeneratorPosition<'_>,
) -> GenerateResult<()> {
    parameters.extend(path.parameters(&git.path_param_prefix, run.uses_go_templates()));
    run.add_values(&mut parameters, &git.values, &origin, spot)?;
    run.add_parameter_set(sets, parameters, origin, spot)
}

impl GitPath<'_> {
    fn parameters(&self, prefix: &str, of_go: bool) -> Parameters {
        let folder = self.folder;
        let basename = folder.rsplit('/').next().unwrap_or(folder);
        let mut fields = vec![("basename", basename.to_owned()), ("basenameNormalized", normalize(basename))];
        if let Some(file) = self.file {
            fields.extend([("filename", file.to_owned()), ("filenameNormalized", normalize(file))]);
        }
        let segments: Vec<_> = folder.split('/').filter(|segment| !segment.is_empty()).collect();
        let mut parameters = Parameters::new();
        if of_go {
            let mut path = from_texts(fields);
            path.insert("path".to_owned(), json!(folder));
            path.insert("segments".to_owned(), json!(segments));
            parameters.insert("path".to_owned(), Value::Object(path));
            if !prefix.is_empty() {
                parameters = Parameters::from_iter([(prefix.to_owned(), Value::Object(parameters))]);
            }
            return parameters;
        }
        let path = if prefix.is_empty() { "path".to_owned() } else { format!("{prefix}.path") };
        parameters.insert(path.clone(), json!(folder));
        parameters
            .extend(from_texts(fields.into_iter().map(|(name, value)| (format!("{path}.{name}"), value))));
        let segments = segments.into_iter().enumerate();
        parameters.extend(segments.map(|(index, segment)| (format!("{path}[{index}]"), json!(segment))));
        parameters
    }
}
