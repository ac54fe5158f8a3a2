use serde_json::json;
use tidegate_model::Timestamp;
use tidegate_model::argo::{SyncOperation, SyncStatus};

use super::*;
use crate::controller_info::{DELETION_INFO, ID_INFO, ROLLOUT_INFO};
use crate::operation::set_revisions;
use crate::project::permissive_project;

const NOW: Timestamp = Timestamp::from_millis(1_795_253_400_000);

fn application(annotations: &[(&str, &str)]) -> Application {
    let spec = json!({"destination": {"name": "in-cluster"}, "source": {"repoURL": "./repo", "path": "web"},
        "syncPolicy": {"automated": {"selfHeal": true}}});
    let annotations: std::collections::BTreeMap<_, _> = annotations.iter().copied().collect();
    serde_json::from_value(json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "shop", "annotations": annotations}, "spec": spec,
    }))
    .unwrap()
}

fn project(annotations: &[(&str, &str)]) -> AppProject {
    let mut project = permissive_project();
    project.metadata.name = "live".to_owned();
    let own = annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    project.metadata.annotations = own.collect();
    project
}

fn policy(of_project: &[(&str, &str)], of_application: &[(&str, &str)]) -> ApprovalPolicy {
    ApprovalPolicy::from_annotations(&application(of_application), &project(of_project))
}

fn approvals_by(names: &[&str]) -> Vec<PlanApproval> {
    let one = |name: &&str| PlanApproval { by: (*name).to_owned(), reason: String::new(), at: NOW };
    names.iter().map(one).collect()
}

const APPROVAL_REQUIRED: (&str, &str) = (APPROVAL_ANNOTATION, "required");

fn approvers_annotation(names: &'static str) -> (&'static str, &'static str) {
    (APPROVERS_ANNOTATION, names)
}

fn operation_request(by: &str, automated: bool) -> OperationRequest {
    let mut asked = OperationRequest::default();
    asked.initiated_by.username = by.to_owned();
    asked.initiated_by.automated = automated;
    asked
}

#[test]
fn approval_is_required_by_the_application_the_project_or_an_invalid_annotation() {
    type Annotations<'s> = &'s [(&'s str, &'s str)];
    let rows: [(Annotations, Annotations, bool, Option<&str>); 9] = [
        (&[], &[], false, None),
        (&[], &[APPROVAL_REQUIRED], true, None),
        (&[APPROVAL_REQUIRED], &[], true, None),
        (&[], &[(APPROVAL_ANNOTATION, " required ")], true, None),
        // An application can't override its project's requirement.
        (
            &[APPROVAL_REQUIRED],
            &[(APPROVAL_ANNOTATION, "none")],
            true,
            Some("of application shop is \"none\", but its only valid value is required"),
        ),
        (
            &[],
            &[(APPROVAL_ANNOTATION, "Required")],
            true,
            Some("of application shop is \"Required\", but its only valid value is required"),
        ),
        (
            &[(APPROVAL_ANNOTATION, "")],
            &[],
            true,
            Some("of project live is \"\", but its only valid value is required"),
        ),
        (&[], &[approvers_annotation("ann")], false, Some("has no effect")),
        // A project may restrict the approvers even if only some of its applications require approvals.
        (&[approvers_annotation(",")], &[], false, None),
    ];
    for (of_project, of_application, required, problem) in rows {
        let policy = policy(of_project, of_application);
        assert_eq!(policy.is_required(), required, "{of_project:?} {of_application:?}");
        let problems = policy.problems().join("; ");
        assert_eq!(problems.is_empty(), problem.is_none(), "{problems}");
        assert!(problems.contains(problem.unwrap_or_default()), "{problems}");
    }
}

