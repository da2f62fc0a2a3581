//! Envoy and oxds agree on the resources that deprecated, unfinished and unknown fields keep from being used (V-45,
//! V-58, V-59).
//!
//! oxds serves all of them, with overrides; Envoy has no overrides. Envoy must NACK exactly the resources that `oxds
//! validate` rejects.

mod cases;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use oxds_testkit::resources::yaml::cluster;
use serde_json::Value;
use tokio::process::Command;

use self::cases::{CASES, Case, YamlTarget};
use super::{SOON, Scenario};
use crate::config::Folder;
use crate::peers::envoy::Envoy;
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap};
use crate::wait::until;
use crate::wire::Protocol;
use crate::{Context, Fallible};

/// Name of the cluster whose only mistake is a field that no API has.
const UNKNOWN: &str = "unknown";

pub(super) fn scenarios() -> Vec<Scenario> {
    let name = "envoy_delta_v45_agrees_on_refused_fields".to_owned();
    vec![Scenario::new(name, agrees_on_refused_fields)]
}

/// Given a resource for each deprecated or unfinished field, and one with an unknown field, then Envoy with
/// `--reject-unknown-dynamic-fields` NACKs those that oxds refuses, and has all others, but for the explained
/// differences.
async fn agrees_on_refused_fields(cx: Context) -> Fallible {
    let folder = Folder::create(&cx.dir)?;
    let named: Vec<(String, &Case)> = CASES
        .iter()
        .enumerate()
        .map(|(index, case)| (format!("case-{index:02}"), case))
        .collect();
    for (index, (name, case)) in named.iter().enumerate() {
        folder.write(
            &format!("{name}.yaml"),
            &[resource(name, index, &case.resource)],
        )?;
    }
    std::fs::write(folder.path().join(format!("{UNKNOWN}.pb")), unknown_field())?;
    let refused = refused_by_oxds(&cx, &folder).await?;

    let overrides = [
        "--runtime",
        "envoy.features.enable_all_deprecated_features=true",
        "--allow-unknown-static-fields",
    ];
    let overrides: Vec<OsString> = overrides.iter().map(OsString::from).collect();
    let oxds = Oxds::serve_with(&cx, &folder, cx.address()?, &overrides).await?;
    let file = bootstrap(&cx, Bootstrap::Envoy(Protocol::Delta), oxds.grpc).await?;
    let envoy = Envoy::start_with(&cx, &file, &["--reject-unknown-dynamic-fields"]).await?;

    let mut names: BTreeSet<String> = named.iter().map(|(name, _)| name.clone()).collect();
    names.insert(UNKNOWN.to_owned());
    let what = "each resource is in Envoy, or NACKed";
    let (nacked, reasons) = until(what, SOON * 3, async || {
        let accepted = in_envoy(&envoy).await?;
        let reasons = oxds.nacks().await?;
        let nacked: BTreeSet<String> = reasons.keys().cloned().collect();
        let decided: BTreeSet<_> = accepted.union(&nacked).cloned().collect();
        let missing: Vec<_> = names.difference(&decided).collect();
        if missing.is_empty() {
            Ok(Some((nacked, reasons)))
        } else {
            Err(format!("neither: {missing:?}; NACKed: {nacked:?}").into())
        }
    })
    .await?;

    let mut wrong = Vec::new();
    for (name, case) in &named {
        let (ours, theirs) = (refused.contains_key(name), nacked.contains(name));
        let expected = case.difference.is_some();
        if (ours != theirs) != expected {
            wrong.push(format!(
                "{name} {}: oxds {:?}, Envoy {:?}",
                case.field,
                refused.get(name),
                reasons.get(name)
            ));
        }
    }
    if refused.contains_key(UNKNOWN) != nacked.contains(UNKNOWN) {
        wrong.push(format!(
            "{UNKNOWN}: {:?} {:?}",
            refused.get(UNKNOWN),
            reasons.get(UNKNOWN)
        ));
    }
    let both = named
        .iter()
        .filter(|(name, _)| refused.contains_key(name) && nacked.contains(name));
    match (wrong.is_empty(), both.count()) {
        // Or the agreement would be an empty one.
        (true, 4..) => Ok(()),
        (true, both) => Err(format!("only {both} fields are refused by both").into()),
        (false, _) => Err(wrong.join("\n     ").into()),
    }
}

