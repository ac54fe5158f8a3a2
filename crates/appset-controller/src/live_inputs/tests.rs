//! Generator inputs on a simulated cluster.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Mutex;
use std::thread;

use serde_json::json;
use tidegate_app_controller::generator_inputs::Providers;
use tidegate_app_controller::{RepositoryFiles, SourceSettings};
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_cluster::{ApplyRequest, Cluster as _, WriteMode};
use tidegate_generate::{GenerateOutcome, Options, generate};
use tidegate_kube::ClusterSecret;
use tidegate_model::{Destination, Object, Timestamp};
use tidegate_scm::{Secrets as _, Token, Web};
use tidegate_source::{Credentials, RemoteAccess, commit_folder};
use tidegate_state::simulated;
use tidegate_stores::applications::ProjectSet;
use tidegate_testkit::signed_commits;

use super::*;

fn input_sources(folder: &std::path::Path, cluster: Arc<dyn tidegate_cluster::Cluster>) -> InputSources {
    let (reach, working) = (RemoteAccess::new(folder.join("mirrors")), folder.join("working"));
    let projects = Projects::new("argocd".to_owned());
    projects.set_projects(ProjectSet::default());
    InputSources {
        manifests: Arc::new(Manifests::new(folder.to_path_buf(), reach, working, SourceSettings::default())),
        destinations: Destinations::new(Destination::Simulated, cluster, "default".to_owned()),
        projects: Arc::new(projects),
        control_namespace: "argocd".to_owned(),
    }
}

fn sample_appset(project: &str, generator: &serde_json::Value) -> ApplicationSet {
    serde_json::from_value(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "all"},
        "spec": {
            "goTemplate": true, "goTemplateOptions": ["missingkey=error"], "generators": [generator],
            "template": {
                "metadata": {"name": "{{ or .name .path.basename }}"},
                "spec": {
                    "project": project, "destination": {"server": "{{ or .server `https://a` }}"},
                    "source": {"repoURL": "./repo", "path": "."},
                },
            },
        },
    }))
    .unwrap()
}

/// Returns the names and servers of the generated Applications, or the error.
fn generate_names_and_servers(
    known: InputSources,
    set: &ApplicationSet,
    is_fresh: bool,
) -> Result<Vec<(String, String)>, String> {
    let options = Options { now: Some(0), ..Options::default() };
    match generate(set, &mut LiveInputs::from_sources(known, set, is_fresh), &options) {
        Ok(GenerateOutcome::Done(done)) => {
            let applications = done.applications.into_iter().map(|made| made.application);
            Ok(applications.map(|one| (one.metadata.name, one.spec.destination.server)).collect())
        }
        Ok(GenerateOutcome::Incomplete) => Err("unknown".to_owned()),
        Err(errors) => Err(errors.to_string()),
    }
}

fn cluster_declaration(name: &str, labels: &serde_json::Value, server: &str) -> ClusterSecret {
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"name": name, "server": server},
        "metadata": {"name": name, "namespace": "argocd", "labels": labels},
    });
    let mut object = Object::try_from(object).unwrap();
    object.set_label("argocd.argoproj.io/secret-type", "cluster");
    ClusterSecret::from_object(&object).unwrap()
}

fn owned_pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, server)| ((*name).to_owned(), (*server).to_owned())).collect()
}

#[test]
fn clusters_come_from_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let named = |selector: serde_json::Value| {
        let mut set = sample_appset("default", &json!({"clusters": {"selector": selector}}));
        set.spec.template.metadata.name = "{{ .name }}".to_owned();
        set.spec.template.spec.destination.server = "{{ .server }}".to_owned();
        set
    };
    let world = || {
        let known = input_sources(folder.path(), Arc::new(simulated::empty_cluster()));
        known.destinations.declare(vec![
            cluster_declaration("eu", &json!({"env": "prod"}), "https://eu"),
            cluster_declaration("us", &json!({"env": "dev"}), "https://us"),
        ]);
        known
    };
    let all = generate_names_and_servers(world(), &named(json!({})), false);
    let local = ("in-cluster", "https://kubernetes.default.svc");
    assert_eq!(all.unwrap(), owned_pairs(&[("eu", "https://eu"), local, ("us", "https://us")]));
    let prod = generate_names_and_servers(world(), &named(json!({"matchLabels": {"env": "prod"}})), false);
    assert_eq!(prod.unwrap(), owned_pairs(&[("eu", "https://eu")]));
    // Fewer clusters would mean fewer Applications, so an unreadable declaration must fail the generator.
    let broken = world();
    broken.destinations.declare(vec![cluster_declaration("eu", &json!({}), "")]);
    let error = generate_names_and_servers(broken, &named(json!({})), false).unwrap_err();
    assert!(error.contains("Secret argocd/eu declares a cluster without a server"), "{error}");
    let unseen = world();
    unseen.destinations.await_secrets();
    let error = generate_names_and_servers(unseen, &named(json!({})), false).unwrap_err();
    assert!(error.contains("have not been read yet"), "{error}");
}

