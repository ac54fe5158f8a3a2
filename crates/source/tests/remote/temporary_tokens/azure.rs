//! Tests for Azure identities.

use std::collections::BTreeMap;

use serde_json::json;
use tidegate_source::AzureWorkload;

use super::server::{ServerResponse, json};
use super::*;

const CLIENT: &str = "0a1b2c3d-0000-4000-8000-000000000001";
const TENANT: &str = "shop.onmicrosoft.com";
/// Service account token of the process.
const ASSERTION: &str = "hunter2.of.cluster";

impl TokenFixture {
    /// Creates a test setup with a workload identity that the server accepts.
    fn with_azure() -> Option<Self> {
        Self::with_remote_access(|reach, server| {
            let token_file = reach.mirrors.with_file_name("token");
            fs::write(&token_file, format!("{ASSERTION}\n")).unwrap();
            let (client, tenant) = (CLIENT.to_owned(), TENANT.to_owned());
            reach.azure = AzureWorkload { client, tenant, token_file, authority: format!("{server}/") };
        })
    }

    fn azure(&self, fields: &[(&str, &str)]) {
        self.set_credentials(credentials(
            "repository",
            &[&[("url", self.bench.url().as_str())], fields].concat(),
        ));
    }

    /// Makes the Git server accept only this token.
    fn accept_bearer(&self, token: &str) {
        let authorization = Some(format!("Bearer {token}"));
        self.bench.server.set_behavior(ServerBehavior { authorization, ..ServerBehavior::default() });
    }

    fn issue_tokens(&self) {
        let mut given = 0;
        self.github.set_responses(move |_| {
            given += 1;
            json(200, &json!({"token_type": "Bearer", "expires_in": 3599, "access_token": format!("{TOKEN}-{given}")}))
        });
    }
}

fn form(body: &str) -> BTreeMap<String, String> {
    form_urlencoded::parse(body.as_bytes()).into_owned().collect()
}

