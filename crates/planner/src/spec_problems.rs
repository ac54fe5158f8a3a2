//! Errors in an Application's spec that don't depend on its manifests or on a cluster.

use tidegate_model::argo::support::{Support, undeclared_fields};
use tidegate_model::argo::{ApplicationSource, ApplicationSpec, ResourceIgnoreDifferences, SpecProblem};
use tidegate_model::{IgnoreDifference, Tracking};

use crate::diff::{Comparer, IgnoreError};
use crate::manifests::is_label;
use crate::sync_options::unknown_options;

/// Returns the errors that prevent Tidegate from managing an Application, whatever its manifests.
pub fn spec_problems(spec: &ApplicationSpec) -> Vec<SpecProblem> {
    SpecChecker::default().problems(spec)
}

/// Checks the specs of many Applications. Caches the most recent `ignoreDifferences`, which are expensive to
/// check and usually the same for all Applications of an ApplicationSet.
#[derive(Debug, Default)]
pub struct SpecChecker {
    last_ignored: Vec<ResourceIgnoreDifferences>,
    last_problems: Vec<SpecProblem>,
}

impl SpecChecker {
    /// Returns the number of jq expressions that must be compiled to check this spec.
    pub fn expressions_to_compile(&self, spec: &ApplicationSpec) -> usize {
        if spec.ignore_differences == self.last_ignored {
            return 0;
        }
        spec.ignore_differences.iter().map(|entry| entry.jq_path_expressions.len()).sum()
    }

    /// Returns the errors in a spec, like [`spec_problems`].
    pub fn problems(&mut self, spec: &ApplicationSpec) -> Vec<SpecProblem> {
        let is_set = |field: &&str| spec.rest.get(*field).is_some_and(|value| !value.is_null());
        if let Some(field) = undeclared_fields("Application", Support::Refused).find(is_set) {
            let field = format!("spec.{field}");
            let message = format!("{field} is not supported yet");
            return vec![SpecProblem { field, message }];
        }
        let mut problems: Vec<SpecProblem> = spec.destination.check().err().into_iter().collect();
        problems.extend(namespace_problem(&spec.destination.namespace));
        problems.extend(sync_policy_problems(spec));
        problems.extend_from_slice(self.ignore_problems(&spec.ignore_differences));
        problems.extend(control_character_problems(spec));
        problems.extend(spec.check_sources().err());
        problems
    }

    fn ignore_problems(&mut self, entries: &[ResourceIgnoreDifferences]) -> &[SpecProblem] {
        const FIELD: &str = "spec.ignoreDifferences";
        if entries != self.last_ignored {
            let ignored: Vec<IgnoreDifference> = entries.iter().map(IgnoreDifference::from).collect();
            let (_, errors) = Comparer::new(&ignored, &Tracking::default());
            let problem = |error: &IgnoreError| SpecProblem::new(FIELD, format!("{FIELD}: {error}"));
            self.last_problems = errors.iter().map(problem).collect();
            self.last_ignored = entries.to_vec();
        }
        &self.last_problems
    }
}

/// Returns an error if a destination's namespace is set but isn't a DNS label. Control characters must not be
/// displayed and have a separate error.
fn namespace_problem(namespace: &str) -> Option<SpecProblem> {
    const FIELD: &str = "spec.destination.namespace";
    let is_reported_elsewhere = namespace.is_empty() || namespace.chars().any(char::is_control);
    (!is_label(namespace) && !is_reported_elsewhere).then(|| {
        let rule = "use at most 63 lower-case letters, digits and '-', with a letter or digit at both ends";
        SpecProblem::new(FIELD, format!("{FIELD} {namespace:?} is not a valid namespace name; {rule}"))
    })
}

/// Returns the errors in sync options and retry settings. A misspelled option must be an error: if
/// `Prune=false` were ignored, objects would be deleted.
fn sync_policy_problems(spec: &ApplicationSpec) -> Vec<SpecProblem> {
    const OPTIONS: &str = "spec.syncPolicy.syncOptions";
    let Some(policy) = &spec.sync_policy else { return Vec::new() };
    let option = |problem: String| SpecProblem::new(OPTIONS, format!("{OPTIONS}: {problem}"));
    let mut problems: Vec<SpecProblem> =
        unknown_options(&policy.sync_options).into_iter().map(option).collect();
    let invalid = policy.retry.as_ref().and_then(|retry| retry.to_policy().err());
    problems.extend(invalid.map(|error| {
        let field = format!("spec.syncPolicy.retry.backoff.{}", error.field());
        SpecProblem::new(field, format!("spec.syncPolicy: {error}"))
    }));
    problems
}

