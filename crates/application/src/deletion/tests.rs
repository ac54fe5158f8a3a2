//! What is done next for a deletion, and what is said of it.

use tidegate_model::annotations::DELETION_REQUESTED_BY;
use tidegate_model::argo::{HealthState, Rest};

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn application(finalizers: &[&str], deleting: bool) -> Application {
    let mut application = Application::default();
    application.metadata.name = "web".to_owned();
    application.metadata.finalizers = finalizers.iter().map(|one| (*one).to_owned()).collect();
    application.metadata.deletion_timestamp = deleting.then(|| NOW.into());
    application
}

fn ended(application: &mut Application, cascade: Cascade, phase: OperationPhase, at: Timestamp) {
    application.status.operation_state = Some(OperationState {
        operation: operation(application, cascade),
        phase,
        message: "PreDelete hook(s) failed: shop/drain".to_owned(),
        started_at: at.into(),
        finished_at: phase.is_completed().then(|| at.into()),
        retry_count: 0,
        sync_result: None,
        rest: Rest::new(),
    });
}

#[test]
fn finalizers_say_what_is_deleted() {
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
        assert_eq!(cascade(&application), expected, "{given:?}");
        let again = |cascade| application_with(finalizers(&application, cascade));
        assert_eq!(cascade_of(&again(Cascade::Background)), Some(Cascade::Background), "{given:?}");
        // Which is what nobody has to ask for.
        let foreground = expected.filter(|one| one.deletes()).unwrap_or(Cascade::Foreground);
        assert_eq!(cascade_of(&again(Cascade::Foreground)), Some(foreground), "{given:?}");
        let hooks = given.iter().any(|one| one.contains("-delete-"));
        assert_eq!(cascade_of(&again(Cascade::Orphan)), hooks.then_some(Cascade::Orphan), "{given:?}");
    }
}

fn cascade_of(application: &Application) -> Option<Cascade> {
    cascade(application)
}

fn application_with(finalizers: Vec<String>) -> Application {
    let mut application = application(&[], true);
    application.metadata.finalizers = finalizers;
    application
}

#[test]
fn a_deletion_is_begun_once_and_tried_again() {
    use OperationPhase::{Failed, Running, Succeeded};
    let cascading = || application(&[RESOURCES_FINALIZER], true);
    let next = |application: &Application, asked| match decide(application, asked, NOW).0 {
        Next::Nothing => "nothing".to_owned(),
        Next::Begin(begun) => format!("begin {}", operation::cascade(&begun).unwrap()),
        Next::Wait(until) => format!("wait {} s", until.since(NOW).as_secs()),
        Next::Release => "release".to_owned(),
    };
    assert_eq!(next(&application(&[RESOURCES_FINALIZER], false), true), "nothing");
    assert_eq!(next(&application(&[], true), true), "nothing", "it is forgotten");
    assert_eq!(next(&cascading(), false), "begin foreground");
    let mut busy = cascading();
    busy.operation = Some(OperationRequest::default());
    assert_eq!(next(&busy, false), "nothing", "what is under way is finished first");
    let before = Timestamp::from_millis(NOW.as_millis() - 60_000);
    for (done, phase, at, expected, asked) in [
        (Cascade::Foreground, Succeeded, NOW, "release", "release"),
        (Cascade::Background, Succeeded, NOW, "release", "release"),
        (Cascade::Orphan, Succeeded, NOW, "begin foreground", "begin foreground"),
        // Our clock may be behind the one of the server.
        (Cascade::Foreground, Succeeded, before, "release", "release"),
        (Cascade::Foreground, Failed, before, "wait 120 s", "begin foreground"),
        (Cascade::Foreground, Failed, NOW, "wait 180 s", "begin foreground"),
        (Cascade::Foreground, Running, NOW, "begin foreground", "begin foreground"),
    ] {
        let mut application = cascading();
        ended(&mut application, done, phase, at);
        assert_eq!(next(&application, false), expected, "{done} {phase}");
        assert_eq!(next(&application, true), asked, "{done} {phase}");
    }
    // One that was deleted before, under the same name, is no deletion of this one, whatever the clocks say.
    let mut another = cascading();
    ended(&mut another, Cascade::Foreground, Succeeded, NOW);
    another.metadata.deletion_timestamp = Some(Timestamp::from_millis(NOW.as_millis() + 1_000).into());
    assert_eq!(next(&another, false), "begin foreground");
    let mut failed = cascading();
    ended(&mut failed, Cascade::Foreground, Failed, NOW);
    take_in(&mut failed, false, NOW);
    let [condition] = failed.status.conditions.as_slice() else { panic!("{:?}", failed.status) };
    assert_eq!(condition.kind, ConditionType::DeletionError);
    assert!(condition.message.contains("shop/drain") && condition.message.contains("app refresh web"));
    assert_eq!(
        take_in(&mut failed, true, NOW),
        Next::Begin(Box::new(operation(&failed, Cascade::Foreground)))
    );
    assert!(failed.status.conditions.is_empty(), "nothing is wrong any more, as far as is known");
}

fn said(application: &mut Application) -> String {
    take_in(application, false, NOW);
    let said = application.status.conditions.iter().map(|one| one.message.as_str());
    said.collect::<Vec<_>>().join("\n")
}

