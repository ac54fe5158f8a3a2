//! [`Cluster`](tidegate_cluster::Cluster) on a real Kubernetes API.

#[cfg_attr(
    not(test),
    expect(dead_code, unused_imports, reason = "client-side apply is written before its caller")
)]
mod patch;