#[test]
fn the_approvers_of_the_application_and_of_its_project_must_approve() {
    let ann = PlanAuthor::Person("ann");
    let rows = [
        // If the rule contains no names, any user may approve, including the author. An approval is still
        // required.
        (None, None, ann, &[][..], false),
        (None, None, ann, &["ann"], true),
        (None, Some("ben, cleo"), ann, &["ann"], false),
        (None, Some("ben, cleo"), ann, &["cleo"], true),
        (None, Some("others"), ann, &["ann"], false),
        (None, Some("others"), ann, &["ben"], true),
        (None, Some("others"), ann, &["ann", "ben"], true),
        // An approver from the list who isn't the author.
        (None, Some("ann, ben, others"), ann, &["ann"], false),
        (None, Some("ann, ben, others"), ann, &["cleo"], false),
        (None, Some("ann, ben, others"), ann, &["ben"], true),
        // Both rules must be satisfied, by one approval or by one approval for each rule.
        (Some("ben"), Some("cleo"), ann, &["ben"], false),
        (Some("ben"), Some("cleo"), ann, &["cleo"], false),
        (Some("ben"), Some("cleo"), ann, &["cleo", "ben"], true),
        (Some("others"), Some("ben, ann"), ann, &["ann"], false),
        (Some("others"), Some("ben, ann"), ann, &["ben"], true),
        // Every user differs from an automated requester. If the requester is unknown, no user is certain to
        // differ from the requester.
        (None, Some("others"), PlanAuthor::Automated, &["ann"], true),
        (None, Some("others"), PlanAuthor::Unknown, &["ann"], false),
        (None, Some("ann"), PlanAuthor::Unknown, &["ann"], true),
        // Names are case-sensitive.
        (None, Some("Ann"), ann, &["ann"], false),
        (None, Some(" , "), ann, &["ann"], false),
    ];
    for (of_project, of_application, author, approvals, met) in rows {
        let of_project: Vec<_> =
            of_project.map(approvers_annotation).into_iter().chain([APPROVAL_REQUIRED]).collect();
        let of_application: Vec<_> = of_application.map(approvers_annotation).into_iter().collect();
        let policy = policy(&of_project, &of_application);
        let row = format!("{of_project:?} {of_application:?} {author:?} {approvals:?}");
        let approvals = approvals_by(approvals);
        assert_eq!(policy.is_met(author, &approvals), met, "{row}");
        assert_eq!(policy.describe_missing(author, &approvals).is_none(), met, "{row}");
    }
    assert!(policy(&[], &[]).is_met(ann, &[]), "no sync is requested");
}

#[test]
fn the_requester_of_an_execution_does_not_count_as_another_person() {
    let others = policy(&[], &[APPROVAL_REQUIRED, approvers_annotation("others")]);
    let rows = [
        ("ann", operation_request("ben", false), &["ben"][..], false),
        ("ann", operation_request("ben", false), &["ann"], false),
        ("ann", operation_request("ben", false), &["ann", "ben"], false),
        ("ann", operation_request("ben", false), &["ben", "cleo"], true),
        ("ann", operation_request("ann", false), &["ben"], true),
        // A user requests the execution of an automated plan, or the sync policy requests the execution of a
        // user's plan.
        (AUTOMATED_REQUESTER, operation_request("ben", false), &["ben"], false),
        (AUTOMATED_REQUESTER, operation_request("ben", false), &["ann"], true),
        ("ann", operation_request("", true), &["ann"], false),
        ("ann", operation_request("", true), &["ben"], true),
        // If the requester is unknown, no user is certain to differ from the requester.
        ("ann", operation_request("", false), &["ben"], false),
        ("", operation_request("ann", false), &["ben"], false),
    ];
    for (author, asked, approvals, met) in rows {
        let askers = PlanRequesters::for_execution(author, &asked);
        assert_eq!(others.is_met(askers, &approvals_by(approvals)), met, "{askers:?} {approvals:?}");
    }
    let by_ben = operation_request("ben", false);
    let (askers, given) = (PlanRequesters::for_execution("ann", &by_ben), approvals_by(&["ben"]));
    let both = "an approval by someone other than ann, who created the plan, and ben, who requested the sync (required by application shop)";
    assert_eq!(others.describe_missing(askers, &given).unwrap(), both);
    assert!(
        others.check_approval(askers, &given, "ann").is_err()
            && others.check_approval(askers, &given, "cleo").is_ok()
    );
}

