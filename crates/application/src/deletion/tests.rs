//! Next steps and messages of deletions.

use tidegate_model::annotations::DELETION_REQUESTED_BY;
use tidegate_model::argo::{HealthState, UnknownFields};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn application(finalizers: &[&str], deleting: bool) -> Application {
    let mut application = Application::default();
    application.metadata.name = "web".to_owned();
    application.metadata.finalizers = finalizers.iter().map(|one| (*one).to_owned()).collect();
    application.metadata.deletion_timestamp = deleting.then(|| NOW.into());
    application
}

fn finish_operation(application: &mut Application, cascade: Cascade, phase: OperationPhase, at: Timestamp) {
    application.status.operation_state = Some(OperationState {
        operation: deletion_operation(application, cascade),
        phase,
        message: "PreDelete hook(s) failed: shop/drain".to_owned(),
        started_at: at.into(),
        finished_at: phase.is_completed().then(|| at.into()),
        retry_count: 0,
        sync_result: None,
        rest: UnknownFields::new(),
    });
}

#[test]
fn finalizers_select_the_cascade() {
    for (given, expected) in [
        (&[][..], None),
        (&["foregroundDeletion", "resources-finalizer.argocd.argoproj.iox"], None),
        (&["resources-finalizer.argocd.argoproj.io"], Some(Cascade::Foreground)),
        (&["other/x", "resources-finalizer.argocd.argoproj.io/foreground"], Some(Cascade::Foreground)),
        (&["resources-finalizer.argocd.argoproj.io/background"], Some(Cascade::Background)),
        (
            &[
                "post-delete-finalizer.argocd.argoproj.io",
                "resources-finalizer.argocd.argoproj.io/background",
            ],
            Some(Cascade::Background),
        ),
        (&["pre-delete-finalizer.argocd.argoproj.io"], Some(Cascade::Orphan)),
        (&["post-delete-finalizer.argocd.argoproj.io/cleanup"], Some(Cascade::Orphan)),
    ] {
        let application = application(given, true);
        assert_eq!(cascade_from_finalizers(&application), expected, "{given:?}");
        let again = |cascade| application_with(finalizers(&application, cascade));
        assert_eq!(cascade_of(&again(Cascade::Background)), Some(Cascade::Background), "{given:?}");
        // Foreground is the default.
        let foreground = expected.filter(|one| one.deletes_objects()).unwrap_or(Cascade::Foreground);
        assert_eq!(cascade_of(&again(Cascade::Foreground)), Some(foreground), "{given:?}");
        let hooks = given.iter().any(|one| one.contains("-delete-"));
        assert_eq!(cascade_of(&again(Cascade::Orphan)), hooks.then_some(Cascade::Orphan), "{given:?}");
    }
}

fn cascade_of(application: &Application) -> Option<Cascade> {
    cascade_from_finalizers(application)
}

fn application_with(finalizers: Vec<String>) -> Application {
    let mut application = application(&[], true);
    application.metadata.finalizers = finalizers;
    application
}

#[test]
fn a_deletion_starts_once_and_is_retried() {
    use OperationPhase::{Failed, Running, Succeeded};
    let cascading = || application(&[RESOURCES_FINALIZER], true);
    let next = |application: &Application, asked| match decide_step(application, asked, NOW).0 {
        NextDeletionStep::Nothing => "nothing".to_owned(),
        NextDeletionStep::Start(started) => {
            format!("begin {}", operation::deletion_cascade(&started).unwrap())
        }
        NextDeletionStep::Wait(until) => format!("wait {} s", until.since(NOW).as_secs()),
        NextDeletionStep::Release => "release".to_owned(),
    };
    assert_eq!(next(&application(&[RESOURCES_FINALIZER], false), true), "nothing");
    assert_eq!(next(&application(&[], true), true), "nothing", "the deletion is discarded");
    assert_eq!(next(&cascading(), false), "begin foreground");
    let mut busy = cascading();
    busy.operation = Some(OperationRequest::default());
    assert_eq!(next(&busy, false), "nothing", "the running operation finishes first");
    let before = Timestamp::from_millis(NOW.as_millis() - 60_000);
    for (done, phase, at, expected, asked) in [
        (Cascade::Foreground, Succeeded, NOW, "release", "release"),
        (Cascade::Background, Succeeded, NOW, "release", "release"),
        (Cascade::Orphan, Succeeded, NOW, "begin foreground", "begin foreground"),
        // The local clock may be behind the API server's clock.
        (Cascade::Foreground, Succeeded, before, "release", "release"),
        (Cascade::Foreground, Failed, before, "wait 120 s", "begin foreground"),
        (Cascade::Foreground, Failed, NOW, "wait 180 s", "begin foreground"),
        (Cascade::Foreground, Running, NOW, "begin foreground", "begin foreground"),
    ] {
        let mut application = cascading();
        finish_operation(&mut application, done, phase, at);
        assert_eq!(next(&application, false), expected, "{done} {phase}");
        assert_eq!(next(&application, true), asked, "{done} {phase}");
    }
    // The deletion of an earlier application with the same name doesn't count, regardless of the clocks.
    let mut another = cascading();
    finish_operation(&mut another, Cascade::Foreground, Succeeded, NOW);
    another.metadata.deletion_timestamp = Some(Timestamp::from_millis(NOW.as_millis() + 1_000).into());
    assert_eq!(next(&another, false), "begin foreground");
    let mut failed = cascading();
    finish_operation(&mut failed, Cascade::Foreground, Failed, NOW);
    decide_deletion(&mut failed, false, NOW);
    let [condition] = failed.status.conditions.as_slice() else { panic!("{:?}", failed.status) };
    assert_eq!(condition.kind, ConditionType::DeletionError);
    assert!(condition.message.contains("shop/drain") && condition.message.contains("app refresh web"));
    assert_eq!(
        decide_deletion(&mut failed, true, NOW),
        NextDeletionStep::Start(Box::new(deletion_operation(&failed, Cascade::Foreground)))
    );
    assert!(failed.status.conditions.is_empty(), "the condition is cleared");
}

