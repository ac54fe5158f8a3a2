//! Documents of users: a repository, a project, an ApplicationSet, and Applications outside the
//! ApplicationSet.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tidegate_model::annotations;
use tidegate_model::argo::API_VERSION;

/// Namespace of all Applications' objects.
pub const APP_NAMESPACE: &str = "shops";
/// Namespace that the project forbids.
pub const FORBIDDEN_NAMESPACE: &str = "vault";
/// Annotation for an object's commit.
pub const COMMIT_ANNOTATION: &str = "test/commit";
/// Automated Application outside the ApplicationSet. It depends on the Application in the next constant.
pub const STANDALONE_APP: &str = "alone";
pub const BASE_APP: &str = "base";
/// Application with operations that wait at a gate for some minutes, between their hooks.
pub const GATED_APP: &str = "gated";
/// Application that needs approvals.
pub const APPROVAL_APP: &str = "guarded";

/// Error in a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitError {
    /// The first hook fails.
    Hook,
    /// The Deployment never becomes ready.
    Deployment,
    /// The manifests can't be parsed.
    Syntax,
    /// The manifests contain an object in a forbidden namespace.
    Namespace,
    /// The manifests contain a forbidden kind.
    Kind,
}

pub const COMMIT_ERRORS: [CommitError; 5] = [
    CommitError::Hook,
    CommitError::Deployment,
    CommitError::Syntax,
    CommitError::Namespace,
    CommitError::Kind,
];

fn job(name: &str, hook: &str, commit: u64, fails: bool) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "annotations": {
            "argocd.argoproj.io/hook": hook, COMMIT_ANNOTATION: commit.to_string(), "sim.tidegate.dev/ready-after": "2s",
        }},
        "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}},
    });
    if fails {
        job["metadata"]["annotations"]["sim.tidegate.dev/outcome"] = json!("fail");
    }
    job
}

/// Returns an Application's manifests: a hook, a Deployment with its settings, and a hook that runs after the
/// Deployment is healthy.
pub fn manifests(name: &str, commit: u64, wrong: Option<CommitError>) -> String {
    let settings = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("settings-{name}")},
        "data": {"commit": commit.to_string()},
    });
    let labels = json!({"app": name});
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": format!("web-{name}"), "annotations": {"sim.tidegate.dev/ready-after": "3s"}},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": labels}, "progressDeadlineSeconds": 60,
            "template": {
                "metadata": {"labels": labels, "annotations": {COMMIT_ANNOTATION: commit.to_string()}},
                "spec": {"containers": [{"name": "a", "image": "a"}]},
            },
        },
    });
    if wrong == Some(CommitError::Deployment) {
        deployment["metadata"]["annotations"]["sim.tidegate.dev/outcome"] = json!("never-ready");
    }
    let mut after = job(&format!("after-{name}"), "PostSync", commit, false);
    if name == GATED_APP {
        after["metadata"]["annotations"][annotations::GATE] = json!("soak:5m");
    }
    let before = job(&format!("before-{name}"), "PreSync", commit, wrong == Some(CommitError::Hook));
    let mut all = vec![before, settings, deployment, after];
    let stray = |kind: &str, namespace: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": format!("stray-{name}"), "namespace": namespace}});
    match wrong {
        Some(CommitError::Namespace) => all.push(stray("ConfigMap", FORBIDDEN_NAMESPACE)),
        Some(CommitError::Kind) => all.push(stray("Secret", APP_NAMESPACE)),
        _ => {}
    }
    let mut text: String = all.iter().map(|one| format!("---\n{one}\n")).collect();
    if wrong == Some(CommitError::Syntax) {
        text.push_str("---\nkind: [\n");
    }
    text
}

/// Commits all Applications. One of them may be broken.
pub fn commit<'a>(
    repository: &Path,
    names: impl IntoIterator<Item = &'a str>,
    (commit, wrong): (u64, Option<(&str, CommitError)>),
) {
    for name in names {
        let wrong = wrong.filter(|(broken, _)| *broken == name).map(|(_, wrong)| wrong);
        fs::create_dir_all(repository.join(name)).unwrap();
        fs::write(repository.join(name).join("all.yaml"), manifests(name, commit, wrong)).unwrap();
    }
    tidegate_source::commit_folder(repository, &format!("commit {commit}"), i64::try_from(commit).unwrap())
        .unwrap()
        .unwrap();
}

/// Commits only changes to other files and comments, not to manifests.
pub fn commit_unrelated(repository: &Path, name: &str, number: u64) {
    fs::write(repository.join("NOTES.md"), number.to_string()).unwrap();
    fs::write(repository.join(name).join("README.md"), number.to_string()).unwrap();
    let message = format!("notes {number}");
    tidegate_source::commit_folder(repository, &message, i64::try_from(number).unwrap()).unwrap().unwrap();
}