/// Returns the sources and the paths of their fields.
fn named_sources(spec: &ApplicationSpec) -> impl Iterator<Item = (String, &ApplicationSource)> {
    let single = spec.source.iter().filter(move |_| spec.sources.is_empty());
    let listed = spec.sources.iter().enumerate();
    single
        .map(|source| ("spec.source".to_owned(), source))
        .chain(listed.map(|(index, source)| (format!("spec.sources[{index}]"), source)))
}

/// Returns an error for each string that could break out of its line or send control characters to the
/// terminal.
fn control_character_problems(spec: &ApplicationSpec) -> Vec<SpecProblem> {
    let mut shown = vec![("spec.destination.namespace".to_owned(), spec.destination.namespace.as_str())];
    for (field, source) in named_sources(spec) {
        shown.extend([
            (format!("{field}.path"), source.path.as_str()),
            (format!("{field}.chart"), source.chart.as_str()),
            (format!("{field}.targetRevision"), source.target_revision.as_str()),
            (format!("{field}.repoURL"), source.repo_url.as_str()),
        ]);
    }
    let controlled = shown.into_iter().filter(|(_, text)| text.chars().any(char::is_control));
    let problem = |(field, _): (String, &str)| {
        let message = format!("{field} contains a line break or another control character; remove it");
        SpecProblem { field, message }
    };
    controlled.map(problem).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(field: &str, value: Value) -> ApplicationSpec {
        let mut spec = json!({
            "project": "default", "destination": {"name": "in-cluster", "namespace": "shop"},
            "source": {"repoURL": "https://git.example.com/shop.git", "path": "apps/web"},
        });
        spec[field] = value;
        serde_json::from_value(spec).unwrap()
    }

    fn source(change: Value) -> Value {
        let mut source = json!({"repoURL": "https://git.example.com/shop.git", "path": "apps/web"});
        source.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        source
    }

    fn backoff(backoff: Value) -> Value {
        json!({"retry": {"limit": 2, "backoff": backoff}})
    }

    #[test]
    fn each_problem_names_its_field_and_remedy() {
        for (field, value, path, message) in [
            ("destination", json!({}), "", ".destination has neither server nor name; set one of them"),
            ("destination", json!({"server": "/"}), "", ".destination has neither server nor name"),
            (
                "destination",
                json!({"name": "a", "server": "https://a"}),
                "",
                ".destination has both a name and a server; set only one of them",
            ),
            (
                "destination",
                json!({"name": "a", "namespace": "b\n"}),
                ".namespace",
                ".destination.namespace contains",
            ),
            (
                "destination",
                json!({"name": "a", "namespace": "Bad NS"}),
                ".namespace",
                ".destination.namespace \"Bad NS\" is not a valid namespace name; use at most 63 lower-case letters",
            ),
            (
                "destination",
                json!({"name": "a", "namespace": "{{ns}}"}),
                ".namespace",
                ".destination.namespace \"{{ns}}\" is not",
            ),
            (
                "destination",
                json!({"name": "a", "namespace": "a.b"}),
                ".namespace",
                ".destination.namespace \"a.b\" is not",
            ),
            (
                "destination",
                json!({"name": "a", "namespace": "-a"}),
                ".namespace",
                ".destination.namespace \"-a\" is not",
            ),
            (
                "destination",
                json!({"name": "a", "namespace": "a".repeat(64)}),
                ".namespace",
                ".destination.namespace \"aaaa",
            ),
            ("source", json!(null), "", ".source is missing"),
            ("source", source(json!({"repoURL": " "})), ".repoURL", ".source.repoURL is empty"),
            ("source", source(json!({"path": ""})), "", ".source.path is missing"),
            ("source", source(json!({"path": "/web"})), ".path", ".source.path \"/web\" is absolute"),
            (
                "source",
                source(json!({"path": "a/../../b"})),
                ".path",
                ".source.path \"a/../../b\" is outside the repository",
            ),
            ("source", source(json!({"ref": "a"})), ".ref", ".source.ref has no effect"),
            (
                "source",
                source(json!({"targetRevision": "a\u{1b}"})),
                ".targetRevision",
                ".source.targetRevision contains",
            ),
            ("sources", json!([source(json!({}))]), "", ".source and spec.sources are both set"),
            ("sourceHydrator", json!({"drySource": {}}), "", ".sourceHydrator is not supported yet"),
            (
                "syncPolicy",
                json!({"syncOptions": ["Prune=false", "prunelast=true"]}),
                ".syncOptions",
                ".syncPolicy.syncOptions: unknown sync option \"prunelast=true\"; use PruneLast=true",
            ),
            (
                "syncPolicy",
                json!({"syncOptions": ["CreateNamespace"]}),
                ".syncOptions",
                ".syncPolicy.syncOptions: unknown sync option \"CreateNamespace\"; use CreateNamespace=true",
            ),
            (
                "syncPolicy",
                backoff(json!({"duration": "soon"})),
                ".retry.backoff.duration",
                ".syncPolicy: invalid retry.backoff.duration \"soon\"",
            ),
            (
                "syncPolicy",
                backoff(json!({"maxDuration": "3 min"})),
                ".retry.backoff.maxDuration",
                ".syncPolicy: invalid retry.backoff.maxDuration \"3 min\"",
            ),
            (
                "syncPolicy",
                backoff(json!({"factor": 0})),
                ".retry.backoff.factor",
                ".syncPolicy: invalid retry.backoff.factor 0",
            ),
            (
                "ignoreDifferences",
                json!([{"kind": "A", "jqPathExpressions": [".a["]}]),
                "",
                ".ignoreDifferences: entry 1: ",
            ),
            (
                "ignoreDifferences",
                json!([{"kind": "A", "jsonPointers": ["a"]}]),
                "",
                ".ignoreDifferences: entry 1: invalid JSON pointer \"a\"",
            ),
        ] {
            let found = spec_problems(&spec(field, value.clone()));
            let [problem] = found.as_slice() else { panic!("{value}: {found:?}") };
            assert_eq!(problem.field, format!("spec.{field}{path}"), "{value}");
            assert!(problem.message.starts_with(&format!("spec{message}")), "{value}: {problem}");
        }
    }

    #[test]
    fn valid_specifications_have_no_problems() {
        for (field, value) in [
            ("destination", json!({"server": "https://a"})),
            ("destination", json!({"name": "a", "namespace": ""})),
            ("destination", json!({"name": "a", "namespace": "0-shop-2"})),
            ("destination", json!({"name": "a", "namespace": "a".repeat(63)})),
            ("source", json!({"repoURL": "https://charts.example.com", "chart": "web"})),
            ("sourceHydrator", json!(null)),
            ("syncPolicy", json!({"syncOptions": ["Prune=confirm", "ServerSideApply=auto"]})),
            ("syncPolicy", backoff(json!({"duration": "5s", "factor": 1, "maxDuration": "180"}))),
            ("syncPolicy", json!({"retry": {"limit": -1}})),
            ("ignoreDifferences", json!([{"kind": "A", "jqPathExpressions": [".a"]}])),
        ] {
            assert_eq!(spec_problems(&spec(field, value.clone())), [], "{value}");
        }
    }

    #[test]
    fn all_problems_are_returned() {
        let mut wrong = spec("destination", json!({}));
        wrong.source = None;
        wrong.sync_policy = serde_json::from_value(
            json!({"syncOptions": ["A=1", "B=1"], "retry": {"backoff": {"factor": -1}}}),
        )
        .unwrap();
        let fields: Vec<String> = spec_problems(&wrong).into_iter().map(|problem| problem.field).collect();
        let options = "spec.syncPolicy.syncOptions";
        let factor = "spec.syncPolicy.retry.backoff.factor";
        assert_eq!(fields, ["spec.destination", options, options, factor, "spec.source"]);
    }

    #[test]
    fn equal_ignored_differences_are_compiled_once() {
        let ignoring = |expression: &str| {
            spec("ignoreDifferences", json!([{"kind": "A", "jqPathExpressions": [expression, ".b"]}]))
        };
        let mut checker = SpecChecker::default();
        for (expression, compiled, problems) in
            [(".a", 2, 0), (".a", 0, 0), (".a[", 2, 1), (".a[", 0, 1), (".a", 2, 0)]
        {
            let spec = ignoring(expression);
            assert_eq!(checker.expressions_to_compile(&spec), compiled, "{expression}");
            assert_eq!(checker.problems(&spec).len(), problems, "{expression}");
        }
    }
}