/// The flow is documented at
/// <https://learn.microsoft.com/en-us/entra/identity-platform/v2-oauth2-client-creds-grant-flow>.
#[test]
fn a_service_principal_token_is_sent_to_the_repository() {
    let Some(stage) = TokenFixture::with_azure() else { return };
    stage.issue_tokens();
    stage.azure(&[
        ("azureServicePrincipalClientId", CLIENT),
        ("azureServicePrincipalClientSecret", "hunter2~&secret"),
        ("azureServicePrincipalTenantId", TENANT),
        ("azureActiveDirectoryEndpoint", &stage.github.url()),
    ]);
    stage.accept_bearer("hunter2-1");
    assert_eq!(stage.files(), Ok(1));
    stage.clock.advance(3599 - 301);
    assert_eq!(stage.files(), Ok(1));
    let requests = stage.github.requests();
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(request.line, format!("POST /{TENANT}/oauth2/v2.0/token"));
    assert!(!request.headers.contains_key("authorization"));
    let expected = [
        ("grant_type", "client_credentials"),
        ("client_id", CLIENT),
        ("client_secret", "hunter2~&secret"),
        ("scope", "499b84ac-1321-427f-aa17-267ca6975798/.default"),
    ];
    assert_eq!(form(&request.body), expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    // A new token is requested shortly before the cached one expires, and after the cached one was revoked.
    stage.clock.advance(1);
    stage.accept_bearer("hunter2-2");
    assert_eq!(stage.files(), Ok(1));
    stage.accept_bearer("hunter2-3");
    assert_eq!(stage.files(), Ok(1));
    assert_eq!(stage.token_requests().len(), 2);
}

#[test]
fn the_workload_identity_uses_the_service_account_token() {
    let Some(stage) = TokenFixture::with_azure() else { return };
    stage.issue_tokens();
    stage.azure(&[("useAzureWorkloadIdentity", "true")]);
    stage.accept_bearer("hunter2-1");
    assert_eq!(stage.files(), Ok(1));
    let requests = stage.github.requests();
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(request.line, format!("POST /{TENANT}/oauth2/v2.0/token"));
    let expected = [
        ("grant_type", "client_credentials"),
        ("client_id", CLIENT),
        ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
        ("client_assertion", ASSERTION),
        ("scope", "499b84ac-1321-427f-aa17-267ca6975798/.default"),
    ];
    assert_eq!(form(&request.body), expected.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
}

/// The token must be sent only to the registry, and the client's proof only to Azure.
#[test]
fn a_registry_exchanges_the_token_for_a_password() {
    let Some(stage) = TokenFixture::with_azure() else { return };
    let registry = Server::start(|request| match request.line.as_str() {
        "POST /oauth2/exchange" => json(200, &json!({"refresh_token": "hunter2-refresh"})),
        _ => ServerResponse::Complete(403, Vec::new(), String::new()),
    });
    stage.issue_tokens();
    let host = registry.url().trim_start_matches("http://").to_owned();
    let charts = format!("oci://{host}/team");
    stage.set_credentials(credentials(
        "repository",
        &[
            ("url", &charts),
            ("type", "oci"),
            ("insecureOCIForceHttp", "true"),
            ("useAzureWorkloadIdentity", "true"),
        ],
    ));
    let source = serde_json::from_value(json!({"repoURL": charts, "chart": "web"})).unwrap();
    let origin = stage.bench.repositories.origin(&source, Path::new("/")).unwrap();
    let error = origin.observe().and_then(|_| origin.resolve(&source, "1.x")).unwrap_err().to_string();
    assert!(error.contains("403") && !error.contains(TOKEN), "{error}");
    let asked = form(&stage.github.requests()[0].body);
    assert_eq!(asked["scope"], "https://management.core.windows.net/.default");
    let requests = registry.requests();
    let exchange = form(&requests[0].body);
    assert_eq!(requests[0].line, "POST /oauth2/exchange");
    assert_eq!(
        (exchange["grant_type"].as_str(), exchange["access_token"].as_str()),
        ("access_token", "hunter2-1")
    );
    assert_eq!((exchange["service"].as_str(), exchange["tenant"].as_str()), ("127.0.0.1", TENANT));
    let shown = BASE64_STANDARD.encode("00000000-0000-0000-0000-000000000000:hunter2-refresh");
    assert_eq!(requests[1].headers["authorization"], format!("Basic {shown}"));
    assert!(!requests.iter().any(|request| format!("{request:?}").contains(ASSERTION)));
}

#[test]
fn rejected_identities() {
    let Some(stage) = TokenFixture::with_azure() else { return };
    let principal = |others: &[(&'static str, &'static str)]| {
        let url = stage.github.url();
        let mut fields: BTreeMap<&str, &str> = BTreeMap::from([
            ("azureServicePrincipalClientId", CLIENT),
            ("azureServicePrincipalClientSecret", "hunter2-secret"),
            ("azureServicePrincipalTenantId", TENANT),
            ("azureActiveDirectoryEndpoint", url.as_str()),
        ]);
        fields.extend(others.iter().copied());
        fields.retain(|_, value| !value.is_empty());
        stage.azure(&fields.into_iter().collect::<Vec<_>>());
    };
    for (others, expected) in [
        (&[("azureServicePrincipalClientSecret", "")][..], "without azureServicePrincipalClientSecret"),
        (
            &[("azureServicePrincipalTenantId", "../hunter2")],
            "azureServicePrincipalTenantId; use an Azure tenant ID or domain",
        ),
        (
            &[("azureActiveDirectoryEndpoint", "http://example.com/hunter2")],
            "azureActiveDirectoryEndpoint; use an https:// URL",
        ),
        (&[("useAzureWorkloadIdentity", "perhaps")], "useAzureWorkloadIdentity; use true or false"),
    ] {
        principal(others);
        let error = stage.error();
        assert!(error.contains("Secret given") && error.contains(expected), "{error}");
    }
    assert_eq!(stage.token_requests().len(), 0);
    principal(&[]);
    stage.github.set_responses(|request| {
        let echo = request.body.rsplit("client_secret=").next().unwrap().split('&').next().unwrap().to_owned();
        json(401, &json!({"error": "invalid_client", "error_description": format!("AADSTS7000215: {echo} is invalid")}))
    });
    let error = stage.error();
    let who = format!(
        "cannot get a token for the service principal {CLIENT} in Secret given: Azure at {}",
        stage.github.url()
    );
    assert!(error.contains(&who), "{error}");
    assert!(error.contains("(AADSTS7000215: *** is invalid); check the azureServicePrincipal"), "{error}");
    assert!(stage.bench.server.requests().is_empty(), "no request was sent without a token");
}

#[test]
fn a_missing_workload_identity_names_the_variables() {
    let Some(stage) = TokenFixture::with_remote_access(|reach, _| {
        reach.azure = AzureWorkload { client: CLIENT.to_owned(), ..AzureWorkload::default() };
    }) else {
        return;
    };
    stage.azure(&[("useAzureWorkloadIdentity", "true")]);
    let error = stage.error();
    assert!(
        error.contains(
            "cannot get a token for the workload identity in Secret given: AZURE_TENANT_ID is not set; \
             label the pod"
        ),
        "{error}"
    );
    assert_eq!(stage.token_requests().len(), 0);
}
