//! One file of a server, with all that it holds.

use http::{HeaderMap, StatusCode};

use super::Problem;
use super::link::Link;

/// What a server has answered.
pub(crate) struct Fetched {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub content: Vec<u8>,
}

impl Link {
    /// Fetches a file, from where the server sends us in the end. Any other status than success is an error, but for those
    /// that are expected, of which nothing is read.
    pub fn fetch(&self, url: &str, headers: &HeaderMap, expected: &[StatusCode]) -> Result<Fetched, Problem> {
        let (answer, at) = self.ask(url, headers)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        if expected.contains(&status) {
            return Ok(Fetched { status, headers, content: Vec::new() });
        }
        let (mut body, mut content) = (self.judge(answer, &at)?.into_body(), Vec::new());
        while let Some(more) = self.more(&mut body)? {
            content.extend_from_slice(&more);
        }
        Ok(Fetched { status, headers, content })
    }
}
