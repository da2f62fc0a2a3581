//! Shared by the scenarios of secured connections: files, our server over TLS, a client with given roots.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oxds_client::credentials::{CertificateFiles, Configured, IdentityFiles, Trust};
use oxds_client::{Bootstrap, ClientPool, Update, WatchErrorReason, XdsClient};
use oxds_core::resource::Cluster;
use oxds_server::{Security, TlsFiles};
use oxds_testkit::certificates::{Authority, Issued, replace};
use oxds_testkit::resources::yaml::eds_cluster_of;
use tempfile::TempDir;

use crate::scripted::{error, next};
use oxds_testkit::folder_server::FolderServer;

/// A folder of certificates.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        replace(&path, text).unwrap();
        path
    }

    /// Credentials that trust this authority only, from a file that is read for every connection.
    pub(crate) fn trusting(&self, authority: &Authority) -> CertificateFiles {
        self.files(Trust::Authorities(self.write("ca.pem", &authority.pem())))
    }

    /// The same with a given TLS configuration.
    pub(crate) fn files(&self, trust: Trust) -> CertificateFiles {
        CertificateFiles::default()
            .with_trust(trust)
            .with_refresh_interval(Duration::ZERO)
    }

    pub(crate) fn identity(&self, issued: &Issued) -> IdentityFiles {
        let files = issued.write(self.0.path(), "client").unwrap();
        IdentityFiles {
            certificate: files.certificate,
            key: files.key,
        }
    }

    /// A server with this certificate. With a client authority, it requires client certificates.
    pub(crate) fn security(&self, issued: &Issued, clients: Option<&Authority>) -> Security {
        let files = issued.write(self.0.path(), "server").unwrap();
        let client_ca = clients.map(|authority| self.write("clients.pem", &authority.pem()));
        let files = TlsFiles::new(files.certificate, files.key).client_ca(client_ca);
        Security::default().tls(&files).unwrap()
    }

    /// Our server with one cluster, and with a certificate of this authority for `127.0.0.1`.
    pub(crate) fn serve(&self, authority: &Authority) -> FolderServer {
        let issued = authority.issue(&["127.0.0.1"]).unwrap();
        FolderServer::start_with(&cluster("old"), self.security(&issued, None))
    }
}

pub(crate) fn authority() -> Authority {
    Authority::new("test").unwrap()
}

/// Cluster `c`, with this assignment name.
pub(crate) fn cluster(assignment: &str) -> String {
    eds_cluster_of("c", assignment)
}

pub(crate) fn client(server: SocketAddr, files: CertificateFiles) -> XdsClient {
    client_of(&server.to_string(), files)
}

pub(crate) fn client_of(uri: &str, files: CertificateFiles) -> XdsClient {
    let bootstrap = Bootstrap::builder(uri)
        .node_id("secured")
        .credentials(Configured::tls(files));
    ClientPool::new(bootstrap.build().unwrap()).client("test")
}

/// Returns the assignment name of cluster `c` once the cluster exists.
pub(crate) async fn assignment(watch: &mut oxds_client::Watch<Cluster>) -> String {
    loop {
        if let Update::Changed(Ok(cluster)) = next(watch).await {
            return cluster.eds_service_name.to_string();
        }
    }
}

/// Asserts that the client gets the cluster of our server.
pub(crate) async fn sees_the_cluster(client: &XdsClient) {
    let mut watch = client.watch::<Cluster>("c");
    let update = next(&mut watch).await;
    let Update::Changed(Ok(cluster)) = update else {
        panic!("{update:?}");
    };
    assert_eq!(&*cluster.eds_service_name, "old");
}

/// Asserts that the client gets no cluster; returns the reason.
pub(crate) async fn refusal(client: &XdsClient) -> String {
    let mut watch = client.watch::<Cluster>("c");
    error(&mut watch, WatchErrorReason::Unreachable)
        .await
        .to_string()
}

/// Whether the log has a complaint about this file.
pub(crate) fn garble(path: &Path) {
    replace(path, "-----BEGIN CERTIFICATE-----\nnothing\n").unwrap();
}
