//! What a set is answered, on a simulated cluster.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Mutex;
use std::thread;

use serde_json::json;
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_cluster::{ApplyRequest, Cluster as _, WriteMode};
use tidegate_generate::{Options, Outcome, generate};
use tidegate_kube::Declaration;
use tidegate_model::{Destination, Object, Timestamp};
use tidegate_scm::{Secrets as _, Token, Web};
use tidegate_source::{Credentials, Reach, commit_folder};
use tidegate_testkit::signed;

use super::*;
use crate::applications::{ProjectSet, RepositoryFiles, Sourcing};
use crate::generating::Providers;
use crate::simulated;

fn known(folder: &std::path::Path, cluster: Arc<dyn tidegate_cluster::Cluster>) -> Known {
    let (reach, working) = (Reach::new(folder.join("mirrors")), folder.join("working"));
    let projects = Projects::new("argocd".to_owned());
    projects.set(ProjectSet::default());
    Known {
        manifests: Arc::new(Manifests::new(folder.to_path_buf(), reach, working, Sourcing::default())),
        places: Places::new(Destination::Simulated, cluster, "default".to_owned()),
        projects: Arc::new(projects),
        home: "argocd".to_owned(),
    }
}

fn set(project: &str, generator: &serde_json::Value) -> ApplicationSet {
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

/// The names and servers of what is generated, or what went wrong.
fn made(known: Known, set: &ApplicationSet, is_fresh: bool) -> Result<Vec<(String, String)>, String> {
    let options = Options { now: Some(0), ..Options::default() };
    match generate(set, &mut LiveWorld::of(known, set, is_fresh), &options) {
        Ok(Outcome::Done(done)) => {
            let applications = done.applications.into_iter().map(|made| made.application);
            Ok(applications.map(|one| (one.metadata.name, one.spec.destination.server)).collect())
        }
        Ok(Outcome::Unknown) => Err("unknown".to_owned()),
        Err(errors) => Err(errors.to_string()),
    }
}

fn declaration(name: &str, labels: &serde_json::Value, server: &str) -> Declaration {
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"name": name, "server": server},
        "metadata": {"name": name, "namespace": "argocd", "labels": labels},
    });
    let mut object = Object::try_from(object).unwrap();
    object.set_label("argocd.argoproj.io/secret-type", "cluster");
    Declaration::of(&object).unwrap()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, server)| ((*name).to_owned(), (*server).to_owned())).collect()
}

#[test]
fn clusters_are_those_that_secrets_declare() {
    let folder = tempfile::tempdir().unwrap();
    let named = |selector: serde_json::Value| {
        let mut set = set("default", &json!({"clusters": {"selector": selector}}));
        set.spec.template.metadata.name = "{{ .name }}".to_owned();
        set.spec.template.spec.destination.server = "{{ .server }}".to_owned();
        set
    };
    let world = || {
        let known = known(folder.path(), Arc::new(simulated::empty()));
        known.places.declare(vec![
            declaration("eu", &json!({"env": "prod"}), "https://eu"),
            declaration("us", &json!({"env": "dev"}), "https://us"),
        ]);
        known
    };
    let all = made(world(), &named(json!({})), false);
    let local = ("in-cluster", "https://kubernetes.default.svc");
    assert_eq!(all.unwrap(), pairs(&[("eu", "https://eu"), local, ("us", "https://us")]));
    let prod = made(world(), &named(json!({"matchLabels": {"env": "prod"}})), false);
    assert_eq!(prod.unwrap(), pairs(&[("eu", "https://eu")]));
    // Fewer clusters would be fewer Applications: what cannot be read protects them.
    let broken = world();
    broken.places.declare(vec![declaration("eu", &json!({}), "")]);
    let error = made(broken, &named(json!({})), false).unwrap_err();
    assert!(error.contains("Secret argocd/eu declares a cluster without a server"), "{error}");
    let unseen = world();
    unseen.places.await_secrets();
    let error = made(unseen, &named(json!({})), false).unwrap_err();
    assert!(error.contains("were not seen yet"), "{error}");
}

