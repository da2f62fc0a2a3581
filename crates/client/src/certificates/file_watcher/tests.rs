//! Files that change, hang, or are not what they should be.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, SerialNumber,
};
use tempfile::TempDir;
use tracing::Dispatch;
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::subscriber::DefaultGuard;

use super::*;
use crate::credentials::RevocationFiles;

/// Files of a provider, in a folder of their own.
struct Files(TempDir);

impl Files {
    /// A valid pair and authority.
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        let (certificate, key) = pair();
        files.write("own.pem", &certificate);
        files.write("own.key", &key);
        files.write("ca.pem", &authority("mesh").pem());
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// The files, which are read again each time.
    fn config(&self) -> CertificateFiles {
        CertificateFiles::default()
            .with_identity(IdentityFiles {
                certificate: self.path("own.pem"),
                key: self.path("own.key"),
            })
            .with_trust(Trust::Authorities(self.path("ca.pem")))
            .with_refresh_interval(Duration::ZERO)
    }

    fn watcher(&self) -> FileWatcher {
        FileWatcher::new(self.config())
    }
}

/// A new certificate, and its key.
fn pair() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::default().self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

async fn identity_error(watcher: &FileWatcher) -> String {
    watcher.identity("").await.unwrap_err().to_string()
}

/// Errors that are logged on this thread.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<String>>>);