/// Returns the resources that `oxds validate` refuses, with the reasons.
async fn refused_by_oxds(cx: &Context, folder: &Folder) -> Fallible<BTreeMap<String, String>> {
    let mut command = Command::new(&cx.programs.oxds);
    command.arg("validate").arg(folder.path());
    command.args(["--format", "json"]);
    // Exit code 1: it has errors.
    let report = command.kill_on_drop(true).output().await?.stdout;
    let report: Value = serde_json::from_slice(&report)?;
    let findings = report["findings"].as_array().ok_or("no findings")?;
    let mut refused = BTreeMap::new();
    for finding in findings.iter().filter(|one| one["severity"] == "error") {
        // Or a mistake in a case would pass for an agreement.
        if !["deprecated", "unknown-field"].contains(&finding["rule"].as_str().unwrap_or_default())
        {
            return Err(format!("a case is invalid: {finding}").into());
        }
        let file = finding["file"]
            .as_str()
            .and_then(|file| file.rsplit('/').next());
        let name = file
            .and_then(|file| file.split('.').next())
            .ok_or("no file")?;
        refused.insert(name.to_owned(), finding["message"].to_string());
    }
    Ok(refused)
}

/// Returns the names of the clusters and listeners that Envoy has from xDS.
async fn in_envoy(envoy: &Envoy) -> Fallible<BTreeSet<String>> {
    let dump = envoy.config_dump().await?;
    let configs = dump["configs"].as_array().into_iter().flatten();
    let mut names = BTreeSet::new();
    for config in configs {
        let lists = ["dynamic_active_clusters", "dynamic_warming_clusters"];
        let clusters = lists
            .iter()
            .filter_map(|list| config[list].as_array())
            .flatten();
        names.extend(clusters.filter_map(|one| one["cluster"]["name"].as_str().map(str::to_owned)));
        let listeners = config["dynamic_listeners"].as_array().into_iter().flatten();
        let is_held =
            |one: &&Value| !one["active_state"].is_null() || !one["warming_state"].is_null();
        names.extend(
            listeners
                .filter(is_held)
                .filter_map(|one| one["name"].as_str().map(str::to_owned)),
        );
    }
    Ok(names)
}

/// A file with a cluster that has the field 1234.
fn unknown_field() -> Vec<u8> {
    let url = b"type.googleapis.com/envoy.config.cluster.v3.Cluster";
    let mut cluster = vec![0x0a, UNKNOWN.len() as u8];
    cluster.extend_from_slice(UNKNOWN.as_bytes());
    cluster.extend_from_slice(&[0x90, 0x4d, 0x01]);
    let mut any = vec![0x0a, url.len() as u8];
    any.extend_from_slice(url);
    any.extend_from_slice(&[0x12, cluster.len() as u8]);
    any.extend_from_slice(&cluster);
    any
}

