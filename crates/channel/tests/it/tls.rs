//! TLS of clusters over real sockets (gRFC A29): C-256, and the errors.

use http::{HeaderMap, HeaderValue};
use oxds_channel::testing::{Call, Script, call, cluster, config};
use oxds_channel::{Bootstrap, XdsChannel, XdsCredentials};
use oxds_client::credentials::{Configured, RevocationFiles, Trust};
use oxds_core::resource::{Roots, UpstreamTls};
use oxds_testkit::TlsFront;
use oxds_testkit::certificates::{Authority, Issued, bundle_map, replace};
use tonic::Code;

use crate::support::{SOON, backends, builder, call_once, eventually, ready};
use crate::tls_support::{
    ALL, H2, Mesh, bootstrap, channel, channel_of, instance, mutual, secured,
};

/// Makes a call that fails, and returns the message of its status.
async fn failure(channel: &XdsChannel) -> String {
    let status = call_once(channel).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status}");
    status.message().to_owned()
}

fn assert_has(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{message:?} has no {part:?}");
    }
}

#[tokio::test]
async fn c256_cluster_with_tls_is_called_by_mtls() {
    let mesh = Mesh::new();
    let (backend, front) = mesh.backend(&["any.example"]).await;
    let (script, channel) = mesh.channel();
    script.set(config(ALL, vec![secured(&front, mutual())]));
    let keep = ("x-keep".parse().unwrap(), HeaderValue::from_static(""));
    let request = Call {
        path: "/echo.Echo/Call",
        timeout: Some(SOON),
        headers: HeaderMap::from_iter([keep]),
        ..Call::default()
    };
    call(&channel, request).await.unwrap();
    assert_eq!(backend.request_headers()["x-scheme"], "https");
    assert!(front.client_certificate().is_some(), "mutual");
    assert_eq!(front.server_name(), None, "gRFC A101 is off");
}

#[tokio::test]
async fn c256_tls_without_identity_sends_no_certificate() {
    let mesh = Mesh::new();
    let [backend] = backends().await;
    let acceptor = mesh.issue(&["a"]).acceptor(H2).unwrap();
    let front = TlsFront::start(acceptor, backend.address()).await.unwrap();
    let (script, channel) = mesh.channel();
    let tls = UpstreamTls {
        identity: None,
        ..mutual()
    };
    script.set(config(ALL, vec![secured(&front, tls.clone())]));
    call_once(&channel).await.unwrap();
    assert_eq!(front.client_certificate(), None);
    // The same cluster, if the server requires a certificate.
    let (_backend, strict) = mesh.backend(&["a"]).await;
    script.set(config(ALL, vec![secured(&strict, tls)]));
    eventually(|| channel.status().revision == 2).await;
    let message = failure(&channel).await;
    assert_has(
        &message,
        &[
            "cluster one: ",
            "security handshake: ",
            "CertificateRequired",
        ],
    );
}

#[tokio::test]
async fn c256_clusters_with_and_without_tls_are_mixed() {
    let mesh = Mesh::new();
    let [plain] = backends().await;
    let (_backend, front) = mesh.backend(&["a"]).await;
    let (script, channel) = mesh.channel();
    let other = cluster("two", &[&[("here", 1, &[plain.address()])]], 0);
    let routes = &[("", &[(1, 0), (1, 1)][..])];
    script.set(config(routes, vec![secured(&front, mutual()), other]));
    ready(&channel, 2).await;
    let mut seen = std::collections::HashSet::new();
    for _ in 0..40 {
        seen.insert(call_once(&channel).await.unwrap());
    }
    assert_eq!(seen.len(), 2, "both clusters have served calls");
}

#[tokio::test]
async fn c256_fallback_is_for_clusters_without_tls() {
    let mesh = Mesh::new();
    let [backend] = backends().await;
    let acceptor = mesh.issue(&["svc"]).acceptor(H2).unwrap();
    let front = TlsFront::start(acceptor, backend.address()).await.unwrap();
    let fallback = Configured::tls(mesh.files().with_identity(None));
    let credentials = XdsCredentials::new(fallback);
    let (script, channel) = channel_of(
        builder()
            .bootstrap(mesh.bootstrap())
            .credentials(credentials),
    );
    let plain = cluster("one", &[&[("here", 1, &[front.address()])]], 0);
    script.set(config(ALL, vec![plain]));
    call_once(&channel).await.unwrap();
    assert_eq!(front.handshakes(), 1, "the fallback is TLS");
    let name = front.server_name();
    assert_eq!(name.as_deref(), Some("svc"), "the authority of the channel");
}

