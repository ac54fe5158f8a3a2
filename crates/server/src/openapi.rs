//! OpenAPI 3.1 description of the API, generated from the route table.

use std::collections::BTreeMap;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::access::{Access, Role};
use crate::problem::Problem;
use crate::route::{ResponseContent, Route};

/// Location of named schemas in the OpenAPI description.
const SCHEMAS: &str = "/components/schemas";

/// Returns the OpenAPI description of these routes.
pub(crate) fn describe_routes(routes: &[Route]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = SCHEMAS.into();
        settings.meta_schema = None;
    });
    let mut request_schemas = settings.clone().for_deserialize().into_generator();
    let mut answered = settings.for_serialize().into_generator();
    let problem = answered.subschema_for::<Problem>().to_value();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in routes {
        let described = describe_route(route, &mut request_schemas, &mut answered, &problem);
        paths.entry(route.path).or_default().insert(route.method.as_str().to_lowercase(), described);
    }
    let mut schemas = request_schemas.take_definitions(true);
    // A type used in both requests and responses has a single schema.
    schemas.extend(answered.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Tidegate",
            "version": env!("CARGO_PKG_VERSION"),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": "API of `tidegate serve`. Lists are paginated: to get the next page, pass the value of `next` in the `page` parameter. Errors are returned as a Problem.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "signature": {
                    "type": "apiKey", "in": "header", "name": "X-Tidegate-Signature",
                    "description": "`sha256=` followed by the HMAC-SHA-256 of X-Tidegate-Timestamp, a dot and the body, concatenated in this order. Events from Git providers are verified with the provider's signature or token.",
                },
            },
        },
    })
}

fn describe_route(
    route: &Route,
    request: &mut SchemaGenerator,
    answered: &mut SchemaGenerator,
    problem: &Value,
) -> Value {
    let content = match route.content {
        ResponseContent::Json(shape) => json!({"application/json": {"schema": shape(answered)}}),
        ResponseContent::Text(media) => json!({media: {"schema": {"type": "string"}}}),
        // Only newer OpenAPI versions can describe individual events, but most tools don't support those yet.
        ResponseContent::Events(shape) => {
            json!({"text/event-stream": {"schema": {"type": "string"}, "x-event-data": shape(answered)}})
        }
    };
    let (security, role) = match route.access {
        Access::Public | Access::OptionalAuth | Access::Probe => (json!([]), None),
        Access::SignedRequest => (json!([{"signature": []}]), None),
        Access::RequiresRole(Role::Operator) => (json!([{"token": []}]), Some("operator")),
        Access::RequiresRole(_) => (json!([{"token": []}]), Some("read-only")),
    };
    let body = route.body.map(|shape| {
        let content = json!({"application/json": {"schema": shape(request)}});
        json!({"required": route.needs_body, "content": content})
    });
    let mut described = serde_json::Map::new();
    let fields = [
        ("operationId", Some(json!(route.id))),
        ("summary", Some(json!(route.summary))),
        ("parameters", Some(json!(describe_parameters(route)))),
        ("requestBody", body),
        ("security", Some(security)),
        ("x-role", role.map(|role| json!(role))),
        (
            "responses",
            Some(json!({
                route.status.as_str(): {"description": "Success.", "content": content},
                "default": {
                    "description": "Error.",
                    "content": {"application/json": {"schema": problem}},
                },
            })),
        ),
    ];
    for (name, value) in fields {
        described.extend(value.map(|value| (name.to_owned(), value)));
    }
    described.into()
}

/// Describes the path parameters, followed by the query parameters.
fn describe_parameters(route: &Route) -> Vec<Value> {
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
