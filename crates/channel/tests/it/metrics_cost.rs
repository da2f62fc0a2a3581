//! C-260: what metrics cost a call.

use std::sync::Arc;

use oxds_channel::testing::{Call, EchoBackend, Script, call, cluster, config};
use oxds_channel::{Pool, XdsChannel};
use oxds_client::metrics::{Bound, Instrument, Recorder};

use crate::support::ready;

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];
/// Allocations of a unary call on its own thread, with those of the test's client and of HTTP/2.
const ALLOCATIONS: u64 = 17;

/// Returns the allocations of one call on the caller's thread, as the least of many calls.
fn allocations(recorder: Option<Arc<dyn Recorder>>) -> u64 {
    // The backend has a thread of its own: the counts are those of the thread.
    let (started, address) = std::sync::mpsc::channel();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let backend = EchoBackend::start().await.unwrap();
            started.send(backend.address()).unwrap();
            let _ = stopped.await;
        });
    });
    let address = address.recv().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let least = runtime.block_on(async {
        let builder = XdsChannel::builder("xds:///svc").pool(Pool::new());
        let builder = match recorder {
            Some(recorder) => builder.recorder(recorder),
            None => builder,
        };
        let (script, channel) = Script::channel(builder).unwrap();
        script.set(config(
            ALL,
            vec![cluster("one", &[&[("eu", 1, &[address])]], 0)],
        ));
        ready(&channel, 1).await;
        let mut least = u64::MAX;
        for _ in 0..200 {
            // A nested runtime cannot run here, so the call is polled by hand.
            let mut one = std::pin::pin!(call(&channel, Call::default()));
            let mut count = 0;
            std::future::poll_fn(|cx| {
                let mut polled = std::task::Poll::Pending;
                let info = allocation_counter::measure(|| polled = one.as_mut().poll(cx));
                count += info.count_total;
                polled
            })
            .await
            .unwrap();
            least = least.min(count);
        }
        drop((script, channel));
        least
    });
    drop(stop);
    server.join().unwrap();
    least
}

/// A recorder that ignores everything.
#[derive(Debug)]
struct Ignored;

impl Recorder for Ignored {
    fn add(&self, _: &'static Instrument, _: &[&str], _: u64) {}
    fn set(&self, _: &'static Instrument, _: &[&str], _: i64) {}
    fn end(&self, _: &'static Instrument, _: &[&str]) {}
    fn bind(&self, _: &'static Instrument, _: &[&str]) -> Option<Box<dyn Bound>> {
        Some(Box::new(IgnoredSeries))
    }
}

#[derive(Debug)]
struct IgnoredSeries;

impl Bound for IgnoredSeries {}

#[test]
fn c260_call_allocates_nothing_for_metrics_without_recorder() {
    let without = allocations(None);
    let with = allocations(Some(Arc::new(Ignored)));
    // The state of the RPC, and the counter of sent bytes.
    assert_eq!(with - without, 2, "{with} {without}");
    // As many as before there were metrics.
    assert!(without <= ALLOCATIONS, "{without}");
}
