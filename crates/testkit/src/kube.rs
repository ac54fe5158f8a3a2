//! A real Kubernetes control plane for tests: etcd, kube-apiserver, kube-controller-manager, and a node
//! simulator.
//!
//! ```no_run
//! use tidegate_testkit::kube::{ControlPlane, User};
//! # async fn test() -> Result<(), Box<dyn std::error::Error>> {
//! let control = ControlPlane::shared(); // one for all tests of a binary; `ControlPlane::start(Options::default())?` for a separate one
//! let namespace = control.create_namespace("shop").await?; // each test in its own namespace
//! let kubeconfig = control.kubeconfig(User::ENGINE); // for the program under test
//! let mark = control.audit_mark();
//! // … run it, then read the objects as another user, and its writes in order:
//! let shop = control.client(User::OBSERVER).get(&format!("/api/v1/namespaces/{namespace}/configmaps/a")).await?;
//! let writes = control.audit_in_namespace(mark, &namespace).await?.by_user(User::ENGINE).successful_writes();
//! # Ok(()) }
//! ```
//!
//! A test binary for these tests has `harness = false` and passes its tests to [`suite::main`]. It runs them
//! on each available version of Kubernetes (see `scripts/kube-assets`). Without any version, each test is
//! reported by name as ignored. If `TIDEGATE_REQUIRE_KUBE` requires the missing version (`1.20,1.36`, or `1`
//! for all tested versions), the test fails instead.
//!
//! ```text
//!   suite ── ControlPlane ─┬─ server.rs       the three processes, which end with the test process
//!                          ├─ access.rs       users, tokens, kubeconfigs, roles
//!                          ├─ api_client.rs   plain requests, as any user
//!                          ├─ audit.rs        audit log of the API server
//!                          ├─ node/           binds pods, writes their status, completes their deletion
//!                          └─ kubelet.rs      a node that serves logs, for tests that need it
//! ```

mod access;
mod api_client;
mod arguments;
mod assets;
mod audit;
mod control_plane;
mod error;
mod kubelet;
mod node;
mod server;
pub mod suite;

pub use access::User;
pub use api_client::ApiClient;
pub use assets::{AssetInventory, Assets};
pub use audit::{Audit, AuditEvent, JobWrite, Mark};
pub use control_plane::{ControlPlane, Options};
pub use error::{CallError, KubeError};
pub use kubelet::Kubelet;