#[test]
fn repositories_are_asked_on_behalf_of_a_project_and_again_when_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let repository = folder.path().join("repo");
    let commit = |app: &str, number| {
        fs::create_dir_all(repository.join(app)).unwrap();
        fs::write(repository.join(app).join("a.yaml"), "").unwrap();
        commit_folder(&repository, app, number).unwrap();
    };
    let of = |project: &str| {
        let mut set = set(
            project,
            &json!({"git": {"repoURL": "./repo", "revision": "HEAD", "directories": [{"path": "*"}]}}),
        );
        set.spec.template.metadata.name = "{{ .path.basename }}".to_owned();
        set.spec.template.spec.destination.server = "https://a".to_owned();
        set
    };
    commit("web", 1);
    let first = known(folder.path(), Arc::new(simulated::empty()));
    let next = || Known {
        manifests: Arc::clone(&first.manifests),
        places: first.places.clone(),
        projects: Arc::clone(&first.projects),
        home: first.home.clone(),
    };
    assert_eq!(made(next(), &of("default"), false).unwrap(), pairs(&[("web", "https://a")]));
    commit("api", 2);
    assert_eq!(made(next(), &of("default"), false).unwrap(), pairs(&[("web", "https://a")]));
    let both = pairs(&[("api", "https://a"), ("web", "https://a")]);
    assert_eq!(made(next(), &of("default"), true).unwrap(), both);
    assert_eq!(made(next(), &of("{{ .path.basename }}"), false).unwrap(), both);
    let error = made(next(), &of("shop"), false).unwrap_err();
    assert!(error.contains("error getting project shop: it does not exist; write an AppProject"), "{error}");
}

#[test]
fn what_is_generated_from_is_signed_as_the_project_wants_it() {
    let folder = tempfile::tempdir().unwrap();
    signed::put(&folder.path().join("signed.git"));
    let first = known(folder.path(), Arc::new(simulated::empty()));
    let mut credentials = Credentials::default();
    credentials.add(&signed::keys(&["alice"])).unwrap();
    first.manifests.give(credentials);
    let spec = json!({"signatureKeys": [{"keyID": signed::key_id("alice")}]});
    let project = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "signed"}, "spec": spec,
    });
    let projects = BTreeMap::from([("signed".to_owned(), Ok(serde_json::from_value(project).unwrap()))]);
    first.projects.set(ProjectSet { projects, ..ProjectSet::default() });
    let of = |project: &str, revision: &str| {
        let generator =
            json!({"git": {"repoURL": "./signed.git", "revision": revision, "directories": [{"path": "*"}]}});
        let mut set = set(project, &generator);
        set.spec.template.metadata.name = "{{ .path.basename }}".to_owned();
        set.spec.template.spec.destination.server = "https://a".to_owned();
        let next = Known {
            manifests: Arc::clone(&first.manifests),
            places: first.places.clone(),
            projects: Arc::clone(&first.projects),
            home: first.home.clone(),
        };
        made(next, &set, false)
    };
    let app = pairs(&[("app", "https://a")]);
    for revision in ["by-alice", "v1.0.0"] {
        assert_eq!(of("signed", revision).unwrap(), app, "{revision}");
    }
    for (revision, part) in
        [("unsigned", "is not signed"), ("v2.0.0", "the tag v2.0.0"), ("by-bob", "no such key")]
    {
        let error = of("signed", revision).unwrap_err();
        assert!(error.contains(part), "{error}");
        assert_eq!(of("default", revision).unwrap(), app, "{revision}");
        assert_eq!(of("{{ .path.basename }}", revision).unwrap(), app, "nobody knows the project yet");
    }
}

#[tokio::test]
async fn resources_of_the_cluster_decide() {
    let folder = tempfile::tempdir().unwrap();
    // What it is asked to be, it is at once.
    let cluster = SimCluster::in_memory(SimConfig::instant(), Clock::wall(|| Timestamp::from_millis(1_000)));
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
    let known = known(folder.path(), Arc::new(cluster));
    let none = json!({});
    known
        .places
        .declare(vec![declaration("eu", &none, "https://eu"), declaration("us", &none, "https://us")]);
    let ask = move |more: serde_json::Value| {
        let mut generator = json!({"configMapRef": "how"});
        generator.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut set = set("default", &json!({"clusterDecisionResource": generator}));
        set.spec.template.metadata.name = "{{ .name }}".to_owned();
        set.spec.template.spec.destination.server = "{{ .server }}".to_owned();
        let known = Known {
            manifests: Arc::clone(&known.manifests),
            places: known.places.clone(),
            projects: Arc::clone(&known.projects),
            home: known.home.clone(),
        };
        made(known, &set, false)
    };
    let asked = tokio::task::spawn_blocking(move || {
        BTreeMap::from([
            ("by name", ask(json!({"name": "a"}))),
            ("by labels", ask(json!({"labelSelector": {"matchLabels": {"of": "shop"}}}))),
            ("none", ask(json!({"name": "nowhere"}))),
            ("other", ask(json!({"name": "a", "configMapRef": "nowhere"}))),
        ])
    });
    let asked = asked.await.unwrap();
    assert_eq!(asked["by name"], Ok(pairs(&[("eu", "https://eu")])));
    assert_eq!(asked["by labels"], Ok(pairs(&[("eu", "https://eu"), ("us", "https://us")])));
    assert!(asked["none"].as_ref().unwrap_err().contains("no clusterDecisionResources found"), "{asked:?}");
    let error = asked["other"].as_ref().unwrap_err();
    assert!(error.contains("there is no ConfigMap argocd/nowhere"), "{error}");
}

