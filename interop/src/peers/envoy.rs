//! Envoy as a client of the control plane.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::process::Process;
use crate::wait::until;
use crate::{Context, Fallible, http};

/// From start to serving.
const START: Duration = Duration::from_secs(30);

/// Addition to the bootstrap file under test: an admin port that the system chooses.
const ADMIN: &str = "admin: { address: { socket_address: { address: 127.0.0.1, port_value: 0 } } }";

/// A running Envoy.
#[derive(Debug)]
pub(crate) struct Envoy {
    process: Process,
    admin: SocketAddr,
}

impl Envoy {
    /// Starts Envoy with a bootstrap file and waits until its admin page answers.
    pub(crate) async fn start(cx: &Context, bootstrap: &Path) -> Fallible<Self> {
        Self::start_with(cx, bootstrap, &[]).await
    }

    /// The same, with more options.
    pub(crate) async fn start_with(
        cx: &Context,
        bootstrap: &Path,
        options: &[&str],
    ) -> Fallible<Self> {
        let address_file = cx.dir.join("envoy.admin");
        let mut command = Command::new(&cx.programs.envoy);
        command
            .arg("-c")
            .arg(bootstrap)
            .args(["--config-yaml", ADMIN]);
        command.arg("--admin-address-path").arg(&address_file);
        command.args([
            "--concurrency",
            "1",
            "--disable-hot-restart",
            "--log-level",
            "info",
        ]);
        command.args(options);
        let mut process = Process::spawn("envoy", command, &cx.dir, |_| ())?;
        let admin = until("Envoy's admin address", START, async || {
            process.running()?;
            let address = std::fs::read_to_string(&address_file)?
                .trim()
                .parse::<SocketAddr>()?;
            Ok(Some(address))
        })
        .await?;
        Ok(Self { process, admin })
    }

    /// Address on which an LDS listener accepts connections. Envoy binds and lists it before its workers start.
    pub(crate) async fn listener(&mut self, name: &str) -> Fallible<SocketAddr> {
        let what = format!("Envoy's listener {name}");
        until(&what, START, async || {
            self.process.running()?;
            let page = json(self.admin, "/listeners?format=json").await?;
            let status = page["listener_statuses"].as_array().into_iter().flatten();
            let found = status.into_iter().find(|listener| listener["name"] == name);
            let Some(listener) = found else {
                return Ok(None);
            };
            let address = socket_address(&listener["local_address"])?;
            TcpStream::connect(address).await?;
            Ok(Some(address))
        })
        .await
    }

    /// One counter or gauge.
    pub(crate) async fn stat(&self, name: &str) -> Fallible<u64> {
        let page = http::get(self.admin, "/stats").await?;
        let page = String::from_utf8_lossy(&page);
        let value = page
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        Ok(value.ok_or_else(|| format!("no stat {name}"))?.parse()?)
    }

    /// Value of a runtime key; `None` if it is not set.
    pub(crate) async fn runtime(&self, key: &str) -> Fallible<Option<String>> {
        let page = json(self.admin, "/runtime").await?;
        let value = page["entries"][key]["final_value"].as_str();
        Ok(value.map(str::to_owned))
    }

    /// `/config_dump`, endpoints included.
    pub(crate) async fn config_dump(&self) -> Fallible<Value> {
        json(self.admin, "/config_dump?include_eds").await
    }

    /// `/clusters`: each cluster with its endpoints.
    pub(crate) async fn cluster_statuses(&self) -> Fallible<Value> {
        json(self.admin, "/clusters?format=json").await
    }

    /// Clusters from CDS, with their versions.
    pub(crate) async fn cluster_versions(&self) -> Fallible<Vec<(String, String)>> {
        let dump = self.config_dump().await?;
        let clusters = dump["configs"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|config| config["dynamic_active_clusters"].as_array())
            .flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(clusters
            .map(|c| (text(&c["cluster"]["name"]), text(&c["version_info"])))
            .collect())
    }

    /// Names of the clusters from CDS.
    pub(crate) async fn clusters(&self) -> Fallible<Vec<String>> {
        let clusters = self.cluster_versions().await?;
        Ok(clusters.into_iter().map(|(name, _)| name).collect())
    }
}

async fn json(admin: SocketAddr, path: &str) -> Fallible<Value> {
    Ok(serde_json::from_slice(&http::get(admin, path).await?)?)
}

fn socket_address(address: &Value) -> Fallible<SocketAddr> {
    let socket = &address["socket_address"];
    let ip = socket["address"].as_str().ok_or("no address")?;
    let port = socket["port_value"].as_u64().ok_or("no port")?;
    Ok(SocketAddr::new(ip.parse()?, u16::try_from(port)?))
}