fn condition_message(application: &mut Application) -> String {
    decide_deletion(application, false, NOW);
    let said = application.status.conditions.iter().map(|one| one.message.as_str());
    said.collect::<Vec<_>>().join("\n")
}

#[test]
fn only_a_deletion_or_its_condition_changes_an_application() {
    let idle = application(&[RESOURCES_FINALIZER], false);
    let mut busy = idle.clone();
    busy.operation = Some(OperationRequest { sync: Some(SyncOperation::default()), ..Default::default() });
    for unaffected in [idle.clone(), busy] {
        assert!(!has_deletion(&unaffected));
        let mut decided = unaffected.clone();
        assert_eq!(decide_deletion(&mut decided, true, NOW), NextDeletionStep::Nothing);
        assert_eq!(decided, unaffected);
    }
    let mut recreated = idle.clone();
    recreated.operation = Some(deletion_operation(&recreated, Cascade::Foreground));
    assert!(has_deletion(&recreated));
    assert!(!condition_message(&mut recreated).is_empty());
    recreated.operation = None;
    assert!(has_deletion(&recreated), "the condition remains");
    decide_deletion(&mut recreated, false, NOW);
    assert_eq!(recreated, idle);
}

#[test]
fn the_delay_of_a_deletion_is_reported() {
    let mut busy = application(&[RESOURCES_FINALIZER], true);
    let mut asked = OperationRequest::default();
    asked.set_info(operation::ID_INFO, "0a");
    busy.operation = Some(asked);
    let message = condition_message(&mut busy);
    assert!(message.contains("will be deleted when operation"), "{message}");
    assert!(message.contains("`tidegate app terminate web` terminates that operation"), "{message}");
    // The user restores the application's file.
    let mut back = application(&[RESOURCES_FINALIZER], true);
    back.operation = Some(deletion_operation(&back, Cascade::Foreground));
    back.metadata.deletion_timestamp = None;
    assert!(condition_message(&mut back).contains("the Application was recreated"));
    // The deletion is complete, but other controllers' finalizers keep the resource.
    let mut kept = application(&["example.com/b"], true);
    kept.status.health = Some(HealthState {
        status: HealthStatus::Healthy,
        message: String::new(),
        last_transition_time: None,
        rest: UnknownFields::new(),
    });
    kept.status.sync.get_or_insert_default().status = SyncStatusCode::Synced;
    kept.status.resources = vec![Default::default()];
    assert!(
        condition_message(&mut kept).starts_with("the application's objects are kept; "),
        "the finalizers still exist"
    );
    assert_eq!(kept.status.resources.len(), 1);
    finish_operation(&mut kept, Cascade::Foreground, OperationPhase::Succeeded, NOW);
    let message = condition_message(&mut kept);
    assert!(
        message.starts_with("the application's objects have been deleted; ")
            && message.contains("example.com/b"),
        "{message}"
    );
    assert_eq!(kept.status.sync.unwrap().status, SyncStatusCode::Unknown);
    assert_eq!(kept.status.health.unwrap().status, HealthStatus::Missing);
    assert!(kept.status.resources.is_empty());
}

