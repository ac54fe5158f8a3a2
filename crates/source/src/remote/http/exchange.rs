//! Requests and answers, as Git's protocol wants to read and write them.

use std::io::{self, BufRead, Cursor, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf as _, Bytes};
use gix::error::ErrorExt as _;
use gix_transport::client::blocking_io::http::{GetResponse, Http, PostBodyDataKind, PostResponse};
use http::{HeaderMap, Response};

use super::Problem;
use super::link::{Body, Link, headers};

/// Longest request: names of commits, of which there are few.
const REQUEST_MAX: usize = 1 << 20;

/// Carries requests over a link.
pub(crate) struct Courier(Arc<Link>);

/// A request and its answer.
struct Exchange {
    link: Arc<Link>,
    /// Until it is sent.
    request: Option<(String, HeaderMap, Vec<u8>)>,
    body: Option<Body>,
    headers: Vec<u8>,
}

type Shared = Arc<Mutex<Exchange>>;

fn locked(exchange: &Shared) -> MutexGuard<'_, Exchange> {
    exchange.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exchange {
    fn answered(&mut self, answer: Response<Body>) {
        let (parts, body) = answer.into_parts();
        for (name, value) in &parts.headers {
            self.headers.extend_from_slice(name.as_str().as_bytes());
            self.headers.extend_from_slice(b": ");
            self.headers.extend_from_slice(value.as_bytes());
            self.headers.push(b'\n');
        }
        self.body = Some(body);
    }

    fn send(&mut self) -> io::Result<()> {
        if let Some((url, headers, body)) = self.request.take() {
            let answer = self.link.post(&url, &headers, body).map_err(|problem| self.told(problem))?;
            self.answered(answer);
        }
        Ok(())
    }

    fn told(&self, problem: Problem) -> io::Error {
        io::Error::other(self.link.keep(problem).what)
    }

    fn more(&mut self) -> io::Result<Bytes> {
        self.send()?;
        let Some(body) = &mut self.body else { return Ok(Bytes::new()) };
        let more = self.link.more(body);
        more.map(Option::unwrap_or_default).map_err(|problem| self.told(problem))
    }
}

/// The headers of an answer, as lines.
pub(crate) struct Head(Shared, Option<Cursor<Vec<u8>>>);

impl Head {
    fn lines(&mut self) -> io::Result<&mut Cursor<Vec<u8>>> {
        if self.1.is_none() {
            let mut exchange = locked(&self.0);
            exchange.send()?;
            self.1 = Some(Cursor::new(std::mem::take(&mut exchange.headers)));
        }
        Ok(self.1.get_or_insert_default())
    }
}

impl Read for Head {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.lines()?.read(buffer)
    }
}

impl BufRead for Head {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.lines()?.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        if let Some(lines) = &mut self.1 {
            lines.consume(amount);
        }
    }
}

/// The body of an answer.
pub(crate) struct Answer(Shared, Bytes);

impl Read for Answer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut there = self.fill_buf()?;
        let read = there.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Answer {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.1.is_empty() {
            self.1 = locked(&self.0).more()?;
        }
        Ok(&self.1)
    }

    fn consume(&mut self, amount: usize) {
        self.1.advance(amount.min(self.1.len()));
    }
}

/// Takes the body of a request, which is sent when its answer is read.
pub(crate) struct Question(Shared);

impl Write for Question {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut exchange = locked(&self.0);
        let Some((_, _, body)) = &mut exchange.request else {
            return Err(io::Error::other("the request was sent already"));
        };
        if body.len().saturating_add(text.len()) > REQUEST_MAX {
            return Err(io::Error::other("the request is too long"));
        }
        body.extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Courier {
    pub fn new(link: &Arc<Link>) -> Self {
        Self(Arc::clone(link))
    }

    fn exchange(&self, request: Option<(String, HeaderMap, Vec<u8>)>) -> Exchange {
        Exchange { link: Arc::clone(&self.0), request, body: None, headers: Vec::new() }
    }
}

impl Http for Courier {
    type Headers = Head;
    type ResponseBody = Answer;
    type PostBody = Question;

    fn get(
        &mut self,
        url: &str,
        base_url: &str,
        lines: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> gix::Result<GetResponse<Head, Answer>> {
        let tail = url.strip_prefix(base_url).unwrap_or(url);
        let answer = self
            .0
            .get(url, tail, &headers(lines))
            .map_err(|problem| gix::error::message!("{}", self.0.keep(problem).what).raise())?;
        let mut exchange = self.exchange(None);
        exchange.answered(answer);
        let shared = Arc::new(Mutex::new(exchange));
        Ok(GetResponse { headers: Head(Arc::clone(&shared), None), body: Answer(shared, Bytes::new()) })
    }

    fn post(
        &mut self,
        url: &str,
        _: &str,
        lines: impl IntoIterator<Item = impl AsRef<str>>,
        _: PostBodyDataKind,
    ) -> gix::Result<PostResponse<Head, Answer, Question>> {
        let exchange = self.exchange(Some((url.to_owned(), headers(lines), Vec::new())));
        let shared = Arc::new(Mutex::new(exchange));
        Ok(PostResponse {
            post_body: Question(Arc::clone(&shared)),
            headers: Head(Arc::clone(&shared), None),
            body: Answer(shared, Bytes::new()),
        })
    }

    fn configure(&mut self, _: &dyn std::any::Any) -> gix::Result<()> {
        Ok(())
    }

    fn redirected_base_url(&self) -> Option<String> {
        self.0.base()
    }
}
