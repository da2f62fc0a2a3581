//! The client of an accepted connection, as authorization sees it (gRFC A41).

use oxds_core::resource::SanKind;
use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_parser::objects::{oid_registry, oid2abbrev};
use x509_parser::parse_x509_certificate;
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use super::names::Names;

/// Verified names of a client's certificate; empty if the client has none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Peer {
    /// Whether the client has a certificate, which was verified.
    pub is_authenticated: bool,
    /// Subject alternative names that are URIs, such as a SPIFFE ID.
    pub uri_sans: Vec<String>,
    /// Subject alternative names that are DNS names.
    pub dns_sans: Vec<String>,
    /// Subject, in the form of RFC 2253, as `CN=shop,O=Example`; `None` if it is empty.
    pub subject: Option<String>,
    /// Server name that the client sent (SNI).
    pub server_name: Option<String>,
}

impl Peer {
    /// Reads the names of a certificate that the handshake has verified. If the alternative names cannot be read, the peer has no
    /// names, not even its subject.
    #[must_use]
    pub fn new(certificate: Option<&CertificateDer<'_>>, server_name: Option<&str>) -> Self {
        let mut peer = Self {
            server_name: server_name.map(ToOwned::to_owned),
            ..Self::default()
        };
        let Some(certificate) = certificate else {
            return peer;
        };
        peer.is_authenticated = true;
        // gRFC A41: the subject is for certificates without alternative names. If those cannot be read, the subject must not take
        // their place.
        let (Ok(names), Ok((_, parsed))) =
            (Names::of(certificate), parse_x509_certificate(certificate))
        else {
            return peer;
        };
        let all = |kind| names.of_kind(kind).map(ToOwned::to_owned).collect();
        peer.uri_sans = all(SanKind::Uri);
        peer.dns_sans = all(SanKind::Dns);
        peer.subject = Some(rfc2253(parsed.subject())).filter(|subject| !subject.is_empty());
        peer
    }
}

/// Writes a name with its last part first (RFC 2253 §2).
fn rfc2253(name: &X509Name<'_>) -> String {
    let parts = name.iter_rdn().collect::<Vec<_>>().into_iter().rev();
    let parts = parts.map(|part| part.iter().map(attribute).collect::<Vec<_>>().join("+"));
    parts.collect::<Vec<_>>().join(",")
}

fn attribute(attribute: &AttributeTypeAndValue<'_>) -> String {
    let oid = attribute.attr_type();
    let name = oid2abbrev(oid, oid_registry());
    let name = name.map_or_else(|_| oid.to_id_string(), ToOwned::to_owned);
    match attribute.as_str() {
        Ok(text) => format!("{name}={}", escaped(text)),
        Err(_) => {
            let bytes = attribute.as_slice().iter();
            let hex: String = bytes.map(|byte| format!("{byte:02x}")).collect();
            format!("{name}=#{hex}")
        }
    }
}

/// Escapes a value (RFC 2253 §2.4).
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let last = text.chars().count().saturating_sub(1);
    for (index, character) in text.chars().enumerate() {
        let is_special = matches!(character, ',' | '+' | '"' | '\\' | '<' | '>' | ';');
        let is_first = index == 0 && matches!(character, ' ' | '#');
        if is_special || is_first || (index == last && character == ' ') {
            out.push('\\');
        }
        out.push(character);
    }
    out
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CustomExtension, DnType, KeyPair, SanType};

    use super::*;

    #[test]
    fn a41_subject_is_written_as_rfc_2253() {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let name = &mut params.distinguished_name;
        name.push(DnType::OrganizationName, "Example, Inc.");
        name.push(DnType::CommonName, " shop #1");
        params.subject_alt_names = vec![
            SanType::URI("spiffe://prod/shop".try_into().unwrap()),
            SanType::DnsName("shop.example".try_into().unwrap()),
        ];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let peer = Peer::new(Some(certificate.der()), Some("sni.example"));
        assert_eq!(
            peer.subject.as_deref(),
            Some(r"CN=\ shop #1,O=Example\, Inc.")
        );
        assert_eq!(peer.uri_sans, ["spiffe://prod/shop"]);
        assert_eq!(peer.dns_sans, ["shop.example"]);
        assert_eq!(peer.server_name.as_deref(), Some("sni.example"));
        let anonymous = Peer::new(None, None);
        assert_eq!(anonymous, Peer::default());
        assert!(!anonymous.is_authenticated);
    }

    #[test]
    fn a41_unreadable_names_are_not_replaced_by_the_subject() {
        const SUBJECT_ALT_NAME: &[u64] = &[2, 5, 29, 17];
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "shop");
        let malformed = CustomExtension::from_oid_content(SUBJECT_ALT_NAME, vec![0xff]);
        params.custom_extensions = vec![malformed];
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let expected = Peer {
            is_authenticated: true,
            ..Peer::default()
        };
        assert_eq!(Peer::new(Some(certificate.der()), None), expected);
    }
}