fn resource(name: &str, index: usize, sort: &YamlTarget) -> String {
    const OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    const POLICIES: &str = "envoy.extensions.load_balancing_policies";
    match sort {
        YamlTarget::Cluster(fields) => cluster(name, fields),
        YamlTarget::Upstream(fields) => cluster(
            name,
            &format!(
                "typed_extension_protocol_options: {{ {OPTIONS}: {{ \"@type\": type.googleapis.com/{OPTIONS}, explicit_http_config: {{ {fields} }} }} }}"
            ),
        ),
        YamlTarget::Policy(message, fields) => cluster(
            name,
            &format!(
                "load_balancing_policy: {{ policies: [{{ typed_extension_config: {{ name: x, typed_config: {{ \"@type\": type.googleapis.com/{POLICIES}.{message}, {fields} }} }} }}] }}"
            ),
        ),
        YamlTarget::Listener(fields) => {
            listener(name, index, fields, &manager("", "", &virtual_host("", "")))
        }
        YamlTarget::Manager(fields) => {
            listener(name, index, "", &manager(fields, "", &virtual_host("", "")))
        }
        YamlTarget::AccessLog(fields) => {
            let log = "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog";
            let log = format!(
                "access_log: [{{ name: file, typed_config: {{ \"@type\": {log}, path: /dev/null, {fields} }} }}]"
            );
            listener(name, index, "", &manager(&log, "", &virtual_host("", "")))
        }
        YamlTarget::Filter(message, fields) => listener(
            name,
            index,
            "",
            &manager("", &filter(message, fields), &virtual_host("", "")),
        ),
        YamlTarget::Host(fields) => {
            listener(name, index, "", &manager("", "", &virtual_host(fields, "")))
        }
        YamlTarget::Route(fields) => listener(
            name,
            index,
            "",
            &manager("", "", &virtual_host("", &route("", "", fields))),
        ),
        YamlTarget::Match(fields) => listener(
            name,
            index,
            "",
            &manager("", "", &virtual_host("", &route(fields, "", ""))),
        ),
        YamlTarget::Action(fields) => listener(
            name,
            index,
            "",
            &manager("", "", &virtual_host("", &route("", fields, ""))),
        ),
        YamlTarget::Tcp(fields) => {
            let proxy =
                "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy";
            let proxy = format!("{{ \"@type\": {proxy}, stat_prefix: x, cluster: xds, {fields} }}");
            listener(name, index, "", &proxy)
        }
    }
}

/// A listener that binds no port: all of them exist at the same time.
fn listener(name: &str, index: usize, fields: &str, filter: &str) -> String {
    format!(
        r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: {name}
address: {{ socket_address: {{ address: 127.0.0.1, port_value: {} }} }}
{}
{fields}
filter_chains:
- filters:
  - name: x
    typed_config: {filter}
"#,
        10_000 + index,
        // One case sets it by its old name.
        if fields.contains("bind_to_port") {
            ""
        } else {
            "bind_to_port: false"
        },
    )
}

fn manager(fields: &str, filter: &str, virtual_host: &str) -> String {
    let manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager";
    let comma = if fields.is_empty() { "" } else { ", " };
    // The router comes last, whether or not the case is about it.
    let router = if filter.contains(".Router") {
        String::new()
    } else {
        self::filter("router.v3.Router", "")
    };
    let filters: Vec<_> = [filter, &router]
        .into_iter()
        .filter(|one| !one.is_empty())
        .map(str::to_owned)
        .collect();
    format!(
        "{{ \"@type\": {manager}, stat_prefix: x{comma}{fields}, http_filters: [{}], route_config: {{ name: r, virtual_hosts: [{virtual_host}] }} }}",
        filters.join(", ")
    )
}

fn filter(message: &str, fields: &str) -> String {
    let comma = if fields.is_empty() { "" } else { ", " };
    format!(
        "{{ name: {message}, typed_config: {{ \"@type\": type.googleapis.com/envoy.extensions.filters.http.{message}{comma}{fields} }} }}"
    )
}

fn virtual_host(fields: &str, route: &str) -> String {
    let comma = if fields.is_empty() { "" } else { ", " };
    format!("{{ name: v, domains: [\"*\"]{comma}{fields}, routes: [{route}] }}")
}

fn route(matching: &str, action: &str, fields: &str) -> String {
    let before = |fields: &str| if fields.is_empty() { "" } else { ", " };
    format!(
        "{{ match: {{ prefix: /{}{matching} }}, route: {{ cluster: xds{}{action} }}{}{fields} }}",
        before(matching),
        before(action),
        before(fields)
    )
}