#[test]
fn a_refused_approver_gets_the_list_of_approvers() {
    let others = policy(
        &[APPROVAL_REQUIRED, approvers_annotation("others")],
        &[approvers_annotation("ben, cleo, ann")],
    );
    let ann = PlanAuthor::Person("ann");
    let rows = [
        (&[][..], "ben", None),
        (&[], "ann", None),
        (&[], "dan", None),
        (
            &["ann"],
            "ann",
            Some(
                "ann has already approved the plan; it still needs an approval by someone other than ann, \
                 who created the plan (required by project live)",
            ),
        ),
        (
            &["dan"],
            "eve",
            Some(
                "eve may not approve the plan: it needs an approval by ann, ben or cleo (required by \
                 application shop)",
            ),
        ),
        (&["dan"], "", Some("needs the name of the approver")),
        (&["dan"], "ben", None),
    ];
    for (approvals, name, refused) in rows {
        let checked =
            others.check_approval(ann, &approvals_by(approvals), name).err().map(|error| error.to_string());
        assert_eq!(checked.is_some(), refused.is_some(), "{approvals:?} {name}: {checked:?}");
        assert!(checked.unwrap_or_default().contains(refused.unwrap_or_default()), "{approvals:?} {name}");
    }
    // An approval doesn't count if the approver is not listed in either rule.
    let named = policy(&[], &[APPROVAL_REQUIRED, approvers_annotation("ben, others")]);
    let refused = named.check_approval(ann, &[], "ann").unwrap_err().to_string();
    assert_eq!(
        refused,
        "ann may not approve the plan: it needs an approval by ben other than ann, who created the plan \
         (required by application shop)"
    );
    let unknown = named.check_approval(PlanAuthor::Unknown, &[], "ben").unwrap_err().to_string();
    assert!(unknown.contains("the author of the plan, but the plan does not record its author"), "{unknown}");
    let (of_ann, of_nobody) = (operation_request("ann", false), operation_request("", false));
    for (author, asked, who) in [
        ("ann", &of_ann, "ann, who requested the sync"),
        (AUTOMATED_REQUESTER, &of_ann, "ann, who requested the sync"),
        ("ann", &operation_request("", true), "ann, who created the plan"),
        ("ann", &of_nobody, "the requester of the sync, but the request does not record its requester"),
    ] {
        let refused = named
            .check_approval(PlanRequesters::for_execution(author, asked), &[], "ann")
            .unwrap_err()
            .to_string();
        assert!(refused.contains(&format!(" other than {who}")), "{refused}");
    }
    // Only ann may approve, but the approver must not be the requester, so a request by ann can never be
    // approved.
    let alone = policy(&[], &[APPROVAL_REQUIRED, approvers_annotation("ann, others")]);
    let who = alone.describe_missing(ann, &[]).unwrap();
    assert_eq!(
        who,
        "an approval that no one can give: application shop requires an approval by ann other than ann, who created the plan"
    );
    let told =
        WaitingPlan { application: "shop", hash: "4f2a", summary: "1 to create", missing_approvals: &who }
            .condition_message();
    assert!(
        told.ends_with("or terminate the operation: tidegate app terminate shop")
            && !told.contains("approve shop"),
        "{told}"
    );
    assert!(!alone.describe_missing(PlanAuthor::Automated, &[]).unwrap().contains("no one"));
    let without_approvers = policy(&[], &[APPROVAL_REQUIRED, approvers_annotation("")])
        .check_approval(ann, &[], "ben")
        .unwrap_err()
        .to_string();
    assert!(without_approvers.contains("no one can give"), "{without_approvers}");
}

#[test]
fn only_the_operation_names_its_stored_plan() {
    let mut asked = OperationRequest { sync: Some(SyncOperation::default()), ..Default::default() };
    assert!(requires_plan(&asked) && requested_plan(&asked).is_none());
    set_plan(&mut asked, "abc", true);
    set_plan(&mut asked, "def", false);
    assert_eq!((requested_plan(&asked), allows_drift(&asked)), (Some("def"), false));
    operation::remove_controller_infos(&mut asked);
    assert_eq!(requested_plan(&asked), None);
    set_plan(&mut asked, "abc", true);
    operation::remove_controller_infos(&mut asked);
    assert_eq!((requested_plan(&asked), allows_drift(&asked)), (None, false));
    if let Some(sync) = &mut asked.sync {
        sync.dry_run = true;
    }
    assert!(!requires_plan(&asked), "a dry run writes nothing");
}

/// Returns an application whose operation on `resources` is waiting for an approval. The resources in
/// `differing` are out of sync now.
fn application_waiting_for_approval(resources: &[&str], differing: &[&str]) -> Application {
    let mut app = application(&[APPROVAL_REQUIRED]);
    let named = |name: &&str| tidegate_model::argo::OperationResource {
        name: (*name).to_owned(),
        ..Default::default()
    };
    let sync = SyncOperation { resources: resources.iter().map(named).collect(), ..Default::default() };
    let mut asked = OperationRequest { sync: Some(sync), ..Default::default() };
    asked.initiated_by.automated = true;
    app.operation = Some(asked);
    let of = |name: &&str| tidegate_model::argo::ResourceStatus {
        name: (*name).to_owned(),
        status: Some(SyncStatusCode::OutOfSync),
        ..Default::default()
    };
    app.status.resources = differing.iter().map(of).collect();
    let code = if differing.is_empty() { SyncStatusCode::Synced } else { SyncStatusCode::OutOfSync };
    app.status.sync = Some(SyncStatus { status: code, ..Default::default() });
    app
}

