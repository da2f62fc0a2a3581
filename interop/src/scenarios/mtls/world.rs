//! Services of a mesh: a control plane, an authority, and processes with certificates of their own.

use oxds_testkit::certificates::Authority;

use crate::certificates::Tls;
use crate::config::server::{Chain, listener, rbac_filter, upstream_tls};
use crate::config::{Folder, api_listener, assignment, cluster_with, routes};
use crate::peers::channel::ChannelLoad;
use crate::peers::grpc::{Grpc, GrpcLoad};
use crate::peers::grpc_server::{GrpcServer, ServerMake};
use crate::peers::oxds::Oxds;
use crate::peers::service_files::ServiceFiles;
use crate::{Context, Fallible, calls::Calls};

/// Number of calls in a row that must fail. Each is retried three times, after a pause.
pub(super) const FAILED: usize = 12;

/// Name that clients expect of servers.
pub(super) const SERVER: &str = "spiffe://interop/server";
/// Name that servers allow to call.
pub(super) const CLIENT: &str = "spiffe://interop/client";
/// Name of another service.
pub(super) const OTHER: &str = "spiffe://interop/other";

/// Address of all services, which is a name in valid certificates, too, for clients that check it.
pub(super) const ADDRESS: &str = "127.0.0.1";

/// Makes of the client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Caller {
    /// `XdsChannel`, in the runner's process.
    Channel,
    /// gRPC in another language.
    Grpc(Grpc),
}

impl Caller {
    /// Part of a scenario's name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Channel => "channel",
            Self::Grpc(grpc) => grpc.name(),
        }
    }
}

/// A client that calls until it is dropped.
#[derive(Debug)]
pub(super) enum Load {
    Channel(ChannelLoad),
    Grpc(Box<GrpcLoad>),
}

impl Load {
    pub(super) fn calls(&self) -> &Calls {
        match self {
            Self::Channel(load) => &load.calls,
            Self::Grpc(load) => &load.calls,
        }
    }
}

/// A control plane over a folder, and the authority of its services.
#[derive(Debug)]
pub(super) struct World {
    pub(super) cx: Context,
    pub(super) authority: Authority,
    pub(super) folder: Folder,
    pub(super) oxds: Oxds,
}

impl World {
    pub(super) async fn start(cx: Context) -> Fallible<Self> {
        let authority = Authority::new("mesh")?;
        let folder = Folder::create(&cx.dir)?;
        let oxds = Oxds::serve(&cx, &folder).await?;
        Ok(Self {
            cx,
            authority,
            folder,
            oxds,
        })
    }

    /// Creates the files of a service with a valid certificate.
    pub(super) fn files(&self, name: &str, identity: &str) -> Fallible<ServiceFiles> {
        let issued = self.authority.issue(&[identity, ADDRESS])?;
        ServiceFiles::create(&self.cx, name, &issued, &self.authority)
    }

    /// Starts a server that answers with `name`. It requires client certificates, and allows only [`CLIENT`] to call.
    pub(super) async fn server(
        &self,
        make: ServerMake,
        name: &str,
        files: &ServiceFiles,
    ) -> Fallible<GrpcServer> {
        let bootstrap = files.bootstrap(&self.cx, self.oxds.grpc).await?;
        let server = GrpcServer::start(&self.cx, make, &bootstrap, name).await?;
        let rules = format!(
            "policies: {{ p: {{ permissions: [{{ any: true }}], principals: [{{ authenticated: {{ principal_name: {{ exact: \"{CLIENT}\" }} }} }}] }} }}"
        );
        let chain = Chain {
            filters: &[rbac_filter("rbac", &rules)],
            tls: Some(Tls::Mutual),
            ..Chain::default()
        };
        let listener = listener(server.address, chain);
        self.folder.write(&format!("{name}.yaml"), &[listener])?;
        Ok(server)
    }

    /// Leads the calls of gRPC clients to these servers, which must have the name [`SERVER`].
    pub(super) fn lead_to(&self, servers: &[&GrpcServer]) -> Fallible {
        let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
        let resources = [
            api_listener(),
            routes(&[("mesh", 1)]),
            cluster_with("mesh", &upstream_tls(Tls::Mutual, SERVER)),
            assignment("mesh", &[&addresses]),
        ];
        self.folder.write("mesh.yaml", &resources)
    }

    /// Starts a client with these certificates.
    pub(super) async fn call(&self, caller: Caller, files: &ServiceFiles) -> Fallible<Load> {
        let bootstrap = files.bootstrap(&self.cx, self.oxds.grpc).await?;
        Ok(match caller {
            Caller::Channel => Load::Channel(ChannelLoad::start(&bootstrap)?),
            Caller::Grpc(grpc) => Load::Grpc(Box::new(grpc.call(&self.cx, &bootstrap)?)),
        })
    }
}
