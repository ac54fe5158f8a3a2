//! The way to a collector.

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
use crate::outgoing::{Web, json};

/// How long until spans are sent again; twice as long each time.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(60);
/// So much of an answer is read, for as long.
const ANSWER_MAX: usize = 64 << 10;
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// The way to a collector.
pub(super) struct Line {
    collector: Collector,
    name: String,
    web: Web,
    /// Trouble was told, and nothing was taken since.
    is_troubled: bool,
}

/// What became of spans.
#[derive(Debug, PartialEq, Eq)]
enum Posted {
    Taken,
    /// It is of no use to send them again.
    Refused(String),
    /// They may be taken later; where the collector says when, after that time.
    Later(String, Option<Duration>),
}

impl Line {
    pub fn new(collector: Collector) -> Self {
        let name = collector.name();
        Self { collector, name, web: Web::default(), is_troubled: false }
    }

    /// Returns when spans were taken, or never will be. A collector in trouble is named once, until it is well again.
    pub async fn deliver(&mut self, spans: &[Value]) {
        let body = Bytes::from(otlp::request(&self.collector.resource, spans).to_string());
        let mut wait = AGAIN_AFTER;
        loop {
            match self.post(body.clone()).await {
                Posted::Taken => {
                    if std::mem::take(&mut self.is_troubled) {
                        tracing::info!(collector = self.name, "traces are taken again");
                    }
                    return;
                }
                Posted::Refused(why) => {
                    if !std::mem::replace(&mut self.is_troubled, true) {
                        tracing::error!(collector = self.name, why, "traces are refused for good");
                    }
                    return;
                }
                Posted::Later(why, after) => {
                    if !std::mem::replace(&mut self.is_troubled, true) {
                        tracing::warn!(
                            collector = self.name,
                            why,
                            "traces are sent again until they are taken"
                        );
                    }
                    tokio::time::sleep(after.unwrap_or(wait).clamp(AGAIN_AFTER, AGAIN_AFTER_MAX)).await;
                    wait = wait.saturating_mul(2).min(AGAIN_AFTER_MAX);
                }
            }
        }
    }

    /// Posts spans, once.
    async fn post(&self, body: Bytes) -> Posted {
        match self.web.send(self.request(body)).await {
            Err(why) => Posted::Later(why, None),
            Ok(answer) => {
                let posted = judged(answer.status(), answer.headers());
                if posted == Posted::Taken {
                    self.read(answer.into_body()).await;
                }
                posted
            }
        }
    }

    fn request(&self, body: Bytes) -> Request<Full<Bytes>> {
        let mut request = json(&self.collector.url, body);
        for (name, value) in &self.collector.headers {
            request.headers_mut().insert(name, value.clone());
        }
        request
    }

    /// A collector may take some spans and say why not the others.
    async fn read(&self, body: Incoming) {
        let Ok(Ok(body)) =
            tokio::time::timeout(ANSWER_WITHIN, Limited::new(body, ANSWER_MAX).collect()).await
        else {
            return;
        };
        let Answer { partial_success: Some(partial) } =
            serde_json::from_slice(&body.to_bytes()).unwrap_or_default()
        else {
            return;
        };
        if !matches!(partial.rejected_spans, Value::Null)
            && partial.rejected_spans != 0
            && partial.rejected_spans != "0"
        {
            let (rejected, why) = (partial.rejected_spans.to_string(), partial.error_message);
            tracing::warn!(collector = self.name, rejected, why, "not all spans were taken");
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Answer {
    partial_success: Option<Partial>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Partial {
    /// A number, or its text.
    rejected_spans: Value,
    error_message: String,
}

/// What an answer means, as the protocol has it. Of what it says not to send again, some may be mended by somebody.
fn judged(status: StatusCode, headers: &HeaderMap) -> Posted {
    let why = format!("it was answered with {}", status.as_u16());
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    match status.as_u16() {
        200..=299 => Posted::Taken,
        429 | 502..=504 => Posted::Later(why, seconds.map(Duration::from_secs)),
        401 | 403 | 404 | 408 => Posted::Later(why, None),
        _ => Posted::Refused(why),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn answers_mean_what_the_protocol_says() {
        let answered = |status: u16, after: Option<&'static str>| {
            let after = after.map(|after| (RETRY_AFTER, HeaderValue::from_static(after)));
            judged(StatusCode::from_u16(status).unwrap(), &after.into_iter().collect())
        };
        let later = |status: u16, after| Posted::Later(format!("it was answered with {status}"), after);
        assert_eq!(answered(200, None), Posted::Taken);
        assert_eq!(answered(503, Some("7")), later(503, Some(Duration::from_secs(7))));
        assert_eq!(answered(429, Some("Sun, 06 Nov 1994 08:49:37 GMT")), later(429, None));
        assert_eq!(answered(502, None), later(502, None));
        assert_eq!(answered(401, None), later(401, None));
        for status in [301, 400, 413, 500] {
            assert_eq!(answered(status, None), Posted::Refused(format!("it was answered with {status}")));
        }
    }
}
