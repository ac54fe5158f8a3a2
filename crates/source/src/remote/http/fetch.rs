//! Requests with responses that are read in full.

use http::{HeaderMap, Method, StatusCode, Uri};

use super::Problem;
use super::link::{Body, Link};

/// A response read in full.
pub(crate) struct CompleteResponse {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub content: Vec<u8>,
}

impl Link {
    /// Sends a single request and reads the whole response, whatever its status. Doesn't follow redirects.
    pub fn send_once(
        &self,
        method: Method,
        url: &str,
        headers: &HeaderMap,
        body: Vec<u8>,
    ) -> Result<CompleteResponse, Problem> {
        let to: Uri = url.parse().map_err(|_| Problem::new("the URL cannot be parsed"))?;
        let answer = self.send(method, &to, headers, body)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let content = self.read_body(answer.into_body()).map_err(|problem| problem.with_hint(""))?;
        Ok(CompleteResponse { status, headers, content })
    }

    pub(super) fn read_body(&self, mut body: Body) -> Result<Vec<u8>, Problem> {
        let mut content = Vec::new();
        while let Some(more) = self.next_bytes(&mut body)? {
            content.extend_from_slice(&more);
        }
        Ok(content)
    }

    /// Downloads a file, following redirects. For a status in `expected`, returns the response without its
    /// body; any other status except success is an error.
    pub fn download(
        &self,
        url: &str,
        headers: &HeaderMap,
        expected: &[StatusCode],
    ) -> Result<CompleteResponse, Problem> {
        let (answer, at) = self.get_with_address(url, headers)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        if expected.contains(&status) {
            return Ok(CompleteResponse { status, headers, content: Vec::new() });
        }
        let content = self.read_body(self.check_response(answer, &at)?.into_body())?;
        Ok(CompleteResponse { status, headers, content })
    }
}
