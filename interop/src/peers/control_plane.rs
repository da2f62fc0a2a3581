//! Control planes of every make, over a folder of YAML: what a scenario says of one holds for all.

use std::net::SocketAddr;

use super::go_control_plane::GoControlPlane;
use super::oxds::Oxds;
use crate::config::Folder;
use crate::{Context, Fallible};

/// Whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Make {
    Oxds,
    Go,
}

/// A running one.
#[derive(Debug)]
pub(crate) enum ControlPlane {
    Oxds(Oxds),
    Go(GoControlPlane),
}

impl Make {
    /// Its name within a scenario's.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Oxds => "oxds",
            Self::Go => "go_control_plane",
        }
    }
}

impl ControlPlane {
    /// Serves `folder` on a port of the system's choice.
    pub(crate) async fn serve(cx: &Context, make: Make, folder: &Folder) -> Fallible<Self> {
        Self::serve_on(cx, make, folder, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Serves `folder` on a given address: the restart of a process that had it.
    pub(crate) async fn serve_on(
        cx: &Context,
        make: Make,
        folder: &Folder,
        address: SocketAddr,
    ) -> Fallible<Self> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Ok(match make {
            Make::Oxds => Self::Oxds(Oxds::serve_on(cx, folder, address, any).await?),
            Make::Go => Self::Go(GoControlPlane::serve_on(cx, folder, address).await?),
        })
    }

    /// Where ADS is served.
    pub(crate) fn grpc(&self) -> SocketAddr {
        match self {
            Self::Oxds(oxds) => oxds.grpc,
            Self::Go(go) => go.grpc,
        }
    }
}
