//! Certificate files: the `config` of gRFC A29's `file_watcher` provider and of gRFC A65's `tls` credentials.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// Paths of certificate files, and how often they are read. All files are PEM, except a SPIFFE bundle map.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct CertificateFiles {
    /// Certificate and key of this process; `None`: no client certificate is sent.
    pub identity: Option<IdentityFiles>,
    /// Certificate authorities that a server certificate is verified with.
    pub trust: Trust,
    /// Revocation lists of the authorities, which only certificate providers read; `None`: revocation is not checked.
    pub revocation: Option<RevocationFiles>,
    /// Time after which the files are read again, before the next connection: 10 min by default. A changed file applies
    /// to new connections only.
    pub refresh_interval: Duration,
}

/// Certificate chain and private key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdentityFiles {
    /// Certificate, followed by its intermediates.
    pub certificate: PathBuf,
    /// Private key of the certificate: PKCS #8, PKCS #1 or SEC 1.
    pub key: PathBuf,
}

/// Certificate revocation lists, in PEM or DER (gRFC A69).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RevocationFiles {
    /// Folder of the lists, under any names. Folders in it, and files whose name begins with a dot, are not read.
    pub directory: PathBuf,
    /// Whether a certificate without a valid list of its issuer is rejected.
    pub deny_undetermined: bool,
}

/// Certificate authorities that a server certificate is verified with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trust {
    /// The authorities that the operating system trusts.
    #[default]
    System,
    /// The authorities in this file only.
    Authorities(PathBuf),
    /// A SPIFFE bundle map, in JSON (gRFC A87): the authorities of the server's trust domain. A server without a SPIFFE
    /// ID is rejected; the host name is not checked.
    Spiffe(PathBuf),
}

const TEN_MINUTES: Duration = Duration::from_secs(600);

impl Default for CertificateFiles {
    fn default() -> Self {
        Self {
            identity: None,
            trust: Trust::default(),
            revocation: None,
            refresh_interval: TEN_MINUTES,
        }
    }
}

impl CertificateFiles {
    /// Sets [`identity`](Self::identity).
    #[must_use]
    pub fn with_identity(mut self, identity: impl Into<Option<IdentityFiles>>) -> Self {
        self.identity = identity.into();
        self
    }

    /// Sets [`trust`](Self::trust).
    #[must_use]
    pub fn with_trust(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }

    /// Sets [`revocation`](Self::revocation).
    #[must_use]
    pub fn with_revocation(mut self, revocation: impl Into<Option<RevocationFiles>>) -> Self {
        self.revocation = revocation.into();
        self
    }

    /// Sets [`refresh_interval`](Self::refresh_interval).
    #[must_use]
    pub fn with_refresh_interval(mut self, refresh_interval: Duration) -> Self {
        self.refresh_interval = refresh_interval;
        self
    }

    /// Parses a `config`. Without one, the system's authorities are trusted and no client certificate is sent (gRFC
    /// A65).
    ///
    /// # Errors
    /// The field that is wrong, and the rule that it breaks.
    pub fn parse(config: Option<&Value>) -> Result<Self, String> {
        let Some(config) = config else {
            return Ok(Self::default());
        };
        let fields = config.as_object().ok_or("must be an object")?;
        let certificate = path(fields, "certificate_file")?;
        let identity = match (certificate, path(fields, "private_key_file")?) {
            (Some(certificate), Some(key)) => Some(IdentityFiles { certificate, key }),
            // gRFC A65: certificate and key must be set together (C-17).
            (None, None) => None,
            (Some(_), None) => {
                return Err("private_key_file: must be set, as certificate_file is".to_owned());
            }
            (None, Some(_)) => {
                return Err("certificate_file: must be set, as private_key_file is".to_owned());
            }
        };
        let authorities = path(fields, "ca_certificate_file")?;
        let trust = match (path(fields, "spiffe_trust_bundle_map_file")?, authorities) {
            // gRFC A87: the bundle map wins over ca_certificate_file, which older clients of the same bootstrap use.
            (Some(map), _) => Trust::Spiffe(map),
            (None, Some(authorities)) => Trust::Authorities(authorities),
            (None, None) => Trust::System,
        };
        let refresh_interval = match fields.get("refresh_interval").filter(|value| !value.is_null()) {
            None => TEN_MINUTES,
            Some(value) => value.as_str().and_then(duration).ok_or(
                "refresh_interval: must be a duration that is not negative, like \"600s\" or \"0.5s\"",
            )?,
        };
        Ok(Self {
            identity,
            trust,
            revocation: revocation(fields)?,
            refresh_interval,
        })
    }

