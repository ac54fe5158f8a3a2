//! Request framing, which the HTTP library doesn't expose. Given both `Content-Length` and
//! `Transfer-Encoding`, the library silently drops the length. A proxy that trusts the length would see the
//! request end elsewhere. The library also answers malformed framing with an empty response; this module
//! responds with a problem.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Uri;

use crate::middleware::finish_response;
use crate::problem::{Code, Problem};

/// Maximum number of bytes kept per header line. Valid lines of the two headers fit.
const LINE_MAX: usize = 256;
/// Maximum `Content-Length` to pass to the HTTP library, which treats lengths near the integer type's maximum
/// as malformed.
const LENGTH_MAX: u64 = 1 << 62;

/// Framing of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// A `Content-Length` header, or no body.
    Length,
    /// Chunked encoding. The parser can't tell where the next request starts, so the connection is closed
    /// after this one.
    Chunked,
    /// Both headers. The request is rejected.
    Ambiguous,
}

/// Framing of a connection's unanswered requests, in order. The library buffers all of their heads, which
/// bounds the queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct FramingQueue(Arc<Mutex<VecDeque<Framing>>>);

impl FramingQueue {
    fn lock_queue(&self) -> MutexGuard<'_, VecDeque<Framing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the framing of the next request.
    pub fn next(&self) -> Framing {
        self.lock_queue().pop_front().unwrap_or(Framing::Ambiguous)
    }
}

/// Request head parser, fed with the same bytes as the HTTP library.
#[derive(Debug)]
pub(crate) struct HeadParser {
    place: ParserState,
    line: Vec<u8>,
    length: Option<u64>,
    /// True if the last transfer encoding is chunked. `None` without a transfer encoding.
    is_chunked: Option<bool>,
    /// First problem in the head.
    problem: Option<Problem>,
    found: FramingQueue,
}

/// Rejection of a request head before the HTTP library sees all of it.
#[derive(Debug)]
pub(crate) struct HeadRejection {
    problem: Problem,
    /// Number of bytes to withhold from the library, from the last byte of the head on, so that it never sees
    /// a complete head.
    pub withheld: usize,
}

impl HeadRejection {
    /// Returns the bytes of the response. The connection closes afterward.
    pub fn into_response(self) -> Vec<u8> {
        let body = serde_json::to_vec(&self.problem).unwrap_or_default();
        let (head, _) = finish_response(Err(self.problem)).into_parts();
        let (status, length) = (head.status, body.len());
        let mut bytes =
            format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n").into_bytes();
        for (name, value) in &head.headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                bytes.extend_from_slice(part);
            }
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend(body);
        bytes
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParserState {
    /// Before the first line of a request, where empty lines are ignored.
    Start,
    Head,
    /// In a body, with the number of remaining bytes.
    Body(u64),
    /// After the last request to parse.
    End,
}

impl HeadParser {
    pub fn new(found: FramingQueue) -> Self {
        Self {
            place: ParserState::Start,
            line: Vec::new(),
            length: None,
            is_chunked: None,
            problem: None,
            found,
        }
    }

    /// Parses bytes from the connection. Stops at the first head to reject and returns its rejection.
    pub fn parse_bytes(&mut self, mut bytes: &[u8]) -> Option<HeadRejection> {
        loop {
            match self.place {
                ParserState::Start | ParserState::Head => {
                    let (first, rest) = bytes.split_first()?;
                    match first {
                        b'\n' => {
                            if let Some(problem) = self.end_line() {
                                return Some(HeadRejection { problem, withheld: bytes.len() });
                            }
                        }
                        other if self.line.len() < LINE_MAX => self.line.push(*other),
                        _ => {}
                    }
                    bytes = rest;
                }
                ParserState::Body(0) => self.place = ParserState::Start,
                ParserState::Body(left) => {
                    let here = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    if here == 0 {
                        return None;
                    }
                    bytes = bytes.get(here..).unwrap_or_default();
                    self.place = ParserState::Body(left.saturating_sub(u64::try_from(here).unwrap_or(left)));
                }
                ParserState::End => return None,
            }
        }
    }

    /// Handles the end of a line. If it completes a head, returns the head's problem, if any.
    fn end_line(&mut self) -> Option<Problem> {
        let line = std::mem::take(&mut self.line);
        let is_cut = line.len() >= LINE_MAX;
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        match (self.place, line) {
            (ParserState::Start, []) => {}
            (ParserState::Start, line) => {
                self.place = ParserState::Head;
                let target = line.split(|byte| *byte == b' ').nth(1);
                if !is_cut && target.is_some_and(|target| Uri::try_from(target).is_err()) {
                    self.add_problem(Problem::bad_request(
                        "the request target is invalid; send a path, such as /healthz",
                    ));
                }
            }
            (_, []) => return self.end_head(),
            (_, line) => {
                let mut parts = line.splitn(2, |byte| *byte == b':');
                let (name, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                if name.eq_ignore_ascii_case(b"transfer-encoding") {
                    let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
                    // The last encoding of a truncated line isn't known here; the HTTP library checks it.
                    self.is_chunked = Some(is_cut || last.trim_ascii().eq_ignore_ascii_case(b"chunked"));
                } else if name.eq_ignore_ascii_case(b"content-length") {
                    self.parse_length(value.trim_ascii(), is_cut);
                }
            }
        }
        None
    }

    fn parse_length(&mut self, value: &[u8], is_cut: bool) {
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            self.add_problem(Problem::bad_request(
                "the Content-Length is not a number; send the length of the body in bytes",
            ));
            return;
        }
        let number = std::str::from_utf8(value).ok().and_then(|text| text.parse::<u64>().ok());
        let Some(length) = number.filter(|length| *length <= LENGTH_MAX && !is_cut) else {
            self.add_problem(Problem::new(Code::TooLarge, "the Content-Length is too large"));
            return;
        };
        if self.length.is_some_and(|other| other != length) {
            self.add_problem(Problem::bad_request(
                "the request has conflicting Content-Length headers; send only one",
            ));
        }
        self.length = Some(length);
    }

