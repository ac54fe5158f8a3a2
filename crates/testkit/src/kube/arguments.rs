//! Command-line arguments for the three servers, from Kubernetes 1.20 to the newest version.

use super::Assets;

pub(super) fn etcd_arguments(client: u16, peer: u16) -> Vec<String> {
    [
        "--data-dir=etcd-data".to_owned(),
        "--unsafe-no-fsync".to_owned(),
        format!("--listen-client-urls=http://127.0.0.1:{client}"),
        format!("--advertise-client-urls=http://127.0.0.1:{client}"),
        format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
        format!("--initial-cluster=default=http://127.0.0.1:{peer}"),
    ]
    .into()
}

pub(super) fn api_arguments(assets: &Assets, etcd: u16, port: u16) -> Vec<String> {
    let mut arguments =
        vec![format!("--etcd-servers=http://127.0.0.1:{etcd}"), format!("--secure-port={port}")];
    let fixed = [
        "--bind-address=127.0.0.1",
        "--cert-dir=certs",
        "--service-account-key-file=service-accounts.pub",
        "--service-account-signing-key-file=service-accounts.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--token-auth-file=tokens.csv",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
        "--service-cluster-ip-range=10.0.0.0/16",
        "--audit-policy-file=audit-policy.json",
        "--audit-log-path=audit.log",
        // Log each request before sending its response, so that tests find it.
        "--audit-log-mode=blocking",
        "--audit-log-maxsize=4096",
    ];
    arguments.extend(fixed.map(str::to_owned));
    arguments.extend(feature_gates(assets));
    arguments
}

/// Returns feature gates that only later versions enable by default.
fn feature_gates(assets: &Assets) -> Option<String> {
    (assets.minor() < 21).then(|| "--feature-gates=TTLAfterFinished=true".to_owned())
}

/// Controllers that need a cloud, duplicate the simulated nodes, or add objects to every namespace.
const DISABLED_CONTROLLERS: [&str; 17] = [
    "attachdetach",
    "bootstrapsigner",
    "cloud-node-lifecycle",
    "csrapproving",
    "csrcleaner",
    "csrsigning",
    "horizontalpodautoscaling",
    "nodeipam",
    "nodelifecycle",
    "persistentvolume-binder",
    "persistentvolume-expander",
    "root-ca-cert-publisher",
    "route",
    "service",
    "serviceaccount",
    "serviceaccount-token",
    "tokencleaner",
];

pub(super) fn controller_arguments(assets: &Assets) -> Vec<String> {
    let without: String = DISABLED_CONTROLLERS.iter().map(|name| format!(",-{name}")).collect();
    let mut arguments = vec![format!("--controllers=*{without}")];
    let fixed = [
        "--leader-elect=false",
        "--secure-port=0",
        "--service-account-private-key-file=service-accounts.key",
        "--kube-api-qps=500",
        "--kube-api-burst=1000",
        "--concurrent-gc-syncs=20",
    ];
    arguments.extend(fixed.map(str::to_owned));
    if assets.minor() < 24 {
        arguments.push("--port=0".to_owned());
    }
    arguments.extend(feature_gates(assets));
    arguments
}
