//! Client for the Git LFS batch API: <https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md>.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::json;

use super::pointer::{Oid, Pointer};
use crate::error::to_line;

/// Media type of requests and responses.
pub(super) const MEDIA_TYPE: &str = "application/vnd.git-lfs+json";
/// Maximum number of objects per request, as recommended by the API documentation.
pub(super) const OBJECTS_MAX: usize = 100;
/// Maximum number of headers in an action.
const HEADERS_MAX: usize = 32;
/// Transport headers. A server's values for them are ignored.
const TRANSPORT_HEADERS: [&str; 11] = [
    "host",
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Instructions for downloading an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Action {
    pub href: String,
    /// Headers to send with the request.
    pub headers: HeaderMap,
    /// True if the server said that the URL and headers suffice as credentials.
    pub is_authenticated: bool,
}

/// Error for a single object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LfsObjectError {
    /// HTTP status code.
    pub code: i64,
    pub message: String,
}

#[derive(Deserialize)]
struct BatchResponse {
    transfer: Option<String>,
    hash_algo: Option<String>,
    objects: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    oid: String,
    authenticated: Option<bool>,
    actions: Option<Actions>,
    error: Option<ObjectError>,
}

#[derive(Deserialize)]
struct Actions {
    download: Option<Download>,
}

#[derive(Deserialize)]
struct Download {
    href: String,
    header: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct ObjectError {
    code: Option<i64>,
    message: Option<String>,
}

/// Creates the body of a batch request.
pub(super) fn batch_request<'p>(pointers: impl IntoIterator<Item = &'p Pointer>) -> Vec<u8> {
    let object = |one: &Pointer| json!({"oid": one.oid.to_string(), "size": one.size});
    let objects: Vec<_> = pointers.into_iter().map(object).collect();
    let question = json!({
        "operation": "download", "transfers": ["basic"], "objects": objects, "hash_algo": "sha256",
    });
    question.to_string().into_bytes()
}

/// Parses the response to a batch request. Returns the result for each object.
pub(super) fn parse_batch_response(
    content: &[u8],
) -> Result<BTreeMap<Oid, Result<Action, LfsObjectError>>, &'static str> {
    let answer: BatchResponse =
        serde_json::from_slice(content).map_err(|_| "the server's response is not a Git LFS response")?;
    if answer.transfer.is_some_and(|transfer| transfer != "basic") {
        return Err("the server requires a transfer adapter other than `basic`");
    }
    if answer.hash_algo.is_some_and(|name| name != "sha256") {
        return Err("the server uses a hash algorithm other than SHA-256");
    }
    let mut found = BTreeMap::new();
    for Object { oid, authenticated, actions, error } in answer.objects {
        // We can't have requested an object with an invalid ID.
        let Some(oid) = Oid::parse(&oid) else { continue };
        let given = match (error, actions.and_then(|actions| actions.download)) {
            (Some(ObjectError { code, message }), _) => {
                let message = to_line(&message.unwrap_or_default());
                Err(LfsObjectError { code: code.unwrap_or_default(), message })
            }
            (None, Some(Download { href, header })) => {
                let headers = parse_headers(header.unwrap_or_default())?;
                Ok(Action { href, headers, is_authenticated: authenticated.unwrap_or_default() })
            }
            (None, None) => {
                let message = "the server's response has no URL for the object".to_owned();
                Err(LfsObjectError { code: 0, message })
            }
        };
        found.insert(oid, given);
    }
    Ok(found)
}

/// Parses the request headers that a server asks for. The values may be secret.
pub(super) fn parse_headers(given: BTreeMap<String, String>) -> Result<HeaderMap, &'static str> {
    if given.len() > HEADERS_MAX {
        return Err("the server requires too many request headers");
    }
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let name = HeaderName::from_bytes(name.as_bytes()).ok();
        let (Some(name), Ok(mut value)) = (name, HeaderValue::from_str(&value)) else {
            return Err("the server requires an invalid request header");
        };
        if !TRANSPORT_HEADERS.contains(&name.as_str()) {
            value.set_sensitive(true);
            headers.insert(name, value);
        }
    }
    Ok(headers)
}

/// Response to `git-lfs-authenticate` over SSH.
#[derive(Deserialize)]
pub(super) struct AuthenticationResponse {
    #[serde(default)]
    pub href: String,
    #[serde(default)]
    pub header: Option<BTreeMap<String, String>>,
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use serde_json::Value;

    use super::*;

    const OID: &str = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";

    #[test]
    fn batch_requests() {
        let oid = Oid::parse(OID).unwrap();
        let asked = batch_request([&Pointer { oid, size: 12, is_extended: false }]);
        let asked: Value = serde_json::from_slice(&asked).unwrap();
        let expected = json!({
            "operation": "download", "transfers": ["basic"], "hash_algo": "sha256",
            "objects": [{"oid": OID, "size": 12}],
        });
        assert_eq!(asked, expected);
    }

    #[test]
    fn batch_responses() {
        let oid = Oid::parse(OID).unwrap();
        let of = |object: Value| {
            parse_batch_response(json!({"transfer": "basic", "objects": [object]}).to_string().as_bytes())
                .map(|mut found| found.remove(&oid))
        };
        let header = json!({"Authorization": "Basic x", "Host": "elsewhere", "Content-Length": "1"});
        let given =
            of(json!({"oid": OID, "actions": {"download": {"href": "https://a/b", "header": header}}}));
        let action = given.unwrap().unwrap().unwrap();
        assert_eq!(action.href, "https://a/b");
        assert_eq!(action.headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["authorization"]);
        assert!(!format!("{action:?}").contains("Basic x"));
        let none = json!({"oid": OID, "actions": {"download": {"href": "/b", "header": null}}});
        assert_eq!(of(none).unwrap().unwrap().unwrap().headers.len(), 0);
        let refused = of(json!({"oid": OID, "error": {"code": 404, "message": "Object\ndoes not exist"}}));
        let refusal = refused.unwrap().unwrap().unwrap_err();
        assert_eq!(refusal.code, 404);
        assert!(refusal.message.contains("does not exist") && !refusal.message.contains('\n'));
        assert!(of(json!({"oid": OID})).unwrap().unwrap().is_err());
        assert_eq!(of(json!({"oid": "x", "actions": {}})), Ok(None));
        let many: serde_json::Map<_, _> = (0..40).map(|n| (format!("x-{n}"), json!("a"))).collect();
        for header in [json!({"a b": "c"}), json!({"a": "b\nc"}), Value::from(many)] {
            assert!(
                of(json!({"oid": OID, "actions": {"download": {"href": "/b", "header": header}}})).is_err()
            );
        }
        for bad in ["", "{}", "[]", "{\"objects\": 1}", "{\"transfer\": \"tus\", \"objects\": []}"] {
            assert!(parse_batch_response(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(parse_batch_response(b"{\"objects\": [], \"hash_algo\": \"sha512\"}").is_err());
    }
}