#[test]
fn repositories_are_queried_for_the_project_and_again_if_fresh() {
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().join("repo");
    let commit = |app: &str, number| {
        fs::create_dir_all(repository.join(app)).unwrap();
        fs::write(repository.join(app).join("a.yaml"), "").unwrap();
        commit_folder(&repository, app, number).unwrap();
    };
    let of = |project: &str| {
        let mut set = sample_appset(
            project,
            &json!({"git": {"repoURL": "./repo", "revision": "HEAD", "directories": [{"path": "*"}]}}),
        );
        set.spec.template.metadata.name = "{{ .path.basename }}".to_owned();
        set.spec.template.spec.destination.server = "https://a".to_owned();
        set
    };
    commit("web", 1);
    let first = input_sources(folder.path(), Arc::new(simulated::empty_cluster()));
    let next = || InputSources {
        manifests: Arc::clone(&first.manifests),
        destinations: first.destinations.clone(),
        projects: Arc::clone(&first.projects),
        control_namespace: first.control_namespace.clone(),
    };
    assert_eq!(
        generate_names_and_servers(next(), &of("default"), false).unwrap(),
        owned_pairs(&[("web", "https://a")])
    );
    commit("api", 2);
    assert_eq!(
        generate_names_and_servers(next(), &of("default"), false).unwrap(),
        owned_pairs(&[("web", "https://a")])
    );
    let both = owned_pairs(&[("api", "https://a"), ("web", "https://a")]);
    assert_eq!(generate_names_and_servers(next(), &of("default"), true).unwrap(), both);
    assert_eq!(generate_names_and_servers(next(), &of("{{ .path.basename }}"), false).unwrap(), both);
    let error = generate_names_and_servers(next(), &of("shop"), false).unwrap_err();
    assert!(error.contains("error getting project shop: it does not exist; create an AppProject"), "{error}");
}

#[test]
fn generator_commits_are_signed_as_the_project_requires() {
    let folder = tempfile::tempdir().unwrap();
    signed_commits::copy_repository(&folder.path().join("signed.git"));
    let first = input_sources(folder.path(), Arc::new(simulated::empty_cluster()));
    let mut credentials = Credentials::default();
    credentials.add(&signed_commits::public_keys(&["alice"])).unwrap();
    first.manifests.set_credentials(credentials);
    let spec = json!({"signatureKeys": [{"keyID": signed_commits::key_id("alice")}]});
    let project = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "signed"}, "spec": spec,
    });
    let projects = BTreeMap::from([("signed".to_owned(), Ok(serde_json::from_value(project).unwrap()))]);
    first.projects.set_projects(ProjectSet { projects, ..ProjectSet::default() });
    let of = |project: &str, revision: &str| {
        let generator =
            json!({"git": {"repoURL": "./signed.git", "revision": revision, "directories": [{"path": "*"}]}});
        let mut set = sample_appset(project, &generator);
        set.spec.template.metadata.name = "{{ .path.basename }}".to_owned();
        set.spec.template.spec.destination.server = "https://a".to_owned();
        let next = InputSources {
            manifests: Arc::clone(&first.manifests),
            destinations: first.destinations.clone(),
            projects: Arc::clone(&first.projects),
            control_namespace: first.control_namespace.clone(),
        };
        generate_names_and_servers(next, &set, false)
    };
    let app = owned_pairs(&[("app", "https://a")]);
    for revision in ["by-alice", "v1.0.0"] {
        assert_eq!(of("signed", revision).unwrap(), app, "{revision}");
    }
    for (revision, part) in
        [("unsigned", "is not signed"), ("v2.0.0", "the tag v2.0.0"), ("by-bob", "no such key")]
    {
        let error = of("signed", revision).unwrap_err();
        assert!(error.contains(part), "{error}");
        assert_eq!(of("default", revision).unwrap(), app, "{revision}");
        assert_eq!(of("{{ .path.basename }}", revision).unwrap(), app, "the project has not been read yet");
    }
}

