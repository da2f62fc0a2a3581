//! `oxds route` and real clients: the same cluster for each request.
//!
//! ```text
//!   300 route tables, drawn from a seed ─► folder ─► oxds serve ─► Envoy, grpc-go ─► the backend that answers each request
//!                                            │                                                  │
//!                                            └──────── oxds route test ◄── expected clusters ◄──┘
//! ```

mod tables;

use std::collections::BTreeMap;
use std::time::Duration;

use http::Request;
use serde_json::{Value, json};
use tokio::process::Command;

use self::tables::{CLUSTERS, Client, DrawnRequest, Random, drawn_request, host};
use super::Scenario;
use crate::backend::{Backend, METHOD};
use crate::config::{Folder, LISTENER, ROUTES, api_listener, assignment, cluster, socket_listener};
use crate::peers::envoy::Envoy;
use crate::peers::grpc::Grpc;
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap};
use crate::process::{Process, output};
use crate::wire::Protocol;
use crate::{Context, Fallible, http as client};

/// Number of route tables of each client.
const TABLES: usize = 300;
/// Requests to each table.
const REQUESTS: usize = 3;
/// Least number of requests that reach a cluster, and that do not: or the agreement would be an empty one.
const LEAST: usize = 100;
/// From the start of grpc-go to its last call, on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
const SEED: u64 = 17;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("envoy_routes_as_explained".to_owned(), envoy_routes),
        Scenario::new("envoy_shares_are_as_explained".to_owned(), envoy_shares),
        Scenario::new("grpc_go_routes_as_explained".to_owned(), grpc_go_routes),
    ]
}

/// Backends of the clusters, and their resources.
struct Clusters {
    _backends: Vec<Backend>,
    resources: Vec<String>,
}

impl Clusters {
    async fn start() -> Fallible<Self> {
        let (mut backends, mut resources) = (Vec::new(), Vec::new());
        for name in CLUSTERS {
            let backend = Backend::start(name).await?;
            resources.push(cluster(name));
            resources.push(assignment(name, &[&[backend.address]]));
            backends.push(backend);
        }
        Ok(Self {
            _backends: backends,
            resources,
        })
    }
}

fn route_config(name: &str, hosts: &[String]) -> String {
    let kind = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
    let hosts: String = hosts.concat();
    format!("\"@type\": {kind}\nname: {name}\nvirtual_hosts:\n{hosts}")
}

/// Starts an Envoy with this route configuration. Returns it with the address of its listener.
async fn envoy(
    cx: &Context,
    folder: &Folder,
    hosts: &[String],
    clusters: &Clusters,
) -> Fallible<(Oxds, Envoy, std::net::SocketAddr)> {
    let mut resources = clusters.resources.clone();
    resources.extend([socket_listener(), route_config(ROUTES, hosts)]);
    folder.write("mesh.yaml", &resources)?;
    let oxds = Oxds::serve(cx, folder).await?;
    let file = bootstrap(cx, Bootstrap::Envoy(Protocol::Delta), oxds.grpc).await?;
    let mut envoy = Envoy::start(cx, &file).await?;
    let address = envoy.listener(LISTENER).await?;
    Ok((oxds, envoy, address))
}

/// A test of `oxds route test`: a request, with the result of the client.
fn case(place: (&str, String), rules: &str, drawn: &DrawnRequest, found: (&str, Value)) -> Value {
    let mut case = json!({
        "request": drawn.path,
        "authority": drawn.authority,
        "headers": drawn.headers,
        "as": rules,
    });
    for (field, value) in [(place.0, place.1.into()), found] {
        case[field] = value;
    }
    case
}

/// Asserts that `oxds route` gives the result of the client for each request.
async fn assert_explained(cx: &Context, folder: &Folder, cases: Vec<Value>) -> Fallible {
    let reach = cases.iter().filter(|case| case.get("cluster").is_some());
    let (count, reach) = (cases.len(), reach.count());
    println!("     of {count} requests, {reach} reach a cluster");
    if reach < LEAST || count - reach < LEAST {
        return Err(format!("expected {LEAST} of each at least").into());
    }
    let file = cx.dir.join("tests.yaml");
    std::fs::write(&file, json!({ "tests": cases }).to_string())?;
    let mut command = Command::new(&cx.programs.oxds);
    command.args(["route", "test"]).arg(&file);
    command.arg("--dir").arg(folder.path());
    let report = command.output().await?;
    let text = String::from_utf8_lossy(&report.stdout);
    std::fs::write(cx.dir.join("explained.log"), text.as_bytes())?;
    if report.status.success() {
        Ok(())
    } else {
        let failures = text.lines().filter(|line| line.starts_with("FAIL"));
        let failures: Vec<_> = failures.take(20).collect();
        let stderr = String::from_utf8_lossy(&report.stderr);
        Err(format!("{}\n{stderr}", failures.join("\n     ")).into())
    }
}

