//! Requests to the provider, and handling of invalid responses.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertifiedKey, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;
use tidegate_server::{Limits, Settings};
use tokio::net::{TcpListener, TcpStream};

use super::{
    BEGIN, Browser, ProviderChange, WITH_SECRET, limits, send_raw, serve, serve_with_provider_settings,
    split_url, write_file,
};
use crate::client::{run_test, serve_with_settings};
use crate::provider::{CONFIGURATION, EndpointFault, Provider, ProviderBehavior};

#[test]
fn a_client_authenticates_as_the_provider_requires_and_accepts_bearer_tokens() {
    run_test(async {
        let rows: [(&str, ProviderChange, &str); 7] = [
            (WITH_SECRET, |_| (), "303"),
            (
                WITH_SECRET,
                |m| {
                    m.configuration = |response| {
                        drop(
                            response.as_object_mut().unwrap().remove("token_endpoint_auth_methods_supported"),
                        )
                    }
                },
                "303",
            ),
            (WITH_SECRET, |m| m.ways = &["private_key_jwt", "client_secret_post"], "303"),
            ("", |m| m.secret = None, "303"),
            (
                WITH_SECRET,
                |m| m.ways = &["private_key_jwt"],
                "supports neither client_secret_basic nor client_secret_post",
            ),
            ("", |_| (), "(invalid_client)"),
            (WITH_SECRET, |m| m.token_type = "DPoP", "an access token of a type other than Bearer"),
        ];
        for (more, change, expected) in rows {
            let mut manners = ProviderBehavior::default();
            change(&mut manners);
            let provider = Provider::new(manners);
            let server = serve(&provider, more, limits()).await;
            let response = Browser::new(&server).sign_in("").await;
            assert!(
                response.status.to_string() == expected || response.body.contains(expected),
                "{expected}: {response:?}"
            );
        }
    });
}

#[test]
fn an_invalid_provider_response_is_named_and_not_trusted() {
    run_test(async {
        let (soon, never) = (Duration::from_millis(300), Duration::from_secs(600));
        for path in ["/token", "/keys", "/userinfo"] {
            for (instead, part) in [
                (EndpointFault::Status(500, "<b>no</b>"), "returns status 500"),
                (
                    EndpointFault::Status(200, "an-access-token"),
                    if path == "/keys" { "key set is invalid" } else { "returns an invalid response" },
                ),
                (EndpointFault::Page, "returns a content type other than application/json"),
                (EndpointFault::Elsewhere, "returns a redirect"),
                (EndpointFault::Endless, "returns more than 65536 bytes"),
                (EndpointFault::Silence, "does not respond within 0.3 s"),
            ] {
                let mut manners = ProviderBehavior { person: json!({}), ..ProviderBehavior::default() };
                manners.userinfo =
                    Some(json!({"sub": "0001", "preferred_username": "ann", "groups": ["platform"]}));
                manners.instead.insert(path, instead.clone());
                let provider = Provider::new(manners);
                let provider_timeout = if matches!(instead, EndpointFault::Silence) { soon } else { never };
                let limits = Limits { provider_bytes: 64 << 10, provider_timeout, ..limits() };
                let server = serve(&provider, WITH_SECRET, limits).await;
                let mut visitor = Browser::new(&server);
                // The time limit is short, so another endpoint may have timed out first.
                while visitor.get(BEGIN, "").await.status != 303 {}
                let response = visitor.sign_in("").await;
                assert!(
                    response.status == 502 && response.body.contains(part),
                    "{path} {instead:?}: {response:?}"
                );
                assert!(
                    !response.body.contains("<b>") && !response.body.contains("an-access-token"),
                    "{response:?}"
                );
                assert_eq!(
                    provider.count(&format!("/elsewhere{path}")),
                    0,
                    "this endpoint is never requested"
                );
            }
        }
    });
}

