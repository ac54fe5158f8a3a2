//! A real Kubernetes control plane for tests: etcd, kube-apiserver, kube-controller-manager, and a simulator of nodes.
//!
//! ```no_run
//! use tidegate_testkit::kube::{ControlPlane, User};
//! # async fn test() -> Result<(), Box<dyn std::error::Error>> {
//! let control = ControlPlane::shared(); // one for all tests of a binary; `ControlPlane::start(Options::default())?` for one of your own
//! let namespace = control.namespace("shop").await?; // each test in a namespace of its own
//! let kubeconfig = control.kubeconfig(User::ENGINE); // for the program under test
//! let mark = control.mark();
//! // … run it, then read as somebody else what is there, and what it wrote, in order:
//! let shop = control.caller(User::OBSERVER).get(&format!("/api/v1/namespaces/{namespace}/configmaps/a")).await?;
//! let writes = control.audit_within(mark, &namespace).await?.of(User::ENGINE).writes();
//! # Ok(()) }
//! ```
//!
//! A test binary of such tests has `harness = false` and hands its tests to [`suite::main`], which runs them on each
//! version of Kubernetes that is here (see `scripts/kube-assets`). Where there is none, each is reported as ignored by
//! name, or fails if `TIDEGATE_REQUIRE_KUBE` requires the version (`1.20,1.36`, or `1` for all the tests are meant for).
//!
//! ```text
//!   suite ── ControlPlane ─┬─ server.rs   the three processes, which end when the test process does
//!                          ├─ access.rs   users, tokens, kubeconfigs, roles
//!                          ├─ caller.rs   plain requests, as any user
//!                          ├─ audit.rs    what the API server says it was asked
//!                          ├─ node/       binds pods, writes their status, completes their deletion
//!                          └─ kubelet.rs  a node that gives logs, for tests that ask for it
//! ```

mod access;
mod arguments;
mod assets;
mod audit;
mod caller;
mod control;
mod error;
mod kubelet;
mod node;
mod server;
pub mod suite;

pub use access::User;
pub use assets::{Assets, Inventory};
pub use audit::{Audit, AuditEvent, Mark};
pub use caller::{CallError, Caller};
pub use control::{ControlPlane, Options};
pub use error::KubeError;
pub use kubelet::Kubelet;
