//! Configurations that clusters and endpoints share.

use oxds_core::resource::{CertificateInstance, DownstreamTls, Roots};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::*;
use crate::certificates::{CertificateProviderInstance, ServerTls};
use crate::credentials::{CertificateFiles, IdentityFiles, Trust};

fn view(instance: &str) -> Arc<UpstreamTls> {
    let instance = CertificateInstance {
        instance_name: instance.into(),
        certificate_name: "".into(),
    };
    Arc::new(UpstreamTls {
        identity: None,
        roots: Roots::Instance(instance),
        san_matchers: Vec::new(),
        sni: None,
        auto_host_sni: false,
        auto_sni_san_validation: false,
    })
}

fn authority() -> String {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
        .self_signed(&KeyPair::generate().unwrap())
        .unwrap()
        .pem()
}

#[tokio::test]
async fn a29_equal_settings_share_one_config_until_rotation() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, authority()).unwrap();
    let files = CertificateFiles::default()
        .with_trust(Trust::Authorities(path.clone()))
        .with_refresh_interval(std::time::Duration::ZERO);
    let providers = || {
        let instance = CertificateProviderInstance::file_watcher(&files);
        CertificateProviders::from([("a".to_owned(), instance)])
    };
    // Views and instances that are equal, of different clusters and bootstraps.
    let one = ClientTls::shared(&view("a"), &providers());
    let same = ClientTls::shared(&view("a"), &providers());
    assert!(Arc::ptr_eq(&one, &same));
    let other = ClientTls::shared(&view("b"), &providers());
    assert!(!Arc::ptr_eq(&one, &other));
    let first = one.config(false).await.unwrap();
    assert!(Arc::ptr_eq(&first, &same.config(false).await.unwrap()));
    assert!(!Arc::ptr_eq(&first, &one.config(true).await.unwrap()));
    std::fs::write(&path, authority()).unwrap();
    let second = one.config(false).await.unwrap();
    assert!(
        !Arc::ptr_eq(&first, &second),
        "the authorities have changed"
    );
    std::fs::write(&path, "invalid").unwrap();
    assert!(Arc::ptr_eq(&second, &one.config(false).await.unwrap()));
    let error = other.config(false).await.unwrap_err();
    assert_eq!(error, TlsError::UnknownInstance("b".into()));
}

#[tokio::test]
async fn a29_missing_identity_names_instance_and_field() {
    let files = CertificateFiles::default().with_trust(Trust::Authorities("/gone/ca.pem".into()));
    let instance = CertificateProviderInstance::file_watcher(&files);
    let providers = CertificateProviders::from([("a".to_owned(), instance)]);
    let tls = ClientTls::shared(&view("a"), &providers);
    let error = tls.config(false).await.unwrap_err().to_string();
    let expected = "certificate provider instance \"a\": /gone/ca.pem: ";
    assert!(error.starts_with(expected), "{error}");
    let mut own = (*view("a")).clone();
    if let Roots::Instance(instance) = &own.roots {
        own.identity = Some(instance.clone());
    }
    own.roots = Roots::System;
    let tls = ClientTls::shared(&Arc::new(own), &providers);
    let source = tls.settings.identity.as_ref().unwrap();
    assert_eq!(
        source.identity().await.unwrap_err().to_string(),
        "certificate provider instance \"a\": has no identity certificate: its config has no certificate_file"
    );
}

