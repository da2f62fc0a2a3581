//! The identity of a client, from its certificate.

use std::fmt;

/// The verified names of a client: the URIs (SPIFFE IDs) and DNS names in the subject alternative names of its
/// certificate. The common name is not used (RFC 6125, 6.4.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    names: Vec<String>,
}

impl Identity {
    /// Reads the names of a verified certificate.
    #[cfg(feature = "tls")]
    pub(super) fn of(certificate: &tokio_rustls::rustls::pki_types::CertificateDer<'_>) -> Self {
        let names = webpki::EndEntityCert::try_from(certificate)
            .map(|certificate| {
                let uris = certificate.valid_uri_names();
                let names = uris.chain(certificate.valid_dns_names());
                names.map(str::to_owned).collect()
            })
            // A verified certificate can be parsed. Without names no rule applies.
            .unwrap_or_default();
        Self { names }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

/// Writes the first name, which is the SPIFFE ID if there is one.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            self.names
                .first()
                .map_or("a client without a name", |name| name),
        )
    }
}

#[cfg(test)]
impl Identity {
    pub(super) fn named(names: &[&str]) -> Self {
        Self {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        }
    }
}
