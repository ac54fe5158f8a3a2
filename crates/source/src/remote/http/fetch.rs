//! One file of a server, with all that it holds.

use http::{HeaderMap, Method, StatusCode, Uri};

use super::Problem;
use super::link::{Body, Link};

/// What a server has answered.
pub(crate) struct Fetched {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub content: Vec<u8>,
}

impl Link {
    /// Asks once, and goes nowhere else. What the server answers is read whole, whatever it says.
    pub fn exchange(
        &self,
        method: Method,
        url: &str,
        headers: &HeaderMap,
        body: Vec<u8>,
    ) -> Result<Fetched, Problem> {
        let to: Uri = url.parse().map_err(|_| Problem::new("its address cannot be read"))?;
        let answer = self.send(method, &to, headers, body)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let content = self.content(answer.into_body()).map_err(|problem| problem.hint(""))?;
        Ok(Fetched { status, headers, content })
    }

    pub(super) fn content(&self, mut body: Body) -> Result<Vec<u8>, Problem> {
        let mut content = Vec::new();
        while let Some(more) = self.more(&mut body)? {
            content.extend_from_slice(&more);
        }
        Ok(content)
    }

    /// Fetches a file, from where the server sends us in the end. Any other status than success is an error, but for those
    /// that are expected, of which nothing is read.
    pub fn fetch(&self, url: &str, headers: &HeaderMap, expected: &[StatusCode]) -> Result<Fetched, Problem> {
        let (answer, at) = self.ask(url, headers)?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        if expected.contains(&status) {
            return Ok(Fetched { status, headers, content: Vec::new() });
        }
        let content = self.content(self.judge(answer, &at)?.into_body())?;
        Ok(Fetched { status, headers, content })
    }
}
