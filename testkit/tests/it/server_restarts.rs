//! The management server, killed and restarted under load.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::task::JoinHandle;

use crate::support::{FolderServer, backends, call_once, channel_by, eventually, one};

/// One client that calls without a pause.
struct Caller {
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

/// Results of its calls.
#[derive(Default)]
struct Seen {
    calls: AtomicUsize,
    failed: Mutex<Vec<String>>,
    /// Backend that answered the latest call.
    latest: Mutex<Option<SocketAddr>>,
    enough: AtomicBool,
}

impl Caller {
    fn start(control_plane: &FolderServer) -> Self {
        let (channel, seen) = (
            channel_by(control_plane.address()),
            Arc::new(Seen::default()),
        );
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

/// given clients that call without a pause / when the server is killed and returns with other clusters and routes,
/// three times / then no call fails, also while it is dead, and all clients end with its last configuration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s79_server_killed_under_load_fails_no_call() {
    let backends = backends::<4>().await;
    let yaml = |round: usize| {
        let endpoint = [(backends[round].address(), "HEALTHY")];
        one(&format!("cluster-{round}"), &[("here", 1, 0, &endpoint)])
    };
    let mut control_plane = FolderServer::start(&yaml(0));
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

/// given clients that call without a pause, and a server that keeps its state / when it is killed, its folder
/// disappears, and it returns / then it serves the last good state: no call fails, and a new client gets all of it.
/// When the folder is back with another cluster, all clients follow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn g25_server_without_its_folder_fails_no_call() {
    let backends = backends::<2>().await;
    let yaml = |round: usize| {
        let endpoint = [(backends[round].address(), "HEALTHY")];
        one(&format!("cluster-{round}"), &[("here", 1, 0, &endpoint)])
    };
    let mut control_plane = FolderServer::start(&yaml(0));
    control_plane.keep_state();
    let mut callers: Vec<_> = (0..4).map(|_| Caller::start(&control_plane)).collect();
    let reach = async |callers: &[Caller], round: usize| {
        let backend = backends[round].address();
        eventually(|| callers.iter().all(|caller| caller.reaches(backend))).await;
    };
    reach(&callers, 0).await;
    control_plane.kill();
    control_plane.unmount();
    control_plane.restart();
    callers.push(Caller::start(&control_plane));
    reach(&callers, 0).await;
    control_plane.mount();
    control_plane.write(&yaml(1));
    reach(&callers, 1).await;
    for caller in callers {
        caller.seen.enough.store(true, Ordering::Relaxed);
        caller.task.await.unwrap();
        assert_eq!(*caller.seen.failed.lock().unwrap(), [""; 0]);
    }
}