#[tokio::test]
async fn c256_unusable_tls_never_falls_back() {
    let mesh = Mesh::new();
    let [plain] = backends().await;
    let spec = |tls| cluster("one", &[&[("here", 1, &[plain.address()])]], 0).tls(tls);
    let gone = UpstreamTls {
        roots: Roots::Instance(instance("gone")),
        ..mutual()
    };
    let (script, channel) = mesh.channel();
    script.set(config(ALL, vec![spec(gone)]));
    let message = failure(&channel).await;
    let expected = "certificate provider instance \"gone\" is not in certificate_providers";
    assert_has(&message, &["cluster one: ", expected]);
    // The certificates are good, but the endpoint does not speak TLS.
    script.set(config(ALL, vec![spec(mutual())]));
    let message = failure(&channel).await;
    assert_has(&message, &["cluster one: ", "security handshake: "]);
    assert_eq!(plain.calls(), 0);
}

#[tokio::test]
async fn c256_invalid_server_certificates_are_named() {
    let mesh = Mesh::new();
    let other = Authority::new("other").unwrap();
    for (issued, expected) in [
        (
            other.issue(&["a"]),
            "its issuer is not an authority of certificate provider instance \"mesh\"",
        ),
        (mesh.authority.issue_expired(&["a"]), "certificate expired"),
        (
            mesh.authority.issue_future(&["a"]),
            "certificate not valid yet",
        ),
    ] {
        let (backend, front) = mesh.backend_with(&issued.unwrap()).await;
        let (script, channel) = mesh.channel();
        script.set(config(ALL, vec![secured(&front, mutual())]));
        let message = failure(&channel).await;
        let address = front.address().to_string();
        assert_has(&message, &["cluster one: ", &address, expected]);
        assert_eq!(backend.calls(), 0);
    }
}

#[tokio::test]
async fn c256_denied_client_certificate_is_named() {
    let mesh = Mesh::new();
    let other = Authority::new("other").unwrap();
    let (_backend, front) = mesh.backend(&["a"]).await;
    mesh.own(&other.issue(&["spiffe://other/client"]).unwrap());
    let (script, channel) = mesh.channel();
    script.set(config(ALL, vec![secured(&front, mutual())]));
    let message = failure(&channel).await;
    assert_has(
        &message,
        &["cluster one: ", "security handshake: ", "UnknownCA"],
    );
}

/// Files by name, and parts of the error.
type Fault = (Vec<(&'static str, String)>, [&'static str; 2]);

/// Files of the client, each with a fault.
fn faulty_files(mesh: &Mesh) -> Vec<Fault> {
    let other = mesh.issue(&["b"]);
    let expired = mesh.authority.issue_expired(&["c"]).unwrap();
    let future = mesh.authority.issue_future(&["c"]).unwrap();
    let ca = mesh.authority.pem();
    let broken = format!("{ca}\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let own = |issued: Issued| {
        vec![
            ("client.pem", issued.certificate),
            ("client.key", issued.key),
        ]
    };
    vec![
        (
            vec![("client.key", other.key)],
            ["client.key: is not the key of ", "client.pem"],
        ),
        (
            vec![("client.pem", "x".to_owned())],
            ["client.pem: ", "no certificate found"],
        ),
        (
            own(expired),
            [
                "client.pem: ",
                "the certificate has expired: it was valid until",
            ],
        ),
        (
            own(future),
            ["client.pem: ", "the certificate is not valid before"],
        ),
        (
            vec![("ca.pem", String::new())],
            ["ca.pem: ", "no certificate found"],
        ),
        (
            vec![("ca.pem", broken)],
            ["ca.pem: ", "certificate 2 of 2: "],
        ),
    ]
}

#[tokio::test]
async fn c256_invalid_own_files_are_named() {
    for case in 0..faulty_files(&Mesh::new()).len() {
        // Each case has files of its own: channels with the same files share what was valid in them.
        let mesh = Mesh::new();
        let (_backend, front) = mesh.backend(&["a"]).await;
        let (files, expected) = faulty_files(&mesh).swap_remove(case);
        for (name, text) in files {
            replace(&mesh.path(name), &text).unwrap();
        }
        let (script, channel) = mesh.channel();
        script.set(config(ALL, vec![secured(&front, mutual())]));
        let message = failure(&channel).await;
        let instance = "certificate provider instance \"mesh\": ";
        assert_has(
            &message,
            &["cluster one: ", instance, expected[0], expected[1]],
        );
    }
}

#[tokio::test]
async fn c256_pool_separates_plaintext_from_tls() {
    let mesh = Mesh::new();
    let (_backend, front) = mesh.backend(&["a"]).await;
    let pool = oxds_channel::Pool::new();
    let build = || {
        let builder = builder().pool(pool.clone());
        Script::channel(builder.bootstrap(mesh.bootstrap())).unwrap()
    };
    let (script, tls) = build();
    script.set(config(ALL, vec![secured(&front, mutual())]));
    call_once(&tls).await.unwrap();
    let (plain_script, plain) = build();
    let spec = cluster("one", &[&[("here", 1, &[front.address()])]], 0);
    plain_script.set(config(ALL, vec![spec]));
    let message = failure(&plain).await;
    assert_has(&message, &["the peer speaks TLS"]);
    // A third channel with the same TLS shares the connection of the first one.
    let (same_script, same) = build();
    same_script.set(config(ALL, vec![secured(&front, mutual())]));
    call_once(&same).await.unwrap();
    assert_eq!(front.handshakes(), 1);
}

