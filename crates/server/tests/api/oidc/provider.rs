//! How the provider is asked, and what becomes of one that does not answer as it should.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertifiedKey, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;
use tidegate_server::{Limits, Settings};
use tokio::net::{TcpListener, TcpStream};

use super::{BEGIN, Change, Visitor, WITH_SECRET, limits, raw, serve, serve_with, split, write};
use crate::client::{run, serve_as};
use crate::provider::{CONFIGURATION, Instead, Manners, Provider};

#[test]
fn a_client_proves_who_it_is_as_the_provider_takes_it() {
    run(async {
        let rows: [(&str, Change, &str); 6] = [
            (WITH_SECRET, |_| (), "303"),
            (
                WITH_SECRET,
                |m| {
                    m.configuration = |told| {
                        drop(told.as_object_mut().unwrap().remove("token_endpoint_auth_methods_supported"))
                    }
                },
                "303",
            ),
            (WITH_SECRET, |m| m.ways = &["private_key_jwt", "client_secret_post"], "303"),
            ("", |m| m.secret = None, "303"),
            (
                WITH_SECRET,
                |m| m.ways = &["private_key_jwt"],
                "neither by client_secret_basic nor by client_secret_post",
            ),
            ("", |_| (), "(invalid_client)"),
        ];
        for (more, change, expected) in rows {
            let mut manners = Manners::default();
            change(&mut manners);
            let provider = Provider::new(manners);
            let served = serve(&provider, more, limits()).await;
            let told = Visitor::new(&served).sign_in("").await;
            assert!(
                told.status.to_string() == expected || told.body.contains(expected),
                "{expected}: {told:?}"
            );
        }
    });
}

#[test]
fn a_provider_that_does_not_answer_as_it_should_is_named_and_believed_in_nothing() {
    run(async {
        let (soon, never) = (Duration::from_millis(300), Duration::from_secs(600));
        for path in ["/token", "/keys", "/userinfo"] {
            for (instead, part) in [
                (Instead::Status(500, "<b>no</b>"), "answers with 500"),
                (
                    Instead::Status(200, "an-access-token"),
                    if path == "/keys" { "its key set is none" } else { "something else than it has to" },
                ),
                (Instead::Elsewhere, "sends us on to another address"),
                (Instead::Endless, "answers with more than 65536 bytes"),
                (Instead::Silence, "does not answer within 0.3 s"),
            ] {
                let mut manners = Manners { person: json!({}), ..Manners::default() };
                manners.userinfo =
                    Some(json!({"sub": "0001", "preferred_username": "ann", "groups": ["platform"]}));
                manners.instead.insert(path, instead.clone());
                let provider = Provider::new(manners);
                let provider_within = if matches!(instead, Instead::Silence) { soon } else { never };
                let limits = Limits { provider_bytes: 64 << 10, provider_within, ..limits() };
                let served = serve(&provider, WITH_SECRET, limits).await;
                let mut visitor = Visitor::new(&served);
                // Where there is little patience, another endpoint may have been too slow for it.
                while visitor.get(BEGIN, "").await.status != 303 {}
                let told = visitor.sign_in("").await;
                assert!(told.status == 502 && told.body.contains(part), "{path} {instead:?}: {told:?}");
                assert!(!told.body.contains("<b>") && !told.body.contains("an-access-token"), "{told:?}");
                assert_eq!(provider.count(&format!("/elsewhere{path}")), 0, "nobody goes there");
            }
        }
    });
}

