//! Project rules treat all spellings of an address in the same way.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use serde_json::json;
use tidegate_application::project::{check_operation, check_repository, permissive_project};
use tidegate_model::argo::AppProject;
use tidegate_model::{DeployTarget, ProjectPolicy};

fn project(field: &str, value: serde_json::Value) -> AppProject {
    let mut spec = serde_json::to_value(permissive_project().spec).unwrap();
    spec.as_object_mut().unwrap().insert(field.to_owned(), value);
    let written = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "shop"}, "spec": spec,
    });
    serde_json::from_value(written).unwrap()
}

fn denies_repository(rule: &str, repository: &str) -> bool {
    check_repository(&project("sourceRepos", json!(["*", format!("!{rule}")])), repository).is_err()
}

fn permits_repository(rule: &str, repository: &str) -> bool {
    check_repository(&project("sourceRepos", json!([rule])), repository).is_ok()
}

fn denies_server(rule: &str, server: &str) -> bool {
    let any = json!({"server": "*", "namespace": "*"});
    let denied = json!({"server": format!("!{rule}"), "namespace": "*"});
    let servers = vec![server.to_owned()];
    let target = DeployTarget { servers, namespace: "web".to_owned(), ..DeployTarget::default() };
    let mandate = ProjectPolicy { target, ..ProjectPolicy::default() };
    check_operation(&project("destinations", json!([any, denied])), &mandate, "argocd").is_err()
}

#[test]
fn a_rule_denies_every_spelling() {
    for (rule, spellings) in [
        (
            "http://localhost:8495/secret/*",
            &[
                "http://localhost:08495/secret/x",
                "http://LOCALHOST.:8495/secret/x.git/",
                "HTTP://me@localhost:008495//secret/./x",
                "http://local%68ost:8495/%73ecret/x",
                "http://localhost:8495/a/%2e%2e/secret/x",
            ][..],
        ),
        ("http://localhost:08495/secret/*", &["http://localhost:8495/secret/x"]),
        ("http://localhost:08495**", &["http://localhost:8495/secret/x"]),
        (
            "https://git.example/secret/*",
            &[
                "https://git.example:0443/secret/x",
                "https://git.example:/secret/x",
                "https://GIT.example:443/Secret/x",
            ],
        ),
        ("https://git.example:443/secret/*", &["https://git.example/secret/x"]),
        ("https://*:443/secret/*", &["https://git.example/secret/x", "https://git.example:0443/secret/x"]),
        ("http://git.example:*/**", &["http://git.example/secret/x", "http://git.example:0080/x"]),
        (
            "http://127.0.0.1/**",
            &[
                "http://127.1/x",
                "http://2130706433:0080/x",
                "http://0177.0.0.1/x",
                "http://0x7f.1/x",
                "http://[::ffff:7f00:1]/x",
                "http://[::FFFF:127.0.0.1]:80/x",
                "http://127.0.0.1./x",
            ],
        ),
        ("http://127.1:8080/**", &["http://127.0.0.1:8080/x", "http://0x7f000001:08080/x"]),
        ("http://127.*/**", &["http://2130706433/x", "http://[::ffff:7f00:1]/x"]),
        ("http://[::1]:8080/**", &["http://[0:0::1]:08080/x", "http://[::0001]:8080/x"]),
        ("http://[0:0:0:0:0:0:0:1]/**", &["http://[::1]/x"]),
        (
            "git@git.example:secret/*",
            &[
                "ssh://git@git.example:0022/secret/x",
                "ssh://other@git.example/secret/x",
                "ssh://git.example/secret/x",
                "GIT@git.example.:secret/x.git",
                "git+ssh://git:pw@git.example:22/secret/x",
            ],
        ),
        ("ssh://git.example/secret/*", &["git@git.example:secret/x"]),
        (
            "registry.example/secret/*",
            &["oci://registry.example/secret/x", "oci://Registry.example:0443/secret/x"],
        ),
        ("oci://registry.example/secret/*", &["registry.example/secret/x", "registry.example:443/secret/x"]),
        ("http://**", &["http://git.example/a/b", "HTTP://10.0.0.1:8080/x"]),
    ] {
        for spelling in spellings {
            assert!(denies_repository(rule, spelling), "!{rule} does not deny {spelling}");
        }
    }
    for (rule, other) in [
        ("http://localhost:8495/secret/*", "http://localhost:8496/secret/x"),
        ("http://127.0.0.1/**", "http://127.0.0.2/x"),
        ("http://127.0.0.1/**", "http://127.0.0.08/x"),
        ("https://git.example/secret/*", "http://git.example/secret/x"),
        ("http://**", "https://git.example/a/b"),
        ("registry.example/secret/*", "https://registry.example/secret/x"),
    ] {
        assert!(!denies_repository(rule, other), "!{rule} denies {other}");
    }
    for (rule, server) in [
        ("https://10.0.0.1:6443", "https://10.1:06443/"),
        ("https://prod.example", "https://me@PROD.example.:443"),
        ("https://prod.example:0443/", "https://prod.example"),
        ("https://prod.example:*", "https://prod.example"),
        ("https://[fd00:0::1]:6443", "https://[FD00::0001]:6443"),
        ("https://10.0.*", "https://[::ffff:a00:1]"),
    ] {
        assert!(denies_server(rule, server), "!{rule} does not deny {server}");
    }
    assert!(!denies_server("https://prod.example", "https://prod.example:6443"));
}