#[test]
fn an_automated_operation_follows_the_differences_until_it_starts() {
    let names = |app: &Application| -> Option<Vec<String>> {
        let sync = app.operation.as_ref()?.sync.as_ref()?;
        Some(sync.resources.iter().map(|one| one.name.clone()).collect())
    };
    for (resources, differing, now) in [
        (&["a"][..], &["a"][..], Some(vec!["a"])),
        (&["a"], &["b", "c"], Some(vec!["b", "c"])),
        // An operation on all resources continues to cover all resources.
        (&[], &["b"], Some(vec![])),
        // A user fixed the difference manually.
        (&["a"], &[], None),
        (&[], &[], None),
    ] {
        let mut app = application_waiting_for_approval(resources, differing);
        update_waiting_operation(&mut app, NOW);
        assert_eq!(names(&app), now.map(|now| now.into_iter().map(str::to_owned).collect()), "{differing:?}");
        let ended = app.status.operation_state.as_ref();
        assert_eq!(ended.is_some(), app.operation.is_none());
        assert!(ended.is_none_or(|ended| ended.message.contains("nothing to do")));
    }
}

#[test]
fn a_requested_operation_waits_without_differences() {
    let keeps = |change: fn(&mut OperationRequest)| {
        let mut app = application_waiting_for_approval(&["a"], &[]);
        change(app.operation.as_mut().unwrap());
        let before = app.clone();
        update_waiting_operation(&mut app, NOW);
        assert_eq!(app, before);
    };
    keeps(|asked| asked.initiated_by.automated = false);
    keeps(|asked| asked.set_info(ID_INFO, "01990000-0000-7000-8000-000000000001"));
    keeps(|asked| asked.set_info(ROLLOUT_INFO, "argocd/fleet"));
    keeps(|asked| asked.set_info(DELETION_INFO, "foreground"));
    // The hooks of the superseded operation still have to run.
    keeps(|asked| asked.set_info(SUPERSEDES_INFO, "01990000-0000-7000-8000-000000000001"));
}

#[test]
fn the_requester_is_stored_with_the_plan() {
    for (asked, author) in [
        (operation_request("ann", false), PlanAuthor::Person("ann")),
        (operation_request("", true), PlanAuthor::Automated),
        (operation_request("applicationset-controller", true), PlanAuthor::Automated),
        (operation_request("", false), PlanAuthor::Unknown),
        // A user with the name that is reserved for automated requests counts as unknown.
        (operation_request(AUTOMATED_REQUESTER, false), PlanAuthor::Unknown),
    ] {
        assert_eq!(PlanAuthor::from_name(plan_author(&asked)), author);
    }
}

#[test]
fn an_outdated_plan_repeats_the_original_request() {
    let mut app = application(&[APPROVAL_REQUIRED]);
    let sync = SyncOperation { revision: "main".to_owned(), prune: true, ..Default::default() };
    let mut asked = OperationRequest { sync: Some(sync), ..Default::default() };
    asked.initiated_by.username = "ann".to_owned();
    app.operation = Some(asked.clone());
    set_revisions(&mut app, &["c1".to_owned()]);
    let mut ended = app.operation.clone().unwrap();
    assert_eq!(ended.sync.as_ref().unwrap().revision, "c1");
    set_plan(&mut ended, "abc", true);
    ended.set_info(ID_INFO, "01990000-0000-7000-8000-000000000001");
    assert_eq!(
        request_to_repeat(&app, &ended, true),
        Some(asked),
        "the repeated operation follows the branch without a plan"
    );
    assert_eq!(request_to_repeat(&app, &ended, false), None, "the user must repeat the request");
    let mut automated = ended.clone();
    automated.initiated_by.automated = true;
    assert!(request_to_repeat(&app, &automated, false).is_some());
    let mut chosen = ended.clone();
    set_plan(&mut chosen, "abc", false);
    assert_eq!(request_to_repeat(&app, &chosen, true), None, "the request names exactly that plan");
    let mut of_rollout = automated.clone();
    of_rollout.set_info(ROLLOUT_INFO, "argocd/fleet");
    assert_eq!(request_to_repeat(&app, &of_rollout, true), None, "the rollout requests the operation again");
    remove_plan(&mut automated);
    assert_eq!(request_to_repeat(&app, &automated, true), None, "the operation had no plan");
}

#[test]
fn a_waiting_plan_suggests_a_command() {
    let told = WaitingPlan {
        application: "shop",
        hash: "3f2a9c41d07b",
        summary: "2 to create; revision abc1234",
        missing_approvals: "an approval by ann (required by project live)",
    };
    assert_eq!(
        told.condition_message(),
        "plan 3f2a9c41d07b (2 to create; revision abc1234) is waiting for an approval by ann (required by project \
         live): tidegate app approve shop 3f2a9c41d07b"
    );
    assert_eq!(
        told.waiting_message(),
        "an approval by ann (required by project live) for plan 3f2a9c41d07b (2 to create; revision abc1234): \
         tidegate app approve shop 3f2a9c41d07b"
    );
}
