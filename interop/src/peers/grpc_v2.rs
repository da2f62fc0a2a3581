//! grpc-go releases that speak xDS v2.

use std::path::Path;

use tokio::process::Command;

use super::grpc::{GrpcLoad, WORKERS};
use crate::backend::METHOD;
use crate::config::LISTENER;
use crate::{Context, Fallible};

/// A release, and the versions that its bootstrap declares for the control plane.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OldGo {
    /// 1.32: speaks v2 only.
    V1_32,
    /// 1.36, with a control plane that declares v2 only.
    V1_36InV2,
    /// 1.36, with a control plane that declares v3, too.
    V1_36,
}

impl OldGo {
    pub(crate) const ALL: [Self; 3] = [Self::V1_32, Self::V1_36InV2, Self::V1_36];

    /// Part of a scenario's name, and the node id.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V1_32 => "grpc_go_1_32",
            Self::V1_36InV2 => "grpc_go_1_36_in_v2",
            Self::V1_36 => "grpc_go_1_36_in_v3",
        }
    }

    /// API version that the release uses.
    pub(crate) fn api(self) -> &'static str {
        match self {
            Self::V1_32 | Self::V1_36InV2 => "v2",
            Self::V1_36 => "v3",
        }
    }

    /// Starts calling `xds:///shop`, with a bootstrap file that declares the versions of `self`.
    pub(crate) fn call(self, cx: &Context, bootstrap: &Path) -> Fallible<GrpcLoad> {
        let [v1_32, v1_36] = &cx.programs.go.v2_clients;
        let mut command = Command::new(match self {
            Self::V1_32 => v1_32,
            Self::V1_36InV2 | Self::V1_36 => v1_36,
        });
        let mut text = std::fs::read_to_string(bootstrap)?.replace("interop-1", self.name());
        if self.api() == "v2" {
            text = text.replace("xds_v3", "none");
        }
        let bootstrap = cx.dir.join(format!("{}.json", self.name()));
        std::fs::write(&bootstrap, text)?;
        command.args([&format!("xds:///{LISTENER}"), METHOD, WORKERS]);
        command.env("GRPC_XDS_BOOTSTRAP", bootstrap);
        command.env("GRPC_GO_LOG_SEVERITY_LEVEL", "warning");
        GrpcLoad::spawn(cx, self.name(), command)
    }
}
