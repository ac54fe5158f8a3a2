//! Continuous log streams of pods when single streams break.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::json;
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_cluster::{
    Call, Cluster, ClusterError, Container, ErrorKind, Layer, LogStart, LogStream, PendingCall, Propagation,
    WatchBackoff, follow_container,
};
use tidegate_model::Object;
use tokio::time::Instant;

use super::{SSA, START, gvk, request};

const BACKOFF: WatchBackoff = WatchBackoff { min: Duration::from_millis(300), max: Duration::from_secs(2) };

/// Position of the cut in a stream.
#[derive(Clone, Copy, Debug)]
enum CutPoint {
    /// At the end of a line, as when a server ends the stream.
    EndOfLine,
    Error(ErrorKind),
    /// In the middle of a line.
    MiddleOfLine,
    /// In the middle of a line, when several lines with the same time have the same beginning.
    MiddleOfSimilarLine,
}

/// A cluster that cuts each stream after a number of lines.
struct CuttingCluster {
    cluster: Arc<SimCluster>,
    lines_per_stream: usize,
    cut: CutPoint,
    opened_streams: AtomicUsize,
}

impl Layer for CuttingCluster {
    fn inner(&self) -> &dyn Cluster {
        self.cluster.as_ref()
    }

    async fn intercept<T: Send>(&self, _: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        answer.await
    }

    async fn follow_logs(&self, container: &Container, from: LogStart) -> Result<LogStream, ClusterError> {
        let opened = self.opened_streams.fetch_add(1, Ordering::SeqCst) + 1;
        let cut = self.cut;
        // A server repeats a whole second, so each stream must be able to deliver more lines than the
        // previous one.
        let (lines, after) =
            (self.cluster.follow_logs(container, from).await?, self.lines_per_stream * opened);
        let lines = lines.enumerate().scan(false, move |is_cut, (number, line)| {
            if *is_cut {
                let broke = |kind| Err(ClusterError::new(kind, "the connection broke"));
                let end = match cut {
                    CutPoint::Error(kind) if number == after => Some(broke(kind)),
                    _ => None,
                };
                return std::future::ready(end);
            }
            *is_cut = number + 1 == after;
            let line = line.map(|mut line| {
                let rest = match cut {
                    CutPoint::MiddleOfLine => Some(2),
                    CutPoint::MiddleOfSimilarLine => Some(0),
                    CutPoint::EndOfLine | CutPoint::Error(_) => None,
                };
                if let Some(rest) = rest.filter(|_| *is_cut) {
                    line.is_complete = false;
                    line.text.truncate(rest);
                }
                line
            });
            std::future::ready(Some(line))
        });
        Ok(lines.boxed())
    }
}

/// Creates a pod that runs for this time and writes this number of log lines.
async fn create_pod(lasts: &str, lines: usize) -> (Arc<SimCluster>, Object, Vec<String>) {
    let cluster = Arc::new(SimCluster::in_memory(SimConfig::default(), Clock::tokio(START)));
    let expected: Vec<String> =
        (0..lines).map(|number| format!("{number} is the number of this line")).collect();
    let annotations =
        json!({"sim.tidegate.dev/ready-after": lasts, "sim.tidegate.dev/logs": expected.join("\n")});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "talker", "namespace": "default", "annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]},
    });
    let written = cluster.apply(request(&Object::try_from(pod).unwrap(), SSA)).await.unwrap().object;
    (cluster, written, expected)
}

fn container() -> Container {
    Container { namespace: "default".to_owned(), pod: "talker".to_owned(), name: "main".to_owned() }
}

async fn collect_texts(lines: LogStream) -> Vec<String> {
    lines.map(|line| line.unwrap().text).collect().await
}

#[tokio::test(start_paused = true)]
async fn lines_are_written_evenly_and_end_with_the_pod() {
    let (cluster, pod, expected) = create_pod("10s", 9).await;
    let began = Instant::now();
    let lines = cluster.follow_logs(&container(), LogStart::Last(100)).await.unwrap();
    let seen: Vec<(u64, String)> =
        lines.map(|line| (began.elapsed().as_secs(), line.unwrap().text)).collect().await;
    assert_eq!(seen, (1..).zip(expected.iter().cloned()).collect::<Vec<_>>());
    assert_eq!(began.elapsed().as_secs(), 10, "it ends with the pod");
    // The log currently ends with the latest line.
    let text = cluster.logs(&container(), 1 << 20).await.unwrap();
    assert_eq!(text, expected.join("\n"));
    let last = cluster.follow_logs(&container(), LogStart::Last(2)).await.unwrap();
    assert_eq!(collect_texts(last).await, expected[7..]);
    let gone = Container { pod: "nobody".to_owned(), ..container() };
    let error = cluster.follow_logs(&gone, LogStart::Last(2)).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::NotFound);
    drop(pod);
}

#[tokio::test(start_paused = true)]
async fn the_last_bytes_are_those_written_so_far() {
    let (cluster, _, expected) = create_pod("10s", 9).await;
    tokio::time::sleep(Duration::from_millis(4500)).await;
    let text = cluster.logs(&container(), 1 << 20).await.unwrap();
    assert_eq!(text.lines().collect::<Vec<_>>(), expected[..4]);
}

