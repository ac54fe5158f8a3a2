//! The table of routes.

use http::StatusCode;
use serde_json::Value;

use crate::description::document;
use crate::health::{alive, ready};
use crate::question::Nothing;
use crate::route::{Call, Gives, Route, look, look_otherwise, text};

/// All there is.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        look(("/healthz", "alive", "Whether the process works"), alive).open(),
        look(("/readyz", "ready", "Whether all questions can be answered"), ready).open(),
        look_otherwise(
            ("/openapi.json", "describe", "This description"),
            Gives::Text("application/json"),
            |_: Call<Nothing>| async {
                Ok(text(StatusCode::OK, "application/json", description().to_string()))
            },
        )
        .open(),
    ]
}

/// The description of all routes.
pub fn description() -> Value {
    document(&routes())
}
