//! Tests on a real Kubernetes control plane.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code"
)]

mod admission;
mod cluster;
mod conformance;
mod definitions;
mod engine;
mod golden;
mod harness;
mod replacing;
mod rivals;
mod rough;
mod webhook;

use tidegate_testkit::kube::suite::Test;

fn main() -> std::process::ExitCode {
    tidegate_testkit::kube::suite::main(tests)
}

fn tests() -> Vec<Test> {
    let mut tests = tidegate_testkit::kube_tests![
        rough::the_api_server_dies_and_etcd_stands_still,
        cluster::reads::kinds_are_those_that_can_be_read,
        cluster::reads::lists_of_many_pages_and_what_a_plan_is_told,
        cluster::reads::whoever_may_see_one_namespace_only_is_told_of_that_one,
        cluster::reads::what_controllers_label_is_not_the_applications,
        cluster::reads::watches_tell_every_change_after_the_list,
        cluster::reads::a_watch_that_the_server_ends_goes_on_where_it_was,
        cluster::reads::pods_are_found_through_what_stands_between,
        cluster::trouble::one_connection_survives_a_server_that_was_killed,
        cluster::trouble::a_store_that_stands_still_costs_the_time_limit,
        cluster::trouble::dropped_calls_leave_nothing_behind,
        cluster::writes::each_mode_says_what_it_did_as_kubectl_does,
        cluster::writes::client_side_apply_leaves_what_others_wrote_and_hands_over_to_the_server_side,
        cluster::writes::a_binding_to_another_role_is_made_anew,
        cluster::writes::conflicts_name_the_field_and_its_owner,
        cluster::writes::a_new_kind_is_served_when_its_definition_was_written,
        cluster::writes::deletions_are_bound_to_one_object_and_say_whether_it_is_gone,
        cluster::writes::refusals_say_why,
        harness::pods_run_as_their_annotations_say,
        harness::storage_and_addresses_come,
        harness::deletion_completes_or_is_stuck,
        harness::the_audit_says_what_was_done_in_order,
        harness::a_limited_user_may_do_what_it_was_given,
        harness::a_server_can_be_killed_and_stopped,
        conformance::create_update_repeat,
        conformance::creating,
        conformance::guarded,
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
        conformance::statuses,
        conformance::watching,
        conformance::listing,
        conformance::living,
        conformance::tracking,
        conformance::pods_of_workloads,
        conformance::jobs,
        conformance::rollouts,
        admission::a_webhook_refuses,
        admission::a_webhook_echoes_a_secret,
        admission::a_webhook_times_out,
        admission::a_webhook_warns,
        rivals::a_hook_that_comes_at_the_last_moment_is_left_alone,
        replacing::nothing_is_deleted_for_an_object_that_the_server_refuses,
        definitions::a_version_that_its_definition_does_not_serve_fails_at_once,
        definitions::names_that_are_taken_fail_the_operation,
        replacing::the_difference_shows_what_a_replacement_takes_from_others,
        rough::a_binding_gives_another_role,
        rough::a_finalizer_never_clears,
        rough::a_namespace_is_terminating,
        rough::a_namespace_goes_while_the_operation_runs,
        rough::a_definition_is_deleted_meanwhile,
        rough::objects_are_too_large,
        rough::rights_are_missing,
        rough::a_request_that_the_server_gives_up,
    ];
    tests.extend(golden::tests());
    tests
}
