//! `oxds serve` over TLS, and over mTLS with rules that bind the client's certificate to its node (S-78), with our own
//! client (C-16), other gRPC clients and Envoy.

use std::ffi::OsString;
use std::path::PathBuf;

use serde_json::Value;
use tokio::process::Command;

use super::envoy::resources;
use super::{SOON, Scenario, only_at};
use crate::backend::Backend;
use crate::calls::Calls;
use crate::certificates::{Certificates, NODE, Tls};
use crate::config::{Folder, LISTENER, api_listener, cluster, socket_listener};
use crate::http::HttpLoad;
use crate::peers::channel::ChannelLoad;
use crate::peers::envoy::Envoy;
use crate::peers::grpc::{Grpc, GrpcLoad};
use crate::peers::oxds::{self, Oxds};
use crate::process::{Process, output};
use crate::wait::until;
use crate::wire::Protocol;
use crate::{Context, Fallible};

pub(super) fn scenarios() -> Vec<Scenario> {
    let follow = |tls: Tls, peer: Peer| {
        let name = format!("{}_{}_follows_an_edit", tls.name(), peer.name());
        Scenario::new(name, move |cx| follows_an_edit(cx, tls, peer))
    };
    let of_tls = |tls: Tls| {
        let watch = format!("{}_oxds_watch_follows_an_edit", tls.name());
        let watch = Scenario::new(watch, move |cx| watch_follows_an_edit(cx, tls));
        let peers = [Peer::Channel, Peer::Grpc(Grpc::Go), Peer::Envoy];
        peers
            .map(|peer| follow(tls, peer))
            .into_iter()
            .chain([watch])
    };
    let mut all: Vec<_> = Tls::BOTH.into_iter().flat_map(of_tls).collect();
    all.push(follow(Tls::Mutual, Peer::Grpc(Grpc::Core)));
    all.push(follow(Tls::Mutual, Peer::EnvoyRest));
    all.push(Scenario::new(
        "mtls_new_certificates_apply_to_the_next_connection".to_owned(),
        new_certificates,
    ));
    all
}

/// The clients.
#[derive(Clone, Copy, Debug)]
enum Peer {
    /// Our channel.
    Channel,
    Grpc(Grpc),
    /// Envoy over ADS.
    Envoy,
    /// Envoy over REST.
    EnvoyRest,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::Grpc(grpc) => grpc.name(),
            Self::Envoy => "envoy",
            Self::EnvoyRest => "envoy_rest",
        }
    }

    fn listener(self) -> String {
        match self {
            Self::Channel | Self::Grpc(_) => api_listener(),
            Self::Envoy | Self::EnvoyRest => socket_listener(),
        }
    }
}

/// A peer whose calls follow its configuration.
enum Load {
    Channel(ChannelLoad),
    Grpc(GrpcLoad),
    Envoy(
        HttpLoad,
        #[expect(dead_code, reason = "kept running")] Envoy,
    ),
}

impl Load {
    fn calls(&self) -> &Calls {
        match self {
            Self::Channel(load) => &load.calls,
            Self::Grpc(load) => &load.calls,
            Self::Envoy(load, _) => &load.calls,
        }
    }

    fn none_failed(&self) -> Fallible {
        let is_own_race =
            |failure: &str| matches!(self, Self::Grpc(_)) && Grpc::Go.is_own_race(failure);
        self.calls().none_failed_but(is_own_race)
    }
}

/// A control plane over TLS, and its certificates.
struct Secured {
    folder: Folder,
    certificates: Certificates,
    tls: Tls,
    oxds: Oxds,
}

impl Secured {
    async fn start(cx: &Context, tls: Tls, files: &[(&str, &[String])]) -> Fallible<Self> {
        let folder = Folder::create(&cx.dir)?;
        for (file, documents) in files {
            folder.write(file, documents)?;
        }
        let certificates = Certificates::create(&cx.dir)?;
        let oxds =
            Oxds::serve_with(cx, &folder, cx.address()?, &certificates.of_oxds(tls)?).await?;
        Ok(Self {
            folder,
            certificates,
            tls,
            oxds,
        })
    }

