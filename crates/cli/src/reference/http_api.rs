//! Reference page for the HTTP API, generated from the OpenAPI description and so, in turn, from the route
//! table.

mod types;

use serde_json::Value;
use tidegate_server::openapi_description;

use self::types::Types;
use super::markdown::{anchor, code, meaning, sentence, table};

const INTRO: &str = "\
# HTTP API

`tidegate serve --listen` serves these routes. `GET /openapi.json` returns the same description as an OpenAPI 3.1 document. Requests and
responses are JSON unless a route specifies another media type.

Access levels:

- **everyone**: no authentication.
- **signed**: a signature instead of a token, for webhooks.
- **read-only**: a token or session with the role `read-only` or `operator`.
- **operator**: a token or session with the role `operator`.

A response with a list has the fields `items`, `next` and `total`. To get the next page, repeat the request with `page=` and the value of
`next`. A failed request returns a [Problem](#problem).
";

/// Title of each group of routes, with the first segments of the paths.
const GROUPS: [(&str, &[&str]); 8] = [
    ("Routes for Applications", &["/api/v1/applications", "/api/v1/argoproj.io/applications"]),
    ("Routes for ApplicationSets", &["/api/v1/applicationsets", "/api/v1/argoproj.io/applicationsets"]),
    ("Routes for rollouts and deletions of ApplicationSets", &["/api/v1/runs"]),
    ("Routes for operations", &["/api/v1/operations"]),
    ("Routes for stored plans", &["/api/v1/plans"]),
    ("Routes for events and webhooks", &["/api/v1/events", "/api/webhook"]),
    ("Routes for sessions", &["/api/v1/session"]),
    ("Routes for the process", &[""]),
];

/// Returns the index of a path's group.
fn group_of(path: &str) -> usize {
    let is_in = |prefix: &&str| {
        path.strip_prefix(*prefix)
            .is_some_and(|rest| prefix.is_empty() || rest.is_empty() || rest.starts_with('/'))
    };
    GROUPS.iter().position(|(_, prefixes)| prefixes.iter().any(is_in)).unwrap()
}

pub(super) fn page() -> String {
    let description = openapi_description();
    let mut types = Types::new(&description["components"]["schemas"]);
    let mut groups = vec![String::new(); GROUPS.len()];
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, route) in methods.as_object().unwrap() {
            groups[group_of(path)].push_str(&section(&method.to_uppercase(), path, route, &mut types));
        }
    }
    types.link_type("Problem");
    let mut text = INTRO.to_owned();
    for ((title, _), routes) in GROUPS.iter().zip(groups) {
        text.push_str(&format!("\n## {title}\n{routes}"));
    }
    text + "\n## Types\n" + &types.sections()
}

fn section(method: &str, path: &str, route: &Value, types: &mut Types<'_>) -> String {
    let summary = sentence(route["summary"].as_str().unwrap());
    let mut text = format!("\n### `{method} {path}`\n\n{summary}\n\n- Access: {}\n", access(route));
    if let Some(body) = route.get("requestBody") {
        let kind = types.type_name(&body["content"]["application/json"]["schema"]);
        let optional = if body["required"] == true { "" } else { ", optional" };
        text.push_str(&format!("- Request body: {kind}{optional}\n"));
    }
    let responses = route["responses"].as_object().unwrap();
    let (status, response) = responses.iter().find(|(status, _)| *status != "default").unwrap();
    for (media, content) in response["content"].as_object().unwrap() {
        let response = match media.as_str() {
            "application/json" => types.type_name(&content["schema"]),
            "text/event-stream" => {
                format!("server-sent events with {} as data", types.type_name(&content["x-event-data"]))
            }
            media => code(media),
        };
        text.push_str(&format!("- Response: {status}, {response}\n"));
    }
    let parameters = route["parameters"].as_array().unwrap();
    let mut notes = String::new();
    let rows: Vec<Vec<String>> = parameters.iter().map(|one| parameter(one, types, &mut notes)).collect();
    if !rows.is_empty() {
        text.push_str(&format!("\n{}", table(&["parameter", "in", "type", "meaning"], &rows)));
    }
    if !notes.is_empty() {
        text.push_str(&format!("\n{notes}"));
    }
    text
}

fn access(route: &Value) -> &str {
    let is_signed = route["security"][0].get("signature").is_some();
    route.get("x-role").and_then(Value::as_str).unwrap_or(if is_signed { "signed" } else { "everyone" })
}

fn parameter(one: &Value, types: &mut Types<'_>, notes: &mut String) -> Vec<String> {
    let place = one["in"].as_str().unwrap();
    let name = one["name"].as_str().unwrap();
    let about = one["description"].as_str().unwrap_or(match name {
        "namespace" => "Namespace.",
        "name" => "Name.",
        "hash" => "Hash of the plan.",
        _ => "ID.",
    });
    vec![code(name), place.to_owned(), types.type_name(&one["schema"]), meaning(name, about, notes)]
}

#[test]
fn anchors_of_routes_are_used_elsewhere() {
    assert!(page().contains("### `GET /metrics`\n"));
    assert_eq!(anchor("`GET /metrics`"), "get-metrics");
}
