//! The `tidegate` command on a real control plane. The API server's audit log shows its effects.
//!
//! If the binaries of a control plane are missing, each test is reported by name as ignored.
//! `scripts/kube-assets` downloads the binaries.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![allow(clippy::indexing_slicing, clippy::disallowed_methods, missing_docs, reason = "tests may panic")]

#[path = "../e2e/bench.rs"]
#[allow(dead_code, reason = "shared with the tests on the simulated cluster")]
mod bench;
#[path = "../e2e/manifests.rs"]
#[allow(dead_code, reason = "shared with the tests on the simulated cluster")]
mod manifests;
#[path = "../e2e/thirty_applications.rs"]
mod thirty_applications;

#[path = "../../crates/oplog/tests/log/postgres_server.rs"]
mod postgres_server;

mod applications;
mod appsets;
mod argo_cd_takeover;
mod cascade;
mod child_applications;
mod claims;
mod clusters;
mod connection;
mod control_namespace;
mod definitions;
mod deletion_during_sync;
mod deploy;
mod destination;
mod fault_injection;
mod from_argo_cd;
mod impersonation;
mod kill;
mod kube_bench;
mod kubectl;
mod leadership;
mod life_cycle;
mod manual_changes;
mod many_kills;
mod output;
mod projects;
mod real_input;
mod refused;
mod replaced_objects;
mod rights;
mod rivals;
mod secrets;
mod shared_log;
mod shop;
mod status_writes;
mod store;
mod sync;
mod volume;

use std::process::ExitCode;

use tidegate_testkit::kube::suite;

fn main() -> ExitCode {
    suite::main(tests)
}

