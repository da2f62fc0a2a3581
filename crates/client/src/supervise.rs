//! Panics of the client's own tasks: they are logged, and the task starts again.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// Delay before a task starts again, so that a panic that comes back does not take the processor.
pub(crate) const RESTART_DELAY: Duration = Duration::from_secs(1);

/// Runs a future to its end. Returns the message of the panic, if it panics.
///
/// The caller must not use state that the future has left half changed.
pub(crate) async fn caught<F: Future>(future: F) -> Result<F::Output, String> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx)));
        match polled {
            Ok(poll) => poll.map(Ok),
            Err(payload) => Poll::Ready(Err(message(&*payload))),
        }
    })
    .await
}

fn message(payload: &(dyn Any + Send)) -> String {
    let literal = payload.downcast_ref::<&str>().copied();
    let text = literal.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panic without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_becomes_its_message() {
        assert_eq!(caught(async { 7 }).await, Ok(7));
        let panics = async {
            tokio::task::yield_now().await;
            let at = 3;
            panic!("broken at {at}");
        };
        assert_eq!(caught(panics).await, Err::<(), _>("broken at 3".to_owned()));
    }
}
