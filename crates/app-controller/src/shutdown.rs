//! Shutdown of actors that supervise other actors.

use ractor::ActorCell;

/// Kills all of an actor's children, canceling whatever they are waiting for, and waits until they have
/// stopped and can't interfere with a successor.
pub async fn stop_children(of: ActorCell) {
    let children = of.get_children();
    children.iter().for_each(ActorCell::kill);
    for child in children {
        // Without a timeout, the wait never returns an error.
        let _ = child.wait(None).await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests may panic")]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{Arc, mpsc};
    use std::task::Poll;

    use ractor::{Actor, ActorProcessingErr, ActorRef};
    use tokio::sync::oneshot;

    use super::*;

    struct Parent;

    impl Actor for Parent {
        type Msg = ();
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<()>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }
    }

    /// Actor whose write blocks until the test allows it to finish, and can't be canceled.
    struct Child {
        is_written: Arc<AtomicBool>,
    }

    impl Actor for Child {
        type Msg = (oneshot::Sender<()>, mpsc::Receiver<()>);
        type State = ();
        type Arguments = ();

        async fn pre_start(&self, _: ActorRef<Self::Msg>, (): ()) -> Result<(), ActorProcessingErr> {
            Ok(())
        }

        async fn handle(
            &self,
            _: ActorRef<Self::Msg>,
            (started, may_end): Self::Msg,
            (): &mut (),
        ) -> Result<(), ActorProcessingErr> {
            started.send(()).unwrap();
            may_end.recv().unwrap();
            self.is_written.store(true, Ordering::SeqCst);
            Ok(())
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_pending_write_finishes_before_the_children_stop() {
        let is_written = Arc::new(AtomicBool::new(false));
        let (parent, _) = Actor::spawn(None, Parent, ()).await.unwrap();
        let child = Child { is_written: Arc::clone(&is_written) };
        let (child, _) = Actor::spawn_linked(None, child, (), parent.get_cell()).await.unwrap();
        let (started, has_begun) = oneshot::channel();
        let (end, may_end) = mpsc::channel();
        child.send_message((started, may_end)).unwrap();
        has_begun.await.unwrap();
        let mut ending = pin!(stop_children(parent.get_cell()));
        let is_over = poll_fn(|context| Poll::Ready(ending.as_mut().poll(context).is_ready())).await;
        assert!(!is_over && !is_written.load(Ordering::SeqCst));
        end.send(()).unwrap();
        ending.await;
        assert!(is_written.load(Ordering::SeqCst));
    }
}
