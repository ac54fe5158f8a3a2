//! Which tests hold what `docs/semantics.md` says: the statement as the page begins it, and test functions by file and
//! name, or golden operations, which also run on real control planes.

/// In the order of the page.
#[rustfmt::skip]
pub const PROOFS: &[(&str, &[&str])] = &[
    ("Tidegate is compatible with Argo", &[
        "golden waves",
        "golden hooks",
        "crates/testkit/tests/kube/golden.rs::compare",
        "crates/planner/tests/planner/order.rs::phases_then_waves_then_kinds_then_names",
        "crates/health/tests/rules/texts.rs::messages_are_those_of_argo_cd",
        "crates/lifecycle/tests/lifecycle/traces.rs::c_hooks_before_and_after",
    ]),
    ("a restart in the middle", &[
        "crates/testkit/tests/crash.rs::a_crash_at_any_point_changes_nothing",
        "crates/testkit/tests/simulation.rs::no_seed_breaks_a_rule",
        "crates/testkit/tests/golden.rs::a_hook_of_one_name_is_created_once_in_each_of_its_phases",
    ]),
    ("two operations of one application", &[
        "crates/testkit/tests/executor/claims.rs::a_second_operation_is_refused_and_writes_nothing",
        "crates/testkit/tests/crash.rs::a_crash_at_any_point_keeps_the_claim",
        "tests/e2e-kube/claims.rs::a_second_sync_is_refused_and_says_by_whom",
    ]),
    ("who lets a sync begin", &[
        "crates/testkit/tests/service/main.rs::what_needs_an_approval_is_written_once_as_it_was_approved_whenever_processes_die",
        "crates/service/src/applications/actor/approving/tests.rs::a_sync_waits_with_its_plan_and_writes_nothing_until_that_is_approved",
        "tests/e2e/api/plans.rs::a_plan_waits_for_those_who_may_approve_it_and_is_carried_out_by_one_operation",
    ]),
    ("a retry", &[
        "crates/lifecycle/tests/lifecycle/retries.rs::a_retry_redoes_what_ended_badly_in_the_failed_wave",
        "crates/lifecycle/tests/lifecycle/retries.rs::a_retry_from_the_start_redoes_everything",
        "golden retry",
        "golden retry-restart",
    ]),
    ("waiting", &[
        "crates/lifecycle/tests/lifecycle/deadlines.rs::a_wave_has_a_deadline",
        "crates/lifecycle/tests/lifecycle/deadlines.rs::a_hook_has_a_deadline",
        "crates/lifecycle/tests/lifecycle/deadlines.rs::an_operation_has_a_deadline_across_its_attempts",
        "crates/lifecycle/tests/lifecycle/explain.rs::as_a_person_would_say_it",
    ]),
    ("between waves", &[
        "crates/lifecycle/tests/lifecycle/waiting.rs::weak_evidence_settles_two_seconds_after_the_write",
        "crates/lifecycle/tests/lifecycle/traces.rs::b_a_wave_waits_for_health_before_the_next",
        "tests/e2e/sync.rs::argo_cds_wave_delay_is_honoured_and_nonsense_is_ignored",
    ]),
    ("a wave that prunes and applies", &[
        "crates/testkit/tests/executor/pruning.rs::a_wave_applies_when_what_it_prunes_is_gone",
        "crates/lifecycle/tests/lifecycle/pruning.rs::a_last_wave_applies_at_once_and_ends_when_what_it_prunes_is_gone",
    ]),
    ("an object that was told to go and is still there", &[
        "crates/testkit/tests/executor/pruning.rs::an_operation_ends_when_what_it_prunes_is_gone_and_names_what_keeps_it",
        "crates/lifecycle/tests/lifecycle/pruning.rs::an_object_that_was_told_to_go_is_pruned_when_it_is_gone",
        "crates/lifecycle/tests/lifecycle/pruning.rs::a_wave_that_has_failed_does_not_wait_for_what_it_prunes",
    ]),
    ("prune of an object already gone", &[
        "crates/testkit/tests/executor/pruning.rs::what_is_to_be_pruned_may_be_gone_already",
    ]),
    ("prune of an object that somebody else deletes", &[
        "crates/testkit/tests/executor/pruning.rs::what_somebody_else_deletes_meanwhile_is_not_deleted_again",
    ]),
    ("an object of the manifests that somebody deletes", &[
        "crates/testkit/tests/executor/leaving.rs::what_somebody_deletes_is_made_anew_when_it_is_gone",
        "crates/testkit/tests/executor/leaving.rs::what_never_goes_is_no_success",
    ]),
    ("`Prune=confirm`", &[
        "crates/planner/tests/planner/pruning.rs::prune_decisions",
        "crates/lifecycle/tests/lifecycle/traces.rs::i_a_prune_waits_for_confirmation",
        "crates/application/src/confirmation.rs::a_sync_is_confirmed_by_what_is_dated_from_its_beginning_on",
        "tests/e2e/confirmed.rs::a_prune_that_waits_is_confirmed_by_an_annotation_also_while_the_service_is_killed",
        "golden prune-confirm",
    ]),
    ("an untracked object with a hook's name", &[
        "crates/testkit/tests/executor/rivals.rs::an_object_that_comes_at_the_last_moment_is_not_written_over",
        "crates/planner/tests/planner/hooks.rs::an_object_of_somebody_else_is_never_taken_for_a_hook",
    ]),
    ("an object whose tracking id names another application or another object", &[
        "crates/model/src/tracking/tests.rs::who_owns_what",
        "crates/planner/tests/planner/pruning.rs::only_objects_of_the_application_are_pruned",
    ]),
    ("an object of another installation's, team's or state directory's application of the same name", &[
        "crates/planner/tests/planner/pruning.rs::what_may_be_anothers_is_listed_and_left_alone",
        "tests/e2e/tracking.rs::another_team_with_an_application_of_the_same_name_loses_nothing",
        "tests/e2e-kube/sync.rs::another_team_with_an_application_of_the_same_name_loses_nothing",
    ]),
    ("an object that the application's other tracking method marked", &[
        "crates/planner/tests/planner/tracking.rs::a_changed_method_loses_nothing_and_prunes_nothing_else",
        "tests/e2e/tracking.rs::the_method_may_change_and_nothing_is_lost_or_touched",
    ]),
    ("a definition, a claim of a StatefulSet or an Endpoints object with the application's label", &[
        "crates/model/src/tracking/tests.rs::a_definition_is_nobodys_by_its_label",
        "crates/testkit/tests/kube/cluster/reads.rs::what_controllers_label_is_not_the_applications",
    ]),
    ("`installation-id` with the `label` method", &[
        "crates/model/src/tracking/tests.rs::installations_are_kept_apart",
        "tests/e2e/tracking.rs::installations_do_not_prune_each_others_objects",
    ]),
    ("`ignore-healthcheck`", &[
        "crates/lifecycle/tests/lifecycle/waiting.rs::health_that_is_ignored_holds_back_waves_but_not_the_wait_for_the_application",
    ]),
    ("a misspelt hook word, policy, wave or option", &[
        "crates/planner/tests/planner/findings.rs::findings_of_one_object",
        "crates/planner/src/options.rs::misspelt_options_are_noticed",
        "tests/e2e/plan.rs::findings_are_shown_and_strict_refuses_them",
    ]),
    ("how manifests are applied", &[
        "crates/planner/src/options.rs::a_resource_overrides_how_the_application_is_applied",
        "tests/e2e/sync.rs::options_of_an_operation_are_given_as_sync_options",
    ]),
    ("a wave beyond 64 bits", &[
        "crates/planner/tests/planner/bad_input.rs::table_of_wrong_files",
    ]),
    ("two values of one option in an annotation (`Prune=confirm,Prune=false`)", &[
        "crates/planner/src/options.rs::misspelt_options_are_noticed",
    ]),
    ("`--dry-run`", &[
        "crates/lifecycle/tests/lifecycle/ending.rs::a_dry_run_writes_nothing_and_has_a_result_for_everything",
        "tests/e2e-kube/sync.rs::a_plan_and_a_dry_run_write_nothing",
        "golden dry-run",
    ]),
    ("a hook of another operation that still runs", &[
        "crates/testkit/tests/executor/rivals.rs::the_running_hook_of_another_operation_is_awaited_and_named",
        "tests/e2e-kube/rivals.rs::a_hook_that_another_operation_runs_is_left_alone",
        "crates/testkit/tests/kube/rivals.rs::a_hook_that_comes_at_the_last_moment_is_left_alone",
    ]),
    ("a hook of one name in several phases", &[
        "crates/planner/tests/planner/hooks.rs::one_name_in_two_phases_runs_in_each_whatever_its_policy",
        "crates/testkit/tests/golden.rs::a_hook_of_one_name_is_created_once_in_each_of_its_phases",
    ]),
    ("two hooks with one `generateName` in one phase", &[
        "crates/planner/tests/planner/hooks.rs::hooks_that_would_get_the_same_name",
        "crates/planner/tests/planner/findings.rs::hooks_with_generated_names_never_repeat_each_other",
    ]),
    ("in which operations a hook runs", &[
        "crates/planner/tests/planner/contract.rs::the_contract_of_a_hook_says_in_which_operations_it_runs",
        "crates/planner/tests/planner/contract.rs::hooks_of_a_deletion_have_no_such_contract",
    ]),
    ("a hook whose inputs have not changed", &[
        "crates/planner/tests/planner/contract.rs::a_hook_is_unchanged_when_its_manifest_and_what_it_names_are",
        "crates/planner/tests/planner/contract.rs::an_unchanged_hook_is_left_out_and_said_to_be",
        "crates/planner/tests/planner/contract.rs::what_is_surprising_is_said",
    ]),
    ("a SyncFail hook", &[
        "crates/lifecycle/tests/lifecycle/traces.rs::f_the_only_apply_fails_and_sync_fail_hooks_run",
        "crates/lifecycle/tests/lifecycle/traces.rs::e_one_of_two_applies_fails",
        "golden sync-fail",
    ]),
    ("a failure in a wave", &[
        "crates/lifecycle/tests/lifecycle/failing.rs::only_running_hooks_are_awaited_after_a_failure",
    ]),
    ("order among equal names", &[
        "crates/planner/tests/planner/order.rs::equal_names_are_ordered_by_group_kind_and_namespace",
    ]),
    ("the dry run before the first write", &[
        "crates/lifecycle/tests/lifecycle/failing.rs::a_failed_dry_run_applies_nothing_and_starts_no_hooks",
        "crates/planner/tests/planner/live.rs::kinds_that_come_with_the_operation_are_tried_in_their_wave",
        "crates/testkit/tests/kube/conformance/writes.rs::dry_runs",
    ]),
    ("the wait before a retry", &[
        "crates/lifecycle/tests/lifecycle/retries.rs::waits_between_attempts_double",
    ]),
    ("a namespace for the destination", &[
        "crates/planner/tests/planner/live.rs::the_namespace_is_made_when_asked_for",
        "crates/planner/tests/planner/order.rs::the_destination_namespace_comes_before_objects_of_the_cluster_scope",
        "tests/e2e-kube/sync.rs::the_namespace_is_made_with_its_metadata",
    ]),
    ("a custom resource after its definition", &[
        "crates/lifecycle/tests/lifecycle/waiting.rs::a_definition_is_served_before_its_kind_is_used",
        "crates/testkit/tests/kube/cluster/writes.rs::a_new_kind_is_served_when_its_definition_was_written",
        "golden definition-and-resource",
        "crates/testkit/tests/kube/definitions.rs::a_version_that_its_definition_does_not_serve_fails_at_once",
    ]),
    ("a definition whose names another one has", &[
        "crates/testkit/tests/kube/definitions.rs::names_that_are_taken_fail_the_operation",
        "crates/testkit/tests/executor/planned.rs::a_definition_that_cannot_serve_the_kind_fails_the_wave_at_once",
    ]),
    ("a CustomResourceDefinition or Deployment whose status is older than our write", &[
        "crates/health/tests/rules/general.rs::evidence_by_kind",
        "crates/lifecycle/tests/lifecycle/waiting.rs::weak_evidence_settles_two_seconds_after_the_write",
    ]),
    ("the destination namespace", &[
        "crates/planner/tests/planner/pruning.rs::a_namespace_that_is_asked_for_is_not_pruned",
    ]),
    ("a namespace that is to be pruned, is being deleted, or is deleted and made again, while objects go into it", &[
        "crates/testkit/tests/executor/namespaces.rs::a_namespace_that_was_made_again_while_nobody_looked_fails_the_operation",
        "crates/testkit/tests/executor/namespaces.rs::a_namespace_that_was_made_again_while_the_cluster_was_away_fails_the_operation",
        "crates/lifecycle/tests/lifecycle/namespaces.rs::an_operation_does_not_succeed_in_another_namespace_of_the_same_name",
        "crates/planner/tests/planner/pruning.rs::a_namespace_does_not_go_while_objects_go_into_it",
        "crates/testkit/tests/executor/namespaces.rs::nothing_is_written_into_a_namespace_that_is_going",
        "crates/testkit/tests/executor/namespaces.rs::a_namespace_that_goes_before_the_operation_is_over_fails_it",
        "crates/testkit/tests/kube/rough.rs::a_namespace_goes_while_the_operation_runs",
        "crates/lifecycle/tests/lifecycle/namespaces.rs::a_namespace_is_not_pruned_from_under_what_goes_into_it",
        "crates/testkit/tests/executor/namespaces.rs::a_namespace_that_begins_to_go_while_objects_go_into_it_fails_the_operation",
        "tests/e2e/sync.rs::a_namespace_is_not_pruned_from_under_what_goes_into_it",
    ]),
    ("`FailOnSharedResource` and the tracking id in a manifest", &[
        "crates/planner/tests/planner/live.rs::a_manifest_with_the_tracking_id_of_another_application_is_told",
    ]),
    ("a namespace declared as a hook", &[
        "crates/planner/tests/planner/live.rs::the_namespace_is_made_when_asked_for",
    ]),
    ("a resource that became a hook in the manifests, in whatever phase", &[
        "crates/planner/tests/planner/hooks.rs::a_resource_that_became_a_hook",
    ]),
    ("an object whose manifest is left out (PreDelete hook, unknown hook word)", &[
        "crates/planner/tests/planner/hooks.rs::hooks_do_not_run_when_they_should_not",
        "crates/planner/tests/planner/pruning.rs::skipped_objects_are_neither_applied_nor_pruned",
    ]),
    ("prune of a kind that is no longer served", &[
        "crates/testkit/tests/executor/pruning.rs::what_is_to_be_pruned_may_be_gone_already",
    ]),
    ("`Replace` with `Force` on a definition or namespace", &[
        "crates/planner/tests/planner/live.rs::task_options_come_from_everywhere",
    ]),
    ("`Replace` with `Force`", &[
        "crates/testkit/tests/executor/replacing.rs::nothing_is_deleted_for_an_object_that_the_server_refuses",
        "crates/testkit/tests/kube/replacing.rs::nothing_is_deleted_for_an_object_that_the_server_refuses",
    ]),
    ("`Force=true` without `Replace`", &[
        "crates/testkit/tests/kube/conformance/writes.rs::recreating",
        "golden force",
        "crates/planner/tests/planner/live.rs::task_options_come_from_everywhere",
    ]),
    ("the dry run of a hook whose object of an earlier operation is still there", &[
        "crates/executor/src/effects/trial.rs::other_names_are_valid_where_the_name_was",
        "crates/executor/src/effects/trial.rs::addresses_and_node_ports_are_not_asked_for_twice",
        "golden awkward-hooks-again",
    ]),
    ("a hook that is removed by its own finalizer or TTL before its result was seen", &[
        "crates/testkit/tests/executor/troubles.rs::a_job_without_time_to_live_is_read_before_it_goes",
    ]),
    ("an approval of a wave", &[
        "crates/lifecycle/tests/lifecycle/waiting.rs::a_wave_waits_for_a_person_who_approves_it",
        "crates/lifecycle/tests/lifecycle/waiting.rs::an_approval_holds_for_every_attempt",
        "tests/e2e/gates.rs::a_wave_is_approved_from_another_process",
        "tests/e2e/gates.rs::an_approval_survives_a_kill",
    ]),
    ("a sync window", &[
        "crates/executor/src/gates/window.rs::what_windows_decide",
        "crates/executor/src/gates/window.rs::a_window_goes_by_the_clock_of_its_zone",
        "crates/testkit/tests/executor/extensions.rs::a_wave_waits_for_its_sync_window",
        "tests/e2e/gates.rs::a_sync_window_holds_a_wave_over_a_kill",
    ]),
    ("a soak", &["crates/lifecycle/tests/lifecycle/waiting.rs::a_wave_soaks_after_the_one_before_it_has_passed"]),
    ("a gate that is open, or closed for the same reason as before", &[
        "crates/lifecycle/tests/lifecycle/waiting.rs::a_repeated_answer_of_a_gate_is_no_fact",
        "crates/lifecycle/tests/lifecycle/waiting.rs::a_gate_may_close_again_before_the_others_open",
        "crates/lifecycle/tests/lifecycle/waiting.rs::a_gate_that_was_open_before_a_restart_is_asked_again",
        "crates/testkit/tests/executor/extensions.rs::a_gate_is_asked_once_and_changes_its_answer_by_itself",
        "crates/testkit/tests/executor/extensions.rs::a_gate_that_dies_later_is_closed",
        "crates/testkit/tests/executor/extensions.rs::waiting_at_a_gate_writes_nothing",
    ]),
    ("a gate, hook runner or health judge that nobody registered", &[
        "crates/executor/src/effects/extensions.rs::what_nobody_has_is_named_and_what_somebody_has_is_not",
        "crates/testkit/tests/executor/extensions.rs::a_gate_that_nobody_registered_is_closed",
        "crates/testkit/tests/executor/judges.rs::a_judge_that_nobody_registered_gives_progressing",
    ]),
    ("the manager whose client-side applied fields are taken over", &[
        "crates/planner/tests/planner/live.rs::fields_of_client_side_apply_are_taken_over",
        "crates/testkit/tests/kube/cluster/writes.rs::client_side_apply_leaves_what_others_wrote_and_hands_over_to_the_server_side",
    ]),
    ("a running hook that somebody deletes", &[
        "crates/testkit/tests/executor/troubles.rs::a_hook_that_somebody_deletes_has_failed",
    ]),
    ("the logs of a failed hook", &[
        "crates/testkit/tests/executor/troubles.rs::the_logs_of_a_failed_hook_outlive_it",
    ]),
    ("a cluster that does not answer (no connection, 401, 429, timeouts)", &[
        "crates/testkit/tests/executor/outages.rs::an_outage_of_minutes_is_survived",
        "crates/testkit/tests/executor/outages.rs::it_is_said_since_when_and_why",
        "crates/testkit/tests/executor/outages.rs::a_deadline_ends_the_waiting",
        "crates/testkit/tests/executor/outages.rs::what_keeps_calls_waiting_is_told_before_they_fail",
        "tests/e2e-kube/connection.rs::a_server_that_stands_still_is_named_and_nothing_waits_afterwards",
        "crates/testkit/tests/kube/rough.rs::the_api_server_dies_and_etcd_stands_still",
    ]),
    ("an admission webhook that does not answer", &[
        "crates/testkit/tests/kube/admission.rs::a_webhook_times_out",
        "crates/lifecycle/tests/lifecycle/outages.rs::a_call_that_stalls_is_made_three_times",
    ]),
    ("a RoleBinding or ClusterRoleBinding with another `roleRef`", &[
        "crates/testkit/tests/executor/bindings.rs::another_role_makes_it_anew_in_both_ways_to_apply",
        "crates/testkit/tests/kube/rough.rs::a_binding_gives_another_role",
    ]),
    ("warnings of the server", &[
        "crates/testkit/tests/kube/admission.rs::a_webhook_warns",
        "crates/kube/src/tests/answers.rs::what_the_server_warns_of_comes_with_the_object",
    ]),
    ("what counts as out of sync", &[
        "crates/planner/src/diff/tests.rs::the_prediction_of_the_server_counts",
        "crates/planner/src/diff/tests.rs::a_local_yes_is_a_proof",
        "tests/e2e-kube/sync.rs::a_second_sync_writes_nothing_it_need_not",
    ]),
    ("jq in `ignoreDifferences`", &[
        "crates/planner/src/diff/ignore/jq.rs::what_is_not_a_path_or_could_take_long_is_refused",
    ]),
    ("a resumed Job (`Suspended` is `False`)", &[
        "crates/health/tests/rules/batch.rs::job",
    ]),
    ("HorizontalPodAutoscaler `v2beta1`, `v2beta2`", &[
        "crates/health/tests/rules/others.rs::pod_autoscaler",
    ]),
    ("PodDisruptionBudget `v1beta1`, which has no conditions", &[
        "crates/health/tests/rules/others.rs::disruption_budget",
    ]),
    ("several wildcard scripts for a kind", &[
        "crates/health/tests/lua/selection.rs::of_several_patterns_the_first_in_order_counts_however_they_were_given",
    ]),
    ("a health script that does not load", &[
        "crates/health/tests/lua/selection.rs::a_script_that_does_not_load_costs_its_own_kind_and_no_other",
        "tests/e2e/health.rs::a_script_that_does_not_load_costs_its_own_kind_and_a_warning",
    ]),
    ("`pairs` and `next` in a health script", &[
        "crates/health/tests/lua/idioms.rs::tables_are_gone_through_in_one_order",
    ]),
    ("a health script that does not end", &[
        "crates/health/tests/lua/limits.rs::what_does_not_end_is_ended",
        "crates/health/tests/lua/limits.rs::what_takes_too_much_memory_is_ended",
    ]),
    ("an operation that is too late", &[
        "crates/lifecycle/tests/lifecycle/deadlines.rs::an_operation_has_a_deadline_across_its_attempts",
        "crates/lifecycle/tests/lifecycle/deadlines.rs::an_operation_that_is_late_names_what_it_waited_for",
    ]),
    ("a terminated or late hook", &[
        "crates/lifecycle/tests/lifecycle/deadlines.rs::a_hook_has_a_deadline",
        "crates/lifecycle/tests/lifecycle/ending.rs::terminate_stops_what_runs_and_keeps_what_has_ended",
        "golden hook-deadline",
        "golden terminate",
    ]),
    ("Kept on purpose, because users", &[
        "crates/lifecycle/tests/lifecycle/traces.rs::a_one_wave_without_hooks_is_not_health_gated",
        "crates/lifecycle/tests/lifecycle/waiting.rs::the_last_wave_is_gated_where_that_is_asked_for",
        "crates/planner/tests/planner/hooks.rs::an_earlier_object_is_deleted_first_or_kept",
        "golden hooks-again",
    ]),
    ("An application is deleted by", &[
        "tests/e2e/delete.rs::an_application_goes_in_the_reverse_of_its_sync",
        "tests/e2e/delete.rs::a_killed_deletion_is_resumed_and_each_hook_runs_once",
        "crates/testkit/tests/crash.rs::a_crash_at_any_point_changes_nothing",
        "golden delete",
    ]),
    ("what goes", &[
        "crates/planner/src/deletion.rs::what_goes_and_what_stays",
        "crates/planner/tests/planner/properties.rs::a_deletion_writes_hooks_alone",
        "crates/testkit/tests/executor/deletions.rs::what_an_interrupted_sync_left_goes_too",
        "crates/testkit/tests/executor/deletions.rs::a_hook_that_its_policy_has_kept_goes_too",
        "golden delete-orphan",
    ]),
    ("its order", &[
        "crates/planner/tests/planner/properties.rs::a_deletion_goes_in_the_reverse_of_the_sync",
        "crates/planner/src/deletion.rs::a_namespace_goes_after_what_is_in_it",
        "golden delete-namespace",
    ]),
    ("`Delete=confirm`, `Prune=confirm`", &[
        "crates/planner/src/deletion.rs::what_goes_and_what_stays",
        "crates/testkit/tests/executor/deletions.rs::nothing_goes_before_all_is_confirmed",
        "golden delete-confirm",
    ]),
    ("hooks of the deletion", &[
        "crates/planner/src/hooks.rs::hooks_of_a_deletion",
        "golden delete",
    ]),
    ("a PreDelete hook that fails", &[
        "tests/e2e/delete.rs::a_hook_that_fails_keeps_everything",
        "golden delete-refused-by-hook",
        "golden delete-retry",
    ]),
    ("hooks that have run", &["golden delete", "golden delete-fails-at-its-end"]),
    ("a finalizer that holds an object", &["tests/e2e/delete.rs::a_finalizer_that_holds_an_object_is_named"]),
    ("a namespace that goes, and what is to stay in it", &[
        "crates/planner/src/deletion.rs::what_cannot_stay_is_named",
    ]),
    ("a PostDelete hook in a namespace that goes", &[
        "crates/testkit/tests/executor/deletions.rs::a_namespace_does_not_go_from_under_a_hook_that_comes_after_it",
    ]),
    ("A hook object says which", &[
        "crates/testkit/tests/executor/rivals.rs::the_running_hook_of_another_operation_is_awaited_and_named",
        "crates/testkit/tests/executor/rivals.rs::deadlines_count_while_another_operation_keeps_the_place",
        "crates/testkit/tests/executor/rivals.rs::a_hook_that_comes_at_the_last_moment_is_left_alone",
    ]),
    ("A hook that nobody goes", &[
        "crates/testkit/tests/executor/rivals.rs::the_hook_of_a_dead_operation_blocks_until_it_ends",
    ]),
    ("While an operation runs, a", &[
        "tests/e2e/overrides.rs::an_operation_goes_on_without_what_another_process_has_skipped",
        "tests/e2e/overrides.rs::a_skip_survives_a_kill",
        "crates/lifecycle/tests/lifecycle/overrides.rs::who_is_refused_learns_how_it_stands",
    ]),
    ("waits for its wave, or for its turn in it", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::what_is_skipped_before_its_turn_is_never_written",
    ]),
    ("is applied, or is a prune, and fails now and then, or is not well or not gone yet", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::what_does_not_become_healthy_is_gone_on_without",
        "golden skipped-resource",
    ]),
    ("is a hook that runs", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_hook_at_work_that_is_skipped_is_stopped_first",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_hook_at_work_that_is_marked_as_done_is_let_go",
        "golden skipped-hook",
        "golden hook-marked-as-done",
    ]),
    ("is a hook that is just being created", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_hook_that_is_just_being_created_does_not_run_when_it_is_skipped",
    ]),
    ("is a hook with a runner", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::the_work_of_a_runner_is_not_awaited_when_its_hook_is_skipped",
    ]),
    ("has failed, while its wave is still at work", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_skip_of_a_failed_task_spares_the_attempt",
    ]),
    ("is to be created again, and is on its way out", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::what_is_on_its_way_out_is_not_created_again_when_it_is_skipped",
    ]),
    ("The results are `Skipped` and", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::what_is_not_done_of_a_wave_is_skipped_with_its_gate",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_last_wave_that_is_skipped_changes_nothing_for_the_one_before",
        "crates/lifecycle/tests/lifecycle/overrides.rs::what_a_failure_has_kept_from_being_done_is_done_after_all",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_skip_holds_in_later_attempts",
    ]),
    ("`retry-task` makes a call that", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_call_that_waits_for_its_next_try_is_made_at_once",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_failed_hook_runs_anew_in_the_same_attempt_when_it_is_retried",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_crash_around_a_retry_runs_nothing_twice",
        "crates/lifecycle/tests/lifecycle/overrides.rs::the_next_attempt_begins_at_once_when_what_has_failed_is_retried",
        "crates/lifecycle/tests/lifecycle/overrides.rs::what_was_skipped_is_done_after_all_when_it_is_retried",
        "crates/lifecycle/tests/lifecycle/random.rs::every_operation_ends_and_keeps_its_promises",
        "golden hook-tried-again",
    ]),
    ("A task that is done,", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::who_is_refused_learns_how_it_stands",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_dry_run_has_nothing_to_skip",
        "crates/lifecycle/tests/lifecycle/table/inputs.rs::every_state_with_every_input",
    ]),
    ("A deletion is asked for", &[
        "crates/testkit/tests/executor/pruning.rs::what_somebody_else_deletes_meanwhile_is_not_deleted_again",
        "crates/testkit/tests/executor/pruning.rs::what_somebody_else_writes_meanwhile_is_pruned",
    ]),
    ("What is looked at before", &[
        "crates/testkit/tests/executor/pruning.rs::what_is_somebody_elses_or_to_stay_by_now_is_not_pruned",
    ]),
    ("What somebody else deletes while", &[
        "crates/testkit/tests/executor/leaving.rs::what_somebody_deletes_is_made_anew_when_it_is_gone",
        "crates/testkit/tests/executor/leaving.rs::what_never_goes_is_no_success",
    ]),
    ("An application knows its objects", &[
        "crates/model/src/tracking/tests.rs::who_owns_what",
        "crates/planner/tests/planner/pruning.rs::only_objects_of_the_application_are_pruned",
        "crates/planner/tests/planner/pruning.rs::prune_decisions",
    ]),
    ("`annotation` (default)", &[
        "crates/model/src/tracking/tests.rs::marks_are_those_of_the_method_and_no_others",
        "crates/model/src/tracking/tests.rs::ids_are_written_and_read",
    ]),
    ("`annotation+label`", &[
        "crates/model/src/tracking/tests.rs::marks_are_those_of_the_method_and_no_others",
        "crates/model/src/tracking/tests.rs::labels_hold_names_that_fit",
    ]),
    ("`label`", &[
        "crates/model/src/tracking/tests.rs::who_owns_what",
        "crates/model/src/tracking/tests.rs::marks_are_those_of_the_method_and_no_others",
    ]),
    ("The label is `app.kubernetes.io/instance`, or", &[
        "tests/e2e/tracking.rs::names_and_keys_that_cannot_be_labels_are_refused_before_anything_is_written",
        "crates/model/src/tracking/tests.rs::keys_of_labels_are_checked",
        "crates/model/src/tracking/tests.rs::installations_are_kept_apart",
    ]),
    ("Definitions get no marks, so", &[
        "crates/model/src/tracking/tests.rs::a_definition_is_nobodys_by_its_label",
        "crates/planner/tests/planner/tracking.rs::manifests_are_marked_by_the_method",
        "crates/planner/tests/planner/pruning.rs::only_objects_of_the_application_are_pruned",
    ]),
    ("The method is recorded with", &[
        "tests/e2e/tracking.rs::a_resumed_operation_goes_on_by_its_method",
    ]),
    ("**Changing the method** loses nothing", &[
        "crates/planner/tests/planner/tracking.rs::a_changed_method_loses_nothing_and_prunes_nothing_else",
    ]),
    ("Objects in the manifests get", &[
        "tests/e2e/tracking.rs::the_method_may_change_and_nothing_is_lost_or_touched",
        "crates/planner/tests/planner/live.rs::apply_out_of_sync_only",
    ]),
    ("What only bears the old", &[
        "crates/planner/tests/planner/tracking.rs::a_changed_method_loses_nothing_and_prunes_nothing_else",
        "crates/planner/tests/planner/tracking.rs::an_older_hook_is_known_by_its_label",
    ]),
    ("A sync looks for such", &[
        "crates/model/src/tracking/tests.rs::a_search_looks_at_everything_where_the_annotation_may_be_the_only_mark",
        "tests/e2e-kube/sync.rs::what_is_no_longer_wanted_is_looked_for_where_it_was_put",
        "crates/kube/src/tests/living.rs::without_an_inventory_every_kind_is_searched_by_its_metadata",
    ]),
    ("A changed `--tracking-label` is a", &[
        "crates/planner/tests/planner/tracking.rs::another_label_is_a_new_mark",
    ]),
    ("A mark holds the name", &[
        "crates/planner/tests/planner/pruning.rs::what_may_be_anothers_is_listed_and_left_alone",
    ]),
    ("is at a place where", &[
        "crates/planner/tests/planner/pruning.rs::what_is_known_adopted_or_of_our_installation_is_pruned_anywhere",
        "crates/testkit/tests/executor/inventory.rs::an_application_that_moves_takes_what_it_had_with_it",
    ]),
    ("is in a namespace that", &[
        "crates/planner/tests/planner/pruning.rs::what_may_be_anothers_is_listed_and_left_alone",
    ]),
    ("bears our installation id (`--installation-id`).", &[
        "crates/planner/tests/planner/pruning.rs::what_is_known_adopted_or_of_our_installation_is_pruned_anywhere",
        "tests/e2e/tracking.rs::the_id_of_an_installation_makes_what_is_found_elsewhere_its_own",
    ]),
    ("For the deletion of an", &[
        "crates/testkit/tests/executor/deletions.rs::what_an_application_is_known_to_have_goes_and_what_stays_is_named",
    ]),
    ("is among the manifests, or", &[
        "crates/testkit/tests/executor/deletions.rs::what_an_application_is_known_to_have_goes_and_what_stays_is_named",
        "tests/e2e-kube/taken_over.rs::it_goes_with_its_objects_of_the_cluster_scope",
    ]),
    ("is in `status.resources` of the", &[
        "crates/testkit/tests/executor/deletions.rs::what_an_application_is_known_to_have_goes_and_what_stays_is_named",
    ]),
    ("So an application that was", &[
        "tests/e2e-kube/taken_over.rs::it_goes_with_its_objects_of_the_cluster_scope",
        "tests/e2e/explained.rs::a_deletion_is_shown_in_its_order_before_it_is_asked_for",
    ]),
    ("Everything else under the application's", &[
        "crates/testkit/tests/executor/inventory.rs::an_application_of_the_same_name_elsewhere_is_left_alone_until_it_is_adopted",
        "crates/testkit/tests/executor/inventory.rs::what_was_adopted_is_pruned_and_stays_known_when_the_operation_fails",
        "tests/e2e/tracking.rs::another_team_with_an_application_of_the_same_name_loses_nothing",
        "tests/e2e/tracking.rs::adopting_is_recorded_with_the_operation",
    ]),
    ("knows the application, and has searched the cluster once", &[
        "crates/testkit/tests/executor/inventory.rs::after_one_search_the_inventory_tells_what_to_prune",
    ]),
    ("knows the application from syncs without `--prune`", &[
        "crates/testkit/tests/executor/inventory.rs::after_one_search_the_inventory_tells_what_to_prune",
    ]),
    ("does not know the application", &[
        "tests/e2e-kube/sync.rs::a_first_sync_lists_no_kinds_but_its_own",
        "crates/kube/src/tests/living.rs::a_narrow_search_lists_the_kinds_that_are_named_or_known",
    ]),
    ("`--adopt` always looks through the", &[
        "crates/testkit/tests/executor/inventory.rs::an_application_of_the_same_name_elsewhere_is_left_alone_until_it_is_adopted",
        "crates/kube/src/tests/living.rs::without_an_inventory_every_kind_is_searched_by_its_metadata",
        "crates/kube/src/tests/living.rs::a_label_is_searched_for_and_not_everything",
    ]),
    ("**Where rights end at a", &[
        "crates/kube/src/tests/living.rs::what_cannot_be_searched_is_told",
        "tests/e2e-kube/taken_over.rs::it_goes_with_its_objects_where_only_their_namespace_may_be_seen",
    ]),
    ("a plan that may prune", &[
        "crates/testkit/tests/executor/deletions.rs::a_search_that_was_refused_is_made_again",
    ]),
    ("a deletion does not run", &[
        "crates/testkit/tests/executor/deletions.rs::what_cannot_be_looked_for_keeps_an_application_from_being_deleted",
        "tests/e2e-kube/taken_over.rs::it_goes_with_its_objects_where_only_their_namespace_may_be_seen",
    ]),
    ("A search reads metadata only,", &[
        "crates/kube/src/tests/living.rs::without_an_inventory_every_kind_is_searched_by_its_metadata",
        "crates/kube/src/tests/living.rs::a_label_is_searched_for_and_not_everything",
    ]),
    ("The first of these that", &[
        "crates/health/tests/custom/convention.rs::the_layer_of_an_object",
        "tests/e2e/health.rs::expressions_judge_as_scripts_do",
    ]),
    ("1. **Rules of yours**: the", &[
        "crates/health/tests/cel.rs::annotations_judge_their_object_before_all_other_rules",
        "crates/health/tests/custom/main.rs::statuses_mean_what_their_projects_say",
        "crates/health/tests/custom/main.rs::more_than_a_hundred_groups_are_judged_and_each_rule_cites_its_source",
        "crates/health/tests/custom/convention.rs::the_convention_in_its_order",
        "crates/health/tests/custom/convention.rs::the_convention_can_be_switched_off",
    ]),
    ("The plan says which layer", &[
        "tests/e2e/health.rs::the_plan_says_who_judges_and_the_convention_can_be_switched_off",
    ]),
    ("**A status that comes late.**", &[
        "crates/health/tests/custom/convention.rs::an_object_without_a_status_is_given_a_moment",
        "crates/health/tests/custom/convention.rs::a_status_may_be_required",
        "crates/lifecycle/tests/lifecycle/waiting.rs::weak_evidence_settles_two_seconds_after_the_write",
    ]),
    ("**Evidence.** A verdict counts when", &[
        "crates/health/tests/custom/evidence.rs::the_table_says_which_kinds_report_the_generation",
    ]),
    ("**Degraded** ends a wave, so", &[
        "crates/health/tests/custom/main.rs::statuses_mean_what_their_projects_say",
    ]),
    ("The health of an application", &[
        "crates/health/tests/rules/general.rs::an_application_is_as_well_as_the_worst_of_what_counts",
        "tests/e2e/health.rs::several_objects_give_a_list_with_names",
    ]),
    ("It decides two things. `--wait", &[
        "crates/lifecycle/tests/lifecycle/waiting.rs::the_last_wave_is_gated_where_that_is_asked_for",
        "crates/lifecycle/tests/lifecycle/waiting.rs::health_that_is_ignored_holds_back_waves_but_not_the_wait_for_the_application",
    ]),
];