    /// The bootstrap file of a gRPC client.
    fn bootstrap(&self, cx: &Context) -> Fallible<PathBuf> {
        let path = cx.dir.join("bootstrap.json");
        let json = self.certificates.bootstrap(self.oxds.grpc, self.tls);
        std::fs::write(&path, json.to_string())?;
        Ok(path)
    }

    /// The bootstrap file of Envoy: that of `oxds bootstrap` with TLS on its cluster, or one that uses REST.
    async fn envoy_bootstrap(&self, cx: &Context, peer: Peer) -> Fallible<PathBuf> {
        let kind = oxds::Bootstrap::Envoy(Protocol::Sotw);
        let path = oxds::bootstrap_of(cx, kind, self.oxds.grpc, NODE).await?;
        let mut text = std::fs::read_to_string(&path)?;
        if let Peer::EnvoyRest = peer {
            text = by_rest(&text)?;
        }
        let cluster = "    load_assignment:\n";
        let secured = self.certificates.of_envoy(self.tls) + cluster;
        std::fs::write(&path, text.replacen(cluster, &secured, 1))?;
        Ok(path)
    }

    async fn load(&self, cx: &Context, peer: Peer) -> Fallible<Load> {
        Ok(match peer {
            Peer::Channel => Load::Channel(ChannelLoad::start(&self.bootstrap(cx)?)?),
            Peer::Grpc(grpc) => Load::Grpc(grpc.call(cx, &self.bootstrap(cx)?)?),
            Peer::Envoy | Peer::EnvoyRest => {
                let bootstrap = self.envoy_bootstrap(cx, peer).await?;
                let mut envoy = Envoy::start(cx, &bootstrap).await?;
                let load = HttpLoad::start(envoy.listener(LISTENER).await?, 3);
                Load::Envoy(load, envoy)
            }
        })
    }

    /// An `oxds` command with this server and its certificates.
    fn asking(&self, cx: &Context, words: &[&str]) -> Command {
        let mut command = Command::new(&cx.programs.oxds);
        command.args(words).args(["--node-id", NODE]);
        command.args(["--server", &self.oxds.grpc.to_string()]);
        command.args(self.certificates.of_asking(self.tls));
        command
    }
}

/// An Envoy bootstrap that polls each type by REST; the polled resources do not refer to ADS.
fn by_rest(bootstrap: &str) -> Fallible<String> {
    let (before, rest) = bootstrap
        .split_once("dynamic_resources:\n")
        .ok_or("a bootstrap without dynamic resources")?;
    let (_, rest) = rest
        .split_once("static_resources:\n")
        .ok_or("a bootstrap without a cluster")?;
    let (source, http2) = (REST, "explicit_http_config:");
    let (cluster, protocol) = rest.split_once(http2).ok_or("a cluster without HTTP/2")?;
    let (_, assignment) = protocol
        .split_once("    load_assignment:\n")
        .ok_or("a cluster without endpoints")?;
    Ok(format!(
        "{before}dynamic_resources:\n  cds_config: {source}\n  lds_config: {source}\nstatic_resources:\n{cluster}\
         explicit_http_config: {{ http_protocol_options: {{}} }}\n    load_assignment:\n{assignment}"
    ))
}

/// The `ConfigSource` for ADS in the folders here, and the one for REST.
const ADS: &str = "{ ads: {}, resource_api_version: V3 }";
const REST: &str = "{ resource_api_version: V3, api_config_source: { transport_api_version: V3, api_type: REST, \
                    cluster_names: [xds], refresh_delay: 0.2s } }";

/// Routes to blue or to green, in the form of this client.
fn mesh(peer: Peer, to: &str, blue: &Backend, green: &Backend) -> [String; 5] {
    resources(&[(to, 1)], blue, green).map(|text| in_words_of(peer, &text))
}

fn in_words_of(peer: Peer, text: &str) -> String {
    match peer {
        Peer::EnvoyRest => text.replace(ADS, REST),
        _ => text.to_owned(),
    }
}

