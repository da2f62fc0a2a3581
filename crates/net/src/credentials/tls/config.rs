//! Converts certificate files into a rustls configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use oxds_types::file::FileError;
use oxds_types::pem;
use oxds_types::reload::{Contents, Reloadable};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::version::{TLS12, TLS13};

use crate::credentials::roots;
use crate::credentials::spiffe::BundleMap;
use crate::credentials::verifier::Verifier;
use crate::credentials::{CertificateFiles, Trust};

/// Reads the files for the first time, and returns a configuration that can be reloaded.
pub(super) fn open(
    files: &CertificateFiles,
) -> Result<Reloadable<ClientConfig, FileError>, FileError> {
    if let Some(revocation) = &files.revocation {
        // An ignored list would be worse than none.
        let reason = "revocation lists are for certificate providers: the credentials \"tls\" do not support crl_directory";
        return Err(FileError::new(&revocation.directory, reason));
    }
    let trusted = match &files.trust {
        Trust::System => None,
        Trust::Authorities(path) | Trust::Spiffe(path) => Some(path),
    };
    let own = files.identity.iter();
    let own = own.flat_map(|identity| [&identity.certificate, &identity.key]);
    let paths = trusted.into_iter().chain(own).cloned().collect();
    let trust = files.trust.clone();
    Reloadable::open(paths, move |paths, contents| {
        config(&trust, paths, contents)
    })
}

/// Builds the configuration. The files are in the order of [`open`]: authorities (unless the system's are used),
/// certificate, key.
fn config(
    trust: &Trust,
    paths: &[PathBuf],
    contents: &Contents,
) -> Result<ClientConfig, FileError> {
    let mut files = paths.iter().map(PathBuf::as_path).zip(contents);
    let provider = Arc::new(ring::default_provider());
    let verifier = verifier(trust, &mut files, &provider)?;
    let own = (files.next(), files.next());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|error| FileError::new(Path::new("TLS"), error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    Ok(match own {
        (Some((chain_path, chain)), Some((key_path, key))) => config
            .with_client_auth_cert(
                pem::certificates(chain_path, chain)?,
                pem::key(key_path, key)?,
            )
            .map_err(|error| FileError::new(chain_path, error))?,
        _ => config.with_no_client_auth(),
    })
}

fn verifier<'a>(
    trust: &Trust,
    files: &mut impl Iterator<Item = (&'a Path, &'a Vec<u8>)>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, FileError> {
    let system = Path::new("the system's certificates");
    let (path, contents) = match trust {
        Trust::System => (system, None),
        Trust::Authorities(_) | Trust::Spiffe(_) => {
            let file = files.next();
            file.map_or((system, None), |(path, contents)| (path, Some(contents)))
        }
    };
    let roots = match (trust, contents) {
        (Trust::Spiffe(_), Some(json)) => {
            let map = BundleMap::parse(json).map_err(|fault| FileError::new(path, fault))?;
            return Ok(Arc::new(Verifier::new(map, provider)));
        }
        (_, Some(pem)) => roots::authorities(path, pem)?,
        (_, None) => roots::of_system()?,
    };
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    Ok(verifier
        .build()
        .map_err(|error| FileError::new(path, error))?)
}
