//! Destination clusters that result from different sets of Secrets.

use tidegate_state::simulated;

use super::*;

fn resolve(destination: Destination, name: &str, server: &str, namespace: &str) -> Result<String, String> {
    let places = Destinations::new(destination, Arc::new(simulated::empty_cluster()), "default".to_owned());
    let (name, server, namespace) = (name.to_owned(), server.to_owned(), namespace.to_owned());
    let wanted = ApplicationDestination { name, server, namespace, ..ApplicationDestination::default() };
    places.resolve(&wanted).map(|place| place.namespace).map_err(|none| none.to_string())
}

fn managed_cluster() -> Destination {
    Destination::Kubernetes {
        context: "staging".to_owned(),
        server: "https://10.0.0.1:6443".to_owned(),
        kubeconfig: None,
        impersonate: Default::default(),
        uid: String::new(),
    }
}

fn declaration(secret: &str, name: &str, server: &str, problem: Option<&str>) -> ClusterSecret {
    ClusterSecret {
        secret_name: secret.to_owned(),
        connection: ClusterConnection {
            name: name.to_owned(),
            server: server.to_owned(),
            ..ClusterConnection::default()
        },
        problem: problem.map(str::to_owned),
        ..ClusterSecret::default()
    }
}

#[test]
fn a_declared_cluster_is_found_by_its_name_or_its_address() {
    let places =
        Destinations::new(managed_cluster(), Arc::new(simulated::empty_cluster()), "default".to_owned());
    places.declare(vec![
        declaration("argocd/a", "staging", "https://10.0.0.2:6443", None),
        declaration("argocd/b", "twice", "https://10.0.0.3:6443", None),
        declaration("argocd/c", "twice", "https://10.0.0.4:6443", None),
        declaration("argocd/d", "broken", "https://10.0.0.5:6443", Some("config is not a JSON object")),
        declaration("argocd/e", "home", "https://10.0.0.1:6443", None),
        declaration("argocd/f", "blue", "https://10.0.0.6:6443", None),
        declaration("argocd/g", "green", "https://10.0.0.6:6443", None),
    ]);
    places.state_mut().has_managed_changed = false;
    for (name, server, expected) in [
        ("staging", "", "staging at https://10.0.0.2:6443, which has not been contacted yet"),
        ("", "https://10.0.0.2:6443/", "has not been contacted yet"),
        ("", "HTTPS://10.2:06443", "has not been contacted yet"),
        ("", "https://10.1:06443", ""),
        ("twice", "", "declared by several Secrets: argocd/b, argocd/c"),
        ("", "https://10.0.0.3:6443", "has not been contacted yet"),
        ("blue", "", "declared by several Secrets: argocd/f, argocd/g; keep only one"),
        ("green", "", "declared by several Secrets: argocd/f, argocd/g; keep only one"),
        ("", "https://10.0.0.6:6443", "declared by several Secrets: argocd/f, argocd/g; keep only one"),
        ("broken", "", "Secret argocd/d: config is not a JSON object"),
        (
            "nobody",
            "",
            "(named in-cluster or https://kubernetes.default.svc), and blue, broken, green, home, staging, twice",
        ),
        ("home", "", ""),
        ("in-cluster", "", ""),
    ] {
        let (name, server) = (name.to_owned(), server.to_owned());
        let destination = ApplicationDestination { name, server, ..ApplicationDestination::default() };
        let error = places.resolve(&destination).map_or_else(|none| none.to_string(), |_| String::new());
        let is_expected = if expected.is_empty() { error.is_empty() } else { error.contains(expected) };
        assert!(is_expected, "{destination:?}: {error}");
        let is_unasked = error.contains("has not been contacted yet");
        assert_eq!(places.unchecked_reason(&destination).is_some(), is_unasked, "{destination:?}");
        assert_eq!(places.is_other_cluster(&destination), !expected.is_empty());
    }
}

fn destination(name: &str, server: &str) -> ApplicationDestination {
    let (name, server) = (name.to_owned(), server.to_owned());
    ApplicationDestination { name, server, ..ApplicationDestination::default() }
}

