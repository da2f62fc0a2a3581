//! Tests of lifetimes: tasks, sockets, shared connections; and of targets.

use oxds_channel::testing::{Script, cluster, config};
use oxds_channel::{BuildError, Pool, XdsChannel};

use crate::support::{backends, channel, eventually, spread};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];

#[tokio::test]
async fn dropping_last_clone_ends_tasks_and_sockets() {
    let [a, b] = backends().await;
    let before = tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks();
    let (script, channel) = channel();
    let clone = channel.clone();
    let localities: &[_] = &[("here", 1, &[a.address(), b.address()][..])];
    script.set(config(ALL, vec![cluster("one", &[localities], 0)]));
    crate::support::ready(&channel, 2).await;
    spread(&channel, 10).await;
    drop(channel);
    spread(&clone, 1).await;
    // when the last clone is dropped
    drop(clone);
    // then the connections close at the backends, and no task is left
    eventually(|| a.connections() + b.connections() == 0).await;
    eventually(|| {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
            <= before
    })
    .await;
    drop(script);
}

#[tokio::test]
async fn channels_of_a_pool_share_connections() {
    let [a] = backends().await;
    let pool = Pool::new();
    let mut channels = Vec::new();
    for _ in 0..3 {
        let builder = XdsChannel::builder("xds:///svc")
            .pool(pool.clone())
            .report_picks(true);
        let (script, channel) = Script::channel(builder).unwrap();
        script.set(config(
            ALL,
            vec![cluster("one", &[&[("here", 1, &[a.address()])]], 0)],
        ));
        spread(&channel, 5).await;
        channels.push((script, channel));
    }
    assert_eq!(a.accepted(), 1);
    // and the connection stays until the last channel is dropped
    channels.truncate(1);
    spread(&channels[0].1, 5).await;
    assert_eq!((a.accepted(), a.connections()), (1, 1));
    channels.clear();
    eventually(|| a.connections() == 0).await;
}

#[test]
fn build_outside_runtime_is_an_error() {
    let built = Script::channel(XdsChannel::builder("xds:///svc"));
    assert!(matches!(built, Err(BuildError::NoRuntime)));
}

#[tokio::test]
async fn c37_malformed_targets_are_errors() {
    for target in [
        "",
        "svc",
        "dns:///svc",
        "xds:",
        "xds:///",
        "xds://authority",
        "xds://authority/",
    ] {
        let built = Script::channel(XdsChannel::builder(target));
        assert!(matches!(built, Err(BuildError::Target(_))), "{target}");
    }
    for target in [
        "xds:svc",
        "xds:///svc",
        "xds:///svc:80",
        "xds:///a/b c",
        "xds://authority/svc",
    ] {
        assert!(
            Script::channel(XdsChannel::builder(target)).is_ok(),
            "{target}"
        );
    }
}
