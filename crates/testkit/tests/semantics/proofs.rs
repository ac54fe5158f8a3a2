//! Tests for the statements in `docs/reference/semantics.md`. Each entry contains the beginning of a
//! statement and its tests. A test is a test function, identified by file and name, or a golden operation,
//! which also runs on real control planes.

/// Statements and their tests, in the order of the page.
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
    ("results after a restart", &[
        "crates/testkit/tests/crash.rs::a_crash_at_any_point_changes_nothing",
        "crates/testkit/tests/simulation.rs::no_seed_breaks_a_rule",
        "crates/testkit/tests/golden.rs::a_hook_is_created_once_in_each_of_its_phases",
    ]),
    ("hooks after a restart", &[
        "crates/testkit/tests/crash.rs::a_crash_at_any_point_changes_nothing",
        "crates/testkit/tests/simulation.rs::no_seed_breaks_a_rule",
        "crates/testkit/tests/golden.rs::a_hook_is_created_once_in_each_of_its_phases",
    ]),
    ("deadlines", &[
        "crates/lifecycle/tests/lifecycle/deadlines.rs::a_wave_has_a_deadline",
        "crates/lifecycle/tests/lifecycle/deadlines.rs::a_hook_has_a_deadline",
        "crates/lifecycle/tests/lifecycle/deadlines.rs::an_operation_has_a_deadline_across_its_attempts",
        "crates/lifecycle/tests/lifecycle/explain.rs::explanations_read_like_sentences",
    ]),
    ("a failure in a wave", &[
        "crates/lifecycle/tests/lifecycle/failures.rs::only_running_hooks_are_awaited_after_a_failure",
    ]),
    ("delay before a retry", &[
        "crates/lifecycle/tests/lifecycle/retries.rs::waits_between_attempts_double",
    ]),
    ("**Two operations for one application.**", &[
        "crates/testkit/tests/executor/claims.rs::a_second_operation_is_refused_and_writes_nothing",
        "crates/testkit/tests/crash.rs::a_crash_at_any_point_keeps_the_claim",
        "tests/e2e-kube/claims.rs::a_second_sync_is_refused_and_names_the_first",
    ]),
    ("**Approval of a sync.** As", &[
        "crates/testkit/tests/service/main.rs::an_approved_plan_is_written_once_whenever_processes_die",
        "crates/app-controller/src/actor/tests/approval.rs::a_sync_waits_and_writes_nothing_until_its_plan_is_approved",
        "tests/e2e/api/plans.rs::a_plan_waits_for_its_approvers_and_is_executed_once",
    ]),
    ("**Retries.** When Argo CD retries", &[
        "crates/lifecycle/tests/lifecycle/retries.rs::a_retry_repeats_failed_tasks_of_the_failed_wave",
        "crates/lifecycle/tests/lifecycle/retries.rs::a_retry_from_the_start_repeats_everything",
        "golden retry",
        "golden retry-restart",
    ]),
    ("**Delay between waves.** Argo CD", &[
        "crates/lifecycle/tests/lifecycle/waiting.rs::weak_evidence_settles_two_seconds_after_the_write",
        "crates/lifecycle/tests/lifecycle/traces.rs::b_a_wave_waits_for_health_before_the_next",
        "tests/e2e/sync.rs::argo_cds_wave_delay_is_honored_and_invalid_values_are_ignored",
    ]),
    ("**Operations that exceed their deadline.**", &[
        "crates/lifecycle/tests/lifecycle/deadlines.rs::an_operation_has_a_deadline_across_its_attempts",
        "crates/lifecycle/tests/lifecycle/deadlines.rs::a_late_operation_names_what_it_waited_for",
    ]),
    ("**Message of a failed operation.**", &[
        "crates/lifecycle/tests/lifecycle/diagnostics.rs::the_message_of_a_failed_operation_names_objects_and_reasons",
        "tests/e2e/sync.rs::a_failing_hook_stops_the_rest_and_runs_the_failure_hook",
    ]),
    ("**Cluster outages**, such as a", &[
        "crates/testkit/tests/executor/outages.rs::an_operation_survives_an_outage_of_minutes",
        "crates/testkit/tests/executor/outages.rs::the_start_and_cause_of_an_outage_are_reported",
        "crates/testkit/tests/executor/outages.rs::a_deadline_ends_the_wait",
        "crates/testkit/tests/executor/outages.rs::the_cause_of_a_delay_is_reported_before_calls_fail",
        "tests/e2e-kube/connection.rs::a_stalled_server_is_named_and_blocks_nothing_afterwards",
        "crates/testkit/tests/kube/cluster_failures.rs::an_operation_survives_outages_of_the_api_server_and_etcd",
    ]),
    ("**Admission webhooks that do not", &[
        "crates/testkit/tests/kube/admission.rs::a_webhook_times_out",
        "crates/lifecycle/tests/lifecycle/outages.rs::a_stalled_call_is_tried_three_times",
    ]),
    ("Users rely on some of", &[
        "crates/lifecycle/tests/lifecycle/traces.rs::a_one_wave_without_hooks_is_not_health_gated",
        "crates/lifecycle/tests/lifecycle/waiting.rs::the_last_wave_is_health_gated_on_request",
        "crates/planner/tests/planner/hooks.rs::an_earlier_object_is_deleted_first_or_kept",
        "golden hooks-again",
    ]),
    ("If the last wave has", &[
        "crates/lifecycle/tests/lifecycle/traces.rs::a_one_wave_without_hooks_is_not_health_gated",
        "crates/lifecycle/tests/lifecycle/waiting.rs::the_last_wave_is_health_gated_on_request",
        "crates/planner/tests/planner/hooks.rs::an_earlier_object_is_deleted_first_or_kept",
        "golden hooks-again",
    ]),
    ("If a hook's delete policy", &[
        "crates/lifecycle/tests/lifecycle/traces.rs::a_one_wave_without_hooks_is_not_health_gated",
        "crates/lifecycle/tests/lifecycle/waiting.rs::the_last_wave_is_health_gated_on_request",
        "crates/planner/tests/planner/hooks.rs::an_earlier_object_is_deleted_first_or_kept",
        "golden hooks-again",
    ]),
    ("`HookSucceeded` and `HookFailed` delete hooks", &[
        "crates/lifecycle/tests/lifecycle/traces.rs::a_one_wave_without_hooks_is_not_health_gated",
        "crates/lifecycle/tests/lifecycle/waiting.rs::the_last_wave_is_health_gated_on_request",
        "crates/planner/tests/planner/hooks.rs::an_earlier_object_is_deleted_first_or_kept",
        "golden hooks-again",
    ]),
    ("a wave that prunes and applies", &[
        "crates/testkit/tests/executor/pruning.rs::a_wave_applies_when_its_pruned_objects_are_gone",
        "crates/lifecycle/tests/lifecycle/pruning.rs::the_last_wave_applies_at_once_and_awaits_its_prunes",
    ]),
    ("prune of an object that no longer exists", &[
        "crates/testkit/tests/executor/pruning.rs::pruned_objects_may_be_gone_already",
    ]),
    ("prune of an object that is already being deleted", &[
        "crates/testkit/tests/executor/pruning.rs::a_concurrently_deleted_object_is_not_deleted_again",
    ]),
    ("prune of a kind that the server has stopped serving", &[
        "crates/testkit/tests/executor/pruning.rs::pruned_objects_may_be_gone_already",
    ]),
    ("destination namespace", &[
        "crates/planner/tests/planner/pruning.rs::a_requested_namespace_is_not_pruned",
    ]),
    ("manifest that a sync ignores (PreDelete hook, unknown hook type)", &[
        "crates/planner/tests/planner/hooks.rs::hooks_do_not_run_when_they_should_not",
        "crates/planner/tests/planner/pruning.rs::skipped_objects_are_neither_applied_nor_pruned",
    ]),
    ("a resource that has become a hook", &[
        "crates/planner/tests/planner/hooks.rs::a_resource_that_became_a_hook",
    ]),
    ("**Pruned objects that still exist.**", &[
        "crates/testkit/tests/executor/pruning.rs::an_operation_waits_for_pruned_objects_and_names_their_finalizers",
        "crates/lifecycle/tests/lifecycle/pruning.rs::an_object_counts_as_pruned_once_it_is_gone",
        "crates/lifecycle/tests/lifecycle/pruning.rs::a_failed_wave_does_not_await_its_prunes",
    ]),
    ("**Objects in the manifests that", &[
        "crates/testkit/tests/executor/external_deletions.rs::an_externally_deleted_object_is_recreated_once_it_is_gone",
        "crates/testkit/tests/executor/external_deletions.rs::an_object_that_never_disappears_prevents_success",
    ]),
    ("**`Prune=confirm`.** In Argo CD, this", &[
        "crates/planner/tests/planner/pruning.rs::prune_decisions",
        "crates/lifecycle/tests/lifecycle/traces.rs::i_a_prune_waits_for_confirmation",
        "crates/application/src/confirmation.rs::a_sync_is_confirmed_by_a_time_after_its_start",
        "tests/e2e/prune_confirmation.rs::a_waiting_prune_is_confirmed_by_an_annotation_despite_a_kill",
        "golden prune-confirm",
    ]),
    ("**Tracking id of another application", &[
        "crates/model/src/tracking/tests.rs::owners_of_live_objects",
        "crates/planner/tests/planner/pruning.rs::only_objects_of_the_application_are_pruned",
    ]),
    ("**Applications with the same name**", &[
        "crates/planner/tests/planner/pruning.rs::possibly_foreign_objects_are_listed_and_not_pruned",
        "tests/e2e/tracking.rs::a_namesake_application_of_another_team_loses_nothing",
        "tests/e2e-kube/sync.rs::a_namesake_application_of_another_team_loses_nothing",
    ]),
    ("**Objects marked before a change", &[
        "crates/planner/tests/planner/tracking.rs::a_changed_method_keeps_ownership",
        "tests/e2e/tracking.rs::a_changed_method_loses_and_touches_nothing",
    ]),
    ("**`installation-id` with the `label` method.**", &[
        "crates/model/src/tracking/tests.rs::installations_are_distinguished",
        "tests/e2e/tracking.rs::installations_do_not_prune_each_others_objects",
    ]),
    ("**The application's label on other", &[
        "crates/model/src/tracking/tests.rs::a_crd_is_not_owned_by_its_label",
        "crates/testkit/tests/kube/cluster/reads.rs::labels_set_by_controllers_do_not_mean_ownership",
    ]),
    ("**Tracking id in a manifest.**", &[
        "crates/planner/tests/planner/live.rs::a_manifest_with_the_tracking_id_of_another_application_is_reported",
    ]),
    ("**`FailOnSharedResource=true`.** In Tidegate, this option", &[
        "crates/planner/tests/planner/live.rs::a_manifest_with_the_tracking_id_of_another_application_is_reported",
    ]),
    ("a wave number that exceeds 64 bits", &["crates/planner/tests/planner/bad_input.rs::table_of_invalid_files"]),
    ("two values for the same option in an annotation (`Prune=confirm,Prune=false`)", &[
        "crates/planner/src/sync_options.rs::misspelled_options_are_reported",
    ]),
    ("`--dry-run`", &[
        "crates/lifecycle/tests/lifecycle/termination.rs::a_dry_run_writes_nothing_and_reports_every_task",
        "tests/e2e-kube/sync.rs::a_plan_and_a_dry_run_write_nothing",
        "golden dry-run",
    ]),
    ("order of objects with the same name", &[
        "crates/planner/tests/planner/order.rs::equal_names_are_ordered_by_group_kind_and_namespace",
    ]),
    ("**Misspelled hook types, delete policies,", &[
        "crates/planner/tests/planner/findings.rs::findings_of_one_object",
        "crates/planner/src/sync_options.rs::misspelled_options_are_reported",
        "tests/e2e/plan.rs::findings_are_shown_and_strict_refuses_them",
    ]),
    ("**Misspelled annotations.** Argo CD ignores", &[
        "crates/planner/tests/planner/findings.rs::findings_of_one_object",
        "crates/model/src/annotations/known_keys.rs::misspelled_keys_are_reported_with_the_nearest_known_key",
    ]),
    ("**Dry run before the first", &[
        "crates/lifecycle/tests/lifecycle/failures.rs::a_failed_dry_run_applies_nothing_and_starts_no_hooks",
        "crates/planner/tests/planner/live.rs::kinds_of_new_crds_are_dry_run_in_their_wave",
        "crates/testkit/tests/executor/namespaces.rs::a_refused_object_prevents_a_new_namespace_unless_it_is_in_it",
        "crates/testkit/tests/kube/conformance/writes.rs::dry_runs",
    ]),
    ("**Dry run of objects in", &[
        "crates/lifecycle/tests/lifecycle/failures.rs::a_failed_dry_run_applies_nothing_and_starts_no_hooks",
        "crates/planner/tests/planner/live.rs::kinds_of_new_crds_are_dry_run_in_their_wave",
        "crates/testkit/tests/executor/namespaces.rs::a_refused_object_prevents_a_new_namespace_unless_it_is_in_it",
        "crates/testkit/tests/kube/conformance/writes.rs::dry_runs",
    ]),
    ("hook that another operation is still running", &[
        "crates/testkit/tests/executor/rivals.rs::the_running_hook_of_another_operation_is_awaited_and_named",
        "tests/e2e-kube/rivals.rs::a_running_hook_of_another_operation_is_left_alone",
        "crates/testkit/tests/kube/rivals.rs::a_hook_created_at_the_last_moment_is_left_alone",
    ]),
    ("an untracked object with the name of a hook", &[
        "crates/testkit/tests/executor/rivals.rs::an_object_created_at_the_last_moment_is_not_overwritten",
        "crates/planner/tests/planner/hooks.rs::a_foreign_object_is_never_treated_as_a_hook",
    ]),
    ("two hooks with the same `generateName` in one phase", &[
        "crates/planner/tests/planner/hooks.rs::hooks_that_would_get_the_same_name",
        "crates/planner/tests/planner/findings.rs::hooks_with_generated_names_never_repeat_each_other",
    ]),
    ("a finished hook that is deleted before its result is read, for example because of its TTL", &[
        "crates/testkit/tests/executor/diagnostics.rs::a_job_with_a_zero_ttl_is_read_before_it_is_deleted",
    ]),
    ("a running hook that another client deletes", &[
        "crates/testkit/tests/executor/diagnostics.rs::a_hook_deleted_by_another_user_has_failed",
    ]),
    ("logs of a failed hook", &[
        "crates/testkit/tests/executor/diagnostics.rs::the_logs_of_a_failed_hook_outlive_it",
    ]),
    ("a hook that exceeds its deadline", &[
        "crates/lifecycle/tests/lifecycle/deadlines.rs::a_hook_has_a_deadline",
        "crates/lifecycle/tests/lifecycle/termination.rs::terminate_stops_running_hooks_and_keeps_finished_ones",
        "golden hook-deadline",
        "golden terminate",
    ]),
    ("**One name in several phases.**", &[
        "crates/planner/tests/planner/hooks.rs::a_hook_of_two_phases_runs_in_each_with_any_policy",
        "crates/testkit/tests/golden.rs::a_hook_is_created_once_in_each_of_its_phases",
    ]),
    ("**Operations that run a hook.**", &[
        "crates/planner/tests/planner/hook_conditions.rs::the_hook_on_annotation_selects_operations",
        "crates/planner/tests/planner/hook_conditions.rs::hooks_of_a_deletion_have_no_conditions",
    ]),
    ("**Unchanged hooks.** Argo CD runs", &[
        "crates/planner/tests/planner/hook_conditions.rs::a_hook_is_unchanged_if_its_manifest_and_inputs_are",
        "crates/planner/tests/planner/hook_conditions.rs::an_unchanged_hook_is_excluded_and_reported",
        "crates/planner/tests/planner/hook_conditions.rs::surprising_conditions_are_reported",
    ]),
    ("**SyncFail hooks.** In Argo CD,", &[
        "crates/lifecycle/tests/lifecycle/traces.rs::f_the_only_apply_fails_and_sync_fail_hooks_run",
        "crates/lifecycle/tests/lifecycle/traces.rs::e_one_of_two_applies_fails",
        "golden sync-fail",
    ]),
    ("**Dry run of a hook", &[
        "crates/executor/src/effects/recreation_dry_run.rs::similar_names_are_valid_where_the_name_was",
        "crates/executor/src/effects/recreation_dry_run.rs::addresses_and_node_ports_are_not_requested_twice",
        "golden awkward-hooks-again",
    ]),
    ("These rules apply to hooks", &[
        "crates/planner/tests/planner/hook_conditions.rs::a_hook_is_unchanged_if_its_manifest_and_inputs_are",
        "crates/planner/tests/planner/hook_conditions.rs::an_unchanged_hook_is_excluded_and_reported",
        "crates/planner/tests/planner/hook_conditions.rs::surprising_conditions_are_reported",
    ]),
    ("A hook's inputs are its", &[
        "crates/planner/tests/planner/hook_conditions.rs::a_hook_is_unchanged_if_its_manifest_and_inputs_are",
        "crates/planner/tests/planner/hook_conditions.rs::an_unchanged_hook_is_excluded_and_reported",
        "crates/planner/tests/planner/hook_conditions.rs::surprising_conditions_are_reported",
    ]),
    ("A hook that a user", &[
        "crates/planner/tests/planner/hook_conditions.rs::a_hook_is_unchanged_if_its_manifest_and_inputs_are",
        "crates/planner/tests/planner/hook_conditions.rs::an_unchanged_hook_is_excluded_and_reported",
        "crates/planner/tests/planner/hook_conditions.rs::surprising_conditions_are_reported",
    ]),
    ("Tidegate compares a hook's inputs", &[
        "crates/planner/tests/planner/hook_conditions.rs::a_hook_is_unchanged_if_its_manifest_and_inputs_are",
        "crates/planner/tests/planner/hook_conditions.rs::an_unchanged_hook_is_excluded_and_reported",
        "crates/planner/tests/planner/hook_conditions.rs::surprising_conditions_are_reported",
    ]),
    ("`tidegate.dev/run-when` has no effect on", &[
        "crates/planner/tests/planner/hook_conditions.rs::a_hook_is_unchanged_if_its_manifest_and_inputs_are",
        "crates/planner/tests/planner/hook_conditions.rs::an_unchanged_hook_is_excluded_and_reported",
        "crates/planner/tests/planner/hook_conditions.rs::surprising_conditions_are_reported",
    ]),
    ("`Replace` with `Force` on a CRD or namespace", &[
        "crates/planner/tests/planner/live.rs::task_options_come_from_everywhere",
    ]),
    ("server warnings", &[
        "crates/testkit/tests/kube/admission.rs::a_webhook_warns",
        "crates/kube/src/tests/responses.rs::warnings_of_the_server_are_returned_with_the_object",
    ]),
    ("CRD with names that another CRD already uses", &[
        "crates/testkit/tests/kube/definitions.rs::conflicting_names_fail_the_operation",
        "crates/testkit/tests/executor/planned_writes.rs::a_definition_that_cannot_serve_the_kind_fails_the_wave_at_once",
    ]),
    ("a CRD or Deployment whose status is older than the last write", &[
        "crates/health/tests/rules/general.rs::evidence_by_kind",
        "crates/lifecycle/tests/lifecycle/waiting.rs::weak_evidence_settles_two_seconds_after_the_write",
    ]),
    ("**Custom resources after their CRD.**", &[
        "crates/lifecycle/tests/lifecycle/waiting.rs::a_custom_resource_waits_until_its_kind_is_served",
        "crates/testkit/tests/kube/cluster/writes.rs::a_new_kind_is_usable_once_its_definition_is_written",
        "golden definition-and-resource",
        "crates/testkit/tests/kube/definitions.rs::a_version_that_its_definition_does_not_serve_fails_at_once",
    ]),
    ("**Client-side and server-side apply.** Argo", &[
        "crates/planner/src/sync_options.rs::a_resource_overrides_how_the_application_is_applied",
        "tests/e2e/sync.rs::operation_options_are_given_as_sync_options",
    ]),
    ("**`Replace` with `Force`.** Argo CD", &[
        "crates/testkit/tests/executor/replacing.rs::nothing_is_deleted_for_an_object_that_the_server_refuses",
        "crates/testkit/tests/kube/replacing.rs::nothing_is_deleted_for_an_object_that_the_server_refuses",
    ]),
    ("**`Force=true` without `Replace`.** With client-side", &[
        "crates/testkit/tests/kube/conformance/writes.rs::recreating",
        "golden force",
        "crates/planner/tests/planner/live.rs::task_options_come_from_everywhere",
    ]),
    ("**Managers whose fields a server-side", &[
        "crates/planner/tests/planner/live.rs::fields_of_client_side_apply_are_taken_over",
        "crates/application/tests/rules/progress.rs::the_application_names_a_manager_whose_fields_are_taken_over",
        "crates/testkit/tests/kube/cluster/writes.rs::client_side_apply_keeps_foreign_fields_and_migrates_to_server_side",
    ]),
    ("**Immutable fields.** If a sync", &[
        "tests/e2e-kube/refused.rs::an_immutable_field_is_named",
        "tests/e2e-kube/refused.rs::immutable_secrets_are_reported_without_values",
    ]),
    ("**RoleBindings and ClusterRoleBindings with a", &[
        "crates/testkit/tests/executor/bindings.rs::a_changed_role_recreates_the_binding_in_both_apply_modes",
        "crates/testkit/tests/kube/cluster_failures.rs::a_changed_binding_is_recreated",
    ]),
    ("namespace of the destination", &[
        "crates/planner/tests/planner/live.rs::the_namespace_is_created_if_requested",
        "crates/planner/tests/planner/order.rs::the_destination_namespace_comes_before_objects_of_the_cluster_scope",
        "tests/e2e-kube/sync.rs::the_namespace_is_created_with_its_metadata",
    ]),
    ("destination namespace that the manifests define as a hook", &[
        "crates/planner/tests/planner/live.rs::the_namespace_is_created_if_requested",
    ]),
    ("A namespace may be pruned,", &[
        "crates/testkit/tests/executor/namespaces.rs::a_namespace_recreated_during_downtime_fails_the_operation",
        "crates/testkit/tests/executor/namespaces.rs::a_namespace_recreated_during_an_outage_fails_the_operation",
        "crates/lifecycle/tests/lifecycle/namespaces.rs::an_operation_does_not_succeed_in_a_recreated_namespace",
        "crates/planner/tests/planner/pruning.rs::a_namespace_is_not_pruned_while_objects_are_deployed_to_it",
        "crates/testkit/tests/executor/namespaces.rs::nothing_is_written_into_a_terminating_namespace",
        "crates/testkit/tests/executor/namespaces.rs::a_namespace_deleted_before_the_end_fails_the_operation",
        "crates/testkit/tests/kube/cluster_failures.rs::a_namespace_deleted_during_a_hook_fails_the_operation",
        "crates/lifecycle/tests/lifecycle/namespaces.rs::a_namespace_is_not_pruned_before_its_contents_are_applied",
        "crates/testkit/tests/executor/namespaces.rs::a_namespace_deleted_during_its_writes_fails_the_operation",
        "tests/e2e/sync.rs::a_namespace_is_not_pruned_before_its_contents",
    ]),
    ("If the operation itself would", &[
        "crates/testkit/tests/executor/namespaces.rs::a_namespace_recreated_during_downtime_fails_the_operation",
        "crates/testkit/tests/executor/namespaces.rs::a_namespace_recreated_during_an_outage_fails_the_operation",
        "crates/lifecycle/tests/lifecycle/namespaces.rs::an_operation_does_not_succeed_in_a_recreated_namespace",
        "crates/planner/tests/planner/pruning.rs::a_namespace_is_not_pruned_while_objects_are_deployed_to_it",
        "crates/testkit/tests/executor/namespaces.rs::nothing_is_written_into_a_terminating_namespace",
        "crates/testkit/tests/executor/namespaces.rs::a_namespace_deleted_before_the_end_fails_the_operation",
        "crates/testkit/tests/kube/cluster_failures.rs::a_namespace_deleted_during_a_hook_fails_the_operation",
        "crates/lifecycle/tests/lifecycle/namespaces.rs::a_namespace_is_not_pruned_before_its_contents_are_applied",
        "crates/testkit/tests/executor/namespaces.rs::a_namespace_deleted_during_its_writes_fails_the_operation",
        "tests/e2e/sync.rs::a_namespace_is_not_pruned_before_its_contents",
    ]),
    ("If another client deletes or", &[
        "crates/testkit/tests/executor/namespaces.rs::a_namespace_recreated_during_downtime_fails_the_operation",
        "crates/testkit/tests/executor/namespaces.rs::a_namespace_recreated_during_an_outage_fails_the_operation",
        "crates/lifecycle/tests/lifecycle/namespaces.rs::an_operation_does_not_succeed_in_a_recreated_namespace",
        "crates/planner/tests/planner/pruning.rs::a_namespace_is_not_pruned_while_objects_are_deployed_to_it",
        "crates/testkit/tests/executor/namespaces.rs::nothing_is_written_into_a_terminating_namespace",
        "crates/testkit/tests/executor/namespaces.rs::a_namespace_deleted_before_the_end_fails_the_operation",
        "crates/testkit/tests/kube/cluster_failures.rs::a_namespace_deleted_during_a_hook_fails_the_operation",
        "crates/lifecycle/tests/lifecycle/namespaces.rs::a_namespace_is_not_pruned_before_its_contents_are_applied",
        "crates/testkit/tests/executor/namespaces.rs::a_namespace_deleted_during_its_writes_fails_the_operation",
        "tests/e2e/sync.rs::a_namespace_is_not_pruned_before_its_contents",
    ]),
    ("**Unregistered gates, hook runners and", &[
        "crates/executor/src/effects/extensions.rs::only_missing_extensions_are_named",
        "crates/testkit/tests/executor/extensions.rs::an_unregistered_gate_is_closed",
        "crates/testkit/tests/executor/health_judges.rs::an_unregistered_judge_means_progressing",
    ]),
    ("**Results of gates.** A gate", &[
        "crates/lifecycle/tests/lifecycle/waiting.rs::a_repeated_gate_verdict_is_not_recorded",
        "crates/lifecycle/tests/lifecycle/waiting.rs::a_gate_may_close_again_before_the_others_open",
        "crates/lifecycle/tests/lifecycle/waiting.rs::a_gate_that_was_open_before_a_restart_is_asked_again",
        "crates/testkit/tests/executor/extensions.rs::a_gate_is_queried_once_and_reports_its_changes",
        "crates/testkit/tests/executor/extensions.rs::a_gate_whose_actor_ends_later_is_closed",
        "crates/testkit/tests/executor/extensions.rs::waiting_at_a_gate_writes_nothing",
    ]),
    ("**Approval of a wave.** You", &[
        "crates/lifecycle/tests/lifecycle/waiting.rs::a_wave_waits_for_approval",
        "crates/lifecycle/tests/lifecycle/waiting.rs::an_approval_holds_for_every_attempt",
        "tests/e2e/gates.rs::a_wave_is_approved_from_another_process",
        "tests/e2e/gates.rs::an_approval_survives_a_kill",
    ]),
    ("**Soak.** The soak time starts", &[
        "crates/lifecycle/tests/lifecycle/waiting.rs::a_wave_soaks_after_the_previous_one_passed",
    ]),
    ("**Sync windows.** In Argo CD,", &[
        "crates/executor/src/gates/window.rs::windows_open_and_close_a_gate",
        "crates/executor/src/gates/window.rs::a_window_follows_the_clock_of_its_time_zone",
        "crates/testkit/tests/executor/extensions.rs::a_wave_waits_for_its_sync_window",
        "tests/e2e/gates.rs::a_sync_window_holds_a_wave_despite_a_kill",
    ]),
    ("jq in `ignoreDifferences`", &[
        "crates/planner/src/diff/ignore/jq.rs::non_path_and_expensive_expressions_are_rejected",
    ]),
    ("Argo CD compares an object", &[
        "crates/planner/src/diff/tests.rs::the_server_prediction_counts",
        "crates/planner/src/diff/tests.rs::a_local_difference_is_certain",
        "tests/e2e-kube/sync.rs::a_second_sync_makes_no_unnecessary_writes",
    ]),
    ("a resumed Job (`Suspended` is `False`)", &["crates/health/tests/rules/batch.rs::job"]),
    ("HorizontalPodAutoscaler `v2beta1`, `v2beta2`", &[
        "crates/health/tests/rules/others.rs::pod_autoscaler",
    ]),
    ("PodDisruptionBudget `v1beta1`, which has no conditions", &[
        "crates/health/tests/rules/others.rs::disruption_budget",
    ]),
    ("several wildcard scripts that match a kind", &[
        "crates/health/tests/lua/selection.rs::the_first_of_several_patterns_applies_in_any_input_order",
    ]),
    ("health script that does not load", &[
        "crates/health/tests/lua/selection.rs::an_invalid_script_affects_only_its_kind",
        "tests/e2e/health.rs::a_script_that_does_not_load_affects_only_its_kind",
    ]),
    ("`pairs` and `next` in a health script", &[
        "crates/health/tests/lua/idioms.rs::tables_are_iterated_in_a_fixed_order",
    ]),
    ("health script that runs endlessly", &[
        "crates/health/tests/lua/limits.rs::endless_scripts_are_stopped",
        "crates/health/tests/lua/limits.rs::scripts_with_too_much_memory_are_stopped",
    ]),
    ("**`ignore-healthcheck`.** In both systems, this", &[
        "crates/lifecycle/tests/lifecycle/waiting.rs::ignored_health_holds_back_waves_but_not_the_application",
    ]),
    ("**Failures that are normal during", &[
        "crates/health/tests/rules/grace_period.rs::missing_metrics_are_tolerated_after_a_creation_and_a_change",
        "crates/health/tests/rules/grace_period.rs::only_final_failures_are_degraded_immediately",
        "crates/testkit/tests/executor/watches.rs::a_wave_fails_after_the_grace_period_of_an_autoscaler",
        "crates/app-controller/src/actor/tests/change_debounce.rs::the_end_of_a_grace_period_starts_a_comparison",
    ]),
    ("**PersistentVolumeClaims with `volumeBindingMode: WaitForFirstConsumer`** in", &[
        "crates/testkit/tests/executor/wait_reasons.rs::a_claim_waiting_for_its_first_consumer_does_not_block_its_wave",
    ]),
    ("To delete an application, Tidegate", &[
        "tests/e2e/delete.rs::an_application_is_deleted_in_reverse_sync_order",
        "tests/e2e/delete.rs::a_killed_deletion_is_resumed_and_each_hook_runs_once",
        "crates/testkit/tests/crash.rs::a_crash_at_any_point_changes_nothing",
        "golden delete",
    ]),
    ("hooks of a deletion that keeps the objects", &[
        "crates/planner/tests/planner/hooks.rs::no_deletion_hook_runs_if_objects_stay",
        "tests/e2e/delete.rs::objects_stay_if_requested",
    ]),
    ("hooks that have run", &[
        "golden delete",
        "golden delete-fails-at-its-end",
    ]),
    ("a namespace with objects that must be kept", &[
        "crates/planner/src/deletion.rs::objects_that_cannot_be_retained_are_reported",
    ]),
    ("**Deleted objects.** Both systems delete", &[
        "crates/planner/src/deletion.rs::deleted_and_retained_objects",
        "crates/planner/tests/planner/properties.rs::a_deletion_writes_hooks_alone",
        "crates/testkit/tests/executor/deletions.rs::the_hook_of_an_interrupted_sync_is_deleted_too",
        "crates/testkit/tests/executor/deletions.rs::a_hook_kept_by_its_policy_is_deleted_too",
        "golden delete-orphan",
    ]),
    ("**Deleted hooks.** A deletion always", &[
        "crates/planner/src/deletion.rs::deleted_and_retained_objects",
        "crates/planner/tests/planner/properties.rs::a_deletion_writes_hooks_alone",
        "crates/testkit/tests/executor/deletions.rs::the_hook_of_an_interrupted_sync_is_deleted_too",
        "crates/testkit/tests/executor/deletions.rs::a_hook_kept_by_its_policy_is_deleted_too",
        "golden delete-orphan",
    ]),
    ("**Order of deletion.** Both systems", &[
        "crates/planner/tests/planner/properties.rs::a_deletion_goes_in_the_reverse_of_the_sync",
        "crates/planner/src/deletion.rs::a_namespace_is_deleted_after_its_objects",
        "golden delete-namespace",
    ]),
    ("**`Delete=confirm` and `Prune=confirm`.** If any", &[
        "crates/planner/src/deletion.rs::deleted_and_retained_objects",
        "crates/testkit/tests/executor/deletions.rs::nothing_is_deleted_before_everything_is_confirmed",
        "golden delete-confirm",
    ]),
    ("**Finalizers that block the deletion", &[
        "tests/e2e/delete.rs::a_finalizer_that_blocks_an_object_is_named",
    ]),
    ("**PreDelete hooks that fail.** Argo", &[
        "tests/e2e/delete.rs::a_failing_hook_stops_the_deletion",
        "golden delete-refused-by-hook",
        "golden delete-retry",
    ]),
    ("**PostDelete hooks in a deleted", &[
        "crates/testkit/tests/executor/deletions.rs::a_namespace_is_not_deleted_before_a_later_hook_in_it",
    ]),
    ("**Deletion hooks.** Argo CD runs", &[
        "crates/planner/src/hooks.rs::hooks_of_a_deletion",
        "golden delete",
    ]),
    ("The API server records which", &[
        "tests/e2e-kube/from_argo_cd.rs::fields_removed_from_git_are_removed_from_the_cluster",
        "crates/kube/src/patch/tests/field_owners.rs::fields_of_several_managers_become_ours",
    ]),
    ("To remove fields that Argo", &[
        "tests/e2e-kube/from_argo_cd.rs::fields_removed_from_git_are_removed_from_the_cluster",
        "crates/kube/src/patch/tests/field_owners.rs::fields_of_several_managers_become_ours",
    ]),
    ("**Affected objects.** Tidegate takes over", &[
        "crates/planner/tests/planner/live.rs::fields_of_argo_cd_are_taken_over",
    ]),
    ("**Affected fields.** Tidegate takes over", &[
        "crates/model/src/field_handover.rs::entries_that_can_be_taken_over",
        "crates/model/src/field_handover.rs::fields_outside_of_manifests_stay",
    ]),
    ("**Exceptions.** If another manager also", &[
        "tests/e2e-kube/from_argo_cd.rs::fields_removed_from_git_are_removed_from_the_cluster",
        "crates/planner/tests/planner/live.rs::fields_of_argo_cd_are_taken_over",
    ]),
    ("**Check before the write.** Tidegate", &[
        "crates/executor/src/effects/resources/tests.rs::no_fields_are_taken_over_from_an_object_with_another_owner",
    ]),
    ("**Crash between the two writes.**", &[
        "crates/executor/src/effects/resources/tests.rs::an_interrupted_takeover_is_completed",
    ]),
    ("**`ClientSideApplyMigration=false`.** With this option, Tidegate", &[
        "crates/planner/tests/planner/live.rs::fields_of_argo_cd_are_taken_over",
        "crates/planner/tests/planner/live.rs::fields_of_client_side_apply_are_taken_over",
    ]),
    ("**`ClientSideApplyMigrationManager=NAME`.** In addition to the", &[
        "crates/planner/tests/planner/live.rs::fields_of_client_side_apply_are_taken_over",
    ]),
    ("In the plan, the reason", &[
        "tests/e2e-kube/from_argo_cd.rs::fields_removed_from_git_are_removed_from_the_cluster",
        "crates/planner/src/diff/tests.rs::last_applied_distinguishes_defaults_from_manifest_fields",
    ]),
    ("With server-side apply, the API", &[
        "crates/testkit/tests/executor/refused.rs::repeated_keys_are_named_with_the_way_out",
        "tests/e2e-kube/refused.rs::repeated_keys_are_applied_on_the_client_side_if_permitted",
        "tests/e2e-kube/refused.rs::an_application_with_repeated_keys_migrates",
    ]),
    ("**`ServerSideApply=false`** applies the object on", &[
        "crates/planner/tests/planner/live.rs::fields_that_client_side_apply_would_remove_are_a_difference",
        "tests/e2e-kube/refused.rs::repeated_keys_are_applied_on_the_client_side_if_permitted",
    ]),
    ("**`ServerSideApply=auto`** applies the object on", &[
        "crates/testkit/tests/executor/refused.rs::repeated_keys_are_applied_on_the_client_side_with_auto",
        "tests/e2e-kube/refused.rs::repeated_keys_are_applied_on_the_client_side_if_permitted",
    ]),
    ("**`Validate=false`** omits unknown fields from", &[
        "tests/e2e-kube/refused.rs::unknown_fields_are_dropped_without_validation",
    ]),
    ("You can set `ServerSideApply` and", &[
        "tests/e2e-kube/refused.rs::an_application_with_repeated_keys_migrates",
        "crates/app-controller/src/shared_state.rs::explicit_options_override_the_defaults",
    ]),
    ("A hook object records the", &[
        "crates/testkit/tests/executor/rivals.rs::the_running_hook_of_another_operation_is_awaited_and_named",
        "crates/testkit/tests/executor/rivals.rs::deadlines_count_while_another_operation_runs_the_hook",
        "crates/testkit/tests/executor/rivals.rs::a_hook_created_at_the_last_moment_is_left_alone",
    ]),
    ("Two operations may try to", &[
        "crates/testkit/tests/executor/rivals.rs::the_running_hook_of_another_operation_is_awaited_and_named",
        "crates/testkit/tests/executor/rivals.rs::deadlines_count_while_another_operation_runs_the_hook",
        "crates/testkit/tests/executor/rivals.rs::a_hook_created_at_the_last_moment_is_left_alone",
    ]),
    ("If an operation is interrupted", &[
        "crates/testkit/tests/executor/rivals.rs::the_hook_of_a_dead_operation_blocks_until_it_ends",
    ]),
    ("While an operation runs, users", &[
        "tests/e2e/overrides.rs::an_operation_continues_without_what_another_process_skipped",
        "tests/e2e/overrides.rs::a_skip_survives_a_kill",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_rejected_override_describes_the_current_state",
    ]),
    ("waiting for its wave, or for its turn in the wave", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_task_skipped_before_its_turn_is_never_written",
    ]),
    ("apply or prune being retried, object not healthy, or object not deleted yet", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_task_that_does_not_become_healthy_can_be_skipped",
        "golden skipped-resource",
    ]),
    ("running hook", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_running_hook_that_is_skipped_is_stopped_first",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_running_hook_that_is_marked_as_done_is_released",
        "golden skipped-hook",
        "golden hook-marked-as-done",
    ]),
    ("hook that is being created", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_hook_skipped_during_its_creation_does_not_run",
    ]),
    ("hook that a hook runner executes", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_skipped_hook_does_not_wait_for_its_runner",
    ]),
    ("failed in a wave that is still running", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::skipping_a_failed_task_saves_the_attempt",
    ]),
    ("object being deleted in order to be recreated", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::an_object_being_deleted_is_not_recreated_when_it_is_skipped",
    ]),
    ("**Stopped hooks** end as if", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_running_hook_that_is_skipped_is_stopped_first",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_running_hook_that_is_marked_as_done_is_released",
        "golden skipped-hook",
        "golden hook-marked-as-done",
    ]),
    ("**Released hooks** lose their finalizer.", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_running_hook_that_is_skipped_is_stopped_first",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_running_hook_that_is_marked_as_done_is_released",
        "golden skipped-hook",
        "golden hook-marked-as-done",
    ]),
    ("The result of a skipped", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::skipping_a_wave_skips_its_open_tasks_and_its_gate",
        "crates/lifecycle/tests/lifecycle/overrides.rs::skipping_the_last_wave_does_not_affect_the_previous_one",
        "crates/lifecycle/tests/lifecycle/overrides.rs::tasks_blocked_by_a_failure_run_after_an_override",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_skip_applies_to_later_attempts",
    ]),
    ("**Skipped waves.** If a wave", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::skipping_a_wave_skips_its_open_tasks_and_its_gate",
        "crates/lifecycle/tests/lifecycle/overrides.rs::skipping_the_last_wave_does_not_affect_the_previous_one",
        "crates/lifecycle/tests/lifecycle/overrides.rs::tasks_blocked_by_a_failure_run_after_an_override",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_skip_applies_to_later_attempts",
    ]),
    ("**Blocked tasks.** Tasks that were", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::skipping_a_wave_skips_its_open_tasks_and_its_gate",
        "crates/lifecycle/tests/lifecycle/overrides.rs::skipping_the_last_wave_does_not_affect_the_previous_one",
        "crates/lifecycle/tests/lifecycle/overrides.rs::tasks_blocked_by_a_failure_run_after_an_override",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_skip_applies_to_later_attempts",
    ]),
    ("**Later attempts.** A task remains", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::skipping_a_wave_skips_its_open_tasks_and_its_gate",
        "crates/lifecycle/tests/lifecycle/overrides.rs::skipping_the_last_wave_does_not_affect_the_previous_one",
        "crates/lifecycle/tests/lifecycle/overrides.rs::tasks_blocked_by_a_failure_run_after_an_override",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_skip_applies_to_later_attempts",
    ]),
    ("The effect of `retry-task` depends", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retry_repeats_a_waiting_call_immediately",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retried_hook_runs_again_in_the_same_attempt",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_crash_during_a_retry_runs_nothing_twice",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retry_of_failed_tasks_starts_the_next_attempt_immediately",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retried_task_runs_although_it_was_skipped",
        "crates/lifecycle/tests/lifecycle/random.rs::every_operation_ends_and_keeps_the_invariants",
        "golden hook-tried-again",
    ]),
    ("**Waiting call.** If a call", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retry_repeats_a_waiting_call_immediately",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retried_hook_runs_again_in_the_same_attempt",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_crash_during_a_retry_runs_nothing_twice",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retry_of_failed_tasks_starts_the_next_attempt_immediately",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retried_task_runs_although_it_was_skipped",
        "crates/lifecycle/tests/lifecycle/random.rs::every_operation_ends_and_keeps_the_invariants",
        "golden hook-tried-again",
    ]),
    ("**Failed task in a running", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retry_repeats_a_waiting_call_immediately",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retried_hook_runs_again_in_the_same_attempt",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_crash_during_a_retry_runs_nothing_twice",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retry_of_failed_tasks_starts_the_next_attempt_immediately",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retried_task_runs_although_it_was_skipped",
        "crates/lifecycle/tests/lifecycle/random.rs::every_operation_ends_and_keeps_the_invariants",
        "golden hook-tried-again",
    ]),
    ("**Waiting operation.** If the operation", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retry_repeats_a_waiting_call_immediately",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retried_hook_runs_again_in_the_same_attempt",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_crash_during_a_retry_runs_nothing_twice",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retry_of_failed_tasks_starts_the_next_attempt_immediately",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retried_task_runs_although_it_was_skipped",
        "crates/lifecycle/tests/lifecycle/random.rs::every_operation_ends_and_keeps_the_invariants",
        "golden hook-tried-again",
    ]),
    ("**Skipped task.** With `retry-task`, a", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retry_repeats_a_waiting_call_immediately",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retried_hook_runs_again_in_the_same_attempt",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_crash_during_a_retry_runs_nothing_twice",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retry_of_failed_tasks_starts_the_next_attempt_immediately",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_retried_task_runs_although_it_was_skipped",
        "crates/lifecycle/tests/lifecycle/random.rs::every_operation_ends_and_keeps_the_invariants",
        "golden hook-tried-again",
    ]),
    ("Tidegate refuses `skip`, `mark-done` and", &[
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_rejected_override_describes_the_current_state",
        "crates/lifecycle/tests/lifecycle/overrides.rs::a_dry_run_has_nothing_to_skip",
        "crates/lifecycle/tests/lifecycle/table/inputs.rs::every_state_handles_every_input",
    ]),
    ("Tidegate doesn't request the deletion", &[
        "crates/testkit/tests/executor/pruning.rs::a_concurrently_deleted_object_is_not_deleted_again",
        "crates/testkit/tests/executor/pruning.rs::a_concurrently_changed_object_is_pruned",
    ]),
    ("If other clients keep changing", &[
        "crates/testkit/tests/executor/pruning.rs::a_concurrently_deleted_object_is_not_deleted_again",
        "crates/testkit/tests/executor/pruning.rs::a_concurrently_changed_object_is_pruned",
    ]),
    ("Other waves, a pause or", &[
        "crates/testkit/tests/executor/pruning.rs::an_object_that_became_foreign_or_protected_is_not_pruned",
    ]),
    ("If another client deletes an", &[
        "crates/testkit/tests/executor/external_deletions.rs::an_externally_deleted_object_is_recreated_once_it_is_gone",
        "crates/testkit/tests/executor/external_deletions.rs::an_object_that_never_disappears_prevents_success",
    ]),
    ("Tidegate marks the objects that", &[
        "crates/model/src/tracking/tests.rs::owners_of_live_objects",
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
        "crates/model/src/tracking/tests.rs::owners_of_live_objects",
        "crates/model/src/tracking/tests.rs::marks_are_those_of_the_method_and_no_others",
    ]),
    ("With `annotation+label`, the label is", &[
        "crates/model/src/tracking/tests.rs::marks_are_those_of_the_method_and_no_others",
        "crates/model/src/tracking/tests.rs::labels_hold_names_that_fit",
    ]),
    ("The label is `app.kubernetes.io/instance`, or", &[
        "tests/e2e/tracking.rs::invalid_label_names_and_keys_are_refused_before_any_write",
        "crates/model/src/tracking/tests.rs::keys_of_labels_are_checked",
        "crates/model/src/tracking/tests.rs::installations_are_distinguished",
    ]),
    ("CRDs don't get marks, so", &[
        "crates/model/src/tracking/tests.rs::a_crd_is_not_owned_by_its_label",
        "crates/planner/tests/planner/tracking.rs::manifests_are_marked_by_the_method",
        "crates/planner/tests/planner/pruning.rs::only_objects_of_the_application_are_pruned",
    ]),
    ("Tidegate records the tracking method", &[
        "tests/e2e/tracking.rs::a_resumed_operation_keeps_its_method",
    ]),
    ("If you change the tracking", &[
        "crates/planner/tests/planner/tracking.rs::a_changed_method_keeps_ownership",
    ]),
    ("**Objects in the manifests** get", &[
        "tests/e2e/tracking.rs::a_changed_method_loses_and_touches_nothing",
        "crates/planner/tests/planner/live.rs::apply_out_of_sync_only",
    ]),
    ("**Objects that are no longer", &[
        "crates/planner/tests/planner/tracking.rs::a_changed_method_keeps_ownership",
        "crates/planner/tests/planner/tracking.rs::an_older_hook_is_known_by_its_label",
    ]),
    ("**Search.** A sync looks for", &[
        "crates/model/src/tracking/tests.rs::a_search_reads_everything_if_the_annotation_may_be_the_only_mark",
        "tests/e2e-kube/sync.rs::prunable_objects_are_searched_where_they_were_created",
        "crates/kube/src/tests/live.rs::without_an_inventory_every_kind_is_searched_by_its_metadata",
    ]),
    ("**Recommendation.** When you change the", &[
        "crates/model/src/tracking/tests.rs::a_search_reads_everything_if_the_annotation_may_be_the_only_mark",
        "tests/e2e-kube/sync.rs::prunable_objects_are_searched_where_they_were_created",
        "crates/kube/src/tests/live.rs::without_an_inventory_every_kind_is_searched_by_its_metadata",
    ]),
    ("**Changed label.** With a new", &[
        "crates/planner/tests/planner/tracking.rs::another_label_is_a_new_mark",
    ]),
    ("A mark contains the name", &[
        "crates/planner/tests/planner/pruning.rs::possibly_foreign_objects_are_listed_and_not_pruned",
    ]),
    ("An earlier operation in this", &[
        "crates/planner/tests/planner/pruning.rs::owned_objects_are_pruned_in_any_namespace",
        "crates/testkit/tests/executor/inventory.rs::an_application_that_moves_keeps_its_objects",
    ]),
    ("The object is in one", &[
        "crates/planner/tests/planner/pruning.rs::possibly_foreign_objects_are_listed_and_not_pruned",
    ]),
    ("The object has the id", &[
        "crates/planner/tests/planner/pruning.rs::owned_objects_are_pruned_in_any_namespace",
        "tests/e2e/tracking.rs::an_installation_id_takes_over_objects_found_elsewhere",
    ]),
    ("An operation's target namespaces are", &[
        "crates/planner/tests/planner/pruning.rs::possibly_foreign_objects_are_listed_and_not_pruned",
    ]),
    ("When Tidegate deletes an application,", &[
        "crates/testkit/tests/executor/deletions.rs::known_objects_are_deleted_and_remaining_ones_are_named",
    ]),
    ("The object is in the", &[
        "crates/testkit/tests/executor/deletions.rs::known_objects_are_deleted_and_remaining_ones_are_named",
        "tests/e2e-kube/argo_cd_takeover.rs::cluster_scoped_objects_are_deleted_with_their_application",
    ]),
    ("The Application's `status.resources` lists the", &[
        "crates/testkit/tests/executor/deletions.rs::known_objects_are_deleted_and_remaining_ones_are_named",
    ]),
    ("For example, if you migrate", &[
        "tests/e2e-kube/argo_cd_takeover.rs::cluster_scoped_objects_are_deleted_with_their_application",
        "tests/e2e/explain.rs::a_deletion_is_shown_in_order_before_it_is_requested",
    ]),
    ("An object is *found elsewhere*", &[
        "crates/testkit/tests/executor/inventory.rs::a_namesake_application_is_left_alone_until_it_is_adopted",
        "crates/testkit/tests/executor/inventory.rs::adopted_objects_are_pruned_and_stay_known_after_a_failure",
        "tests/e2e/tracking.rs::a_namesake_application_of_another_team_loses_nothing",
        "tests/e2e/tracking.rs::adoption_is_recorded_with_the_operation",
    ]),
    ("`--adopt` adds all objects that", &[
        "crates/testkit/tests/executor/inventory.rs::a_namesake_application_is_left_alone_until_it_is_adopted",
        "crates/testkit/tests/executor/inventory.rs::adopted_objects_are_pruned_and_stay_known_after_a_failure",
        "tests/e2e/tracking.rs::a_namesake_application_of_another_team_loses_nothing",
        "tests/e2e/tracking.rs::adoption_is_recorded_with_the_operation",
    ]),
    ("contains the application, and the whole cluster has been searched", &[
        "crates/testkit/tests/executor/inventory.rs::after_one_search_the_inventory_determines_what_to_prune",
    ]),
    ("contains the application, but only from syncs without `--prune`", &[
        "crates/testkit/tests/executor/inventory.rs::after_one_search_the_inventory_determines_what_to_prune",
    ]),
    ("doesn't contain the application", &[
        "tests/e2e-kube/sync.rs::a_first_sync_lists_only_its_own_kinds",
        "crates/kube/src/tests/live.rs::a_narrow_search_lists_only_named_or_known_kinds",
    ]),
    ("Tidegate always searches the whole", &[
        "crates/testkit/tests/executor/inventory.rs::a_namesake_application_is_left_alone_until_it_is_adopted",
        "crates/kube/src/tests/live.rs::without_an_inventory_every_kind_is_searched_by_its_metadata",
        "crates/kube/src/tests/live.rs::a_search_by_label_lists_only_matching_objects",
    ]),
    ("**Permissions limited to some namespaces.**", &[
        "crates/kube/src/tests/live.rs::unsearchable_kinds_are_reported",
        "tests/e2e-kube/argo_cd_takeover.rs::objects_are_deleted_with_rights_in_their_namespace_only",
    ]),
    ("For a sync with `--prune`,", &[
        "crates/testkit/tests/executor/deletions.rs::a_refused_search_is_repeated",
    ]),
    ("With incomplete permissions, a deletion", &[
        "crates/testkit/tests/executor/deletions.rs::an_application_is_not_deleted_if_its_objects_cannot_be_searched",
        "tests/e2e-kube/argo_cd_takeover.rs::objects_are_deleted_with_rights_in_their_namespace_only",
    ]),
    ("A search reads only the", &[
        "crates/kube/src/tests/live.rs::without_an_inventory_every_kind_is_searched_by_its_metadata",
        "crates/kube/src/tests/live.rs::a_search_by_label_lists_only_matching_objects",
    ]),
    ("The health rules are divided", &[
        "crates/health/tests/custom/convention.rs::the_layer_of_an_object",
        "tests/e2e/health.rs::expressions_assess_like_scripts",
    ]),
    ("1. **Your rules**: the expressions", &[
        "crates/health/tests/cel.rs::annotations_take_precedence_over_all_other_rules",
        "crates/health/tests/custom/main.rs::documented_statuses_have_the_expected_health",
        "crates/health/tests/custom/main.rs::more_than_a_hundred_groups_have_rules_with_sources",
        "crates/health/tests/custom/convention.rs::the_convention_in_its_order",
        "crates/health/tests/custom/convention.rs::the_convention_can_be_disabled",
    ]),
    ("In the plan, the `health`", &[
        "tests/e2e/health.rs::the_plan_names_the_assessing_rule_and_the_convention_is_optional",
    ]),
    ("The general convention checks the", &[
        "crates/health/tests/cel.rs::annotations_take_precedence_over_all_other_rules",
        "crates/health/tests/custom/main.rs::documented_statuses_have_the_expected_health",
        "crates/health/tests/custom/main.rs::more_than_a_hundred_groups_have_rules_with_sources",
        "crates/health/tests/custom/convention.rs::the_convention_in_its_order",
        "crates/health/tests/custom/convention.rs::the_convention_can_be_disabled",
    ]),
    ("If `observedGeneration` is older than", &[
        "crates/health/tests/cel.rs::annotations_take_precedence_over_all_other_rules",
        "crates/health/tests/custom/main.rs::documented_statuses_have_the_expected_health",
        "crates/health/tests/custom/main.rs::more_than_a_hundred_groups_have_rules_with_sources",
        "crates/health/tests/custom/convention.rs::the_convention_in_its_order",
        "crates/health/tests/custom/convention.rs::the_convention_can_be_disabled",
    ]),
    ("If a `Stalled`, `Failed` or", &[
        "crates/health/tests/cel.rs::annotations_take_precedence_over_all_other_rules",
        "crates/health/tests/custom/main.rs::documented_statuses_have_the_expected_health",
        "crates/health/tests/custom/main.rs::more_than_a_hundred_groups_have_rules_with_sources",
        "crates/health/tests/custom/convention.rs::the_convention_in_its_order",
        "crates/health/tests/custom/convention.rs::the_convention_can_be_disabled",
    ]),
    ("If the object has a", &[
        "crates/health/tests/cel.rs::annotations_take_precedence_over_all_other_rules",
        "crates/health/tests/custom/main.rs::documented_statuses_have_the_expected_health",
        "crates/health/tests/custom/main.rs::more_than_a_hundred_groups_have_rules_with_sources",
        "crates/health/tests/custom/convention.rs::the_convention_in_its_order",
        "crates/health/tests/custom/convention.rs::the_convention_can_be_disabled",
    ]),
    ("If the object has none", &[
        "crates/health/tests/cel.rs::annotations_take_precedence_over_all_other_rules",
        "crates/health/tests/custom/main.rs::documented_statuses_have_the_expected_health",
        "crates/health/tests/custom/main.rs::more_than_a_hundred_groups_have_rules_with_sources",
        "crates/health/tests/custom/convention.rs::the_convention_in_its_order",
        "crates/health/tests/custom/convention.rs::the_convention_can_be_disabled",
    ]),
    ("If none of these rules", &[
        "crates/health/tests/cel.rs::annotations_take_precedence_over_all_other_rules",
        "crates/health/tests/custom/main.rs::documented_statuses_have_the_expected_health",
        "crates/health/tests/custom/main.rs::more_than_a_hundred_groups_have_rules_with_sources",
        "crates/health/tests/custom/convention.rs::the_convention_in_its_order",
        "crates/health/tests/custom/convention.rs::the_convention_can_be_disabled",
    ]),
    ("**Late status.** If only the", &[
        "crates/health/tests/custom/convention.rs::an_object_without_a_status_is_progressing_for_a_minute",
        "crates/health/tests/custom/convention.rs::a_status_may_be_required",
        "crates/lifecycle/tests/lifecycle/waiting.rs::weak_evidence_settles_two_seconds_after_the_write",
    ]),
    ("**Slow controllers.** If a controller", &[
        "crates/health/tests/custom/convention.rs::an_object_without_a_status_is_progressing_for_a_minute",
        "crates/health/tests/custom/convention.rs::a_status_may_be_required",
        "crates/lifecycle/tests/lifecycle/waiting.rs::weak_evidence_settles_two_seconds_after_the_write",
    ]),
    ("**Evidence.** Tidegate relies on a", &[
        "crates/health/tests/custom/evidence.rs::the_table_says_which_kinds_report_the_generation",
    ]),
    ("**Degraded** objects cause their wave", &[
        "crates/health/tests/custom/main.rs::documented_statuses_have_the_expected_health",
        "crates/health/tests/rules/grace_period.rs::only_final_failures_are_degraded_immediately",
    ]),
    ("**Grace period.** If an object", &[
        "crates/health/tests/rules/grace_period.rs::missing_metrics_are_tolerated_after_a_creation_and_a_change",
        "crates/health/tests/rules/grace_period.rs::a_change_of_the_spec_restarts_the_grace_period",
        "crates/health/tests/rules/grace_period.rs::an_annotation_sets_the_grace_period",
        "crates/app-controller/src/actor/tests/change_debounce.rs::the_end_of_a_grace_period_starts_a_comparison",
    ]),
    ("HorizontalPodAutoscalers without metrics or without", &[
        "crates/health/tests/rules/grace_period.rs::missing_metrics_are_tolerated_after_a_creation_and_a_change",
        "crates/health/tests/rules/grace_period.rs::a_change_of_the_spec_restarts_the_grace_period",
        "crates/health/tests/rules/grace_period.rs::an_annotation_sets_the_grace_period",
        "crates/app-controller/src/actor/tests/change_debounce.rs::the_end_of_a_grace_period_starts_a_comparison",
    ]),
    ("Pods whose containers restart or", &[
        "crates/health/tests/rules/grace_period.rs::missing_metrics_are_tolerated_after_a_creation_and_a_change",
        "crates/health/tests/rules/grace_period.rs::a_change_of_the_spec_restarts_the_grace_period",
        "crates/health/tests/rules/grace_period.rs::an_annotation_sets_the_grace_period",
        "crates/app-controller/src/actor/tests/change_debounce.rs::the_end_of_a_grace_period_starts_a_comparison",
    ]),
    ("ReplicaSets that can't create pods", &[
        "crates/health/tests/rules/grace_period.rs::missing_metrics_are_tolerated_after_a_creation_and_a_change",
        "crates/health/tests/rules/grace_period.rs::a_change_of_the_spec_restarts_the_grace_period",
        "crates/health/tests/rules/grace_period.rs::an_annotation_sets_the_grace_period",
        "crates/app-controller/src/actor/tests/change_debounce.rs::the_end_of_a_grace_period_starts_a_comparison",
    ]),
    ("PodDisruptionBudgets whose values can't be", &[
        "crates/health/tests/rules/grace_period.rs::missing_metrics_are_tolerated_after_a_creation_and_a_change",
        "crates/health/tests/rules/grace_period.rs::a_change_of_the_spec_restarts_the_grace_period",
        "crates/health/tests/rules/grace_period.rs::an_annotation_sets_the_grace_period",
        "crates/app-controller/src/actor/tests/change_debounce.rs::the_end_of_a_grace_period_starts_a_comparison",
    ]),
    ("KEDA ScaledObjects that use their", &[
        "crates/health/tests/rules/grace_period.rs::missing_metrics_are_tolerated_after_a_creation_and_a_change",
        "crates/health/tests/rules/grace_period.rs::a_change_of_the_spec_restarts_the_grace_period",
        "crates/health/tests/rules/grace_period.rs::an_annotation_sets_the_grace_period",
        "crates/app-controller/src/actor/tests/change_debounce.rs::the_end_of_a_grace_period_starts_a_comparison",
    ]),
    ("Gardener Shoots with a condition", &[
        "crates/health/tests/rules/grace_period.rs::missing_metrics_are_tolerated_after_a_creation_and_a_change",
        "crates/health/tests/rules/grace_period.rs::a_change_of_the_spec_restarts_the_grace_period",
        "crates/health/tests/rules/grace_period.rs::an_annotation_sets_the_grace_period",
        "crates/app-controller/src/actor/tests/change_debounce.rs::the_end_of_a_grace_period_starts_a_comparison",
    ]),
    ("The annotation `tidegate.dev/health-grace` sets the", &[
        "crates/health/tests/rules/grace_period.rs::missing_metrics_are_tolerated_after_a_creation_and_a_change",
        "crates/health/tests/rules/grace_period.rs::a_change_of_the_spec_restarts_the_grace_period",
        "crates/health/tests/rules/grace_period.rs::an_annotation_sets_the_grace_period",
        "crates/app-controller/src/actor/tests/change_debounce.rs::the_end_of_a_grace_period_starts_a_comparison",
    ]),
    ("KEDA doesn't record when its", &[
        "crates/health/tests/rules/grace_period.rs::missing_metrics_are_tolerated_after_a_creation_and_a_change",
        "crates/health/tests/rules/grace_period.rs::a_change_of_the_spec_restarts_the_grace_period",
        "crates/health/tests/rules/grace_period.rs::an_annotation_sets_the_grace_period",
        "crates/app-controller/src/actor/tests/change_debounce.rs::the_end_of_a_grace_period_starts_a_comparison",
    ]),
    ("The health of an application", &[
        "crates/health/tests/rules/general.rs::an_application_has_the_worst_health_that_counts",
        "tests/e2e/health.rs::several_objects_give_a_list_with_names",
    ]),
    ("Tidegate uses the application's health", &[
        "crates/lifecycle/tests/lifecycle/waiting.rs::the_last_wave_is_health_gated_on_request",
        "crates/lifecycle/tests/lifecycle/waiting.rs::ignored_health_holds_back_waves_but_not_the_application",
    ]),
    ("With `--wait healthy`, the last", &[
        "crates/lifecycle/tests/lifecycle/waiting.rs::the_last_wave_is_health_gated_on_request",
        "crates/lifecycle/tests/lifecycle/waiting.rs::ignored_health_holds_back_waves_but_not_the_application",
    ]),
    ("`tidegate health` prints the application's", &[
        "crates/lifecycle/tests/lifecycle/waiting.rs::the_last_wave_is_health_gated_on_request",
        "crates/lifecycle/tests/lifecycle/waiting.rs::ignored_health_holds_back_waves_but_not_the_application",
    ]),
    ("All other decisions are based", &[
        "crates/lifecycle/tests/lifecycle/waiting.rs::the_last_wave_is_health_gated_on_request",
        "crates/lifecycle/tests/lifecycle/waiting.rs::ignored_health_holds_back_waves_but_not_the_application",
    ]),
];
