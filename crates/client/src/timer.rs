//! Timers that may be off.

use tokio::time::Instant;

/// Waits until a time; without one, never completes. Cancel-safe.
pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
