//! ApplicationSets as managed resources of the cluster: created by `kubectl apply`, deleted by `kubectl
//! delete`. Their Applications come from a real Git repository, and the audit log of the API server shows the
//! order.

pub mod deletions;
pub mod kills;
mod order;
pub mod rollouts;

use serde_json::{Value, json};

use crate::applications;
use crate::bench::Running;
use crate::kube_bench::KubeBench;

const FIVE: &[(&str, &str)] =
    &[("dev-a", "dev"), ("dev-b", "dev"), ("qa-a", "qa"), ("prod-a", "prod"), ("prod-b", "prod")];

const SIX: &[(&str, &str)] = &[
    ("dev-a", "dev"),
    ("dev-b", "dev"),
    ("dev-c", "dev"),
    ("qa-a", "qa"),
    ("prod-a", "prod"),
    ("prod-b", "prod"),
];
/// Members of [`SIX`] in dev.
const DEV: &[&str] = &["dev-a", "dev-b", "dev-c"];
/// Members of [`SIX`] in prod.
const PROD: &[&str] = &["prod-a", "prod-b"];

/// The ApplicationSet `fleet`, and the repository of its Applications. Each Application has a start hook,
/// some work, an end hook, and a deletion hook.
pub struct Fleet {
    site: KubeBench,
    members: Vec<(&'static str, &'static str)>,
}

impl Fleet {
    /// Creates the environment with these members (name and environment) at version 1.
    async fn new(members: &[(&'static str, &'static str)]) -> Self {
        let bench = KubeBench::on_plane(applications::plane_with_crds().await, "sets").await;
        Self { site: bench, members: members.to_vec() }
    }

    /// Commits a version and returns the commit. The work of some members has special annotations.
    fn deploy(&self, version: u32, special: &[(&str, Value)]) -> String {
        for (name, env) in &self.members {
            self.site
                .write(&format!("repo/members/{name}.json"), json!({"name": name, "env": env}).to_string());
            let said = special.iter().find(|(member, _)| member == name).map(|(_, said)| said);
            for (file, object) in objects(name, version, said) {
                self.site.write(&format!("repo/apps/{name}/{file}.yaml"), object.to_string());
            }
        }
        self.commit()
    }

    fn commit(&self) -> String {
        let output = self.site.run(&["example", "commit", "repo"]).expect_code(0).err;
        let (_, commit) = output.trim().rsplit_once("committed ").unwrap_or_else(|| panic!("{output}"));
        commit.to_owned()
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.members.iter().map(|(name, _)| *name)
    }

    fn appset(&self, strategy: Value, annotations: Value) -> Value {
        let repository = self.site.path().join("repo");
        let generator = json!({"git": {
            "repoURL": repository, "revision": "main", "files": [{"path": "members/*.json"}],
        }});
        let mut set = appset(&self.site, &generator, &strategy);
        set["metadata"]["annotations"] = annotations;
        set["spec"]["template"]["spec"]["syncPolicy"]["retry"] = json!({"limit": 0});
        set
    }

    async fn create(&self, strategy: Value, annotations: Value) {
        self.site.observer().post(&self.path(), &self.appset(strategy, annotations)).await.unwrap();
    }

    fn path(&self) -> String {
        format!("/apis/argoproj.io/v1alpha1/namespaces/{}/applicationsets", self.site.namespace)
    }

    fn fleet(&self) -> String {
        format!("{}/fleet", self.path())
    }

    /// Deletes the ApplicationSet as `kubectl delete` does.
    async fn delete(&self) {
        let options = json!({"propagationPolicy": "Background"});
        self.site.observer().delete(&self.fleet(), &options).await.unwrap();
    }

    /// Refreshes the generators, as `kubectl annotate` does.
    async fn refresh(&self) {
        let request =
            json!({"metadata": {"annotations": {"argocd.argoproj.io/application-set-refresh": "true"}}});
        self.site.observer().patch(&self.fleet(), &request).await.unwrap();
    }

    fn serve(&self) -> Running {
        let mut service = self.start_service();
        service.wait_for_line("managing");
        service
    }

    fn start_service(&self) -> Running {
        let namespace = &self.site.namespace;
        self.site.start(&["serve", "--app-namespace", namespace, "--project-namespace", namespace])
    }

    /// Waits until the resource satisfies a predicate.
    async fn wait_until(&self, request: impl Fn(&Value) -> bool) -> Value {
        self.site.observer().wait_until(&self.fleet(), |set| set.is_some_and(&request)).await.unwrap()
    }

    /// Waits until all members are Healthy at this commit.
    async fn wait_until_rolled_out(&self, commit: &str) -> Value {
        self.wait_until(|set| is_rolled_out(set, self.members.len(), commit)).await
    }

