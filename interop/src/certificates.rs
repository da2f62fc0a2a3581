//! A scenario's certificates, as files that can be replaced: those of a control plane and its client, with the client's
//! token.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use oxds_client::Bootstrap;
use oxds_client::bootstrap::CredentialTypes;
use oxds_testkit::certificates::{Authority, Issued, replace};
use oxds_testkit::jwt;
use serde_json::{Value, json};

use crate::Fallible;

/// Identity of the client in its certificate.
pub(crate) const IDENTITY: &str = "spiffe://interop/client";
/// Node id that `oxds serve`'s rules bind to the client, and that the bootstraps made here use.
pub(crate) const NODE: &str = "interop-1";

/// The sides that show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tls {
    /// Only the server.
    Server,
    /// Server and client.
    Mutual,
}

impl Tls {
    pub(crate) const BOTH: [Self; 2] = [Self::Server, Self::Mutual];

    /// Part of a scenario's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Server => "tls",
            Self::Mutual => "mtls",
        }
    }
}

/// The files, in a folder: `ca.pem`, `server.pem`, `server.key`, `client.pem`, `client.key`, `token`.
#[derive(Clone, Debug)]
pub(crate) struct Certificates(PathBuf);

impl Certificates {
    /// Creates the files below a scenario's folder.
    pub(crate) fn create(dir: &Path) -> Fallible<Self> {
        let certificates = Self(dir.join("certificates"));
        std::fs::create_dir(&certificates.0)?;
        certificates.renew()?;
        replace(&certificates.path("token"), &jwt(NODE, 3600))?;
        Ok(certificates)
    }

    /// Replaces all files by those of another authority: no earlier certificate is valid beside them.
    pub(crate) fn renew(&self) -> Fallible {
        let authority = Authority::new("interop")?;
        authority.issue(&["127.0.0.1"])?.write(&self.0, "server")?;
        authority.issue(&[IDENTITY])?.write(&self.0, "client")?;
        Ok(replace(&self.path("ca.pem"), &authority.pem())?)
    }

    /// Path of one of the files.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Paths of several files.
    pub(crate) fn paths<const N: usize>(&self, names: [&str; N]) -> [OsString; N] {
        names.map(|name| self.path(name).into())
    }

    /// The options of `oxds serve`. With client certificates there are rules: a client with another certificate, or
    /// none, gets nothing.
    pub(crate) fn of_oxds(&self, tls: Tls) -> Fallible<Vec<OsString>> {
        let mut options = self.options([("--tls-cert", "server.pem"), ("--tls-key", "server.key")]);
        if tls == Tls::Mutual {
            let rules = format!("rules: [{{ identity: {IDENTITY}, nodes: [{NODE}] }}]\n");
            replace(&self.path("rules.yaml"), &rules)?;
            let more = [("--tls-client-ca", "ca.pem"), ("--authorize", "rules.yaml")];
            options.extend(self.options(more));
        }
        Ok(options)
    }

    /// The options of the go-control-plane program, which requires certificate and token.
    pub(crate) fn of_go(&self) -> Vec<OsString> {
        self.options([
            ("-cert", "server.pem"),
            ("-key", "server.key"),
            ("-ca", "ca.pem"),
            ("-token", "token"),
        ])
    }

    /// The options of the `oxds` commands that connect as clients.
    pub(crate) fn of_asking(&self, tls: Tls) -> Vec<OsString> {
        let mut options = self.options([("--ca", "ca.pem")]);
        if tls == Tls::Mutual {
            options.extend(self.options([("--cert", "client.pem"), ("--key", "client.key")]));
        }
        options
    }

    fn options<const N: usize>(&self, options: [(&str, &str); N]) -> Vec<OsString> {
        let options = options.into_iter();
        options
            .flat_map(|(option, file)| [option.into(), self.path(file).into()])
            .collect()
    }

    /// The gRPC bootstrap (gRFC A65) of a client that reads its files again for nearly every connection.
    pub(crate) fn bootstrap(&self, server: SocketAddr, tls: Tls) -> Value {
        let mut config = json!({
            "ca_certificate_file": self.path("ca.pem"),
            "refresh_interval": "0.1s",
        });
        if tls == Tls::Mutual {
            config["certificate_file"] = json!(self.path("client.pem"));
            config["private_key_file"] = json!(self.path("client.key"));
        }
        json!({
            "xds_servers": [{
                "server_uri": server.to_string(),
                "channel_creds": [{ "type": "tls", "config": config }],
                "server_features": ["xds_v3"],
            }],
            "node": { "id": NODE, "cluster": "interop", "locality": {} },
        })
    }

    /// The same for our own client, which sends the token in every call (gRFC A97).
    pub(crate) fn bootstrap_with_token(&self, server: SocketAddr) -> Fallible<Bootstrap> {
        let mut json = self.bootstrap(server, Tls::Mutual);
        let config = json!({ "jwt_token_file": self.path("token") });
        let shown = json!([{ "type": "jwt_token_file", "config": config }]);
        json["xds_servers"][0]["call_creds"] = shown;
        let types = CredentialTypes::default().with_jwt_token_file();
        Ok(Bootstrap::from_json_with(&json.to_string(), &types)?)
    }

    /// The same for Envoy, as a part of a static cluster.
    pub(crate) fn of_envoy(&self, tls: Tls) -> String {
        let file = |name: &str| format!("{{ filename: {:?} }}", self.path(name));
        let own = match tls {
            Tls::Server => "[]".to_owned(),
            Tls::Mutual => {
                let (chain, key) = (file("client.pem"), file("client.key"));
                format!("[{{ certificate_chain: {chain}, private_key: {key} }}]")
            }
        };
        let trusted = file("ca.pem");
        format!(
            r#"    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        common_tls_context:
          tls_certificates: {own}
          validation_context:
            trusted_ca: {trusted}
            match_typed_subject_alt_names: [{{ san_type: IP_ADDRESS, matcher: {{ exact: 127.0.0.1 }} }}]
"#
        )
    }
}

/// A certificate as a secret of SDS.
pub(crate) fn secret(name: &str, issued: &Issued) -> String {
    let inline = |pem: &str| pem.replace('\n', "\n      ");
    format!(
        r#""@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret
name: {name}
tls_certificate:
  certificate_chain:
    inline_string: |
      {}
  private_key:
    inline_string: |
      {}
"#,
        inline(&issued.certificate),
        inline(&issued.key)
    )
}
