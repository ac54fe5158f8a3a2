//! Tests for Google Cloud service accounts.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::server::{ServerResponse, json, verify_jwt};
use super::*;

const EMAIL: &str = "tidegate@shop.iam.gserviceaccount.com";

/// Returns a key file of a service account with some fields replaced.
fn account(token_uri: &str, others: &[(&str, &str)]) -> String {
    let mut file = json!({
        "type": "service_account", "project_id": "shop", "private_key_id": "k1", "private_key": key(0).pkcs8,
        "client_email": EMAIL, "client_id": "1", "token_uri": token_uri,
    });
    for (name, value) in others {
        file[*name] = Value::from(*value);
    }
    file.to_string()
}

impl TokenFixture {
    fn account(&self, key: &str) -> Credentials {
        credentials("repository", &[("url", &self.bench.url()), ("gcpServiceAccountKey", key)])
    }
}

/// The flow is documented at <https://developers.google.com/identity/protocols/oauth2/service-account>.
#[test]
fn an_account_token_is_sent_to_the_repository() {
    let Some(stage) = TokenFixture::new() else { return };
    let mut given = 0;
    stage.github.set_responses(move |_| {
        given += 1;
        json(
            200,
            &json!({"access_token": format!("hunter2-{given}"), "expires_in": 3599, "token_type": "Bearer"}),
        )
    });
    let uri = format!("{}/token", stage.github.url());
    stage.set_credentials(stage.account(&account(&uri, &[])));
    stage.accept(EMAIL, "hunter2-1");
    assert_eq!(stage.files(), Ok(1));
    stage.clock.advance(3599 - 301);
    assert_eq!(stage.files(), Ok(1));
    let requests = stage.github.requests();
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(request.line, "POST /token");
    assert_eq!(request.headers["content-type"], "application/x-www-form-urlencoded");
    let form: BTreeMap<_, _> = form_urlencoded::parse(request.body.as_bytes()).into_owned().collect();
    assert_eq!(form["grant_type"], "urn:ietf:params:oauth:grant-type:jwt-bearer");
    let (header, claims) = verify_jwt(&form["assertion"], key(0)).unwrap();
    assert_eq!((&header["alg"], &header["kid"]), (&json!("RS256"), &json!("k1")));
    assert_eq!((&claims["iss"], &claims["aud"]), (&json!(EMAIL), &json!(uri)));
    assert_eq!(claims["scope"], "https://www.googleapis.com/auth/cloud-platform");
    let (from, until) = (claims["iat"].as_i64().unwrap(), claims["exp"].as_i64().unwrap());
    assert!(from < until && until <= from + 3600, "{claims}");
    // A new token is requested shortly before the cached one expires, and after the cached one was revoked.
    stage.clock.advance(1);
    stage.accept(EMAIL, "hunter2-2");
    assert_eq!(stage.files(), Ok(1));
    stage.accept(EMAIL, "hunter2-3");
    assert_eq!(stage.files(), Ok(1));
    assert_eq!(stage.token_requests(), ["POST /token", "POST /token"]);
}

#[test]
fn no_token_goes_by_plain_http_to_another_machine() {
    let Some(stage) = TokenFixture::new() else { return };
    let url = "http://git.example.invalid/acme/repo";
    let key = account(&format!("{}/token", stage.github.url()), &[]);
    stage.set_credentials(credentials("repository", &[("url", url), ("gcpServiceAccountKey", &key)]));
    let repository = stage.bench.repositories.open(url, Path::new("/")).unwrap();
    let error = repository.observe().unwrap_err().to_string();
    let expected = "has a Google Cloud account, which requires https://; use an https:// URL";
    assert!(error.contains(expected), "{error}");
    assert_eq!(stage.token_requests().len(), 0, "no token request was sent");
}

#[test]
fn rejected_accounts() {
    let Some(stage) = TokenFixture::new() else { return };
    let uri = stage.github.url();
    for (key, expected) in [
        ("hunter2".to_owned(), "has an invalid gcpServiceAccountKey: the value is not JSON"),
        (account(&uri, &[("type", "authorized_user")]), "the key is not for a service account"),
        (account(&uri, &[("private_key", "hunter2")]), "private_key does not contain an RSA private key"),
        (account("http://example.com/hunter2", &[]), "token_uri is not an https:// URL"),
    ] {
        stage.set_credentials(stage.account(&key));
        let error = stage.error();
        assert!(error.contains("Secret given") && error.contains(expected), "{error}");
    }
    assert_eq!(stage.token_requests().len(), 0);
    stage.set_credentials(stage.account(&account(&uri, &[])));
    stage.github.set_responses(|request| {
        let echo = request.body.rsplit("assertion=").next().unwrap().to_owned();
        json(
            400,
            &json!({"error": "invalid_grant", "error_description": format!("Invalid JWT Signature. {echo}")}),
        )
    });
    let error = stage.error();
    assert!(
        error.contains(&format!(
            "cannot get a token for the account {EMAIL} in Secret given: Google at {uri}"
        )),
        "{error}"
    );
    assert!(error.contains("(Invalid JWT Signature. ***); check gcpServiceAccountKey"), "{error}");
    stage.github.set_responses(|_| ServerResponse::Complete(200, Vec::new(), "<html>".to_owned()));
    assert!(stage.error().contains("returned a response without a token; check token_uri"));
    assert!(stage.bench.server.requests().is_empty(), "no request was sent without a token");
}
