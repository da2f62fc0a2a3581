//! Backends and priorities that fail and return, and configurations that change under traffic.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use oxds_channel::XdsChannel;
use tokio::task::JoinHandle;

use crate::support::{
    FolderServer, backends, call_once, channel_by, eventually, one, ready, spread,
};

/// Calls from several tasks until stopped. Panics at the first failed call.
struct Traffic {
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<()>>,
}

impl Traffic {
    fn start(channel: &XdsChannel) -> Self {
        let (stop, calls) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
        );
        let task = |_| {
            let (channel, stop, calls) = (channel.clone(), Arc::clone(&stop), Arc::clone(&calls));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    call_once(&channel).await.expect("no call fails");
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let tasks = (0..8).map(task).collect();
        Self { stop, calls, tasks }
    }

    async fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.calls.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c240_c242_lower_priority_serves_until_higher_one_returns() {
    let [first, second] = backends().await;
    let (p0, p1) = (
        [(first.address(), "HEALTHY")],
        [(second.address(), "HEALTHY")],
    );
    let control_plane = FolderServer::start(&one("a", &[("x", 1, 0, &p0), ("y", 1, 1, &p1)]));
    let channel = channel_by(control_plane.address());
    assert_eq!(spread(&channel, 10).await[&first.address()], 10);
    first.kill();
    eventually(|| channel.status().clusters[0].priority == Some(1)).await;
    assert_eq!(spread(&channel, 10).await[&second.address()], 10);
    first.restart().await.unwrap();
    eventually(|| channel.status().clusters[0].priority == Some(0)).await;
    assert_eq!(spread(&channel, 10).await[&first.address()], 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c231_rewriting_the_folder_under_traffic_fails_no_call() {
    let [a, b] = backends().await;
    let to = |name: &str, backend: &oxds_channel::testing::EchoBackend| {
        one(name, &[("here", 1, 0, &[(backend.address(), "HEALTHY")])])
    };
    let control_plane = FolderServer::start(&to("a", &a));
    let channel = channel_by(control_plane.address());
    let traffic = Traffic::start(&channel);
    for round in 0..6 {
        // The old cluster and its endpoints are removed by the same edit that adds the new ones.
        let (name, backend) = if round % 2 == 0 { ("b", &b) } else { ("a", &a) };
        let before = backend.calls();
        control_plane.write(&to(name, backend));
        eventually(|| backend.calls() > before + 50).await;
    }
    assert!(traffic.stop().await > 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_of_the_backends_fails_no_call() {
    let all: [_; 3] = backends().await;
    let endpoints: Vec<_> = all
        .iter()
        .map(|backend| (backend.address(), "HEALTHY"))
        .collect();
    let control_plane = FolderServer::start(&one("a", &[("here", 1, 0, &endpoints)]));
    let channel = channel_by(control_plane.address());
    ready(&channel, 3).await;
    let traffic = Traffic::start(&channel);
    for backend in &all {
        backend.drain();
        eventually(|| backend.connections() == 0).await;
        backend.restart().await.unwrap();
        let before = backend.calls();
        eventually(|| backend.calls() > before + 10).await;
    }
    assert!(traffic.stop().await > 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_to_a_removed_endpoint_is_still_answered() {
    let [a, b] = backends().await;
    a.set_delay(Duration::from_millis(400));
    let control_plane =
        FolderServer::start(&one("a", &[("here", 1, 0, &[(a.address(), "HEALTHY")])]));
    let channel = channel_by(control_plane.address());
    let call = tokio::spawn({
        let channel = channel.clone();
        async move { call_once(&channel).await }
    });
    eventually(|| a.calls() == 1).await;
    control_plane.write(&one("a", &[("here", 1, 0, &[(b.address(), "HEALTHY")])]));
    eventually(|| channel.status().revision > 1).await;
    assert_eq!(call_once(&channel).await.unwrap(), b.address());
    assert_eq!(call.await.unwrap().unwrap(), a.address());
    eventually(|| a.connections() == 0).await;
}
