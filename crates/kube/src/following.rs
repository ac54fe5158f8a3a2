//! What a container writes, line by line as the server sends it.

use bytes::BytesMut;
use futures_util::stream;
use http_body_util::BodyExt as _;
use kube::client::Body;
use tidegate_cluster::{ClusterError, Container, ErrorKind, LogLine, LogStream, LogTime, LogsFrom};
use tidegate_model::Gvk;

use crate::KubeCluster;
use crate::answer::About;
use crate::paths::push_value;
use crate::server::Call;
use crate::transport::Seat;

/// Of a longer line so much is told.
const LINE_BYTES_MAX: usize = 16 << 10;
/// So many bytes more are read of a line than are told: its time is before it.
const TIME_BYTES: usize = 40;
/// Stands at the end of a line that is told in part.
const CUT: char = '…';

impl KubeCluster {
    pub(crate) async fn follow_container_logs(
        &self,
        container: &Container,
        from: LogsFrom,
    ) -> Result<LogStream, ClusterError> {
        let Container { namespace, pod, name } = container;
        let gvk = Gvk::new("", "v1", "Pod");
        let target = self.target(&gvk, namespace, pod).await?;
        let mut path = format!("{}/log?follow=true&timestamps=true&container=", target.path());
        push_value(&mut path, name);
        match from {
            LogsFrom::Last(lines) => path.push_str(&format!("&tailLines={lines}")),
            LogsFrom::Since(time) => {
                path.push_str("&sinceTime=");
                push_value(&mut path, &time.second().to_string());
            }
        }
        let call = Call::get(path).accept("text/plain, application/json, */*");
        let pod = (namespace.clone(), pod.clone());
        let following = Following { cluster: self.clone(), call, pod, state: State::Opening };
        Ok(Box::pin(stream::unfold(following, |mut following| async move {
            let line = following.next().await?;
            Some((line, following))
        })))
    }
}

struct Following {
    cluster: KubeCluster,
    call: Call,
    /// Its namespace and name.
    pod: (String, String),
    state: State,
}

enum State {
    /// A node answers when the container writes its first line: that may take for ever, and is no silence of the server.
    Opening,
    Open(Lines),
    Over,
}

impl Following {
    async fn next(&mut self) -> Option<Result<LogLine, ClusterError>> {
        loop {
            let http = self.cluster.http();
            match &mut self.state {
                State::Over => return None,
                State::Opening => {
                    let gvk = Gvk::new("", "v1", "Pod");
                    let (namespace, name) = &self.pod;
                    let about = About { gvk: Some(&gvk), namespace, name, ..About::default() };
                    let opened = tokio::select! {
                        opened = http.follow(&self.call, about) => opened,
                        never = http.keep_asking() => match never {},
                    };
                    match opened {
                        Ok((body, seat)) => self.state = State::Open(Lines::new(body, seat)),
                        Err(error) => {
                            self.state = State::Over;
                            return Some(Err(unserved(error)));
                        }
                    }
                }
                State::Open(lines) => {
                    let line = tokio::select! {
                        line = lines.next() => line,
                        never = http.keep_asking() => match never {},
                    };
                    http.heard();
                    return match line {
                        Ok(Some(line)) => Some(Ok(line)),
                        Ok(None) => {
                            self.state = State::Over;
                            None
                        }
                        Err(error) => {
                            let error = http.broken(&self.call, &error);
                            self.state = State::Over;
                            Some(Err(error))
                        }
                    };
                }
            }
        }
    }
}

/// That pods are served is known: what is not served is their logs.
fn unserved(error: ClusterError) -> ClusterError {
    match error.kind {
        ErrorKind::UnknownKind => {
            ClusterError::new(ErrorKind::Unsupported, format!("no logs can be had: {}", error.message))
        }
        _ => error,
    }
}

/// The lines of a body, each as soon as it is complete, or longer than any that is told.
struct Lines {
    body: Body,
    read: BytesMut,
    /// How much of `read` is known to have no end of line.
    searched: usize,
    /// The beginning of the line was told: the rest is passed over.
    is_passing_over: bool,
    /// Time of the line before.
    before: LogTime,
    is_over: bool,
    /// Kept for as long as the body is.
    #[expect(dead_code, reason = "what matters is when it is dropped")]
    seat: Option<Seat>,
}

impl Lines {
    fn new(body: Body, seat: Option<Seat>) -> Self {
        Self {
            body,
            read: BytesMut::new(),
            searched: 0,
            is_passing_over: false,
            before: LogTime::default(),
            is_over: false,
            seat,
        }
    }

    async fn next(&mut self) -> Result<Option<LogLine>, kube::Error> {
        loop {
            if let Some(line) = self.take() {
                return Ok(Some(line));
            }
            if self.is_over {
                return Ok(None);
            }
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(error),
                None => self.is_over = true,
            }
        }
    }

    /// The next line of what was read.
    fn take(&mut self) -> Option<LogLine> {
        loop {
            let unread = self.read.get(self.searched..).unwrap_or_default();
            let end = unread.iter().position(|byte| *byte == b'\n').map(|length| self.searched + length);
            if let Some(end) = end {
                let line = self.read.split_to(end + 1);
                self.searched = 0;
                if std::mem::take(&mut self.is_passing_over) {
                    continue;
                }
                return Some(self.line(line.get(..end).unwrap_or_default(), true));
            }
            self.searched = self.read.len();
            if self.is_passing_over {
                self.read.clear();
                self.searched = 0;
                return None;
            }
            if self.read.len() > LINE_BYTES_MAX + TIME_BYTES {
                self.is_passing_over = true;
            } else if !self.is_over || self.read.is_empty() {
                return None;
            }
            let line = std::mem::take(&mut self.read);
            self.searched = 0;
            return Some(self.line(&line, self.is_passing_over));
        }
    }

    fn line(&mut self, bytes: &[u8], is_whole: bool) -> LogLine {
        let time = bytes.iter().take(TIME_BYTES).position(|byte| *byte == b' ');
        let time = time.and_then(|end| bytes.split_at_checked(end));
        let parsed = time.and_then(|(time, rest)| {
            Some((LogTime::parse(std::str::from_utf8(time).ok()?)?, rest.get(1..).unwrap_or_default()))
        });
        // What bears no time was written by something that keeps none: soon after the line before it.
        let (at, text) = parsed.unwrap_or((self.before, bytes));
        self.before = at;
        LogLine { at, text: told(text), is_whole }
    }
}

/// As text, without its end of line, and no longer than is told.
fn told(line: &[u8]) -> String {
    let cut = line.get(..LINE_BYTES_MAX);
    let mut text = String::from_utf8_lossy(cut.unwrap_or(line)).trim_end_matches('\r').to_owned();
    if cut.is_some_and(|cut| cut.len() < line.len()) {
        // A character of which a part was cut off.
        text.truncate(text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
        text.push(CUT);
    }
    text
}
