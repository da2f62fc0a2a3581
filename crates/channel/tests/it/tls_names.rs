//! Names of certificates: matchers (C-257) and server names (gRFC A101).

use oxds_channel::testing::config;
use oxds_core::lb::{StringMatcher, Text};
use oxds_core::resource::{SanKind, SanMatcher, UpstreamTls};

use crate::support::call_once;
use crate::tls_support::{ALL, Mesh, exact, mutual, naming, secured};

fn regex(text: &str) -> StringMatcher {
    StringMatcher::Regex(regex::Regex::new(text).unwrap())
}

#[tokio::test]
async fn c257_one_name_must_match_one_matcher() {
    let mesh = Mesh::new();
    let names = ["*.shop.example", "spiffe://mesh/ns/shop", "192.0.2.7"];
    let (_backend, front) = mesh.backend(&names).await;
    let text = |text: &str| Text::new(text, false);
    for (matchers, is_match) in [
        (vec![exact("a.shop.example")], true),
        (vec![exact("b.a.shop.example")], false),
        (vec![exact("spiffe://mesh/ns/shop")], true),
        (vec![exact("spiffe://mesh/ns/Shop")], false),
        (vec![exact("192.0.2.7")], true),
        (vec![exact("wrong"), exact("192.0.2.7")], true),
        (vec![StringMatcher::Prefix(text("spiffe://mesh/"))], true),
        (vec![StringMatcher::Prefix(text("spiffe://other/"))], false),
        (vec![StringMatcher::Suffix(text("/shop"))], true),
        (vec![StringMatcher::Suffix(text("/sho"))], false),
        (vec![StringMatcher::Contains(text("/ns/"))], true),
        (vec![StringMatcher::Contains(text("/NS/"))], false),
        (vec![StringMatcher::Contains(Text::new("/NS/", true))], true),
        (vec![regex("^(?:spiffe://[a-z]+/ns/shop)$")], true),
        (vec![regex("^(?:spiffe://[a-z]+/ns)$")], false),
        (vec![], true),
    ] {
        let (script, channel) = mesh.channel();
        script.set(config(ALL, vec![secured(&front, naming(matchers.clone()))]));
        let called = call_once(&channel).await;
        assert_eq!(called.is_ok(), is_match, "{matchers:?}: {called:?}");
    }
}

#[tokio::test]
async fn c257_mismatch_names_all_names_and_matchers() {
    let mesh = Mesh::new();
    let (backend, front) = mesh.backend(&["a.example", "spiffe://mesh/a"]).await;
    let (script, channel) = mesh.channel();
    let typed = SanMatcher {
        of: Some(SanKind::Uri),
        matcher: StringMatcher::Prefix(Text::new("a.", true)),
    };
    let mut tls = naming([exact("b.example")]);
    tls.san_matchers.push(typed);
    script.set(config(ALL, vec![secured(&front, tls)]));
    let status = call_once(&channel).await.unwrap_err();
    let expected = "security handshake: invalid peer certificate: no name of the certificate matches: it has \
                    DNS \"a.example\", URI \"spiffe://mesh/a\"; expected one of exact \"b.example\", \
                    URI prefix \"a.\" (any case)";
    assert!(status.message().contains(expected), "{status}");
    assert_eq!(backend.calls(), 0);
}

#[tokio::test]
async fn a101_server_name_is_the_hostname_or_the_sni() {
    let mesh = Mesh::new();
    let (_backend, front) = mesh.backend(&["host.example", "sni.example"]).await;
    let sni = |auto_host_sni| UpstreamTls {
        sni: Some("sni.example".into()),
        auto_host_sni,
        auto_sni_san_validation: true,
        ..mutual()
    };
    for (tls, hostname, expected) in [
        (sni(false), Some("host.example"), "sni.example"),
        (sni(true), Some("host.example:443"), "host.example"),
        (sni(true), None, "sni.example"),
    ] {
        let (script, channel) = mesh.channel();
        let spec = secured(&front, tls);
        let spec = spec.map_endpoints(|endpoint| endpoint.hostname = hostname.map(Into::into));
        script.set(config(ALL, vec![spec]));
        call_once(&channel).await.unwrap();
        assert_eq!(front.server_name().as_deref(), Some(expected));
    }
}

#[tokio::test]
async fn a101_server_name_replaces_the_matchers() {
    let mesh = Mesh::new();
    let (_backend, front) = mesh.backend(&["a.example", "spiffe://mesh/a"]).await;
    let tls = |sni: &str, validates| UpstreamTls {
        sni: Some(sni.into()),
        auto_sni_san_validation: validates,
        ..naming([exact("spiffe://mesh/a")])
    };
    let run = async |tls| {
        let (script, channel) = mesh.channel();
        script.set(config(ALL, vec![secured(&front, tls)]));
        let called = call_once(&channel).await;
        called.map_err(|status| status.message().to_owned())
    };
    run(tls("a.example", true)).await.unwrap();
    run(tls("b.example", false)).await.unwrap();
    let error = run(tls("b.example", true)).await.unwrap_err();
    let expected = "the certificate does not have the server name: it has DNS \"a.example\", URI \
                    \"spiffe://mesh/a\"; expected \"b.example\"";
    assert!(error.contains(expected), "{error}");
    let error = run(tls("not a name", true)).await.unwrap_err();
    assert!(
        error.contains("\"not a name\" is not a server name"),
        "{error}"
    );
}
