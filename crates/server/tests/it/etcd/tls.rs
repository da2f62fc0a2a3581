//! TLS to etcd (G-32).

use std::path::Path;

use oxds_server::store::etcd::client::{
    Blame, ClientOptions, Endpoints, EtcdClient, EtcdError, EtcdTlsFiles, Reason,
};
use oxds_testkit::TlsFront;
use oxds_testkit::certificates::{Authority, Issued, replace};
use oxds_testkit::etcd::ScriptedEtcd;

use super::read;

/// A scripted etcd behind TLS, and the client's folder with `ca.pem`.
struct Secured {
    authority: Authority,
    folder: tempfile::TempDir,
    front: TlsFront,
    options: ClientOptions,
    _etcd: ScriptedEtcd,
}

impl Secured {
    async fn start(issue: impl FnOnce(&Authority) -> Issued, with_identity: bool) -> Self {
        let authority = Authority::new("etcd").unwrap();
        let folder = tempfile::tempdir().unwrap();
        replace(&folder.path().join("ca.pem"), &authority.pem()).unwrap();
        let etcd = ScriptedEtcd::start().await.unwrap();
        let server = issue(&authority);
        let acceptor = if with_identity {
            server.mutual_acceptor(&[&authority], &["h2"]).unwrap()
        } else {
            server.acceptor(&["h2"]).unwrap()
        };
        let front = TlsFront::start(acceptor, etcd.address()).await.unwrap();
        let endpoints: Endpoints = format!("https://{}", front.address()).parse().unwrap();
        let file = |name: &str| folder.path().join(name);
        let files = EtcdTlsFiles {
            ca: Some(file("ca.pem")),
            identity: with_identity.then(|| (file("client.pem"), file("client.key"))),
        };
        let options = ClientOptions::new(&endpoints, Some(files)).unwrap();
        Self {
            authority,
            folder,
            front,
            options: options.timeout(crate::SOON),
            _etcd: etcd,
        }
    }

    async fn connect(&self) -> Result<EtcdClient, EtcdError> {
        let endpoint = format!("https://{}", self.front.address()).parse().unwrap();
        EtcdClient::connect(&endpoint, &self.options).await
    }

    async fn fault(&self) -> String {
        let error = self.connect().await.unwrap_err();
        assert!(matches!(error.reason(), Reason::Security(_)), "{error:?}");
        assert_eq!(error.blame(), Blame::Operator);
        assert_eq!(
            self._etcd.activity().accepted,
            0,
            "no fallback to plaintext"
        );
        error.to_string()
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }
}

#[tokio::test]
async fn g32_wrong_certificates_of_the_member_have_clear_errors() {
    let name = Secured::start(|ca| ca.issue(&["other.example"]).unwrap(), false).await;
    let text = name.fault().await;
    assert!(text.contains("has another name than its URL"), "{text}");
    assert!(text.contains("other.example"), "{text}");

    let expired = Secured::start(|ca| ca.issue_expired(&["127.0.0.1"]).unwrap(), false).await;
    let text = expired.fault().await;
    assert!(text.contains("has expired"), "{text}");

    let other = Authority::new("other").unwrap();
    let authority = Secured::start(|_| other.issue(&["127.0.0.1"]).unwrap(), false).await;
    let text = authority.fault().await;
    assert!(text.contains("of an unknown authority"), "{text}");
}

#[tokio::test]
async fn g32_missing_file_is_named() {
    let secured = Secured::start(|ca| ca.issue(&["127.0.0.1"]).unwrap(), false).await;
    std::fs::remove_file(secured.folder().join("ca.pem")).unwrap();
    let text = secured.fault().await;
    assert!(text.contains("ca.pem: "), "{text}");
}

#[tokio::test]
async fn g32_rejected_client_certificate_is_reported() {
    let secured = Secured::start(|ca| ca.issue(&["127.0.0.1"]).unwrap(), true).await;
    let stranger = Authority::new("other").unwrap();
    stranger
        .issue(&["me"])
        .unwrap()
        .write(secured.folder(), "client")
        .unwrap();
    let text = secured.fault().await;
    assert!(
        text.contains("the member rejects this client's certificate"),
        "{text}"
    );
}

#[tokio::test]
async fn g32_replaced_files_apply_to_the_next_connection() {
    let secured = Secured::start(|ca| ca.issue(&["127.0.0.1"]).unwrap(), true).await;
    let first = secured.authority.issue(&["me"]).unwrap();
    first.write(secured.folder(), "client").unwrap();
    let client = secured.connect().await.unwrap();
    let before = secured.front.client_certificate();

    // When all files are replaced by those of another authority
    let other = Authority::new("other").unwrap();
    replace(&secured.folder().join("ca.pem"), &other.pem()).unwrap();
    other
        .issue(&["me"])
        .unwrap()
        .write(secured.folder(), "client")
        .unwrap();
    let server = other.issue(&["127.0.0.1"]).unwrap();
    secured
        .front
        .set_acceptor(server.mutual_acceptor(&[&other], &["h2"]).unwrap());

    // Then the open connection continues, and the next one uses the new files
    client.range(read("a")).await.unwrap();
    secured
        .connect()
        .await
        .unwrap()
        .range(read("a"))
        .await
        .unwrap();
    assert_ne!(secured.front.client_certificate(), before);
}
