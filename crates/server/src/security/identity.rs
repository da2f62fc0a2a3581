//! Who a client is, by its certificate.

use std::fmt;

/// The names that an authority vouches for: the URIs (SPIFFE IDs) and DNS names of a certificate's subject
/// alternative names. The common name is not one (RFC 6125, 6.4.4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    names: Vec<String>,
}

impl Identity {
    /// The names in a certificate that was verified.
    #[cfg(feature = "tls")]
    pub(super) fn of(certificate: &tokio_rustls::rustls::pki_types::CertificateDer<'_>) -> Self {
        let names = webpki::EndEntityCert::try_from(certificate)
            .map(|certificate| {
                let uris = certificate.valid_uri_names();
                let names = uris.chain(certificate.valid_dns_names());
                names.map(str::to_owned).collect()
            })
            // Verified, hence readable; who has no name is nobody.
            .unwrap_or_default();
        Self { names }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

/// The first of the names: that is, the SPIFFE ID if there is one.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.names.first().map_or("a nameless client", |name| name))
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
