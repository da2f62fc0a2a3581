//! Tests of load reports out of band (gRFC A51, A58).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use oxds_channel::testing::{EchoBackend, Resources, cluster, config};
use oxds_channel::{Pool, XdsChannel};
use oxds_core::lb::policy::{PolicyConfig, WeightedRoundRobinConfig};

use crate::support::{backends, builder, call_once, channel, eventually, ready, spread};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];

/// application_utilization 1.0, and 100 or 300 requests per second.
const SLOW: &[u8] = b"\x31\0\0\0\0\0\0\x59\x40\x49\0\0\0\0\0\0\xf0\x3f";
const FAST: &[u8] = b"\x31\0\0\0\0\0\xc0\x72\x40\x49\0\0\0\0\0\0\xf0\x3f";
/// The rate is not a number.
const NOT_A_NUMBER: &[u8] = b"\x31\0\0\0\0\0\0\xf8\x7f\x49\0\0\0\0\0\0\xf0\x3f";
/// The rate is -100.
const NEGATIVE: &[u8] = b"\x31\0\0\0\0\0\0\x59\xc0\x49\0\0\0\0\0\0\xf0\x3f";

/// A cluster of these endpoints whose weights come from reports out of band, or from those of RPCs.
fn weighted(endpoints: &[SocketAddr], out_of_band: Option<Duration>) -> Resources {
    let policy = PolicyConfig::WeightedRoundRobin(Arc::new(WeightedRoundRobinConfig {
        blackout_period: Duration::ZERO,
        weight_update_period: Duration::from_millis(100),
        out_of_band,
        ..WeightedRoundRobinConfig::default()
    }));
    let spec = cluster("one", &[&[("here", 1, endpoints)]], 0).with_policy(policy);
    config(ALL, vec![spec])
}

const PERIOD: Option<Duration> = Some(Duration::from_secs(10));

fn weights(channel: &XdsChannel) -> Vec<Option<u16>> {
    let endpoints = channel.status().clusters.remove(0).endpoints;
    endpoints.iter().map(|endpoint| endpoint.weight).collect()
}

fn streams(backends: &[&EchoBackend]) -> Vec<(u64, usize)> {
    let of_one = |one: &&EchoBackend| (one.report_streams(), one.open_report_streams());
    backends.iter().map(of_one).collect()
}

#[tokio::test]
async fn c250_out_of_band_reports_make_weights_without_rpcs() {
    let [a, b] = backends().await;
    a.set_report(Some(SLOW));
    b.set_report(Some(FAST));
    let (script, channel) = channel();
    script.set(weighted(&[a.address(), b.address()], PERIOD));
    ready(&channel, 2).await;
    // given no RPC
    eventually(|| weights(&channel) == [Some(21_845), Some(65_535)]).await;
    let counts = spread(&channel, 400).await;
    assert!(counts[&a.address()].abs_diff(100) < 20, "{counts:?}");
    // when the load changes, the same stream says so
    a.set_report(Some(FAST));
    eventually(|| weights(&channel) == [Some(65_535), Some(65_535)]).await;
    assert_eq!(streams(&[&a, &b]), [(1, 1), (1, 1)]);
}

#[tokio::test]
async fn c250_unusable_out_of_band_reports_are_ignored() {
    let [a, b] = backends().await;
    a.set_report(Some(SLOW));
    b.set_report(Some(FAST));
    let (script, channel) = channel();
    script.set(weighted(&[a.address(), b.address()], PERIOD));
    ready(&channel, 2).await;
    let known = [Some(21_845), Some(65_535)];
    eventually(|| weights(&channel) == known).await;
    for report in [NOT_A_NUMBER, NEGATIVE] {
        b.set_report(Some(report));
        // A later report of the other endpoint shows that this one was read.
        a.set_report(Some(FAST));
        eventually(|| weights(&channel) == [Some(65_535), Some(65_535)]).await;
        a.set_report(Some(SLOW));
        eventually(|| weights(&channel) == known).await;
    }
    assert_eq!(streams(&[&a, &b]), [(1, 1), (1, 1)]);
}

