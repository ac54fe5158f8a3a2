//! What destinations mean, by the Secrets there are.

use super::*;
use crate::simulated;

fn resolve(destination: Destination, name: &str, server: &str, namespace: &str) -> Result<String, String> {
    let places = Places::new(destination, Arc::new(simulated::empty()), "default".to_owned());
    let (name, server, namespace) = (name.to_owned(), server.to_owned(), namespace.to_owned());
    let wanted = ApplicationDestination { name, server, namespace, ..ApplicationDestination::default() };
    places.resolve(&wanted).map(|place| place.namespace).map_err(|none| none.to_string())
}

fn real() -> Destination {
    Destination::Kubernetes {
        context: "staging".to_owned(),
        server: "https://10.0.0.1:6443".to_owned(),
        kubeconfig: None,
        impersonate: Default::default(),
        uid: String::new(),
    }
}

fn declaration(secret: &str, name: &str, server: &str, problem: Option<&str>) -> Declaration {
    Declaration {
        secret: secret.to_owned(),
        declared: Declared { name: name.to_owned(), server: server.to_owned(), ..Declared::default() },
        problem: problem.map(str::to_owned),
        ..Declaration::default()
    }
}

#[test]
fn a_declared_cluster_is_known_by_its_name_or_its_address() {
    let places = Places::new(real(), Arc::new(simulated::empty()), "default".to_owned());
    places.declare(vec![
        declaration("argocd/a", "staging", "https://10.0.0.2:6443", None),
        declaration("argocd/b", "twice", "https://10.0.0.3:6443", None),
        declaration("argocd/c", "twice", "https://10.0.0.4:6443", None),
        declaration("argocd/d", "broken", "https://10.0.0.5:6443", Some("its config is no JSON object")),
        declaration("argocd/e", "home", "https://10.0.0.1:6443", None),
        declaration("argocd/f", "blue", "https://10.0.0.6:6443", None),
        declaration("argocd/g", "green", "https://10.0.0.6:6443", None),
    ]);
    places.known_mut().is_own_news = false;
    for (name, server, expected) in [
        ("staging", "", "staging at https://10.0.0.2:6443 was not asked yet"),
        ("", "https://10.0.0.2:6443/", "was not asked yet"),
        ("twice", "", "declared by several Secrets: argocd/b, argocd/c"),
        ("", "https://10.0.0.3:6443", "was not asked yet"),
        ("blue", "", "declared by several Secrets: argocd/f, argocd/g; leave one"),
        ("green", "", "declared by several Secrets: argocd/f, argocd/g; leave one"),
        ("", "https://10.0.0.6:6443", "declared by several Secrets: argocd/f, argocd/g; leave one"),
        ("broken", "", "Secret argocd/d: its config is no JSON object"),
        (
            "nobody",
            "",
            "is called in-cluster or https://kubernetes.default.svc, and blue, broken, green, home, staging, twice",
        ),
        ("home", "", ""),
        ("in-cluster", "", ""),
    ] {
        let (name, server) = (name.to_owned(), server.to_owned());
        let wanted = ApplicationDestination { name, server, ..ApplicationDestination::default() };
        let said = places.resolve(&wanted).map_or_else(|none| none.to_string(), |_| String::new());
        let is_said = if expected.is_empty() { said.is_empty() } else { said.contains(expected) };
        assert!(is_said, "{wanted:?}: {said}");
        let is_unasked = said.contains("was not asked yet");
        assert_eq!(places.unasked(&wanted).is_some(), is_unasked, "{wanted:?}");
        assert_eq!(places.is_elsewhere(&wanted), !expected.is_empty());
    }
}

fn wanted(name: &str, server: &str) -> ApplicationDestination {
    let (name, server) = (name.to_owned(), server.to_owned());
    ApplicationDestination { name, server, ..ApplicationDestination::default() }
}