fn tests() -> Vec<suite::Test> {
    let mut tests = tidegate_testkit::kube_tests![
        applications::an_application_is_synced_and_any_user_reads_its_status,
        applications::a_killed_service_continues_from_the_resource,
        applications::finalizers_determine_how_an_application_is_deleted,
        applications::a_written_operation_gives_no_additional_rights,
        applications::a_secret_of_the_cluster_gives_access_to_a_repository,
        cascade::foreground_deletion_keeps_the_order_of_objects,
        cascade::foreground_deletion_is_reported_by_a_condition,
        cascade::orphaned_applications_are_adopted_by_the_next_appset_of_their_name,
        cascade::objects_survive_a_foreground_deletion_that_the_policy_forbids,
        claims::a_second_sync_is_refused_and_names_the_first,
        claims::a_second_sync_waits_for_the_first,
        claims::a_second_sync_ends_the_first,
        claims::a_killed_sync_keeps_its_claim_for_its_resume,
        claims::a_killed_sync_that_waited_for_the_claim_can_be_terminated,
        claims::a_sync_suspended_for_too_long_writes_nothing_more,
        claims::missing_lease_rights_cause_a_warning,
        claims::without_the_right_to_renew_no_claim_is_created,
        claims::no_claim_is_taken_if_none_is_requested,
        clusters::an_unusable_cluster_blocks_only_its_own_applications,
        clusters::a_credential_program_is_used_if_permitted,
        connection::a_missing_kubeconfig_error_says_what_to_do,
        connection::an_unknown_context_error_lists_the_existing_ones,
        connection::an_unresponsive_server_is_named,
        connection::a_stalled_server_is_named_and_blocks_nothing_afterwards,
        connection::a_signal_interrupts_connections_to_a_stalled_server,
        connection::an_untrusted_certificate_is_refused,
        connection::the_namespace_is_that_of_the_context,
        connection::the_command_impersonates_another_user,
        connection::the_cluster_names_the_requester,
        deploy::the_manifests_are_accepted_and_the_pod_is_admitted,
        deploy::the_output_of_the_chart_and_the_base_is_accepted,
        destination::resume_uses_the_recorded_cluster,
        destination::resume_refuses_another_server,
        destination::resume_refuses_another_cluster_at_the_same_url,
        destination::without_access_to_the_cluster_identity_the_url_decides,
        destination::resume_all_continues_simulated_and_real_operations,
        destination::terminate_uses_the_recorded_cluster_as_well,
        control_namespace::objects_and_leftovers_of_argo_cd_in_another_namespace_are_found,
        child_applications::children_keep_the_fields_that_the_service_writes,
        kill::a_sync_survives_kills_at_random_moments,
        leadership::two_services_run_a_hook_once,
        leadership::a_standby_continues_when_the_first_service_is_killed,
        leadership::a_service_that_lost_its_lease_ends,
        leadership::a_service_waits_for_an_unavailable_api_server,
        shared_log::a_standby_continues_an_operation_when_the_leader_is_killed,
        shared_log::a_suspended_leader_writes_nothing_after_a_takeover,
        shared_log::a_leader_that_stops_hands_over_at_once_with_its_plans,
        shared_log::a_drained_leader_hands_over_at_once,
        shared_log::a_second_leader_is_refused,
        shared_log::a_standby_answers_like_the_leader,
        shared_log::an_unavailable_database_is_reported,
        fault_injection::services_with_a_shared_log_survive_faults,
        fault_injection::lost_events::lost_events_are_reported_after_an_asynchronous_failover,
        fault_injection::full_disk::a_full_disk_of_the_database_pauses_operations,
        many_kills::a_service_of_thirty_applications_survives_its_kills,
        output::hook_output_is_shown_while_the_hook_runs,
        output::missing_logs_are_noted_and_the_sync_continues,
        manual_changes::manual_status_changes_are_reverted_or_respected,
        manual_changes::a_just_requested_operation_is_explained,
        manual_changes::a_project_is_deleted_when_no_application_names_it,
        from_argo_cd::fields_removed_from_git_are_removed_from_the_cluster,
        impersonation::operations_write_as_the_service_account_of_their_project,
        projects::an_application_stays_within_its_project,
        deletion_during_sync::a_sync_ends_with_its_hook_when_its_application_is_gone,
        refused::repeated_keys_are_applied_on_the_client_side_if_permitted,
        refused::fields_that_client_side_apply_would_remove_are_a_difference,
        refused::unknown_fields_are_dropped_without_validation,
        refused::an_application_with_repeated_keys_migrates,
        refused::an_immutable_field_is_named,
        refused::immutable_secrets_are_reported_without_values,
        replaced_objects::replaced_objects_stay_in_sync,
        rights::the_documented_roles_are_sufficient,
        rights::forbidden_requests_are_named,
        rights::missing_rights_are_reported_together,
        rivals::a_running_hook_of_another_operation_is_left_alone,
        secrets::the_canary_appears_nowhere,
        appsets::deletions::an_appset_is_deleted_in_its_steps,
        appsets::deletions::an_annotation_determines_the_deletion_order,
        appsets::kills::a_service_of_an_appset_survives_its_kills,
        appsets::rollouts::an_appset_is_rolled_out_and_deleted_in_order_despite_kills,
        appsets::rollouts::later_steps_wait_until_a_failed_member_is_fixed,
        appsets::rollouts::users_open_manual_steps,
        appsets::rollouts::a_newer_commit_waits_for_a_rollout_to_finish,
        appsets::rollouts::a_newer_commit_supersedes_a_rollout,
        shop::the_shop_is_deployed_in_order,
        shop::the_shop_survives_a_kill,
        store::resources_are_shown_like_by_a_service,
        store::requests_written_to_a_resource_are_executed_and_awaited,
        store::a_running_operation_is_terminated_and_never_overwritten,
        store::missing_rights_and_definitions_are_named,
        sync::a_plan_and_a_dry_run_write_nothing,
        sync::a_claim_waiting_for_its_first_consumer_does_not_block_its_wave,
        sync::without_a_dry_run_each_object_costs_one_request,
        sync::fields_removed_by_the_takeover_from_kubectl_are_reported,
        sync::objects_applied_by_kubectl_show_only_real_differences,
        sync::a_second_sync_makes_no_unnecessary_writes,
        sync::objects_removed_from_the_manifests_are_pruned,
        sync::prunable_objects_are_searched_where_they_were_created,
        sync::a_namesake_application_of_another_team_loses_nothing,
        sync::a_first_sync_lists_only_its_own_kinds,
        sync::the_namespace_is_created_with_its_metadata,
        sync::a_traced_sync_ends_even_if_standard_error_is_not_read,
        argo_cd_takeover::objects_are_deleted_with_rights_in_their_namespace_only,
        argo_cd_takeover::cluster_scoped_objects_are_deleted_with_their_application,
        volume::thousands_of_objects_fit_into_little_memory,
        life_cycle::an_application_works_from_creation_to_deletion,
        status_writes::a_status_is_written_at_most_once_a_second,
    ];
    let real_input = real_input::argo_cd_becomes_healthy_and_stays_unchanged;
    let name = "real_input::argo_cd_becomes_healthy_and_stays_unchanged";
    tests.push(suite::Test::new(name, real_input).with_input(real_input::install()));
    let over = from_argo_cd::applications_migrate_one_at_a_time;
    let name = "from_argo_cd::applications_migrate_one_at_a_time";
    tests.push(suite::Test::new(name, over).with_input(from_argo_cd::definitions()));
    let judges = definitions::our_definitions_validate_like_those_of_argo_cd;
    let name = "definitions::our_definitions_validate_like_those_of_argo_cd";
    tests.push(suite::Test::new(name, judges).with_input(from_argo_cd::definitions()));
    tests
}
