//! Waiting for a condition, never for a fixed time.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Fallible;

/// Interval at which a condition without an event is checked.
const POLL: Duration = Duration::from_millis(20);

/// Repeats `probe` until it yields a value. After `limit`, the error names the awaited `what` and the last failure. An
/// error in a probe is a reason to try again.
pub(crate) async fn until<T>(
    what: &str,
    limit: Duration,
    mut probe: impl AsyncFnMut() -> Fallible<Option<T>>,
) -> Fallible<T> {
    let deadline = Instant::now() + limit;
    loop {
        let seen = match tokio::time::timeout_at(deadline, probe()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => String::new(),
            Ok(Err(error)) => format!(": {error}"),
            Err(_) => ": the look itself took too long".to_owned(),
        };
        if Instant::now() >= deadline {
            return Err(format!("{what}: not within {limit:?}{seen}").into());
        }
        sleep(POLL).await;
    }
}
