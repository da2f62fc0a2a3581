//! Our own channel between two control planes of different make (gRFC A71), which die and return under load.

use std::net::SocketAddr;

use oxds_channel::{ClientPool, TransportPolicy};
use oxds_core::resource::Cluster;

use super::channel_v2::{all_to, asks_in, bootstrap, free_address, served_by};
use super::{SETTLED, SOON, Scenario};
use crate::backend::Backend;
use crate::config::{Folder, LISTENER, in_v2};
use crate::peers::channel::ChannelLoad;
use crate::peers::control_plane::{ControlPlane, Make};
use crate::{Context, Fallible};

/// The more wanted one first.
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

/// One of the two: where it is, whether it runs or not.
struct Place {
    make: Make,
    address: SocketAddr,
    folder: Folder,
}

impl Place {
    async fn new(cx: &Context, make: Make, name: &str) -> Fallible<Self> {
        let dir = cx.dir.join(name);
        std::fs::create_dir_all(&dir)?;
        Ok(Self {
            make,
            address: free_address().await?,
            folder: Folder::create(&dir)?,
        })
    }

    /// Leads all calls to a backend; by the same names on both, as replicas have them.
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

    /// What the bootstrap says of it.
    fn entry(&self) -> (SocketAddr, &'static [&'static str]) {
        match self.make {
            Make::GO_V2 => (self.address, &[]),
            _ => (self.address, &["xds_v3"]),
        }
    }
}

/// Given two control planes of different make, each leading to a backend of its own, the first of them away,
/// when a client begins, then it is served by the second (C-148); when the first comes, by the first (C-158);
/// when the first is killed, then who has all it needs stays with that (C-149), and a client that begins is served by
/// the second; when the first returns, both are served by it (C-165);
/// when it is killed, and one client watches something new, then that one is served by the second (C-153); when the first
/// returns with nothing new, both are served by it;
/// when that is no longer wanted and both are killed, then calls go on; when the second returns, then who has all it needs
/// stays as it is; when the first does, with another backend, then calls end up there; and no call fails in all this.
async fn falls_back(cx: Context, pair: [Make; 2]) -> Fallible {
    let (blue, green) = (
        Backend::start("first").await?,
        Backend::start("second").await?,
    );
    let first = Place::new(&cx, pair[0], "first").await?;
    let second = Place::new(&cx, pair[1], "second").await?;
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
    // Nobody has it: as long as it is wanted, whoever is there is asked.
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

/// That ours is asked in v3 by the first client, whatever the other one speaks.
async fn speaks_v3(control_plane: &ControlPlane) -> Fallible {
    match control_plane {
        ControlPlane::Oxds(oxds) => asks_in(oxds, "early", "v3").await,
        ControlPlane::Foreign(_) => Ok(()),
    }
}