#[test]
fn a_secret_for_the_managed_cluster_is_used_completely_or_not_at_all() {
    let (usual, own) = (IN_CLUSTER_SERVER, "https://10.0.0.1:6443");
    let with = |server: &str, change: fn(&mut ClusterSecret)| {
        let mut one = declaration("argocd/home", "home", server, None);
        change(&mut one);
        one
    };
    let token = |one: &mut ClusterSecret| "hunter2".clone_into(&mut one.connection.token);
    let certificate = |one: &mut ClusterSecret| "YQ==".clone_into(&mut one.connection.cert_data);
    let password = |one: &mut ClusterSecret| "hunter2".clone_into(&mut one.connection.password);
    let program = |one: &mut ClusterSecret| {
        one.connection.exec = Some(tidegate_kube::ExecPlugin::new(tidegate_kube::ExecProvider::default()));
    };
    let part = |one: &mut ClusterSecret| one.problem = Some("it is for some namespaces only".to_owned());
    let plain = |one: &mut ClusterSecret| one.connection.insecure = false;
    // The managed cluster can be selected by the name in its Secret, by the default name or address, and by
    // the address that Tidegate's own client uses.
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
        let places =
            Destinations::new(managed_cluster(), Arc::new(simulated::empty_cluster()), "default".to_owned());
        places.declare(secrets);
        let ways = [
            destination("home", ""),
            destination(IN_CLUSTER_NAME, ""),
            destination("", usual),
            destination("", own),
        ];
        for (wanted, is_used) in ways.iter().zip(expected) {
            let error = places.resolve(wanted).map_or_else(|none| none.to_string(), |_| String::new());
            assert_eq!(error.is_empty(), is_used, "{wanted:?}: {error}");
            let is_reported = error.contains("cannot be used: Secret argocd/home: ");
            assert!((is_used || is_reported) && !error.contains("hunter2"), "{wanted:?}: {error}");
            assert_eq!(places.check_unambiguous(wanted).is_ok(), is_used);
        }
    }
}

#[test]
fn a_secret_can_be_limited_to_a_project_and_its_removal_is_reported() {
    let places =
        Destinations::new(managed_cluster(), Arc::new(simulated::empty_cluster()), "default".to_owned());
    let project = |wanted: &ApplicationDestination| {
        places.resolve(wanted).map(|place| place.target.project).map_err(|none| none.to_string())
    };
    let (usual, own) = (destination("", IN_CLUSTER_SERVER), destination("", "https://10.0.0.1:6443"));
    assert!(!places.is_other_cluster(&usual));
    let one = |secret: &str, project: &str| ClusterSecret {
        project: project.to_owned(),
        ..declaration(secret, secret, IN_CLUSTER_SERVER, None)
    };
    places.declare(vec![one("argocd/a", "shop"), one("argocd/b", "shop")]);
    for wanted in [&usual, &destination("argocd/b", ""), &destination(IN_CLUSTER_NAME, "")] {
        assert_eq!(project(wanted).as_deref(), Ok("shop"));
    }
    assert_eq!(project(&own).as_deref(), Ok(""));
    places.declare(vec![one("argocd/a", "shop"), one("argocd/b", "")]);
    let error = project(&usual).unwrap_err();
    assert!(error.contains("by several Secrets: argocd/a, argocd/b"), "{error}");
    places.state_mut().has_managed_changed = false;
    places.declare(Vec::new());
    assert_eq!(project(&usual).as_deref(), Ok(""));
    assert!(places.is_other_cluster(&usual), "the destination must be checked again");
}

#[test]
fn the_managed_cluster_waits_for_secrets_that_may_declare_it() {
    let places =
        Destinations::new(managed_cluster(), Arc::new(simulated::empty_cluster()), "default".to_owned());
    let own = destination(IN_CLUSTER_NAME, "");
    places.await_secrets();
    assert!(matches!(places.resolve(&own), Err(DestinationError::Unchecked(_))));
    places.declare_all(vec![declaration("argocd/a", "b", "https://10.0.0.2:6443", None)], true);
    assert!(places.resolve(&own).is_ok());
    assert!(places.is_other_cluster(&own), "waiting callers are notified");
    // Applications don't wait for Secrets that Tidegate isn't allowed to read.
    let places =
        Destinations::new(managed_cluster(), Arc::new(simulated::empty_cluster()), "default".to_owned());
    places.await_secrets();
    places.mark_secrets_listed();
    assert!(places.resolve(&own).is_ok() && !places.is_other_cluster(&own), "no caller waited");
}

#[test]
fn without_secrets_only_the_managed_cluster_is_found() {
    for (name, server, namespace, expected) in [
        (IN_CLUSTER_NAME, "", "shop", Ok("shop")),
        (IN_CLUSTER_NAME, "", "", Ok("default")),
        ("", IN_CLUSTER_SERVER, "", Ok("default")),
        ("", "https://kubernetes.default.svc/", "", Ok("default")),
        ("", "", "shop", Err("neither server nor name")),
        (IN_CLUSTER_NAME, IN_CLUSTER_SERVER, "", Err("both")),
        ("staging", "", "", Err("staging")),
        ("", "https://10.0.0.2:6443", "", Err("10.0.0.2")),
    ] {
        for destination in [Destination::Simulated, managed_cluster()] {
            let found = resolve(destination, name, server, namespace);
            match expected {
                Ok(expected) => assert_eq!(found.as_deref(), Ok(expected), "{name} {server}"),
                Err(part) => assert!(found.unwrap_err().contains(part), "{name} {server}"),
            }
        }
    }
    assert!(resolve(managed_cluster(), "", "https://10.0.0.1:6443/", "").is_ok());
    assert!(resolve(Destination::Simulated, "", "https://10.0.0.1:6443", "").is_err());
}
