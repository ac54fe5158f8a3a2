//! [`Cluster`](tidegate_cluster::Cluster) on a real Kubernetes API.