#[tokio::test]
async fn decision_resources_select_clusters() {
    let folder = tempfile::tempdir().unwrap();
    // Changes in this simulated cluster take effect immediately.
    let cluster =
        SimCluster::in_memory(SimConfig::without_delays(), Clock::wall(|| Timestamp::from_millis(1_000)));
    const GROUP: &str = "cluster.open-cluster-management.io";
    let decision = |name: &str, of: &str, clusters: &[&str]| {
        let clusters: Vec<_> = clusters.iter().map(|name| json!({"clusterName": name})).collect();
        json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "PlacementDecision",
            "metadata": {"name": name, "namespace": "argocd", "labels": {"of": of}},
            "status": {"decisions": clusters},
        })
    };
    let objects = [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}}),
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("placementdecisions.{GROUP}")},
            "spec": {
                "group": GROUP, "scope": "Namespaced",
                "names": {"kind": "PlacementDecision", "plural": "placementdecisions"},
                "versions": [{"name": "v1", "served": true, "storage": true}],
            },
        }),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "how", "namespace": "argocd"},
            "data": {
                "apiVersion": format!("{GROUP}/v1"), "kind": "placementdecisions",
                "statusListKey": "decisions", "matchKey": "clusterName",
            },
        }),
        decision("a", "shop", &["eu", "gone"]),
        decision("b", "shop", &["us"]),
        decision("c", "other", &["us"]),
    ];
    for object in objects {
        let object = Object::try_from(object).unwrap();
        let request = ApplyRequest::new(object, WriteMode::Create { client_side: false });
        cluster.apply(ApplyRequest { validate: false, ..request }).await.unwrap();
    }
    let known = input_sources(folder.path(), Arc::new(cluster));
    let none = json!({});
    known.destinations.declare(vec![
        cluster_declaration("eu", &none, "https://eu"),
        cluster_declaration("us", &none, "https://us"),
    ]);
    let ask = move |more: serde_json::Value| {
        let mut generator = json!({"configMapRef": "how"});
        generator.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut set = sample_appset("default", &json!({"clusterDecisionResource": generator}));
        set.spec.template.metadata.name = "{{ .name }}".to_owned();
        set.spec.template.spec.destination.server = "{{ .server }}".to_owned();
        let known = InputSources {
            manifests: Arc::clone(&known.manifests),
            destinations: known.destinations.clone(),
            projects: Arc::clone(&known.projects),
            control_namespace: known.control_namespace.clone(),
        };
        generate_names_and_servers(known, &set, false)
    };
    let results = tokio::task::spawn_blocking(move || {
        BTreeMap::from([
            ("by name", ask(json!({"name": "a"}))),
            ("by labels", ask(json!({"labelSelector": {"matchLabels": {"of": "shop"}}}))),
            ("none", ask(json!({"name": "nowhere"}))),
            ("other", ask(json!({"name": "a", "configMapRef": "nowhere"}))),
        ])
    });
    let results = results.await.unwrap();
    assert_eq!(results["by name"], Ok(owned_pairs(&[("eu", "https://eu")])));
    assert_eq!(results["by labels"], Ok(owned_pairs(&[("eu", "https://eu"), ("us", "https://us")])));
    assert!(
        results["none"].as_ref().unwrap_err().contains("no clusterDecisionResources found"),
        "{results:?}"
    );
    let error = results["other"].as_ref().unwrap_err();
    assert!(error.contains("ConfigMap argocd/nowhere not found"), "{error}");
}

/// Starts a server that returns fixed responses and records the requests.
fn start_server(answers: &'static [(&'static str, &'static str)]) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let writing = Arc::clone(&requests);
    // The thread ends with the process.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && lines.read_line(&mut head).unwrap() > 0 {}
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; length.unwrap_or(0)];
            lines.read_exact(&mut body).unwrap();
            let answer =
                answers.iter().find(|(path, _)| head.contains(path)).map_or("{}", |(_, answer)| *answer);
            writing.lock().unwrap().push(head + &String::from_utf8(body).unwrap());
            let length = answer.len();
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            stream.write_all((head + answer).as_bytes()).unwrap();
        }
    });
    (url, requests)
}

