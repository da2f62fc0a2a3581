//! Certificates for tests: an authority and the certificates that it issues.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, PublicKeyData as _,
    RevokedCertParams, SanType, SerialNumber,
};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A certificate authority of one test.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    /// The certificate, in PEM.
    pub certificate: String,
    /// The private key, in PEM.
    pub key: String,
    /// The serial number, by which an authority revokes it.
    pub serial: Vec<u8>,
}

/// Paths of a certificate and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Files {
    /// Path of the certificate.
    pub certificate: PathBuf,
    /// Path of the private key.
    pub key: PathBuf,
}

impl Authority {
    /// Creates an authority.
    ///
    /// # Errors
    /// When a certificate cannot contain the name.
    pub fn new(name: &str) -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        CertifiedIssuer::self_signed(params, KeyPair::generate()?).map(Self)
    }

    /// Issues a certificate for servers and clients with these subject alternative names: an address, a URI (a name
    /// with `://`), or else a DNS name.
    ///
    /// # Errors
    /// When a certificate cannot contain a name.
    pub fn issue(&self, names: &[&str]) -> Result<Issued, rcgen::Error> {
        self.sign(parameters(names)?)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Issued, rcgen::Error> {
        let key = KeyPair::generate()?;
        // Part of the new key is as unique as the key, and the leading 1 makes it a positive number without leading
        // zeros.
        let serial: Vec<u8> = [1].into_iter().chain(tail(&key)).collect();
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        Ok(Issued {
            serial,
            certificate: params.signed_by(&key, &self.0)?.pem(),
            key: key.serialize_pem(),
        })
    }

    /// Issues a certificate that has expired.
    ///
    /// # Errors
    /// When a certificate cannot contain a name.
    pub fn issue_expired(&self, names: &[&str]) -> Result<Issued, rcgen::Error> {
        let mut params = parameters(names)?;
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        self.sign(params)
    }

    /// Issues a certificate that will be valid in the future.
    ///
    /// # Errors
    /// When a certificate cannot contain a name.
    pub fn issue_future(&self, names: &[&str]) -> Result<Issued, rcgen::Error> {
        let mut params = parameters(names)?;
        params.not_before = rcgen::date_time_ymd(2100, 1, 1);
        params.not_after = rcgen::date_time_ymd(2101, 1, 1);
        self.sign(params)
    }

    /// Returns a revocation list with these certificates, in PEM. It is valid until the beginning of a year.
    ///
    /// # Errors
    /// When the list cannot be signed.
    pub fn revocation_list(&self, revoked: &[&Issued], until: i32) -> Result<String, rcgen::Error> {
        let revoked = revoked.iter().map(|issued| RevokedCertParams {
            serial_number: SerialNumber::from_slice(&issued.serial),
            revocation_time: rcgen::date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2020, 1, 1),
            next_update: rcgen::date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.0)?.pem()
    }

    /// The authority's own certificate, in PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Returns a connector to servers of this authority, with the certificate of `client` if there is one, which offers
    /// these protocols (ALPN).
    ///
    /// # Errors
    /// When the client's certificate and key do not match.
    pub fn connector(
        &self,
        client: Option<&Issued>,
        protocols: &[&str],
    ) -> Result<TlsConnector, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone())?;
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match client {
            Some(client) => {
                let (chain, key) = client.der()?;
                builder.with_client_auth_cert(chain, key)?
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = alpn(protocols);
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

impl Issued {
    /// Writes both as `NAME.pem` and `NAME.key`, each by renaming, as certificate rotation does.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, folder: &Path, name: &str) -> io::Result<Files> {
        let files = Files {
            certificate: folder.join(format!("{name}.pem")),
            key: folder.join(format!("{name}.key")),
        };
        replace(&files.certificate, &self.certificate)?;
        replace(&files.key, &self.key)?;
        Ok(files)
    }

    /// Returns an acceptor with this certificate, which agrees to one of these protocols, if there are any (ALPN).
    ///
    /// # Errors
    /// When certificate and key do not match.
    pub fn acceptor(&self, protocols: &[&str]) -> Result<TlsAcceptor, rustls::Error> {
        let (chain, key) = self.der()?;
        let mut config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = alpn(protocols);
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Returns an acceptor as [`acceptor`](Self::acceptor), which requires a client certificate of one of these
    /// authorities.
    ///
    /// # Errors
    /// When certificate and key do not match.
    pub fn mutual_acceptor(
        &self,
        clients: &[&Authority],
        protocols: &[&str],
    ) -> Result<TlsAcceptor, rustls::Error> {
        let mut roots = RootCertStore::empty();
        for authority in clients {
            roots.add(authority.0.der().clone())?;
        }
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build();
        let verifier = verifier.map_err(|error| rustls::Error::General(error.to_string()))?;
        let (chain, key) = self.der()?;
        let mut config = ServerConfig::builder()
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)?;
        config.alpn_protocols = alpn(protocols);
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    fn der(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), rustls::Error> {
        let unreadable = |error| rustls::Error::General(format!("PEM: {error}"));
        let chain = CertificateDer::pem_slice_iter(self.certificate.as_bytes());
        let chain = chain.collect::<Result<_, _>>().map_err(unreadable)?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(unreadable)?;
        Ok((chain, key))
    }
}

/// Returns a SPIFFE bundle map with the roots of each trust domain.
#[must_use]
pub fn bundle_map(domains: &[(&str, &Authority)]) -> String {
    let domains = domains.iter().map(|(domain, authority)| {
        // `x5c` holds the text between the BEGIN and END lines of PEM.
        let pem = authority.pem();
        let lines = pem.lines().filter(|line| !line.starts_with("-----"));
        let x5c: String = lines.collect();
        format!(
            r#""{domain}": {{ "keys": [{{ "kty": "EC", "use": "x509-svid", "x5c": ["{x5c}"] }}] }}"#
        )
    });
    let domains: Vec<_> = domains.collect();
    format!(r#"{{ "trust_domains": {{ {} }} }}"#, domains.join(", "))
}

/// Writes a file by renaming.
///
/// # Errors
/// When the file cannot be written.
pub fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("new");
    std::fs::write(&new, text)?;
    std::fs::rename(new, path)
}

fn tail(key: &KeyPair) -> impl Iterator<Item = u8> {
    let bytes = key.der_bytes();
    let tail = bytes[bytes.len().saturating_sub(15)..].to_vec();
    tail.into_iter()
}

fn alpn(protocols: &[&str]) -> Vec<Vec<u8>> {
    let protocols = protocols.iter();
    protocols.map(|name| name.as_bytes().to_vec()).collect()
}

fn parameters(names: &[&str]) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.subject_alt_names = names
        .iter()
        .map(|name| alternative_name(name))
        .collect::<Result<_, _>>()?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    Ok(params)
}

fn alternative_name(name: &str) -> Result<SanType, rcgen::Error> {
    Ok(match name.parse::<IpAddr>() {
        Ok(address) => SanType::IpAddress(address),
        Err(_) if name.contains("://") => SanType::URI(name.try_into()?),
        Err(_) => SanType::DnsName(name.try_into()?),
    })
}
