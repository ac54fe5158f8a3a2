//! Connection to a trace collector.

use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::Value;

use super::collector::Collector;
use super::otlp;
use crate::http_client::{HttpClient, json_request};

/// Initial retry delay, doubled after each attempt.
const RETRY_DELAY: Duration = Duration::from_secs(1);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(60);
/// Maximum size of a response in bytes, and its timeout.
const RESPONSE_BYTES_MAX: usize = 64 << 10;
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Connection to a collector.
pub(super) struct CollectorClient {
    collector: Collector,
    name: String,
    http: HttpClient,
    /// True if a problem was logged and the collector hasn't accepted any spans since.
    is_failing: bool,
}

/// Result of an attempt to send spans.
#[derive(Debug, PartialEq, Eq)]
enum ExportResult {
    Accepted,
    /// The collector permanently rejected the spans.
    Rejected(String),
    /// The collector may accept the spans later, after the delay it requested, if any.
    RetryLater(String, Option<Duration>),
}

impl CollectorClient {
    pub fn new(collector: Collector) -> Self {
        let name = collector.name();
        Self { collector, name, http: HttpClient::default(), is_failing: false }
    }

    /// Sends spans until they are accepted or permanently rejected. Logs a collector's failure only once
    /// until it recovers.
    pub async fn deliver(&mut self, spans: &[Value]) {
        let body = Bytes::from(otlp::export_request(&self.collector.resource, spans).to_string());
        let mut wait = RETRY_DELAY;
        loop {
            match self.post_once(body.clone()).await {
                ExportResult::Accepted => {
                    if std::mem::take(&mut self.is_failing) {
                        tracing::info!(collector = self.name, "the collector is accepting traces again");
                    }
                    return;
                }
                ExportResult::Rejected(reason) => {
                    if !std::mem::replace(&mut self.is_failing, true) {
                        tracing::error!(collector = self.name, reason, "traces rejected permanently");
                    }
                    return;
                }
                ExportResult::RetryLater(reason, after) => {
                    if !std::mem::replace(&mut self.is_failing, true) {
                        tracing::warn!(collector = self.name, reason, "failed to send traces; retrying");
                    }
                    tokio::time::sleep(after.unwrap_or(wait).clamp(RETRY_DELAY, RETRY_DELAY_MAX)).await;
                    wait = wait.saturating_mul(2).min(RETRY_DELAY_MAX);
                }
            }
        }
    }

    /// Posts spans once.
    async fn post_once(&self, body: Bytes) -> ExportResult {
        match self.http.send(self.build_request(body)).await {
            Err(reason) => ExportResult::RetryLater(reason, None),
            Ok(answer) => {
                let posted = classify_response(answer.status(), answer.headers());
                if posted == ExportResult::Accepted {
                    self.read_response(answer.into_body()).await;
                }
                posted
            }
        }
    }

    fn build_request(&self, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = json_request(&self.collector.url, body);
        for (name, value) in &self.collector.headers {
            request.headers_mut().insert(name, value.clone());
        }
        request
    }

    /// Reads the response, in which the collector may reject some of the spans and explain why.
    async fn read_response(&self, body: Incoming) {
        let Ok(Ok(body)) =
            tokio::time::timeout(RESPONSE_TIMEOUT, Limited::new(body, RESPONSE_BYTES_MAX).collect()).await
        else {
            return;
        };
        let ExportResponse { partial_success: Some(partial) } =
            serde_json::from_slice(&body.to_bytes()).unwrap_or_default()
        else {
            return;
        };
        if !matches!(partial.rejected_spans, Value::Null)
            && partial.rejected_spans != 0
            && partial.rejected_spans != "0"
        {
            let (rejected, why) = (partial.rejected_spans.to_string(), partial.error_message);
            tracing::warn!(collector = self.name, rejected, why, "the collector rejected some spans");
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ExportResponse {
    partial_success: Option<PartialSuccess>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PartialSuccess {
    /// Number of rejected spans, which collectors send as a number or a string.
    rejected_spans: Value,
    error_message: String,
}

/// Interprets a response according to the protocol. Also retries errors that an administrator may fix.
fn classify_response(status: StatusCode, headers: &HeaderMap) -> ExportResult {
    let reason = format!("the response has status {}", status.as_u16());
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    match status.as_u16() {
        200..=299 => ExportResult::Accepted,
        429 | 502..=504 => ExportResult::RetryLater(reason, seconds.map(Duration::from_secs)),
        401 | 403 | 404 | 408 => ExportResult::RetryLater(reason, None),
        _ => ExportResult::Rejected(reason),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn responses_are_interpreted_as_the_protocol_requires() {
        let answered = |status: u16, after: Option<&'static str>| {
            let after = after.map(|after| (RETRY_AFTER, HeaderValue::from_static(after)));
            classify_response(StatusCode::from_u16(status).unwrap(), &after.into_iter().collect())
        };
        let later =
            |status: u16, after| ExportResult::RetryLater(format!("the response has status {status}"), after);
        assert_eq!(answered(200, None), ExportResult::Accepted);
        assert_eq!(answered(503, Some("7")), later(503, Some(Duration::from_secs(7))));
        assert_eq!(answered(429, Some("Sun, 06 Nov 1994 08:49:37 GMT")), later(429, None));
        assert_eq!(answered(502, None), later(502, None));
        assert_eq!(answered(401, None), later(401, None));
        for status in [301, 400, 413, 500] {
            assert_eq!(
                answered(status, None),
                ExportResult::Rejected(format!("the response has status {status}"))
            );
        }
    }
}
