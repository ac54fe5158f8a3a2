//! Posting a letter, once.

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::header::{HeaderName, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::Full;
use sha2::Sha256;
use tidegate_executor::{Clock as _, SystemClock};

use super::letter::Letter;
use super::targets::{Kind, Target};
use crate::outgoing::{Web, json};

const ID: HeaderName = HeaderName::from_static("x-tidegate-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("x-tidegate-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("x-tidegate-signature");

/// What became of a letter.
pub(super) enum Posted {
    Taken,
    /// It is of no use to send it again.
    Refused(String),
    /// It may be taken later.
    Later(String),
}

/// Posts a letter, once. What went wrong is told without the address.
pub(super) async fn post(web: &Web, target: &Target, letter: &Letter) -> Posted {
    let request = match request(target, letter) {
        Ok(request) => request,
        Err(why) => return Posted::Refused(why),
    };
    match web.send(request).await {
        Ok(answer) => judged(answer.status()),
        Err(why) => Posted::Later(why),
    }
}

/// What an answer means. Redirects are not followed: what is signed is for whom the file names.
fn judged(status: StatusCode) -> Posted {
    let why = format!("it was answered with {}", status.as_u16());
    match status.as_u16() {
        200..=299 => Posted::Taken,
        // Too early, too many, or not authorised yet: somebody may mend it.
        401 | 403 | 404 | 408 | 409 | 425 | 429 => Posted::Later(why),
        300..=499 => Posted::Refused(why),
        _ => Posted::Later(why),
    }
}

fn request(target: &Target, letter: &Letter) -> Result<Request<Full<Bytes>>, String> {
    let body = match target.kind {
        Kind::Webhook => serde_json::to_vec(letter),
        Kind::Slack => serde_json::to_vec(&letter.for_chat()),
    };
    let body = Bytes::from(body.map_err(|error| error.to_string())?);
    let value = |text: &str| HeaderValue::from_str(text).map_err(|error| error.to_string());
    let mut request = json(&target.url, body.clone());
    let headers = request.headers_mut();
    headers.insert(ID, value(&letter.id)?);
    let at = SystemClock.now().as_seconds().to_string();
    if let Some(secret) = &target.secret {
        headers.insert(SIGNATURE, value(&signature(secret, &at, &body)?)?);
    }
    headers.insert(TIMESTAMP, value(&at)?);
    Ok(request)
}

/// Of the time as well: an old letter cannot be sent again by somebody else as a new one.
fn signature(secret: &[u8], at: &str, body: &[u8]) -> Result<String, String> {
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
    fn a_signature_is_that_of_time_and_body() {
        // As `printf '%s' '1.{}' | openssl dgst -sha256 -hmac key` has it.
        let expected = "sha256=1ba6b8171186efc613e8bcc0cbdab2748f24984d7c5a84faa2637afa0e40d224";
        let made = signature(b"key", "1", b"{}").unwrap();
        assert_eq!(made, expected);
        assert_ne!(made, signature(b"key", "2", b"{}").unwrap());
        assert_ne!(made, signature(b"other", "1", b"{}").unwrap());
    }
}