#[test]
fn provider_metadata_must_be_valid() {
    run_test(async {
        let rows: [(&str, ProviderChange); 10] = [
            ("has the issuer https://evil.example", |m| {
                m.configuration = |told| told["issuer"] = json!("https://evil.example")
            }),
            ("instead of http://127.0.0.1", |m| {
                m.configuration =
                    |told| told["issuer"] = json!(format!("{}/", told["issuer"].as_str().unwrap()))
            }),
            ("has an invalid token_endpoint", |m| {
                m.configuration = |told| told["token_endpoint"] = json!("http://id.example.com/token")
            }),
            ("has an invalid jwks_uri", |m| {
                m.configuration = |told| told["jwks_uri"] = json!("file:///etc/passwd")
            }),
            ("has an invalid authorization_endpoint", |m| {
                m.configuration = |told| told["authorization_endpoint"] = json!("javascript:alert(1)")
            }),
            ("has an invalid userinfo_endpoint", |m| {
                m.configuration = |told| told["userinfo_endpoint"] = json!("https://me:pw@id.example.com/")
            }),
            ("returns an invalid response", |m| {
                m.configuration = |told| drop(told.as_object_mut().unwrap().remove("jwks_uri"))
            }),
            ("returns status 404", |m| m.instead = [(CONFIGURATION, EndpointFault::Status(404, ""))].into()),
            ("returns a redirect", |m| m.instead = [(CONFIGURATION, EndpointFault::Elsewhere)].into()),
            ("returns a content type", |m| m.instead = [(CONFIGURATION, EndpointFault::Page)].into()),
        ];
        for (part, change) in rows {
            let mut manners = ProviderBehavior::default();
            change(&mut manners);
            let provider = Provider::new(manners);
            let server = serve(&provider, WITH_SECRET, limits()).await;
            let mut visitor = Browser::new(&server);
            let told = visitor.get(BEGIN, "").await;
            assert!(told.status == 502 && told.body.contains(part), "{part}: {told:?}");
            assert_eq!(visitor.cookies.len(), 0);
            // Once the provider works again, users can sign in.
            provider.change(|manners| *manners = ProviderBehavior::default());
            assert_eq!(Browser::new(&server).sign_in("").await.status, 303, "{part}");
        }
        // A provider that announces an issuer in its responses must include it.
        let provider = Provider::new(ProviderBehavior {
            configuration: |told| told["authorization_response_iss_parameter_supported"] = json!(true),
            ..ProviderBehavior::default()
        });
        let server = serve(&provider, WITH_SECRET, limits()).await;
        let issuer = provider.issuer.replace(':', "%3A").replace('/', "%2F");
        for (more, status) in
            [("", 400), ("&iss=https%3A%2F%2Fevil.example", 400), (&format!("&iss={issuer}"), 303)]
        {
            let mut visitor = Browser::new(&server);
            let back = visitor.start_login("").await;
            assert_eq!(visitor.get(&format!("{back}{more}"), "").await.status, status, "{more}");
        }
    });
}

/// Starts a TLS proxy in front of a provider, at a separate address.
async fn with_tls(pair: &CertifiedKey<KeyPair>, manners: ProviderBehavior) -> Provider {
    let key = PrivateKeyDer::from_pem_slice(pair.signing_key.serialize_pem().as_bytes()).unwrap();
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![pair.cert.der().clone()], key)
            .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let issuer = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let provider = Provider::behind(issuer, manners);
    let address = provider.address.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, address) = (acceptor.clone(), address.clone());
            tokio::spawn(async move {
                // A client that rejects the certificate disconnects.
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut behind = TcpStream::connect(address).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut behind).await;
            });
        }
    });
    provider
}

#[test]
fn a_provider_is_trusted_through_the_configured_authority() {
    run_test(async {
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let provider =
            with_tls(&pair, ProviderBehavior { secret: None, ..ProviderBehavior::default() }).await;
        let dir = tempfile::tempdir().unwrap();
        let settings = |pem: &str| {
            let path = write_file(&dir, "ca.pem", pem);
            provider.settings(&format!("caFile: {}\n", path.display()))
        };
        for text in [provider.settings(""), settings(&other.cert.pem())] {
            let server = serve_with_provider_settings(&text, limits()).await;
            let response = Browser::new(&server).get(BEGIN, "").await;
            assert!(response.status == 502 && response.body.contains("certificate"), "{response:?}");
        }
        assert_eq!(provider.count(CONFIGURATION), 0);
        let server = serve_with_provider_settings(&settings(&pair.cert.pem()), limits()).await;
        let mut ann = Browser::new(&server);
        let started = ann.get(BEGIN, "").await;
        let target = started.location().strip_prefix(&provider.issuer).unwrap();
        let (_, back) = split_url(send_raw(&provider.address, target, "").await.location());
        assert_eq!(ann.get(&back, "").await.status, 303);
        assert_eq!(ann.session().await["name"], json!("oidc:ann"));
        // An invalid certificate authority is an error at startup.
        write_file(&dir, "ca.pem", "nothing");
        let mut bad = Settings::new("127.0.0.1:0".parse().unwrap());
        bad.oidc = Some(write_file(&dir, "oidc.yaml", &provider.settings("caFile: ca.pem\n")));
        let error = serve_with_settings(&bad, tempfile::tempdir().unwrap()).await.err().unwrap().to_string();
        assert!(error.contains("oidc.yaml: caFile: "), "{error}");
    });
}
