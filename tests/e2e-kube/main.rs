//! The `tidegate` command on a real control plane: what it does there, by the word of the API server's audit log.
//!
//! Without the binaries of a control plane the tests are reported as ignored, each by its name; `scripts/kube-assets`
//! says how to get them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests stop at the first surprise"
)]

#[path = "../e2e/bench.rs"]
#[allow(dead_code, reason = "shared with the tests on the simulated cluster")]
mod bench;
#[path = "../e2e/manifests.rs"]
#[allow(dead_code, reason = "shared with the tests on the simulated cluster")]
mod manifests;
#[path = "../e2e/thirty.rs"]
mod thirty;

mod applications;
mod cascade;
mod claims;
mod clusters;
mod connection;
mod definitions;
mod deploy;
mod destination;
mod families;
mod from_argo_cd;
mod impersonation;
mod kill;
mod kubectl;
mod many_kills;
mod output;
mod overwritten;
mod parted;
mod projects;
mod real_input;
mod replaced;
mod rights;
mod rivals;
mod secrets;
mod sets;
mod shop;
mod site;
mod store;
mod sync;
mod taken_over;
mod volume;
mod whole_life;
mod written;

use std::process::ExitCode;

use tidegate_testkit::kube::suite;

fn main() -> ExitCode {
    suite::main(tests)
}

