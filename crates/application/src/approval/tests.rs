use serde_json::json;
use tidegate_model::Timestamp;
use tidegate_model::argo::{SyncOperation, SyncStatus};

use super::*;
use crate::operation::{ID_REMARK, set_revisions};
use crate::project::permissive;

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
    let mut project = permissive();
    project.metadata.name = "live".to_owned();
    let own = annotations.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    project.metadata.annotations = own.collect();
    project
}

fn policy(of_project: &[(&str, &str)], of_application: &[(&str, &str)]) -> Policy {
    Policy::of(&application(of_application), &project(of_project))
}

fn by(names: &[&str]) -> Vec<PlanApproval> {
    let one = |name: &&str| PlanApproval { by: (*name).to_owned(), reason: String::new(), at: NOW };
    names.iter().map(one).collect()
}

const ASKS: (&str, &str) = (APPROVAL, "required");

fn by_names(names: &'static str) -> (&'static str, &'static str) {
    (APPROVERS, names)
}

fn asked(by: &str, automated: bool) -> OperationRequest {
    let mut asked = OperationRequest::default();
    asked.initiated_by.username = by.to_owned();
    asked.initiated_by.automated = automated;
    asked
}

#[test]
fn an_approval_is_asked_for_by_the_application_or_its_project_and_by_whatever_cannot_be_understood() {
    type Said<'s> = &'s [(&'s str, &'s str)];
    let rows: [(Said, Said, bool, Option<&str>); 9] = [
        (&[], &[], false, None),
        (&[], &[ASKS], true, None),
        (&[ASKS], &[], true, None),
        (&[], &[(APPROVAL, " required ")], true, None),
        // An application cannot take back what its project says.
        (&[ASKS], &[(APPROVAL, "none")], true, Some("of application shop says \"none\"")),
        (&[], &[(APPROVAL, "Required")], true, Some("of application shop says \"Required\"")),
        (&[(APPROVAL, "")], &[], true, Some("of project live says \"\"")),
        (&[], &[by_names("ann")], false, Some("has no effect")),
        // A project may say who approves where its Applications ask for it.
        (&[by_names(",")], &[], false, None),
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
fn it_is_met_by_those_who_are_named_by_the_application_and_by_its_project() {
    let ann = Author::Person("ann");
    let rows = [
        // Without names anybody will do, the author too; somebody must.
        (None, None, ann, &[][..], false),
        (None, None, ann, &["ann"], true),
        (None, Some("ben, cleo"), ann, &["ann"], false),
        (None, Some("ben, cleo"), ann, &["cleo"], true),
        (None, Some("others"), ann, &["ann"], false),
        (None, Some("others"), ann, &["ben"], true),
        (None, Some("others"), ann, &["ann", "ben"], true),
        // Named, and not the author.
        (None, Some("ann, ben, others"), ann, &["ann"], false),
        (None, Some("ann, ben, others"), ann, &["cleo"], false),
        (None, Some("ann, ben, others"), ann, &["ben"], true),
        // Both have to be met: by one, or by one each.
        (Some("ben"), Some("cleo"), ann, &["ben"], false),
        (Some("ben"), Some("cleo"), ann, &["cleo"], false),
        (Some("ben"), Some("cleo"), ann, &["cleo", "ben"], true),
        (Some("others"), Some("ben, ann"), ann, &["ann"], false),
        (Some("others"), Some("ben, ann"), ann, &["ben"], true),
        // Of what nobody has asked for, everybody is another one; of whom it is not known, nobody.
        (None, Some("others"), Author::Nobody, &["ann"], true),
        (None, Some("others"), Author::Unknown, &["ann"], false),
        (None, Some("ann"), Author::Unknown, &["ann"], true),
        // Names are taken as they are written.
        (None, Some("Ann"), ann, &["ann"], false),
        (None, Some(" , "), ann, &["ann"], false),
    ];
    for (of_project, of_application, author, approvals, met) in rows {
        let of_project: Vec<_> = of_project.map(by_names).into_iter().chain([ASKS]).collect();
        let of_application: Vec<_> = of_application.map(by_names).into_iter().collect();
        let policy = policy(&of_project, &of_application);
        let row = format!("{of_project:?} {of_application:?} {author:?} {approvals:?}");
        let approvals = by(approvals);
        assert_eq!(policy.is_met(author, &approvals), met, "{row}");
        assert_eq!(policy.missing(author, &approvals).is_none(), met, "{row}");
    }
    assert!(policy(&[], &[]).is_met(ann, &[]), "nothing is asked for");
}

#[test]
fn an_approval_by_whoever_asks_for_the_plan_of_another_counts_for_no_others() {
    let others = policy(&[], &[ASKS, by_names("others")]);
    let rows = [
        ("ann", asked("ben", false), &["ben"][..], false),
        ("ann", asked("ben", false), &["ann"], false),
        ("ann", asked("ben", false), &["ann", "ben"], false),
        ("ann", asked("ben", false), &["ben", "cleo"], true),
        ("ann", asked("ann", false), &["ben"], true),
        // Nobody's plan that somebody asks for, and the other way round.
        (AUTOMATED, asked("ben", false), &["ben"], false),
        (AUTOMATED, asked("ben", false), &["ann"], true),
        ("ann", asked("", true), &["ann"], false),
        ("ann", asked("", true), &["ben"], true),
        // Of whom it is not known, nobody is another one.
        ("ann", asked("", false), &["ben"], false),
        ("", asked("ann", false), &["ben"], false),
    ];
    for (author, asked, approvals, met) in rows {
        let askers = Askers::of(author, &asked);
        assert_eq!(others.is_met(askers, &by(approvals)), met, "{askers:?} {approvals:?}");
    }
    let by_ben = asked("ben", false);
    let (askers, given) = (Askers::of("ann", &by_ben), by(&["ben"]));
    let both = "an approval by somebody other than ann, who has made the plan, and ben, who asks for the sync (says application shop)";
    assert_eq!(others.missing(askers, &given).unwrap(), both);
    assert!(others.check(askers, &given, "ann").is_err() && others.check(askers, &given, "cleo").is_ok());
}

#[test]
fn whoever_may_not_approve_is_told_who_may() {
    let others = policy(&[ASKS, by_names("others")], &[by_names("ben, cleo, ann")]);
    let ann = Author::Person("ann");
    let rows = [
        (&[][..], "ben", None),
        (&[], "ann", None),
        (&[], "dan", None),
        (
            &["ann"],
            "ann",
            Some(
                "ann has approved it already; it still needs an approval by somebody other than ann, who has made the plan (says project live)",
            ),
        ),
        (
            &["dan"],
            "eve",
            Some("eve may not approve it: it needs an approval by ann, ben or cleo (says application shop)"),
        ),
        (&["dan"], "", Some("must have a name")),
        (&["dan"], "ben", None),
    ];
    for (approvals, name, refused) in rows {
        let checked = others.check(ann, &by(approvals), name).err().map(|error| error.to_string());
        assert_eq!(checked.is_some(), refused.is_some(), "{approvals:?} {name}: {checked:?}");
        assert!(checked.unwrap_or_default().contains(refused.unwrap_or_default()), "{approvals:?} {name}");
    }
    // Who is none of those at all brings nothing nearer.
    let named = policy(&[], &[ASKS, by_names("ben, others")]);
    let refused = named.check(ann, &[], "ann").unwrap_err().to_string();
    assert_eq!(
        refused,
        "ann may not approve it: it needs an approval by ben other than ann, who has made the plan (says application shop)"
    );
    let unknown = named.check(Author::Unknown, &[], "ben").unwrap_err().to_string();
    assert!(unknown.contains("who has made the plan, which it does not say"), "{unknown}");
    let (of_ann, of_nobody) = (asked("ann", false), asked("", false));
    for (author, asked, who) in [
        ("ann", &of_ann, "ann, who has asked for the sync"),
        (AUTOMATED, &of_ann, "ann, who has asked for the sync"),
        ("ann", &asked("", true), "ann, who has made the plan"),
        ("ann", &of_nobody, "who has asked for the sync, which the request does not say"),
    ] {
        let refused = named.check(Askers::of(author, asked), &[], "ann").unwrap_err().to_string();
        assert!(refused.contains(&format!(" other than {who}")), "{refused}");
    }
    // Where it is for others, and for ann alone, it is for nobody when ann asks.
    let alone = policy(&[], &[ASKS, by_names("ann, others")]);
    let who = alone.missing(ann, &[]).unwrap();
    assert_eq!(
        who,
        "an approval that nobody may give: it is to be one by ann other than ann, who has made the plan (says application shop)"
    );
    let told = Told { application: "shop", hash: "4f2a", does: "1 to create", who: &who }.condition();
    assert!(
        told.ends_with("or end it: tidegate app terminate shop") && !told.contains("approve shop"),
        "{told}"
    );
    assert!(!alone.missing(Author::Nobody, &[]).unwrap().contains("nobody"));
    let nobody = policy(&[], &[ASKS, by_names("")]).check(ann, &[], "ben").unwrap_err().to_string();
    assert!(nobody.contains("nobody may give"), "{nobody}");
}

#[test]
fn an_operation_says_which_plan_it_carries_out_and_nobody_else_says_so() {
    let mut asked = OperationRequest { sync: Some(SyncOperation::default()), ..Default::default() };
    assert!(is_about(&asked) && plan_of(&asked).is_none());
    set_plan(&mut asked, "abc", true);
    set_plan(&mut asked, "def", false);
    assert_eq!((plan_of(&asked), allows_drift(&asked)), (Some("def"), false));
    operation::disown(&mut asked);
    assert_eq!(plan_of(&asked), None);
    set_plan(&mut asked, "abc", true);
    operation::disown(&mut asked);
    assert_eq!((plan_of(&asked), allows_drift(&asked)), (None, false));
    if let Some(sync) = &mut asked.sync {
        sync.dry_run = true;
    }
    assert!(!is_about(&asked), "a dry run writes nothing");
}

/// An application whose operation, about these objects, waits for an approval; these differ now.
fn waiting_for(resources: &[&str], differing: &[&str]) -> Application {
    let mut app = application(&[ASKS]);
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
fn what_nobody_asked_for_is_about_what_differs_when_its_plan_is_made() {
    let names = |app: &Application| -> Option<Vec<String>> {
        let sync = app.operation.as_ref()?.sync.as_ref()?;
        Some(sync.resources.iter().map(|one| one.name.clone()).collect())
    };
    for (resources, differing, now) in [
        (&["a"][..], &["a"][..], Some(vec!["a"])),
        (&["a"], &["b", "c"], Some(vec!["b", "c"])),
        // All of it stays all of it.
        (&[], &["b"], Some(vec![])),
        // Somebody has put it right by hand.
        (&["a"], &[], None),
        (&[], &[], None),
    ] {
        let mut app = waiting_for(resources, differing);
        renew(&mut app, NOW);
        assert_eq!(names(&app), now.map(|now| now.into_iter().map(str::to_owned).collect()), "{differing:?}");
        let ended = app.status.operation_state.as_ref();
        assert_eq!(ended.is_some(), app.operation.is_none());
        assert!(ended.is_none_or(|ended| ended.message.contains("nothing is left to do")));
    }
}

#[test]
fn what_somebody_asked_for_waits_though_nothing_differs() {
    let keeps = |change: fn(&mut OperationRequest)| {
        let mut app = waiting_for(&["a"], &[]);
        change(app.operation.as_mut().unwrap());
        let before = app.clone();
        renew(&mut app, NOW);
        assert_eq!(app, before);
    };
    keeps(|asked| asked.initiated_by.automated = false);
    keeps(|asked| asked.set_remark(ID_REMARK, "01990000-0000-7000-8000-000000000001"));
    keeps(|asked| asked.set_remark(operation::ROLLOUT_REMARK, "argocd/fleet"));
    keeps(|asked| asked.set_remark(operation::DELETION_REMARK, "foreground"));
    // Its hooks are still to run.
    keeps(|asked| asked.set_remark(SUPERSEDES_REMARK, "01990000-0000-7000-8000-000000000001"));
}

#[test]
fn who_has_asked_is_kept_with_the_plan() {
    for (asked, author) in [
        (asked("ann", false), Author::Person("ann")),
        (asked("", true), Author::Nobody),
        (asked("applicationset-controller", true), Author::Nobody),
        (asked("", false), Author::Unknown),
        // Nobody calls themselves nobody.
        (asked(AUTOMATED, false), Author::Unknown),
    ] {
        assert_eq!(Author::named(author_of(&asked)), author);
    }
}

#[test]
fn what_did_not_fit_any_more_is_asked_for_anew_as_it_was_asked_for() {
    let mut app = application(&[ASKS]);
    let sync = SyncOperation { revision: "main".to_owned(), prune: true, ..Default::default() };
    let mut asked = OperationRequest { sync: Some(sync), ..Default::default() };
    asked.initiated_by.username = "ann".to_owned();
    app.operation = Some(asked.clone());
    set_revisions(&mut app, &["c1".to_owned()]);
    let mut ended = app.operation.clone().unwrap();
    assert_eq!(ended.sync.as_ref().unwrap().revision, "c1");
    set_plan(&mut ended, "abc", true);
    ended.set_remark(ID_REMARK, "01990000-0000-7000-8000-000000000001");
    assert_eq!(anew(&app, &ended, true), Some(asked), "its branch, and no plan");
    assert_eq!(anew(&app, &ended, false), None, "whoever has asked for it may ask again");
    let mut automated = ended.clone();
    automated.initiated_by.automated = true;
    assert!(anew(&app, &automated, false).is_some());
    let mut chosen = ended.clone();
    set_plan(&mut chosen, "abc", false);
    assert_eq!(anew(&app, &chosen, true), None, "somebody wants just that plan");
    let mut of_rollout = automated.clone();
    of_rollout.set_remark(operation::ROLLOUT_REMARK, "argocd/fleet");
    assert_eq!(anew(&app, &of_rollout, true), None, "its rollout asks again");
    forget_plan(&mut automated);
    assert_eq!(anew(&app, &automated, true), None, "it had no plan");
}

#[test]
fn a_plan_that_waits_is_told_with_what_to_do() {
    let told = Told {
        application: "shop",
        hash: "3f2a9c41d07b",
        does: "2 to create; revision abc1234",
        who: "an approval by ann (says project live)",
    };
    assert_eq!(
        told.condition(),
        "plan 3f2a9c41d07b (2 to create; revision abc1234) waits for an approval by ann (says project live): tidegate app approve shop 3f2a9c41d07b"
    );
    assert_eq!(
        told.awaited(),
        "an approval by ann (says project live) of plan 3f2a9c41d07b (2 to create; revision abc1234): tidegate app approve shop 3f2a9c41d07b"
    );
}