#[test]
fn what_holds_a_deletion_up_is_said() {
    let mut busy = application(&[RESOURCES_FINALIZER], true);
    let mut asked = OperationRequest::default();
    asked.set_remark(operation::ID_REMARK, "0a");
    busy.operation = Some(asked);
    let message = said(&mut busy);
    assert!(message.contains("is deleted when operation"), "{message}");
    assert!(message.contains("`tidegate app terminate web` ends that"), "{message}");
    // Its file is there again.
    let mut back = application(&[RESOURCES_FINALIZER], true);
    back.operation = Some(operation(&back, Cascade::Foreground));
    back.metadata.deletion_timestamp = None;
    assert!(said(&mut back).contains("it is written down again"));
    // All is done, and others keep it.
    let mut kept = application(&["example.com/b"], true);
    kept.status.health = Some(HealthState {
        status: HealthStatus::Healthy,
        message: String::new(),
        last_transition_time: None,
        rest: Rest::new(),
    });
    kept.status.sync.get_or_insert_default().status = SyncStatusCode::Synced;
    kept.status.resources = vec![Default::default()];
    assert!(said(&mut kept).starts_with("its objects stay; "), "nobody has deleted them");
    assert_eq!(kept.status.resources.len(), 1);
    ended(&mut kept, Cascade::Foreground, OperationPhase::Succeeded, NOW);
    let message = said(&mut kept);
    assert!(
        message.starts_with("its objects are deleted; ") && message.contains("example.com/b"),
        "{message}"
    );
    assert_eq!(kept.status.sync.unwrap().status, SyncStatusCode::Unknown);
    assert_eq!(kept.status.health.unwrap().status, HealthStatus::Missing);
    assert!(kept.status.resources.is_empty());
}

#[test]
fn a_second_wish_for_the_same_deletion_goes_along_with_it() {
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
        assert_eq!(is_under_way(&application(finalizers, true), wanted), expected, "{finalizers:?} {wanted}");
        assert!(!is_under_way(&application(finalizers, false), wanted), "nobody deletes it");
    }
}

/// By its time, or by when it was written: the clock of whoever approves may be behind that of the server.
#[test]
fn an_approval_counts_that_was_given_since() {
    let early = Timestamp::from_millis(NOW.as_millis() - 3_600_000).to_string();
    let other = Timestamp::from_millis(NOW.as_millis() - 60_000).to_string();
    let approve = |application: &mut Application, at: &str| {
        application.metadata.annotations.insert(DELETION_APPROVED.to_owned(), at.to_owned());
    };
    let mut application = application(&[RESOURCES_FINALIZER], true);
    approve(&mut application, &early);
    let begun = operation(&application, Cascade::Foreground);
    assert!(!is_approved(&application, &begun), "it was there before");
    approve(&mut application, &other);
    assert!(is_approved(&application, &begun));
    approve(&mut application, "yes");
    assert!(!is_approved(&application, &begun), "it is no time");
    approve(&mut application, &NOW.to_string());
    assert!(is_approved(&application, &begun));
    // What was approved stays so when the deletion is tried again.
    approve(&mut application, &other);
    ended(&mut application, Cascade::Foreground, OperationPhase::Failed, NOW);
    if let Some(last) = &mut application.status.operation_state {
        last.operation = begun;
    }
    let again = operation(&application, Cascade::Foreground);
    assert!(is_approved(&application, &again));
    assert!(!is_approved(&application, &OperationRequest::default()), "of another deletion it says nothing");
}

#[test]
fn who_asks_for_a_deletion_is_in_the_log_and_comes_back_from_it() {
    let mut going = application(&[RESOURCES_FINALIZER], true);
    let at = going.metadata.deletion_timestamp.unwrap();
    let logged = |going: &Application| {
        let begun = operation(going, Cascade::Foreground);
        request(going, &begun, (Destination::Simulated, "shop".to_owned())).unwrap().initiated_by
    };
    let when = at.to_string();
    let nobody = logged(&going);
    assert_eq!(nobody, format!("deletion of the application, asked for at {when}"));
    assert_eq!((asked(&nobody), Wisher::deleting(&nobody)), (Some(("", Some(when.as_str()))), None));
    let asker = Asker::new("ann", "no longer\nneeded, asked for at once", at).unwrap();
    let of_set = asker.with_set("shops", at);
    let of_this = "ann, by the deletion of the application (no longer needed, asked for at once)";
    let with_set = "ann, by the deletion of shops (no longer needed, asked for at once)";
    for (asker, who) in [(&asker, of_this), (&of_set, with_set)] {
        asker.annotate(&mut going.metadata.annotations);
        let ann = logged(&going);
        assert_eq!(ann, format!("{who}, asked for at {when}"));
        assert_eq!((asked(&ann), Wisher::deleting(&ann)), (Some((who, Some(when.as_str()))), Some("ann")));
    }
    // One that came to nothing says nothing of a later one.
    let long_ago = Timestamp::from_millis(at.moment().as_millis() - 3_600_000).into();
    Asker::new("ann", "", long_ago).unwrap().annotate(&mut going.metadata.annotations);
    assert_eq!(logged(&going), nobody);
    // What somebody else has written there is no more than a text, and not without end.
    let written = format!("{{\"by\": \"{}\", \"at\": \"{when}\"}}", "x".repeat(100_000));
    going.metadata.annotations.insert(DELETION_REQUESTED_BY.to_owned(), written);
    assert!(logged(&going).len() < 500);
    going.metadata.annotations.insert(DELETION_REQUESTED_BY.to_owned(), "ann".to_owned());
    assert_eq!(logged(&going), nobody);
    assert_eq!(Asker::new(" \n", "because", at), None);
    for other in ["ann", "automated", "deletion of the application or so"] {
        assert_eq!((asked(other), Wisher::deleting(other)), (None, None), "{other}");
    }
}
