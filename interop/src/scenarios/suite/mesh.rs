//! The processes of a case: a control plane over a folder, servers, and the client.

use std::collections::BTreeMap;

use oxds_interop_xds::messages::{
    LoadBalancerAccumulatedStatsResponse, LoadBalancerStatsResponse, RpcType,
};

use crate::config::{Folder, api_listener};
use crate::peers::control_plane::{ControlPlane, Make};
use crate::peers::oxds::{Bootstrap, bootstrap};
use crate::peers::suite::{Suite, SuiteClient, SuiteServer};
use crate::scenarios::{SETTLED, SOON};
use crate::wait::until;
use crate::{Context, Fallible};

/// Calls in a row that must agree.
const AGREE: i32 = SETTLED as i32;
/// Both methods.
pub(super) const BOTH: [RpcType; 2] = [RpcType::EmptyCall, RpcType::UnaryCall];

/// Client, servers and control plane of a case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Roles {
    pub(super) client: Suite,
    pub(super) server: Suite,
    pub(super) control_plane: Make,
}

impl Roles {
    /// Returns the number of calls that a move to another cluster may lose: grpc-go has a race of its own there
    /// (`Grpc::is_own_race`), which a call or two may hit.
    pub(super) fn lost_in_a_move(self) -> i32 {
        if self.client == Suite::Go { 2 } else { 0 }
    }
}

/// A control plane over a folder, and the client that it configures.
pub(super) struct Mesh {
    pub(super) folder: Folder,
    pub(super) client: SuiteClient,
    control_plane: ControlPlane,
}

impl Mesh {
    pub(super) async fn start(
        cx: &Context,
        roles: Roles,
        resources: &[String],
        flags: &[&str],
    ) -> Fallible<Self> {
        Self::start_with(cx, roles, api_listener(), resources, flags).await
    }

    /// The same with another listener.
    pub(super) async fn start_with(
        cx: &Context,
        roles: Roles,
        listener: String,
        resources: &[String],
        flags: &[&str],
    ) -> Fallible<Self> {
        let folder = Folder::create(&cx.dir)?;
        folder.write("listener.yaml", &[listener])?;
        folder.write("mesh.yaml", resources)?;
        let control_plane = ControlPlane::serve(cx, roles.control_plane, &folder).await?;
        let file = bootstrap(cx, Bootstrap::Grpc, control_plane.grpc()).await?;
        let client = SuiteClient::start(cx, roles.client, &file, flags).await?;
        Ok(Self::of(folder, client, control_plane))
    }

    /// Processes that run already.
    pub(super) fn of(folder: Folder, client: SuiteClient, control_plane: ControlPlane) -> Self {
        Self {
            folder,
            client,
            control_plane,
        }
    }

    /// Replaces the route to the servers. Returns once a foreign control plane serves it; for ours, the results of the
    /// calls show when it does.
    pub(super) async fn edit(&self, resources: &[String]) -> Fallible {
        let ControlPlane::ThirdParty(theirs) = &self.control_plane else {
            return self.folder.write("mesh.yaml", resources);
        };
        let before = theirs.snapshots();
        self.folder.write("mesh.yaml", resources)?;
        until("the next snapshot", SOON, async || {
            Ok((theirs.snapshots() > before).then_some(()))
        })
        .await
    }

    /// Waits until the codes of `n` calls in a row satisfy the condition, which gets them by method.
    pub(super) async fn ended(
        &mut self,
        what: &str,
        n: i32,
        wanted: impl Fn(&Codes) -> bool,
    ) -> Fallible {
        until(what, SOON, async || {
            self.client.running()?;
            let before = self.client.total().await?;
            self.client.next(n).await?;
            let codes = codes(&before, &self.client.total().await?);
            if wanted(&codes) {
                Ok(Some(()))
            } else {
                Err(format!("{codes:?}").into())
            }
        })
        .await
    }

    /// Waits until exactly these hosts answer, and no call fails.
    pub(super) async fn served_by(&mut self, hosts: &[&str]) -> Fallible {
        let what = format!("calls at {hosts:?} only");
        self.client
            .settle(&what, AGREE, SOON, |seen| only(seen, hosts))
            .await?;
        Ok(())
    }
}

pub(super) fn only(seen: &LoadBalancerStatsResponse, hosts: &[&str]) -> bool {
    seen.num_failures == 0 && seen.rpcs_by_peer.keys().eq(hosts)
}

/// Servers with these host names, in order.
pub(super) async fn servers<const N: usize>(
    cx: &Context,
    roles: Roles,
    hosts: [&str; N],
) -> Fallible<[SuiteServer; N]> {
    let mut started = Vec::new();
    for host in hosts {
        started.push(SuiteServer::start(cx, roles.server, host).await?);
    }
    started
        .try_into()
        .map_err(|_| "as many servers as hosts".into())
}

/// Numbers of ended calls: by method, by status code.
pub(super) type Codes = BTreeMap<RpcType, BTreeMap<i32, i32>>;

/// The calls that ended between two readings.
fn codes(
    before: &LoadBalancerAccumulatedStatsResponse,
    after: &LoadBalancerAccumulatedStatsResponse,
) -> Codes {
    let count = |total: &LoadBalancerAccumulatedStatsResponse, method: RpcType, code: i32| {
        let stats = total.stats_per_method.get(method.name());
        stats.and_then(|stats| stats.result.get(&code).copied())
    };
    let mut codes = Codes::new();
    for method in BOTH {
        for code in 0..=16 {
            let earlier = count(before, method, code).unwrap_or_default();
            let ended = count(after, method, code).unwrap_or_default() - earlier;
            if ended > 0 {
                codes.entry(method).or_default().insert(code, ended);
            }
        }
    }
    codes
}
