//! Is an application deleted, with what of it, and what is done next for that?
//!
//! Its finalizers say it, as in Argo CD: with one for resources its objects are deleted by an operation, with one for hooks
//! alone only the hooks run. When that operation has succeeded, the finalizers go, and the application with them. One without
//! any of them is forgotten, and nothing of the cluster is touched.

use std::time::Duration;

use tidegate_model::annotations::DELETION_APPROVED;
use tidegate_model::argo::{
    Application, ConditionType, OperationInitiator, OperationRequest, OperationState, Retry, SyncOperation,
};
use tidegate_model::{
    Cascade, ClaimRequest, Destination, OperationPhase, SyncOptions, SyncRequest, Timestamp,
};

use crate::operation::{self, BETWEEN, DELETION_REMARK, Refused, described, retry};
use crate::sources::{Sources, revisions};
use crate::{conditions, instance_name};

/// Keeps an application until its objects are deleted.
pub const RESOURCES_FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";
/// Keep an application until the hooks of its deletion have run.
const HOOK_FINALIZERS: [&str; 2] =
    ["pre-delete-finalizer.argocd.argoproj.io", "post-delete-finalizer.argocd.argoproj.io"];
/// Behind the first: what an object owns is deleted after it.
const BACKGROUND: &str = "/background";
/// Who asks for a deletion, as the log has it.
pub(crate) const BY_DELETION: &str = "deletion of the application";
/// How often a deletion is tried again at once, where the application does not say.
const RETRIES: i64 = 2;
/// How long after a deletion that has failed another one begins by itself.
const AGAIN_AFTER: Duration = Duration::from_secs(180);

/// Whether a finalizer is one of those that say how an application is deleted.
pub fn is_own_finalizer(finalizer: &str) -> bool {
    let is =
        |own: &str| finalizer.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    is(RESOURCES_FINALIZER) || HOOK_FINALIZERS.into_iter().any(is)
}

/// Whether it is one for the objects.
pub fn is_resources_finalizer(finalizer: &str) -> bool {
    is_own_finalizer(finalizer) && finalizer.starts_with(RESOURCES_FINALIZER)
}

/// What becomes of the objects of an application when it is deleted, by its finalizers; `None` where it is forgotten and
/// nothing else is done.
pub fn cascade(application: &Application) -> Option<Cascade> {
    let mut own = application.metadata.finalizers.iter().filter(|one| is_own_finalizer(one));
    let resources = own.clone().find_map(|one| one.strip_prefix(RESOURCES_FINALIZER));
    match resources {
        Some(BACKGROUND) => Some(Cascade::Background),
        Some(_) => Some(Cascade::Foreground),
        None => own.next().map(|_| Cascade::Orphan),
    }
}

/// The finalizers of an application that is to be deleted like this.
pub fn finalizers(application: &Application, cascade: Cascade) -> Vec<String> {
    let mut finalizers = application.metadata.finalizers.clone();
    finalizers.retain(|one| !is_resources_finalizer(one));
    match cascade {
        Cascade::Foreground => finalizers.push(RESOURCES_FINALIZER.to_owned()),
        Cascade::Background => finalizers.push(format!("{RESOURCES_FINALIZER}{BACKGROUND}")),
        Cascade::Orphan => {}
    }
    finalizers
}

/// What is done next for the deletion of an application.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Nothing, until something happens.
    Nothing,
    /// The operation is begun.
    Begin(Box<OperationRequest>),
    /// The last one has failed; another one begins then.
    Wait(Timestamp),
    /// All is done: its finalizers go.
    Release,
}

/// Decides what is done next, and says in the conditions why an application is still there. `asked`: somebody wants it to be
/// tried again.
pub fn take_in(application: &mut Application, asked: bool, now: Timestamp) -> Next {
    let (next, error) = decide(application, asked, now);
    let found = error.map(|error| (ConditionType::DeletionError, error));
    conditions::set(&mut application.status.conditions, &[ConditionType::DeletionError], found, now);
    next
}

