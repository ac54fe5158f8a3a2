//! The page of `tidegate serve` in a real browser: content, actions and restrictions.
//!
//! The browser is Chromium with its own driver. If either is missing, each test is reported by name as
//! ignored; with `TIDEGATE_REQUIRE_BROWSER=1`, it fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests may panic")]
#![allow(clippy::indexing_slicing, clippy::disallowed_methods, missing_docs, reason = "tests may panic")]

#[path = "../e2e/bench.rs"]
#[allow(dead_code, reason = "shared with the tests of the command")]
mod bench;

mod accessibility;
mod browser;
mod decisions;
mod hostile;
mod http;
mod long_lists;
mod manual_retries;
mod object_overrides;
mod plan_details;
#[path = "../provider/provider.rs"]
mod provider;
mod records;
mod rollout_preview;
mod service;
mod sign_in;
mod user_actions;
mod views;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use tidegate_testkit::effort;

/// A test and its name.
type Test = (&'static str, fn());

/// Creates a list of tests from the paths of functions.
macro_rules! tests {
    ($($path:path),* $(,)?) => {
        [$((stringify!($path), $path as fn())),*]
    };
}

/// Number of concurrent browsers unless `--test-threads` is given.
const MAX_BROWSERS: usize = 3;
const REQUIRED: &str = "TIDEGATE_REQUIRE_BROWSER";
const AXE_REQUIRED: &str = "TIDEGATE_REQUIRE_AXE";
/// Test that requires axe-core.
const AXE_TEST: &str = "accessibility::axe_finds_nothing_serious";
/// Tests that run only in the long form or if selected by name. They cover additional cases in the views of
/// the short form.
const LONG_TESTS: [&str; 24] = [
    "sign_in::an_unknown_address_is_reported_with_a_way_back",
    "sign_in::without_tokens_local_users_are_read_only",
    "sign_in::failed_requests_and_expired_sessions_are_reported_readably",
    "views::a_changed_line_of_a_long_text_is_found",
    "records::a_compacted_operation_shows_what_remains",
    "user_actions::a_plan_shows_its_changes_and_no_other_differences",
    "user_actions::skipped_work_of_an_operation_does_not_count_as_done",
    "user_actions::held_deletions_are_named_and_approved",
    "decisions::a_prune_that_needs_confirmation_is_named_and_confirmed",
    "decisions::an_operation_is_terminated_on_its_own_view",
    "decisions::each_of_several_sources_has_its_own_revision",
    "object_overrides::objects_are_retried_skipped_and_marked_as_done",
    "object_overrides::a_step_is_skipped_and_a_rollout_terminated",
    "manual_retries::a_member_and_a_step_of_a_rollout_are_retried",
    "manual_retries::the_rest_of_a_wave_is_marked_as_done",
    "manual_retries::objects_that_a_wave_leaves_alone_are_not_listed",
    "manual_retries::an_application_is_refreshed_on_request",
    "manual_retries::an_appset_is_refreshed_on_request",
    "plan_details::an_outdated_stored_plan_writes_nothing",
    "plan_details::a_stored_plan_that_needs_approval_is_approved_and_executed",
    "rollout_preview::added_changed_and_removed_members_are_previewed",
    "rollout_preview::remaining_members_are_previewed_with_their_reason",
    "accessibility::times_are_in_the_local_time_zone",
    "long_lists::without_a_free_event_stream_the_page_says_so_and_polls",
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(MAX_BROWSERS);
    let missing = browser::missing_requirement();
    let is_said = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    let is_required = is_said(REQUIRED);
    let is_without_axe = !is_said(AXE_REQUIRED) && accessibility::find_axe().is_none();
    if let Some(missing) = &missing {
        eprintln!("SKIPPED: browser tests. {missing}");
    }
    for name in LONG_TESTS.iter().chain([&AXE_TEST]) {
        assert!(tests().iter().any(|(known, _)| known == name), "unknown test {name}");
    }
    let is_whole = effort::is_long() || arguments.filter.is_some();
    let trial = |(name, test): Test| {
        let reason = missing.clone().unwrap_or_default();
        let is_absent = missing.is_some();
        let left_out = match () {
            () if is_absent && !is_required => " (no browser)",
            () if is_without_axe && name == AXE_TEST => " (no axe-core)",
            () if !is_whole && LONG_TESTS.contains(&name) => " (TIDEGATE_LONG_TESTS=1 runs it)",
            () => "",
        };
        let run = move || {
            if is_absent {
                return Err(Failed::from(reason));
            }
            test();
            Ok(())
        };
        Trial::test(format!("{name}{left_out}"), run).with_ignored_flag(!left_out.is_empty())
    };
    libtest_mimic::run(&arguments, tests().into_iter().map(trial).collect()).exit_code()
}

fn tests() -> Vec<Test> {
    tests![
        sign_in::the_printed_address_signs_in_and_other_browsers_need_a_token,
        sign_in::a_token_signs_in_and_its_revocation_ends_the_session,
        sign_in::an_unknown_address_is_reported_with_a_way_back,
        sign_in::a_user_signs_in_with_a_provider_and_out_again,
        sign_in::a_read_only_user_has_no_buttons,
        sign_in::without_tokens_local_users_are_read_only,
        sign_in::failed_requests_and_expired_sessions_are_reported_readably,
        views::the_fleet_is_displayed_filtered_and_updated_live,
        views::an_application_is_displayed_in_sync_order,
        views::a_changed_line_of_a_long_text_is_found,
        views::an_operation_is_watched_live_and_read_afterwards,
        views::a_failed_operation_shows_its_attempts_and_waits,
        views::failed_and_unstarted_work_is_displayed_as_such,
        records::operations_are_filtered_and_exported_as_a_file,
        records::a_compacted_operation_shows_what_remains,
        views::a_rollout_is_displayed_step_by_step,
        user_actions::an_application_is_synced_and_deleted_after_confirmation,
        user_actions::a_waiting_plan_is_displayed_and_approved,
        user_actions::a_plan_shows_its_changes_and_no_other_differences,
        user_actions::an_operation_is_paused_resumed_and_approved,
        user_actions::skipped_work_of_an_operation_does_not_count_as_done,
        user_actions::a_rollout_is_approved_paused_and_skipped_with_a_reason,
        user_actions::held_deletions_are_named_and_approved,
        user_actions::an_appset_is_deleted_in_order,
        decisions::a_manual_sync_is_tried_pruned_and_rolled_back,
        decisions::a_prune_that_needs_confirmation_is_named_and_confirmed,
        decisions::an_operation_is_terminated_on_its_own_view,
        decisions::each_of_several_sources_has_its_own_revision,
        object_overrides::objects_are_retried_skipped_and_marked_as_done,
        object_overrides::a_step_is_skipped_and_a_rollout_terminated,
        manual_retries::a_member_and_a_step_of_a_rollout_are_retried,
        manual_retries::the_rest_of_a_wave_is_marked_as_done,
        manual_retries::objects_that_a_wave_leaves_alone_are_not_listed,
        manual_retries::an_application_is_refreshed_on_request,
        manual_retries::an_appset_is_refreshed_on_request,
        plan_details::a_plan_is_stored_displayed_and_executed_unchanged,
        plan_details::an_outdated_stored_plan_writes_nothing,
        plan_details::a_stored_plan_that_needs_approval_is_approved_and_executed,
        rollout_preview::added_changed_and_removed_members_are_previewed,
        rollout_preview::remaining_members_are_previewed_with_their_reason,
        accessibility::every_control_is_reachable_by_keyboard,
        accessibility::nothing_is_wider_than_a_phone,
        accessibility::both_color_schemes_are_readable,
        accessibility::axe_finds_nothing_serious,
        accessibility::times_are_in_the_local_time_zone,
        hostile::untrusted_texts_are_displayed_as_text,
        hostile::texts_of_an_appset_and_its_rollout_are_displayed_as_text,
        hostile::hook_output_is_displayed_as_text_while_the_hook_runs,
        long_lists::long_lists_are_fetched_while_scrolling,
        long_lists::without_a_free_event_stream_the_page_says_so_and_polls,
    ]
    .to_vec()
}