#[test]
fn what_a_provider_says_of_itself_has_to_be_right() {
    run(async {
        let rows: [(&str, Change); 9] = [
            ("is of the issuer https://evil.example", |m| {
                m.configuration = |told| told["issuer"] = json!("https://evil.example")
            }),
            ("and not of http://127.0.0.1", |m| {
                m.configuration =
                    |told| told["issuer"] = json!(format!("{}/", told["issuer"].as_str().unwrap()))
            }),
            ("has no token_endpoint that is taken", |m| {
                m.configuration = |told| told["token_endpoint"] = json!("http://id.example.com/token")
            }),
            ("has no jwks_uri that is taken", |m| {
                m.configuration = |told| told["jwks_uri"] = json!("file:///etc/passwd")
            }),
            ("has no authorization_endpoint that is taken", |m| {
                m.configuration = |told| told["authorization_endpoint"] = json!("javascript:alert(1)")
            }),
            ("has no userinfo_endpoint that is taken", |m| {
                m.configuration = |told| told["userinfo_endpoint"] = json!("https://me:pw@id.example.com/")
            }),
            ("something else than it has to", |m| {
                m.configuration = |told| drop(told.as_object_mut().unwrap().remove("jwks_uri"))
            }),
            ("answers with 404", |m| m.instead = [(CONFIGURATION, Instead::Status(404, ""))].into()),
            ("sends us on to another address", |m| m.instead = [(CONFIGURATION, Instead::Elsewhere)].into()),
        ];
        for (part, change) in rows {
            let mut manners = Manners::default();
            change(&mut manners);
            let provider = Provider::new(manners);
            let served = serve(&provider, WITH_SECRET, limits()).await;
            let mut visitor = Visitor::new(&served);
            let told = visitor.get(BEGIN, "").await;
            assert!(told.status == 502 && told.body.contains(part), "{part}: {told:?}");
            assert_eq!(visitor.cookies.len(), 0);
            // As soon as it is right, people sign in.
            provider.change(|manners| *manners = Manners::default());
            assert_eq!(Visitor::new(&served).sign_in("").await.status, 303, "{part}");
        }
        // One that names itself in its answers has to do so.
        let provider = Provider::new(Manners {
            configuration: |told| told["authorization_response_iss_parameter_supported"] = json!(true),
            ..Manners::default()
        });
        let served = serve(&provider, WITH_SECRET, limits()).await;
        let issuer = provider.issuer.replace(':', "%3A").replace('/', "%2F");
        for (more, status) in
            [("", 400), ("&iss=https%3A%2F%2Fevil.example", 400), (&format!("&iss={issuer}"), 303)]
        {
            let mut visitor = Visitor::new(&served);
            let back = visitor.leave("").await;
            assert_eq!(visitor.get(&format!("{back}{more}"), "").await.status, status, "{more}");
        }
    });
}

/// TLS in front of a provider, at an address of its own.
async fn with_tls(pair: &CertifiedKey<KeyPair>, manners: Manners) -> Provider {
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
                // Whoever does not believe the certificate goes away.
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut behind = TcpStream::connect(address).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut behind).await;
            });
        }
    });
    provider
}

#[test]
fn a_provider_is_believed_for_whom_the_named_authority_vouches() {
    run(async {
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let provider = with_tls(&pair, Manners { secret: None, ..Manners::default() }).await;
        let dir = tempfile::tempdir().unwrap();
        let settings = |pem: &str| {
            let path = write(&dir, "ca.pem", pem);
            provider.settings(&format!("caFile: {}\n", path.display()))
        };
        for text in [provider.settings(""), settings(&other.cert.pem())] {
            let served = serve_with(&text, limits()).await;
            let told = Visitor::new(&served).get(BEGIN, "").await;
            assert!(told.status == 502 && told.body.contains("certificate"), "{told:?}");
        }
        assert_eq!(provider.count(CONFIGURATION), 0);
        let served = serve_with(&settings(&pair.cert.pem()), limits()).await;
        let mut ann = Visitor::new(&served);
        let begun = ann.get(BEGIN, "").await;
        let target = begun.location().strip_prefix(&provider.issuer).unwrap();
        let (_, back) = split(raw(&provider.address, target, "").await.location());
        assert_eq!(ann.get(&back, "").await.status, 303);
        assert_eq!(ann.who().await["name"], json!("oidc:ann"));
        // What is no authority is an error at the start.
        write(&dir, "ca.pem", "nothing");
        let mut bad = Settings::new("127.0.0.1:0".parse().unwrap());
        bad.oidc = Some(write(&dir, "oidc.yaml", &provider.settings("caFile: ca.pem\n")));
        let error = serve_as(&bad, tempfile::tempdir().unwrap()).await.err().unwrap().to_string();
        assert!(error.contains("oidc.yaml: caFile: "), "{error}");
    });
}