    /// Records a problem with the head. Only the first problem is kept.
    fn add_problem(&mut self, problem: Problem) {
        self.problem.get_or_insert(problem);
    }

    fn end_head(&mut self) -> Option<Problem> {
        let (length, is_chunked) = (self.length.take(), self.is_chunked.take());
        if is_chunked == Some(false) {
            self.add_problem(Problem::bad_request(
                "the last Transfer-Encoding is not chunked; send `Transfer-Encoding: chunked`, or a Content-Length",
            ));
        }
        if self.problem.is_some() {
            self.place = ParserState::End;
            return self.problem.take();
        }
        let (framing, place) = match (length, is_chunked.is_some()) {
            (Some(_), true) => (Framing::Ambiguous, ParserState::End),
            (None, true) => (Framing::Chunked, ParserState::End),
            (length, false) => (Framing::Length, ParserState::Body(length.unwrap_or(0))),
        };
        self.place = place;
        self.found.lock_queue().push_back(framing);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_framings(bytes: &[u8], pieces: usize) -> Vec<Framing> {
        let found = FramingQueue::default();
        let mut heads = HeadParser::new(found.clone());
        assert!(bytes.chunks(pieces).all(|piece| heads.parse_bytes(piece).is_none()));
        found.lock_queue().iter().copied().collect()
    }

    /// Parses until a head is rejected. Returns the rejection and the number of bytes that the library
    /// receives.
    fn parse_until_rejected(bytes: &[u8], pieces: usize) -> Option<(Code, usize)> {
        let found = FramingQueue::default();
        let mut heads = HeadParser::new(found.clone());
        let mut seen = 0;
        for piece in bytes.chunks(pieces) {
            seen += piece.len();
            if let Some(rejection) = heads.parse_bytes(piece) {
                assert!(found.lock_queue().is_empty(), "a rejected head has no framing");
                return Some((rejection.problem.code, seen - rejection.withheld));
            }
        }
        None
    }

    #[test]
    fn a_head_that_the_library_rejects_is_withheld() {
        let zeros = format!("content-length: {}5", "0".repeat(LINE_MAX));
        let digits = format!("content-length: {}", "9".repeat(LINE_MAX));
        for (line, code) in [
            ("content-length: 18446744073709551613", Some(Code::TooLarge)),
            ("content-length: 18446744073709551615", Some(Code::TooLarge)),
            ("content-length: 18446744073709551616", Some(Code::TooLarge)),
            (&zeros, Some(Code::TooLarge)),
            (&digits, Some(Code::TooLarge)),
            ("content-length: -1", Some(Code::BadRequest)),
            ("content-length: +1", Some(Code::BadRequest)),
            ("content-length: 1, 1", Some(Code::BadRequest)),
            ("content-length:", Some(Code::BadRequest)),
            ("content-length: 1\r\ncontent-length: 2", Some(Code::BadRequest)),
            ("content-length: 1\r\ncontent-length: 1", None),
            ("content-length: 007", None),
            ("transfer-encoding: identity", Some(Code::BadRequest)),
            ("transfer-encoding: chunked, gzip", Some(Code::BadRequest)),
            ("transfer-encoding: gzip, Chunked", None),
        ] {
            let head = format!("POST / HTTP/1.1\r\nhost: a\r\n{line}\r\n\r\n");
            let bytes = format!("{head}GET / HTTP/1.1\r\nhost: a\r\n");
            for pieces in [1, 3, 1000] {
                let rejected = parse_until_rejected(bytes.as_bytes(), pieces);
                assert_eq!(rejected, code.map(|code| (code, head.len() - 1)), "{line} {pieces}");
            }
        }
        for (target, is_valid) in [("/", true), ("*", true), ("http://a/b", true), ("http:///healthz", false)]
        {
            let head = format!("GET {target} HTTP/1.1\r\n\r\n");
            assert_eq!(parse_until_rejected(head.as_bytes(), 1000).is_none(), is_valid, "{target}");
        }
    }

    #[test]
    fn each_request_has_its_framing() {
        use Framing::{Ambiguous, Chunked, Length};
        for (bytes, expected) in [
            (&b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"[..], &[Length][..]),
            (b"POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}GET / HTTP/1.1\n\n", &[Length, Length]),
            (b"\r\nPOST / HTTP/1.1\r\nContent-Length:2\r\nTransfer-Encoding: chunked\r\n\r\n", &[Ambiguous]),
            (b"POST / HTTP/1.1\r\nTRANSFER-ENCODING: chunked\r\nX: y\r\ncontent-length: 2\r\n\r\n", &[Ambiguous]),
            // Text in a body that looks like a head is ignored.
            (
                b"POST / HTTP/1.1\r\ncontent-length: 29\r\n\r\na: b\r\ntransfer-encoding: x\r\n\r\nGET / HTTP/1.1\r\n\r\n",
                &[Length, Length],
            ),
            (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n", &[Chunked]),
            (b"GET / HTTP/1.1\r\nhost: a\r\n", &[]),
        ] {
            for pieces in [1, 3, 1000] {
                assert_eq!(parse_framings(bytes, pieces), expected, "{:?}", String::from_utf8_lossy(bytes));
            }
        }
    }
}
