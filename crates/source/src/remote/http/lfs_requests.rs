//! Requests to Git LFS servers: batch requests and downloads of objects.

use http::{HeaderMap, Method, StatusCode, Uri};
use tidegate_web::is_same_or_safer;

use super::Problem;
use super::link::{Link, redirect_target};
use crate::lfs::PUSH_HINT;

impl Link {
    /// Posts a document and returns the document in the response.
    pub fn post_document(&self, url: &str, headers: &HeaderMap, body: Vec<u8>) -> Result<Vec<u8>, Problem> {
        let answer = self.post(url, headers, body)?;
        self.read_body(answer.into_body()).map_err(|problem| problem.with_hint(""))
    }

    /// Downloads an object, following redirects, and stops shortly after `bytes` bytes. `headers` may hold
    /// credentials, so they aren't sent to other servers.
    pub fn download_object(&self, url: &Uri, headers: &HeaderMap, bytes: usize) -> Result<Vec<u8>, Problem> {
        let (mut at, mut headers) = (url.clone(), headers.clone());
        for _ in 0..=self.redirects() {
            let answer = self.send(Method::GET, &at, &headers, Vec::new())?;
            let status = answer.status();
            if status.is_redirection() {
                at = redirect_target(&answer, &at)?;
                if !is_same_or_safer(url, &at) {
                    headers.clear();
                }
                continue;
            }
            if status != StatusCode::OK {
                let problem = Problem::new(format!("{} returned {status}", at.host().unwrap_or_default()));
                let is_gone = matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE);
                return Err(if is_gone { problem.with_hint(PUSH_HINT) } else { problem });
            }
            let (mut body, mut content) = (answer.into_body(), Vec::new());
            while content.len() <= bytes
                && let Some(more) = self.next_bytes(&mut body)?
            {
                content.extend_from_slice(&more);
            }
            return Ok(content);
        }
        Err(self.too_many_redirects())
    }
}
