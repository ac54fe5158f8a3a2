//! Admission webhook for the objects in a namespace.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::ByteString;
use serde_json::{Value, json};
use tidegate_testkit::kube::ApiClient;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

pub struct Webhook {
    address: String,
    certificate: String,
    /// Number of reviews.
    reviews: Arc<AtomicUsize>,
}

/// Behavior of the webhook.
#[derive(Clone)]
enum Behavior {
    Refuse(String),
    Warn(String),
    Silence,
}

impl Behavior {
    fn answer(&self, uid: &Value) -> Option<Value> {
        match self {
            Self::Refuse(text) => {
                Some(json!({"uid": uid, "allowed": false, "status": {"code": 403, "message": text}}))
            }
            Self::Warn(text) => Some(json!({"uid": uid, "allowed": true, "warnings": [text]})),
            Self::Silence => None,
        }
    }
}

impl Webhook {
    /// Starts a webhook that rejects every review with this message, until the runtime shuts down.
    pub async fn refusing(text: impl Into<String>) -> Self {
        Self::with_behavior(Behavior::Refuse(text.into())).await
    }

    /// Starts a webhook that accepts every review with this warning.
    pub async fn warning(text: impl Into<String>) -> Self {
        Self::with_behavior(Behavior::Warn(text.into())).await
    }

    /// Starts a webhook that accepts connections but doesn't respond.
    pub async fn silent() -> Self {
        Self::with_behavior(Behavior::Silence).await
    }

    async fn with_behavior(manner: Behavior) -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let reviews = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&reviews);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, count, manner) = (acceptor.clone(), Arc::clone(&count), manner.clone());
                tokio::spawn(async move {
                    let mut stream = acceptor.accept(socket).await?;
                    let review = read_body(&mut stream).await?;
                    count.fetch_add(1, Ordering::SeqCst);
                    let Some(response) = manner.answer(&review["request"]["uid"]) else {
                        return std::future::pending().await;
                    };
                    let answer = json!({
                        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
                    });
                    let body = answer.to_string();
                    let head = format!(
                        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                        body.len()
                    );
                    stream.write_all((head + &body).as_bytes()).await?;
                    stream.shutdown().await
                });
            }
        });
        Self { address, certificate: made.cert.pem(), reviews }
    }

    /// Returns the number of reviews since the webhook's registration.
    pub fn reviews(&self) -> usize {
        self.reviews.load(Ordering::SeqCst)
    }

    /// Registers the webhook for ConfigMaps in a namespace, and waits until it has reviewed a ConfigMap with
    /// the given name.
    pub async fn register(&self, caller: &ApiClient, namespace: &str, name: &str) {
        let labels = json!({"metadata": {"labels": {"webhook": namespace}}});
        caller.patch(&format!("/api/v1/namespaces/{namespace}"), &labels).await.unwrap();
        let bundle = serde_json::to_value(ByteString(self.certificate.clone().into_bytes())).unwrap();
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": namespace},
            "webhooks": [{
                "name": "refuse.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "failurePolicy": "Fail", "timeoutSeconds": 5,
                "namespaceSelector": {"matchLabels": {"webhook": namespace}},
                "objectSelector": {"matchExpressions": []},
                "clientConfig": {"url": format!("https://{}/", self.address), "caBundle": bundle},
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"],
                }],
            }],
        });
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        caller.post(path, &configuration).await.unwrap();
        let trial = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let trying = async {
            loop {
                let _ = caller
                    .post(&format!("/api/v1/namespaces/{namespace}/configmaps?dryRun=All"), &trial)
                    .await;
                if self.reviews.swap(0, Ordering::SeqCst) > 0 {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(60), trying)
            .await
            .expect("the webhook is called");
    }
}

async fn read_body(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> std::io::Result<Value> {
    let mut received = Vec::new();
    loop {
        let mut part = [0; 4096];
        let length = stream.read(&mut part).await?;
        received.extend_from_slice(&part[..length]);
        let text = String::from_utf8_lossy(&received);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let wanted = head.lines().find_map(|line| {
                line.to_ascii_lowercase()
                    .strip_prefix("content-length:")
                    .and_then(|text| text.trim().parse().ok())
            });
            if body.len() >= wanted.unwrap_or(0) {
                return Ok(serde_json::from_str(body)?);
            }
        }
        if length == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}
