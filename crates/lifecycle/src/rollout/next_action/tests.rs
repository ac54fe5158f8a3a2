//! Next action for every kind of wait in a rollout.

use super::*;

#[test]
fn every_wait_has_a_next_action() {
    let at = Timestamp::from_millis(0);
    let skip = "`tidegate appset skip argocd/fleet --app a --reason TEXT` continues without the Application";
    let explain = "`tidegate app explain argocd/a` shows the Application's state";
    for (wait, expected) in [
        (Wait::Start, "nothing to do; it continues when the first step is evaluated".to_owned()),
        (Wait::Resume, "`tidegate appset resume argocd/fleet` continues the rollout".to_owned()),
        (
            Wait::Failure(2),
            "`tidegate appset resume argocd/fleet` continues the rollout without the failed Applications; before that, \
             `tidegate appset retry argocd/fleet --step 2` retries the failed Applications"
                .to_owned(),
        ),
        (Wait::Approval, "`tidegate appset approve argocd/fleet` opens the step".to_owned()),
        (
            Wait::Soak(at),
            "nothing to do; it continues when the soak time ends at 1970-01-01T00:00:00.000Z".to_owned(),
        ),
        (
            Wait::Gate("freeze", "it is Friday"),
            "nothing to do; it continues when the gate freeze opens (it is Friday)".to_owned(),
        ),
        (Wait::Gates, "nothing to do; it continues when the gates report their results".to_owned()),
        (
            Wait::FailedMember("a"),
            format!("`tidegate appset retry argocd/fleet --app a` retries the Application once the cause is fixed; {skip}"),
        ),
        (Wait::ManualSync("a"), format!("`tidegate app sync argocd/a` syncs the Application; {skip}")),
        (
            Wait::Delayed("a"),
            format!("nothing to do; it continues when the sync of Application a may start; {explain}"),
        ),
        (
            Wait::Health("a"),
            format!("`tidegate app get argocd/a` shows which of its objects are not healthy; {skip}"),
        ),
        (
            Wait::Operation("a"),
            format!("nothing to do; it continues when the operation for Application a ends; {explain}"),
        ),
        (
            Wait::Sync("a"),
            format!("nothing to do; it continues when the sync of Application a starts; {explain}"),
        ),
        (
            Wait::Stop("a"),
            format!("nothing to do; it continues when the operation for Application a is stopped; {explain}"),
        ),
        (Wait::Retry("a"), "nothing to do; it continues when Application a is retried".to_owned()),
        (Wait::NextStep, "nothing to do; it continues when the next step starts".to_owned()),
        (Wait::End, "nothing to do; the rollout ends when its running operations end".to_owned()),
        (Wait::Completed, "nothing to do; the next rollout starts when the targets change".to_owned()),
        (Wait::Superseded, "nothing to do; the rollout to the new targets takes over the work".to_owned()),
        (
            Wait::Unfinished,
            "`tidegate appset retry argocd/fleet` restarts the rollout once the cause is fixed".to_owned(),
        ),
    ] {
        assert_eq!(wait.action("argocd/fleet").to_string(), expected, "{wait:?}");
    }
}