#[tokio::test]
async fn plugins_and_providers_are_queried_once_with_their_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let (url, received) = start_server(&[
        ("/getparams.execute", r#"{"output": {"parameters": [{"name": "eu"}, {"name": "us"}]}}"#),
        (
            "/repos/shop/web/pulls",
            r#"[{"number": 7, "title": "t", "head": {"ref": "a", "sha": "1"}, "base": {"ref": "main", "sha": "2"}}]"#,
        ),
    ]);
    let cluster =
        SimCluster::in_memory(SimConfig::without_delays(), Clock::wall(|| Timestamp::from_millis(1_000)));
    let metadata = |name: &str| json!({"name": name, "namespace": "argocd"});
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "argocd"}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata("tokens"), "stringData": {"gh": "hunter2\n", "own": "hunter3"}}),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("plugin"),
            "data": {"baseUrl": url, "token": "$tokens:own", "requestTimeout": "60"},
        }),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata("plain"), "data": {"baseUrl": url, "token": "hunter2"}}),
    ] {
        let object = Object::try_from(object).unwrap();
        cluster.apply(ApplyRequest::new(object, WriteMode::Create { client_side: false })).await.unwrap();
    }
    let github = json!({"owner": "shop", "repo": "web", "api": url, "tokenRef": {"secretName": "tokens", "key": "gh"}});
    let of = |plugin: &str| {
        let plugin = json!({"configMapRef": {"name": plugin}, "input": {"parameters": {"of": "shop"}}});
        let children = json!([{"plugin": plugin}, {"pullRequest": {"github": github}}]);
        let mut set = sample_appset("default", &json!({"matrix": {"generators": children}}));
        set.spec.template.metadata.name = "{{ .name }}-{{ .number }}".to_owned();
        set.spec.template.spec.destination.server = "https://a".to_owned();
        set
    };
    let known = input_sources(folder.path(), Arc::new(cluster));
    let (set, plain, none) = (of("plugin"), of("plain"), of("none"));
    let made = tokio::task::spawn_blocking(move || {
        let next = || InputSources {
            manifests: Arc::clone(&known.manifests),
            destinations: known.destinations.clone(),
            projects: Arc::clone(&known.projects),
            control_namespace: known.control_namespace.clone(),
        };
        [&set, &plain, &none].map(|set| generate_names_and_servers(next(), set, false))
    });
    let [found, plain, none] = made.await.unwrap();
    assert_eq!(found.unwrap(), owned_pairs(&[("eu-7", "https://a"), ("us-7", "https://a")]));
    let received = received.lock().unwrap().clone();
    let [plugin, requests] = received.as_slice() else { panic!("{received:?}") };
    assert!(
        plugin.contains("authorization: Bearer hunter3")
            && requests.contains("authorization: Bearer hunter2")
    );
    assert!(
        plugin.ends_with(r#"{"applicationSetName":"all","input":{"parameters":{"of":"shop"}}}"#),
        "{plugin}"
    );
    let plain = plain.unwrap_err();
    assert!(
        plain.contains("token in ConfigMap argocd/plain does not refer to a key in a Secret; use $key"),
        "{plain}"
    );
    assert!(!plain.contains("hunter2"), "{plain}");
    assert!(none.unwrap_err().contains("ConfigMap argocd/none not found"));
}

#[test]
fn generator_secrets_come_from_the_namespace_of_the_appset() {
    let folder = tempfile::tempdir().unwrap();
    let secret = |metadata: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {metadata}\ndata: {{a: aHVudGVyMg==, b: /w==}}\n---\n"
        )
    };
    let all = [
        secret("{name: plain}"),
        secret("{name: labelled, namespace: argocd, labels: {argocd.argoproj.io/secret-type: scm-creds}}"),
        secret("{name: app, namespace: argocd, labels: {argocd.argoproj.io/secret-type: repo-creds}}"),
        secret("{name: other, namespace: team}"),
    ];
    fs::write(folder.path().join("secrets.yaml"), all.concat()).unwrap();
    let files = RepositoryFiles::new(folder.path());
    let (web, mut providers) = <(Web, Providers)>::default();
    let objects = || ObjectSources { files: Some(&files), cluster: None, control_namespace: "argocd" };
    let ask = |providers: &Providers, name: &str, key: &str| {
        RequestInputs { web: &web, providers, objects: objects(), namespace: "argocd", appset: "all" }
            .secret(name, key)
    };
    let app = |providers: &Providers, name: &str, keys: &[&str]| {
        RequestInputs { web: &web, providers, objects: objects(), namespace: "argocd", appset: "all" }
            .app_secret(name, keys)
    };
    assert_eq!(ask(&providers, "plain", "a"), Ok(Token::new("hunter2")));
    for (name, key, expected) in [
        ("other", "a", "Secret argocd/other not found"),
        ("plain", "none", "Secret argocd/plain has no key none"),
        ("plain", "b", "key b in Secret argocd/plain is not base64-encoded text"),
    ] {
        assert_eq!(ask(&providers, name, key), Err(expected.to_owned()));
    }
    // A GitHub App's Secret may lack some of the requested keys.
    let found = BTreeMap::from([("a".to_owned(), Token::new("hunter2"))]);
    assert_eq!(app(&providers, "plain", &["a", "none"]), Ok(found.clone()));
    for (name, expected) in [
        ("other", "Secret argocd/other not found"),
        ("plain", "key b in Secret argocd/plain is not base64-encoded text"),
    ] {
        assert_eq!(app(&providers, name, &["a", "b"]), Err(expected.to_owned()));
    }
    providers.requires_label = true;
    assert_eq!(ask(&providers, "labelled", "a"), Ok(Token::new("hunter2")));
    for error in [ask(&providers, "plain", "a"), ask(&providers, "app", "a")] {
        assert!(error.unwrap_err().contains("may not be used by generators; add the label"));
    }
    // GitHub Apps are repository credentials.
    assert_eq!(app(&providers, "app", &["a"]), Ok(found));
    assert!(app(&providers, "plain", &["a"]).unwrap_err().contains("may not be used by generators"));
}
