//! What hooks write, as a `tidegate serve` elsewhere tells it.

use bytes::BytesMut;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tidegate_model::OperationId;
use tidegate_service::documents::output::OutputDocument;
use tidegate_service::error::ServiceError;

use super::Remote;
use super::ask::Asking;

/// The longest line of a stream: in JSON a sign may take six bytes.
const LINE_BYTES_MAX: usize = 1 << 20;

/// A stream of what hooks write.
pub struct RemoteOutput {
    body: Incoming,
    read: BytesMut,
    /// The word of the event that is being read.
    kind: String,
    /// The address of the service.
    url: String,
}

impl Remote {
    /// Follows the output of an operation's hooks.
    ///
    /// # Errors
    ///
    /// Nobody works on the operation there, the token may not look, or the service is older and tells no output.
    pub async fn follow_output(&self, operation: OperationId) -> Result<RemoteOutput, ServiceError> {
        let asking = Asking::get(&format!("/api/v1/operations/{operation}/output"));
        let body = self.0.open(asking).await?;
        Ok(RemoteOutput { body, read: BytesMut::new(), kind: String::new(), url: self.0.url().to_owned() })
    }
}

impl RemoteOutput {
    /// What is told next. `None` when nothing will follow. May be given up at any moment and asked again.
    ///
    /// # Errors
    ///
    /// The stream broke, or the service has ended it.
    pub async fn next(&mut self) -> Result<Option<OutputDocument>, ServiceError> {
        loop {
            while let Some(line) = self.line() {
                match line.split_once(": ") {
                    Some(("event", kind)) => kind.clone_into(&mut self.kind),
                    Some(("data", _)) if self.kind == "end" => return Ok(None),
                    Some(("data", data)) => {
                        let document = serde_json::from_str(data);
                        return document.map(Some).map_err(|error| self.broke(&error.to_string()));
                    }
                    _ => {}
                }
            }
            if self.read.len() > LINE_BYTES_MAX {
                return Err(self.broke("a line is too long"));
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(self.broke(&error.to_string())),
                None => return Err(self.broke("the service has ended it")),
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let end = self.read.iter().position(|byte| *byte == b'\n')?;
        let line = self.read.split_to(end.saturating_add(1));
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    fn broke(&self, why: &str) -> ServiceError {
        let problem = format!("tells no more of the output of hooks: {why}");
        ServiceError::Remote { url: self.url.clone(), problem }
    }
}
