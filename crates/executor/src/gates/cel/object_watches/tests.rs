//! Watches on a simulated cluster in virtual time.

use serde_json::json;
use tidegate_cluster::sim::{Clock, SimCluster, SimConfig};
use tidegate_cluster::{ApplyRequest, DeleteRequest, Detail, WriteMode};
use tidegate_model::{Gvk, Timestamp};

use super::*;

fn cluster() -> SimCluster {
    SimCluster::in_memory(SimConfig::default(), Clock::tokio(Timestamp::from_millis(1_700_000_000_000)))
}

fn connection(cluster: &SimCluster) -> ClusterConnection {
    let permits = Arc::new(Semaphore::new(4));
    ClusterConnection { destination: Destination::Simulated, cluster: Arc::new(cluster.clone()), permits }
}

fn kind() -> Gvk {
    Gvk::new("", "v1", "ConfigMap")
}

fn selection(name: Option<&str>, labels: &[(&str, &str)]) -> Selection {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Selection {
        scope: Scope { gvk: kind(), namespace: Some("default".into()), detail: Detail::Full },
        name: name.map(str::to_owned),
        labels: labels.iter().map(owned).collect(),
    }
}

async fn write(cluster: &SimCluster, name: &str, tier: &str) {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"tier": tier}}});
    let request = ApplyRequest::new(Object::try_from(object).unwrap(), WriteMode::Apply { force: true });
    cluster.apply(request).await.unwrap();
}

async fn delete(cluster: &SimCluster, name: &str) {
    let found = cluster.get(&kind(), "default", name).await.unwrap().unwrap();
    let request = DeleteRequest::for_object(&found);
    cluster.delete(request).await.unwrap();
}

/// Waits until the view contains exactly the `expected` objects.
async fn wait_for_objects(seen: &mut watch::Receiver<View>, expected: &[&str]) {
    let shows = |view: &View| match view {
        View::Listed(shown) => shown.keys().map(|(_, name)| name.as_str()).eq(expected.iter().copied()),
        _ => false,
    };
    let waiting = tokio::time::timeout(Duration::from_secs(60), seen.wait_for(shows));
    assert!(waiting.await.is_ok_and(|seen| seen.is_ok()), "{expected:?} is not shown");
}

#[tokio::test(start_paused = true)]
async fn objects_appear_change_and_disappear() {
    let (cluster, objects) = (cluster(), ObjectWatches::default());
    write(&cluster, "a", "web").await;
    write(&cluster, "b", "db").await;
    let mut web = objects.subscribe(&connection(&cluster), &selection(None, &[("tier", "web")]));
    let mut b = objects.subscribe(&connection(&cluster), &selection(Some("b"), &[]));
    wait_for_objects(&mut web, &["a"]).await;
    wait_for_objects(&mut b, &["b"]).await;
    write(&cluster, "c", "web").await;
    wait_for_objects(&mut web, &["a", "c"]).await;
    // Without the label, an object isn't selected.
    write(&cluster, "a", "db").await;
    wait_for_objects(&mut web, &["c"]).await;
    delete(&cluster, "b").await;
    wait_for_objects(&mut b, &[]).await;
    write(&cluster, "b", "web").await;
    wait_for_objects(&mut web, &["b", "c"]).await;
    wait_for_objects(&mut b, &["b"]).await;
}

#[tokio::test(start_paused = true)]
async fn one_watch_serves_all_subscribers_and_ends_with_the_last() {
    let (cluster, objects) = (cluster(), ObjectWatches::default());
    let connection = connection(&cluster);
    let same = selection(Some("a"), &[]);
    let (first, mut second) = (objects.subscribe(&connection, &same), objects.subscribe(&connection, &same));
    let other = objects.subscribe(&connection, &selection(Some("b"), &[]));
    assert_eq!(objects.count(), 2);
    drop((first, other));
    wait_for_objects(&mut second, &[]).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(objects.count(), 1);
    drop(second);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(objects.count(), 0);
    let mut again = objects.subscribe(&connection, &same);
    write(&cluster, "a", "web").await;
    wait_for_objects(&mut again, &["a"]).await;
}