fn decide(application: &Application, asked: bool, now: Timestamp) -> (Next, Option<String>) {
    let wanted = cascade(application).filter(|_| application.is_deleting());
    let Some(wanted) = wanted else { return (Next::Nothing, None) };
    if application.operation.is_some() {
        // An operation under way is finished first.
        return (Next::Nothing, None);
    }
    let begin = || Next::Begin(Box::new(operation(application, wanted)));
    let Some((last, done)) = last(application) else { return (begin(), None) };
    if last.phase == OperationPhase::Succeeded {
        // One that left the objects is not enough where they are to go.
        let is_done = done == wanted || done.deletes();
        return (if is_done { Next::Release } else { begin() }, None);
    }
    let due = last.finished_at.map_or(now, |at| at.moment() + AGAIN_AFTER);
    if asked || due <= now {
        return (begin(), None);
    }
    let name = &application.metadata.name;
    let stay = match wanted {
        Cascade::Orphan => "",
        _ => " and leaves its objects where they are",
    };
    let error = format!(
        "deleting it has failed: {}; it is tried again at {due}, or at once with `tidegate app refresh {name}`; taking its finalizers away ends the deletion{stay}",
        last.message
    );
    (Next::Wait(due), Some(error))
}

/// The last operation, where that was a deletion begun since this one was asked for.
fn last(application: &Application) -> Option<(&OperationState, Cascade)> {
    let last = application.status.operation_state.as_ref().filter(|last| last.phase.is_completed())?;
    let done = operation::cascade(&last.operation)?;
    let asked_at = application.metadata.deletion_timestamp.as_ref()?;
    // Servers give whole seconds.
    (last.started_at.moment() + Duration::from_secs(1) > asked_at.moment()).then_some((last, done))
}

/// Whether somebody has approved the deletion of what asks for that, since it was asked for.
pub fn is_approved(application: &Application) -> bool {
    let approved = application.annotation(DELETION_APPROVED).and_then(|at| at.parse::<Timestamp>().ok());
    let asked = application.metadata.deletion_timestamp.as_ref().map(|at| at.moment());
    approved.zip(asked).is_some_and(|(approved, asked)| approved >= asked)
}

/// What the deletion of an application asks of the engine, at a place.
pub fn request(
    application: &Application,
    operation: &OperationRequest,
    (destination, namespace): (Destination, String),
) -> Result<SyncRequest, Refused> {
    let cascade = operation::cascade(operation).ok_or(Refused::Nothing)?;
    let sync = operation.sync.clone().unwrap_or_default();
    let is_shared = matches!(destination, Destination::Kubernetes { .. });
    Ok(SyncRequest {
        revision: revisions(&sync.revision, &sync.revisions).join(BETWEEN),
        options: SyncOptions {
            prune: true,
            prune_confirmed: is_approved(application),
            flags: sync.sync_options,
            ..SyncOptions::default()
        },
        retry: operation.retry.as_ref().map(retry).transpose()?.unwrap_or_default(),
        initiated_by: BY_DELETION.to_owned(),
        sources: Sources::of(application).all().iter().map(described).collect(),
        claim: is_shared.then(ClaimRequest::default),
        deletion: Some(cascade),
        ..SyncRequest::new(instance_name(application), namespace, destination)
    })
}

fn operation(application: &Application, cascade: Cascade) -> OperationRequest {
    let policy = application.spec.sync_policy.clone().unwrap_or_default();
    let sources = Sources::of(application).bare();
    let sync = SyncOperation {
        source: sources.one(),
        sources: sources.several(),
        prune: true,
        sync_options: policy.sync_options,
        ..SyncOperation::default()
    };
    let mut operation = OperationRequest {
        sync: Some(sync),
        initiated_by: OperationInitiator { automated: true, ..OperationInitiator::default() },
        retry: Some(policy.retry.unwrap_or_else(|| Retry { limit: RETRIES, ..Retry::default() })),
        ..OperationRequest::default()
    };
    operation.set_remark(DELETION_REMARK, cascade.as_str());
    operation
}

#[cfg(test)]
mod tests {
    use tidegate_model::argo::Rest;

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
            let again = |cascade| super::tests::application_with(finalizers(&application, cascade));
            for wanted in [Cascade::Foreground, Cascade::Background] {
                assert_eq!(cascade_of(&again(wanted)), Some(wanted), "{given:?}");
            }
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
            (Cascade::Foreground, Succeeded, before, "begin foreground", "begin foreground"),
            (Cascade::Foreground, Failed, NOW, "wait 180 s", "begin foreground"),
            (Cascade::Foreground, Running, NOW, "begin foreground", "begin foreground"),
        ] {
            let mut application = cascading();
            ended(&mut application, done, phase, at);
            assert_eq!(next(&application, false), expected, "{done} {phase}");
            assert_eq!(next(&application, true), asked, "{done} {phase}");
        }
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
}