/// Returns the project of all Applications. It permits a single namespace, including its creation, and no
/// Secrets.
pub fn project() -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "AppProject", "metadata": {"name": "default", "namespace": "argocd"},
        "spec": {
            "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": APP_NAMESPACE}],
            "clusterResourceWhitelist": [{"group": "", "kind": "Namespace", "name": APP_NAMESPACE}],
            "namespaceResourceBlacklist": [{"group": "", "kind": "Secret"}],
        },
    })
}

fn spec(repository: &Path, path: &str, policy: &Value) -> Value {
    json!({
        "project": "default", "destination": {"name": "in-cluster", "namespace": APP_NAMESPACE},
        "source": {"repoURL": repository, "path": path, "targetRevision": "main"},
        "syncPolicy": policy,
    })
}

/// Returns an automated Application with self-heal.
pub fn application(repository: &Path, name: &str, depends_on: Option<&str>) -> Value {
    let policy = json!({"automated": {"prune": true, "selfHeal": true}, "retry": {"limit": 0}});
    let mut value = json!({
        "apiVersion": API_VERSION, "kind": "Application",
        "metadata": {
            "name": name, "namespace": "argocd", "finalizers": ["resources-finalizer.argocd.argoproj.io"],
        },
        "spec": spec(repository, name, &policy),
    });
    if let Some(other) = depends_on {
        value["metadata"]["annotations"] = json!({"tidegate.dev/depends-on": other});
    }
    value
}

/// Changes an Application's sync policy, and sets the given labels on its namespace.
pub fn with_policy(mut application: Value, automated: &Value, labels: &Value, ignored: &Value) -> Value {
    application["spec"]["syncPolicy"] = json!({
        "retry": {"limit": 0}, "syncOptions": ["CreateNamespace=true"],
        "managedNamespaceMetadata": {"labels": labels},
    });
    if !automated.is_null() {
        application["spec"]["syncPolicy"]["automated"] = automated.clone();
    }
    application["spec"]["ignoreDifferences"] = ignored.clone();
    application
}

/// State of the ApplicationSet.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Members of the ApplicationSet, with their steps.
    pub members: BTreeMap<String, usize>,
    /// Concurrency limit of each step, as written by the user.
    pub max_update: Vec<Option<Value>>,
    /// Additional rollout settings.
    pub rollout: Option<&'static str>,
    /// Order of deletion.
    pub deletion: &'static str,
}

/// Step that the order `Custom` deletes before all other steps.
const FIRST_DELETED_STEP: usize = 1;

impl Fleet {
    pub fn document(&self, repository: &Path) -> Value {
        let elements: Vec<Value> =
            self.members.iter().map(|(name, step)| json!({"name": name, "step": step.to_string()})).collect();
        let of_step = |step: usize| json!({"matchExpressions": [{"key": "step", "operator": "In", "values": [step.to_string()]}]});
        let step = |(step, most): (usize, &Option<Value>)| {
            let mut value = of_step(step);
            if let Some(most) = most {
                value["maxUpdate"] = most.clone();
            }
            value
        };
        let steps: Vec<Value> = self.max_update.iter().enumerate().map(step).collect();
        let policy = json!({"automated": {"prune": true}, "retry": {"limit": 0}});
        let mut set = json!({
            "apiVersion": API_VERSION, "kind": "ApplicationSet", "metadata": {"name": "fleet", "namespace": "argocd"},
            "spec": {
                "generators": [{"list": {"elements": elements}}],
                "strategy": {"type": "RollingSync", "rollingSync": {"steps": steps}, "deletionOrder": self.deletion},
                "template": {
                    "metadata": {"name": "{{name}}", "labels": {"step": "{{step}}"}},
                    "spec": spec(repository, "{{name}}", &policy),
                },
            },
        });
        if let Some(rollout) = self.rollout {
            set["metadata"]["annotations"] = json!({"tidegate.dev/rollout": rollout});
        }
        if self.deletion == "Custom" {
            set["spec"]["strategy"]["deletionSync"] = json!({"steps": [of_step(FIRST_DELETED_STEP)]});
        }
        set
    }

    /// Returns the members' deletion ranks. Higher ranks are deleted first. Empty without a deletion order.
    pub fn deletion_ranks(&self) -> BTreeMap<String, usize> {
        let rank = |step: usize| match self.deletion {
            "Reverse" => step,
            "Custom" => usize::from(step == FIRST_DELETED_STEP),
            _ => 0,
        };
        self.members.iter().map(|(name, step)| (name.clone(), rank(*step))).collect()
    }

    /// Returns the concurrency limit of a step with `of` members.
    pub fn update_limit(&self, step: usize, of: usize) -> usize {
        match &self.max_update[step] {
            None => usize::MAX,
            Some(Value::String(percent)) => {
                let percent: usize = percent.trim_end_matches('%').parse().unwrap();
                (of * percent / 100).max(1)
            }
            Some(number) => usize::try_from(number.as_u64().unwrap()).unwrap(),
        }
    }
}
