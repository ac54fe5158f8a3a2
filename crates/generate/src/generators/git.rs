use std::collections::BTreeSet;

use serde_json::{Value, json};
use tidegate_model::argo::GitGenerator;

use crate::error::{Place, Problem};
use crate::names::normalize;
use crate::parameters::{ParameterSet, Parameters, flatten, kind, of_texts};
use crate::paths::{Dialect, Pattern};
use crate::run::{Ran, Run, Spot, Stop};
use crate::world::{GitTree, shown};
use crate::yaml;

/// A set for each folder, or for each object in each file, of a repository; in the order of their paths.
pub(crate) fn sets(run: &mut Run<'_>, git: &GitGenerator, spot: Spot<'_>) -> Ran<Vec<ParameterSet>> {
    let git = run.filled(git, spot)?;
    let directories: Vec<_> = git.directories.iter().map(|one| (one.path.as_str(), one.exclude)).collect();
    let files: Vec<_> = git.files.iter().map(|one| (one.path.as_str(), one.exclude)).collect();
    if directories.is_empty() && files.is_empty() {
        return Err(spot.wrong(Problem::NoPaths));
    }
    let tree = spot.known(run.world.git_tree(&git.repo_url, &git.revision))?;
    if !directories.is_empty() {
        let folders = folders(&tree);
        let chosen = chosen(run, &folders, &directories, Dialect::Shell, spot)?;
        let mut sets = Vec::new();
        for folder in chosen {
            let origin = format!("folder {folder}");
            let set = Parameters::new();
            add(run, &mut sets, (set, origin), &Path { folder: &folder, file: None }, &git, spot)?;
        }
        return Ok(sets);
    }
    let dialect = if run.options.new_globbing { Dialect::DoubleStar } else { Dialect::Git };
    let paths: BTreeSet<&str> = tree.files.iter().map(String::as_str).collect();
    let chosen = chosen(run, &paths, &files, dialect, spot)?;
    let mut sets = Vec::new();
    let mut is_unknown = false;
    for path in chosen {
        match of_file(run, &mut sets, &path, &tree, &git, spot) {
            // The others are asked for in the same round.
            Err(Stop::Unknown) => is_unknown = true,
            other => other?,
        }
    }
    if is_unknown { Err(Stop::Unknown) } else { Ok(sets) }
}

/// All folders in which, however deep, there is a file; none that is hidden.
fn folders(tree: &GitTree) -> BTreeSet<&str> {
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

/// Paths that a pattern includes, and none excludes.
fn chosen(
    run: &mut Run<'_>,
    paths: &BTreeSet<&str>,
    patterns: &[(&str, bool)],
    dialect: Dialect,
    spot: Spot<'_>,
) -> Ran<Vec<String>> {
    let steps = paths.len().saturating_add(1).saturating_mul(patterns.len());
    run.steps(steps, spot)?;
    let mut included = Vec::new();
    let mut excluded = Vec::new();
    for (pattern, is_excluded) in patterns {
        let pattern = Pattern::new(pattern, dialect).map_err(|problem| spot.wrong(problem))?;
        if *is_excluded { excluded.push(pattern) } else { included.push(pattern) }
    }
    let counts = |path: &&&str| {
        let matches = |pattern: &Pattern| pattern.matches(path);
        included.iter().any(matches) && !excluded.iter().any(matches)
    };
    Ok(paths.iter().filter(counts).map(|path| (*path).to_owned()).collect())
}

/// The sets of one file: none of an empty list, one of an object or of an empty file, one of each object of a list.
fn of_file(
    run: &mut Run<'_>,
    sets: &mut Vec<ParameterSet>,
    path: &str,
    tree: &GitTree,
    git: &GitGenerator,
    spot: Spot<'_>,
) -> Ran<()> {
    let text = spot.known(run.world.git_file(&git.repo_url, &tree.commit, path))?;
    let origin = format!("file {path}");
    let wrong = |reason: String| {
        let (path, repository) = (path.to_owned(), shown(&git.repo_url));
        Stop::from(Place::of(spot.place).wrong(Problem::File { path, repository, reason }))
    };
    run.budget.bytes(text.len()).map_err(|problem| spot.wrong(problem))?;
    let objects = match yaml::read(&text).map_err(wrong)? {
        Value::Null => vec![(Parameters::new(), origin)],
        Value::Object(object) => vec![(object, origin)],
        Value::Array(items) => {
            let object = |(index, item)| match item {
                Value::Object(object) => Ok((object, format!("{origin} [{index}]"))),
                other => Err(wrong(format!("entry {index} is {}, and no object", kind(&other)))),
            };
            items.into_iter().enumerate().map(object).collect::<Ran<_>>()?
        }
        other => return Err(wrong(format!("it is {}, and no object or list of objects", kind(&other)))),
    };
    let (folder, file) = path.rsplit_once('/').unwrap_or((".", path));
    for (object, origin) in objects {
        let parameters = if run.of_go() { object } else { flatten(&object) };
        add(run, sets, (parameters, origin), &Path { folder, file: Some(file) }, git, spot)?;
    }
    Ok(())
}

struct Path<'p> {
    folder: &'p str,
    file: Option<&'p str>,
}

/// Adds a set with the parameters of its path, and its values.
fn add(
    run: &mut Run<'_>,
    sets: &mut Vec<ParameterSet>,
    (mut parameters, origin): (Parameters, String),
    path: &Path<'_>,
    git: &GitGenerator,
    spot: Spot<'_>,
) -> Ran<()> {
    parameters.extend(path.parameters(&git.path_param_prefix, run.of_go()));
    run.add_values(&mut parameters, &git.values, &origin, spot)?;
    run.add(sets, parameters, origin, spot)
}

impl Path<'_> {
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
            let mut path = of_texts(fields);
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
            .extend(of_texts(fields.into_iter().map(|(name, value)| (format!("{path}.{name}"), value))));
        let segments = segments.into_iter().enumerate();
        parameters.extend(segments.map(|(index, segment)| (format!("{path}[{index}]"), json!(segment))));
        parameters
    }
}
