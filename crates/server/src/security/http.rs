//! Access to the pages of the HTTP port: TLS, and who may read them.
//!
//! ```text
//!                  open ──▶ every client
//!   request ──┬──▶ token ──▶ clients that send it: `Authorization: Bearer TOKEN`, or Basic with it as the password
//!             └──▶ local ──▶ clients of this machine, whose `Host` is this machine, too
//! ```
//!
//! The pages name all clients and their configuration, so that without a setting they are for this machine only.
//! `/healthz`, `/readyz` and `/metrics` are open to every client.

use std::hint::black_box;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, header};
use oxds_types::file::FileError;
use oxds_types::reload::{Contents, Reloadable};

use super::error::SecurityError;
#[cfg(feature = "tls")]
use super::tls;

/// The TLS settings of the HTTP port, and the clients that may read its pages. The default is plain HTTP, with pages
/// for clients of this machine only.
///
/// Files are read again when they change, as those of [`Security`](super::Security). Clones share the contents of the
/// files.
#[derive(Debug, Clone, Default)]
pub struct HttpSecurity {
    #[cfg(feature = "tls")]
    tls: Option<Arc<Reloadable<tls::ServerConfig, SecurityError>>>,
    readers: Readers,
}

/// Clients that may read the pages.
#[derive(Debug, Clone, Default)]
enum Readers {
    #[default]
    Local,
    Token(Arc<Reloadable<Token, SecurityError>>),
    All,
}

/// The reason for which a client may not read a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpDenied {
    #[error(
        "this page is for clients of this machine; `oxds serve` shows it to others with --http-token-file or --http-open"
    )]
    Remote,
    #[error(
        "this page is for clients that name this machine: expected localhost or an IP address as host"
    )]
    ForeignHost,
    #[error(
        "this page needs the token of the server: expected it as bearer token, or as password of any user"
    )]
    NoToken,
}

impl HttpSecurity {
    /// Serves over TLS 1.2 or 1.3 with these files, in PEM: the certificate with its intermediate certificates, and its
    /// key.
    ///
    /// # Errors
    /// A file cannot be read, or has no valid certificate or key.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, certificate: &Path, key: &Path) -> Result<Self, SecurityError> {
        let files = tls::TlsFiles::new(certificate, key);
        self.tls = Some(Arc::new(tls::open(&files, tls::Alpn::Http1)?));
        Ok(self)
    }

    /// Lets clients read the pages that send the token in this file, from whatever address. White space around it is
    /// ignored.
    ///
    /// # Errors
    /// The file cannot be read, or its token is shorter than 16 characters or has other characters than visible ASCII.
    pub fn token(mut self, file: &Path) -> Result<Self, SecurityError> {
        let token = Reloadable::open(vec![file.to_owned()], |paths, contents| {
            Ok(Token::read(paths, contents)?)
        })?;
        self.readers = Readers::Token(Arc::new(token));
        Ok(self)
    }

    /// Lets every client read the pages that reaches the port.
    #[must_use]
    pub fn open(mut self) -> Self {
        self.readers = Readers::All;
        self
    }

    /// Checks that a client of the HTTP port may read the pages.
    pub(crate) fn admit(&self, client: IpAddr, headers: &HeaderMap) -> Result<(), HttpDenied> {
        match &self.readers {
            // A page of another site can make the browser of an operator ask this machine, by a DNS name that it points
            // here. The browser then sends that name as host.
            Readers::Local if !is_local(client) => Err(HttpDenied::Remote),
            Readers::Local if !names_this_machine(headers) => Err(HttpDenied::ForeignHost),
            Readers::Token(token) if !token.load().is_sent(headers) => Err(HttpDenied::NoToken),
            _ => Ok(()),
        }
    }

    /// Checks that a client of the gRPC port may read the pages there, if neither rules nor a certificate decide.
    /// Clients of this machine may, as they may use CSDS.
    pub(crate) fn admit_beside_grpc(
        &self,
        client: IpAddr,
        headers: &HeaderMap,
    ) -> Result<(), HttpDenied> {
        match &self.readers {
            _ if is_local(client) => Ok(()),
            Readers::Local => Err(HttpDenied::Remote),
            Readers::Token(_) | Readers::All => self.admit(client, headers),
        }
    }

    /// Returns the acceptor for the next handshake, or `None` without TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn acceptor(&self) -> Option<tokio_rustls::TlsAcceptor> {
        Some(self.tls.as_ref()?.load().into())
    }

    /// Reads the files again if they have changed.
    pub(crate) fn refresh(&self) {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            super::log(tls.refresh(), "certificates of the HTTP port");
        }
        if let Readers::Token(token) = &self.readers {
            super::log(token.refresh(), "token of the HTTP port");
        }
    }
}

