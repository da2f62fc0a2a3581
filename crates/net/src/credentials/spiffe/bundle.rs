//! Bundle maps: the certificate authorities of each trust domain (SPIFFE Trust Domain and Bundle §4).
//!
//! ```json
//! { "trust_domains": { "prod.example": { "spiffe_sequence": 7, "keys": [
//!   { "kty": "EC", "use": "x509-svid", "x5c": ["MIIB…"] }
//! ] } } }
//! ```

use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::id;

/// Certificate authorities of each trust domain.
///
/// The map may be empty, and a domain may have no authority; then all its certificates are rejected.
#[derive(Debug)]
pub struct BundleMap(HashMap<String, RootCertStore>);

#[derive(Deserialize)]
struct BundleMapFile {
    trust_domains: HashMap<String, Bundle>,
}

#[derive(Deserialize)]
struct Bundle {
    /// Ignored, but must be a number.
    #[serde(rename = "spiffe_sequence")]
    _sequence: Option<u64>,
    keys: Vec<Key>,
}

#[derive(Deserialize)]
struct Key {
    kty: String,
    #[serde(rename = "use")]
    usage: String,
    #[serde(default)]
    x5c: Vec<String>,
}

impl BundleMap {
    /// Parses the JSON form.
    ///
    /// # Errors
    /// The position and the rule that is broken. One invalid key makes the whole map invalid (gRFC A87): a partial set
    /// of authorities must not be used.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        let file: BundleMapFile =
            serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let mut map = HashMap::new();
        for (domain, bundle) in file.trust_domains {
            id::check_domain(&domain).map_err(|fault| format!("{domain:?} {fault}"))?;
            let mut roots = RootCertStore::empty();
            for (index, key) in bundle.keys.iter().enumerate() {
                let at = |fault| format!("{domain}: keys[{index}]: {fault}");
                if let Some(certificate) = key.authority().map_err(at)? {
                    let added = roots.add(certificate);
                    added.map_err(|error| at(format!("x5c: {error}")))?;
                }
            }
            map.insert(domain, roots);
        }
        Ok(Self(map))
    }

    /// Returns the authorities of a trust domain; `None` if it is not in the map.
    pub fn roots(&self, domain: &str) -> Option<&RootCertStore> {
        self.0.get(domain)
    }

    /// Returns all trust domains with their authorities.
    pub fn domains(&self) -> impl Iterator<Item = (&str, &RootCertStore)> {
        self.0
            .iter()
            .map(|(domain, roots)| (domain.as_str(), roots))
    }
}

impl Key {
    /// Returns the authority certificate; `None` if the key signs JWTs, not certificates.
    fn authority(&self) -> Result<Option<CertificateDer<'static>>, String> {
        match self.usage.as_str() {
            "x509-svid" => {}
            // SPIFFE Trust Domain and Bundle: `use` tells X.509 authorities from JWT signing keys.
            "jwt-svid" => return Ok(None),
            other => return Err(format!("use: is {other:?}, expected x509-svid")),
        }
        if !["EC", "RSA"].contains(&self.kty.as_str()) {
            return Err(format!("kty: is {:?}, expected EC or RSA", self.kty));
        }
        // SPIFFE X509-SVID: `x5c` has exactly one certificate, the authority itself.
        let [certificate] = self.x5c.as_slice() else {
            return Err(format!(
                "x5c: has {} certificates, expected one",
                self.x5c.len()
            ));
        };
        let der = BASE64_STANDARD.decode(certificate);
        let der = der.map_err(|error| format!("x5c: {error}"))?;
        Ok(Some(der.into()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A self-signed CA certificate, in base64.
    fn authority() -> String {
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        BASE64_STANDARD.encode(params.self_signed(&key).unwrap().der())
    }

    fn parse(json: &Value) -> Result<BundleMap, String> {
        BundleMap::parse(json.to_string().as_bytes())
    }

    fn with_key(key: &Value) -> Result<BundleMap, String> {
        parse(&json!({ "trust_domains": { "prod": { "spiffe_sequence": 1, "keys": [key] } } }))
    }

    #[test]
    fn c27_c258_bundle_map_has_authorities_per_domain() {
        let key = json!({ "kty": "EC", "use": "x509-svid", "x5c": [authority()], "kid": "ignored", "crv": "P-256" });
        let token =
            json!({ "kty": "RSA", "use": "jwt-svid", "kid": "k", "n": "AQAB", "e": "AQAB" });
        let map = parse(&json!({ "trust_domains": {
            "prod.example": { "spiffe_sequence": 7, "spiffe_refresh_hint": 60, "keys": [key, token] },
            "empty.example": { "keys": [] },
        } }))
        .unwrap();
        assert_eq!(map.roots("prod.example").unwrap().len(), 1);
        assert_eq!(map.roots("empty.example").unwrap().len(), 0);
        assert!(map.roots("example").is_none());
        assert!(
            parse(&json!({ "trust_domains": {} })).is_ok(),
            "empty, but valid"
        );
    }

    #[test]
    fn c27_one_invalid_key_makes_bundle_map_invalid() {
        let good = authority();
        for (key, fault) in [
            (
                json!({ "kty": "EC", "use": "sig", "x5c": [good] }),
                "prod: keys[0]: use: is \"sig\"",
            ),
            (json!({ "kty": "EC", "x5c": [good] }), "missing field `use`"),
            (
                json!({ "kty": "oct", "use": "x509-svid", "x5c": [good] }),
                "kty: is \"oct\"",
            ),
            (
                json!({ "kty": "EC", "use": "x509-svid" }),
                "x5c: has 0 certificates",
            ),
            (
                json!({ "kty": "EC", "use": "x509-svid", "x5c": [good, good] }),
                "x5c: has 2 certificates",
            ),
            (
                json!({ "kty": "EC", "use": "x509-svid", "x5c": ["?"] }),
                "x5c: ",
            ),
            (
                json!({ "kty": "EC", "use": "x509-svid", "x5c": ["AAAA"] }),
                "x5c: ",
            ),
        ] {
            let error = with_key(&key).unwrap_err();
            assert!(error.contains(fault), "{error}");
        }
        for (json, fault) in [
            (json!([]), "expected struct BundleMapFile"),
            (json!({}), "missing field `trust_domains`"),
            (
                json!({ "trust_domains": { "Prod": { "keys": [] } } }),
                "\"Prod\" has a trust domain",
            ),
            (
                json!({ "trust_domains": { "prod": {} } }),
                "missing field `keys`",
            ),
            (
                json!({ "trust_domains": { "prod": { "spiffe_sequence": "1", "keys": [] } } }),
                "invalid type: string",
            ),
        ] {
            let error = parse(&json).unwrap_err();
            assert!(error.contains(fault), "{error}");
        }
    }
}
