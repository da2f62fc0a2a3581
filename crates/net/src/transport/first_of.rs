//! Connects to the addresses of one server by Happy Eyeballs (RFC 8305, gRFC A61).
//!
//! The addresses are tried in order, and a new attempt starts when the last one has failed or has taken 250 ms. The
//! first attempt that succeeds is used, and the others are dropped. So an address that never answers delays the
//! connection by 250 ms and not by its time limit.

use std::future::{Future, pending, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::error::{CONNECT_TIMEOUT, DialError};

/// Time after which an attempt no longer delays the next one: the recommended value of RFC 8305 §5, and the default of
/// gRFC A61.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Returns the result of the first attempt that succeeds, or the last error. Each attempt has its own time limit.
///
/// Dropping the future drops all attempts.
pub(super) async fn first_of<A, T, F: Future<Output = Result<T, DialError>>>(
    addresses: impl IntoIterator<Item = A>,
    attempt: impl Fn(A) -> F,
) -> Result<T, DialError> {
    let mut addresses = addresses.into_iter();
    let mut running = Vec::new();
    let mut failure = DialError::NoAddress;
    loop {
        let next = addresses.next();
        let may_have_more = next.is_some();
        running.extend(next.map(|address| Box::pin(timeout(CONNECT_TIMEOUT, attempt(address)))));
        if running.is_empty() {
            return Err(failure);
        }
        let delay = async {
            if may_have_more {
                sleep(ATTEMPT_DELAY).await;
            } else {
                pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            ended = first_end(&mut running) => match ended {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(error)) => failure = error,
                Err(_) => failure = DialError::Timeout,
            },
            () = delay => {}
        }
    }
}

/// Waits until one of the futures ends, and removes it.
async fn first_end<F: Future>(running: &mut Vec<Pin<Box<F>>>) -> F::Output {
    poll_fn(|cx| {
        for index in 0..running.len() {
            if let Poll::Ready(output) = running[index].as_mut().poll(cx) {
                drop(running.swap_remove(index));
                return Poll::Ready(output);
            }
        }
        Poll::Pending
    })
    .await
}

/// Orders the addresses of a name so that IPv6 and IPv4 take turns, beginning with the resolver's first.
pub(super) fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    // RFC 8305 §4, gRFC A61: otherwise a name with many addresses of a family that the network does not carry takes
    // long.
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (preferred, others): (Vec<_>, Vec<_>) = addresses
        .into_iter()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let (mut preferred, mut others) = (preferred.into_iter(), others.into_iter());
    let mut ordered = Vec::with_capacity(preferred.len() + others.len());
    while preferred.len() + others.len() > 0 {
        ordered.extend(preferred.next());
        ordered.extend(others.next());
    }
    ordered
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::Instant;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// An address: how long its attempt takes, and whether it succeeds.
    type Scripted = (u64, bool);

    async fn attempt((time, succeeds): Scripted) -> Result<u64, DialError> {
        sleep(ms(time)).await;
        if succeeds {
            Ok(time)
        } else {
            Err(DialError::Io(Arc::new(io::Error::other(time.to_string()))))
        }
    }

    /// Returns the result, and the time that it took.
    async fn dialled(addresses: &[Scripted]) -> (Result<u64, String>, Duration) {
        let began = Instant::now();
        let result = first_of(addresses.iter().copied(), attempt).await;
        (result.map_err(|error| error.to_string()), began.elapsed())
    }

    const NEVER: u64 = 3_600_000;

    #[tokio::test(start_paused = true)]
    async fn silent_addresses_delay_the_next_by_250_ms() {
        let (result, took) = dialled(&[(NEVER, true), (NEVER, true), (30, true)]).await;
        assert_eq!(result, Ok(30));
        assert_eq!(took, ms(530));
    }

    #[tokio::test(start_paused = true)]
    async fn failed_address_does_not_delay_the_next() {
        let (result, took) = dialled(&[(10, false), (20, false), (30, true)]).await;
        assert_eq!(result, Ok(30));
        assert_eq!(took, ms(60));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_first_address_wins_over_slower_second() {
        let (result, took) = dialled(&[(300, true), (200, true)]).await;
        assert_eq!(result, Ok(300));
        assert_eq!(took, ms(300));
    }

    #[tokio::test(start_paused = true)]
    async fn all_addresses_failed_gives_the_last_error() {
        let (result, _) = dialled(&[(400, false), (10, false)]).await;
        assert_eq!(result, Err("400".to_owned()));
        let (result, took) = dialled(&[(NEVER, true), (10, false)]).await;
        assert_eq!(result, Err(DialError::Timeout.to_string()));
        assert_eq!(took, CONNECT_TIMEOUT);
        let (result, _) = dialled(&[]).await;
        assert_eq!(result, Err(DialError::NoAddress.to_string()));
    }

    #[tokio::test(start_paused = true)]
    async fn first_success_drops_the_other_attempts() {
        let running = Arc::new(AtomicUsize::new(0));
        struct Running(Arc<AtomicUsize>);
        impl Drop for Running {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let counted = |address| {
            running.fetch_add(1, Ordering::Relaxed);
            let counted = Running(Arc::clone(&running));
            async move {
                let _counted = counted;
                attempt(address).await
            }
        };
        let result = first_of([(NEVER, true), (NEVER, true), (5, true)], counted).await;
        assert_eq!(result.unwrap(), 5);
        assert_eq!(running.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn address_families_take_turns() {
        let addresses = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let resolved = addresses(&["[::1]:1", "[::2]:1", "[::3]:1", "1.0.0.1:1", "1.0.0.2:1"]);
        let expected = addresses(&["[::1]:1", "1.0.0.1:1", "[::2]:1", "1.0.0.2:1", "[::3]:1"]);
        assert_eq!(interleaved(resolved), expected);
        let resolved = addresses(&["1.0.0.1:1", "[::1]:1", "1.0.0.2:1"]);
        let expected = addresses(&["1.0.0.1:1", "[::1]:1", "1.0.0.2:1"]);
        assert_eq!(interleaved(resolved), expected);
    }
}
