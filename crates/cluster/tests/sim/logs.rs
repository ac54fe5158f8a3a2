//! What pods write, followed while streams break.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::json;
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_cluster::{
    Call, Cluster, ClusterError, Container, ErrorKind, Layer, LogStream, LogsFrom, Pauses, Propagation,
    follow_container,
};
use tidegate_model::Object;
use tokio::time::Instant;

use super::{SSA, START, gvk, request};

const PAUSES: Pauses = Pauses { min: Duration::from_millis(300), max: Duration::from_secs(2) };

/// How a stream is cut.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// As a server does that ends.
    End,
    Break(ErrorKind),
    /// In the middle of a line.
    Half,
    /// The same, where those of one moment have a half that is the same.
    SameHalf,
}

/// A cluster that cuts each stream after so many lines.
struct Cutting {
    cluster: Arc<SimCluster>,
    after: usize,
    cut: Cut,
    opened: AtomicUsize,
}

impl Layer for Cutting {
    fn inner(&self) -> &dyn Cluster {
        self.cluster.as_ref()
    }

    async fn around<T: Send>(
        &self,
        _: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        answer.await
    }

    async fn follow_logs(&self, container: &Container, from: LogsFrom) -> Result<LogStream, ClusterError> {
        let opened = self.opened.fetch_add(1, Ordering::SeqCst) + 1;
        let cut = self.cut;
        // A server gives all of a second again, so each stream must be able to come further than the one before.
        let (lines, after) = (self.cluster.follow_logs(container, from).await?, self.after * opened);
        let lines = lines.enumerate().scan(false, move |is_cut, (number, line)| {
            if *is_cut {
                let broke = |kind| Err(ClusterError::new(kind, "the connection broke"));
                let end = match cut {
                    Cut::Break(kind) if number == after => Some(broke(kind)),
                    _ => None,
                };
                return std::future::ready(end);
            }
            *is_cut = number + 1 == after;
            let line = line.map(|mut line| {
                let rest = match cut {
                    Cut::Half => Some(2),
                    Cut::SameHalf => Some(0),
                    Cut::End | Cut::Break(_) => None,
                };
                if let Some(rest) = rest.filter(|_| *is_cut) {
                    line.is_whole = false;
                    line.text.truncate(rest);
                }
                line
            });
            std::future::ready(Some(line))
        });
        Ok(lines.boxed())
    }
}

