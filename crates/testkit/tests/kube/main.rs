//! Tests on a real Kubernetes control plane.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

mod harness;

fn main() -> std::process::ExitCode {
    tidegate_testkit::kube::suite::main(tidegate_testkit::kube_tests![
        harness::pods_run_as_their_annotations_say,
        harness::storage_and_addresses_come,
        harness::deletion_completes_or_is_stuck,
        harness::the_audit_says_what_was_done_in_order,
        harness::a_limited_user_may_do_what_it_was_given,
        harness::a_server_can_be_killed_and_stopped,
    ])
}
