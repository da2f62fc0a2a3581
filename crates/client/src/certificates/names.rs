//! Subject alternative names of a certificate, and their matching (gRFC A29, A101).

use std::fmt;
use std::net::IpAddr;

use oxds_core::lb::StringMatcher;
use oxds_core::resource::{SanKind, SanMatcher};
use tokio_rustls::rustls::pki_types::ServerName;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// Names of a certificate, in its order. Directory names and other names that gRPC does not match are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Names(Vec<(SanKind, String)>);

impl Names {
    /// Reads the names of a certificate in DER.
    ///
    /// # Errors
    /// The certificate, or its list of names, is invalid.
    pub(super) fn read(certificate: &[u8]) -> Result<Self, String> {
        let certificate = Certificate::from_der(certificate).map_err(|error| error.to_string())?;
        Self::of(&certificate)
    }

    /// Returns the names of a certificate.
    ///
    /// # Errors
    /// The list of names is invalid, or there are several.
    pub(super) fn of(certificate: &Certificate) -> Result<Self, String> {
        let list = certificate.tbs_certificate().get_extension();
        let list: Option<(bool, SubjectAltName)> =
            list.map_err(|error| format!("subject alternative names: {error}"))?;
        let names = list.iter().flat_map(|(_, list)| &list.0);
        Ok(Self(names.filter_map(name).collect()))
    }

    pub(super) fn of_kind(&self, kind: SanKind) -> impl Iterator<Item = &str> {
        let names = self.0.iter().filter(move |(of, _)| *of == kind);
        names.map(|(_, name)| name.as_str())
    }

    /// Returns whether one of the matchers matches one of the names (C-257).
    pub(super) fn match_any(&self, matchers: &[SanMatcher]) -> bool {
        let matches = |matcher: &SanMatcher| {
            self.0.iter().any(|(kind, name)| {
                let is_it = matcher.of.is_none_or(|of| of == *kind);
                is_it && (matcher.matcher.matches(name) || is_wildcard_of(*kind, name, matcher))
            })
        };
        matchers.iter().any(matches)
    }

    /// Returns whether one of the names is the server name of the handshake (gRFC A101).
    pub(super) fn have(&self, server_name: &ServerName<'_>) -> bool {
        let wanted = server_name.to_str();
        self.0.iter().any(|(kind, name)| match kind {
            SanKind::Dns => name.eq_ignore_ascii_case(&wanted) || wildcard(name, &wanted),
            SanKind::Uri | SanKind::Ip => *name == wanted,
            SanKind::Email => false,
        })
    }
}

/// Returns whether an exact matcher names a host that a wildcard name covers. gRPC's clients match so, as TLS does.
fn is_wildcard_of(kind: SanKind, name: &str, matcher: &SanMatcher) -> bool {
    match &matcher.matcher {
        StringMatcher::Exact(host) => kind == SanKind::Dns && wildcard(name, host.as_str()),
        _ => false,
    }
}

/// Returns whether a name such as `*.example.com` covers a host: `*` stands for exactly one label (RFC 6125 §6.4.3).
fn wildcard(name: &str, host: &str) -> bool {
    let (Some(suffix), Some((label, rest))) = (name.strip_prefix("*."), host.split_once('.'))
    else {
        return false;
    };
    // A wildcard below a top-level domain covers too much.
    !label.is_empty() && suffix.contains('.') && rest.eq_ignore_ascii_case(suffix)
}

fn name(name: &GeneralName) -> Option<(SanKind, String)> {
    match name {
        GeneralName::DnsName(name) => Some((SanKind::Dns, name.to_string())),
        GeneralName::UniformResourceIdentifier(name) => Some((SanKind::Uri, name.to_string())),
        GeneralName::Rfc822Name(name) => Some((SanKind::Email, name.to_string())),
        GeneralName::IpAddress(octets) => {
            let octets = octets.as_bytes();
            let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
            let v6 = || <[u8; 16]>::try_from(octets).map(IpAddr::from);
            Some((SanKind::Ip, v4.or_else(|_| v6()).ok()?.to_string()))
        }
        _ => None,
    }
}

/// The names with their types, such as `DNS "shop", URI "spiffe://prod/shop"`.
impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no names");
        }
        for (index, (kind, name)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{kind} {name:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use oxds_core::lb::Text;

    use super::*;

    fn names(names: &[(SanKind, &str)]) -> Names {
        let names = names.iter().map(|(kind, name)| (*kind, (*name).to_owned()));
        Names(names.collect())
    }

    fn exact(text: &str) -> SanMatcher {
        SanMatcher {
            of: None,
            matcher: StringMatcher::Exact(Text::new(text, false)),
        }
    }

    #[test]
    fn c257_exact_matcher_matches_wildcard_of_one_label() {
        let wildcard = names(&[(SanKind::Dns, "*.shop.example")]);
        for (host, is_match) in [
            ("a.shop.example", true),
            ("A.Shop.Example", true),
            ("*.shop.example", true),
            ("a.b.shop.example", false),
            (".shop.example", false),
            ("shop.example", false),
        ] {
            assert_eq!(wildcard.match_any(&[exact(host)]), is_match, "{host}");
        }
        let top = names(&[(SanKind::Dns, "*.example")]);
        assert!(!top.match_any(&[exact("a.example")]));
        let uri = names(&[(SanKind::Uri, "*.shop.example")]);
        assert!(!uri.match_any(&[exact("a.shop.example")]), "DNS names only");
    }

    #[test]
    fn c257_one_of_several_matchers_is_enough() {
        let both = names(&[(SanKind::Dns, "shop"), (SanKind::Uri, "spiffe://prod/shop")]);
        assert!(both.match_any(&[exact("cart"), exact("spiffe://prod/shop")]));
        assert!(!both.match_any(&[exact("cart"), exact("spiffe://prod")]));
        let typed = |of| SanMatcher {
            of: Some(of),
            ..exact("shop")
        };
        assert!(both.match_any(&[typed(SanKind::Dns)]));
        assert!(!both.match_any(&[typed(SanKind::Uri)]));
        assert!(!Names::default().match_any(&[exact("shop")]));
    }

    #[test]
    fn c257_errors_show_all_names() {
        let both = names(&[(SanKind::Dns, "shop"), (SanKind::Ip, "10.0.0.1")]);
        assert_eq!(both.to_string(), "DNS \"shop\", IP \"10.0.0.1\"");
        assert_eq!(Names::default().to_string(), "no names");
    }
}
