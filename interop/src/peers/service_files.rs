//! Certificates of services, as files that can be replaced, with the bootstrap that names them.

use std::net::SocketAddr;
use std::path::PathBuf;

use oxds_testkit::certificates::{Authority, Issued, replace};
use serde_json::{Value, json};

use super::oxds::{Bootstrap as Format, bootstrap_with};
use crate::{Context, Fallible};

/// Certificate, key and authorities of one service, in a folder as `oxds bootstrap grpc --certs` expects it.
#[derive(Clone, Debug)]
pub(crate) struct ServiceFiles {
    name: String,
    dir: PathBuf,
}

impl ServiceFiles {
    /// Creates the files below a scenario's folder.
    pub(crate) fn create(
        cx: &Context,
        name: &str,
        issued: &Issued,
        authority: &Authority,
    ) -> Fallible<Self> {
        let files = Self {
            name: name.to_owned(),
            dir: cx.dir.join("certs").join(name),
        };
        std::fs::create_dir_all(&files.dir)?;
        files.renew(issued, authority)?;
        Ok(files)
    }

    /// Replaces all files. Only certificates of this authority are valid then.
    pub(crate) fn renew(&self, issued: &Issued, authority: &Authority) -> Fallible {
        replace(&self.dir.join("cert.pem"), &issued.certificate)?;
        replace(&self.dir.join("key.pem"), &issued.key)?;
        Ok(replace(&self.dir.join("ca.pem"), &authority.pem())?)
    }

    /// Writes the bootstrap of a process with these certificates, which reads them again every second: the shortest
    /// interval of C-core.
    pub(crate) async fn bootstrap(&self, cx: &Context, server: SocketAddr) -> Fallible<PathBuf> {
        let certs = Some(self.dir.as_path());
        let path = bootstrap_with(cx, Format::Grpc, server, &self.name, certs).await?;
        let mut json: Value = serde_json::from_slice(&std::fs::read(&path)?)?;
        let providers = json["certificate_providers"].as_object_mut();
        for (_, provider) in providers.into_iter().flatten() {
            provider["config"]["refresh_interval"] = json!("1s");
        }
        std::fs::write(&path, json.to_string())?;
        Ok(path)
    }
}