/// Given `oxds serve` over TLS, or over mTLS with a rule for the one client, and a peer that calls blue,
/// when the route is edited to green,
/// then calls follow, and none fails; the status shows the node in sync.
async fn follows_an_edit(cx: Context, tls: Tls, peer: Peer) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let listener = [in_words_of(peer, &peer.listener())];
    let before = mesh(peer, "blue", &blue, &green);
    let files: [(&str, &[String]); 2] = [("listener.yaml", &listener), ("mesh.yaml", &before)];
    let secured = Secured::start(&cx, tls, &files).await?;
    let load = secured.load(&cx, peer).await?;
    only_at(load.calls(), "calls", &["blue"]).await?;
    let after = mesh(peer, "green", &blue, &green);
    secured.folder.write("mesh.yaml", &after)?;
    only_at(load.calls(), "calls", &["green"]).await?;
    load.none_failed()?;
    secured.oxds.reports_in_sync(NODE, SOON).await
}

/// Given the same,
/// when a cluster is added,
/// then `oxds watch` prints it, by ADS and by polling.
async fn watch_follows_an_edit(cx: Context, tls: Tls) -> Fallible {
    let secured = Secured::start(&cx, tls, &[("a.yaml", &[cluster("a")])]).await?;
    let url = format!("https://{}", secured.oxds.grpc);
    let by_ads = secured.asking(&cx, &["watch", "clusters", "-o", "json"]);
    let mut by_rest = Command::new(&cx.programs.oxds);
    by_rest.args(["watch", "clusters", "-o", "json", "--node-id", NODE]);
    by_rest.args(["--rest", &url]);
    by_rest.args(secured.certificates.of_asking(tls));
    let mut watches = vec![
        Process::spawn("watch", by_ads, &cx.dir, |_| ())?,
        Process::spawn("watch-rest", by_rest, &cx.dir, |_| ())?,
    ];
    for watch in &mut watches {
        added(watch, "a").await?;
    }
    secured.folder.write("b.yaml", &[cluster("b")])?;
    for watch in &mut watches {
        added(watch, "b").await?;
    }
    Ok(())
}

/// Waits until a watch has printed that a cluster was added.
async fn added(watch: &mut Process, name: &str) -> Fallible {
    until(&format!("{name}, which was added"), SOON, async || {
        watch.running()?;
        let lines = watch.all("");
        let lines = lines
            .iter()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_added = |line: &Value| line["change"] == "added" && line["name"] == name;
        Ok(lines.into_iter().any(|line| is_added(&line)).then_some(()))
    })
    .await
}

/// Given `oxds serve` over mTLS, and grpc-go, which calls blue,
/// when authority, server's and client's certificate are replaced on disk,
/// then a new client that trusts only the new authority is served, without a restart (S-78), and the open stream
/// continues with its old certificates; when the control plane is killed and returns with another configuration, then
/// grpc-go connects with its new files (gRFC A65) and follows; no call fails.
async fn new_certificates(cx: Context) -> Fallible {
    let (blue, green) = (
        Backend::start("blue").await?,
        Backend::start("green").await?,
    );
    let to = |name: &str| mesh(Peer::Channel, name, &blue, &green);
    let (listener, before) = ([api_listener()], to("blue"));
    let files: [(&str, &[String]); 2] = [("listener.yaml", &listener), ("mesh.yaml", &before)];
    let secured = Secured::start(&cx, Tls::Mutual, &files).await?;
    let load = secured.load(&cx, Peer::Grpc(Grpc::Go)).await?;
    only_at(load.calls(), "calls", &["blue"]).await?;

    secured.certificates.renew()?;
    until("a new client by new certificates", SOON, async || {
        output(secured.asking(&cx, &["get", "cds", "blue"]))
            .await
            .map(Some)
    })
    .await?;
    secured.folder.write("mesh.yaml", &to("green"))?;
    only_at(load.calls(), "calls", &["green"]).await?;

    let address = secured.oxds.grpc;
    let options: Vec<OsString> = secured.certificates.of_oxds(Tls::Mutual)?;
    secured.oxds.kill().await?;
    secured.folder.write("mesh.yaml", &to("blue"))?;
    let _oxds = Oxds::serve_with(&cx, &secured.folder, address, &options).await?;
    only_at(load.calls(), "calls", &["blue"]).await?;
    load.none_failed()
}