/// A user name that contains a slash is not mistaken for a host.
#[test]
fn a_host_is_behind_the_last_at_sign() {
    for repository in [
        "https://git.example%2forg%2f@evil.example/x",
        "https://git.example/../@evil.example/x",
        "https://git.example%2forg@evil.example/x",
    ] {
        let permitted = permits_repository("https://git.example/org/**", repository);
        assert!(!permitted, "{repository}");
    }
}

/// A rule with non-ASCII characters can't match any address, so a denial would silently have no effect.
#[test]
fn a_rule_with_letters_outside_ascii_is_refused() {
    let rules = project("sourceRepos", json!(["*", "!https://b\u{fc}cher.example/**"]));
    let refused = check_repository(&rules, "https://xn--bcher-kva.example/x").unwrap_err().to_string();
    assert!(refused.contains("starts with xn--"), "{refused}");
    assert!(denies_repository("https://xn--bcher-kva.example/**", "https://XN--bcher-kva.example/x"));
}

/// Returns one of the spellings of a server.
fn spelling(host: Server, port: u16, noise: [u8; 4]) -> String {
    let [host_noise, port_noise, case, escape] = noise;
    let name = match host {
        Server::Name(name) => format!("{name}{}", if host_noise % 2 == 0 { "" } else { "." }),
        Server::Four(address) => {
            let [a, b, c, d] = Ipv4Addr::from(address).octets();
            match host_noise % 8 {
                0 => format!("{a}.{b}.{c}.{d}"),
                1 => address.to_string(),
                2 => format!("0{address:o}"),
                3 => format!("0x{address:x}"),
                4 => format!("{a}.{}", address & 0x00ff_ffff),
                5 => format!("0{a:o}.0x{b:x}.{}", address & 0xffff),
                6 => format!("[::ffff:{:x}:{:x}]", address >> 16, address & 0xffff),
                _ => format!("[0:0:0:0:0:ffff:{a}.{b}.{c}.{d}]"),
            }
        }
        Server::Six(address) => {
            let parts = std::net::Ipv6Addr::from(address).segments();
            let full: Vec<String> = parts.iter().map(|part| format!("{part:04x}")).collect();
            match host_noise % 2 {
                0 => format!("[{}]", std::net::Ipv6Addr::from(address)),
                _ => format!("[{}]", full.join(":")),
            }
        }
    };
    let name = if case % 2 == 0 { name } else { name.to_uppercase().replace("0X", "0x") };
    let port = match (port, port_noise % 4) {
        (443, 0) => String::new(),
        (443, 1) => ":".to_owned(),
        (port, 2) => format!(":00{port}"),
        (port, _) => format!(":{port}"),
    };
    let user = if escape % 3 == 0 { "me@" } else { "" };
    let path = if escape % 2 == 0 { "/team/%73ecret/x.git" } else { "/team//secret/./x" };
    format!("https://{user}{name}{port}{path}")
}

#[derive(Clone, Copy, Debug)]
enum Server {
    Name(&'static str),
    Four(u32),
    Six(u128),
}

fn server() -> impl Strategy<Value = Server> {
    // An IPv4-mapped IPv6 address is a different spelling of the IPv4 address.
    let six = any::<u128>().prop_filter("is IPv4-mapped", |six| six >> 32 != 0xffff);
    prop_oneof![
        prop_oneof![Just("git.example"), Just("localhost"), Just("a-b.svc")].prop_map(Server::Name),
        any::<u32>().prop_map(Server::Four),
        six.prop_map(Server::Six),
    ]
}

proptest! {
    /// A rule denies either all spellings of an address or none of them. It denies all spellings of the
    /// address that it contains.
    #[test]
    fn spellings_are_treated_the_same(
        server in server(),
        ruled in server(),
        is_same: bool,
        port in prop_oneof![Just(443_u16), Just(8443)],
        noise: [u8; 4],
        other: [u8; 4],
        rule: [u8; 4],
    ) {
        let (one, two) = (spelling(server, port, noise), spelling(server, port, other));
        let ruled = spelling(if is_same { server } else { ruled }, port, rule);
        let rule_of_server = ruled.split("/team").next().unwrap_or_default().to_owned();
        for rule in [ruled.clone(), format!("{rule_of_server}/team/**"), format!("{rule_of_server}/*/secret/*")] {
            let denied = denies_repository(&rule, &one);
            prop_assert_eq!(denied, denies_repository(&rule, &two), "!{} {} {}", rule, one, two);
            prop_assert!(denied || !is_same, "!{} does not deny {}", rule, one);
            prop_assert_eq!(permits_repository(&rule, &one), permits_repository(&rule, &two), "{} {} {}", rule, one, two);
        }
        let at = |text: &str| text.split("/team").next().unwrap_or_default().to_owned();
        let denied = denies_server(&rule_of_server, &at(&one));
        prop_assert_eq!(denied, denies_server(&rule_of_server, &at(&two)), "!{} {} {}", rule_of_server, one, two);
        prop_assert!(denied || !is_same, "!{} does not deny {}", rule_of_server, one);
    }
}
