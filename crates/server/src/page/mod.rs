//! The page: files that are part of the program, and nothing else. What it shows and does, it asks of the API.

mod files;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use sha2::{Digest as _, Sha256};
use tidegate_model::Digest;
use tokio::time::Instant;

use crate::front::{Front, answered};
use files::{File, INDEX, OTHERS};

/// Under this name its files are counted among what was answered.
const COUNTED: &str = "page";
/// The addresses of views, all of which begin with the same file: what is to be seen there, the page finds out itself.
const VIEWS: [&str; 7] = [
    "/",
    "/applicationsets",
    "/operations",
    "/applications/{namespace}/{name}",
    "/applicationsets/{namespace}/{name}",
    "/applicationsets/{namespace}/{name}/runs/{id}",
    "/operations/{id}",
];

/// The longest address of a view, in bytes.
const VIEW_MAX: usize = 2048;

/// What a browser may do with the page: run its own scripts, show its own styles and pictures, ask this service, and nothing
/// else. No text becomes code, as no script can make markup from it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// What every file of the page says to browsers.
const FOR_BROWSERS: [(HeaderName, HeaderValue); 4] = [
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
    // It may be kept, and is asked for each time whether it is still the same.
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Whether a path, with its query, is that of a view, and of nothing else: no other host, no file, no question to the API.
pub(crate) fn is_view(target: &str) -> bool {
    // Browsers take some other characters for a slash, or leave them out.
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\\#\"<>^`{|}".contains(&byte);
    let (path, _) = target.split_once('?').unwrap_or((target, ""));
    let is_up = |part: &str| matches!(part.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
    let is_like = |view: &str| {
        let fits = |(wanted, part): (&str, &str)| match wanted.starts_with('{') {
            true => !part.is_empty() && !is_up(part),
            false => wanted == part,
        };
        view.split('/').count() == path.split('/').count() && view.split('/').zip(path.split('/')).all(fits)
    };
    target.len() <= VIEW_MAX && target.bytes().all(is_plain) && VIEWS.into_iter().any(is_like)
}

/// The router with the page in it.
pub(crate) fn add(mut router: Router, front: &Arc<Front>) -> Router {
    let views = VIEWS.iter().map(|path| (*path, &INDEX));
    for (path, file) in views.chain(OTHERS.iter().map(|file| (file.path, file))) {
        let (front, tag) = (Arc::clone(front), tag(file.bytes));
        let answer = move |request: Request<Body>| async move {
            let counted = front.visitor(Instant::now());
            let answer = answered(counted.map(|()| shown(file, &tag, request.headers())));
            front.site.metrics.answered(COUNTED, answer.status().as_u16());
            answer
        };
        router = router.route(path, get(answer));
    }
    router
}

/// Whether a person opens an address that leads nowhere, in a browser; programs are answered otherwise.
pub(crate) fn is_opened(request: &Request<Body>) -> bool {
    let accepted = request.headers().get_all(header::ACCEPT);
    let takes_pages = accepted.iter().any(|one| one.to_str().is_ok_and(|one| one.contains("text/html")));
    takes_pages && request.method() == Method::GET && !request.uri().path().starts_with("/api/")
}

/// The page, which says itself that there is nothing.
pub(crate) fn nowhere() -> Response<Body> {
    let mut answer = shown(&INDEX, "", &HeaderMap::new());
    *answer.status_mut() = StatusCode::NOT_FOUND;
    answer.headers_mut().remove(header::ETAG);
    answer
}

/// What tells a file from what it was before.
fn tag(bytes: &[u8]) -> String {
    let digest = Digest(Sha256::digest(bytes).into()).to_string();
    format!("\"{}\"", digest.get(..32).unwrap_or(&digest))
}

fn shown(file: &'static File, tag: &str, asked: &HeaderMap) -> Response<Body> {
    let is_known = asked
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
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.media));
    headers.extend(HeaderValue::from_str(tag).ok().map(|tag| (header::ETAG, tag)));
    headers.extend(FOR_BROWSERS);
    answer
}

#[cfg(test)]
mod tests;
