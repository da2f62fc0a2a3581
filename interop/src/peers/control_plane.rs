//! Control planes of every make over a folder of YAML: a scenario holds for all of them.

use std::net::SocketAddr;

use super::foreign::{Foreign, ForeignControlPlane};
use super::oxds::Oxds;
use crate::config::Folder;
use crate::{Context, Fallible};

/// Makes of control planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Make {
    Oxds,
    Foreign(Foreign),
}

/// A running control plane.
#[derive(Debug)]
pub(crate) enum ControlPlane {
    Oxds(Oxds),
    Foreign(ForeignControlPlane),
}

impl Make {
    pub(crate) const GO: Self = Self::Foreign(Foreign::Go);
    pub(crate) const GO_V2: Self = Self::Foreign(Foreign::GoV2);
    pub(crate) const JAVA: Self = Self::Foreign(Foreign::Java);

    /// Part of a scenario's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Oxds => "oxds",
            Self::Foreign(make) => make.name(),
        }
    }
}

impl ControlPlane {
    /// Serves `folder` on an address that it can have again after its death.
    pub(crate) async fn serve(cx: &Context, make: Make, folder: &Folder) -> Fallible<Self> {
        Self::serve_on(cx, make, folder, cx.address()?).await
    }

    /// Serves `folder` on a given address, as a restarted process does.
    pub(crate) async fn serve_on(
        cx: &Context,
        make: Make,
        folder: &Folder,
        address: SocketAddr,
    ) -> Fallible<Self> {
        Ok(match make {
            Make::Oxds => Self::Oxds(Oxds::serve_on(cx, folder, address, cx.address()?).await?),
            Make::Foreign(make) => {
                Self::Foreign(ForeignControlPlane::serve_on(cx, make, folder, address).await?)
            }
        })
    }

    /// Address of ADS.
    pub(crate) fn grpc(&self) -> SocketAddr {
        match self {
            Self::Oxds(oxds) => oxds.grpc,
            Self::Foreign(other) => other.grpc,
        }
    }

    /// Sends SIGKILL and waits for the end.
    pub(crate) async fn kill(self) -> Fallible {
        match self {
            Self::Oxds(oxds) => oxds.kill().await,
            Self::Foreign(other) => other.kill().await,
        }
    }
}
