//! A single attempt to deliver a notification.

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::{HeaderName, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::Full;
use sha2::Sha256;
use tidegate_executor::{Clock as _, SystemClock};

use super::notification::Notification;
use super::targets::{Target, TargetKind};
use crate::http_client::{HttpClient, json_request};

const ID_HEADER: HeaderName = HeaderName::from_static("x-tidegate-id");
const TIMESTAMP_HEADER: HeaderName = HeaderName::from_static("x-tidegate-timestamp");
const SIGNATURE_HEADER: HeaderName = HeaderName::from_static("x-tidegate-signature");

/// Result of an attempt.
pub(super) enum DeliveryResult {
    Accepted,
    /// The target permanently rejected the notification.
    Rejected(String),
    /// The target may accept the notification later.
    RetryLater(String),
}

/// Posts a notification once. Errors don't include the URL.
pub(super) async fn post_once(
    web: &HttpClient,
    target: &Target,
    notification: &Notification,
) -> DeliveryResult {
    let request = match build_request(target, notification) {
        Ok(request) => request,
        Err(reason) => return DeliveryResult::Rejected(reason),
    };
    match web.send(request).await {
        Ok(answer) => classify_status(answer.status()),
        Err(reason) => DeliveryResult::RetryLater(reason),
    }
}

/// Interprets the response status. Redirects aren't followed, because a signed message is only meant for the
/// configured target.
fn classify_status(status: StatusCode) -> DeliveryResult {
    let reason = format!("the response has status {}", status.as_u16());
    match status.as_u16() {
        200..=299 => DeliveryResult::Accepted,
        // The target isn't ready or limits the rate, or an administrator must fix the URL or the
        // authorization.
        401 | 403 | 404 | 408 | 409 | 425 | 429 => DeliveryResult::RetryLater(reason),
        300..=499 => DeliveryResult::Rejected(reason),
        _ => DeliveryResult::RetryLater(reason),
    }
}

fn build_request(target: &Target, notification: &Notification) -> Result<Request<Full<Bytes>>, String> {
    let body = match target.kind {
        TargetKind::Webhook => serde_json::to_vec(notification),
        TargetKind::Slack => serde_json::to_vec(&notification.chat_body()),
    };
    let body = Bytes::from(body.map_err(|error| error.to_string())?);
    let value = |text: &str| HeaderValue::from_str(text).map_err(|error| error.to_string());
    let mut request = json_request(&target.url, body.clone());
    let headers = request.headers_mut();
    headers.insert(ID_HEADER, value(&notification.id)?);
    let at = SystemClock.now().as_seconds().to_string();
    if let Some(secret) = &target.secret {
        headers.insert(SIGNATURE_HEADER, value(&sign(secret, &at, &body)?)?);
    }
    headers.insert(TIMESTAMP_HEADER, value(&at)?);
    Ok(request)
}

/// Signs a message. The signature covers the time, so that an old message can't be replayed as new.
fn sign(secret: &[u8], at: &str, body: &[u8]) -> Result<String, String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).map_err(|error| error.to_string())?;
    mac.update(at.as_bytes());
    mac.update(b".");
    mac.update(body);
    let digits = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Ok(format!("sha256={digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_covers_time_and_body() {
        // The expected value was computed with `printf '%s' '1.{}' | openssl dgst -sha256 -hmac key`.
        let expected = "sha256=1ba6b8171186efc613e8bcc0cbdab2748f24984d7c5a84faa2637afa0e40d224";
        let made = sign(b"key", "1", b"{}").unwrap();
        assert_eq!(made, expected);
        assert_ne!(made, sign(b"key", "2", b"{}").unwrap());
        assert_ne!(made, sign(b"other", "1", b"{}").unwrap());
    }
}
