//! Our own channel between two control planes of different make (gRFC A71), which die and return under load.

use std::net::SocketAddr;

use oxds_channel::{ClientPool, TransportPolicy};
use oxds_core::resource::Cluster;

use super::channel_v2::{all_to, asks_in, bootstrap, served_by};
use super::{SETTLED, SOON, Scenario};
use crate::backend::Backend;
use crate::config::{Folder, LISTENER, in_v2};
use crate::peers::channel::ChannelLoad;
use crate::peers::control_plane::{ControlPlane, Make};
use crate::{Context, Fallible};

/// The primary first.
const PAIRS: [[Make; 2]; 6] = [
    [Make::GO, Make::Oxds],
    [Make::Oxds, Make::GO],
    [Make::JAVA, Make::Oxds],
    [Make::GO, Make::JAVA],
    [Make::GO_V2, Make::Oxds],
    [Make::Oxds, Make::GO_V2],
];

pub(super) fn scenarios() -> Vec<Scenario> {
    PAIRS
        .into_iter()
        .map(|pair| {
            let [first, second] = pair.map(Make::name);
            let name = format!("channel_falls_back_from_{first}_to_{second}");
            Scenario::new(name, move |cx| falls_back(cx, pair))
        })
        .collect()
}

/// One of the two: its address, whether it runs or not.
struct ServerSlot {
    make: Make,
    address: SocketAddr,
    folder: Folder,
}

impl ServerSlot {
    async fn new(cx: &Context, make: Make, name: &str) -> Fallible<Self> {
        let dir = cx.dir.join(name);
        std::fs::create_dir_all(&dir)?;
        Ok(Self {
            make,
            address: cx.address()?,
            folder: Folder::create(&dir)?,
        })
    }

    /// Leads all calls to a backend, with the same names on both servers, as replicas have them.
    fn lead_to(&self, backend: &Backend) -> Fallible {
        let resources = all_to("blue", backend).map(|text| match self.make {
            Make::GO_V2 => in_v2(&text),
            _ => text,
        });
        self.folder.write("mesh.yaml", &resources)
    }

    async fn serve(&self, cx: &Context) -> Fallible<ControlPlane> {
        ControlPlane::serve_on(cx, self.make, &self.folder, self.address).await
    }

    /// Entry of the server in the bootstrap.
    fn entry(&self) -> (SocketAddr, &'static [&'static str]) {
        match self.make {
            Make::GO_V2 => (self.address, &[]),
            _ => (self.address, &["xds_v3"]),
        }
    }
}

/// Given two control planes of different make, each leading to its own backend, with the first one down,
/// when a client starts, then the second serves it (C-148); when the first starts, the first serves it (C-158);
/// when the first is killed, then a client that has all its resources stays (C-149), and a client that starts is served
/// by the second; when the first returns, it serves both (C-165);
/// when it is killed and one client watches a new name, then the second serves that client (C-153); when the first
/// returns with unchanged contents, it serves both;
/// when that watch has ended and both servers are killed, then calls continue; when the second returns, then clients
/// that have all their resources stay as they are; when the first returns with another backend, then calls end up
/// there; and no call fails in all this.
async fn falls_back(cx: Context, pair: [Make; 2]) -> Fallible {
    let (blue, green) = (
        Backend::start("first").await?,
        Backend::start("second").await?,
    );
    let first = ServerSlot::new(&cx, pair[0], "first").await?;
    let second = ServerSlot::new(&cx, pair[1], "second").await?;
    first.lead_to(&blue)?;
    second.lead_to(&green)?;
    let servers = [first.entry(), second.entry()];
    let clients = |name: &str| -> Fallible<ClientPool> {
        let bootstrap = bootstrap(name, &servers, TransportPolicy::Auto)?;
        Ok(ClientPool::new(bootstrap))
    };

    let spare = second.serve(&cx).await?;
    let early_clients = clients("early")?;
    let early = ChannelLoad::start_by(early_clients.clone())?;
    served_by(&early, &["second"]).await?;
    speaks_v3(&spare).await?;

    let wanted = first.serve(&cx).await?;
    served_by(&early, &["first"]).await?;
    speaks_v3(&wanted).await?;

    wanted.kill().await?;
    let late = ChannelLoad::start_by(clients("late")?)?;
    served_by(&late, &["second"]).await?;
    early.calls.next(SETTLED, SOON).await?;
    served_by(&early, &["first"]).await?;

    let wanted = first.serve(&cx).await?;
    served_by(&late, &["first"]).await?;

    wanted.kill().await?;
    let client = early_clients.client(&format!("xds:///{LISTENER}"));
    let new = client.watch::<Cluster>("another");
    served_by(&early, &["second"]).await?;
    served_by(&late, &["first"]).await?;
    let wanted = first.serve(&cx).await?;
    served_by(&early, &["first"]).await?;
    // No server has this name: as long as it is watched, each reachable server is asked.
    drop(new);

    spare.kill().await?;
    wanted.kill().await?;
    early.calls.next(SETTLED, SOON).await?;
    late.calls.next(SETTLED, SOON).await?;
    let _spare = second.serve(&cx).await?;
    served_by(&early, &["first"]).await?;
    let red = Backend::start("third").await?;
    first.lead_to(&red)?;
    let _wanted = first.serve(&cx).await?;
    for load in [&early, &late] {
        served_by(load, &["third"]).await?;
        load.calls.none_failed()?;
    }
    Ok(())
}

/// Asserts that the first client uses v3 with our server, whatever version the other server speaks.
async fn speaks_v3(control_plane: &ControlPlane) -> Fallible {
    match control_plane {
        ControlPlane::Oxds(oxds) => asks_in(oxds, "early", "v3").await,
        ControlPlane::ThirdParty(_) => Ok(()),
    }
}
