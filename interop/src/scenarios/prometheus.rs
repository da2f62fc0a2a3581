//! Metrics, alert rules and the queries of the dashboard in a real Prometheus.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::process::Command;

use super::{SOON, Scenario};
use crate::config::{Folder, cluster};
use crate::peers::oxds::Oxds;
use crate::process::Process;
use crate::wait::until;
use crate::{Context, Fallible, http};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new(
        "prometheus_reads_metrics_rules_and_dashboard".to_owned(),
        is_observed,
    )]
}

/// Given a server with a broken file, and a Prometheus with the rules of `docs/observability/`,
/// when it scrapes the server,
/// then it takes the metrics, evaluates all rules without an error, one of them sees the file, and each query of the
/// dashboard is valid. Queries whose metrics every server has return a series.
async fn is_observed(cx: Context) -> Fallible {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/observability");
    let folder = Folder::create(&cx.dir)?;
    folder.write("cluster.yaml", &[cluster("shop")])?;
    fs::write(folder.path().join("broken.yaml"), "{")?;
    let oxds = Oxds::serve(&cx, &folder).await?;

    let config = format!(
        "global: {{ scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 200ms }}
rule_files: [\"{0}/alerts.yaml\", \"{0}/alerts-etcd.yaml\"]
scrape_configs: [{{ job_name: oxds, static_configs: [{{ targets: [\"{1}\"] }}] }}]\n",
        docs.canonicalize()?.display(),
        oxds.http
    );
    let file = cx.dir.join("prometheus.yaml");
    fs::write(&file, config)?;
    let prometheus = Prometheus::start(&cx, &file).await?;

    // Some queries are about changes over time, which have no value before the second scrape.
    until("two scrapes", SOON, async || {
        let count = prometheus.query("count_over_time(oxds_resources[1m]) >= 2");
        Ok((!count.await?.is_empty()).then_some(()))
    })
    .await?;
    until("an alert for the broken file", SOON, async || {
        let alerts = prometheus.get("/api/v1/alerts").await?;
        let alerts = alerts["alerts"].as_array().ok_or("no alerts")?;
        let is_named = |alert: &Value| alert["labels"]["alertname"] == "OxdsStoreErrors";
        Ok(alerts.iter().any(is_named).then_some(()))
    })
    .await?;
    until("rules without errors", SOON, async || {
        let groups = prometheus.get("/api/v1/rules").await?;
        let groups = groups["groups"].as_array().ok_or("no groups")?.clone();
        let rules = groups
            .iter()
            .flat_map(|group| group["rules"].as_array().into_iter().flatten());
        let health: Vec<_> = rules.map(|rule| rule["health"].clone()).collect();
        Ok((health.len() >= 12 && health.iter().all(|one| one == "ok")).then_some(()))
    })
    .await?;

    let dashboard: Value = serde_json::from_slice(&fs::read(docs.join("dashboard.json"))?)?;
    let mut found = 0;
    let panels = dashboard["panels"].as_array().ok_or("no panels")?;
    for target in panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().into_iter().flatten())
    {
        let query = target["expr"].as_str().ok_or("no query")?;
        let query = query
            .replace("$instance", ".*")
            .replace("$__rate_interval", "1m");
        found += usize::from(!prometheus.query(&query).await?.is_empty());
    }
    // What needs etcd, a state on disk, NACKs or convergence has no series here.
    if found >= 12 {
        Ok(())
    } else {
        Err(format!("only {found} queries of the dashboard have a series").into())
    }
}

/// A running Prometheus.
struct Prometheus {
    _process: Process,
    address: SocketAddr,
}

impl Prometheus {
    async fn start(cx: &Context, config: &Path) -> Fallible<Self> {
        let address = cx.address()?;
        let mut command = Command::new(&cx.programs.prometheus);
        command
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                cx.dir.join("tsdb").display()
            ))
            .arg(format!("--web.listen-address={address}"));
        let process = Process::spawn("prometheus", command, &cx.dir, |_| {})?;
        until("a ready Prometheus", SOON, async || {
            http::get(address, "/-/ready").await.map(|_| Some(()))
        })
        .await?;
        Ok(Self {
            _process: process,
            address,
        })
    }

    /// Returns the data of a page of its API.
    async fn get(&self, path: &str) -> Fallible<Value> {
        let page = http::get(self.address, path).await?;
        let mut page: Value = serde_json::from_slice(&page)?;
        if page["status"] == "success" {
            Ok(page["data"].take())
        } else {
            Err(format!("{path}: {page}").into())
        }
    }

    /// Returns the series that a query finds.
    async fn query(&self, query: &str) -> Fallible<Vec<Value>> {
        let query = utf8_percent_encode(query, NON_ALPHANUMERIC);
        let mut data = self.get(&format!("/api/v1/query?query={query}")).await?;
        Ok(serde_json::from_value(data["result"].take())?)
    }
}
