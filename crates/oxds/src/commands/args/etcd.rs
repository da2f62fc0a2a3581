//! Options that select a configuration in etcd.

use std::fs;
use std::path::{Path, PathBuf};

use oxds_etcd::Prefix;
use oxds_server::store::etcd::client::{ClientOptions, Endpoints, EtcdTlsFiles, User};

use crate::exit::Failure;

/// Longest password file, in bytes: a larger one is another file.
const MAX_PASSWORD_FILE: u64 = 64 << 10;

/// Options for etcd: its members, the prefix of the keys, and credentials.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "etcd")]
pub(crate) struct EtcdArgs {
    /// Members of an etcd cluster: http://host:port or https://host:port, separated by commas
    #[arg(long = "etcd", value_name = "URL[,URL…]", value_parser = endpoints)]
    endpoints: Option<Endpoints>,
    /// Beginning of all keys of the configuration
    #[arg(long, value_name = "PREFIX", default_value = "/oxds/default", value_parser = prefix, requires = "endpoints")]
    prefix: Prefix,
    /// Certificate authorities of the members (PEM); without, those of this machine
    #[arg(long, value_name = "FILE", requires = "endpoints")]
    etcd_ca: Option<PathBuf>,
    /// Client certificate (PEM); etcd may read the user from its common name
    #[arg(long, value_name = "FILE", requires_all = ["endpoints", "etcd_key"])]
    etcd_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, value_name = "FILE", requires_all = ["endpoints", "etcd_cert"])]
    etcd_key: Option<PathBuf>,
    /// User of etcd
    #[arg(long, value_name = "NAME", requires_all = ["endpoints", "etcd_password_file"])]
    etcd_user: Option<String>,
    /// File with the password of the user; its last line break does not count
    #[arg(long, value_name = "FILE", requires_all = ["endpoints", "etcd_user"])]
    etcd_password_file: Option<PathBuf>,
}

/// A configuration in etcd, and how to connect.
#[derive(Debug, Clone)]
pub(crate) struct EtcdTarget {
    pub(crate) endpoints: Endpoints,
    pub(crate) client: ClientOptions,
    pub(crate) prefix: Prefix,
}

impl EtcdArgs {
    /// Returns the configuration of the options; `None` without `--etcd`. Reads the files, so that an unreadable one is
    /// reported before the first connection.
    pub(crate) fn target(&self) -> Result<Option<EtcdTarget>, Failure> {
        let Some(endpoints) = &self.endpoints else {
            return Ok(None);
        };
        let files = [&self.etcd_ca, &self.etcd_cert, &self.etcd_key];
        for file in files.into_iter().flatten() {
            fs::read(file).map_err(|error| unreadable(file, &error))?;
        }
        let identity = self.etcd_cert.clone().zip(self.etcd_key.clone());
        let has_files = self.etcd_ca.is_some() || identity.is_some();
        let tls = has_files.then(|| EtcdTlsFiles {
            ca: self.etcd_ca.clone(),
            identity,
        });
        let mut client = ClientOptions::new(endpoints, tls).map_err(Failure::usage)?;
        if let Some((name, file)) = self
            .etcd_user
            .as_ref()
            .zip(self.etcd_password_file.as_ref())
        {
            client = client.user(User {
                name: name.clone(),
                password: password(file)?,
            });
        }
        Ok(Some(EtcdTarget {
            endpoints: endpoints.clone(),
            client,
            prefix: self.prefix.clone(),
        }))
    }
}

fn password(file: &Path) -> Result<String, Failure> {
    let metadata = fs::metadata(file).map_err(|error| unreadable(file, &error))?;
    if metadata.len() > MAX_PASSWORD_FILE {
        let file = file.display();
        return Err(Failure::usage(format_args!(
            "{file}: too large: expected a password of at most {MAX_PASSWORD_FILE} bytes"
        )));
    }
    let text = fs::read_to_string(file).map_err(|error| unreadable(file, &error))?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    if password.is_empty() {
        let file = file.display();
        Err(Failure::usage(format_args!("{file}: expected a password")))
    } else {
        Ok(password.to_owned())
    }
}

fn unreadable(file: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format_args!("{}: {error}", file.display()))
}

fn endpoints(text: &str) -> Result<Endpoints, String> {
    text.parse().map_err(|error| format!("{error}"))
}

fn prefix(text: &str) -> Result<Prefix, String> {
    Prefix::new(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        etcd: EtcdArgs,
    }

    fn target(line: &[&str]) -> Result<Option<EtcdTarget>, String> {
        let line = Line::try_parse_from(["oxds"].iter().chain(line));
        let line = line.map_err(|error| error.to_string())?;
        line.etcd.target().map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn g33_options_without_etcd_are_errors() {
        assert!(target(&[]).unwrap().is_none());
        for line in [
            &["--prefix", "/a"][..],
            &["--etcd-ca", "ca.pem"],
            &["--etcd-user", "a", "--etcd-password-file", "b"],
        ] {
            assert!(target(line).unwrap_err().contains("--etcd <"), "{line:?}");
        }
        let wrong = target(&["--etcd", "etcd:2379"]).unwrap_err();
        assert!(wrong.contains("expected http://host:port"), "{wrong}");
        let wrong = target(&["--etcd", "http://a", "--prefix", "/"]).unwrap_err();
        assert!(wrong.contains("prefix"), "{wrong}");
    }

    #[test]
    fn g31_password_is_read_without_its_line_break() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("password");
        for (text, expected) in [("pass word \n", "pass word "), ("a\r\n", "a"), ("b", "b")] {
            fs::write(&file, text).unwrap();
            assert_eq!(password(&file), Ok(expected.to_owned()));
        }
        fs::write(&file, "\n").unwrap();
        assert!(password(&file).is_err());
        let missing = target(&[
            "--etcd",
            "http://a",
            "--etcd-user",
            "a",
            "--etcd-password-file",
            "/nonexistent/file",
        ]);
        assert!(missing.unwrap_err().contains("/nonexistent/file"));
    }

    #[test]
    fn g32_certificates_for_plaintext_are_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        fs::write(&file, "").unwrap();
        let file = file.to_str().unwrap();
        let error = target(&["--etcd", "http://a", "--etcd-ca", file]).unwrap_err();
        assert!(error.contains("expected https://"), "{error}");
    }
}