    /// Parses the `config` of a `file_watcher` provider, which must name at least one file (gRFC A29).
    pub fn parse_watcher(config: Option<&Value>) -> Result<Self, String> {
        let files = Self::parse(config)?;
        // gRFC A29: a provider without any file provides nothing (C-27).
        if files.identity.is_none() && files.trust == Trust::System {
            return Err(
                "must have certificate_file, ca_certificate_file or spiffe_trust_bundle_map_file"
                    .to_owned(),
            );
        }
        if files.revocation.is_some() && files.trust == Trust::System {
            return Err(
                "crl_directory: needs ca_certificate_file or spiffe_trust_bundle_map_file"
                    .to_owned(),
            );
        }
        Ok(files)
    }

    /// Returns the `config` that parses to an equal value.
    pub fn to_config(&self) -> Value {
        let mut fields = Map::new();
        let mut put = |name: &str, path: &PathBuf| {
            fields.insert(name.to_owned(), path.to_string_lossy().into());
        };
        if let Some(identity) = &self.identity {
            put("certificate_file", &identity.certificate);
            put("private_key_file", &identity.key);
        }
        match &self.trust {
            Trust::System => {}
            Trust::Authorities(path) => put("ca_certificate_file", path),
            Trust::Spiffe(path) => put("spiffe_trust_bundle_map_file", path),
        }
        if let Some(revocation) = &self.revocation {
            put("crl_directory", &revocation.directory);
            if revocation.deny_undetermined {
                fields.insert("crl_deny_undetermined".to_owned(), true.into());
            }
        }
        if self.refresh_interval != TEN_MINUTES {
            let (seconds, nanos) = (
                self.refresh_interval.as_secs(),
                self.refresh_interval.subsec_nanos(),
            );
            fields.insert(
                "refresh_interval".to_owned(),
                json!(format!("{seconds}.{nanos:09}s")),
            );
        }
        Value::Object(fields)
    }
}

/// Returns the revocation lists. The fields are our own: no gRFC has them.
fn revocation(fields: &Map<String, Value>) -> Result<Option<RevocationFiles>, String> {
    let directory = path(fields, "crl_directory")?;
    let deny = match fields.get("crl_deny_undetermined") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(deny)) => Some(*deny),
        Some(_) => return Err("crl_deny_undetermined: must be a boolean".to_owned()),
    };
    match (directory, deny) {
        (Some(directory), deny) => Ok(Some(RevocationFiles {
            directory,
            deny_undetermined: deny.unwrap_or(false),
        })),
        // It would deny every certificate.
        (None, Some(true)) => Err("crl_deny_undetermined: needs crl_directory".to_owned()),
        (None, _) => Ok(None),
    }
}

/// Returns a path field. As in protobuf, an empty string means absent.
fn path(fields: &Map<String, Value>, name: &str) -> Result<Option<PathBuf>, String> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(path)) => Ok(Some(path.into()).filter(|_| !path.is_empty())),
        Some(_) => Err(format!("{name}: must be a string")),
    }
}