/// Each line must be delivered exactly once and in order, wherever and however the stream is cut. Lines
/// within the same millisecond have the same time.
#[tokio::test(start_paused = true)]
async fn a_cut_stream_resumes_without_repeating_or_losing_a_line() {
    for cut in [
        CutPoint::EndOfLine,
        CutPoint::MiddleOfLine,
        CutPoint::MiddleOfSimilarLine,
        CutPoint::Error(ErrorKind::Unavailable),
        CutPoint::Error(ErrorKind::Timeout),
        CutPoint::Error(ErrorKind::Invalid),
    ] {
        for (lasts, lines) in [("20s", 19), ("2s", 60), ("10ms", 50)] {
            for lines_per_stream in 1..4 {
                let (cluster, pod, expected) = create_pod(lasts, lines).await;
                let cutting = Arc::new(CuttingCluster {
                    cluster,
                    lines_per_stream,
                    cut,
                    opened_streams: AtomicUsize::new(0),
                });
                let uid = pod.uid().to_owned();
                let lines = follow_container(Arc::clone(&cutting) as _, container(), uid, 1000, BACKOFF);
                assert_eq!(
                    collect_texts(lines).await,
                    expected,
                    "{cut:?} after {lines_per_stream} of {lasts}"
                );
                assert!(cutting.opened_streams.load(Ordering::SeqCst) > 1);
            }
        }
    }
}

/// A cluster that cuts each stream in the middle of the second line, at a different position each time.
struct MidLineCuttingCluster(Arc<CuttingCluster>);

impl Layer for MidLineCuttingCluster {
    fn inner(&self) -> &dyn Cluster {
        self.0.inner()
    }

    async fn intercept<T: Send>(&self, _: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        answer.await
    }

    async fn follow_logs(&self, container: &Container, from: LogStart) -> Result<LogStream, ClusterError> {
        let opened = self.0.opened_streams.fetch_add(1, Ordering::SeqCst);
        let lines = self.0.cluster.follow_logs(container, from).await?;
        let lines = lines.take(2).enumerate().map(move |(number, line)| {
            line.map(|mut line| {
                line.is_complete = number == 0;
                line.text.truncate(if line.is_complete { line.text.len() } else { 3 + opened % 2 });
                line
            })
        });
        Ok(lines.boxed())
    }
}

/// A finished container must not be followed forever if its log cannot be read to the end.
#[tokio::test(start_paused = true)]
async fn an_unfinished_line_is_not_requested_forever() {
    let (cluster, pod, expected) = create_pod("1s", 5).await;
    let cutting = CuttingCluster {
        cluster,
        lines_per_stream: 0,
        cut: CutPoint::EndOfLine,
        opened_streams: AtomicUsize::new(0),
    };
    let stammering = Arc::new(MidLineCuttingCluster(Arc::new(cutting)));
    // The container doesn't write any more lines.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let began = Instant::now();
    let lines =
        follow_container(Arc::clone(&stammering) as _, container(), pod.uid().to_owned(), 1000, BACKOFF);
    assert_eq!(collect_texts(lines).await, expected[..1], "complete lines are returned once");
    // One stream was opened before the container's end was noticed, and a second stream afterwards. The other
    // streams are retries, up to the limit.
    assert_eq!(stammering.0.opened_streams.load(Ordering::SeqCst), 2 + 16);
    let paused = began.elapsed();
    assert!(paused >= BACKOFF.max * 12 && paused <= BACKOFF.max * 16, "{paused:?}");
}

#[tokio::test(start_paused = true)]
async fn deleting_or_replacing_the_pod_ends_the_stream() {
    let (cluster, pod, _) = create_pod("1h", 10).await;
    let uid = pod.uid().to_owned();
    let lines = follow_container(Arc::clone(&cluster) as _, container(), uid, 1000, BACKOFF);
    let following = tokio::spawn(collect_texts(lines));
    tokio::time::sleep(Duration::from_secs(400)).await;
    let delete = tidegate_cluster::DeleteRequest {
        propagation: Propagation::Background,
        ..tidegate_cluster::DeleteRequest::for_object(&pod)
    };
    cluster.delete(delete).await.unwrap();
    assert_eq!(following.await.unwrap(), ["0 is the number of this line"]);
    assert_eq!(cluster.get(&gvk("Pod"), "default", "talker").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_logs_reports_it_once() {
    for (kind, opened) in [(ErrorKind::Unsupported, 1), (ErrorKind::Forbidden, 1), (ErrorKind::Server, 3)] {
        let (cluster, pod, _) = create_pod("1h", 10).await;
        let cutting = Arc::new(CuttingCluster {
            cluster,
            lines_per_stream: usize::MAX,
            cut: CutPoint::Error(kind),
            opened_streams: AtomicUsize::new(0),
        });
        let refusing = Arc::new(RefusingCluster(Arc::clone(&cutting), kind));
        let lines = follow_container(refusing, container(), pod.uid().to_owned(), 1000, BACKOFF);
        let lines_read: Vec<_> = lines.collect().await;
        let [Err(error)] = lines_read.as_slice() else { panic!("{lines_read:?}") };
        assert!(error.message.contains("refused") && error.kind != ErrorKind::Server, "{error}");
        assert_eq!(cutting.opened_streams.load(Ordering::SeqCst), opened);
    }
}

/// A cluster that refuses to open streams.
struct RefusingCluster(Arc<CuttingCluster>, ErrorKind);

impl Layer for RefusingCluster {
    fn inner(&self) -> &dyn Cluster {
        self.0.as_ref()
    }

    async fn intercept<T: Send>(&self, _: Call, answer: impl PendingCall<T>) -> Result<T, ClusterError> {
        answer.await
    }

    async fn follow_logs(&self, _: &Container, _: LogStart) -> Result<LogStream, ClusterError> {
        self.0.opened_streams.fetch_add(1, Ordering::SeqCst);
        Err(ClusterError::new(self.1, "refused"))
    }
}
