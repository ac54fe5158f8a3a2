//! Hook output, streamed from a remote `tidegate serve`.

use bytes::BytesMut;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tidegate_model::OperationId;
use tidegate_state::error::ServiceError;
use tidegate_views::output::OutputDocument;

use super::ApiClient;
use super::api_request::ApiRequest;

/// Maximum length of a line in the stream, in bytes. A single character may take up to six bytes in JSON.
const LINE_BYTES_MAX: usize = 1 << 20;

/// A stream of hook output.
pub struct HookOutputStream {
    body: Incoming,
    buffer: BytesMut,
    /// Kind of the current event.
    kind: String,
    /// URL of the service.
    url: String,
}

impl ApiClient {
    /// Follows the output of an operation's hooks.
    ///
    /// # Errors
    ///
    /// Returns an error if the operation is not running in the server's process or if the token does not
    /// permit reading. Also returns an error if the server is too old to support output streams.
    pub async fn follow_output(&self, operation: OperationId) -> Result<HookOutputStream, ServiceError> {
        let request = ApiRequest::get(&format!("/api/v1/operations/{operation}/output"));
        let body = self.0.open_stream(request).await?;
        Ok(HookOutputStream {
            body,
            buffer: BytesMut::new(),
            kind: String::new(),
            url: self.0.url().to_owned(),
        })
    }
}

impl HookOutputStream {
    /// Returns the next event, or `None` at the end of the stream. This method is cancel safe.
    ///
    /// # Errors
    ///
    /// Returns an error if the connection breaks or if the server ends the stream with an error.
    pub async fn next(&mut self) -> Result<Option<OutputDocument>, ServiceError> {
        loop {
            while let Some(line) = self.take_line() {
                match line.split_once(": ") {
                    Some(("event", kind)) => kind.clone_into(&mut self.kind),
                    Some(("data", _)) if self.kind == "end" => return Ok(None),
                    Some(("data", data)) => {
                        let document = serde_json::from_str(data);
                        return document.map(Some).map_err(|error| self.stream_error(&error.to_string()));
                    }
                    _ => {}
                }
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(self.stream_error("a line is too long"));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(self.stream_error(&error.to_string())),
                None => return Err(self.stream_error("the service closed the stream")),
            }
        }
    }

    fn take_line(&mut self) -> Option<String> {
        let end = self.buffer.iter().position(|byte| *byte == b'\n')?;
        let line = self.buffer.split_to(end.saturating_add(1));
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    fn stream_error(&self, reason: &str) -> ServiceError {
        let problem = format!("interrupted the stream of hook output: {reason}");
        ServiceError::Remote { url: self.url.clone(), problem }
    }
}
