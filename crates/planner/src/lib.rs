//! Planning as a pure function, from manifests and live objects to an ordered [`Plan`](tidegate_model::Plan).
//!
//! ```text
//! files ──▶ manifests::parse ──▶ targets ─┐
//!                                         ├─▶ plan ──▶ PlanResult { plan, manifests, excluded }
//! cluster ─▶ discovery, live objects ─────┘
//! ```
//!
//! The crate has no clocks, I/O, async or randomness: time and cluster state are arguments, and the same
//! input always yields the same plan. Planning never fails; problems in the input become findings with stable
//! codes.
//!
//! | module | subject |
//! |---|---|
//! | [`manifests`] | parsing of manifest files into objects with their lines |
//! | `targets` | objects to deploy, by key |
//! | `hooks`, `generated_names` | hooks: phases, deletion policies, names |
//! | `waves` | waves of objects |
//! | `sync_options` | sync options of an object |
//! | `object_settings` | `tidegate.dev/*` annotations |
//! | `known_kinds`, `availability` | kinds that the cluster serves or the operation defines |
//! | `object_scope` | scope and namespace of an object |
//! | `pairing` | matching of live objects to targets |
//! | `diff` | comparison of live objects with targets |
//! | `resources`, `namespace`, `prune`, `deletion` | actions for each object |
//! | [`role_bindings`] | bindings that must be recreated to change their role |
//! | `task_order` | order of tasks |
//! | `dependencies` | dependencies between objects |
//! | `plan` | planning from all inputs |
//! | `compared_plan` | reuse of a comparison's plan by an operation |
//! | `drift` | changes that make a stored plan outdated |
//! | `spec_problems` | errors in an Application's specification |

mod availability;
mod compared_plan;
mod deletion;
mod dependencies;
mod diff;
mod draft;
mod drift;
mod excluded_manifest;
mod findings;
mod generated_names;
mod hook_conditions;
mod hooks;
mod ineffective_annotations;
mod known_kinds;
pub mod manifests;
mod namespace;
mod object_scope;
mod object_settings;
mod ownership;
mod pairing;
mod plan;
mod prune;
mod rank;
mod resources;
pub mod role_bindings;
mod spec_problems;
mod sync_options;
mod targets;
mod task_order;
mod text;
mod waves;

pub use compared_plan::ComparedPlan;
pub use deletion::{count_deletion_hooks, deletion_hook_phases};
pub use diff::{
    Change, Comparer, Difference, IgnoreError, JqError, LiveFieldChange, TakenOverFields,
    is_ignored_when_extraneous, server_side_diff,
};
pub use drift::{Drift, PlanManifests, StoredObservation, find_drift, stored_observations};
pub use excluded_manifest::ExcludedManifest;
pub use hook_conditions::{LastRun, runs_when_inputs_change, unchanged_hooks};
pub use hooks::is_excluded_from_sync;
pub use manifests::{Limits, ManifestError, Origin, Target};
pub use object_settings::gates_of_object;
pub use plan::{
    PlanInput, PlanResult, all_images, deleted_objects, named_objects, operation_namespaces, plan,
};
pub use prune::prune_refusal_reason;
pub use resources::{HOOK_OBJECT_KEPT, ONLY_OUT_OF_SYNC, can_overwrite_shared, shared_resource_refusal};
pub use spec_problems::{SpecChecker, spec_problems};
pub use sync_options::{
    can_fall_back_to_client_side, managers_to_take_over, requires_confirmation, unknown_options,
};
pub use waves::annotated_wave;