/// A pod that takes so long and writes so many lines.
async fn pod(lasts: &str, lines: usize) -> (Arc<SimCluster>, Object, Vec<String>) {
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

async fn texts(lines: LogStream) -> Vec<String> {
    lines.map(|line| line.unwrap().text).collect().await
}

#[tokio::test(start_paused = true)]
async fn lines_come_evenly_while_the_pod_runs_and_end_with_it() {
    let (cluster, pod, expected) = pod("10s", 9).await;
    let began = Instant::now();
    let lines = cluster.follow_logs(&container(), LogsFrom::Last(100)).await.unwrap();
    let seen: Vec<(u64, String)> =
        lines.map(|line| (began.elapsed().as_secs(), line.unwrap().text)).collect().await;
    assert_eq!(seen, (1..).zip(expected.iter().cloned()).collect::<Vec<_>>());
    assert_eq!(began.elapsed().as_secs(), 10, "it ends with the pod");
    // The end of the log is what was written so far.
    let text = cluster.logs("default", "talker", "main", 1 << 20).await.unwrap();
    assert_eq!(text, expected.join("\n"));
    let last = cluster.follow_logs(&container(), LogsFrom::Last(2)).await.unwrap();
    assert_eq!(texts(last).await, expected[7..]);
    let gone = Container { pod: "nobody".to_owned(), ..container() };
    let error = cluster.follow_logs(&gone, LogsFrom::Last(2)).await.err().unwrap();
    assert_eq!(error.kind, ErrorKind::NotFound);
    drop(pod);
}

#[tokio::test(start_paused = true)]
async fn the_last_bytes_are_those_of_what_was_written_so_far() {
    let (cluster, _, expected) = pod("10s", 9).await;
    tokio::time::sleep(Duration::from_millis(4500)).await;
    let text = cluster.logs("default", "talker", "main", 1 << 20).await.unwrap();
    assert_eq!(text.lines().collect::<Vec<_>>(), expected[..4]);
}

/// Wherever the stream is cut, and however: each line comes once, in order, and none is left out. Lines of one millisecond
/// have the same time.
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_cut_goes_on_without_repeating_or_losing_a_line() {
    for cut in [
        Cut::End,
        Cut::Half,
        Cut::SameHalf,
        Cut::Break(ErrorKind::Unavailable),
        Cut::Break(ErrorKind::Timeout),
        Cut::Break(ErrorKind::Invalid),
    ] {
        for (lasts, lines) in [("20s", 19), ("2s", 60), ("10ms", 50)] {
            for after in 1..4 {
                let (cluster, pod, expected) = pod(lasts, lines).await;
                let cutting = Arc::new(Cutting { cluster, after, cut, opened: AtomicUsize::new(0) });
                let uid = pod.uid().to_owned();
                let lines = follow_container(Arc::clone(&cutting) as _, container(), uid, 1000, PAUSES);
                assert_eq!(texts(lines).await, expected, "{cut:?} after {after} of {lasts}");
                assert!(cutting.opened.load(Ordering::SeqCst) > 1);
            }
        }
    }
}

/// Whatever stands in the way cuts each stream in the middle of the second line, in another place each time.
struct Stammering(Arc<Cutting>);

impl Layer for Stammering {
    fn inner(&self) -> &dyn Cluster {
        self.0.inner()
    }

    async fn around<T: Send>(
        &self,
        _: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        answer.await
    }

    async fn follow_logs(&self, container: &Container, from: LogsFrom) -> Result<LogStream, ClusterError> {
        let opened = self.0.opened.fetch_add(1, Ordering::SeqCst);
        let lines = self.0.cluster.follow_logs(container, from).await?;
        let lines = lines.take(2).enumerate().map(move |(number, line)| {
            line.map(|mut line| {
                line.is_whole = number == 0;
                line.text.truncate(if line.is_whole { line.text.len() } else { 3 + opened % 2 });
                line
            })
        });
        Ok(lines.boxed())
    }
}

/// Nobody follows a container for ever that has ended, and whose log cannot be read to its end.
#[tokio::test(start_paused = true)]
async fn a_line_whose_end_never_comes_is_not_asked_for_again_and_again() {
    let (cluster, pod, expected) = pod("1s", 5).await;
    let cutting = Cutting { cluster, after: 0, cut: Cut::End, opened: AtomicUsize::new(0) };
    let stammering = Arc::new(Stammering(Arc::new(cutting)));
    // It writes nothing more.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let began = Instant::now();
    let lines =
        follow_container(Arc::clone(&stammering) as _, container(), pod.uid().to_owned(), 1000, PAUSES);
    assert_eq!(texts(lines).await, expected[..1], "what came whole is told, once");
    // Once while nobody knew that it has ended, once because it has, and then with pauses up to the bound.
    assert_eq!(stammering.0.opened.load(Ordering::SeqCst), 2 + 16);
    let paused = began.elapsed();
    assert!(paused >= PAUSES.max * 12 && paused <= PAUSES.max * 16, "{paused:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_deleted_or_another_one_ends_it() {
    let (cluster, pod, _) = pod("1h", 10).await;
    let uid = pod.uid().to_owned();
    let lines = follow_container(Arc::clone(&cluster) as _, container(), uid, 1000, PAUSES);
    let following = tokio::spawn(texts(lines));
    tokio::time::sleep(Duration::from_secs(400)).await;
    let delete = tidegate_cluster::DeleteRequest {
        propagation: Propagation::Background,
        ..tidegate_cluster::DeleteRequest::of(&pod)
    };
    cluster.delete(delete).await.unwrap();
    assert_eq!(following.await.unwrap(), ["0 is the number of this line"]);
    assert_eq!(cluster.get(&gvk("Pod"), "default", "talker").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_serves_no_logs_says_so_once() {
    for (kind, opened) in [(ErrorKind::Unsupported, 1), (ErrorKind::Forbidden, 1), (ErrorKind::Server, 3)] {
        let (cluster, pod, _) = pod("1h", 10).await;
        let cutting = Arc::new(Cutting {
            cluster,
            after: usize::MAX,
            cut: Cut::Break(kind),
            opened: AtomicUsize::new(0),
        });
        let refusing = Arc::new(Refusing(Arc::clone(&cutting), kind));
        let lines = follow_container(refusing, container(), pod.uid().to_owned(), 1000, PAUSES);
        let told: Vec<_> = lines.collect().await;
        let [Err(error)] = told.as_slice() else { panic!("{told:?}") };
        assert!(error.message.contains("refused") && error.kind != ErrorKind::Server, "{error}");
        assert_eq!(cutting.opened.load(Ordering::SeqCst), opened);
    }
}

/// A cluster that opens no stream.
struct Refusing(Arc<Cutting>, ErrorKind);

impl Layer for Refusing {
    fn inner(&self) -> &dyn Cluster {
        self.0.as_ref()
    }

    async fn around<T: Send>(
        &self,
        _: Call,
        answer: impl Future<Output = Result<T, ClusterError>> + Send,
    ) -> Result<T, ClusterError> {
        answer.await
    }

    async fn follow_logs(&self, _: &Container, _: LogsFrom) -> Result<LogStream, ClusterError> {
        self.0.opened.fetch_add(1, Ordering::SeqCst);
        Err(ClusterError::new(self.1, "refused"))
    }
}
