//! Checks that a write must pass immediately before it is sent.
//!
//! A write can wait for a long time between the decision to send it and the actual request, for example while
//! the server is overloaded. A layer that allows writes only for a limited time must therefore check them
//! again at the last moment.

use std::sync::Arc;

use crate::ClusterError;

tokio::task_local! {
    static CHECKS: Arc<Checks>;
}

type Check = Box<dyn Fn() -> Result<(), ClusterError> + Send + Sync>;

/// Check of the current call, with those of the outer layers.
struct Checks {
    check: Check,
    outer: Option<Arc<Checks>>,
}

/// Runs a call to a cluster whose writes must pass `check`, in addition to the checks of outer layers.
pub async fn with_write_check<T>(
    check: impl Fn() -> Result<(), ClusterError> + Send + Sync + 'static,
    call: impl Future<Output = T>,
) -> T {
    let outer = CHECKS.try_with(Arc::clone).ok();
    CHECKS.scope(Arc::new(Checks { check: Box::new(check), outer }), call).await
}

/// Checks whether the current call may still write. A client calls this immediately before it sends a write.
pub fn check_write() -> Result<(), ClusterError> {
    let mut next = CHECKS.try_with(Arc::clone).ok();
    while let Some(checks) = next {
        (checks.check)()?;
        next = checks.outer.clone();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn refuse(text: &'static str) -> impl Fn() -> Result<(), ClusterError> + Send + Sync {
        move || Err(ClusterError::new(ErrorKind::Timeout, text))
    }

    #[tokio::test]
    async fn a_write_must_pass_the_checks_of_all_layers() {
        assert!(check_write().is_ok(), "a call without layers may write");
        for (outer, inner) in [(true, false), (false, true), (false, false), (true, true)] {
            let outcome = with_write_check(
                move || if outer { Ok(()) } else { refuse("outer")() },
                with_write_check(move || if inner { Ok(()) } else { refuse("inner")() }, async {
                    check_write()
                }),
            );
            assert_eq!(outcome.await.is_ok(), outer && inner, "{outer} {inner}");
        }
        assert!(check_write().is_ok(), "the checks end with the call");
    }
}
