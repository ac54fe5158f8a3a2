//! ApplicationSets of which less is generated than before: because one of their generators has failed, or because much is gone
//! at once.

use serde_json::{Value, json};

use crate::bench::{Bench, Running};

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\n";

/// A set of two generators, the folders of a repository and a list, and what serves it.
struct Served {
    bench: Bench,
    serving: Running,
}

impl Served {
    fn new() -> Self {
        let bench = Bench::new();
        for name in ["a", "b", "c"] {
            bench.write(&format!("apps/repo/shops/{name}/map.yaml"), MAP);
        }
        bench.write("apps/repo/listed/map.yaml", MAP);
        bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
        write(&bench, "", "./repo", "1");
        let mut serving = bench.start(&["serve", "--sim", "--apps", "apps"]);
        serving.await_line("serving");
        Self { bench, serving }
    }

    /// Asks until the set is as it should be.
    #[track_caller]
    fn until(&self, is_met: impl Fn(&Value) -> bool) -> Value {
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

/// The set, with these annotations, the folders of this repository, and this version of what all are to have.
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

fn has(number: usize) -> impl Fn(&Value) -> bool {
    move |set| set["status"]["resources"].as_array().is_some_and(|all| all.len() == number)
}

/// What the set says went wrong; nothing where all is well.
fn error(set: &Value) -> Option<&str> {
    let all = set["status"]["conditions"].as_array()?;
    let error = all.iter().find(|one| one["type"] == "ErrorOccurred" && one["status"] == "True")?;
    error["message"].as_str()
}

#[test]
fn what_the_other_generators_give_is_done_when_one_has_failed() {
    let served = Served::new();
    served.until(|set| has(4)(set) && error(set).is_none());
    // The repository is gone, and another version is wanted of all.
    write(&served.bench, "", "./nowhere", "2");
    let failed = served.until(|set| error(set).is_some());
    let said = error(&failed).unwrap();
    assert!(said.contains("generators[0].git: ") && said.contains("nothing is deleted"), "{said}");
    let generated = failed["status"]["conditions"].as_array().unwrap();
    let generated = generated.iter().find(|one| one["type"] == "ParametersGenerated").unwrap();
    assert_eq!(generated["status"], "False");
    let version = |name: &str| {
        let application = served.bench.json(&["app", "get", name, "-o", "json"]);
        application["metadata"]["labels"]["version"].clone()
    };
    let is_new = |name: &str| std::iter::repeat_with(|| version(name)).take(3000).any(|found| found == "2");
    assert!(is_new("listed"), "{}", version("listed"));
    assert_eq!((version("a"), served.names().len()), (Value::from("1"), 4));
    write(&served.bench, "", "./repo", "2");
    served.until(|set| error(set).is_none());
    assert!(is_new("a"), "{}", version("a"));
    let ended = crate::fleet::Fleet::end(served.serving);
    assert!(ended.err.contains("serving"), "{}", ended.err);
}

#[test]
fn more_than_may_be_are_not_deleted_until_a_person_says_so() {
    let served = Served::new();
    served.until(|set| has(4)(set) && error(set).is_none());
    let limit = "tidegate.dev/max-deletions: 50%";
    write(&served.bench, limit, "./repo", "1");
    // What the repository says must not be faster than what is to guard against it.
    served.until(|set| set["metadata"]["annotations"]["tidegate.dev/max-deletions"] == "50%");
    // Somebody has moved the folder.
    let repository = served.bench.path().join("apps/repo");
    std::fs::rename(repository.join("shops"), repository.join("moved")).unwrap();
    served.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    let held = served.until(|set| error(set).is_some());
    let said = error(&held).unwrap();
    assert!(
        said.starts_with("3 of its 4 Applications are not generated any more (a, b, c), and no more than 2"),
        "{said}"
    );
    assert_eq!(served.names(), ["a", "b", "c", "listed"]);
    let (_, token) = said.split_once("tidegate.dev/deletions-approved: ").unwrap();
    let approved = format!("{limit}, tidegate.dev/deletions-approved: '{}'", token.trim_end_matches('`'));
    write(&served.bench, &approved, "./repo", "1");
    served.until(|set| has(1)(set) && error(set).is_none());
    assert_eq!(served.names(), ["listed"]);
    crate::fleet::Fleet::end(served.serving);
}

#[test]
fn a_command_approves_deletions_that_are_held() {
    let served = Served::new();
    let limit = "tidegate.dev/max-deletions: 50%";
    write(&served.bench, limit, "./repo", "1");
    served.until(|set| has(4)(set) && error(set).is_none());
    served.until(|set| set["metadata"]["annotations"]["tidegate.dev/max-deletions"] == "50%");
    let approve = |word: &str, code: i32| {
        let args = ["appset", "approve", "fleet", "--deletions", word, "--reason", "the folder has moved"];
        served.bench.run(&args).expect_code(code)
    };
    let ran = approve("3c1fb9a27b1e", 4);
    assert!(
        ran.err.contains("no deletion of an Application of ApplicationSet argocd/fleet is held"),
        "{ran:?}"
    );
    let repository = served.bench.path().join("apps/repo");
    std::fs::rename(repository.join("shops"), repository.join("moved")).unwrap();
    served.bench.run(&["example", "commit", "apps/repo"]).expect_code(0);
    let held = served.until(|set| error(set).is_some());
    let said = error(&held).unwrap();
    let (_, rest) = said.split_once("`tidegate appset approve fleet --deletions ").unwrap();
    let (word, _) = rest.split_once('`').unwrap();
    let told = || served.bench.json(&["appset", "explain", "fleet", "-o", "json"])["held"].clone();
    let all =
        json!({"token": word, "applications": ["a", "b", "c"], "keepObjects": [], "members": 4, "atOnce": 2});
    assert_eq!(told(), all);
    // Who means the step of a rollout is told of them, and nothing is deleted.
    let ran = served.bench.run(&["appset", "approve", "fleet"]).expect_code(4);
    assert!(ran.err.contains("there is nothing to approve") && ran.err.contains(word), "{ran:?}");
    let ran = approve("3c1fb9a27b1e", 4);
    assert!(ran.err.contains("are not those that \"3c1fb9a27b1e\" stands for"), "{ran:?}");
    assert_eq!(served.names(), ["a", "b", "c", "listed"]);
    approve(word, 0);
    let gone = served.until(|set| has(1)(set) && error(set).is_none());
    assert_eq!(served.names(), ["listed"]);
    assert_eq!(told(), Value::Null);
    let annotations = &gone["metadata"]["annotations"];
    let approval: Value =
        serde_json::from_str(annotations["tidegate.dev/deletions-approval"].as_str().unwrap()).unwrap();
    assert_eq!(
        (&approval["token"], &approval["reason"]),
        (&Value::from(word), &Value::from("the folder has moved"))
    );
    assert!(!approval["by"].as_str().unwrap().is_empty(), "{approval}");
    // It was for these, and for no others that may drop out later.
    let spent =
        served.until(|set| set["metadata"]["annotations"]["tidegate.dev/deletions-approved"].is_null());
    assert_eq!(
        spent["metadata"]["annotations"]["tidegate.dev/deletions-approval"],
        annotations["tidegate.dev/deletions-approval"]
    );
    crate::fleet::Fleet::end(served.serving);
}
