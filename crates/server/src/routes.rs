//! The table of routes.

mod applications;
mod events;
mod operations;

use http::StatusCode;
use serde_json::Value;

use crate::description::document;
use crate::health::{alive, ready};
use crate::metrics::MEDIA;
use crate::question::Nothing;
use crate::route::{Call, Gives, Route, look, look_otherwise, text};

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
    let of_the_service = [applications::routes(), operations::routes(), events::routes()];
    of_the_process.into_iter().chain([metrics]).chain(of_the_service.into_iter().flatten()).collect()
}

/// The description of all routes.
pub fn description() -> Value {
    document(&routes())
}
