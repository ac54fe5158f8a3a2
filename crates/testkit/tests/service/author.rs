//! What people write: a repository, a project, an ApplicationSet, and an Application beside it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tidegate_model::argo::API_VERSION;

/// Where the objects of all Applications are.
pub const HOME: &str = "shops";
/// Where their project lets nobody write.
pub const FORBIDDEN: &str = "vault";
/// Which commit an object is of.
pub const COMMIT: &str = "test/commit";
/// An Application that is synced by itself, beside the set; and the one that it depends on.
pub const ALONE: &str = "alone";
pub const BASE: &str = "base";
/// One that needs approvals.
pub const GUARDED: &str = "guarded";

/// What is wrong with a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The hook before it fails.
    Hook,
    /// Its Deployment is never ready.
    Deployment,
    /// It cannot be read.
    Text,
    /// Some of it belongs where the project lets nobody write.
    Place,
    /// Some of it is of a kind that the project does not allow.
    Kind,
}

pub const WRONGS: [Wrong; 5] = [Wrong::Hook, Wrong::Deployment, Wrong::Text, Wrong::Place, Wrong::Kind];

fn job(name: &str, hook: &str, commit: u64, fails: bool) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "annotations": {
            "argocd.argoproj.io/hook": hook, COMMIT: commit.to_string(), "sim.tidegate.dev/ready-after": "2s",
        }},
        "spec": {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}},
    });
    if fails {
        job["metadata"]["annotations"]["sim.tidegate.dev/outcome"] = json!("fail");
    }
    job
}

/// The manifests of an Application: a hook before, a Deployment with its settings, and a hook after it is well.
pub fn manifests(name: &str, commit: u64, wrong: Option<Wrong>) -> String {
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
                "metadata": {"labels": labels, "annotations": {COMMIT: commit.to_string()}},
                "spec": {"containers": [{"name": "a", "image": "a"}]},
            },
        },
    });
    if wrong == Some(Wrong::Deployment) {
        deployment["metadata"]["annotations"]["sim.tidegate.dev/outcome"] = json!("never-ready");
    }
    let mut all = vec![
        job(&format!("before-{name}"), "PreSync", commit, wrong == Some(Wrong::Hook)),
        settings,
        deployment,
        job(&format!("after-{name}"), "PostSync", commit, false),
    ];
    let stray = |kind: &str, namespace: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": format!("stray-{name}"), "namespace": namespace}});
    match wrong {
        Some(Wrong::Place) => all.push(stray("ConfigMap", FORBIDDEN)),
        Some(Wrong::Kind) => all.push(stray("Secret", HOME)),
        _ => {}
    }
    let mut text: String = all.iter().map(|one| format!("---\n{one}\n")).collect();
    if wrong == Some(Wrong::Text) {
        text.push_str("---\nkind: [\n");
    }
    text
}

/// Writes a commit of all Applications; one of them may be wrong.
pub fn commit<'a>(
    repository: &Path,
    names: impl IntoIterator<Item = &'a str>,
    (commit, wrong): (u64, Option<(&str, Wrong)>),
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

/// The project of all: it allows one namespace, and no Secrets.
pub fn project() -> Value {
    json!({
        "apiVersion": API_VERSION, "kind": "AppProject", "metadata": {"name": "default", "namespace": "argocd"},
        "spec": {
            "sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": HOME}],
            "namespaceResourceBlacklist": [{"group": "", "kind": "Secret"}],
        },
    })
}

fn spec(repository: &Path, path: &str, policy: &Value) -> Value {
    json!({
        "project": "default", "destination": {"name": "in-cluster", "namespace": HOME},
        "source": {"repoURL": repository, "path": path, "targetRevision": "main"},
        "syncPolicy": policy,
    })
}

/// An Application that is synced by itself, and put right when somebody changes its objects.
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

/// What the set is like.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Its Applications, and the step of each.
    pub members: BTreeMap<String, usize>,
    /// How many of each step may be brought to a commit at once, as its author writes it.
    pub max_update: Vec<Option<Value>>,
    /// What else is said of its rollouts.
    pub rollout: Option<&'static str>,
    /// In which order they are deleted.
    pub deletion: &'static str,
}

/// With `Custom`, this step goes first, and all others after it.
const FIRST_TO_GO: usize = 1;

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
            set["spec"]["strategy"]["deletionSync"] = json!({"steps": [of_step(FIRST_TO_GO)]});
        }
        set
    }

    /// Those with a higher number are gone before the others are deleted; nothing where nobody keeps an order.
    pub fn ranks(&self) -> BTreeMap<String, usize> {
        let rank = |step: usize| match self.deletion {
            "Reverse" => step,
            "Custom" => usize::from(step == FIRST_TO_GO),
            _ => 0,
        };
        self.members.iter().map(|(name, step)| (name.clone(), rank(*step))).collect()
    }

    /// How many of a step may be under way at once, of so many.
    pub fn budget(&self, step: usize, of: usize) -> usize {
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
