//! The page of `tidegate serve` in a real browser: what people see, what they can do, and what they are kept from.
//!
//! The browser is Chromium, driven by its own driver. Without them the tests are reported as ignored, each by its name;
//! `TIDEGATE_REQUIRE_BROWSER=1` makes them fail.
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
#[allow(dead_code, reason = "shared with the tests of the command")]
mod bench;

mod again;
mod browser;
mod coming;
mod decisions;
mod door;
mod everybody;
mod hostile;
mod kept;
mod many;
mod overruled;
#[path = "../provider/mod.rs"]
mod provider;
mod records;
mod service;
mod steering;
mod views;
mod wire;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use tidegate_testkit::effort;

/// A test and its name.
type Test = (&'static str, fn());

/// A list of tests from the paths of functions.
macro_rules! tests {
    ($($path:path),* $(,)?) => {
        [$((stringify!($path), $path as fn())),*]
    };
}

/// How many browsers run at once, unless `--test-threads` says otherwise.
const AT_ONCE: usize = 3;
const REQUIRED: &str = "TIDEGATE_REQUIRE_BROWSER";
const AXE_REQUIRED: &str = "TIDEGATE_REQUIRE_AXE";
/// What needs axe-core.
const BY_AXE: &str = "everybody::axe_finds_nothing_serious";
/// What only the long form of the suites does, and whoever asks for tests by their names: cases beside those of the short form, on
/// the same views.
const LONG: [&str; 24] = [
    "door::an_address_that_leads_nowhere_says_so_and_leads_back",
    "door::without_tokens_those_on_this_machine_look_and_have_no_buttons",
    "door::what_cannot_be_sent_and_a_session_that_is_over_are_told_in_words_for_people",
    "views::a_line_that_differs_in_a_long_text_is_found",
    "records::what_was_compacted_says_what_is_left_of_it",
    "steering::what_a_plan_changes_is_shown_and_not_what_differs_besides",
    "steering::what_is_skipped_of_an_operation_is_not_taken_for_done",
    "steering::deletions_that_are_held_are_named_and_approved",
    "decisions::a_prune_that_needs_a_confirmation_is_named_and_confirmed",
    "decisions::an_operation_is_terminated_where_it_is_looked_at",
    "decisions::each_of_several_sources_has_its_own_revision",
    "overruled::objects_are_retried_skipped_and_marked_as_done",
    "overruled::a_step_is_skipped_and_a_rollout_terminated",
    "again::a_member_and_a_step_of_a_rollout_are_retried",
    "again::what_is_not_done_of_a_wave_is_marked_as_done",
    "again::what_a_wave_leaves_alone_is_neither_named_nor_counted",
    "again::an_application_is_looked_at_when_somebody_asks_for_it",
    "again::a_set_is_looked_at_when_somebody_asks_for_it",
    "kept::a_kept_plan_that_does_not_fit_any_more_writes_nothing",
    "kept::a_kept_plan_that_needs_an_approval_is_approved_and_then_carried_out",
    "coming::who_would_come_change_and_go_is_told_before_a_rollout_begins",
    "coming::what_would_stay_and_why_is_told_before_a_rollout_begins",
    "everybody::times_are_those_of_the_reader",
    "many::where_as_many_listen_as_may_the_page_says_so_and_reads_its_lists_again",
];

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let missing = browser::missing();
    let is_said = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
    let is_required = is_said(REQUIRED);
    let is_without_axe = !is_said(AXE_REQUIRED) && everybody::axe().is_none();
    if let Some(missing) = &missing {
        eprintln!("SKIPPED: the tests in a browser. {missing}");
    }
    let is_whole = effort::is_long() || arguments.filter.is_some();
    let trial = |(name, test): Test| {
        let why = missing.clone().unwrap_or_default();
        let is_absent = missing.is_some();
        let left_out = match () {
            () if is_absent && !is_required => " (no browser)",
            () if is_without_axe && name == BY_AXE => " (no axe-core)",
            () if !is_whole && LONG.contains(&name) => " (TIDEGATE_LONG_TESTS=1 runs it)",
            () => "",
        };
        let run = move || if is_absent { Err(Failed::from(why)) } else { passed(test) };
        Trial::test(format!("{name}{left_out}"), run).with_ignored_flag(!left_out.is_empty())
    };
    libtest_mimic::run(&arguments, tests().into_iter().map(trial).collect()).exit_code()
}

