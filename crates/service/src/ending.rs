//! How those end who look after other actors.

use ractor::ActorCell;

/// Ends all that an actor looks after, and returns when none of that does anything more: whoever goes on with it afterwards is
/// alone. What waits for something is broken off there.
pub async fn end_children(of: ActorCell) {
    let children = of.get_children();
    children.iter().for_each(ActorCell::kill);
    for child in children {
        // Without a limit of time there is no error.
        let _ = child.wait(None).await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests stop at the first surprise")]
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

    /// Writes, which takes until somebody says so and is not broken off.
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
            (begun, may_end): Self::Msg,
            (): &mut (),
        ) -> Result<(), ActorProcessingErr> {
            begun.send(()).unwrap();
            may_end.recv().unwrap();
            self.is_written.store(true, Ordering::SeqCst);
            Ok(())
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_is_being_written_is_written_before_they_have_ended() {
        let is_written = Arc::new(AtomicBool::new(false));
        let (parent, _) = Actor::spawn(None, Parent, ()).await.unwrap();
        let child = Child { is_written: Arc::clone(&is_written) };
        let (child, _) = Actor::spawn_linked(None, child, (), parent.get_cell()).await.unwrap();
        let (begun, has_begun) = oneshot::channel();
        let (end, may_end) = mpsc::channel();
        child.send_message((begun, may_end)).unwrap();
        has_begun.await.unwrap();
        let mut ending = pin!(end_children(parent.get_cell()));
        let is_over = poll_fn(|context| Poll::Ready(ending.as_mut().poll(context).is_ready())).await;
        assert!(!is_over && !is_written.load(Ordering::SeqCst));
        end.send(()).unwrap();
        ending.await;
        assert!(is_written.load(Ordering::SeqCst));
    }
}
