//! ApplicationSets that generate fewer Applications than before, because a generator fails or because many
//! elements are removed at once.

use serde_json::{Value, json};

use crate::bench::{Bench, Running};

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\n";

/// An ApplicationSet with two generators, for the folders of a repository and for a list, and the service
/// that manages it.
struct ManagedAppset {
    bench: Bench,
    service: Running,
}

impl ManagedAppset {
    fn new() -> Self {
        let bench = Bench::new();
        for name in ["a", "b", "c"] {
            bench.write(&format!("apps/repo/shops/{name}/map.yaml"), MAP);
        }
        bench.write("apps/repo/listed/map.yaml", MAP);
        bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
        write(&bench, "", "./repo", "1");
        let mut service = bench.start(&["serve", "--sim", "--apps", "apps"]);
        service.wait_for_line("managing");
        Self { bench, service }
    }

    /// Polls until the ApplicationSet satisfies a predicate.
    #[track_caller]
    fn wait_until(&self, is_met: impl Fn(&Value) -> bool) -> Value {
        let get = || self.bench.json(&["appset", "get", "fleet", "-o", "json"]);
        let found = std::iter::repeat_with(get).take(3000).find(is_met);
        found.unwrap_or_else(|| panic!("{:#}", get()))
    }

    fn names(&self) -> Vec<String> {
        let all = self.bench.json(&["app", "list", "-o", "json"]);
        let all = all["items"].as_array().unwrap_or_else(|| panic!("{all:#}"));
        all.iter().map(|one| one["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// Writes the ApplicationSet with these annotations. It generates an Application for each folder of this
/// repository, and all Applications have this version.
fn write(bench: &Bench, annotations: &str, repository: &str, version: &str) {
    let text = format!(
        "
apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {{name: fleet, annotations: {{{annotations}}}}}
spec:
  goTemplate: true
  generators:
    - git: {{repoURL: {repository}, revision: main, directories: [{{path: shops/*}}], requeueAfterSeconds: 1}}
    - list: {{elements: [{{path: {{path: listed, basename: listed}}}}]}}
  template:
    metadata:
      name: '{{{{ .path.basename }}}}'
      labels: {{version: '{version}'}}
    spec:
      project: default
      source: {{repoURL: ./repo, targetRevision: main, path: '{{{{ .path.path }}}}'}}
      destination: {{name: in-cluster, namespace: default}}
"
    );
    bench.write("apps/fleet.yaml", text);
}

fn has_members(number: usize) -> impl Fn(&Value) -> bool {
    move |set| set["status"]["resources"].as_array().is_some_and(|all| all.len() == number)
}

/// Returns the error of the ApplicationSet, if any.
fn error(set: &Value) -> Option<&str> {
    let all = set["status"]["conditions"].as_array()?;
    let error = all.iter().find(|one| one["type"] == "ErrorOccurred" && one["status"] == "True")?;
    error["message"].as_str()
}

#[test]
fn the_other_generators_apply_when_one_has_failed() {
    let appset = ManagedAppset::new();
    appset.wait_until(|set| has_members(4)(set) && error(set).is_none());
    // The repository no longer exists, and all Applications should get another version.
    write(&appset.bench, "", "./nowhere", "2");
    let failed = appset.wait_until(|set| error(set).is_some());
    let message = error(&failed).unwrap();
    assert!(
        message.contains("generators[0].git: ") && message.contains("no Applications are deleted"),
        "{message}"
    );
    let generated = failed["status"]["conditions"].as_array().unwrap();
    let generated = generated.iter().find(|one| one["type"] == "ParametersGenerated").unwrap();
    assert_eq!(generated["status"], "False");
    let version = |name: &str| {
        let application = appset.bench.json(&["app", "get", name, "-o", "json"]);
        application["metadata"]["labels"]["version"].clone()
    };
    let is_new = |name: &str| std::iter::repeat_with(|| version(name)).take(3000).any(|found| found == "2");
    assert!(is_new("listed"), "{}", version("listed"));
    assert_eq!((version("a"), appset.names().len()), (Value::from("1"), 4));
    write(&appset.bench, "", "./repo", "2");
    appset.wait_until(|set| error(set).is_none());
    assert!(is_new("a"), "{}", version("a"));
    let ended = crate::fleet::Fleet::stop(appset.service);
    assert!(ended.err.contains("managing"), "{}", ended.err);
}

#[test]
fn deletions_beyond_the_limit_wait_for_an_approval() {
    let appset = ManagedAppset::new();
    appset.wait_until(|set| has_members(4)(set) && error(set).is_none());
    let limit = "tidegate.dev/max-deletions: 50%";
    write(&appset.bench, limit, "./repo", "1");
    // The guard must be in effect before the repository changes.
    appset.wait_until(|set| set["metadata"]["annotations"]["tidegate.dev/max-deletions"] == "50%");
    // Simulates a user who has moved the folder.
    let repository = appset.bench.path().join("apps/repo");
    std::fs::rename(repository.join("shops"), repository.join("moved")).unwrap();
    appset.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    let held = appset.wait_until(|set| error(set).is_some());
    let message = error(&held).unwrap();
    assert!(
        message.starts_with("3 of its 4 Applications are no longer generated (a, b, c), but at most 2"),
        "{message}"
    );
    assert_eq!(appset.names(), ["a", "b", "c", "listed"]);
    let (_, token) = message.split_once("tidegate.dev/deletions-approved: ").unwrap();
    let approved = format!("{limit}, tidegate.dev/deletions-approved: '{}'", token.trim_end_matches('`'));
    write(&appset.bench, &approved, "./repo", "1");
    appset.wait_until(|set| has_members(1)(set) && error(set).is_none());
    assert_eq!(appset.names(), ["listed"]);
    crate::fleet::Fleet::stop(appset.service);
}

#[test]
fn a_command_approves_held_deletions() {
    let appset = ManagedAppset::new();
    let limit = "tidegate.dev/max-deletions: 50%";
    write(&appset.bench, limit, "./repo", "1");
    appset.wait_until(|set| has_members(4)(set) && error(set).is_none());
    appset.wait_until(|set| set["metadata"]["annotations"]["tidegate.dev/max-deletions"] == "50%");
    let approve = |word: &str, code: i32| {
        let args = ["appset", "approve", "fleet", "--deletions", word, "--reason", "the folder has moved"];
        appset.bench.run(&args).expect_code(code)
    };
    let ran = approve("3c1fb9a27b1e", 4);
    assert!(ran.err.contains("ApplicationSet argocd/fleet has no deletions waiting for approval"), "{ran:?}");
    let repository = appset.bench.path().join("apps/repo");
    std::fs::rename(repository.join("shops"), repository.join("moved")).unwrap();
    appset.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    let held = appset.wait_until(|set| error(set).is_some());
    let message = error(&held).unwrap();
    let (_, rest) = message.split_once("`tidegate appset approve fleet --deletions ").unwrap();
    let (word, _) = rest.split_once('`').unwrap();
    let explanation =
        || appset.bench.json(&["appset", "explain", "fleet", "-o", "json"])["heldDeletions"].clone();
    let all = json!({"token": word, "applications": ["a", "b", "c"], "applicationsKeepingObjects": [], "total": 4, "maximum": 2});
    assert_eq!(explanation(), all);
    // An approval of a rollout step reports the held deletions but doesn't approve them.
    let ran = appset.bench.run(&["appset", "approve", "fleet"]).expect_code(4);
    assert!(ran.err.contains("nothing to approve: ") && ran.err.contains(word), "{ran:?}");
    let ran = approve("3c1fb9a27b1e", 4);
    assert!(ran.err.contains("the token \"3c1fb9a27b1e\" does not match the deletions"), "{ran:?}");
    assert_eq!(appset.names(), ["a", "b", "c", "listed"]);
    approve(word, 0);
    let gone = appset.wait_until(|set| has_members(1)(set) && error(set).is_none());
    assert_eq!(appset.names(), ["listed"]);
    assert_eq!(explanation(), Value::Null);
    let annotations = &gone["metadata"]["annotations"];
    let approval: Value =
        serde_json::from_str(annotations["tidegate.dev/deletions-approval"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&approval["token"], &approval["reason"]),
        (&Value::from(word), &Value::from("the folder has moved"))
    );
    assert!(!approval["by"].as_str().unwrap().is_empty(), "{approval}");
    // The approval was for these Applications only, not for later ones.
    let spent =
        appset.wait_until(|set| set["metadata"]["annotations"]["tidegate.dev/deletions-approved"].is_null());
    assert_eq!(
        spent["metadata"]["annotations"]["tidegate.dev/deletions-approval"],
        annotations["tidegate.dev/deletions-approval"]
    );
    crate::fleet::Fleet::stop(appset.service);
}