fn passed(test: fn()) -> Result<(), Failed> {
    test();
    Ok(())
}

fn tests() -> Vec<Test> {
    tests![
        door::the_address_that_is_printed_signs_in_and_another_browser_is_asked_for_a_token,
        door::a_token_signs_in_and_its_end_ends_the_session,
        door::an_address_that_leads_nowhere_says_so_and_leads_back,
        door::somebody_signs_in_with_a_provider_and_out_again,
        door::whoever_may_look_has_no_buttons,
        door::without_tokens_those_on_this_machine_look_and_have_no_buttons,
        door::what_cannot_be_sent_and_a_session_that_is_over_are_told_in_words_for_people,
        views::the_fleet_is_shown_filtered_and_lives,
        views::an_application_is_shown_in_the_order_of_its_next_sync,
        views::a_line_that_differs_in_a_long_text_is_found,
        views::an_operation_is_watched_and_read_afterwards,
        views::a_failed_operation_shows_its_attempts_and_waits,
        views::what_has_failed_or_was_not_begun_is_said_as_that,
        records::operations_are_found_by_who_when_and_what_and_passed_on_as_a_file,
        records::what_was_compacted_says_what_is_left_of_it,
        views::a_rollout_is_shown_step_by_step,
        steering::an_application_is_synced_and_deleted_after_a_question,
        steering::a_plan_that_waits_is_shown_and_approved,
        steering::what_a_plan_changes_is_shown_and_not_what_differs_besides,
        steering::an_operation_is_held_goes_on_and_is_approved,
        steering::what_is_skipped_of_an_operation_is_not_taken_for_done,
        steering::a_rollout_is_approved_paused_and_skipped_with_a_reason,
        steering::deletions_that_are_held_are_named_and_approved,
        steering::a_set_is_deleted_in_its_order,
        decisions::what_is_synced_by_hand_is_tried_pruned_and_goes_back,
        decisions::a_prune_that_needs_a_confirmation_is_named_and_confirmed,
        decisions::an_operation_is_terminated_where_it_is_looked_at,
        decisions::each_of_several_sources_has_its_own_revision,
        overruled::objects_are_retried_skipped_and_marked_as_done,
        overruled::a_step_is_skipped_and_a_rollout_terminated,
        again::a_member_and_a_step_of_a_rollout_are_retried,
        again::what_is_not_done_of_a_wave_is_marked_as_done,
        again::what_a_wave_leaves_alone_is_neither_named_nor_counted,
        again::an_application_is_looked_at_when_somebody_asks_for_it,
        again::a_set_is_looked_at_when_somebody_asks_for_it,
        kept::a_plan_is_kept_looked_at_and_carried_out_as_it_is,
        kept::a_kept_plan_that_does_not_fit_any_more_writes_nothing,
        kept::a_kept_plan_that_needs_an_approval_is_approved_and_then_carried_out,
        coming::who_would_come_change_and_go_is_told_before_a_rollout_begins,
        coming::what_would_stay_and_why_is_told_before_a_rollout_begins,
        everybody::the_keyboard_leads_everywhere,
        everybody::nothing_is_wider_than_a_telephone,
        everybody::both_colour_schemes_can_be_read,
        everybody::axe_finds_nothing_serious,
        everybody::times_are_those_of_the_reader,
        hostile::texts_of_others_are_texts,
        hostile::texts_of_a_set_and_its_rollout_are_texts,
        hostile::what_a_hook_writes_is_text_and_shown_while_it_runs,
        many::thousands_of_rows_are_fetched_as_they_are_seen,
        many::where_as_many_listen_as_may_the_page_says_so_and_reads_its_lists_again,
    ]
    .to_vec()
}