fn tests() -> Vec<suite::Test> {
    let mut tests = tidegate_testkit::kube_tests![
        applications::an_application_is_synced_and_its_status_is_read_by_everybody,
        applications::a_killed_service_goes_on_from_what_the_resource_says,
        applications::an_application_goes_with_what_its_finalizers_say,
        applications::an_operation_says_of_itself_only_what_anybody_may_say,
        applications::a_repository_is_opened_by_a_secret_of_the_cluster,
        cascade::a_deletion_in_the_foreground_keeps_the_order_of_the_objects,
        cascade::a_deletion_in_the_foreground_is_told_by_a_condition,
        cascade::applications_that_were_orphaned_are_taken_back_by_the_next_set_of_their_name,
        cascade::objects_outlive_a_deletion_in_the_foreground_that_the_policy_does_not_allow,
        claims::a_second_sync_is_refused_and_says_by_whom,
        claims::a_second_sync_waits_its_turn,
        claims::a_second_sync_ends_the_first,
        claims::a_killed_sync_keeps_its_claim_for_its_resume,
        claims::a_killed_sync_that_waited_for_the_claim_can_be_ended,
        claims::a_sync_that_slept_for_too_long_writes_nothing_more,
        claims::without_the_rights_there_is_a_warning,
        claims::without_the_right_to_renew_it_no_claim_is_made,
        claims::no_claim_is_taken_where_none_is_wanted,
        clusters::a_cluster_that_cannot_be_used_holds_back_only_its_own_applications,
        clusters::a_program_gives_the_credentials_where_that_is_allowed,
        connection::without_a_kubeconfig_it_says_what_to_do,
        connection::an_unknown_context_is_answered_with_those_there_are,
        connection::a_server_that_does_not_answer_is_named,
        connection::a_server_that_stands_still_is_named_and_nothing_waits_afterwards,
        connection::a_signal_ends_what_connects_to_a_server_that_stands_still,
        connection::a_certificate_nobody_vouches_for_is_refused,
        connection::the_namespace_is_that_of_the_context,
        connection::it_acts_as_somebody_else,
        deploy::the_manifests_are_taken_and_the_pod_is_admitted,
        deploy::what_the_chart_and_the_base_make_is_accepted,
        destination::resume_goes_back_to_the_cluster_of_the_record,
        destination::resume_refuses_another_server,
        destination::resume_refuses_another_cluster_at_the_same_url,
        destination::who_cannot_read_which_cluster_it_is_goes_by_the_url,
        destination::resume_all_goes_on_with_simulated_and_real_operations,
        destination::terminate_goes_back_to_the_cluster_as_well,
        families::children_keep_what_the_service_writes_into_them,
        kill::killed_at_random_moments,
        many_kills::a_service_of_thirty_applications_survives_its_kills,
        output::what_a_hook_writes_is_shown_while_it_runs,
        output::a_cluster_that_serves_no_logs_is_noted_and_the_sync_goes_on,
        overwritten::what_people_write_into_the_status_is_put_back_or_heeded,
        overwritten::an_operation_that_was_just_asked_for_is_explained,
        overwritten::a_project_goes_when_no_application_names_it,
        impersonation::operations_write_as_the_service_account_of_their_project,
        projects::an_application_keeps_to_its_project,
        parted::a_sync_ends_with_its_hook_when_its_application_is_gone,
        replaced::objects_that_are_replaced_stay_in_sync,
        rights::the_documented_roles_are_enough,
        rights::what_is_forbidden_is_named,
        rights::missing_rights_are_reported_together,
        rivals::a_hook_that_another_operation_runs_is_left_alone,
        secrets::a_canary_is_seen_nowhere,
        sets::deletions::a_set_goes_by_the_steps_of_its_deletion,
        sets::deletions::an_annotation_says_in_which_order_members_go,
        sets::kills::a_service_of_a_set_survives_its_kills,
        sets::rollouts::a_set_is_rolled_out_and_taken_down_in_order_by_processes_that_are_killed,
        sets::rollouts::what_follows_a_member_that_fails_is_not_begun_until_that_is_mended,
        sets::rollouts::people_open_the_steps_that_wait_for_them,
        sets::rollouts::a_newer_commit_waits_for_the_end_of_a_rollout_that_is_finished,
        sets::rollouts::a_newer_commit_supersedes_a_rollout,
        shop::the_shop_is_deployed_in_order,
        shop::the_shop_survives_a_kill,
        store::the_resources_are_shown_as_a_service_shows_them,
        store::what_is_asked_for_in_a_resource_is_done_and_waited_for,
        store::an_operation_under_way_is_ended_and_never_written_over,
        store::rights_that_are_missing_and_definitions_are_named,
        sync::a_plan_and_a_dry_run_write_nothing,
        sync::without_a_dry_run_each_object_costs_one_request,
        sync::what_goes_when_fields_of_kubectl_are_taken_over_is_told,
        sync::what_kubectl_applied_differs_only_where_it_differs,
        sync::a_second_sync_writes_nothing_it_need_not,
        sync::what_is_no_longer_wanted_is_pruned,
        sync::what_is_no_longer_wanted_is_looked_for_where_it_was_put,
        sync::another_team_with_an_application_of_the_same_name_loses_nothing,
        sync::a_first_sync_lists_no_kinds_but_its_own,
        sync::the_namespace_is_made_with_its_metadata,
        sync::a_traced_sync_ends_though_nobody_reads_standard_error,
        taken_over::it_goes_with_its_objects_where_only_their_namespace_may_be_seen,
        taken_over::it_goes_with_its_objects_of_the_cluster_scope,
        volume::thousands_of_objects_fit_into_little_memory,
        whole_life::an_application_from_its_first_day_to_its_last,
        written::a_status_is_written_once_a_second_at_most,
    ];
    let real_input = real_input::argo_cd_becomes_healthy_and_stays_as_it_is;
    let name = "real_input::argo_cd_becomes_healthy_and_stays_as_it_is";
    tests.push(suite::Test::new(name, real_input).reading(real_input::install()));
    let over = from_argo_cd::applications_go_over_one_at_a_time;
    let name = "from_argo_cd::applications_go_over_one_at_a_time";
    tests.push(suite::Test::new(name, over).reading(from_argo_cd::definitions()));
    let judges = definitions::a_server_judges_by_ours_as_by_those_of_argo_cd;
    let name = "definitions::a_server_judges_by_ours_as_by_those_of_argo_cd";
    tests.push(suite::Test::new(name, judges).reading(from_argo_cd::definitions()));
    tests
}
