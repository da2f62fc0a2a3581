//! The management server, killed and started again under load.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::task::JoinHandle;

use crate::support::{ControlPlane, backends, call_once, eventually, one};

/// One client, which calls without a pause.
struct Caller {
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

/// What became of its calls.
#[derive(Default)]
struct Seen {
    calls: AtomicUsize,
    failed: Mutex<Vec<String>>,
    /// Who answered the latest.
    latest: Mutex<Option<SocketAddr>>,
    enough: AtomicBool,
}

impl Caller {
    fn start(control_plane: &ControlPlane) -> Self {
        let (channel, seen) = (control_plane.channel(), Arc::new(Seen::default()));
        let told = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while !told.enough.load(Ordering::Relaxed) {
                match call_once(&channel).await {
                    Ok(backend) => *told.latest.lock().unwrap() = Some(backend),
                    Err(status) => told.failed.lock().unwrap().push(status.to_string()),
                }
                told.calls.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { seen, task }
    }

    fn calls(&self) -> usize {
        self.seen.calls.load(Ordering::Relaxed)
    }

    fn reaches(&self, backend: SocketAddr) -> bool {
        *self.seen.latest.lock().unwrap() == Some(backend)
    }
}

/// Given clients that call without a pause; when the server is killed, comes back with other clusters and routes, and
/// that three times; then no call fails, not while it is dead either, and all clients end at what it serves last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s79_a_server_that_is_killed_under_load_costs_no_call() {
    let backends = backends::<4>().await;
    let yaml = |round: usize| {
        let endpoint = [(backends[round].address(), "HEALTHY")];
        one(&format!("cluster-{round}"), &[("here", 1, 0, &endpoint)])
    };
    let mut control_plane = ControlPlane::start(&yaml(0));
    let callers: Vec<_> = (0..8).map(|_| Caller::start(&control_plane)).collect();
    let reach = async |round: usize| {
        let backend = backends[round].address();
        eventually(|| callers.iter().all(|caller| caller.reaches(backend))).await;
    };
    reach(0).await;
    for round in 1..4 {
        control_plane.kill();
        control_plane.write(&yaml(round));
        let before: Vec<_> = callers.iter().map(Caller::calls).collect();
        let called = |(caller, before): (&Caller, &usize)| caller.calls() >= before + 20;
        eventually(|| callers.iter().zip(&before).all(called)).await;
        control_plane.restart();
        reach(round).await;
    }
    for caller in callers {
        caller.seen.enough.store(true, Ordering::Relaxed);
        caller.task.await.unwrap();
        assert_eq!(*caller.seen.failed.lock().unwrap(), [""; 0]);
    }
}
