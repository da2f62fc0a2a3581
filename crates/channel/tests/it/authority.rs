//! Tests of routes that rewrite the authority of calls (gRFC A81, C-195).

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use oxds_channel::XdsChannel;
use oxds_channel::testing::{Call, ClusterSpec, EchoBackend, aggregate, call, cluster, config};

use crate::support::{SOON, backends, channel, quick_retries, ready};

const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];
const PATH: &str = "/echo.Echo/Call";

/// A cluster of this backend, whose endpoint has a host name.
fn named(name: &str, backend: &EchoBackend, hostname: &'static str) -> ClusterSpec {
    let spec = cluster(name, &[&[("here", 1, &[backend.address()])]], 0);
    spec.map_endpoints(|endpoint| endpoint.hostname = Some(hostname.into()))
}

/// Makes a call, and returns the authority that the backend has seen.
async fn authority(channel: &XdsChannel, path: &str, backend: &EchoBackend) -> String {
    let keep = ("x-keep".parse().unwrap(), HeaderValue::from_static(""));
    let request = Call {
        path,
        timeout: Some(SOON),
        headers: HeaderMap::from_iter([keep]),
        ..Call::default()
    };
    call(channel, request).await.unwrap();
    seen(backend)
}

fn seen(backend: &EchoBackend) -> String {
    let headers = backend.request_headers();
    headers["x-authority"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn c195_authority_becomes_the_hostname_of_the_endpoint() {
    let [backend] = backends().await;
    let (script, channel) = channel();
    let spec = named("one", &backend, "shop.example:8443");
    script.set(config(ALL, vec![spec]).rewriting_hosts());
    assert_eq!(
        authority(&channel, PATH, &backend).await,
        "shop.example:8443"
    );
}

#[tokio::test]
async fn c195_authority_of_the_caller_takes_precedence() {
    let [backend] = backends().await;
    let (script, channel) = channel();
    let spec = named("one", &backend, "shop.example");
    script.set(config(ALL, vec![spec]).rewriting_hosts());
    let own = "http://own.example/echo.Echo/Call";
    assert_eq!(authority(&channel, own, &backend).await, "own.example");
}

#[tokio::test]
async fn c195_untrusted_or_other_routes_keep_the_authority() {
    let [backend] = backends().await;
    let (script, channel) = channel();
    let specs = || vec![named("one", &backend, "shop.example")];
    // given a route that does not ask for it
    script.set(config(ALL, specs()));
    assert_eq!(authority(&channel, PATH, &backend).await, "svc");
    // given one that does, from a server that is not trusted
    let asking = config(ALL, specs()).map_routes(|forward| forward.auto_host_rewrite = true);
    script.set(asking);
    crate::support::eventually(|| channel.status().revision == 2).await;
    assert_eq!(authority(&channel, PATH, &backend).await, "svc");
}

#[tokio::test]
async fn c195_endpoint_without_usable_hostname_keeps_the_authority() {
    let [backend] = backends().await;
    let (script, channel) = channel();
    for (revision, hostname) in [(1, None), (2, Some("not a host"))] {
        let spec = named("one", &backend, "");
        let spec = spec.map_endpoints(|endpoint| endpoint.hostname = hostname.map(Into::into));
        script.set(config(ALL, vec![spec]).rewriting_hosts());
        crate::support::eventually(|| channel.status().revision == revision).await;
        assert_eq!(authority(&channel, PATH, &backend).await, "svc");
    }
}

#[tokio::test]
async fn c195_each_attempt_has_the_authority_of_its_endpoint() {
    // given two endpoints, of which one has a host name, and a retry policy
    let [a, b] = backends().await;
    let (script, channel) = channel();
    let addresses = [a.address(), b.address()];
    let spec = cluster("one", &[&[("here", 1, &addresses)]], 0);
    let spec = spec.map_endpoints(|endpoint| {
        if endpoint.address == addresses[0] {
            endpoint.hostname = Some("a.example".into());
        }
    });
    let policy = quick_retries(4);
    let resources = config(ALL, vec![spec]).rewriting_hosts();
    script.set(resources.map_routes(|forward| forward.retry = Some(Arc::clone(&policy))));
    ready(&channel, 2).await;
    // when every attempt fails
    a.set_status(14);
    b.set_status(14);
    let keep = ("x-keep".parse().unwrap(), HeaderValue::from_static(""));
    let request = Call {
        timeout: Some(SOON),
        headers: HeaderMap::from_iter([keep]),
        ..Call::default()
    };
    call(&channel, request).await.unwrap_err();
    // then the attempts alternate, and each has the authority of its own endpoint
    assert_eq!((a.calls(), b.calls()), (2, 2));
    assert_eq!(
        (seen(&a), seen(&b)),
        ("a.example".to_owned(), "svc".to_owned())
    );
}

#[tokio::test]
async fn c195_hostname_of_a_dns_cluster_is_the_resolved_name() {
    let [backend] = backends().await;
    let (script, channel) = channel();
    let port = backend.address().port();
    let dns = cluster("dns", &[], 0).logical_dns("127.0.0.1", port);
    let specs = vec![aggregate("both", &["dns"]), dns];
    script.set(config(ALL, specs).rewriting_hosts());
    let expected = format!("127.0.0.1:{port}");
    assert_eq!(authority(&channel, PATH, &backend).await, expected);
}