#[test]
fn a_secret_for_the_cluster_that_is_served_is_used_as_it_is_written_or_not_at_all() {
    let (usual, own) = (IN_CLUSTER_SERVER, "https://10.0.0.1:6443");
    let with = |server: &str, change: fn(&mut Declaration)| {
        let mut one = declaration("argocd/home", "home", server, None);
        change(&mut one);
        one
    };
    let token = |one: &mut Declaration| "hunter2".clone_into(&mut one.declared.token);
    let certificate = |one: &mut Declaration| "YQ==".clone_into(&mut one.declared.cert_data);
    let password = |one: &mut Declaration| "hunter2".clone_into(&mut one.declared.password);
    let program = |one: &mut Declaration| {
        one.declared.exec = Some(tidegate_kube::Plugin::new(tidegate_kube::ExecProvider::default()));
    };
    let part = |one: &mut Declaration| one.problem = Some("it is for some namespaces only".to_owned());
    let plain = |one: &mut Declaration| one.declared.insecure = false;
    // What is said of it by the name of the Secret, the usual name and address, and the address that we use.
    for (secrets, expected) in [
        (vec![with(usual, plain)], [true, true, true, true]),
        (vec![with(usual, token)], [false, false, false, true]),
        (vec![with(usual, certificate)], [false, false, false, true]),
        (vec![with(usual, password)], [false, false, false, true]),
        (vec![with(usual, program)], [false, false, false, true]),
        (vec![with(usual, part)], [false, false, false, true]),
        (vec![with(own, token)], [false, true, true, false]),
        (vec![with(own, part)], [false, true, true, false]),
    ] {
        let places = Places::new(real(), Arc::new(simulated::empty()), "default".to_owned());
        places.declare(secrets);
        let ways = [wanted("home", ""), wanted(IN_CLUSTER, ""), wanted("", usual), wanted("", own)];
        for (wanted, is_used) in ways.iter().zip(expected) {
            let said = places.resolve(wanted).map_or_else(|none| none.to_string(), |_| String::new());
            assert_eq!(said.is_empty(), is_used, "{wanted:?}: {said}");
            let is_told = said.contains("cannot be used: Secret argocd/home: it");
            assert!((is_used || is_told) && !said.contains("hunter2"), "{wanted:?}: {said}");
            assert_eq!(places.means_one(wanted).is_ok(), is_used);
        }
    }
}

#[test]
fn a_secret_may_be_for_a_project_and_its_end_is_told() {
    let places = Places::new(real(), Arc::new(simulated::empty()), "default".to_owned());
    let project = |wanted: &ApplicationDestination| {
        places.resolve(wanted).map(|place| place.target.project).map_err(|none| none.to_string())
    };
    let (usual, own) = (wanted("", IN_CLUSTER_SERVER), wanted("", "https://10.0.0.1:6443"));
    assert!(!places.is_elsewhere(&usual));
    let one = |secret: &str, project: &str| Declaration {
        project: project.to_owned(),
        ..declaration(secret, secret, IN_CLUSTER_SERVER, None)
    };
    places.declare(vec![one("argocd/a", "shop"), one("argocd/b", "shop")]);
    for wanted in [&usual, &wanted("argocd/b", ""), &wanted(IN_CLUSTER, "")] {
        assert_eq!(project(wanted).as_deref(), Ok("shop"));
    }
    assert_eq!(project(&own).as_deref(), Ok(""));
    places.declare(vec![one("argocd/a", "shop"), one("argocd/b", "")]);
    let said = project(&usual).unwrap_err();
    assert!(said.contains("by several Secrets: argocd/a, argocd/b"), "{said}");
    places.known_mut().is_own_news = false;
    places.declare(Vec::new());
    assert_eq!(project(&usual).as_deref(), Ok(""));
    assert!(places.is_elsewhere(&usual), "it is to be looked at again");
}

#[test]
fn the_cluster_that_is_served_waits_for_the_secrets_that_may_speak_of_it() {
    let places = Places::new(real(), Arc::new(simulated::empty()), "default".to_owned());
    let own = wanted(IN_CLUSTER, "");
    places.await_secrets();
    assert!(matches!(places.resolve(&own), Err(NoPlace::Unasked(_))));
    places.declare_all(vec![declaration("argocd/a", "b", "https://10.0.0.2:6443", None)], true);
    assert!(places.resolve(&own).is_ok());
    assert!(places.is_elsewhere(&own), "whoever has waited is told");
    // Nor is it waited for when they cannot be seen.
    let places = Places::new(real(), Arc::new(simulated::empty()), "default".to_owned());
    places.await_secrets();
    places.have_come();
    assert!(places.resolve(&own).is_ok() && !places.is_elsewhere(&own), "nobody has waited");
}

#[test]
fn only_the_cluster_that_is_served_is_meant() {
    for (name, server, namespace, expected) in [
        (IN_CLUSTER, "", "shop", Ok("shop")),
        (IN_CLUSTER, "", "", Ok("default")),
        ("", IN_CLUSTER_SERVER, "", Ok("default")),
        ("", "https://kubernetes.default.svc/", "", Ok("default")),
        ("", "", "shop", Err("names no cluster")),
        (IN_CLUSTER, IN_CLUSTER_SERVER, "", Err("both")),
        ("staging", "", "", Err("staging")),
        ("", "https://10.0.0.2:6443", "", Err("10.0.0.2")),
    ] {
        for destination in [Destination::Simulated, real()] {
            let found = resolve(destination, name, server, namespace);
            match expected {
                Ok(expected) => assert_eq!(found.as_deref(), Ok(expected), "{name} {server}"),
                Err(part) => assert!(found.unwrap_err().contains(part), "{name} {server}"),
            }
        }
    }
    assert!(resolve(real(), "", "https://10.0.0.1:6443/", "").is_ok());
    assert!(resolve(Destination::Simulated, "", "https://10.0.0.1:6443", "").is_err());
}
