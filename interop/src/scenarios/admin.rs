//! Admin services of our own client side, read by gRPC's own stubs (gRFC A14, A38, A40).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use oxds_channel::{ClientPool, Pool, XdsChannel};

use super::Scenario;
use crate::backend::{Backend, METHOD};
use crate::config::{Folder, LISTENER, api_listener, assignment, cluster, routes};
use crate::peers::admin::{Admin, ChannelzEntry, Reader};
use crate::peers::channel::call;
use crate::peers::oxds::{Bootstrap, Oxds, bootstrap};
use crate::{Context, Fallible};

/// Number of calls, which channelz must show.
const CALLS: u64 = 40;

pub(super) fn scenarios() -> Vec<Scenario> {
    let scenario = |reader: Reader, name: &str| {
        Scenario::new(format!("admin_is_read_by_grpc_{name}"), move |cx| {
            is_read(cx, reader)
        })
    };
    vec![scenario(Reader::Core, "core"), scenario(Reader::Go, "go")]
}

/// Given a channel over two backends, and the admin services of its process,
/// when 40 calls are made,
/// then channelz shows exactly them, by channel, endpoint and connection; the connection to the control plane; and the
/// server that answers; CSDS shows the channel's resources, all `ACKED`; health is `SERVING`.
async fn is_read(cx: Context, reader: Reader) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let folder = Folder::create(&cx.dir)?;
    folder.write("listener.yaml", &[api_listener()])?;
    let both: &[_] = &[blue.address, green.address];
    let mesh = [
        routes(&[("shop", 1)]),
        cluster("shop"),
        assignment("shop", &[both]),
    ];
    folder.write("mesh.yaml", &mesh)?;
    let oxds = Oxds::serve(&cx, &folder).await?;
    let file = bootstrap(&cx, Bootstrap::Grpc, oxds.grpc).await?;
    let pool = ClientPool::new(oxds_channel::Bootstrap::from_json(
        &std::fs::read_to_string(file)?,
    )?);
    let admin = Admin::serve(&pool).await?;
    let target = format!("xds:///{LISTENER}");
    let mut channel = XdsChannel::builder(target.clone())
        .clients(pool)
        .pool(Pool::new())
        .build()?;
    let mut answered = BTreeMap::<String, u64>::new();
    for _ in 0..CALLS {
        *answered
            .entry(call(&mut channel, METHOD).await??)
            .or_default() += 1;
    }

    let seen = Seen(reader.read(&cx, admin.address).await?);
    seen.shows_channel(
        &target,
        &[
            (blue.address, answered["blue"]),
            (green.address, answered["green"]),
        ],
    )?;
    seen.shows_control_plane(&oxds.grpc.to_string())?;
    seen.shows_the_rest(&target, &admin.address.to_string())
}

/// The contents of the admin services, as a reader saw them.
struct Seen(Vec<ChannelzEntry>);

impl Seen {
    /// The entries of one sort below a parent.
    fn of(&self, what: &'static str, parent: &str) -> Vec<&ChannelzEntry> {
        let found = self.0.iter();
        found
            .filter(|thing| thing.what == what && thing.of == parent)
            .collect()
    }

    fn expect(&self, holds: bool, what: &str) -> Fallible {
        let unlike = || format!("{what}; the reader saw {:#?}", self.0).into();
        holds.then_some(()).ok_or_else(unlike)
    }

    /// The channel with all its calls, and each endpoint with its own.
    fn shows_channel(&self, target: &str, endpoints: &[(SocketAddr, u64)]) -> Fallible {
        let channels = self.of("channel", "");
        self.expect(channels.len() == 2, "a channel and the control plane's")?;
        let shop = channels.iter().find(|thing| thing.target == target);
        let shop = shop.ok_or_else(|| format!("no channel {target} in {:#?}", self.0))?;
        self.expect(shop.state == "READY" && shop.created > 0, "a ready channel")?;
        self.expect(shop.calls == [CALLS, CALLS, 0], "all calls, on the channel")?;
        for (address, calls) in endpoints {
            let (address, calls) = (address.to_string(), *calls);
            let below = self.of("subchannel", target);
            let below = below.iter().find(|thing| thing.target == address);
            let is_right =
                |thing: &&ChannelzEntry| thing.calls == [calls, calls, 0] && thing.state == "READY";
            self.expect(below.is_some_and(is_right), "each endpoint's calls")?;
            let sockets = self.of("socket", &address);
            let is_right = |socket: &&ChannelzEntry| {
                socket.calls == [calls, calls, 0] && socket.remote == address
            };
            self.expect(
                sockets.len() == 1 && is_right(&sockets[0]),
                "each connection's streams",
            )?;
        }
        Ok(())
    }

    /// The connection to the control plane, with its one stream.
    fn shows_control_plane(&self, address: &str) -> Fallible {
        let ads = self.of("socket", address);
        self.expect(ads.len() == 1, "the connection to the control plane")?;
        self.expect(
            ads[0].remote == address && ads[0].calls == [1, 0, 0],
            "its one stream",
        )
    }

    /// The server with the reader's own calls, the resources of CSDS, and health.
    fn shows_the_rest(&self, target: &str, address: &str) -> Fallible {
        let servers = self.of("server", "");
        let [server] = &servers[..] else {
            return self.expect(false, "one server");
        };
        let is_counted = server.calls[0] > 0 && server.calls[1] + 1 == server.calls[0];
        self.expect(
            is_counted,
            "the reader's own calls, of which one is in progress",
        )?;
        self.expect(server.local == address, "the address of the server")?;
        let resources = self.of("resource", target);
        let acked = resources.iter().filter(|thing| thing.state == "ACKED");
        self.expect(
            resources.len() == 4 && acked.count() == 4,
            "listener, routes, cluster, assignment",
        )?;
        self.expect(self.of("health", "")[0].state == "SERVING", "health")
    }
}