/// Given 300 route tables in one Envoy, with conditions that only Envoy knows among them,
/// when requests are sent,
/// then `oxds route` names the cluster that answers each, or the status.
async fn envoy_routes(cx: Context) -> Fallible {
    let mut random = Random(SEED);
    let clusters = Clusters::start().await?;
    let folder = Folder::create(&cx.dir)?;
    let (mut hosts, mut requests) = (Vec::new(), Vec::new());
    for table in 0..TABLES {
        let domains = [
            format!("t{table}.example"),
            format!("t{table}.*"),
            format!("*.T{table}.test"),
        ];
        for (number, domain) in domains.iter().enumerate() {
            let name = format!("t{table}-{number}");
            hosts.push(host(
                &mut random,
                Client::Envoy,
                &name,
                std::slice::from_ref(domain),
            ));
        }
        let authorities = [
            format!("t{table}.example"),
            format!("T{table}.Example:80"),
            format!("a.t{table}.test"),
            format!("t{table}."),
        ];
        for _ in 0..REQUESTS {
            let authority = authorities[random.below(authorities.len())].clone();
            requests.push(drawn_request(&mut random, Client::Envoy, authority));
        }
    }
    let (_oxds, _envoy, address) = envoy(&cx, &folder, &hosts, &clusters).await?;
    let sent = requests.iter().map(|drawn| {
        let request = Request::get(&drawn.path).header("host", &drawn.authority);
        let mut headers = drawn.headers.iter();
        headers
            .try_fold(request, |request, (name, value)| {
                Some(request.header(*name, *value))
            })
            .unwrap_or_default()
    });
    let responses = client::get_each(address, sent).await?;
    let cases = requests.iter().zip(&responses).map(|(drawn, response)| {
        let found = match response.status().as_u16() {
            200 => ("cluster", String::from_utf8_lossy(response.body()).into()),
            status @ (302 | 418) => ("status", status.into()),
            _ => ("fails", true.into()),
        };
        case(("listener", LISTENER.to_owned()), "envoy", drawn, found)
    });
    assert_explained(&cx, &folder, cases.collect()).await
}

/// Given routes with fractions and weights, whose random number is one in Envoy,
/// when many requests are sent,
/// then their shares are those that `oxds route` calculates.
async fn envoy_shares(cx: Context) -> Fallible {
    const COUNT: usize = 2_000;
    /// Five standard deviations of a share among so many requests.
    const TOLERANCE: f64 = 0.056;
    let fraction = |numerator: u32, denominator: &str| {
        format!(
            "match: {{ prefix: '', runtime_fraction: {{ default_value: {{ numerator: {numerator}, denominator: {denominator} }} }} }}"
        )
    };
    let host = format!(
        "- name: all\n  domains: ['*']\n  routes:\n  - {{ {}, route: {{ cluster: c0 }} }}\n  - {{ {}, route: {{ cluster: c1 }} }}\n  - {{ {}, route: {{ weighted_clusters: {{ clusters: [{{ name: c2, weight: 50 }}, {{ name: c3, weight: 30 }}, {{ name: c4, weight: 20 }}] }} }} }}\n",
        fraction(40, "HUNDRED"),
        fraction(3_000, "TEN_THOUSAND"),
        fraction(90, "HUNDRED"),
    );
    let clusters = Clusters::start().await?;
    let folder = Folder::create(&cx.dir)?;
    let (_oxds, _envoy, address) = envoy(&cx, &folder, &[host], &clusters).await?;
    let sent = (0..COUNT).map(|_| Request::get("/").header("host", "shop"));
    let mut found: BTreeMap<String, f64> = BTreeMap::new();
    for response in client::get_each(address, sent).await? {
        let body = match response.status().as_u16() {
            200 => String::from_utf8_lossy(response.body()).into_owned(),
            _ => "fails".to_owned(),
        };
        *found.entry(body).or_default() += 1.0 / COUNT as f64;
    }
    let mut command = Command::new(&cx.programs.oxds);
    command.args([
        "route",
        "--listener",
        LISTENER,
        "--authority",
        "shop",
        "/",
        "-o",
        "json",
    ]);
    command.arg("--dir").arg(folder.path());
    let explanation: Value = serde_json::from_slice(&output(command).await?)?;
    let mut explained: BTreeMap<String, f64> = BTreeMap::new();
    let destinations = explanation["answers"][0]["destinations"].as_array();
    for one in destinations.into_iter().flatten() {
        let to = one["cluster"].as_str().unwrap_or("fails").to_owned();
        *explained.entry(to).or_default() += one["share"].as_f64().unwrap_or_default();
    }
    println!("     explained {explained:?}, found {found:?}");
    let names = explained.keys().chain(found.keys());
    for name in names {
        let share = |of: &BTreeMap<String, f64>| of.get(name).copied().unwrap_or_default();
        if (share(&explained) - share(&found)).abs() > TOLERANCE {
            return Err(format!("{name}: explained {explained:?}, found {found:?}").into());
        }
    }
    match explained.len() {
        0..=3 => Err(format!("too few destinations: {explained:?}").into()),
        _ => Ok(()),
    }
}

