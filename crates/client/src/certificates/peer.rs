//! The client of an accepted connection, as authorization sees it (gRFC A41).

use oxds_core::resource::SanKind;
use tokio_rustls::rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::{Any, Ia5StringRef, ObjectIdentifier, PrintableStringRef};
use x509_cert::der::asn1::{TeletexStringRef, Utf8StringRef};
use x509_cert::der::{Decode as _, Encode as _, Tag, Tagged as _};
use x509_cert::name::Name;

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
    /// Reads the names of a certificate that the handshake has verified. If the alternative names cannot be read, the
    /// peer has no names, not even its subject.
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
        // gRFC A41: the subject is for certificates without alternative names. If those cannot be read, the subject
        // must not take their place.
        let Ok(parsed) = Certificate::from_der(certificate) else {
            return peer;
        };
        let Ok(names) = Names::of(&parsed) else {
            return peer;
        };
        let all = |kind| names.of_kind(kind).map(ToOwned::to_owned).collect();
        peer.uri_sans = all(SanKind::Uri);
        peer.dns_sans = all(SanKind::Dns);
        let subject = rfc2253(parsed.tbs_certificate().subject());
        peer.subject = Some(subject).filter(|subject| !subject.is_empty());
        peer
    }
}

/// Keywords of the attributes of names: those of RFC 2253 §2.3, and further ones that gRPC's peers write.
const KEYWORDS: [(ObjectIdentifier, &str); 12] = [
    (ObjectIdentifier::new_unwrap("2.5.4.3"), "CN"),
    (ObjectIdentifier::new_unwrap("2.5.4.5"), "serialNumber"),
    (ObjectIdentifier::new_unwrap("2.5.4.6"), "C"),
    (ObjectIdentifier::new_unwrap("2.5.4.7"), "L"),
    (ObjectIdentifier::new_unwrap("2.5.4.8"), "ST"),
    (ObjectIdentifier::new_unwrap("2.5.4.9"), "STREET"),
    (ObjectIdentifier::new_unwrap("2.5.4.10"), "O"),
    (ObjectIdentifier::new_unwrap("2.5.4.11"), "OU"),
    (ObjectIdentifier::new_unwrap("2.5.4.17"), "postalCode"),
    (
        ObjectIdentifier::new_unwrap("0.9.2342.19200300.100.1.1"),
        "UID",
    ),
    (
        ObjectIdentifier::new_unwrap("0.9.2342.19200300.100.1.25"),
        "DC",
    ),
    (
        ObjectIdentifier::new_unwrap("1.2.840.113549.1.9.1"),
        "emailAddress",
    ),
];

/// Writes a name with its last part first (RFC 2253 §2).
fn rfc2253(name: &Name) -> String {
    let parts = name.iter_rdn().collect::<Vec<_>>().into_iter().rev();
    let parts = parts.map(|part| part.iter().map(attribute).collect::<Vec<_>>().join("+"));
    parts.collect::<Vec<_>>().join(",")
}

/// Writes an attribute. One without a keyword has its identifier and its value in DER, as one whose value is no text
/// (RFC 2253 §2.4).
fn attribute(attribute: &AttributeTypeAndValue) -> String {
    let AttributeTypeAndValue { oid, value } = attribute;
    let keyword = KEYWORDS.iter().find(|(known, _)| known == oid);
    match (keyword, text(value)) {
        (Some((_, keyword)), Some(text)) => format!("{keyword}={}", escaped(text)),
        _ => {
            let bytes = value.to_der().unwrap_or_default().into_iter();
            let hex: String = bytes.map(|byte| format!("{byte:02x}")).collect();
            format!("{oid}=#{hex}")
        }
    }
}

fn text(value: &Any) -> Option<&str> {
    match value.tag() {
        Tag::Utf8String => Utf8StringRef::try_from(value)
            .ok()
            .map(|text| text.as_str()),
        Tag::PrintableString => PrintableStringRef::try_from(value)
            .ok()
            .map(|text| text.as_str()),
        Tag::Ia5String => Ia5StringRef::try_from(value).ok().map(|text| text.as_str()),
        Tag::TeletexString => TeletexStringRef::try_from(value)
            .ok()
            .map(|text| text.as_str()),
        _ => None,
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
    use rcgen::{CertificateParams, CustomExtension, DnType, DnValue, KeyPair, SanType};

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
    fn a41_subject_has_keywords_or_identifiers_with_der() {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let name = &mut params.distinguished_name;
        let email = DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]);
        name.push(
            email,
            DnValue::Ia5String("shop@example".try_into().unwrap()),
        );
        name.push(
            DnType::CountryName,
            DnValue::PrintableString("CH".try_into().unwrap()),
        );
        name.push(DnType::CustomDnType(vec![1, 2, 3, 4]), "ab");
        name.push(
            DnType::CommonName,
            DnValue::BmpString("shop".try_into().unwrap()),
        );
        params.subject_alt_names.clear();
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let peer = Peer::new(Some(certificate.der()), None);
        // 0c: UTF8String, 1e: BMPString; then the length and the bytes.
        assert_eq!(
            peer.subject.as_deref(),
            Some("2.5.4.3=#1e0800730068006f0070,1.2.3.4=#0c026162,C=CH,emailAddress=shop@example")
        );
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
