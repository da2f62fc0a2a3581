//! The certificate provider of a gRPC bootstrap (gRFC A29): the files of a folder, which the application reads again.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::node::quoted;

/// Name of the provider, to which TLS contexts refer as `instance_name`.
pub(super) const PROVIDER: &str = "default";

/// Names of certificate, key and roots, as the usual tools write them.
const LAYOUTS: [[&str; 3]; 4] = [
    ["cert.pem", "key.pem", "ca.pem"],
    // Secrets of Kubernetes, and cert-manager.
    ["tls.crt", "tls.key", "ca.crt"],
    // spiffe-helper.
    ["svid.pem", "svid_key.pem", "svid_bundle.pem"],
    // Workload certificates of Google Cloud.
    ["certificates.pem", "private_key.pem", "ca_certificates.pem"],
];

/// Files of one identity.
#[derive(Debug)]
pub(super) struct CertificateFiles {
    certificate: PathBuf,
    key: PathBuf,
    roots: PathBuf,
    /// Time after which they are read again.
    refresh_interval: Duration,
}

/// Reason why a folder has no identity.
#[derive(Debug, PartialEq)]
pub(super) struct IncompleteFolder {
    dir: PathBuf,
    /// Files that are missing beside others of their layout.
    missing: Vec<&'static str>,
}

impl CertificateFiles {
    /// Finds the files in a folder. The paths are absolute, as the application may run elsewhere; links in them stay,
    /// since tools rotate certificates by them.
    pub(super) fn find(dir: &Path, refresh_interval: Duration) -> Result<Self, IncompleteFolder> {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        let missing = |layout: [&'static str; 3]| {
            let missing = layout.into_iter().filter(|name| !dir.join(name).is_file());
            missing.collect::<Vec<_>>()
        };
        let mut closest = LAYOUTS[0].to_vec();
        for layout in LAYOUTS {
            let missing = missing(layout);
            if missing.is_empty() {
                let [certificate, key, roots] = layout.map(|name| dir.join(name));
                return Ok(Self {
                    certificate,
                    key,
                    roots,
                    refresh_interval,
                });
            }
            if missing.len() < closest.len() {
                closest = missing;
            }
        }
        let missing = closest;
        Err(IncompleteFolder { dir, missing })
    }

    /// Returns the field of the bootstrap.
    pub(super) fn field(&self) -> String {
        let quoted = |path: &Path| quoted(&path.to_string_lossy());
        let name = Path::new(PROVIDER);
        let name = quoted(name);
        let (certificate, key) = (quoted(&self.certificate), quoted(&self.key));
        let roots = quoted(&self.roots);
        // A duration of protobuf JSON has seconds only.
        let refresh_interval = self.refresh_interval.as_secs_f64();
        format!(
            r#"  "certificate_providers": {{
    {name}: {{
      "plugin_name": "file_watcher",
      "config": {{
        "certificate_file": {certificate},
        "private_key_file": {key},
        "ca_certificate_file": {roots},
        "refresh_interval": "{refresh_interval}s"
      }}
    }}
  }},
"#
        )
    }
}

impl fmt::Display for IncompleteFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = self.missing.join(", ");
        let others = LAYOUTS.map(|layout| layout.join(", ")).join("; or ");
        let dir = self.dir.display();
        write!(f, "{dir}: missing {missing}: expected {others}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_each_layout_are_found() {
        for layout in LAYOUTS {
            let dir = tempfile::tempdir().expect("a folder");
            for name in layout {
                std::fs::write(dir.path().join(name), "").expect("a file");
            }
            let found = CertificateFiles::find(dir.path(), Duration::ZERO).expect("complete");
            assert_eq!(found.roots, dir.path().join(layout[2]));
        }
    }

    #[test]
    fn missing_file_of_the_closest_layout_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        for name in ["tls.crt", "tls.key", "cert.pem"] {
            std::fs::write(dir.path().join(name), "").expect("a file");
        }
        let error = CertificateFiles::find(dir.path(), Duration::ZERO).expect_err("incomplete");
        assert_eq!(error.missing, ["ca.crt"]);
    }
}