/// A server that answers to what is asked, and writes it down.
fn server(answers: &'static [(&'static str, &'static str)]) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let writing = Arc::clone(&asked);
    // It ends with the process.
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
    (url, asked)
}

#[tokio::test]
async fn plugins_and_providers_are_asked_once_with_what_secrets_say() {
    let folder = tempfile::tempdir().unwrap();
    let (url, asked) = server(&[
        ("/getparams.execute", r#"{"output": {"parameters": [{"name": "eu"}, {"name": "us"}]}}"#),
        (
            "/repos/shop/web/pulls",
            r#"[{"number": 7, "title": "t", "head": {"ref": "a", "sha": "1"}, "base": {"ref": "main", "sha": "2"}}]"#,
        ),
    ]);
    let cluster = SimCluster::in_memory(SimConfig::instant(), Clock::wall(|| Timestamp::from_millis(1_000)));
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
        let mut set = set("default", &json!({"matrix": {"generators": children}}));
        set.spec.template.metadata.name = "{{ .name }}-{{ .number }}".to_owned();
        set.spec.template.spec.destination.server = "https://a".to_owned();
        set
    };
    let known = known(folder.path(), Arc::new(cluster));
    let (set, plain, none) = (of("plugin"), of("plain"), of("none"));
    let made = tokio::task::spawn_blocking(move || {
        let next = || Known {
            manifests: Arc::clone(&known.manifests),
            places: known.places.clone(),
            projects: Arc::clone(&known.projects),
            home: known.home.clone(),
        };
        [&set, &plain, &none].map(|set| made(next(), set, false))
    });
    let [found, plain, none] = made.await.unwrap();
    assert_eq!(found.unwrap(), pairs(&[("eu-7", "https://a"), ("us-7", "https://a")]));
    let asked = asked.lock().unwrap().clone();
    let [plugin, requests] = asked.as_slice() else { panic!("{asked:?}") };
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
        plain.contains("token of ConfigMap argocd/plain names no key of a Secret; write $key"),
        "{plain}"
    );
    assert!(!plain.contains("hunter2"), "{plain}");
    assert!(none.unwrap_err().contains("there is no ConfigMap argocd/none"));
}

#[test]
fn secrets_of_generators_are_those_of_the_namespace_of_their_set() {
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
    let objects = || Objects { files: Some(&files), cluster: None, home: "argocd" };
    let ask = |providers: &Providers, name: &str, key: &str| {
        With { web: &web, providers, objects: objects(), namespace: "argocd", set: "all" }.secret(name, key)
    };
    let app = |providers: &Providers, name: &str, keys: &[&str]| {
        With { web: &web, providers, objects: objects(), namespace: "argocd", set: "all" }
            .app_secret(name, keys)
    };
    assert_eq!(ask(&providers, "plain", "a"), Ok(Token::new("hunter2")));
    for (name, key, expected) in [
        ("other", "a", "there is no Secret argocd/other"),
        ("plain", "none", "there is no key none in Secret argocd/plain"),
        ("plain", "b", "key b of Secret argocd/plain is not text in base64"),
    ] {
        assert_eq!(ask(&providers, name, key), Err(expected.to_owned()));
    }
    // Of an App not all fields need to be there.
    let found = BTreeMap::from([("a".to_owned(), Token::new("hunter2"))]);
    assert_eq!(app(&providers, "plain", &["a", "none"]), Ok(found.clone()));
    for (name, expected) in [
        ("other", "there is no Secret argocd/other"),
        ("plain", "key b of Secret argocd/plain is not text in base64"),
    ] {
        assert_eq!(app(&providers, name, &["a", "b"]), Err(expected.to_owned()));
    }
    providers.only_labelled = true;
    assert_eq!(ask(&providers, "labelled", "a"), Ok(Token::new("hunter2")));
    for error in [ask(&providers, "plain", "a"), ask(&providers, "app", "a")] {
        assert!(error.unwrap_err().contains("may not be used by generators; label it"));
    }
    // Apps are credentials of repositories.
    assert_eq!(app(&providers, "app", &["a"]), Ok(found));
    assert!(app(&providers, "plain", &["a"]).unwrap_err().contains("may not be used by generators"));
}