/// Parses a non-negative duration in protobuf's JSON mapping: seconds with up to nine fractional digits, then `s`.
fn duration(text: &str) -> Option<Duration> {
    /// Limit of `google.protobuf.Duration`: about ten thousand years.
    const MAX_SECONDS: u64 = 315_576_000_000;
    let number = text.strip_suffix('s')?;
    let (seconds, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(seconds) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds = seconds
        .parse()
        .ok()
        .filter(|seconds| *seconds <= MAX_SECONDS)?;
    Some(Duration::new(
        seconds,
        format!("{fraction:0<9}").parse().ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(config: &Value) -> Result<CertificateFiles, String> {
        CertificateFiles::parse(Some(config))
    }

    #[test]
    fn c16_no_config_means_system_roots_and_no_certificate() {
        let default = CertificateFiles::default();
        assert_eq!(default.trust, Trust::System);
        assert_eq!(default.identity, None);
        assert_eq!(CertificateFiles::parse(None), Ok(default.clone()));
        assert_eq!(
            parse(&json!({ "later": 1, "certificate_file": null, "private_key_file": "" })),
            Ok(default)
        );
    }

    #[test]
    fn c17_certificate_and_key_require_each_other() {
        let both = parse(&json!({ "certificate_file": "c", "private_key_file": "k", "ca_certificate_file": "a" })).unwrap();
        let identity = IdentityFiles {
            certificate: "c".into(),
            key: "k".into(),
        };
        assert_eq!(both.identity, Some(identity));
        assert_eq!(both.trust, Trust::Authorities("a".into()));
        let error = parse(&json!({ "certificate_file": "c" })).unwrap_err();
        assert_eq!(
            error,
            "private_key_file: must be set, as certificate_file is"
        );
        let error = parse(&json!({ "private_key_file": "k" })).unwrap_err();
        assert_eq!(
            error,
            "certificate_file: must be set, as private_key_file is"
        );
    }

    #[test]
    fn c18_interval_is_protobuf_json_duration() {
        for (text, duration) in [
            ("600s", Duration::from_secs(600)),
            ("0s", Duration::ZERO),
            ("0.5s", Duration::from_millis(500)),
            ("1.000000001s", Duration::new(1, 1)),
        ] {
            let files = parse(&json!({ "refresh_interval": text })).unwrap();
            assert_eq!(files.refresh_interval, duration, "{text}");
            assert_eq!(parse(&files.to_config()), Ok(files), "{text}");
        }
        for wrong in [
            json!("10"),
            json!("-1s"),
            json!("1.s"),
            json!(".5s"),
            json!("1m"),
            json!(600),
            json!("1.0000000001s"),
            json!("315576000001s"),
            json!(""),
        ] {
            let error = parse(&json!({ "refresh_interval": wrong })).unwrap_err();
            assert!(error.starts_with("refresh_interval: "), "{wrong}: {error}");
        }
        assert_eq!(
            CertificateFiles::default().refresh_interval,
            Duration::from_secs(600)
        );
    }

    #[test]
    fn c27_watcher_needs_a_file_and_bundle_map_wins() {
        let watcher = |config: Value| CertificateFiles::parse_watcher(Some(&config));
        assert!(CertificateFiles::parse_watcher(None).is_err());
        let error = watcher(json!({ "refresh_interval": "1s" })).unwrap_err();
        assert!(error.contains("ca_certificate_file"), "{error}");
        assert!(watcher(json!({ "certificate_file": "c" })).is_err());
        watcher(json!({ "certificate_file": "c", "private_key_file": "k" })).unwrap();
        watcher(json!({ "ca_certificate_file": "a" })).unwrap();
        let both =
            watcher(json!({ "ca_certificate_file": "a", "spiffe_trust_bundle_map_file": "m" }));
        assert_eq!(both.unwrap().trust, Trust::Spiffe("m".into()));
        let with_lists = watcher(
            json!({ "ca_certificate_file": "a", "crl_directory": "d", "crl_deny_undetermined": true }),
        );
        let with_lists = with_lists.unwrap();
        let revocation = RevocationFiles {
            directory: "d".into(),
            deny_undetermined: true,
        };
        assert_eq!(with_lists.revocation, Some(revocation));
        assert_eq!(watcher(with_lists.to_config()), Ok(with_lists));
        for (config, error) in [
            (
                json!({ "certificate_file": "c", "private_key_file": "k", "crl_directory": "d" }),
                "crl_directory: needs ca_certificate_file or spiffe_trust_bundle_map_file",
            ),
            (
                json!({ "ca_certificate_file": "a", "crl_deny_undetermined": true }),
                "crl_deny_undetermined: needs crl_directory",
            ),
            (
                json!({ "ca_certificate_file": "a", "crl_directory": "d", "crl_deny_undetermined": 1 }),
                "crl_deny_undetermined: must be a boolean",
            ),
        ] {
            assert_eq!(watcher(config).unwrap_err(), error);
        }
        assert_eq!(
            watcher(json!({ "ca_certificate_file": 7 })).unwrap_err(),
            "ca_certificate_file: must be a string"
        );
    }
}
