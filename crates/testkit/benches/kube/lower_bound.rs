//! Lower bound for any program: a server-side apply per object, 16 at a time, on a single HTTP/2 connection.
//! Reads, persistence, comparisons, waits and reading files aren't included.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::Config;
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::Value;
use tokio::runtime::Builder;

use crate::input::Manifests;

const CONCURRENT_REQUESTS: usize = 16;

type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Applies all objects, optionally after a dry run of all of them. The time includes connecting.
pub fn apply_all(kubeconfig: &Path, namespace: &str, manifests: &Manifests, dry_run: bool) -> Duration {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let token = bearer_token(kubeconfig);
    runtime.block_on(async {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let bodies: Vec<(String, Bytes)> = manifests
            .objects
            .iter()
            .map(|object| {
                (object["metadata"]["name"].as_str().unwrap().to_owned(), object.to_string().into())
            })
            .collect();
        let url = config.cluster_url.to_string();
        let place = format!("{}/api/v1/namespaces/{namespace}/configmaps", url.trim_end_matches('/'));
        let started = Instant::now();
        let client = build_client(&config);
        if dry_run {
            send_all(&client, &token, &place, "?fieldManager=bare&force=true&dryRun=All", &bodies).await;
        }
        send_all(&client, &token, &place, "?fieldManager=bare&force=true", &bodies).await;
        started.elapsed()
    })
}

/// Returns the credentials of the current context. The testkit wrote the file as JSON.
fn bearer_token(kubeconfig: &Path) -> String {
    let file: Value = serde_json::from_slice(&std::fs::read(kubeconfig).unwrap()).unwrap();
    let users = file["users"].as_array().unwrap();
    let user = users.iter().find(|user| user["name"] == file["current-context"]).unwrap();
    format!("Bearer {}", user["user"]["token"].as_str().unwrap())
}

fn build_client(config: &Config) -> HttpClient {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let tls = config.rustls_client_config().unwrap();
    let connector =
        HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http2().wrap_connector(tcp);
    Client::builder(TokioExecutor::new()).http2_only(true).build(connector)
}

async fn send_all(client: &HttpClient, token: &str, place: &str, query: &str, bodies: &[(String, Bytes)]) {
    let next = AtomicUsize::new(0);
    let one_after_another = || async {
        while let Some((name, body)) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
            let request = Request::patch(format!("{place}/{name}{query}"))
                .header(AUTHORIZATION, token)
                .header(CONTENT_TYPE, "application/apply-patch+yaml")
                .body(Full::new(body.clone()))
                .unwrap();
            let answer = client.request(request).await.unwrap();
            let status = answer.status();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&body));
        }
    };
    futures_util::future::join_all((0..CONCURRENT_REQUESTS).map(|_| one_after_another())).await;
}
