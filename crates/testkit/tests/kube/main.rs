//! Tests on a real Kubernetes control plane.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

mod conformance;
mod engine;
mod golden;
mod harness;
mod rough;
mod webhook;

fn main() -> std::process::ExitCode {
    let mut tests = tidegate_testkit::kube_tests![
        rough::the_api_server_dies_and_etcd_stands_still,
        harness::pods_run_as_their_annotations_say,
        harness::storage_and_addresses_come,
        harness::deletion_completes_or_is_stuck,
        harness::the_audit_says_what_was_done_in_order,
        harness::a_limited_user_may_do_what_it_was_given,
        harness::a_server_can_be_killed_and_stopped,
        conformance::create_update_repeat,
        conformance::dry_runs,
        conformance::conflicts,
        conformance::refusals,
        conformance::immutable_fields,
        conformance::generated_names,
        conformance::replacing,
        conformance::recreating,
        conformance::propagation,
        conformance::preconditions,
        conformance::finalizers,
        conformance::namespaces,
        conformance::definitions,
        conformance::unknown_kinds,
        conformance::watching,
        conformance::listing,
        conformance::living,
        conformance::pods_of_workloads,
        conformance::jobs,
        conformance::rollouts,
        rough::a_webhook_refuses,
        rough::a_finalizer_never_clears,
        rough::a_namespace_is_terminating,
        rough::a_definition_is_deleted_meanwhile,
        rough::objects_are_too_large,
        rough::rights_are_missing,
    ];
    tests.extend(golden::tests());
    tidegate_testkit::kube::suite::main(tests)
}