#[test]
fn a_repeated_deletion_request_joins_the_first() {
    const BACKGROUND: &str = "resources-finalizer.argocd.argoproj.io/background";
    const HOOK: &str = "post-delete-finalizer.argocd.argoproj.io";
    for (finalizers, wanted, expected) in [
        (&[RESOURCES_FINALIZER][..], Cascade::Foreground, true),
        (&[BACKGROUND], Cascade::Foreground, true),
        (&[BACKGROUND], Cascade::Background, true),
        (&[RESOURCES_FINALIZER], Cascade::Background, false),
        (&[RESOURCES_FINALIZER], Cascade::Orphan, false),
        (&[HOOK], Cascade::Orphan, true),
        (&[HOOK], Cascade::Foreground, false),
    ] {
        assert_eq!(
            is_deleting_with(&application(finalizers, true), wanted),
            expected,
            "{finalizers:?} {wanted}"
        );
        assert!(
            !is_deleting_with(&application(finalizers, false), wanted),
            "the application is not being deleted"
        );
    }
}

/// An approval counts if either the time in it or the time at which it was written is after the request,
/// because the approver's clock may be behind the API server's clock.
#[test]
fn an_approval_counts_if_it_is_newer_than_the_request() {
    let early = Timestamp::from_millis(NOW.as_millis() - 3_600_000).to_string();
    let other = Timestamp::from_millis(NOW.as_millis() - 60_000).to_string();
    let approve = |application: &mut Application, at: &str| {
        application.metadata.annotations.insert(DELETION_APPROVED.to_owned(), at.to_owned());
    };
    let mut application = application(&[RESOURCES_FINALIZER], true);
    approve(&mut application, &early);
    let started = deletion_operation(&application, Cascade::Foreground);
    assert!(!is_approved(&application, &started), "the annotation existed before the deletion");
    approve(&mut application, &other);
    assert!(is_approved(&application, &started));
    approve(&mut application, "yes");
    assert!(!is_approved(&application, &started), "the annotation is not a time");
    approve(&mut application, &NOW.to_string());
    assert!(is_approved(&application, &started));
    // An approval remains valid when the deletion is retried.
    approve(&mut application, &other);
    finish_operation(&mut application, Cascade::Foreground, OperationPhase::Failed, NOW);
    if let Some(last) = &mut application.status.operation_state {
        last.operation = started;
    }
    let again = deletion_operation(&application, Cascade::Foreground);
    assert!(is_approved(&application, &again));
    assert!(!is_approved(&application, &OperationRequest::default()), "another deletion is not affected");
}

#[test]
fn the_requester_of_a_deletion_survives_the_log() {
    let mut going = application(&[RESOURCES_FINALIZER], true);
    let at = going.metadata.deletion_timestamp.unwrap();
    let logged = |going: &Application| {
        let started = deletion_operation(going, Cascade::Foreground);
        deletion_request(going, &started, Destination::Simulated, "shop".to_owned()).unwrap().initiated_by
    };
    let when = at.to_string();
    let requester = logged(&going);
    assert_eq!(requester, format!("deletion of the application, requested at {when}"));
    assert_eq!(
        (parse_requester(&requester), Requester::deletion_requester(&requester)),
        (Some(("", Some(when.as_str()))), None)
    );
    let asker = DeletionRequester::new("ann", "no longer\nneeded, requested at once", at).unwrap();
    let of_set = asker.for_member_of("shops", at);
    let of_this = "ann, by the deletion of the application (no longer needed, requested at once)";
    let with_set = "ann, by the deletion of shops (no longer needed, requested at once)";
    for (asker, who) in [(&asker, of_this), (&of_set, with_set)] {
        asker.annotate(&mut going.metadata.annotations);
        let ann = logged(&going);
        assert_eq!(ann, format!("{who}, requested at {when}"));
        assert_eq!(
            (parse_requester(&ann), Requester::deletion_requester(&ann)),
            (Some((who, Some(when.as_str()))), Some("ann"))
        );
    }
    // The requester of a failed attempt isn't used for a later attempt.
    let long_ago = Timestamp::from_millis(at.timestamp().as_millis() - 3_600_000).into();
    DeletionRequester::new("ann", "", long_ago).unwrap().annotate(&mut going.metadata.annotations);
    assert_eq!(logged(&going), requester);
    // Text that other clients write is truncated.
    let written = format!("{{\"by\": \"{}\", \"at\": \"{when}\"}}", "x".repeat(100_000));
    going.metadata.annotations.insert(DELETION_REQUESTED_BY.to_owned(), written);
    assert!(logged(&going).len() < 500);
    going.metadata.annotations.insert(DELETION_REQUESTED_BY.to_owned(), "ann".to_owned());
    assert_eq!(logged(&going), requester);
    assert_eq!(DeletionRequester::new(" \n", "because", at), None);
    for other in ["ann", "automated", "deletion of the application or so"] {
        assert_eq!((parse_requester(other), Requester::deletion_requester(other)), (None, None), "{other}");
    }
}
