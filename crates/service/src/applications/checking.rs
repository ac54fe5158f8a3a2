//! Why an application cannot be served, whatever its manifests are.

use std::collections::BTreeSet;

use tidegate_application::operation;
use tidegate_model::argo::{Application, ApplicationSource};
use tidegate_model::{IgnoreDifference, Tracking};
use tidegate_planner::{Comparer, unknown_options};

/// Why an application cannot be served, whatever its manifests are.
pub(crate) fn check(application: &Application) -> Result<(), String> {
    let spec = &application.spec;
    if spec.rest.get("sourceHydrator").is_some_and(|said| !said.is_null()) {
        return Err("spec.sourceHydrator is not supported yet".to_owned());
    }
    let wrong = wrong_settings(application);
    if !wrong.is_empty() {
        return Err(wrong.join("; "));
    }
    check_sources(application)
}

fn check_sources(application: &Application) -> Result<(), String> {
    let spec = &application.spec;
    match (&spec.source, spec.sources.is_empty()) {
        (Some(_), false) => Err(
            "spec.source and spec.sources are both there, and it is not clear which is meant; take one of them away"
                .to_owned(),
        ),
        (None, true) => Err("spec.source is missing: it says where the manifests come from".to_owned()),
        (Some(source), true) => check_source("spec.source", source, false),
        (None, false) => {
            for (field, source) in named(application) {
                check_source(&field, source, true)?;
            }
            let mut names = BTreeSet::new();
            let mut said = spec.sources.iter().map(|source| source.reference.as_str());
            match said.find(|name| !name.is_empty() && !names.insert(*name)) {
                Some(name) => Err(format!("two of spec.sources have the ref {name:?}; give each its own")),
                None => Ok(()),
            }
        }
    }
}

/// The sources of an application, with the fields that say them.
fn named(application: &Application) -> impl Iterator<Item = (String, &ApplicationSource)> {
    let is_list = !application.spec.sources.is_empty();
    application.sources().iter().enumerate().map(move |(at, source)| {
        (if is_list { format!("spec.sources[{at}]") } else { "spec.source".to_owned() }, source)
    })
}

fn check_source(field: &str, source: &ApplicationSource, is_one_of_several: bool) -> Result<(), String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    let ApplicationSource { path, chart, reference, .. } = source;
    if !reference.is_empty() && !is_one_of_several {
        return Err(format!("{field}.ref is for the other sources of spec.sources, and there are none"));
    }
    if !reference.chars().all(is_name) {
        return Err(format!(
            "{field}.ref {reference:?} may have letters, digits, dashes and underscores only"
        ));
    }
    if !reference.is_empty() && !chart.is_empty() {
        return Err(format!("{field} has a ref and a chart; value files come from Git repositories only"));
    }
    // The whole repository is meant by `.` alone: nothing at all would be read as that, and prune what is not there.
    let is_chart = !chart.is_empty() || source.repo_url.starts_with("oci://");
    if path.is_empty() && !is_chart && reference.is_empty() {
        return Err(format!(
            "{field}.path is missing: it says which folder of the repository; `.` is all of it"
        ));
    }
    if path.starts_with('/') {
        return Err(format!(
            "{field}.path {path:?} begins with a slash; write it relative to the root of the repository"
        ));
    }
    Ok(())
}

/// Sync options that mean nothing. One that is misspelt must not be left out silently: without `Prune=false` objects go.
pub(crate) fn wrong_options(field: &str, options: &[String]) -> Vec<String> {
    unknown_options(options).into_iter().map(|problem| format!("{field}: {problem}")).collect()
}

/// What is written in its settings and means nothing.
fn wrong_settings(application: &Application) -> Vec<String> {
    let spec = &application.spec;
    let policy = spec.sync_policy.clone().unwrap_or_default();
    let mut wrong = wrong_options("spec.syncPolicy.syncOptions", &policy.sync_options);
    let retry = policy.retry.as_ref().map(operation::backoff).and_then(Result::err);
    wrong.extend(retry.map(|problem| format!("spec.syncPolicy.{problem}")));
    let ignored: Vec<IgnoreDifference> = spec.ignore_differences.iter().map(IgnoreDifference::from).collect();
    let (_, problems) = Comparer::new(&ignored, &Tracking::default());
    wrong.extend(problems.iter().map(|problem| format!("spec.ignoreDifferences: {problem}")));
    let mut shown = vec![("spec.destination.namespace".to_owned(), spec.destination.namespace.as_str())];
    for (field, source) in named(application) {
        shown.extend([
            (format!("{field}.path"), source.path.as_str()),
            (format!("{field}.chart"), source.chart.as_str()),
            (format!("{field}.targetRevision"), source.target_revision.as_str()),
            (format!("{field}.repoURL"), source.repo_url.as_str()),
        ]);
    }
    let controlled = shown.into_iter().filter(|(_, text)| text.chars().any(char::is_control));
    wrong.extend(
        controlled.map(|(field, _)| format!("{field} has a line end or another control character in it")),
    );
    wrong
}
