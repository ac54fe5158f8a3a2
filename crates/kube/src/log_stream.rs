//! Log streams of containers, split into lines as the server sends them.

use bytes::BytesMut;
use futures_util::stream;
use http_body_util::BodyExt as _;
use kube::client::Body;
use tidegate_cluster::{ClusterError, Container, ErrorKind, LogLine, LogStart, LogStream, LogTime};
use tidegate_model::Gvk;

use crate::KubeCluster;
use crate::call::Call;
use crate::paths::push_value;
use crate::response::CallSubject;
use crate::transport::WatchPermit;

/// Maximum length of a line. The rest of a longer line is cut off.
const LINE_BYTES_MAX: usize = 16 << 10;
/// Number of additional bytes to read for a line's timestamp.
const TIME_BYTES: usize = 40;
/// Mark at the end of a truncated line.
const CUT_MARK: char = '…';

impl KubeCluster {
    pub(crate) async fn follow_container_logs(
        &self,
        container: &Container,
        from: LogStart,
    ) -> Result<LogStream, ClusterError> {
        let Container { namespace, pod, name } = container;
        let gvk = Gvk::new("", "v1", "Pod");
        let target = self.find_target(&gvk, namespace, pod).await?;
        let mut path = format!("{}/log?follow=true&timestamps=true&container=", target.path());
        push_value(&mut path, name);
        match from {
            LogStart::Last(lines) => path.push_str(&format!("&tailLines={lines}")),
            LogStart::Since(time) => {
                path.push_str("&sinceTime=");
                push_value(&mut path, &time.start_of_second().to_string());
            }
        }
        let call = Call::get(path).with_accept("text/plain, application/json, */*");
        let pod = (namespace.clone(), pod.clone());
        let following = LogFollower { cluster: self.clone(), call, pod, state: State::Opening };
        Ok(Box::pin(stream::unfold(following, |mut following| async move {
            let line = following.next().await?;
            Some((line, following))
        })))
    }
}

struct LogFollower {
    cluster: KubeCluster,
    call: Call,
    /// Namespace and name of the pod.
    pod: (String, String),
    state: State,
}

enum State {
    /// The request is being sent. A node doesn't respond until the container writes its first line, which may
    /// never happen, so silence doesn't mean that the server hangs.
    Opening,
    Open(Lines),
    Ended,
}

impl LogFollower {
    async fn next(&mut self) -> Option<Result<LogLine, ClusterError>> {
        loop {
            let http = self.cluster.api_server();
            match &mut self.state {
                State::Ended => return None,
                State::Opening => {
                    let gvk = Gvk::new("", "v1", "Pod");
                    let (namespace, name) = &self.pod;
                    let about = CallSubject { gvk: Some(&gvk), namespace, name, ..CallSubject::default() };
                    let opened = tokio::select! {
                        opened = http.open_unlimited_stream(&self.call, about) => opened,
                        never = http.probe_while_silent() => match never {},
                    };
                    match opened {
                        Ok((body, seat)) => self.state = State::Open(Lines::new(body, seat)),
                        Err(error) => {
                            self.state = State::Ended;
                            return Some(Err(unserved_logs_error(error)));
                        }
                    }
                }
                State::Open(lines) => {
                    let line = tokio::select! {
                        line = lines.next() => line,
                        never = http.probe_while_silent() => match never {},
                    };
                    http.record_activity();
                    return match line {
                        Ok(Some(line)) => Some(Ok(line)),
                        Ok(None) => {
                            self.state = State::Ended;
                            None
                        }
                        Err(error) => {
                            let error = http.connection_error(&self.call, &error);
                            self.state = State::Ended;
                            Some(Err(error))
                        }
                    };
                }
            }
        }
    }
}

/// Returns the error for logs that aren't served. It must say that only the logs are unavailable, because the
/// server does serve pods.
fn unserved_logs_error(error: ClusterError) -> ClusterError {
    match error.kind {
        ErrorKind::UnknownKind => {
            ClusterError::new(ErrorKind::Unsupported, format!("cannot read logs: {}", error.message))
        }
        _ => error,
    }
}

/// Lines of a response body, delivered once they are complete or exceed the maximum length.
struct Lines {
    body: Body,
    buffer: BytesMut,
    /// Length of the prefix of `read` without a line ending.
    searched: usize,
    /// True while skipping the rest of a line after delivering its start.
    is_skipping: bool,
    /// Time of the previous line.
    last_time: LogTime,
    has_ended: bool,
    /// Held while the response body exists.
    #[expect(dead_code, reason = "held until it is dropped")]
    permit: Option<WatchPermit>,
}

impl Lines {
    fn new(body: Body, permit: Option<WatchPermit>) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            searched: 0,
            is_skipping: false,
            last_time: LogTime::default(),
            has_ended: false,
            permit,
        }
    }

    async fn next(&mut self) -> Result<Option<LogLine>, kube::Error> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if self.has_ended {
                return Ok(None);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(error),
                None => self.has_ended = true,
            }
        }
    }

    fn take_line(&mut self) -> Option<LogLine> {
        loop {
            let unread = self.buffer.get(self.searched..).unwrap_or_default();
            let end = unread.iter().position(|byte| *byte == b'\n').map(|length| self.searched + length);
            if let Some(end) = end {
                let line = self.buffer.split_to(end + 1);
                self.searched = 0;
                if std::mem::take(&mut self.is_skipping) {
                    continue;
                }
                return Some(self.parse_line(line.get(..end).unwrap_or_default(), true));
            }
            self.searched = self.buffer.len();
            if self.is_skipping {
                self.buffer.clear();
                self.searched = 0;
                return None;
            }
            if self.buffer.len() > LINE_BYTES_MAX + TIME_BYTES {
                self.is_skipping = true;
            } else if !self.has_ended || self.buffer.is_empty() {
                return None;
            }
            let line = std::mem::take(&mut self.buffer);
            self.searched = 0;
            return Some(self.parse_line(&line, self.is_skipping));
        }
    }

    fn parse_line(&mut self, bytes: &[u8], is_complete: bool) -> LogLine {
        let time = bytes.iter().take(TIME_BYTES).position(|byte| *byte == b' ');
        let time = time.and_then(|end| bytes.split_at_checked(end));
        let parsed = time.and_then(|(time, rest)| {
            Some((LogTime::parse(std::str::from_utf8(time).ok()?)?, rest.get(1..).unwrap_or_default()))
        });
        // Lines of logs without timestamps reuse the time of the previous line.
        let (at, text) = parsed.unwrap_or((self.last_time, bytes));
        self.last_time = at;
        LogLine { at, text: decode_line(text), is_complete }
    }
}

/// Returns the line as text, without its line ending, truncated to the maximum length.
fn decode_line(line: &[u8]) -> String {
    let cut = line.get(..LINE_BYTES_MAX);
    let mut text = String::from_utf8_lossy(cut.unwrap_or(line)).trim_end_matches('\r').to_owned();
    if cut.is_some_and(|cut| cut.len() < line.len()) {
        // Remove a character that was cut in half.
        text.truncate(text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
        text.push(CUT_MARK);
    }
    text
}
