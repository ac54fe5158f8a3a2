//! ApplicationSets as resources of the cluster, served: made by `kubectl apply`, gone by `kubectl delete`. Order is read from
//! the audit log of the API server.

use serde_json::{Value, json};
use tidegate_testkit::kube::{AuditEvent, User};

use crate::applications::site;
use crate::bench::Running;
use crate::site::Site;

const MEMBERS: [(&str, &str); 5] =
    [("dev-a", "dev"), ("dev-b", "dev"), ("qa-a", "qa"), ("prod-a", "prod"), ("prod-b", "prod")];

/// What the repository holds: who is where, and for each a beginning, some work, and an end.
fn repository(site: &Site) {
    for (name, env) in MEMBERS {
        site.write(&format!("repo/members/{name}.json"), json!({"name": name, "env": env}).to_string());
        let map = |what: &str, wave: &str| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("{what}-{name}"), "annotations": {"argocd.argoproj.io/sync-wave": wave}},
            })
        };
        let work = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": format!("work-{name}"), "annotations": {
                "argocd.argoproj.io/hook": "Sync", "argocd.argoproj.io/sync-wave": "1",
                "sim.tidegate.dev/ready-after": "1s",
            }},
            "spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "a", "image": "example.com/work:1"}],
            }}},
        });
        for (file, object) in [("begin", map("begin", "0")), ("work", work), ("end", map("end", "2"))] {
            site.write(&format!("repo/apps/{name}/{file}.yaml"), object.to_string());
        }
    }
    site.run(&["example", "commit", "repo"]).expect_code(0);
}

fn set(site: &Site) -> Value {
    let repository = site.path().join("repo").display().to_string();
    let step = |env: &str| json!({"matchExpressions": [{"key": "env", "operator": "In", "values": [env]}]});
    let mut prod = step("prod");
    prod["maxUpdate"] = json!(1);
    json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "fleet"},
        "spec": {
            "goTemplate": true, "goTemplateOptions": ["missingkey=error"],
            "generators": [{"git": {"repoURL": repository, "revision": "main", "files": [{"path": "members/*.json"}]}}],
            "strategy": {
                "type": "RollingSync", "deletionOrder": "Reverse",
                "rollingSync": {"steps": [step("dev"), step("qa"), prod]},
            },
            "template": {
                "metadata": {
                    "name": "{{ .name }}", "labels": {"env": "{{ .env }}"},
                    "finalizers": ["resources-finalizer.argocd.argoproj.io"],
                },
                "spec": {
                    "project": "default",
                    "destination": {"server": "https://kubernetes.default.svc", "namespace": site.namespace},
                    "source": {"repoURL": repository, "path": "apps/{{ .name }}", "targetRevision": "main"},
                    "syncPolicy": {"automated": {"prune": true}},
                },
            },
        },
    })
}

fn serve(site: &Site) -> Running {
    let namespace = &site.namespace;
    let mut serving = site.start(&["serve", "--app-namespace", namespace, "--project-namespace", namespace]);
    serving.await_line("serving");
    serving
}

fn path(site: &Site) -> String {
    format!("/apis/argoproj.io/v1alpha1/namespaces/{}/applicationsets", site.namespace)
}

/// The Applications that the set says are Healthy.
fn healthy(set: &Value) -> usize {
    let all = set["status"]["applicationStatus"].as_array().cloned().unwrap_or_default();
    all.iter().filter(|one| one["status"] == "Healthy").count()
}

/// At which places of the audit the first and the last ConfigMap of a member were written, or deleted.
async fn span(site: &Site, name: &str, verb: &str) -> (usize, usize) {
    let writes = site.audit().await.of(User::ENGINE).only(|event| event.is_write() && !event.dry_run).0;
    let of = |what: &str| {
        let name = format!("{what}-{name}");
        let is_it = |event: &&_| is_about(event, &name, verb);
        let found = writes.iter().enumerate().find(|(_, event)| is_it(event));
        found.map(|(place, _)| place).unwrap_or_else(|| panic!("{verb} {name}"))
    };
    (of("begin"), of("end"))
}

fn is_about(event: &AuditEvent, name: &str, verb: &str) -> bool {
    // Of what a killed process asked for, the server may note a failure though it was done.
    let is_verb = match verb {
        "create" => event.verb != "delete" && (event.code == 201 || !event.succeeded()),
        _ => event.verb == verb,
    };
    event.kind == "ConfigMap" && event.name == name && is_verb
}

pub async fn a_set_is_rolled_out_and_taken_down_in_order_by_processes_that_are_killed() {
    let site = site().await;
    repository(&site);
    let serving = serve(&site);
    site.observer().post(&path(&site), &set(&site)).await.unwrap();
    let fleet = format!("{}/fleet", path(&site));
    let until = |wish: fn(&Value) -> bool| {
        let (observer, fleet) = (site.observer(), fleet.clone());
        async move { observer.until(&fleet, |set| set.is_some_and(wish)).await.unwrap() }
    };
    until(|set| healthy(set) >= 2).await;
    serving.signal("KILL");
    serving.finish();
    let serving = serve(&site);
    let done = until(|set| healthy(set) == 5).await;
    assert_eq!(done["status"]["applicationStatus"][0]["application"], "dev-a");
    assert_eq!(done["metadata"]["finalizers"], json!(["resources-finalizer.argocd.argoproj.io"]));
    let mut made = Vec::new();
    for (name, _) in MEMBERS {
        made.push(span(&site, name, "create").await);
        site.assert_created_once("Job", &format!("work-{name}"), name).await;
    }
    let [dev_a, dev_b, qa, prod_a, prod_b] = made.as_slice() else { panic!("five") };
    assert!(dev_a.1.max(dev_b.1) < qa.0 && qa.1 < prod_a.0.min(prod_b.0), "{made:?}");
    assert!(prod_a.1 < prod_b.0 || prod_b.1 < prod_a.0, "maxUpdate is 1: {made:?}");
    site.observer().delete(&fleet, &json!({"propagationPolicy": "Background"})).await.unwrap();
    let first = format!("/api/v1/namespaces/{}/configmaps/begin-prod-a", site.namespace);
    site.observer().until(&first, |map| map.is_none()).await;
    serving.signal("KILL");
    serving.finish();
    let serving = serve(&site);
    site.observer().until(&fleet, |set| set.is_none()).await;
    let mut gone = Vec::new();
    for (name, _) in MEMBERS {
        gone.push(span(&site, name, "delete").await);
    }
    let both = |one: &(usize, usize)| (one.0.min(one.1), one.0.max(one.1));
    let [dev_a, dev_b, qa, prod_a, prod_b] = [0, 1, 2, 3, 4].map(|at| both(&gone[at]));
    assert!(prod_a.1.max(prod_b.1) < qa.0 && qa.1 < dev_a.0.min(dev_b.0), "{gone:?}");
    let left = site.observer().get(&crate::applications::path(&site)).await.unwrap();
    assert_eq!(left["items"], json!([]), "the set outlives its Applications");
    serving.signal("TERM");
    serving.finish().expect_code(0);
}
