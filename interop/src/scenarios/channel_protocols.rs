//! Our own channel, configured by other control planes, over SotW and delta.

use oxds_client::{ClientPool, Options, Protocol};

use super::channel_v2::served_by;
use super::{SETTLED, SOON, Scenario};
use crate::backend::Backend;
use crate::config::{Folder, api_listener, assignment, cluster, cluster_with, routes};
use crate::peers::channel::ChannelLoad;
use crate::peers::oxds::{Bootstrap, bootstrap};
use crate::peers::third_party::{ThirdParty, ThirdPartyControlPlane};
use crate::{Context, Fallible};

/// `grpc-status` of a call to a service without configuration.
const UNAVAILABLE: &str = "14 ";

pub(super) fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for make in [ThirdParty::Go, ThirdParty::Java] {
        for (protocol, what) in [(Protocol::Sotw, "sotw"), (Protocol::Delta, "delta")] {
            let name = format!("channel_by_{}_{what}", make.name());
            all.push(Scenario::new(name, move |cx| follows(cx, make, protocol)));
        }
    }
    all
}

/// Given calls to blue and green by weight,
/// when an endpoint moves, the route moves to a new cluster, and that cluster changes to a form that gRPC does not
/// know,
/// then calls follow, continue with the last valid form, none fails, and the control plane gets the NACK with its
/// reason;
/// when the listener is deleted, then calls end with `UNAVAILABLE`; when it returns, they succeed (C-273, C-274).
///
/// Clusters that the route has left stay: neither of these control planes makes before it breaks. Over SotW,
/// java-control-plane does not respond any more once a requested name is missing, so that nothing can be deleted there.
async fn follows(cx: Context, make: ThirdParty, protocol: Protocol) -> Fallible {
    let (blue, red) = (Backend::start("blue").await?, Backend::start("red").await?);
    let green = Backend::start("green").await?;
    let folder = Folder::create(&cx.dir)?;
    folder.write("listener.yaml", &[api_listener()])?;
    let both = |at_blue: &Backend| {
        [
            routes(&[("blue", 50), ("green", 50)]),
            cluster("blue"),
            cluster("green"),
            assignment("blue", &[&[at_blue.address]]),
            assignment("green", &[&[green.address]]),
        ]
    };
    folder.write("mesh.yaml", &both(&blue))?;
    let mut control_plane = ThirdPartyControlPlane::serve(&cx, make, &folder).await?;
    let file = bootstrap(&cx, Bootstrap::Grpc, control_plane.grpc).await?;
    let known = oxds_client::Bootstrap::from_json(&std::fs::read_to_string(file)?)?;
    let options = Options::default().with_protocol(protocol);
    let load = ChannelLoad::start_by(ClientPool::with_options(known, options))?;
    served_by(&load, &["blue", "green"]).await?;

    folder.write("mesh.yaml", &both(&red))?;
    served_by(&load, &["green", "red"]).await?;
    // java-control-plane sends a new cluster before it is requested, and then not when it is.
    let name = match (make, protocol) {
        (ThirdParty::Java, Protocol::Delta) => "green",
        _ => "one",
    };
    let moved = |new: String| {
        let mut resources = vec![routes(&[(name, 1)]), new];
        resources.push(assignment(name, &[&[blue.address]]));
        // Clusters that the route has left stay.
        for (left, backend) in [("blue", &red), ("green", &green)] {
            if left != name {
                resources.extend([cluster(left), assignment(left, &[&[backend.address]])]);
            }
        }
        resources
    };
    folder.write("mesh.yaml", &moved(cluster(name)))?;
    served_by(&load, &["blue"]).await?;

    let refused = cluster_with(name, "lb_policy: MAGLEV");
    folder.write("mesh.yaml", &moved(refused))?;
    let nack = control_plane.nack(SOON).await?;
    if !(nack.contains("Cluster") && nack.contains(name) && nack.contains("lb_policy")) {
        return Err(format!("the NACK lacks name or reason: {nack}").into());
    }
    load.calls.next(SETTLED, SOON).await?;
    folder.write("mesh.yaml", &moved(cluster(name)))?;
    served_by(&load, &["blue"]).await?;
    load.calls.none_failed()?;

    if (make, protocol) == (ThirdParty::Java, Protocol::Sotw) {
        return Ok(());
    }
    folder.remove("listener.yaml")?;
    let unavailable = |counts: &crate::calls::Counts| {
        let mut failures = counts.failures.iter();
        counts.by_backend.is_empty() && failures.all(|failure| failure.starts_with(UNAVAILABLE))
    };
    load.calls
        .settle("calls that fail", SETTLED, SOON, unavailable)
        .await?;
    folder.write("listener.yaml", &[api_listener()])?;
    served_by(&load, &["blue"]).await
}
