//! Tests on a real Kubernetes control plane.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test code")]
#![allow(clippy::indexing_slicing, reason = "test code")]

mod admission;
mod cluster;
mod cluster_failures;
mod conformance;
mod definitions;
mod engine;
mod golden;
mod harness;
mod replacing;
mod rivals;
mod webhook;

use tidegate_testkit::kube::suite::Test;

fn main() -> std::process::ExitCode {
    tidegate_testkit::kube::suite::main(tests)
}

fn tests() -> Vec<Test> {
    let mut tests = tidegate_testkit::kube_tests![
        cluster_failures::an_operation_survives_outages_of_the_api_server_and_etcd,
        cluster::reads::only_readable_kinds_are_listed,
        cluster::reads::long_lists_are_paged_and_plans_get_the_live_state,
        cluster::reads::a_user_of_one_namespace_gets_only_that_one,
        cluster::reads::labels_set_by_controllers_do_not_mean_ownership,
        cluster::reads::watches_report_every_change_after_the_list,
        cluster::reads::a_watch_that_the_server_ends_continues_where_it_was,
        cluster::reads::pods_are_found_through_their_owners,
        cluster::outages::one_connection_survives_a_killed_server,
        cluster::outages::a_stalled_store_costs_the_time_limit,
        cluster::outages::dropped_calls_leave_nothing_behind,
        cluster::writes::each_mode_reports_its_effect_like_kubectl,
        cluster::writes::client_side_apply_keeps_foreign_fields_and_migrates_to_server_side,
        cluster::writes::a_binding_to_another_role_is_recreated,
        cluster::writes::conflicts_name_the_field_and_its_owner,
        cluster::writes::a_new_kind_is_usable_once_its_definition_is_written,
        cluster::writes::deletions_target_one_object_and_report_whether_it_is_gone,
        cluster::writes::a_suspended_job_starts_only_under_its_uid,
        cluster::writes::refusals_contain_their_reason,
        harness::pods_behave_as_annotated,
        harness::storage_and_addresses_are_provided,
        harness::deletion_completes_or_gets_stuck,
        harness::the_audit_log_is_complete_and_in_order,
        harness::a_limited_user_has_only_its_granted_rights,
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
        conformance::events_of_objects,
        conformance::jobs,
        conformance::rollouts,
        admission::a_webhook_refuses,
        admission::a_webhook_echoes_a_secret,
        admission::a_webhook_times_out,
        admission::a_webhook_warns,
        rivals::a_hook_created_at_the_last_moment_is_left_alone,
        replacing::nothing_is_deleted_for_an_object_that_the_server_refuses,
        definitions::a_version_that_its_definition_does_not_serve_fails_at_once,
        definitions::conflicting_names_fail_the_operation,
        replacing::the_difference_shows_foreign_fields_that_a_replacement_drops,
        cluster_failures::a_changed_binding_is_recreated,
        cluster_failures::a_stuck_finalizer_ends_its_wave_at_the_deadline,
        cluster_failures::a_terminating_namespace_accepts_no_write,
        cluster_failures::a_namespace_deleted_during_a_hook_fails_the_operation,
        cluster_failures::a_definition_deleted_meanwhile_fails_only_its_objects,
        cluster_failures::too_large_objects_are_reported,
        cluster_failures::missing_rights_prevent_all_writes,
        cluster_failures::a_panic_of_the_server_fails_only_its_object,
    ];
    tests.extend(golden::tests());
    tests
}