#[tokio::test]
async fn c250_unimplemented_reports_are_asked_for_once_per_connection() {
    let [backend] = backends().await;
    let (script, channel) = channel();
    script.set(weighted(&[backend.address()], PERIOD));
    ready(&channel, 1).await;
    eventually(|| backend.report_streams() == 1).await;
    for _ in 0..20 {
        call_once(&channel).await.unwrap();
    }
    assert_eq!(backend.report_streams(), 1);
    // when the endpoint has them after a restart
    backend.kill();
    backend.set_report(Some(SLOW));
    backend.restart().await.unwrap();
    eventually(|| streams(&[&backend]) == [(2, 1)]).await;
    call_once(&channel).await.unwrap();
}

#[tokio::test]
async fn c250_ended_report_stream_is_opened_again() {
    let [backend] = backends().await;
    backend.set_report(Some(SLOW));
    let (script, channel) = channel();
    script.set(weighted(&[backend.address()], PERIOD));
    eventually(|| streams(&[&backend]) == [(1, 1)]).await;
    // The stream ends with UNAVAILABLE, then backs off.
    eventually(|| {
        backend.end_report_streams();
        backend.open_report_streams() == 0
    })
    .await;
    eventually(|| backend.report_streams() > 1 && backend.open_report_streams() == 1).await;
    drop((script, channel));
}

#[tokio::test]
async fn c250_reports_end_with_the_policy_and_follow_goaway() {
    let [backend] = backends().await;
    backend.set_report(Some(SLOW));
    let (script, channel) = channel();
    script.set(weighted(&[backend.address()], PERIOD));
    eventually(|| streams(&[&backend]) == [(1, 1)]).await;
    // when the server goes away in order, the stream does not hold the connection
    backend.drain();
    eventually(|| backend.connections() == 0).await;
    backend.restart().await.unwrap();
    eventually(|| streams(&[&backend]) == [(2, 1)]).await;
    // when the policy uses the reports of RPCs
    script.set(weighted(&[backend.address()], None));
    eventually(|| backend.open_report_streams() == 0).await;
    // when it wants the stream again, on the same connection
    script.set(weighted(&[backend.address()], PERIOD));
    eventually(|| streams(&[&backend]) == [(3, 1)]).await;
    // when another policy follows, which reads no reports
    let spec = cluster("one", &[&[("here", 1, &[backend.address()])]], 0);
    script.set(config(ALL, vec![spec]));
    eventually(|| backend.open_report_streams() == 0).await;
    assert_eq!(call_once(&channel).await.unwrap(), backend.address());
    assert_eq!(backend.accepted(), 2);
    drop((script, channel));
    eventually(|| backend.connections() == 0).await;
}

#[tokio::test]
async fn c250_channels_share_the_report_stream_of_a_connection() {
    let [backend] = backends().await;
    backend.set_report(Some(SLOW));
    let pool = Pool::new();
    let mut channels = Vec::new();
    for _ in 0..2 {
        let shared = builder().pool(pool.clone());
        let (script, channel) = oxds_channel::testing::Script::channel(shared).unwrap();
        script.set(weighted(&[backend.address()], PERIOD));
        ready(&channel, 1).await;
        channels.push((script, channel));
    }
    eventually(|| backend.open_report_streams() == 1).await;
    // when one of them wants reports more often, the stream is opened again
    let shorter = Some(Duration::from_secs(5));
    channels[0].0.set(weighted(&[backend.address()], shorter));
    eventually(|| streams(&[&backend]) == [(2, 1)]).await;
    // when a channel ends, the stream stays
    drop(channels.pop());
    call_once(&channels[0].1).await.unwrap();
    assert_eq!(streams(&[&backend]), [(2, 1)]);
}