/// Given 300 targets with a route table each,
/// when grpc-go makes RPCs,
/// then `oxds route` names the cluster that answers each, or that it fails.
async fn grpc_go_routes(cx: Context) -> Fallible {
    let mut random = Random(SEED);
    let clusters = Clusters::start().await?;
    let folder = Folder::create(&cx.dir)?;
    folder.write("clusters.yaml", &clusters.resources)?;
    let mut requests = Vec::new();
    for table in 0..TABLES {
        let name = format!("t{table}");
        let domains = [
            name.clone(),
            "t*".to_owned(),
            format!("*{}", table % 10),
            "*".to_owned(),
        ];
        let hosts = domains.iter().enumerate().filter_map(|(number, domain)| {
            // Each table lacks some domains, so that the others decide, too.
            let is_there = random.below(3) > 0;
            let host_name = format!("{name}-{number}");
            is_there.then(|| {
                host(
                    &mut random,
                    Client::Grpc,
                    &host_name,
                    std::slice::from_ref(domain),
                )
            })
        });
        let hosts: Vec<_> = hosts.collect();
        if hosts.is_empty() {
            continue;
        }
        let listener =
            api_listener().replace(&format!("name: {LISTENER}"), &format!("name: {name}"));
        let listener = listener.replace(ROUTES, &format!("{name}-routes"));
        folder.write(
            &format!("{name}.yaml"),
            &[listener, route_config(&format!("{name}-routes"), &hosts)],
        )?;
        for _ in 0..REQUESTS {
            requests.push(drawn_request(&mut random, Client::Grpc, name.clone()));
        }
    }
    let oxds = Oxds::serve(&cx, &folder).await?;
    let file = bootstrap(&cx, Bootstrap::Grpc, oxds.grpc).await?;
    let lines = requests.iter().enumerate().map(|(number, drawn)| {
        let target = format!("xds:///{}", drawn.authority);
        json!({ "Number": number, "Target": target, "Method": drawn.path, "Headers": drawn.headers })
            .to_string()
    });
    let list = cx.dir.join("requests.jsonl");
    std::fs::write(&list, lines.collect::<Vec<_>>().join("\n"))?;
    let mut command = Command::new(&cx.programs.go.client);
    command.args(["-", METHOD, "16", "requests"]).arg(&list);
    command.env("GRPC_XDS_BOOTSTRAP", &file);
    let mut calls = Process::spawn(Grpc::Go.name(), command, &cx.dir, |_| ())?;
    calls.line("done", LIMIT).await?;
    let mut cases = Vec::new();
    for line in calls.all("request ") {
        let mut words = line.split_whitespace();
        let number: usize = words.next().ok_or("no number")?.parse()?;
        let found = match (words.next(), words.next()) {
            (Some("ok"), Some(backend)) => ("cluster", backend.into()),
            (Some("failed"), Some("Unavailable")) => ("fails", true.into()),
            other => return Err(format!("request {number}: {other:?}").into()),
        };
        let drawn = requests.get(number).ok_or("an unknown request")?;
        let target = format!("xds:///{}", drawn.authority);
        cases.push(case(("target", target), "grpc", drawn, found));
    }
    if cases.len() != requests.len() {
        return Err(format!("{} of {} calls ended", cases.len(), requests.len()).into());
    }
    assert_explained(&cx, &folder, cases).await
}
