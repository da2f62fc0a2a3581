//! C-246: circuit breaking.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use oxds_core::lb::RequestCount;

#[test]
fn c246_request_at_the_limit_gets_no_permit() {
    let count = Arc::new(RequestCount::default());
    let first = count.try_begin(2).unwrap();
    let second = count.try_begin(2);
    assert!(second.is_some());
    assert!(count.try_begin(2).is_none());
    // The refused request is not counted.
    assert_eq!(count.in_progress(), 2);
    drop(first);
    assert!(count.try_begin(2).is_some());
    assert!(Arc::new(RequestCount::default()).try_begin(0).is_none());
}

/// Threads that begin and end requests at the same time never hold more permits than the limit, and none is lost.
#[test]
fn c246_limit_holds_among_threads() {
    const LIMIT: u32 = 3;
    let count = Arc::new(RequestCount::default());
    let held = AtomicU32::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    if let Some(permit) = count.try_begin(LIMIT) {
                        assert!(held.fetch_add(1, Ordering::SeqCst) < LIMIT);
                        held.fetch_sub(1, Ordering::SeqCst);
                        drop(permit);
                    }
                }
            });
        }
    });
    assert_eq!(count.in_progress(), 0);
}
