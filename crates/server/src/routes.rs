//! The route table.

mod applications;
mod appsets;
mod events;
mod hook_output;
mod operations;
mod plans;
mod runs;
mod session;
mod sign_in;

use http::StatusCode;
use serde_json::Value;

use crate::health::{check_liveness, check_readiness};
use crate::metrics::{MEDIA_TYPE, METRICS_PATH};
use crate::openapi::describe_routes;
use crate::query::NoParameters;
use crate::route::{Call, ResponseContent, Route, get_route, get_route_as, text_response};
use crate::webhooks::webhook_route;

pub(crate) use self::events::EVENTS_PATH;

pub(crate) fn routes() -> Vec<Route> {
    let of_the_process = vec![
        get_route("/healthz", "alive", "Check the liveness of the process", check_liveness).probe(),
        get_route("/readyz", "ready", "Check the readiness of the process", check_readiness).probe(),
        get_route_as(
            "/openapi.json",
            "describe",
            "Get the OpenAPI description of the API",
            ResponseContent::Text("application/json"),
            |_: Call<NoParameters>| async {
                Ok(text_response(StatusCode::OK, "application/json", openapi_description().to_string()))
            },
        )
        .public(),
    ];
    let metrics = get_route_as(
        METRICS_PATH,
        "metrics",
        "Get the metrics in the Prometheus format",
        ResponseContent::Text(MEDIA_TYPE),
        |call: Call<NoParameters>| async move {
            Ok(text_response(StatusCode::OK, MEDIA_TYPE, call.state.render_metrics()))
        },
    );
    let of_the_service = [
        session::routes(),
        sign_in::routes(),
        applications::routes(),
        plans::routes(),
        appsets::routes(),
        runs::routes(),
        operations::routes(),
        hook_output::routes(),
        events::routes(),
    ];
    of_the_process
        .into_iter()
        .chain([metrics, webhook_route()])
        .chain(of_the_service.into_iter().flatten())
        .collect()
}

/// Returns the OpenAPI description of all routes.
pub fn openapi_description() -> Value {
    describe_routes(&routes())
}
