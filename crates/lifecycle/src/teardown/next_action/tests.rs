//! Next action for every kind of wait in a teardown.

use super::*;

#[test]
fn every_wait_has_a_next_action() {
    let skip = "`tidegate appset skip argocd/fleet --app a --reason TEXT` continues without the Application";
    for (wait, expected) in [
        (Wait::Start, "nothing to do; it continues when the first step is evaluated".to_owned()),
        (Wait::Resume, "`tidegate appset resume argocd/fleet` continues the deletion".to_owned()),
        (
            Wait::ManualDeletion("a"),
            format!("`tidegate app delete argocd/a --yes` deletes the Application; {skip}"),
        ),
        (
            Wait::Blocked("a", "its finalizer"),
            format!(
                "`tidegate app explain argocd/a` shows the deletion, which is waiting for its finalizer; {skip}"
            ),
        ),
        (
            Wait::Deletion("a"),
            format!("nothing to do; it continues when Application a no longer exists; {skip}"),
        ),
        (
            Wait::Witnessed,
            "nothing to do; it continues when all Applications are deleted or released".to_owned(),
        ),
        (Wait::NextStep, "nothing to do; it continues when the next step starts".to_owned()),
        (Wait::Completed, "nothing to do; all Applications are deleted or released".to_owned()),
        (
            Wait::Unfinished,
            "`tidegate appset retry argocd/fleet` restarts the deletion once the cause is fixed".to_owned(),
        ),
    ] {
        assert_eq!(wait.action("argocd/fleet").to_string(), expected, "{wait:?}");
    }
}
