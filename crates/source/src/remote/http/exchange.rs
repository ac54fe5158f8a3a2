//! Requests and responses as the readers and writers that the Git library expects.

use std::io::{self, BufRead, Cursor, Read, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf as _, Bytes};
use gix::error::ErrorExt as _;
use gix_transport::client::blocking_io::http::{GetResponse, Http, PostBodyDataKind, PostResponse};
use http::{HeaderMap, Response};

use super::Problem;
use super::link::{Body, Link, parse_headers};

/// Maximum size of a request, in bytes. Requests hold no more than a few commit IDs.
const REQUEST_MAX: usize = 1 << 20;

/// Transport that sends the requests of the Git protocol over a link.
pub(crate) struct HttpTransport(Arc<Link>);

/// A request that has not been sent yet.
struct PostRequest {
    url: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// A request and its response.
struct Exchange {
    link: Arc<Link>,
    /// The request, taken when it is sent.
    request: Option<PostRequest>,
    body: Option<Body>,
    headers: Vec<u8>,
}

type SharedExchange = Arc<Mutex<Exchange>>;

fn lock_exchange(exchange: &SharedExchange) -> MutexGuard<'_, Exchange> {
    exchange.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exchange {
    fn set_response(&mut self, answer: Response<Body>) {
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
        if let Some(PostRequest { url, headers, body }) = self.request.take() {
            let answer = self.link.post(&url, &headers, body).map_err(|problem| self.io_error(problem))?;
            self.set_response(answer);
        }
        Ok(())
    }

    fn io_error(&self, problem: Problem) -> io::Error {
        io::Error::other(self.link.store_problem(problem).message)
    }

    fn next_bytes(&mut self) -> io::Result<Bytes> {
        self.send()?;
        let Some(body) = &mut self.body else { return Ok(Bytes::new()) };
        let more = self.link.next_bytes(body);
        more.map(Option::unwrap_or_default).map_err(|problem| self.io_error(problem))
    }
}

/// Reader of the response's headers, one per line.
pub(crate) struct HeaderReader(SharedExchange, Option<Cursor<Vec<u8>>>);

impl HeaderReader {
    fn lines(&mut self) -> io::Result<&mut Cursor<Vec<u8>>> {
        if self.1.is_none() {
            let mut exchange = lock_exchange(&self.0);
            exchange.send()?;
            self.1 = Some(Cursor::new(std::mem::take(&mut exchange.headers)));
        }
        Ok(self.1.get_or_insert_default())
    }
}

impl Read for HeaderReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.lines()?.read(buffer)
    }
}

impl BufRead for HeaderReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.lines()?.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        if let Some(lines) = &mut self.1 {
            lines.consume(amount);
        }
    }
}

/// Reader of the response's body.
pub(crate) struct BodyReader(SharedExchange, Bytes);

impl Read for BodyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut there = self.fill_buf()?;
        let read = there.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for BodyReader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.1.is_empty() {
            self.1 = lock_exchange(&self.0).next_bytes()?;
        }
        Ok(&self.1)
    }

    fn consume(&mut self, amount: usize) {
        self.1.advance(amount.min(self.1.len()));
    }
}

/// Writer of the request's body. The request isn't sent until the response is read.
pub(crate) struct BodyWriter(SharedExchange);

impl Write for BodyWriter {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut exchange = lock_exchange(&self.0);
        let Some(PostRequest { body, .. }) = &mut exchange.request else {
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

impl HttpTransport {
    pub fn new(link: &Arc<Link>) -> Self {
        Self(Arc::clone(link))
    }

    fn exchange(&self, request: Option<PostRequest>) -> Exchange {
        Exchange { link: Arc::clone(&self.0), request, body: None, headers: Vec::new() }
    }
}

impl Http for HttpTransport {
    type Headers = HeaderReader;
    type ResponseBody = BodyReader;
    type PostBody = BodyWriter;

    fn get(
        &mut self,
        url: &str,
        base_url: &str,
        lines: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> gix::Result<GetResponse<HeaderReader, BodyReader>> {
        let tail = url.strip_prefix(base_url).unwrap_or(url);
        let answer = self
            .0
            .get(url, tail, &parse_headers(lines))
            .map_err(|problem| gix::error::message!("{}", self.0.store_problem(problem).message).raise())?;
        let mut exchange = self.exchange(None);
        exchange.set_response(answer);
        let shared = Arc::new(Mutex::new(exchange));
        Ok(GetResponse {
            headers: HeaderReader(Arc::clone(&shared), None),
            body: BodyReader(shared, Bytes::new()),
        })
    }

    fn post(
        &mut self,
        url: &str,
        _: &str,
        lines: impl IntoIterator<Item = impl AsRef<str>>,
        _: PostBodyDataKind,
    ) -> gix::Result<PostResponse<HeaderReader, BodyReader, BodyWriter>> {
        let request = PostRequest { url: url.to_owned(), headers: parse_headers(lines), body: Vec::new() };
        let exchange = self.exchange(Some(request));
        let shared = Arc::new(Mutex::new(exchange));
        Ok(PostResponse {
            post_body: BodyWriter(Arc::clone(&shared)),
            headers: HeaderReader(Arc::clone(&shared), None),
            body: BodyReader(shared, Bytes::new()),
        })
    }

    fn configure(&mut self, _: &dyn std::any::Any) -> gix::Result<()> {
        Ok(())
    }

    fn redirected_base_url(&self) -> Option<String> {
        self.0.base()
    }
}
