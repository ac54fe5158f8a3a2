//! ApplicationSets as resources of the cluster, served: made by `kubectl apply`, gone by `kubectl delete`. Their Applications come
//! from a real Git repository, and order is read from the audit log of the API server.

pub mod deletions;
pub mod kills;
mod order;
pub mod rollouts;

use serde_json::{Value, json};

use crate::applications;
use crate::bench::Running;
use crate::site::Site;

const FIVE: &[(&str, &str)] =
    &[("dev-a", "dev"), ("dev-b", "dev"), ("qa-a", "qa"), ("prod-a", "prod"), ("prod-b", "prod")];

/// A set called `fleet`, and the repository of its Applications. The objects of each are a beginning, some work, an end, and what
/// is done before they are deleted.
pub struct Fleet {
    site: Site,
    members: Vec<(&'static str, &'static str)>,
}

impl Fleet {
    /// With these members (name, environment), at version 1.
    async fn new(members: &[(&'static str, &'static str)]) -> Self {
        let site = Site::on(applications::defined().await, "sets").await;
        Self { site, members: members.to_vec() }
    }

    /// Commits a version, where the work of some members is special by annotations, and returns the commit.
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
        let told = self.site.run(&["example", "commit", "repo"]).expect_code(0).err;
        let (_, commit) = told.trim().rsplit_once("committed ").unwrap_or_else(|| panic!("{told}"));
        commit.to_owned()
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.members.iter().map(|(name, _)| *name)
    }

    fn set(&self, strategy: Value, annotations: Value) -> Value {
        let repository = self.site.path().join("repo").display().to_string();
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
            "metadata": {"name": "fleet", "annotations": annotations},
            "spec": {
                "goTemplate": true, "goTemplateOptions": ["missingkey=error"],
                "generators": [{"git": {
                    "repoURL": repository, "revision": "main", "files": [{"path": "members/*.json"}],
                }}],
                "strategy": strategy,
                "template": {
                    "metadata": {
                        "name": "{{ .name }}", "labels": {"env": "{{ .env }}"},
                        "finalizers": ["resources-finalizer.argocd.argoproj.io"],
                    },
                    "spec": {
                        "project": "default",
                        "destination": {
                            "server": "https://kubernetes.default.svc", "namespace": self.site.namespace,
                        },
                        "source": {"repoURL": repository, "path": "apps/{{ .name }}", "targetRevision": "main"},
                        "syncPolicy": {"automated": {"prune": true}, "retry": {"limit": 0}},
                    },
                },
            },
        })
    }

    async fn create(&self, strategy: Value, annotations: Value) {
        self.site.observer().post(&self.path(), &self.set(strategy, annotations)).await.unwrap();
    }

    fn path(&self) -> String {
        format!("/apis/argoproj.io/v1alpha1/namespaces/{}/applicationsets", self.site.namespace)
    }

    fn fleet(&self) -> String {
        format!("{}/fleet", self.path())
    }

    /// As `kubectl delete` does.
    async fn delete(&self) {
        let options = json!({"propagationPolicy": "Background"});
        self.site.observer().delete(&self.fleet(), &options).await.unwrap();
    }

    /// Has its generators asked at once, as `kubectl annotate` does.
    async fn refresh(&self) {
        let asked =
            json!({"metadata": {"annotations": {"argocd.argoproj.io/application-set-refresh": "true"}}});
        self.site.observer().patch(&self.fleet(), &asked).await.unwrap();
    }

    fn serve(&self) -> Running {
        let mut serving = self.begin_to_serve();
        serving.await_line("serving");
        serving
    }

    fn begin_to_serve(&self) -> Running {
        let namespace = &self.site.namespace;
        self.site.start(&["serve", "--app-namespace", namespace, "--project-namespace", namespace])
    }

    /// Waits until the resource itself says so.
    async fn until(&self, wish: impl Fn(&Value) -> bool) -> Value {
        self.site.observer().until(&self.fleet(), |set| set.is_some_and(&wish)).await.unwrap()
    }

    /// Waits until all members have the commit, and are Healthy.
    async fn until_rolled_out(&self, commit: &str) -> Value {
        self.until(|set| is_rolled_out(set, self.members.len(), commit)).await
    }

    /// Waits until it is gone, and says which of its Applications are not.
    async fn until_gone(&self) -> Value {
        self.site.observer().until(&self.fleet(), |set| set.is_none()).await;
        self.site.observer().get(&applications::path(&self.site)).await.unwrap()["items"].clone()
    }

    /// Asks until what explains the set has these words.
    fn until_explained(&self, words: &str) -> String {
        // It says nothing of a set that it has not seen yet.
        let explain = || self.site.run(&["appset", "explain", "fleet"]).out;
        let found = std::iter::repeat_with(explain).take(3000).find(|told| told.contains(words));
        found.unwrap_or_else(|| panic!("{words}: {}", explain()))
    }

    /// What is deployed of a member.
    async fn version(&self, member: &str) -> Value {
        let end = self.site.object("/api/v1", "configmaps", &format!("end-{member}")).await;
        end.map_or(Value::Null, |end| end["data"]["version"].clone())
    }

    /// How many operations each member had, all of which have succeeded, but for so many.
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

    fn end(&self, serving: Running) {
        serving.signal("TERM");
        serving.finish().expect_code(0);
    }
}

/// The objects of a member, by their files.
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

fn selects(env: &str) -> Value {
    json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [env]}]})
}

fn at_once(env: &str, max_update: impl Into<Value>) -> Value {
    let mut step = selects(env);
    step["maxUpdate"] = max_update.into();
    step
}

fn is_rolled_out(set: &Value, members: usize, commit: &str) -> bool {
    let all = set["status"]["applicationStatus"].as_array().map_or(&[][..], Vec::as_slice);
    let is_done = |one: &Value| one["status"] == "Healthy" && one["targetRevisions"] == json!([commit]);
    all.len() == members && all.iter().all(is_done)
}