impl Logged {
    /// Logs until the guard is dropped.
    fn start() -> (Self, (DefaultGuard, Dispatch)) {
        let logged = Self::default();
        // With one subscriber, tracing asks only that of the thread on which an event is first met, which may belong to
        // another test, and caches the result; with a second one it asks both.
        let second = Dispatch::new(logged.clone());
        let guard = tracing::subscriber::set_default(logged.clone());
        (logged, (guard, second))
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Visit for Logged {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl tracing::Subscriber for Logged {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "oxds::credentials" && *metadata.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// given a valid pair / when the certificate is replaced, and later the key / then the pair of before stays in use with
/// one log line, and the new pair is used.
#[tokio::test]
async fn a29_half_written_pair_is_logged_once_and_recovers() {
    let (logged, _guard) = Logged::start();
    let files = Files::new();
    let watcher = files.watcher();
    let first = watcher.identity("").await.unwrap();
    let (certificate, key) = pair();
    files.write("own.pem", &certificate);
    for _ in 0..3 {
        assert!(Arc::ptr_eq(&first, &watcher.identity("").await.unwrap()));
        watcher.roots("").await.unwrap();
    }
    let error = format!(
        "certificates not reloaded: {}: is not the key of {}",
        files.path("own.key").display(),
        files.path("own.pem").display()
    );
    assert_eq!(logged.take(), [error]);
    files.write("own.key", &key);
    let second = watcher.identity("").await.unwrap();
    assert!(!Arc::ptr_eq(&first, &second));
    assert!(Arc::ptr_eq(&second, &watcher.identity("").await.unwrap()));
    assert_eq!(logged.take(), ["certificates reloaded"]);
}

#[tokio::test]
async fn a29_invalid_files_are_named_with_their_fault() {
    let (certificate, key) = pair();
    let half = &key[..key.len() / 2];
    let der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (name, text, expected) in [
        ("own.pem", "", "own.pem: no certificate found"),
        ("own.pem", der, "own.pem: invalid certificate: "),
        ("own.key", "", "own.key: no private key found"),
        ("own.key", half, "own.key: truncated PEM: missing "),
        ("own.key", &certificate, "own.key: no private key found"),
        ("own.pem", &certificate, "own.key: is not the key of "),
    ] {
        let files = Files::new();
        files.write(name, text);
        let watcher = files.watcher();
        let error = identity_error(&watcher).await;
        assert!(error.contains(expected), "{error}");
        // The authorities are valid without it.
        watcher.roots("").await.unwrap();
    }
    let files = Files::new();
    let valid = std::fs::read_to_string(files.path("own.pem")).unwrap();
    files.write("own.pem", &(valid + der));
    let error = identity_error(&files.watcher()).await;
    let expected = "own.pem: certificate 2 of 2: invalid certificate: ";
    assert!(error.contains(expected), "{error}");
}

#[tokio::test]
async fn a29_only_regular_files_are_read() {
    let files = Files::new();
    let mut config = files.config();
    config.trust = Trust::Authorities(files.0.path().to_owned());
    let error = FileWatcher::new(config.clone()).roots("").await;
    let error = error.unwrap_err().to_string();
    assert!(error.ends_with(": is a folder: expected a file"), "{error}");
    // A read of it would never end.
    config.trust = Trust::Authorities("/dev/zero".into());
    let watcher = FileWatcher::new(config);
    let error = watcher.roots("").await.unwrap_err().to_string();
    assert_eq!(error, "/dev/zero: is not a regular file");
    watcher.identity("").await.unwrap();
    let huge = std::fs::File::create(files.path("ca.pem")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let error = files.watcher().roots("").await.unwrap_err().to_string();
    let expected = "ca.pem: larger than the limit of 67108864 bytes";
    assert!(error.ends_with(expected), "{error}");
}

/// given valid files / when a later read hangs / then the first connection waits for a limited time, the next ones do
/// not, and the end of the read applies.
#[test]
fn a29_hanging_read_does_not_hold_back_connections() {
    let (logged, _guard) = Logged::start();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let files = Files::new();
        let watcher = Arc::new(files.watcher());
        let first = watcher.identity("").await.unwrap();
        // The only thread for reads hangs.
        let (release, released) = channel::<()>();
        let hanging = spawn_blocking(move || released.recv());
        let (certificate, key) = pair();
        files.write("own.pem", &certificate);
        files.write("own.key", &key);
        let waiting = tokio::spawn({
            let watcher = Arc::clone(&watcher);
            async move { watcher.identity("").await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        tokio::time::advance(SLOW_READ + Duration::from_millis(1)).await;
        assert!(Arc::ptr_eq(&first, &waiting.await.unwrap().unwrap()));
        for _ in 0..3 {
            assert!(Arc::ptr_eq(&first, &watcher.identity("").await.unwrap()));
        }
        let slow = "certificates not reloaded: reading them takes longer than 5 s";
        assert_eq!(logged.take(), [slow]);
        drop(release);
        hanging.await.unwrap().unwrap_err();
        while Arc::ptr_eq(&first, &watcher.identity("").await.unwrap()) {
            tokio::task::yield_now().await;
        }
        assert_eq!(logged.take(), ["certificates reloaded"]);
    });
}

#[tokio::test]
async fn a29_expired_certificate_in_use_is_logged_once() {
    let (logged, _guard) = Logged::start();
    let files = Files::new();
    let watcher = files.watcher();
    let identity = watcher.identity("").await.unwrap();
    // Time passes: the certificate is as it was.
    let mut state = watcher.state.lock().await;
    let (digest, _) = state.identity.valid.clone().unwrap();
    state.identity.valid = Some((digest, Arc::new(identity.valid_until(0))));
    drop(state);
    watcher.identity("").await.unwrap();
    watcher.identity("").await.unwrap();
    let path = files.path("own.pem");
    let expected = format!("{}: the certificate in use has expired", path.display());
    assert_eq!(logged.take(), [expected]);
    let (certificate, key) = pair();
    files.write("own.pem", &certificate);
    files.write("own.key", &key);
    watcher.identity("").await.unwrap();
    assert_eq!(logged.take(), ["certificates reloaded"]);
}

/// A list of an authority that revokes nothing, in PEM.
fn list(authority: &CertifiedIssuer<'static, KeyPair>) -> String {
    let params = CertificateRevocationListParams {
        this_update: rcgen::date_time_ymd(2020, 1, 1),
        next_update: rcgen::date_time_ymd(2100, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    params.signed_by(authority).unwrap().pem().unwrap()
}

/// given a folder with lists of two authorities / when one of the files becomes invalid, then is removed / then its
/// list stays in use with one log line, then is removed, too (gRFC A69).
#[tokio::test]
async fn a69_invalid_list_keeps_the_one_of_before() {
    let (logged, _guard) = Logged::start();
    let files = Files::new();
    let folder = files.path("crls");
    std::fs::create_dir_all(folder.join("..data")).unwrap();
    files.write("crls/a.crl", &list(&authority("a")));
    files.write("crls/b.crl", &list(&authority("b")));
    files.write("crls/.hidden", "invalid");
    let config = files.config().with_revocation(RevocationFiles {
        directory: folder,
        deny_undetermined: false,
    });
    let watcher = FileWatcher::new(config);
    let lists = async || {
        let roots = watcher.roots("").await.unwrap();
        (format!("{:?}", roots.revocation().unwrap()), roots)
    };
    let (both, first) = lists().await;
    assert_eq!(both, "RevocationLists(2 issuers)");
    assert!(Arc::ptr_eq(&first, &lists().await.1), "nothing changed");
    files.write("crls/b.crl", "invalid");
    files.write("crls/c.crl", &list(&authority("c")));
    for _ in 0..3 {
        assert_eq!(lists().await.0, "RevocationLists(3 issuers)");
    }
    let [reloaded, error] = &logged.take()[..] else {
        panic!("logged once");
    };
    assert_eq!(reloaded, "revocation lists reloaded");
    let expected = format!(
        "{}: invalid revocation list: ",
        files.path("crls/b.crl").display()
    );
    assert!(error.contains(&expected), "{error}");
    std::fs::remove_file(files.path("crls/b.crl")).unwrap();
    assert_eq!(lists().await.0, "RevocationLists(2 issuers)");
    // Without the folder, the lists stay.
    std::fs::rename(files.path("crls"), files.path("gone")).unwrap();
    assert_eq!(lists().await.0, "RevocationLists(2 issuers)");
    assert_eq!(lists().await.0, "RevocationLists(2 issuers)");
    let [reloaded, error] = &logged.take()[..] else {
        panic!("logged once");
    };
    assert_eq!(reloaded, "revocation lists reloaded");
    let expected = format!(
        "revocation lists not reloaded: {}: ",
        files.path("crls").display()
    );
    assert!(error.starts_with(&expected), "{error}");
}
