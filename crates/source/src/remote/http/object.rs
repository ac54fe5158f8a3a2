//! Objects of Git LFS: the question where they are, and one of them.

use http::{HeaderMap, Method, StatusCode, Uri};
use tidegate_web::is_same_or_safer;

use super::Problem;
use super::link::{Link, sent_on};
use crate::lfs::PUSH;

impl Link {
    /// Gives a document, and reads the one that answers.
    pub fn question(&self, url: &str, headers: &HeaderMap, body: Vec<u8>) -> Result<Vec<u8>, Problem> {
        let answer = self.post(url, headers, body)?;
        self.content(answer.into_body()).map_err(|problem| problem.hint(""))
    }

    /// Fetches an object, from where the server sends us in the end; of one that is longer than it should be only a little more
    /// than that. What the headers prove is for the server alone that they were given for.
    pub fn object(&self, url: &Uri, headers: &HeaderMap, bytes: usize) -> Result<Vec<u8>, Problem> {
        let (mut at, mut headers) = (url.clone(), headers.clone());
        for _ in 0..=self.redirects() {
            let answer = self.send(Method::GET, &at, &headers, Vec::new())?;
            let status = answer.status();
            if status.is_redirection() {
                at = sent_on(&answer, &at)?;
                if !is_same_or_safer(url, &at) {
                    headers.clear();
                }
                continue;
            }
            if status != StatusCode::OK {
                let problem = Problem::new(format!("{} answered {status}", at.host().unwrap_or_default()));
                let is_gone = matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE);
                return Err(if is_gone { problem.hint(PUSH) } else { problem });
            }
            let (mut body, mut content) = (answer.into_body(), Vec::new());
            while content.len() <= bytes
                && let Some(more) = self.more(&mut body)?
            {
                content.extend_from_slice(&more);
            }
            return Ok(content);
        }
        Err(self.sent_too_often())
    }
}
