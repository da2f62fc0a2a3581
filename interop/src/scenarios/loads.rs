//! Load reports of our channel, to us and to a Go service that uses Envoy's protos.

use oxds_channel::Bootstrap;
use serde_json::{Value, json};

use super::{SOON, Scenario};
use crate::backend::METHOD;
use crate::config::{Folder, api_listener, assignment, cluster_with, routes};
use crate::peers::channel::{call, open};
use crate::peers::go_backend::GoBackend;
use crate::peers::oxds::{self, Oxds};
use crate::peers::third_party::{ThirdParty, ThirdPartyControlPlane};
use crate::wait::until;
use crate::{Context, Fallible, http};

/// Calls that succeed, and calls that fail.
const GOOD: u64 = 40;
const BAD: u64 = 5;

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("channel_reports_its_load_to_oxds".to_owned(), to_oxds),
        Scenario::new("channel_reports_its_load_to_go".to_owned(), to_go),
    ]
}

/// A folder with one cluster, which reports its load and some ORCA metrics of its grpc-go backend.
async fn configured(cx: &Context) -> Fallible<(Folder, GoBackend)> {
    let backend = GoBackend::start(cx).await?;
    let reported = "lrs_server: { self: {} }\n\
                    lrs_report_endpoint_metrics: [cpu_utilization, named_metrics.queue]";
    let resources = [
        routes(&[("blue", 1)]),
        cluster_with("blue", reported),
        assignment("blue", &[&[backend.address]]),
    ];
    let folder = Folder::create(&cx.dir)?;
    folder.write("listener.yaml", &[api_listener()])?;
    folder.write("mesh.yaml", &resources)?;
    Ok((folder, backend))
}

/// Makes the calls by a channel with this bootstrap, and drops it.
async fn make_calls(bootstrap: Bootstrap) -> Fallible {
    let mut channel = open(bootstrap)?;
    for _ in 0..GOOD {
        call(&mut channel, METHOD).await??;
    }
    for _ in 0..BAD {
        let outcome = call(&mut channel, GoBackend::FAIL).await?;
        outcome.err().ok_or("a call to fail did not")?;
    }
    Ok(())
}

/// Given a cluster that reports its load to `oxds serve`,
/// when our channel calls a grpc-go backend, and is dropped,
/// then `/status.json` counts each call as it ended, none in progress, and the backend's metrics (C-129, C-136, C-142,
/// C-143).
async fn to_oxds(cx: Context) -> Fallible {
    let (folder, _backend) = configured(&cx).await?;
    let control_plane = Oxds::serve(&cx, &folder).await?;
    let file = oxds::bootstrap(&cx, oxds::Bootstrap::Grpc, control_plane.grpc).await?;
    make_calls(Bootstrap::from_json(&std::fs::read_to_string(file)?)?).await?;
    until("all calls in /status.json", SOON, async || {
        let page = http::get(control_plane.http, "/status.json").await?;
        let status: Value = serde_json::from_slice(&page)?;
        let load = &status["loads"][0];
        let place = &load["localities"][0];
        let seen = json!({
            "cluster": load["cluster"], "node": load["node"], "locality": place["locality"],
            "requests": place["requests"], "in_progress": place["in_progress"],
            "queue": place["metrics"]["named_metrics.queue"],
        });
        let expected = json!({
            "cluster": "blue", "node": "interop-1", "locality": ["here", "z0", ""],
            "requests": { "issued": GOOD + BAD, "succeeded": GOOD, "errors": BAD }, "in_progress": 0,
            "queue": { "requests": GOOD, "total": 3.0 * GOOD as f64 },
        });
        if seen == expected { Ok(Some(())) } else { Err(load.to_string().into()) }
    })
    .await
}

/// Given the same folder served by go-control-plane, with a load reporting service of Envoy's protos beside it,
/// when our channel makes the calls, and is dropped,
/// then its node announces `send_all_clusters`, nothing is reported before the response, the reports add up to the
/// calls and to the backend's metrics, and the stream ends cleanly (C-130, C-132, C-134, C-136, C-142, C-143).
async fn to_go(cx: Context) -> Fallible {
    let (folder, _backend) = configured(&cx).await?;
    let mut control_plane = ThirdPartyControlPlane::serve(&cx, ThirdParty::Go, &folder).await?;
    let file = oxds::bootstrap(&cx, oxds::Bootstrap::Grpc, control_plane.grpc).await?;
    make_calls(Bootstrap::from_json(&std::fs::read_to_string(file)?)?).await?;
    let node = control_plane.load_line("lrs ", SOON).await?;
    if !node.starts_with("interop-1 ") || !node.contains("envoy.lrs.supports_send_all_clusters") {
        return Err(format!("the first request was of {node}").into());
    }
    control_plane.load_line("lrs end", SOON).await?;
    let loads = control_plane.loads();
    let sum = |field: &str| -> f64 { loads.iter().filter_map(|load| number(load, field)).sum() };
    let sums = [
        ("issued=", GOOD + BAD),
        ("succeeded=", GOOD),
        ("error=", BAD),
        ("named_metrics.queue=", GOOD),
        ("named_metrics.queue=:", 3 * GOOD),
        ("cpu_utilization=", GOOD),
        ("cpu_utilization=:", GOOD / 4),
    ];
    for (field, expected) in sums {
        if sum(field) != expected as f64 {
            return Err(format!("{field} is {}, not {expected}: {loads:#?}", sum(field)).into());
        }
    }
    let is_of_blue = |load: &String| load.starts_with("blue  here ");
    if loads.iter().all(is_of_blue) && !loads.iter().any(|load| load.contains("other")) {
        Ok(())
    } else {
        Err(format!("of another cluster, locality or metric: {loads:#?}").into())
    }
}

/// A field of a line, `NAME=N`; of a metric, `NAME=COUNT:TOTAL`, the total by `NAME=:`.
fn number(line: &str, field: &str) -> Option<f64> {
    let (name, is_total) = match field.strip_suffix(':') {
        Some(name) => (name, true),
        None => (field, false),
    };
    let value = line.split(' ').find_map(|word| word.strip_prefix(name))?;
    let (count, total) = value.split_once(':').unwrap_or((value, ""));
    (if is_total { total } else { count }).parse().ok()
}
