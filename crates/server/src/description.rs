//! The description of the API (OpenAPI 3.1), made from the table of routes.

use std::collections::BTreeMap;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::access::{Access, Role};
use crate::problem::Problem;
use crate::route::{Gives, Route};

/// Where the schemas of named types are.
const SCHEMAS: &str = "/components/schemas";

/// The description of these routes.
pub(crate) fn document(routes: &[Route]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = SCHEMAS.into();
        settings.meta_schema = None;
    });
    let mut asked = settings.clone().for_deserialize().into_generator();
    let mut answered = settings.for_serialize().into_generator();
    let problem = answered.subschema_for::<Problem>().to_value();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in routes {
        let described = describe(route, &mut asked, &mut answered, &problem);
        paths.entry(route.path).or_default().insert(route.method.as_str().to_lowercase(), described);
    }
    let mut schemas = asked.take_definitions(true);
    // What is both asked and answered looks the same.
    schemas.extend(answered.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "Applications and operations of a `tidegate serve`. Lists come in pages: ask again with the `next` of the last one as `page`. Whatever cannot be done is answered with a Problem.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "signature": {
                    "type": "apiKey", "in": "header", "name": "X-Tidegate-Signature",
                    "description": "`sha256=` and the HMAC-SHA-256 of X-Tidegate-Timestamp, a dot and the body; GitHub and others prove their events in their own ways.",
                },
            },
        },
    })
}

fn describe(
    route: &Route,
    asked: &mut SchemaGenerator,
    answered: &mut SchemaGenerator,
    problem: &Value,
) -> Value {
    let content = match route.gives {
        Gives::Json(shape) => json!({"application/json": {"schema": shape(answered)}}),
        Gives::Text(media) => json!({media: {"schema": {"type": "string"}}}),
        // The version that describes events one by one is newer than most tools.
        Gives::Events(shape) => {
            json!({"text/event-stream": {"schema": {"type": "string"}, "x-event-data": shape(answered)}})
        }
    };
    let (security, role) = match route.access {
        Access::Open | Access::Anybody | Access::Probe => (json!([]), None),
        Access::Signed => (json!([{"signature": []}]), None),
        Access::Needs(Role::Operator) => (json!([{"token": []}]), Some("operator")),
        Access::Needs(_) => (json!([{"token": []}]), Some("read-only")),
    };
    let body = route.body.map(|shape| {
        let content = json!({"application/json": {"schema": shape(asked)}});
        json!({"required": false, "content": content})
    });
    let mut described = serde_json::Map::new();
    let said = [
        ("operationId", Some(json!(route.id))),
        ("summary", Some(json!(route.summary))),
        ("parameters", Some(json!(parameters(route)))),
        ("requestBody", body),
        ("security", Some(security)),
        ("x-role", role.map(|role| json!(role))),
        (
            "responses",
            Some(json!({
                route.status.as_str(): {"description": "As asked.", "content": content},
                "default": {
                    "description": "It cannot be done, and why.",
                    "content": {"application/json": {"schema": problem}},
                },
            })),
        ),
    ];
    for (name, value) in said {
        described.extend(value.map(|value| (name.to_owned(), value)));
    }
    described.into()
}

/// Those of the path, and then those of the query.
fn parameters(route: &Route) -> Vec<Value> {
    let named = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let of_path =
        named.map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}));
    let properties = route.query.get("properties").and_then(Value::as_object);
    let of_query = properties.into_iter().flatten().map(|(name, schema)| {
        let mut schema = schema.clone();
        let about = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        json!({"name": name, "in": "query", "required": false, "schema": schema, "description": about})
    });
    of_path.chain(of_query).collect()
}