    /// Waits until the ApplicationSet no longer exists, and returns the remaining Applications.
    async fn wait_until_gone(&self) -> Value {
        self.site.observer().wait_until(&self.fleet(), |set| set.is_none()).await;
        self.site.observer().get(&applications::path(&self.site)).await.unwrap()["items"].clone()
    }

    /// Polls until the explanation of the ApplicationSet contains a text.
    fn wait_until_explained(&self, words: &str) -> String {
        // An unobserved ApplicationSet has no explanation yet.
        let explain = || self.site.run(&["appset", "explain", "fleet"]).out;
        let found =
            std::iter::repeat_with(explain).take(3000).find(|explanation| explanation.contains(words));
        found.unwrap_or_else(|| panic!("{words}: {}", explain()))
    }

    /// Returns the deployed version of a member.
    async fn version(&self, member: &str) -> Value {
        let end = self.site.object("/api/v1", "configmaps", &format!("end-{member}")).await;
        end.map_or(Value::Null, |end| end["data"]["version"].clone())
    }

    /// Returns the number of operations of each member, and checks that all operations except `failed` ones
    /// have succeeded.
    fn operations(&self, story: &str, failed: usize) -> Vec<(&'static str, usize)> {
        let list = self.site.json(&["ops", "list", "-o", "json"]);
        let list = list.as_array().unwrap();
        let wrong: Vec<_> = list.iter().filter(|one| one["phase"] != "Succeeded").collect();
        assert_eq!(wrong.len(), failed, "{story}: {wrong:#?}");
        let of = |name| {
            let app = format!("{}_{name}", self.site.namespace);
            list.iter().filter(|one| one["app"] == app.as_str()).count()
        };
        self.names().map(|name| (name, of(name))).collect()
    }

    fn stop(&self, service: Running) {
        service.signal("TERM");
        service.finish().expect_code(0);
    }
}

/// Returns the ApplicationSet `fleet`, whose generator provides the name and the environment of each
/// Application.
pub fn appset(bench: &KubeBench, generator: &Value, strategy: &Value) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "fleet"},
        "spec": {
            "goTemplate": true, "goTemplateOptions": ["missingkey=error"],
            "generators": [generator],
            "strategy": strategy,
            "template": {
                "metadata": {
                    "name": "{{ .name }}", "labels": {"env": "{{ .env }}"},
                    "finalizers": ["resources-finalizer.argocd.argoproj.io"],
                },
                "spec": {
                    "project": "default",
                    "destination": {"server": "https://kubernetes.default.svc", "namespace": bench.namespace},
                    "source": {
                        "repoURL": bench.path().join("repo"), "path": "apps/{{ .name }}", "targetRevision": "main",
                    },
                    "syncPolicy": {"automated": {"prune": true}},
                },
            },
        },
    })
}

/// Returns the objects of a member, by file name.
fn objects(name: &str, version: u32, special: Option<&Value>) -> [(&'static str, Value); 4] {
    let map = |what: &str, wave: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"version": version.to_string()},
            "metadata": {"name": format!("{what}-{name}"), "annotations": {"argocd.argoproj.io/sync-wave": wave}},
        })
    };
    let job = |what: &str, annotations: Value| {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": format!("{what}-{name}"), "annotations": annotations},
            "spec": {"backoffLimit": 0, "template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "a", "image": "example.com/work:1"}],
            }}},
        })
    };
    let mut work = json!({
        "argocd.argoproj.io/hook": "Sync", "argocd.argoproj.io/sync-wave": "1", "sim.tidegate.dev/ready-after": "500ms",
    });
    for (key, value) in special.and_then(Value::as_object).into_iter().flatten() {
        work[key] = value.clone();
    }
    let drain = json!({"argocd.argoproj.io/hook": "PreDelete", "sim.tidegate.dev/ready-after": "500ms"});
    [
        ("begin", map("begin", "0")),
        ("work", job("work", work)),
        ("end", map("end", "2")),
        ("drain", job("drain", drain)),
    ]
}

fn select_env(env: &str) -> Value {
    json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [env]}]})
}

fn select_with_limit(env: &str, max_update: impl Into<Value>) -> Value {
    let mut step = select_env(env);
    step["maxUpdate"] = max_update.into();
    step
}

fn is_rolled_out(set: &Value, members: usize, commit: &str) -> bool {
    let all = set["status"]["applicationStatus"].as_array().map_or(&[][..], Vec::as_slice);
    let is_done = |one: &Value| one["status"] == "Healthy" && one["targetRevisions"] == json!([commit]);
    all.len() == members && all.iter().all(is_done)
}
