use std::time::Duration;

use serde_json::{Value, json};
use tidegate_model::argo::PluginInput;
use tidegate_scm::{Plugin, Token, Web};

use crate::server::{Page, Server};

const PATH: &str = "POST /api/v1/getparams.execute";

fn plugin(server: &Server) -> Plugin {
    Plugin {
        base_url: format!("{}/", server.url()),
        token: Token::new("hunter2\n"),
        token_origin: "key plugin.token in Secret argocd/plugin".to_owned(),
        timeout: Duration::from_secs(30),
    }
}

#[test]
fn a_plugin_gets_the_name_of_the_appset() {
    let server = Server::start();
    let answer = json!({"output": {"parameters": [{"key1": "val1", "replicas": 3}]}});
    server.at(PATH, Page::of(answer.clone()));
    let input: PluginInput =
        serde_json::from_value(json!({"parameters": {"key1": "value1", "list": ["a"]}})).unwrap();
    assert_eq!(plugin(&server).request_parameters(&Web::default(), "shops", &input), Ok(answer));
    let visits = server.visits();
    assert_eq!(visits[0].headers["authorization"], "Bearer hunter2");
    assert_eq!(visits[0].headers["content-type"], "application/json");
    let body: Value = serde_json::from_str(&visits[0].body).unwrap();
    assert_eq!(
        body,
        json!({"applicationSetName": "shops", "input": {"parameters": {"key1": "value1", "list": ["a"]}}})
    );
}

#[test]
fn invalid_responses_are_errors_without_the_token() {
    let (server, other) = (Server::start(), Server::start());
    let ask = || {
        let error = plugin(&server)
            .request_parameters(&Web::default(), "shops", &PluginInput::default())
            .unwrap_err();
        assert!(!error.reason.contains("hunter2"), "{error:?}");
        error.reason
    };
    for (page, expected) in [
        (
            Page::status(500, json!({"message": "no idea, hunter2"})),
            "returned 500 Internal Server Error for POST /api/v1/getparams.execute (no idea, ***)",
        ),
        (Page::status(403, Value::Null), "key plugin.token in Secret argocd/plugin has no permission"),
        (Page { body: b"nonsense".to_vec(), ..Page::of(Value::Null) }, "returned an unexpected response"),
        (
            Page::to(&other.url()),
            "returned 302 Found for POST /api/v1/getparams.execute, and Tidegate does not follow redirects for this request",
        ),
    ] {
        server.at(PATH, page.clone());
        let reason = ask();
        assert!(reason.contains(expected), "{page:?}: {reason}");
    }
    assert!(other.visits().is_empty());
    server.at(PATH, Page { hangs: true, ..Page::of(Value::Null) });
    let hasty = Plugin { timeout: Duration::from_millis(50), ..plugin(&server) };
    let error = hasty.request_parameters(&Web::default(), "shops", &PluginInput::default()).unwrap_err();
    assert!(error.reason.contains("did not respond within 0.05 s"), "{error:?}");
    assert!(!format!("{hasty:?}").contains("hunter2"));
}
