//! One stream with the events of all services that share the work.
//!
//! Each service numbers its own events. The ID of an event in the merged stream contains the last ID of each service, so
//! that a client can resume at any of them.

use std::io;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use http_body_util::BodyDataStream;

/// Maximum size of an event of another service.
const EVENT_BYTES_MAX: usize = 16 << 20;

/// Part of an event stream that ends with an empty line.
type Frame = Result<Bytes, io::Error>;

/// Merges event streams. The result ends with the first of them, or when `changed` completes, so that the client connects
/// again.
pub(crate) fn merge_events(streams: Vec<Body>, changed: impl Future<Output = ()> + Send + 'static) -> Body {
    let mut ids: Vec<Option<String>> = vec![None; streams.len()];
    let sources = streams.into_iter().enumerate().map(|(source, body)| {
        let end = stream::once(std::future::ready(None));
        split_frames(body).map(Some).chain(end).map(move |frame| (source, frame)).boxed()
    });
    let merged = stream::select_all(sources).take_while(|(_, frame)| std::future::ready(frame.is_some()));
    let merged = merged.filter_map(move |(source, frame)| {
        let frame = frame.map(|frame| frame.map(|frame| rewrite_id(&frame, source, &mut ids)));
        std::future::ready(frame)
    });
    Body::from_stream(merged.take_until(Box::pin(changed)))
}

/// Splits a body into frames. An incomplete frame at the end is dropped.
fn split_frames(body: Body) -> BoxStream<'static, Frame> {
    let state = (BodyDataStream::new(body), BytesMut::new());
    stream::unfold(state, async |(mut data, mut buffer)| {
        loop {
            if let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
                let frame = buffer.split_to(end.saturating_add(2)).freeze();
                return Some((Ok(frame), (data, buffer)));
            }
            if buffer.len() > EVENT_BYTES_MAX {
                return None;
            }
            match data.next().await? {
                Ok(chunk) => buffer.extend_from_slice(&chunk),
                Err(error) => return Some((Err(io::Error::other(error)), (data, BytesMut::new()))),
            }
        }
    })
    .boxed()
}

/// Replaces the ID in a frame with the last IDs of all sources. Removes it until every source has sent one, because the
/// client hasn't received all earlier events before.
fn rewrite_id(frame: &[u8], source: usize, ids: &mut [Option<String>]) -> Bytes {
    let mut rewritten = BytesMut::with_capacity(frame.len());
    for line in frame.split_inclusive(|byte| *byte == b'\n') {
        let Some(id) = line.strip_prefix(b"id: ") else {
            rewritten.extend_from_slice(line);
            continue;
        };
        if let Some(known) = ids.get_mut(source) {
            *known = Some(String::from_utf8_lossy(id).trim_end().to_owned());
        }
        let all: Option<Vec<&str>> = ids.iter().map(Option::as_deref).collect();
        if let Some(all) = all {
            rewritten.extend_from_slice(format!("id: {}\n", all.join(",")).as_bytes());
        }
    }
    rewritten.freeze()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    fn body(chunks: &[&'static str]) -> Body {
        let chunks: Vec<_> =
            chunks.iter().map(|chunk| Ok::<_, io::Error>(Bytes::from_static(chunk.as_bytes()))).collect();
        Body::from_stream(stream::iter(chunks).chain(stream::pending()))
    }

    async fn read_frames(body: Body, count: usize) -> String {
        let mut data = BodyDataStream::new(body);
        let mut text = String::new();
        for _ in 0..count {
            text.push_str(std::str::from_utf8(&data.next().await.unwrap().unwrap()).unwrap());
        }
        text
    }

    #[tokio::test]
    async fn an_id_contains_the_last_id_of_each_service() {
        // The second service sends the events that the client has missed first, without IDs.
        let local = body(&["retry: 1000\nid: a-1-5\n\n", "id: a-2-6\nevent: x\nda", "ta: {}\n\n"]);
        let other = body(&["retry: 1000\n\nevent: x\ndata: 1\n\nid: b-7-6\n\n"]);
        let merged = merge_events(vec![local, other], std::future::pending());
        let text = read_frames(merged, 5).await;
        assert_eq!(text.matches("event: x\n").count(), 2, "{text}");
        let ids: Vec<_> = text.lines().filter(|line| line.starts_with("id: ")).collect();
        assert!(
            !ids.is_empty() && ids.iter().all(|id| id.starts_with("id: a-") && id.contains(",b-7-6")),
            "{text}"
        );
    }

    #[tokio::test]
    async fn the_stream_ends_with_the_first_service_or_a_change() {
        let ended =
            Body::from_stream(stream::iter([Ok::<_, io::Error>(Bytes::from_static(b": 1\n\n: incomplete"))]));
        let merged = merge_events(vec![body(&[": 2\n\n"]), ended], std::future::pending());
        let text = merged.collect().await.unwrap().to_bytes();
        assert!(!std::str::from_utf8(&text).unwrap().contains("incomplete"));
        let merged = merge_events(vec![body(&[])], std::future::ready(()));
        assert!(merged.collect().await.unwrap().to_bytes().is_empty());
    }
}