/// Whether an address is one of this machine. An IPv4 client of a socket that is bound to `::` has a mapped address.
fn is_local(client: IpAddr) -> bool {
    client.to_canonical().is_loopback()
}

/// Whether the `Host` of a request can only be this machine: no name that others can point here.
fn names_this_machine(headers: &HeaderMap) -> bool {
    // HTTP/1.0 clients and tools send none; browsers always do.
    let Some(host) = headers.get(header::HOST) else {
        return true;
    };
    let host = host.to_str().unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bracketed = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let is_address = match bracketed {
        Some(name) => name.parse::<Ipv6Addr>().is_ok(),
        None => name.parse::<IpAddr>().is_ok(),
    };
    // RFC 6761, section 6.3: names below `localhost` are always this machine.
    let name = name.to_ascii_lowercase();
    is_address || name == "localhost" || name.ends_with(".localhost")
}

/// Shortest token, in bytes: a shorter one could be guessed.
const MIN_TOKEN: usize = 16;

/// The secret that readers send.
struct Token(Vec<u8>);

/// Never writes the secret.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    fn read(paths: &[std::path::PathBuf], contents: &Contents) -> Result<Self, FileError> {
        let path = paths.first().map_or(Path::new(""), |path| path.as_path());
        let content = contents.first().map_or(&[][..], Vec::as_slice);
        let token = content.trim_ascii();
        if token.len() < MIN_TOKEN {
            let reason = format!("token too short: expected at least {MIN_TOKEN} characters");
            return Err(FileError::new(path, reason));
        }
        if !token.iter().all(u8::is_ascii_graphic) {
            let reason = "invalid token: expected one line of visible ASCII characters";
            return Err(FileError::new(path, reason));
        }
        Ok(Self(token.to_vec()))
    }

    /// Whether a request has the token (RFC 6750, section 2.1; RFC 7617, section 2).
    fn is_sent(&self, headers: &HeaderMap) -> bool {
        let mut sent = headers.get_all(header::AUTHORIZATION).into_iter();
        sent.any(|value| {
            let Some((scheme, credentials)) = value.to_str().ok().and_then(|v| v.split_once(' '))
            else {
                return false;
            };
            let credentials = credentials.trim();
            if scheme.eq_ignore_ascii_case("bearer") {
                return self.equals(credentials.as_bytes());
            }
            if !scheme.eq_ignore_ascii_case("basic") {
                return false;
            }
            let decoded = STANDARD.decode(credentials).unwrap_or_default();
            let colon = decoded.iter().position(|byte| *byte == b':');
            colon.is_some_and(|colon| self.equals(&decoded[colon + 1..]))
        })
    }

    /// Compares in a time that does not depend on where they differ.
    fn equals(&self, sent: &[u8]) -> bool {
        if self.0.len() != sent.len() {
            return false;
        }
        let pairs = self.0.iter().zip(sent);
        pairs.fold(0, |sum, (a, b)| black_box(sum | (a ^ b))) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(rows: &[(&'static str, &str)]) -> HeaderMap {
        let rows = rows.iter().map(|(name, value)| {
            let name = http::HeaderName::from_static(name);
            (name, value.parse().unwrap())
        });
        rows.collect()
    }

    #[test]
    fn page_without_a_setting_is_for_this_machine() {
        let security = HttpSecurity::default();
        let of = |client: &str, host: &str| {
            security.admit(client.parse().unwrap(), &headers(&[("host", host)]))
        };
        for local in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(of(local, "127.0.0.1:18001"), Ok(()), "{local}");
        }
        for remote in ["10.0.0.7", "2001:db8::1", "::ffff:10.0.0.7"] {
            let denied = of(remote, "127.0.0.1:18001");
            assert_eq!(denied, Err(HttpDenied::Remote), "{remote}");
        }
    }

    /// Given a page of another site, whose name points to this machine, then its requests from the browser of an
    /// operator are denied (DNS rebinding).
    #[test]
    fn page_on_this_machine_has_no_foreign_host() {
        let security = HttpSecurity::default();
        let of = |host: &str| security.admit("::1".parse().unwrap(), &headers(&[("host", host)]));
        for own in [
            "localhost",
            "LocalHost:80",
            "oxds.localhost:1",
            "[::1]:18001",
            "10.0.0.7",
        ] {
            assert_eq!(of(own), Ok(()), "{own}");
        }
        for foreign in [
            "evil.example",
            "evil.example:18001",
            "localhost.evil.example",
            "::1]",
            "",
        ] {
            assert_eq!(of(foreign), Err(HttpDenied::ForeignHost), "{foreign}");
        }
    }

    #[test]
    fn page_with_a_token_needs_it_from_every_client() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, " 0123456789abcdef\n").unwrap();
        let security = HttpSecurity::default().token(&file).unwrap();
        let of = |client: &str, authorization: &str| {
            let headers = headers(&[("host", "x.example"), ("authorization", authorization)]);
            security.admit(client.parse().unwrap(), &headers)
        };
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        for sent in [
            "Bearer 0123456789abcdef".to_owned(),
            "bearer  0123456789abcdef".to_owned(),
            basic("operator:0123456789abcdef"),
            basic(":0123456789abcdef"),
        ] {
            assert_eq!(of("10.0.0.7", &sent), Ok(()), "{sent}");
        }
        for sent in [
            "Bearer 0123456789abcdeF".to_owned(),
            "Bearer 0123456789abcde".to_owned(),
            "Bearer".to_owned(),
            "0123456789abcdef".to_owned(),
            "Digest 0123456789abcdef".to_owned(),
            basic("0123456789abcdef:"),
            basic("0123456789abcdef"),
            "Basic !".to_owned(),
        ] {
            assert_eq!(of("127.0.0.1", &sent), Err(HttpDenied::NoToken), "{sent}");
        }
    }

    #[test]
    fn page_token_that_can_be_guessed_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        for (content, expected) in [
            ("", "token too short"),
            ("0123456789abcde\n", "token too short"),
            ("0123456789 abcdef", "visible ASCII"),
            ("0123456789abcdéf", "visible ASCII"),
        ] {
            std::fs::write(&file, content).unwrap();
            let error = HttpSecurity::default()
                .token(&file)
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{content:?}: {error}");
        }
    }

    /// Given settings with a copy, when one more is set, then the earlier ones stay.
    #[cfg(feature = "tls")]
    #[test]
    fn page_settings_survive_a_clone() {
        use oxds_testkit::certificates::Authority;

        let folder = tempfile::tempdir().unwrap();
        let files = Authority::new("test").unwrap().issue(&["localhost"]);
        let files = files.unwrap().write(folder.path(), "http").unwrap();
        let security = HttpSecurity::default()
            .tls(&files.certificate, &files.key)
            .unwrap();
        let kept = security.clone();
        assert!(security.open().acceptor().is_some());
        assert!(kept.acceptor().is_some());
    }

    #[test]
    fn page_beside_grpc_is_for_this_machine_too() {
        let none = HeaderMap::new();
        let of = |security: &HttpSecurity, client: &str| {
            security.admit_beside_grpc(client.parse().unwrap(), &none)
        };
        let local = HttpSecurity::default();
        assert_eq!(of(&local, "127.0.0.1"), Ok(()));
        assert_eq!(of(&local, "10.0.0.7"), Err(HttpDenied::Remote));
        assert_eq!(of(&HttpSecurity::default().open(), "10.0.0.7"), Ok(()));
    }
}
