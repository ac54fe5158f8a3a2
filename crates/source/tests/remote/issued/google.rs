//! Accounts of Google Cloud.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::server::{Answer, json, said};
use super::*;

const EMAIL: &str = "tidegate@shop.iam.gserviceaccount.com";

/// A key as Google Cloud makes it, some of whose fields are other ones.
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

impl Stage {
    fn account(&self, key: &str) -> Credentials {
        credentials("repository", &[("url", &self.bench.url()), ("gcpServiceAccountKey", key)])
    }
}

/// As <https://developers.google.com/identity/protocols/oauth2/service-account> describes it.
#[test]
fn an_account_is_given_a_token_that_the_repository_is_asked_with() {
    let Some(stage) = Stage::new() else { return };
    let mut given = 0;
    stage.github.behave(move |_| {
        given += 1;
        json(
            200,
            &json!({"access_token": format!("hunter2-{given}"), "expires_in": 3599, "token_type": "Bearer"}),
        )
    });
    let uri = format!("{}/token", stage.github.url());
    stage.give(stage.account(&account(&uri, &[])));
    stage.accept(EMAIL, "hunter2-1");
    assert_eq!(stage.files(), Ok(1));
    stage.told.passes(3599 - 301);
    assert_eq!(stage.files(), Ok(1));
    let requests = stage.github.requests();
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(request.asked, "POST /token");
    assert_eq!(request.headers["content-type"], "application/x-www-form-urlencoded");
    let form: BTreeMap<_, _> = form_urlencoded::parse(request.body.as_bytes()).into_owned().collect();
    assert_eq!(form["grant_type"], "urn:ietf:params:oauth:grant-type:jwt-bearer");
    let (header, claims) = said(&form["assertion"], key(0)).unwrap();
    assert_eq!((&header["alg"], &header["kid"]), (&json!("RS256"), &json!("k1")));
    assert_eq!((&claims["iss"], &claims["aud"]), (&json!(EMAIL), &json!(uri)));
    assert_eq!(claims["scope"], "https://www.googleapis.com/auth/cloud-platform");
    let (from, until) = (claims["iat"].as_i64().unwrap(), claims["exp"].as_i64().unwrap());
    assert!(from < until && until <= from + 3600, "{claims}");
    // Shortly before its end there is another, and another as well where it was taken back.
    stage.told.passes(1);
    stage.accept(EMAIL, "hunter2-2");
    assert_eq!(stage.files(), Ok(1));
    stage.accept(EMAIL, "hunter2-3");
    assert_eq!(stage.files(), Ok(1));
    assert_eq!(stage.asked(), ["POST /token", "POST /token"]);
}

#[test]
fn no_token_goes_by_plain_http_to_another_machine() {
    let Some(stage) = Stage::new() else { return };
    let url = "http://git.example.invalid/acme/repo";
    let key = account(&format!("{}/token", stage.github.url()), &[]);
    stage.give(credentials("repository", &[("url", url), ("gcpServiceAccountKey", &key)]));
    let repository = stage.bench.repositories.open(url, Path::new("/")).unwrap();
    let error = repository.look().unwrap_err().to_string();
    let expected = "has an account of Google Cloud, which is for https:// alone; name the repository so";
    assert!(error.contains(expected), "{error}");
    assert_eq!(stage.asked().len(), 0, "nobody was asked for a token");
}

#[test]
fn accounts_that_are_given_none() {
    let Some(stage) = Stage::new() else { return };
    let uri = stage.github.url();
    for (key, expected) in [
        ("hunter2".to_owned(), "has a gcpServiceAccountKey that is no JSON of a key"),
        (account(&uri, &[("type", "authorized_user")]), "that is no key of a service account"),
        (account(&uri, &[("private_key", "hunter2")]), "that has no private RSA key in private_key"),
        (account("http://example.com/hunter2", &[]), "that has a token_uri that is no https:// address"),
    ] {
        stage.give(stage.account(&key));
        let error = stage.error();
        assert!(error.contains("Secret given") && error.contains(expected), "{error}");
    }
    assert_eq!(stage.asked().len(), 0);
    stage.give(stage.account(&account(&uri, &[])));
    stage.github.behave(|request| {
        let echo = request.body.rsplit("assertion=").next().unwrap().to_owned();
        json(
            400,
            &json!({"error": "invalid_grant", "error_description": format!("Invalid JWT Signature. {echo}")}),
        )
    });
    let error = stage.error();
    assert!(
        error.contains(&format!("the account {EMAIL} of Secret given has no token: Google at {uri}")),
        "{error}"
    );
    assert!(error.contains("(Invalid JWT Signature. ***); check gcpServiceAccountKey"), "{error}");
    stage.github.behave(|_| Answer::Whole(200, Vec::new(), "<html>".to_owned()));
    assert!(stage.error().contains("answers with what is no token; check token_uri"));
    assert!(stage.bench.server.requests().is_empty(), "nobody was asked without a token");
}
