use std::collections::BTreeSet;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tidegate_generate::QueryError;
use tidegate_model::argo::ScmGenerator;
use tidegate_scm::{Policy, RequestContext, Web};

use crate::TestSecrets;
use crate::server::{Page, Server};

/// Starts a server with a self-signed certificate. Returns the server and its certificate.
fn server() -> (Server, String) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    (Server::with(Some(Arc::new(config))), made.cert.pem())
}

fn ask(server: &Server, known: &TestSecrets, more: Value) -> Result<usize, QueryError> {
    let mut gitlab =
        json!({"group": "g", "api": server.url(), "tokenRef": {"secretName": "gl", "key": "token"}});
    gitlab.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let generator: ScmGenerator = serde_json::from_value(json!({"gitlab": gitlab})).unwrap();
    let web = Web::default();
    RequestContext { web: &web, secrets: known, policy: &Policy::default() }
        .branches(&generator, &BTreeSet::new())
        .map(|found| found.len())
}

#[test]
fn a_server_is_trusted_by_its_authority_or_if_insecure() {
    let (server, pem) = server();
    let path = "/api/v4/groups/g/projects?per_page=100&include_subgroups=false&with_shared=true";
    server.put(path, Page::of(json!([])));
    let key = |name: &str| ("ca".to_owned(), name.to_owned());
    let (_, other) = self::server();
    let known =
        TestSecrets([(key("crt"), pem), (key("other"), other), (key("odd"), "nothing".to_owned())].into());
    let ca = |key: &str| json!({"caRef": {"configMapName": "ca", "key": key}});
    assert_eq!(ask(&server, &known, ca("crt")), Ok(0));
    assert_eq!(ask(&server, &known, json!({"insecure": true})), Ok(0));
    server.visits();
    for (more, expected) in [
        (json!({}), "has an untrusted certificate"),
        (ca("other"), "has an untrusted certificate"),
        (ca("odd"), "key odd in ConfigMap ca contains no PEM certificates"),
        (ca("none"), "there is no key none in ConfigMap ca"),
    ] {
        let error = ask(&server, &known, more.clone()).unwrap_err();
        assert!(error.reason.contains(expected), "{more}: {error:?}");
    }
    assert!(server.visits().is_empty(), "no token is sent to an untrusted server");
}
