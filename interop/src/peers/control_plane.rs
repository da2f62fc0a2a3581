//! Control planes of every make over a folder of YAML: a scenario holds for all of them.

use std::net::SocketAddr;

use super::oxds::Oxds;
use super::third_party::{ThirdParty, ThirdPartyControlPlane};
use crate::config::Folder;
use crate::{Context, Fallible};

/// Makes of control planes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Make {
    Oxds,
    ThirdParty(ThirdParty),
}

/// A running control plane.
#[derive(Debug)]
pub(crate) enum ControlPlane {
    Oxds(Oxds),
    ThirdParty(ThirdPartyControlPlane),
}

impl Make {
    pub(crate) const GO: Self = Self::ThirdParty(ThirdParty::Go);
    pub(crate) const GO_V2: Self = Self::ThirdParty(ThirdParty::GoV2);
    pub(crate) const JAVA: Self = Self::ThirdParty(ThirdParty::Java);

    /// Part of a scenario's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Oxds => "oxds",
            Self::ThirdParty(make) => make.name(),
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
            Make::ThirdParty(make) => {
                Self::ThirdParty(ThirdPartyControlPlane::serve_on(cx, make, folder, address).await?)
            }
        })
    }

    /// Address of ADS.
    pub(crate) fn grpc(&self) -> SocketAddr {
        match self {
            Self::Oxds(oxds) => oxds.grpc,
            Self::ThirdParty(other) => other.grpc,
        }
    }

    /// Sends SIGKILL and waits for the end.
    pub(crate) async fn kill(self) -> Fallible {
        match self {
            Self::Oxds(oxds) => oxds.kill().await,
            Self::ThirdParty(other) => other.kill().await,
        }
    }
}