/// given 1,000 endpoints with one identity / then they share one rustls configuration, and their credentials are as
/// many keys of connections as they have server names.
#[tokio::test]
async fn a29_thousand_endpoints_share_one_config() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca.pem");
    std::fs::write(&path, authority()).unwrap();
    let files = CertificateFiles::default().with_trust(Trust::Authorities(path));
    let instance = CertificateProviderInstance::file_watcher(&files);
    let providers = CertificateProviders::from([("a".to_owned(), instance)]);
    let view = Arc::new(UpstreamTls {
        auto_host_sni: true,
        ..(*view("a")).clone()
    });
    let endpoint = |host: usize| {
        // Half of the endpoints have a hostname, and each is in two clusters.
        let name = format!("{}.example", host / 2);
        let name = (host % 4 < 2).then_some(&*name);
        ClientTls::shared(&view, &providers).endpoint(name)
    };
    let endpoints: Vec<_> = (0..1_000).map(endpoint).collect();
    let first = &endpoints[0].tls;
    assert!(endpoints.iter().all(|one| Arc::ptr_eq(&one.tls, first)));
    for has_server_name in [false, true] {
        let config = first.config(has_server_name).await.unwrap();
        for one in &endpoints {
            let same = one.tls.config(has_server_name).await.unwrap();
            assert!(Arc::ptr_eq(&config, &same));
        }
        // That of the test, and that of the value that all share.
        assert_eq!(Arc::strong_count(&config), 2);
    }
    #[expect(
        clippy::mutable_key_type,
        reason = "it is hashed by its address and its server name"
    )]
    let keys: std::collections::HashSet<_> = endpoints.iter().collect();
    assert_eq!(
        keys.len(),
        250 + 1,
        "one of each name, and one without a name"
    );
}

/// Completes a handshake.
fn connect(
    client: &Arc<ClientConfig>,
    server: &Arc<rustls::ServerConfig>,
) -> (rustls::ClientConnection, rustls::ServerConnection) {
    let name = ServerName::try_from("server.example").unwrap();
    let mut client = rustls::ClientConnection::new(Arc::clone(client), name).unwrap();
    let mut server = rustls::ServerConnection::new(Arc::clone(server)).unwrap();
    while client.wants_write() || server.wants_write() {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets().unwrap();
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets().unwrap();
        }
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    (client, server)
}

/// given 100 connections over mTLS that share their configurations / then the memory that each keeps after its
/// handshake is that in
/// `docs/security.md`.
#[tokio::test]
async fn a29_memory_of_a_connection_is_bounded() {
    const COUNT: u64 = 100;
    /// Most bytes of a side.
    const MOST: u64 = 16 << 10;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["server.example".to_owned()];
    let own = CertificateParams::new(names).unwrap();
    std::fs::write(path("ca.pem"), ca.pem()).unwrap();
    std::fs::write(path("own.pem"), own.signed_by(&key, &ca).unwrap().pem()).unwrap();
    std::fs::write(path("own.key"), key.serialize_pem()).unwrap();
    let files = CertificateFiles::default()
        .with_identity(IdentityFiles {
            certificate: path("own.pem"),
            key: path("own.key"),
        })
        .with_trust(Trust::Authorities(path("ca.pem")));
    let instance = CertificateProviderInstance::file_watcher(&files);
    let providers = CertificateProviders::from([("a".to_owned(), instance)]);
    let mut upstream = (*view("a")).clone();
    let Roots::Instance(instance) = upstream.roots.clone() else {
        panic!("an instance");
    };
    upstream.identity = Some(instance.clone());
    let client = ClientTls::shared(&Arc::new(upstream), &providers);
    let client = client.config(true).await.unwrap();
    let downstream = DownstreamTls {
        identity: instance.clone(),
        roots: Some(Roots::Instance(instance)),
        require_client_certificate: true,
    };
    let server = ServerTls::shared(&downstream, &providers);
    let server = server.config().await.unwrap();
    // The first handshakes fill the store of sessions.
    for _ in 0..10 {
        connect(&client, &server);
    }
    let mut clients = Vec::with_capacity(100);
    let mut servers = Vec::with_capacity(100);
    for _ in 0..COUNT {
        let (client, server) = connect(&client, &server);
        clients.push(client);
        servers.push(server);
    }
    let freed =
        |info: allocation_counter::AllocationInfo| info.bytes_current.unsigned_abs() / COUNT;
    let of_client = freed(allocation_counter::measure(|| drop(clients)));
    let of_server = freed(allocation_counter::measure(|| drop(servers)));
    assert!(of_client > 0 && of_server > 0);
    assert!(
        of_client < MOST && of_server < MOST,
        "{of_client} {of_server}"
    );
}
