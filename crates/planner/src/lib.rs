//! Pure planning: from manifests and live objects to an ordered [`Plan`](tidegate_model::Plan).
//!
//! ```text
//! files ──▶ manifests::parse ──▶ targets ─┐
//!                                         ├─▶ plan ──▶ Planned { plan, manifests, left_out }
//! cluster ─▶ discovery, live objects ─────┘
//! ```
//!
//! No clock, no I/O, no async, no randomness: time and cluster facts come in as arguments, and the same input gives the
//! same plan. Planning never fails; what is surprising in the input is a finding with a stable code.
//!
//! The modules are named after the questions they answer:
//!
//! | module | question |
//! |---|---|
//! | [`manifests`] | what does a file hold, on which line, and what is wrong with it? |
//! | `targets` | which objects are wanted, under which key? |
//! | `hooks`, `naming` | is an object a hook, in which phases, deleted when, called what? |
//! | `waves` | which wave is an object in? |
//! | `options` | which sync options hold for it? |
//! | `requests` | what do its `tidegate.dev/*` annotations ask for? |
//! | `kinds`, `availability` | what does the cluster serve, what comes with the operation? |
//! | `pairing` | which live object belongs to which target, and which to none? |
//! | `diff` | does the live object already say what the target says? |
//! | `resources`, `namespace`, `prune`, `deletion` | what is done to each object? |
//! | [`bindings`] | does a binding give another role, which only a new one can? |
//! | `order` | what comes before what? |
//! | `plan` | all of it together |
//! | `drift` | does a plan that was kept still fit? |

mod annotated;
mod availability;
pub mod bindings;
mod contract;
mod deletion;
mod diff;
mod domain;
mod draft;
mod drift;
mod findings;
mod hooks;
mod kinds;
mod left_out;
pub mod manifests;
mod namespace;
mod naming;
mod options;
mod order;
mod pairing;
mod plan;
mod prune;
mod rank;
mod requests;
mod resources;
mod targets;
mod text;
mod waves;

pub use contract::{LastRun, runs_when_inputs_change, unchanged_hooks};
pub use deletion::{hook_phases_among, hooks_among};
pub use diff::{
    Change, Comparer, Difference, IgnoreError, JqError, Moved, Taken, is_ignored_when_extraneous,
    server_side_diff,
};
pub use drift::{Drift, Sight, drift, sights};
pub use hooks::is_left_out;
pub use left_out::LeftOut;
pub use manifests::{Limits, ManifestError, Origin, Target};
pub use options::{asks_for_confirmation, unknown_options};
pub use plan::{PlanInput, Planned, all_images, deleted_objects, named_objects, namespaces, plan};
pub use prune::reason_to_keep;
pub use requests::gates_of;
pub use resources::{HOOK_KEPT, may_be_shared, why_not_shared};
pub use waves::own_wave;