#[tokio::test]
async fn c256_cluster_that_gets_tls_is_called_by_tls() {
    let mesh = Mesh::new();
    let [plain] = backends().await;
    let (_backend, front) = mesh.backend(&["a"]).await;
    let (script, channel) = mesh.channel();
    let both = |first| vec![first];
    let address = plain.address();
    script.set(config(
        ALL,
        both(cluster("one", &[&[("here", 1, &[address])]], 0)),
    ));
    assert_eq!(call_once(&channel).await.unwrap(), address);
    script.set(config(ALL, both(secured(&front, mutual()))));
    // The configuration is applied by a task: a call before that goes to the plaintext endpoint.
    let wait = async { while call_once(&channel).await.unwrap() == address {} };
    tokio::time::timeout(SOON, wait).await.unwrap();
    assert_eq!(front.handshakes(), 1);
}

#[tokio::test]
async fn c258_bundle_map_selects_authorities_by_trust_domain() {
    let mesh = Mesh::new();
    let other = Authority::new("other").unwrap();
    let map = mesh.path("bundles.json");
    replace(
        &map,
        &bundle_map(&[("mesh", &mesh.authority), ("other", &other)]),
    )
    .unwrap();
    let files = mesh.files().with_trust(Trust::Spiffe(map));
    let by_map = || channel(bootstrap(&files));
    let run = async |issued| {
        let (_backend, front) = mesh.backend_with(&issued).await;
        let (script, channel) = by_map();
        script.set(config(ALL, vec![secured(&front, mutual())]));
        call_once(&channel)
            .await
            .map_err(|status| status.message().to_owned())
    };
    run(mesh.issue(&["spiffe://mesh/shop"])).await.unwrap();
    let error = run(other.issue(&["spiffe://mesh/shop"]).unwrap()).await;
    assert_has(&error.unwrap_err(), &["its issuer is not an authority of"]);
    let error = run(mesh.issue(&["spiffe://gone/shop"])).await.unwrap_err();
    assert_has(&error, &["trust domain \"gone\" is not in the bundle map"]);
    let error = run(mesh.issue(&["shop.example"])).await.unwrap_err();
    assert_has(&error, &["the certificate has 0 URI names"]);
}

#[tokio::test]
async fn c204_system_roots_do_not_accept_other_authorities() {
    let mesh = Mesh::new();
    let (_backend, front) = mesh.backend(&["a"]).await;
    let (script, channel) = channel(Bootstrap::without_servers().build().unwrap());
    let tls = UpstreamTls {
        identity: None,
        roots: Roots::System,
        ..mutual()
    };
    script.set(config(ALL, vec![secured(&front, tls)]));
    let message = failure(&channel).await;
    // A machine without any authority has another error.
    let has_roots = message.contains("its issuer is not an authority of the operating system");
    assert!(
        has_roots || message.contains("no valid certificate found"),
        "{message}"
    );
}

/// given a folder of revocation lists / then a revoked endpoint is rejected, and the error names the instance.
#[tokio::test]
async fn a69_revoked_endpoint_is_rejected() {
    let mesh = Mesh::new();
    let folder = mesh.path("crls");
    std::fs::create_dir(&folder).unwrap();
    let issued = mesh.issue(&["a"]);
    let run = async |deny_undetermined| {
        let (_backend, front) = mesh.backend_with(&issued).await;
        let files = mesh.files().with_revocation(RevocationFiles {
            directory: folder.clone(),
            deny_undetermined,
        });
        let (script, channel) = channel(bootstrap(&files));
        script.set(config(ALL, vec![secured(&front, mutual())]));
        let called = call_once(&channel).await;
        called.map_err(|status| status.message().to_owned())
    };
    // gRFC A69: without a list, the settings decide.
    run(false).await.unwrap();
    let error = run(true).await.unwrap_err();
    let undetermined = "whether it is revoked is undetermined: certificate provider instance \"mesh\" has no valid revocation list";
    assert_has(&error, &["cluster one: ", undetermined]);
    let list = folder.join("mesh.crl");
    let other = mesh.issue(&["b"]);
    replace(
        &list,
        &mesh.authority.revocation_list(&[&other], 2100).unwrap(),
    )
    .unwrap();
    run(true).await.unwrap();
    let revoking = mesh.authority.revocation_list(&[&other, &issued], 2100);
    replace(&list, &revoking.unwrap()).unwrap();
    for deny_undetermined in [false, true] {
        let error = run(deny_undetermined).await.unwrap_err();
        let revoked =
            "it is revoked by a revocation list of certificate provider instance \"mesh\"";
        assert_has(&error, &["cluster one: ", revoked]);
    }
}
