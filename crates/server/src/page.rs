//! The web page. Its files are embedded in the binary, and it loads its data from the API.

mod files;
mod views;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use sha2::{Digest as _, Sha256};
use tidegate_model::Digest;
use tokio::time::Instant;

use crate::middleware::{Middleware, finish_response};
use files::{INDEX, OTHERS, PageFile};
use views::VIEWS;
pub(crate) use views::is_view;

/// Route label for page files in the metrics.
const METRICS_LABEL: &str = "page";

/// Content security policy that allows only the page's own scripts and styles, and requests to this service.
/// Text never becomes code, because scripts can't create markup from text.
const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// Security headers for every page file.
const SECURITY_HEADERS: [(HeaderName, HeaderValue); 4] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CSP)),
    // Browsers may cache the response but must revalidate it on each use.
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Adds the page to the router.
pub(crate) fn add_routes(mut router: Router, middleware: &Arc<Middleware>) -> Router {
    let views = VIEWS.iter().map(|path| (*path, &INDEX));
    for (path, file) in views.chain(OTHERS.iter().map(|file| (file.path, file))) {
        let (middleware, tag) = (Arc::clone(middleware), entity_tag(file.bytes));
        let answer = move |request: Request<Body>| async move {
            let counted = middleware.count_page_request(Instant::now());
            let answer = finish_response(counted.map(|()| file_response(file, &tag, request.headers())));
            middleware.state.metrics.count_response(METRICS_LABEL, answer.status().as_u16());
            answer
        };
        router = router.route(path, get(answer));
    }
    router
}

/// Returns true for browser navigation. Browsers and programs get different responses to unknown URLs.
pub(crate) fn is_navigation(request: &Request<Body>) -> bool {
    let accepted = request.headers().get_all(header::ACCEPT);
    let takes_pages = accepted.iter().any(|one| one.to_str().is_ok_and(|one| one.contains("text/html")));
    takes_pages && request.method() == Method::GET && !request.uri().path().starts_with("/api/")
}

/// Returns the page for an unknown URL. The page itself reports that the URL doesn't exist.
pub(crate) fn not_found_page() -> Response<Body> {
    let mut answer = file_response(&INDEX, "", &HeaderMap::new());
    *answer.status_mut() = StatusCode::NOT_FOUND;
    answer.headers_mut().remove(header::ETAG);
    answer
}

/// Returns the entity tag of a file.
fn entity_tag(bytes: &[u8]) -> String {
    let digest = Digest(Sha256::digest(bytes).into()).to_string();
    format!("\"{}\"", digest.get(..32).unwrap_or(&digest))
}

fn file_response(file: &'static PageFile, tag: &str, request_headers: &HeaderMap) -> Response<Body> {
    let is_known = request_headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|tags| tags.split(','))
        .any(|known| known.trim().trim_start_matches("W/") == tag);
    let mut answer = match is_known {
        true => Response::new(Body::empty()),
        false => Response::new(Body::from(file.bytes)),
    };
    if is_known {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.media_type));
    headers.extend(HeaderValue::from_str(tag).ok().map(|tag| (header::ETAG, tag)));
    headers.extend(SECURITY_HEADERS);
    answer
}

#[cfg(test)]
mod tests;
