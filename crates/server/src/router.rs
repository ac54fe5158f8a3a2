//! Router for the routes in the table and the page. Also responds to everything else.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawPathParams, rejection::RawPathParamsRejection};
use axum::routing::{MethodFilter, on};
use http::Request;
use tokio::time::Instant;

use crate::forward::RoutedRequest;
use crate::middleware::{Middleware, finish_response};
use crate::page;
use crate::problem::{Code, Problem};
use crate::route::Route;

/// Builds the router for a route table.
pub(crate) fn build_router(middleware: &Arc<Middleware>, routes: Vec<Route>) -> Router {
    let mut router = Router::new();
    for route in routes {
        let (path, route, middleware) = (route.path, Arc::new(route), Arc::clone(middleware));
        // All methods in the table can be converted.
        let Ok(filter) = MethodFilter::try_from(route.method.clone()) else { continue };
        let answer = move |names: Result<RawPathParams, RawPathParamsRejection>, request: Request<Body>| async move {
            let request = match middleware.forward_if_standby(&route, request).await {
                RoutedRequest::Local(request) => request,
                RoutedRequest::Remote(response) => return response,
            };
            middleware.handle_request(&route, names, request).await
        };
        router = router.route(path, on(filter, answer));
    }
    let router = page::add_routes(router, middleware);
    let (nowhere, elsewise) = (Arc::clone(middleware), Arc::clone(middleware));
    let none = move |request: Request<Body>| async move {
        let counted = nowhere.count_unauthenticated(Instant::now());
        let missing = || Problem::new(Code::NotFound, format!("{} does not exist", request.uri().path()));
        match counted {
            Ok(()) if page::is_navigation(&request) => finish_response(Ok(page::not_found_page())),
            counted => finish_response(Err(counted.err().unwrap_or_else(missing))),
        }
    };
    let other_method = move |request: Request<Body>| async move {
        let counted = elsewise.count_unauthenticated(Instant::now());
        let message = format!("method {} is not allowed for {}", request.method(), request.uri().path());
        finish_response(Err(counted.err().unwrap_or_else(|| Problem::new(Code::MethodNotAllowed, message))))
    };
    router.fallback(none).method_not_allowed_fallback(other_method)
}
