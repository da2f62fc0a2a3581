//! Certificates, provider instances and TLS backends of the tests.

use std::path::PathBuf;
use std::time::Duration;

use oxds_channel::testing::{ClusterSpec, EchoBackend, Script, cluster};
use oxds_channel::{Bootstrap, Builder, XdsChannel};
use oxds_client::certificates::CertificateProviderInstance;
use oxds_client::credentials::{CertificateFiles, IdentityFiles, Trust};
use oxds_core::lb::{StringMatcher, Text};
use oxds_core::resource::{CertificateInstance, Roots, SanMatcher, UpstreamTls};
use oxds_testkit::TlsFront;
use oxds_testkit::certificates::{Authority, Issued, replace};
use tempfile::TempDir;

use crate::support::{backends, builder};

pub(crate) const ALL: &[(&str, &[(u32, usize)])] = &[("", &[(1, 0)])];
pub(crate) const H2: &[&str] = &["h2"];

/// The certificates of a mesh, in files, and the authority that issued them.
pub(crate) struct Mesh {
    folder: TempDir,
    pub(crate) authority: Authority,
}

impl Mesh {
    pub(crate) fn new() -> Self {
        let mesh = Self {
            folder: tempfile::tempdir().unwrap(),
            authority: Authority::new("mesh").unwrap(),
        };
        mesh.trust(&mesh.authority);
        mesh.own(&mesh.issue(&["spiffe://mesh/client"]));
        mesh
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Issues a certificate with these names.
    pub(crate) fn issue(&self, names: &[&str]) -> Issued {
        self.authority.issue(names).unwrap()
    }

    /// Makes this the certificate of the client.
    pub(crate) fn own(&self, issued: &Issued) {
        issued.write(self.folder.path(), "client").unwrap();
    }

    /// Makes this the authority that the client trusts.
    pub(crate) fn trust(&self, authority: &Authority) {
        replace(&self.path("ca.pem"), &authority.pem()).unwrap();
    }

    /// The files of the instance `mesh`, which are read again before each connection.
    pub(crate) fn files(&self) -> CertificateFiles {
        CertificateFiles::default()
            .with_identity(IdentityFiles {
                certificate: self.path("client.pem"),
                key: self.path("client.key"),
            })
            .with_trust(Trust::Authorities(self.path("ca.pem")))
            .with_refresh_interval(Duration::ZERO)
    }

    /// A bootstrap with the instance `mesh`.
    pub(crate) fn bootstrap(&self) -> Bootstrap {
        bootstrap(&self.files())
    }

    /// A channel with the instance `mesh`, and its script.
    pub(crate) fn channel(&self) -> (Script, XdsChannel) {
        channel(self.bootstrap())
    }

    /// A backend whose clients must have a certificate of the mesh, and its TLS front.
    pub(crate) async fn backend(&self, names: &[&str]) -> (EchoBackend, TlsFront) {
        self.backend_with(&self.issue(names)).await
    }

    /// A backend with this certificate, whose clients must have one of the mesh.
    pub(crate) async fn backend_with(&self, issued: &Issued) -> (EchoBackend, TlsFront) {
        let [backend] = backends().await;
        let acceptor = issued.mutual_acceptor(&[&self.authority], H2).unwrap();
        let front = TlsFront::start(acceptor, backend.address()).await.unwrap();
        (backend, front)
    }
}

/// A bootstrap whose instance `mesh` has these files.
pub(crate) fn bootstrap(files: &CertificateFiles) -> Bootstrap {
    let instance = CertificateProviderInstance::file_watcher(files);
    Bootstrap::without_servers()
        .certificate_provider("mesh", instance)
        .build()
        .unwrap()
}

/// A channel with this bootstrap, and its script.
pub(crate) fn channel(bootstrap: Bootstrap) -> (Script, XdsChannel) {
    channel_of(builder().bootstrap(bootstrap))
}

pub(crate) fn channel_of(builder: Builder) -> (Script, XdsChannel) {
    Script::channel(builder).unwrap()
}

/// A TLS context with the identity and the authorities of the instance `mesh`, which checks no names.
pub(crate) fn mutual() -> UpstreamTls {
    UpstreamTls {
        identity: Some(instance("mesh")),
        roots: Roots::Instance(instance("mesh")),
        san_matchers: Vec::new(),
        sni: None,
        auto_host_sni: false,
        auto_sni_san_validation: false,
    }
}

/// As [`mutual`], with these matchers of names.
pub(crate) fn naming(matchers: impl IntoIterator<Item = StringMatcher>) -> UpstreamTls {
    let matchers = matchers.into_iter();
    UpstreamTls {
        san_matchers: matchers
            .map(|matcher| SanMatcher { of: None, matcher })
            .collect(),
        ..mutual()
    }
}

pub(crate) fn exact(text: &str) -> StringMatcher {
    StringMatcher::Exact(Text::new(text, false))
}

pub(crate) fn instance(name: &str) -> CertificateInstance {
    CertificateInstance {
        instance_name: name.into(),
        certificate_name: "".into(),
    }
}

/// A cluster of the backend behind this front, with this TLS context.
pub(crate) fn secured(front: &TlsFront, tls: UpstreamTls) -> ClusterSpec {
    cluster("one", &[&[("here", 1, &[front.address()])]], 0).tls(tls)
}
