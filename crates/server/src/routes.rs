//! The table of routes.

mod applications;
mod applicationsets;
mod events;
mod operations;
mod output;
mod plans;
mod runs;
mod session;
mod sign_in;

use http::StatusCode;
use serde_json::Value;

use crate::description::document;
use crate::health::{alive, ready};
use crate::metrics::MEDIA;
use crate::question::Nothing;
use crate::route::{Call, Gives, Route, look, look_otherwise, text, told};
use crate::webhooks::{self, Generic};

/// All there is.
pub(crate) fn routes() -> Vec<Route> {
    let of_the_process = vec![
        look(("/healthz", "alive", "Whether the process works"), alive).probe(),
        look(("/readyz", "ready", "Whether all questions can be answered"), ready).probe(),
        look_otherwise(
            ("/openapi.json", "describe", "This description"),
            Gives::Text("application/json"),
            |_: Call<Nothing>| async {
                Ok(text(StatusCode::OK, "application/json", description().to_string()))
            },
        )
        .open(),
    ];
    let metrics = look_otherwise(
        ("/metrics", "metrics", "Metrics, as Prometheus reads them"),
        Gives::Text(MEDIA),
        |call: Call<Nothing>| async move { Ok(text(StatusCode::OK, MEDIA, call.site.page())) },
    );
    let webhook = told::<Generic, _, _, _>(
        ("/api/webhook", "tellPush", "Tell of a push: the applications that it is about are compared"),
        webhooks::tell,
    );
    let of_the_service = [
        session::routes(),
        sign_in::routes(),
        applications::routes(),
        plans::routes(),
        applicationsets::routes(),
        runs::routes(),
        operations::routes(),
        output::routes(),
        events::routes(),
    ];
    of_the_process.into_iter().chain([metrics, webhook]).chain(of_the_service.into_iter().flatten()).collect()
}

/// The description of all routes.
pub fn description() -> Value {
    document(&routes())
}
